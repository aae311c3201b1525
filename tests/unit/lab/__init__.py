"""Tests of masquerade_lab."""
