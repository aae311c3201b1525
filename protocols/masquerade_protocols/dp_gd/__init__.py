"""dp-gd, this program's own: gradient descent on clipped sums, under noise that every party draws a share of."""
