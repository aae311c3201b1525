"""Tables of original files as records in the unit ball, a constant last."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from masquerade_core.data.schema import Dataset
from masquerade_lab.originals import Table

__all__ = ["labels", "levels", "one_hot", "unit_ball"]

_Array = NDArray[np.float64]

_HEAVY = 100.0  # two orders of magnitude: divided by the largest, most of such numbers would be almost 0


def one_hot(table: Table, label: str, positive: Callable[[str], bool], left_out: tuple[str, ...] = ()) -> Dataset:
    """Map numbers to [0, 1] by their least and largest value, other columns to 0 or 1 by level; clip rows to norm 1.

    A zero stays a zero, so an absent amount takes none of a row's length. Counts and amounts that start at 0 or more
    and span ``_HEAVY`` or more take log(1 + x) first. These tables are public, and so are their bounds; private records
    need the public bounds of a study.
    """
    names = [name for name in table.columns if name != label and name not in left_out]
    columns = [_coordinates(table.column(name)) for name in names]
    return Dataset.from_unit_ball(unit_ball(np.hstack(columns)), labels(table, label, positive))


def _coordinates(cells: Sequence[str]) -> _Array:
    try:
        values = np.array(cells, dtype=np.float64)
    except ValueError:
        return levels(cells)
    if values.min() >= 0 and values.max() >= _HEAVY * max(1.0, values.min()):
        values = np.log1p(values)
    low, high = values.min(), values.max()
    return np.asarray((values - low) / (high - low if high > low else 1.0))[:, None]


def levels(cells: Sequence[str]) -> _Array:
    """Return a coordinate of 0 or 1 for each different cell."""
    different, which = np.unique(np.array(cells), return_inverse=True)
    return np.asarray(np.eye(len(different))[which])


def unit_ball(values: _Array) -> _Array:
    """Append a constant, and divide each row by its length where that is above 1."""
    X = np.hstack([values, np.ones((len(values), 1))])
    return np.asarray(X / np.maximum(1.0, np.linalg.norm(X, axis=1))[:, None])


def labels(table: Table, label: str, positive: Callable[[str], bool]) -> _Array:
    """Return 1 where a row's label is positive, and -1 elsewhere."""
    return np.array([1.0 if positive(cell) else -1.0 for cell in table.column(label)])
