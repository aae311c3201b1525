"""Tests of masquerade_core.study."""
