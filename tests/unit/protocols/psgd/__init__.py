"""Tests of masquerade_protocols.psgd."""
