"""Tests of masquerade_core.crypto."""
