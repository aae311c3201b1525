"""The encoder: from columns of cells to records in the unit ball, by public constants alone.

A number is mapped from its public [min, max] to [-1, 1], or to one 0/1 coordinate for each bin between public edges. A
category is mapped to one 0/1 coordinate for each public level. A constant 1 stands last if the study has an intercept.
Then every record is clipped, which means divided by max(1, ||x||_2): all sensitivity bounds need ||x||_2 <= 1, the
constant counted. Nothing is centred, scaled or binned by the data themselves. That would be a release of its own, for
which no theorem accounts.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import ValidationError

from masquerade_core.data.tables import cell_text
from masquerade_core.errors import BadInput, LocalProtocolError
from masquerade_core.study import INTERCEPT, Feature, Study

__all__ = ["MISSING_LEVEL", "MISSING_WORDS", "Column", "Dataset", "Encoder", "check_unit_ball"]

Column = Sequence[Any] | NDArray[Any]
"""A column's cells: text, numbers or truth values."""

MISSING_LEVEL = "?"
"""The level of missing values: where a category has it, an empty cell counts as it."""

MISSING_WORDS = frozenset({"", "na", "n/a", "nan", "null", "none", "?"})
"""The words, in small letters, that stand for a missing value."""

_NORM_SLACK = 1e-12
_GET_MODEL = "take the model.json that a run left in its directory"


def check_unit_ball(X: NDArray[np.float64]) -> None:
    """Check that X is a matrix of records of norm at most 1.

    Raises
    ------
    LocalProtocolError
        It is not, so it did not come from the encoder.
    """
    if X.ndim != 2 or not np.isfinite(X).all():  # noqa: PLR2004
        raise LocalProtocolError("records must be a matrix of finite numbers, with one row for each record")
    if (np.linalg.norm(X, axis=1) > 1 + _NORM_SLACK).any():
        raise LocalProtocolError("a record lies outside the unit ball; no privacy bound would hold for it")


@dataclass(frozen=True, repr=False, eq=False)
class Dataset:
    """One party's records. They are secret, and so is their number.

    Parameters
    ----------
    X : ndarray of float64, shape (n, d)
        Encoded records, each with ||x||_2 <= 1.
    y : ndarray of float64, shape (n,)
        Labels -1 or +1; with named classes, the classes' numbers from 0.
    classes : int, optional
        The number of named classes; None if there are none.

    Raises
    ------
    LocalProtocolError
        The arrays are not of this form, so they did not come from the encoder.
    """

    X: NDArray[np.float64]
    y: NDArray[np.float64]
    classes: int | None = None

    def __post_init__(self) -> None:
        """Check that all records have norm at most 1, which every privacy bound needs, and freeze the arrays."""
        X, y = self.X, self.y
        check_unit_ball(X)
        fit = np.abs(y) == 1 if self.classes is None else np.isin(y, np.arange(self.classes))
        if y.shape != X.shape[:1] or not fit.all():
            raise LocalProtocolError(
                "a data set needs one label for each record: -1 or +1, or with named classes, the number of a class"
            )
        X.setflags(write=False)
        y.setflags(write=False)

    @classmethod
    def from_unit_ball(cls, X: ArrayLike, y: ArrayLike, classes: int | None = None) -> Self:
        """Copy records that are already encoded and clipped to length 1, such as simulated ones."""
        return cls(np.array(X, dtype=np.float64), np.array(y, dtype=np.float64), classes)

    def __repr__(self) -> str:
        return "<Dataset: secret>"


def _in_memory(row: int) -> str:
    return f"the data, record {row + 1}"


@dataclass(frozen=True)
class Encoder:
    """How a record becomes a vector. The encoder follows from the study and is stored with the model.

    Parameters
    ----------
    features : tuple of Feature
        Columns with public bounds, levels or edges, in the order of coordinates.
    intercept : bool
        Whether a constant 1 is appended.
    """

    features: tuple[Feature, ...]
    intercept: bool

    @classmethod
    def from_study(cls, study: Study) -> Self:
        """Return the study's encoder."""
        return cls(study.features, study.model.intercept)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that a file must have."""
        return tuple(f.name for f in self.features)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the d coordinates, the constant last."""
        encoded = tuple(name for f in self.features for name in f.coordinates)
        return (*encoded, INTERCEPT) if self.intercept else encoded

    @property
    def d(self) -> int:
        """The number of coordinates."""
        return len(self.names)

    def to_json(self) -> dict[str, Any]:
        """Return a JSON value that keeps every number exactly."""
        dumped = [f.model_dump(mode="json", exclude_none=True) for f in self.features]
        return {"features": dumped, "intercept": self.intercept}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Read what :meth:`to_json` wrote.

        Raises
        ------
        BadInput
            It is not an encoder of this program.
        """
        try:
            features = tuple(Feature.model_validate(f) for f in data["features"])
            intercept = data["intercept"]
        except (KeyError, TypeError, ValidationError) as error:
            raise BadInput("the model file has no encoder of the form that this program writes", _GET_MODEL) from error
        if not features or not isinstance(intercept, bool):
            raise BadInput("the model file has no encoder of the form that this program writes", _GET_MODEL)
        return cls(features, intercept)

    def encode(self, columns: Mapping[str, Column], *, at: Callable[[int], str] = _in_memory) -> NDArray[np.float64]:
        """Encode and clip records.

        Parameters
        ----------
        columns : mapping of str to sequence
            The cells of each feature's column; others are ignored. All have one length n. A cell is text as it would
            stand in a CSV file, or a number, or true or false. Equal data give equal records in either form: a number
            is read as the text that stands for exactly it, so the level "1" is the integer 1 and not the float 1.0.
        at : callable
            Returns a record's place for an error; its argument is the record's number, from 0.

        Returns
        -------
        ndarray of float64, shape (n, d)
            Rows of norm at most 1.

        Raises
        ------
        BadInput
            A column is missing, is not a list of cells, or is shorter than another. Or a cell is no number, outside its
            public bounds or no public level; the column and the place are named, and the cell is never shown.
        """
        n = _length(columns, self.columns)
        blocks = [_encode_column(f, columns[f.name], at) for f in self.features]
        if self.intercept:
            blocks.append(np.ones((n, 1)))
        X = np.hstack(blocks)
        X /= np.maximum(1.0, np.linalg.norm(X, axis=1))[:, None]
        return X


def _length(columns: Mapping[str, Column], names: Sequence[str]) -> int:
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


def _encode_column(f: Feature, cells: Column, at: Callable[[int], str]) -> NDArray[np.float64]:
    if f.levels is not None:
        index = {level: i for i, level in enumerate(f.levels)}
        if MISSING_LEVEL in index:
            index[""] = index[MISSING_LEVEL]
        texts = _texts(f.name, cells, at)
        places = np.fromiter((index.get(text, -1) for text in texts), dtype=np.intp, count=len(texts))
        if (unknown := places < 0).any():
            raise BadInput(
                f"{at(int(unknown.argmax()))}: column {f.name!r} has a value that is none of the study's levels",
                f"the levels are {', '.join(map(repr, f.levels))}; blanks and capitals count",
            )
        return _one_hot(places, len(f.levels))
    values = _numbers(f.name, cells, at)
    if f.min is not None and f.max is not None:
        outside = (values < f.min) | (values > f.max)
        if outside.any():
            raise BadInput(
                f"{at(int(outside.argmax()))}: column {f.name!r} has a value outside its public "
                f"bounds, {f.min:.17g} to {f.max:.17g}",
                "correct the value or leave the record out; the program moves no value to a bound",
            )
    if f.edges is not None:  # a value on an edge belongs to the bin above it
        return _one_hot(np.searchsorted(np.array(f.edges), values, side="right"), len(f.edges) + 1)
    if f.min is None or f.max is None:
        raise LocalProtocolError(f"feature {f.name!r} has neither bounds, levels nor edges")
    return (2.0 * ((values - f.min) / (f.max - f.min)) - 1.0)[:, None]


def _one_hot(places: NDArray[np.intp], width: int) -> NDArray[np.float64]:
    block = np.zeros((len(places), width))
    block[np.arange(len(places)), places] = 1.0
    return block


def _texts(name: str, cells: Column, at: Callable[[int], str]) -> Sequence[str]:
    """Return each cell as the text that stands for exactly it, as a file would hold it."""
    if all(isinstance(cell, str) for cell in cells):
        return cells if isinstance(cells, Sequence) else list(cells)
    texts = [cell_text(cell) for cell in cells]
    kept = [text for text in texts if text is not None]
    if len(kept) < len(texts):
        raise BadInput(
            f"{at(texts.index(None))}: column {name!r} holds neither numbers, text nor truth values",
            "dates, binary data and nested values are not read; write such a column as numbers or text",
        )
    return kept


def _numbers(name: str, column: Column, at: Callable[[int], str]) -> NDArray[np.float64]:
    if isinstance(column, np.ndarray) and column.dtype.kind in "iuf" and np.isfinite(column).all():
        return column.astype(np.float64)  # the same as by way of text, without its time
    cells = _texts(name, column, at)
    try:
        values = np.fromiter((float(cell) for cell in cells), dtype=np.float64, count=len(cells))
        if np.isfinite(values).all() and not any("_" in cell for cell in cells):
            return values
    except ValueError:
        pass
    row, reason = next((row, r) for row, cell in enumerate(cells) if (r := _why_no_number(cell)))
    # Raised outside the handler: the original error shows the cell, and must not become this one's context.
    raise BadInput(
        f"{at(row)}: column {name!r} {reason}",
        "every record needs a finite number there, with a point before decimals; leave incomplete records out",
    )


def _why_no_number(cell: str) -> str:
    if cell.strip().lower() in MISSING_WORDS:
        return "is empty or missing"
    try:
        value = float(cell)
    except ValueError:
        return "holds text where the study has a number"
    if not np.isfinite(value):
        return "holds an infinite value"
    return "holds text where the study has a number" if "_" in cell else ""
