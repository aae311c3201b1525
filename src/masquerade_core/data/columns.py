"""One column of cells as coordinates, by public constants alone; and what becomes of cells that do not fit.

A study says what happens to a cell that is missing, cannot be read, lies outside its public bounds or is none of the
public levels. With ``out_of_bounds = "clamp"`` a number moves to the nearer bound, and every other such cell becomes
the feature's public ``missing`` value or level. So no record makes a party refuse: a refusal would tell others
something about that record. With "refuse" an error names the column, the kinds of fault and their places.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from masquerade_core.data.faults import Kind
from masquerade_core.data.kinds import (
    INFINITE,
    MISSING,
    MISSING_WORDS,
    OUTSIDE,
    STRANGE,
    is_missing,
    kind_of_level,
    number_of,
)
from masquerade_core.data.records import Repaired
from masquerade_core.data.texts import cell_text
from masquerade_core.errors import BadInput, LocalProtocolError
from masquerade_core.study import Feature

__all__ = [
    "MISSING_LEVEL",
    "MISSING_WORDS",
    "Column",
    "EncodedColumn",
    "Levels",
    "encode_column",
    "encode_whole",
    "is_allowed",
    "length_of",
]

Column = Sequence[Any] | NDArray[Any]
"""A column's cells: text, numbers or truth values."""

MISSING_LEVEL = "?"
"""The level of missing values: where a category has it, an empty cell counts as it."""

_Array = NDArray[np.float64]


@dataclass(frozen=True, repr=False)
class Levels:
    """A column as its different texts.

    Parameters
    ----------
    places : ndarray of int, shape (n,)
        For each record, the place of its text in ``texts``.
    texts : sequence of str
        A missing cell is the empty text.
    """

    places: NDArray[np.intp]
    texts: Sequence[str]

    def __len__(self) -> int:
        """Return the number of records."""
        return len(self.places)

    def __getitem__(self, records: slice) -> "Levels":
        """Return some of the records."""
        return Levels(self.places[records], self.texts)


WholeColumn = NDArray[np.float64] | Levels
"""A column that was read at once: numbers, NaN where a cell is missing; or texts."""


def length_of(columns: Mapping[str, Column], names: Sequence[str]) -> int:
    """Return how many records columns in memory hold."""
    if (missing := next((name for name in names if name not in columns), None)) is not None:
        raise BadInput(f"the data have no column {missing!r}", f"the columns are {', '.join(map(repr, names))}")
    for name in names:
        cells = columns[name]
        if isinstance(cells, str | bytes) or not hasattr(cells, "__len__") or getattr(cells, "ndim", 1) != 1:
            raise BadInput(
                f"column {name!r} is not a list of cells",
                "give a list or a one-dimensional array, one cell for each record",
            )
    n = len(columns[names[0]])
    if (other := next((name for name in names if len(columns[name]) != n), None)) is not None:
        raise BadInput(
            f"the columns {names[0]!r} and {other!r} differ in length", "give every column one cell for each record"
        )
    return n


@dataclass(frozen=True, repr=False)
class EncodedColumn:
    """A column's coordinates, and its cells that do not fit.

    Parameters
    ----------
    block : ndarray, shape (n, k)
        With every cell that does not fit moved to a bound or filled.
    repaired : Repaired
        How many cells were.
    faults : dict of Kind to list of int
        The rows of these cells, by what is wrong with them.
    """

    block: _Array
    repaired: Repaired
    faults: dict[Kind, list[int]] = field(default_factory=dict)

    def refused(self, f: Feature, *, clamps: bool) -> bool:
        """Return whether the study refuses one of the cells."""
        return not all(is_allowed(f, kind, clamps=clamps) for kind in self.faults)


def is_allowed(f: Feature, kind: Kind, *, clamps: bool) -> bool:
    """Return whether a study has a public rule for such a cell of a feature.

    Parameters
    ----------
    f : Feature
    kind : Kind
    clamps : bool
        Whether the study moves or fills every cell that does not fit.
    """
    return clamps or (f.missing is not None and kind in MISSING)


def encode_column(f: Feature, cells: Column) -> EncodedColumn:
    """Return one column's coordinates, and its cells that do not fit.

    Parameters
    ----------
    f : Feature
    cells : sequence
        Text, numbers or truth values.
    """
    return _levels(f, cells) if f.levels is not None else _numbers(f, cells)


def encode_whole(f: Feature, column: WholeColumn, *, clamps: bool) -> tuple[_Array, Repaired] | None:
    """Return a column's coordinates as :func:`encode_column` does; None where the study refuses a cell."""
    allowed = clamps or f.missing is not None
    if isinstance(column, Levels):
        index = _level_index(f)
        known = np.array([index.get(text, -1) for text in column.texts], dtype=np.intp)
        places = known[column.places]
        strange = np.flatnonzero(places < 0)
        if len(strange):
            seen = {column.texts[i] for i in np.unique(column.places[strange]).tolist()}
            if not (clamps or (allowed and all(map(is_missing, seen)))):
                return None
            places[strange] = (f.levels or ()).index(str(f.filler))
        return _one_hot(places, len(f.levels or ())), Repaired(filled=len(strange))
    if f.edges is None and len(column) and _lie_within(f, column):
        return _to_unit(f, column.copy())[:, None], Repaired()  # the usual case, in a third of the time
    missing = np.isnan(column)
    filled = int(missing.sum())
    if (filled and not allowed) or (not clamps and np.isinf(column).any()):
        return None
    values = np.where(missing, float(f.filler), column) if filled else column
    if not clamps and f.min is not None and f.max is not None and ((values < f.min) | (values > f.max)).any():
        return None
    return _scaled(f, values, filled)


def _level_index(f: Feature) -> dict[str, int]:
    index = {level: i for i, level in enumerate(f.levels or ())}
    if MISSING_LEVEL in index:
        index.setdefault("", index[MISSING_LEVEL])
    return index


def _levels(f: Feature, cells: Column) -> EncodedColumn:
    levels, index = f.levels or (), _level_index(f)
    texts, faults = _texts(cells)
    places = np.fromiter((index.get(text, -1) for text in texts), dtype=np.intp, count=len(texts))
    strange, no_cells = np.flatnonzero(places < 0).tolist(), set(faults.get(STRANGE, ()))
    kinds: dict[str, Kind] = {}
    for row in strange:
        if row not in no_cells:
            if texts[row] not in kinds:
                kinds[texts[row]] = kind_of_level(texts[row], levels)
            faults.setdefault(kinds[texts[row]], []).append(row)
    places[strange] = levels.index(str(f.filler))
    return EncodedColumn(_one_hot(places, len(levels)), Repaired(filled=len(strange)), faults)


def _numbers(f: Feature, cells: Column) -> EncodedColumn:
    values, filled, faults = _values(f, cells)
    if f.min is not None and f.max is not None:
        infinite = set(faults.get(INFINITE, ()))
        outside = np.flatnonzero((values < f.min) | (values > f.max)).tolist()
        if outside := [row for row in outside if row not in infinite]:
            faults[OUTSIDE] = outside
    block, repaired = _scaled(f, values, filled)
    return EncodedColumn(block, repaired, faults)


def _scaled(f: Feature, values: _Array, filled: int) -> tuple[_Array, Repaired]:
    """Return the coordinates of numbers; those outside the public bounds are moved to the nearer one."""
    clamped = 0
    if f.min is not None and f.max is not None:
        clamped = int(((values < f.min) | (values > f.max)).sum())
        values = np.clip(values, f.min, f.max)
    repaired = Repaired(clamped, filled)
    if f.edges is not None:  # a value on an edge belongs to the bin above it
        return _one_hot(np.searchsorted(np.array(f.edges), values, side="right"), len(f.edges) + 1), repaired
    if f.min is None or f.max is None:
        raise LocalProtocolError(f"feature {f.name!r} has neither bounds, levels nor edges")
    return _to_unit(f, values)[:, None], repaired


def _lie_within(f: Feature, values: _Array) -> bool:
    """Return whether all numbers are there, and within the public bounds."""
    return f.min is not None and f.max is not None and bool(f.min <= values.min() and values.max() <= f.max)


def _to_unit(f: Feature, values: _Array) -> _Array:
    """Map numbers from their bounds to [-1, 1], in place: 2 (x - min) / (max - min) - 1."""
    low, high = float(f.min or 0), float(f.max or 0)
    values -= low
    values /= high - low
    values *= 2.0
    values -= 1.0
    return values


def _one_hot(places: NDArray[np.intp], width: int) -> NDArray[np.float64]:
    block = np.zeros((len(places), width))
    block[np.arange(len(places)), places] = 1.0
    return block


def _texts(cells: Column) -> tuple[Sequence[str], dict[Kind, list[int]]]:
    """Return each cell as the text that stands for exactly it, as a file would hold it; and what is no cell."""
    if all(isinstance(cell, str) for cell in cells):
        return cells if isinstance(cells, Sequence) else list(cells), {}
    texts = [cell_text(cell) for cell in cells]
    strange = [row for row, text in enumerate(texts) if text is None]
    return [text or "" for text in texts], {STRANGE: strange} if strange else {}


def _values(f: Feature, column: Column) -> tuple[_Array, int, dict[Kind, list[int]]]:
    """Return a column of numbers, and how many of its cells were filled. A number may still lie out of bounds."""
    if isinstance(column, np.ndarray) and column.dtype.kind in "iuf" and np.isfinite(column).all():
        return column.astype(np.float64), 0, {}  # the same as by way of text, without its time
    cells, faults = _texts(column)
    try:
        values = np.fromiter((float(cell) for cell in cells), dtype=np.float64, count=len(cells))
        if np.isfinite(values).all() and not any("_" in cell for cell in cells):
            return values, 0, {}
    except ValueError:
        pass
    values, filled, no_cells = np.empty(len(cells)), 0, set(faults.get(STRANGE, ()))
    for row, cell in enumerate(cells):
        value, kind = number_of(cell)
        if kind is not None and row not in no_cells:
            faults.setdefault(kind, []).append(row)
        if np.isnan(value):
            filled += 1
            value = float(f.filler)
        values[row] = value
    return values, filled, faults
