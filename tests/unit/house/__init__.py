"""Tests of the project itself: structure, packaging and the list of mutants."""
