"""Draws of noise: integer vectors from a seat's random bits, and public bounds on them."""
