"""Tests of masquerade_host.store."""
