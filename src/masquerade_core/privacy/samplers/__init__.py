"""Samplers: each draws integer noise of one law from a source of random bits, and bounds how large it can get."""
