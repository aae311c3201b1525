"""The bytes of a loaded data set, by which a site's ledgers know it. They never change, wherever the records lie."""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from masquerade_core.data.records import Records

__all__ = ["canonical"]


def canonical(value: Any) -> Iterator[Any]:
    """Yield a value's bytes, such that two values of the kinds that data sets are made of differ where these differ."""
    if isinstance(value, Records):
        yield from value.content()
    elif getattr(value, "in_scratch", False):  # cells, as if they were in memory
        yield f"Cells places array <i4 {value.shape} ".encode()
        yield from value.places()
        yield b"grid "
        yield from canonical(value.grid)
    elif isinstance(value, np.ndarray):
        yield f"array {value.dtype.str} {value.shape} ".encode()
        yield np.ascontiguousarray(value)
    elif is_dataclass(value):
        yield f"{type(value).__name__} ".encode()
        for each in fields(value):
            yield f"{each.name} ".encode()
            yield from canonical(getattr(value, each.name))
    elif isinstance(value, tuple):
        yield f"tuple {len(value)} ".encode()
        for part in value:
            yield from canonical(part)
    else:
        text = repr(value).encode()
        yield len(text).to_bytes(8, "big") + text
