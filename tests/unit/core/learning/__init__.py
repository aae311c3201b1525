"""Tests of masquerade_core.learning."""
