"""Tests of masquerade_party."""
