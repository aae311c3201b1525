"""Tests of masquerade_protocols."""
