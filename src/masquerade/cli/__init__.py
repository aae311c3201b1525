"""The command line."""

from masquerade.cli.app import app, main, run

__all__ = ["app", "main", "run"]
