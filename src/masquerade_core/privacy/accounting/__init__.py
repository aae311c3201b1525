"""How much privacy noise gives: from a law of noise to epsilon and delta, and back."""
