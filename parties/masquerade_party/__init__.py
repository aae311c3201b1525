"""The process that a data owner (a *party*) runs."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from masquerade_party._approve import Approved, approve, code_in_words
    from masquerade_party._run import run, run_with
    from masquerade_party._site import code_of

__all__ = ["Approved", "approve", "code_in_words", "code_of", "run", "run_with"]

_HOMES = {
    "Approved": "_approve",
    "approve": "_approve",
    "code_in_words": "_approve",
    "code_of": "_site",
    "run": "_run",
    "run_with": "_run",
}


def __getattr__(name: str) -> Any:
    """Load what is asked for: ``masquerade site status`` and the command line need no run."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
