"""Differential privacy: drawing noise, accounting for it, sizing it for a target, and stating what is proved."""
