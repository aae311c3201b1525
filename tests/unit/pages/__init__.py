"""Tests of the pages: figures, commands, links and paths in them."""
