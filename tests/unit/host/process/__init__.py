"""Tests of masquerade_host.process."""
