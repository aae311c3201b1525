"""dp-gd: gradient descent on clipped sums, under noise that every party draws a share of. This program's own protocol."""
