"""Descent on noisy examples, by Bixler."""
