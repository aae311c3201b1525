"""A protocol outside the tree, as CONTRIBUTING tells how to write one: one folder, and one registration."""
