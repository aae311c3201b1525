"""The process that Charlie runs."""

from masquerade_curator._run import run

__all__ = ["run"]
