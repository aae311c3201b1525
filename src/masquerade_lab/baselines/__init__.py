"""Baselines: one person holds all parties' records, and nobody sends anything."""
