"""The process of Charlie, the untrusted curator who hosts a run."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from masquerade_curator._run import run, run_with

__all__ = ["run", "run_with"]


def __getattr__(name: str) -> Any:
    """Load what is asked for: the command line asks for the options alone."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}._run"), name)
