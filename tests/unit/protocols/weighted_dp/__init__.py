"""Tests of masquerade_protocols.weighted_dp."""
