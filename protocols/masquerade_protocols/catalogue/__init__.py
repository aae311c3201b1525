"""Each protocol as a study's readers see it: its parameters, its stages, its words."""
