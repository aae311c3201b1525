"""Tests of masquerade_protocols.blocks."""
