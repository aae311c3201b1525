"""Tests of masquerade_host.transport."""
