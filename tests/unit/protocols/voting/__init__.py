"""Tests of masquerade_protocols.voting."""
