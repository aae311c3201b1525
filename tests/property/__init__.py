"""Algebraic laws, checked with hypothesis."""
