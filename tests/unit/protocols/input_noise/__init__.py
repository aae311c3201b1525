"""Tests of masquerade_protocols.input_noise."""
