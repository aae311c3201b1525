"""Tasks' results as JSON values, exact to the last bit; nothing that runs when it is read."""

import base64
from typing import Any

import numpy as np

__all__ = ["decode", "encode"]

_KINDS = "biufcU"
"""The kinds of numpy's numbers, truth values and text."""


def encode(value: Any) -> Any:
    """Return a task's result as JSON values.

    Raises
    ------
    TypeError
        It holds something else than numbers, text, None, bytes, arrays of numbers, lists, tuples and dictionaries.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, list):
        return [encode(one) for one in value]
    return {type(value).__name__: _encoded(value)}


def _encoded(value: Any) -> Any:
    match value:
        case bytes():
            return base64.b64encode(value).decode()
        case np.ndarray() if value.dtype.kind in _KINDS:
            return [value.dtype.str, list(value.shape), _encoded(np.ascontiguousarray(value).tobytes())]
        case tuple():
            return [encode(one) for one in value]
        case dict():
            return [[encode(key), encode(one)] for key, one in value.items()]
        case _:
            msg = (
                f"a task returned a {type(value).__name__}; it may return numbers, text, None, arrays of numbers, and "
                "tuples, lists and dictionaries of these"
            )
            raise TypeError(msg)


def decode(found: Any) -> Any:
    """Return the result of which :func:`encode` made JSON values."""
    match found:
        case list():
            return [decode(one) for one in found]
        case {"tuple": values}:
            return tuple(decode(one) for one in values)
        case {"dict": pairs}:
            return {decode(key): decode(one) for key, one in pairs}
        case {"bytes": content}:
            return base64.b64decode(content)
        case {"ndarray": [dtype, shape, content]}:
            return np.frombuffer(base64.b64decode(content), dtype=_numbers(dtype)).reshape(shape).copy()
    return found


def _numbers(dtype: str) -> np.dtype[Any]:
    kind = np.dtype(dtype)
    if kind.kind not in _KINDS:
        msg = f"an array of {dtype}"
        raise ValueError(msg)
    return kind
