"""The packages that write and read the exported forms: only who asks for a form needs its package."""

from importlib import import_module
from typing import Any

from masquerade_core.errors import BadInput

__all__ = ["onnx_package", "skops_package"]


def onnx_package() -> Any:
    """Import onnx.

    Raises
    ------
    BadInput
        It is not installed.
    """
    try:
        return import_module("onnx")
    except ImportError:
        raise _missing("an ONNX file", "onnx") from None


def skops_package() -> Any:
    """Import skops.io.

    Raises
    ------
    BadInput
        It is not installed.
    """
    try:
        return import_module("skops.io")
    except ImportError:
        raise _missing("a skops file", "skops") from None


def _missing(what: str, package: str) -> BadInput:
    return BadInput(f"{what} needs {package}, which is not installed", f"install it with 'pip install {package}'")
