"""Tests of masquerade_core.wire."""
