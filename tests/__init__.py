"""Tests of masquerade."""
