"""Tests of masquerade_protocols.summary."""
