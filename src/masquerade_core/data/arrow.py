"""Arrow's columns as the columns that this program encodes: numbers, or different texts and where each stands."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from masquerade_core.data.columns import Levels

__all__ = ["is_number", "levels_of", "numbers_of"]


def is_number(kind: Any) -> bool:
    """Return whether an Arrow type is one of integers or of floating-point numbers."""
    return str(kind).startswith(("double", "float", "halffloat", "int", "uint"))


def numbers_of(column: Any) -> NDArray[np.float64]:
    """Return an Arrow array of numbers, NaN where one is missing."""
    values = column.cast("float64", safe=False).to_numpy(zero_copy_only=False)
    return np.asarray(values, dtype=np.float64)


def levels_of(column: Any, texts: Callable[[Any], list[str]]) -> Levels:
    """Return an Arrow array as its different texts, as ``texts`` writes them, and each record's place among them."""
    if not str(column.type).startswith("dictionary"):
        column = column.dictionary_encode()
    different = texts(column.dictionary)
    places = column.indices.fill_null(len(different)).to_numpy(zero_copy_only=False)
    return Levels(places.astype(np.intp, copy=False), (*different, ""))
