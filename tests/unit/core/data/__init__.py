"""Tests of masquerade_core.data."""
