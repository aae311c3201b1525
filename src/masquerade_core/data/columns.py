"""One column of cells as coordinates, by public constants alone; and what becomes of cells that do not fit.

A study says what happens to a cell that is missing, cannot be read, lies outside its public bounds or is none of the
public levels. With ``out_of_bounds = "clamp"`` a number moves to the nearer bound, and every other such cell becomes
the feature's public ``missing`` value or level. So no record makes a party refuse: a refusal would tell others
something about that record. With "refuse" an error names the column and the place.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from masquerade_core.data.tables import cell_text
from masquerade_core.errors import BadInput, LocalProtocolError
from masquerade_core.study import Feature

__all__ = [
    "MISSING_LEVEL",
    "MISSING_WORDS",
    "Column",
    "Levels",
    "Repaired",
    "encode_column",
    "encode_whole",
    "length_of",
]

Column = Sequence[Any] | NDArray[Any]
"""A column's cells: text, numbers or truth values."""

MISSING_LEVEL = "?"
"""The level of missing values: where a category has it, an empty cell counts as it."""

MISSING_WORDS = frozenset({"", "na", "n/a", "nan", "null", "none", "?"})
"""The words, in small letters, that stand for a missing value."""

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


@dataclass(frozen=True, repr=False)
class Repaired:
    """How many cells did not fit. These numbers are secret: they are for the data owner alone, and never leave.

    Parameters
    ----------
    clamped : int
        Numbers that were moved to a public bound.
    filled : int
        Cells that became the public ``missing`` value, level or class.
    """

    clamped: int = 0
    filled: int = 0

    def __add__(self, other: "Repaired") -> "Repaired":
        """Count the cells of two columns, or of two tables."""
        return Repaired(self.clamped + other.clamped, self.filled + other.filled)

    def __bool__(self) -> bool:
        """Return whether any cell did not fit."""
        return bool(self.clamped or self.filled)

    def __repr__(self) -> str:
        return "<Repaired: secret>"


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


def encode_column(
    f: Feature, cells: Column, at: Callable[[int], str], *, clamps: bool = False
) -> tuple[_Array, Repaired]:
    """Return one column's coordinates, shape (n, k), and how many of its cells did not fit.

    Parameters
    ----------
    f : Feature
    cells : sequence
        Text, numbers or truth values.
    at : callable
        Returns a record's place for an error.
    clamps : bool
        Whether a cell that does not fit is moved or filled. Otherwise it is an error, but for a missing cell where the
        feature names its ``missing`` value.

    Raises
    ------
    BadInput
        A cell does not fit, and the study refuses such cells.
    """
    return _levels(f, cells, at, clamps) if f.levels is not None else _numbers(f, cells, at, clamps)


def encode_whole(f: Feature, column: WholeColumn, *, clamps: bool) -> tuple[_Array, Repaired] | None:
    """Return what :func:`encode_column` does; None where a cell does not fit and the study refuses such cells."""
    allowed = clamps or f.missing is not None
    if isinstance(column, Levels):
        index = _level_index(f)
        known = np.array([index.get(text, -1) for text in column.texts], dtype=np.intp)
        places = known[column.places]
        strange = np.flatnonzero(places < 0)
        if len(strange):
            seen = {column.texts[i] for i in np.unique(column.places[strange]).tolist()}
            if not (clamps or (allowed and all(map(_is_missing, seen)))):
                return None
            places[strange] = (f.levels or ()).index(str(f.filler))
        return _one_hot(places, len(f.levels or ())), Repaired(filled=len(strange))
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


def _levels(f: Feature, cells: Column, at: Callable[[int], str], clamps: bool) -> tuple[_Array, Repaired]:
    levels, index = f.levels or (), _level_index(f)
    texts = _texts(f.name, cells, at, clamps)
    places = np.fromiter((index.get(text, -1) for text in texts), dtype=np.intp, count=len(texts))
    filled = 0
    for row in np.flatnonzero(places < 0).tolist():
        if not (clamps or (f.missing is not None and _is_missing(texts[row]))):
            raise BadInput(
                f"{at(row)}: column {f.name!r} has a value that is none of the study's levels",
                f"the levels are {', '.join(map(repr, levels))}; blanks and capitals count",
            )
        places[row] = levels.index(str(f.filler))
        filled += 1
    return _one_hot(places, len(levels)), Repaired(filled=filled)


def _numbers(f: Feature, cells: Column, at: Callable[[int], str], clamps: bool) -> tuple[_Array, Repaired]:
    values, filled = _values(f, cells, at, clamps)
    if f.min is not None and f.max is not None:
        outside = (values < f.min) | (values > f.max)
        if outside.any() and not clamps:
            raise BadInput(
                f"{at(int(outside.argmax()))}: column {f.name!r} has a value outside its public "
                f"bounds, {f.min:.17g} to {f.max:.17g}",
                'correct the value or leave the record out; in a study with out_of_bounds = "clamp" the program moves '
                "such a value to the bound",
            )
    return _scaled(f, values, filled)


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
    return (2.0 * ((values - f.min) / (f.max - f.min)) - 1.0)[:, None], repaired


def _one_hot(places: NDArray[np.intp], width: int) -> NDArray[np.float64]:
    block = np.zeros((len(places), width))
    block[np.arange(len(places)), places] = 1.0
    return block


def _texts(name: str, cells: Column, at: Callable[[int], str], clamps: bool) -> Sequence[str]:
    """Return each cell as the text that stands for exactly it, as a file would hold it."""
    if all(isinstance(cell, str) for cell in cells):
        return cells if isinstance(cells, Sequence) else list(cells)
    texts = [cell_text(cell) for cell in cells]
    if None in texts and not clamps:
        raise BadInput(
            f"{at(texts.index(None))}: column {name!r} holds neither numbers, text nor truth values",
            "dates, binary data and nested values are not read; write such a column as numbers or text",
        )
    return [text or "" for text in texts]


def _values(f: Feature, column: Column, at: Callable[[int], str], clamps: bool) -> tuple[_Array, int]:
    """Return a column of numbers, and how many of its cells were filled. A number may still lie out of bounds."""
    if isinstance(column, np.ndarray) and column.dtype.kind in "iuf" and np.isfinite(column).all():
        return column.astype(np.float64), 0  # the same as by way of text, without its time
    cells = _texts(f.name, column, at, clamps)
    try:
        values = np.fromiter((float(cell) for cell in cells), dtype=np.float64, count=len(cells))
        if np.isfinite(values).all() and not any("_" in cell for cell in cells):
            return values, 0
    except ValueError:
        pass
    values, filled = np.empty(len(cells)), 0
    for row, cell in enumerate(cells):
        value, fault = _value(cell)
        missing = f.missing is not None and _is_missing(cell)
        if fault and not (clamps or missing):
            # Raised outside a handler: an original error would show the cell, and must not become this one's context.
            raise BadInput(
                f"{at(row)}: column {f.name!r} {fault}",
                "every record needs a finite number there, with a point before decimals; leave incomplete records out",
            )
        if np.isnan(value):
            filled += 1
            value = float(f.filler)
        values[row] = value
    return values, filled


def _value(cell: str) -> tuple[float, str]:
    """Return the number that a cell holds, NaN where it holds none, and what is wrong with it."""
    if _is_missing(cell):
        return float("nan"), "is empty or missing"
    try:
        value = float("nan" if "_" in cell else cell)
    except ValueError:
        value = float("nan")
    if np.isnan(value):
        return value, "holds text where the study has a number"
    return value, "holds an infinite value" if np.isinf(value) else ""


def _is_missing(cell: str) -> bool:
    return cell.strip().lower() in MISSING_WORDS
