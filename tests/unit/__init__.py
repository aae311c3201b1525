"""Steps and modules, one at a time."""
