"""Tests of masquerade_core.privacy."""
