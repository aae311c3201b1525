"""Privacy: how noise is drawn, what it is worth, how much of it a study needs, and the words for all that."""
