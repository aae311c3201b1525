"""dp-gd, this program's own protocol: descent on sums of clipped gradients; every party draws a share of the noise."""
