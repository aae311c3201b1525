"""Gradient descent on clipped sums, under noise that every party draws a share of: this program's own protocol."""
