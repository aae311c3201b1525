"""The process of Charlie, the untrusted curator who hosts a run."""

from masquerade_curator._run import run

__all__ = ["run"]
