"""The process that a data owner runs."""
