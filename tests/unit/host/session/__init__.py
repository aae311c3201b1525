"""Tests of masquerade_host.session."""
