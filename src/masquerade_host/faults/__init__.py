"""Faults: the evidence of one, how a run ends because of it, and how others check it."""
