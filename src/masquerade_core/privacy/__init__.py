"""Noise, its calibration, and what can be claimed and proved of it."""
