"""Accounting: the epsilon and delta that a given noise provides, and the noise that a given epsilon and delta need."""
