"""Tests of masquerade_protocols.dp_whitened."""
