"""Baselines: somebody holds all records, and nobody sends anything."""
