"""Tests of masquerade_host.faults."""
