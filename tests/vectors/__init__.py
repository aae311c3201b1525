"""Committed known answers, and bad ones that must fail."""
