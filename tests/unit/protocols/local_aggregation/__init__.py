"""Tests of masquerade_protocols.local_aggregation."""
