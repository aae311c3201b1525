"""The process that Charlie runs."""
