"""Tests of masquerade_host."""
