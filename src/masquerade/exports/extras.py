"""Packages that only some users need: they are imported where they are used, and a sentence says how to get them."""

import importlib
from typing import Any

from masquerade_core.errors import BadInput

__all__ = ["needed"]


def needed(module: str, extra: str, what: str) -> Any:
    """Import a module of an optional package.

    Parameters
    ----------
    module : str
    extra : str
        The extra of this distribution that installs it.
    what : str
        What needs it: the subject of a sentence.

    Raises
    ------
    BadInput
        The package is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError:
        package = module.partition(".")[0]
        raise BadInput(
            f"{what} needs {package}, which is not installed", f"install it with \"pip install 'masquerade[{extra}]'\""
        ) from None
