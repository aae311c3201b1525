"""Losses and their exact minimisers."""
