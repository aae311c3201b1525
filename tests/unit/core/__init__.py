"""Tests of masquerade_core."""
