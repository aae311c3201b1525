"""Tests of masquerade_host.channel."""
