"""Tests that need optional engines, heavy oracles of others, or a browser."""
