"""The encoder: from columns of cells to records in the unit ball, by public constants alone.

A number is mapped from its public [min, max] to [-1, 1], or to one 0/1 coordinate for each bin between public edges. A
category is mapped to one 0/1 coordinate for each public level. A constant 1 stands last if the study has an intercept.
Then every record is clipped, which means divided by max(1, ||x||_2): all sensitivity bounds need ||x||_2 <= 1, the
constant counted. Nothing is centred, scaled or binned by the data themselves. That would be a release of its own, for
which no theorem accounts.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, ClassVar, Self, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import ValidationError

from masquerade_core.data.columns import (
    MISSING_LEVEL,
    MISSING_WORDS,
    Column,
    WholeColumn,
    encode_column,
    encode_whole,
    is_allowed,
    length_of,
)
from masquerade_core.data.faults import Faults, Place
from masquerade_core.data.holdout import are_held_back
from masquerade_core.data.kinds import allowed_of
from masquerade_core.data.records import ROWS, OfBlock, Records, Repaired, content_of
from masquerade_core.errors import BadInput, LocalProtocolError
from masquerade_core.model import encoder_to_json
from masquerade_core.study import INTERCEPT, Feature, OutOfBounds, Precision, Study

__all__ = [
    "MISSING_LEVEL",
    "MISSING_WORDS",
    "Column",
    "Dataset",
    "Encoder",
    "Repaired",
    "check_labels",
    "check_unit_ball",
]

_NORM_SLACK = 1e-12
_LABELS = "a data set needs one label for each record: -1 or +1, or with named classes, the number of a class"
_GET_MODEL = "take the model.json that a run left in its directory"


def check_unit_ball(X: NDArray[np.float64]) -> None:
    """Check that X is a matrix of records of norm at most 1.

    Raises
    ------
    LocalProtocolError
        It is not, so it did not come from the encoder.
    """
    if X.ndim != 2:  # noqa: PLR2004
        raise LocalProtocolError("records must be a matrix of finite numbers, with one row for each record")
    for start in range(0, len(X), ROWS):  # some rows at a time: a copy of all of them would double the memory
        rows = np.asarray(X[start : start + ROWS], dtype=np.float64)
        if not np.isfinite(rows).all():
            raise LocalProtocolError("records must be a matrix of finite numbers, with one row for each record")
        if (np.linalg.norm(rows, axis=1) > 1 + _NORM_SLACK).any():
            raise LocalProtocolError("a record lies outside the unit ball; no privacy bound would hold for it")


def check_labels(y: NDArray[np.float64], classes: int | None) -> None:
    """Check that all labels are -1 or +1, or with named classes, the number of a class.

    Raises
    ------
    LocalProtocolError
        They are not.
    """
    if not (np.abs(y) == 1 if classes is None else np.isin(y, np.arange(classes))).all():
        raise LocalProtocolError(_LABELS)


@dataclass(frozen=True, repr=False, eq=False)
class Dataset(Records):
    """One party's records in memory. They are secret, and so is their number.

    Parameters
    ----------
    X : ndarray of float64 or float32, shape (n, d)
        Encoded records, each with ||x||_2 <= 1. Sums over records are sums of float64 numbers in either case.
    y : ndarray of float64, shape (n,)
        Labels -1 or +1; with named classes, the classes' numbers from 0.
    classes : int, optional
        The number of named classes; None if there are none.
    repaired : Repaired
        How many cells were moved to a bound, and how many were filled. It is secret too.

    Raises
    ------
    LocalProtocolError
        The arrays are not of this form, so they did not come from the encoder.
    """

    X: NDArray[np.float64]
    y: NDArray[np.float64]
    classes: int | None = None
    repaired: Repaired = field(default_factory=Repaired)
    # No field, for a ledger knows records by the fields: where each block ends, if these are one side of a source.
    _ends_of_side: ClassVar[tuple[int, ...] | None] = None

    def __post_init__(self) -> None:
        """Check that all records have norm at most 1, which every privacy bound needs, and freeze the arrays."""
        X, y = self.X, self.y
        check_unit_ball(X)
        check_labels(y, self.classes)
        if y.shape != X.shape[:1]:
            raise LocalProtocolError(_LABELS)
        X.setflags(write=False)
        y.setflags(write=False)

    @classmethod
    def from_unit_ball(cls, X: ArrayLike, y: ArrayLike, classes: int | None = None) -> Self:
        """Copy records that are already encoded and clipped to length 1, such as simulated ones."""
        return cls(np.array(X, dtype=np.float64), np.array(y, dtype=np.float64), classes)

    def __repr__(self) -> str:
        return "<Dataset: secret>"

    @property
    def n(self) -> int:
        """The number of records."""
        return len(self.y)

    @property
    def d(self) -> int:
        """The number of a record's coordinates."""
        return int(self.X.shape[1])

    def partials(self, f: OfBlock) -> Iterator[NDArray[Any]]:
        """Return f of each block, in the order of the blocks; of one empty block where there are no records."""
        for start, end in pairwise((0, *self._ends)):
            yield f(np.asarray(self.X[start:end], dtype=np.float64), self.y[start:end])

    def content(self) -> Iterator[Any]:
        """Return what a ledger's fingerprint is made of."""
        parts = range(0, self.n, ROWS)
        X, y = (self.X[i : i + ROWS] for i in parts), (self.y[i : i + ROWS] for i in parts)
        return content_of(X, y, self, self.X.dtype)

    def sides(self, share: float) -> tuple[Self, Self]:
        """Return the records to learn from, and the part of this share that is held back."""
        held = are_held_back(self.n, share)
        return self._side(~held), self._side(held)

    def _side(self, kept: NDArray[np.bool_]) -> Self:
        before = np.concatenate(([0], np.cumsum(kept)))
        side = replace(self, X=self.X[kept], y=self.y[kept], repaired=Repaired())
        object.__setattr__(side, "_ends_of_side", tuple(before[list(self._ends)].tolist()))
        return side

    @property
    def matrix(self) -> NDArray[np.float64]:
        """The records as a matrix of float64, a copy where they are stored as float32."""
        return np.asarray(self.X, dtype=np.float64)

    @property
    def _ends(self) -> tuple[int, ...]:
        return (*range(ROWS, self.n, ROWS), self.n) if self._ends_of_side is None else self._ends_of_side


def _towards_zero(exact: NDArray[np.float64]) -> NDArray[np.float32]:
    """Round towards zero, so that no record becomes longer: all sensitivity bounds need a length of at most 1."""
    nearest = exact.astype(np.float32)
    return np.where(np.abs(nearest) > np.abs(exact), np.nextafter(nearest, np.float32(0)), nearest)


@dataclass(frozen=True)
class Encoder:
    """How a record becomes a vector. The encoder follows from the study and is stored with the model.

    Parameters
    ----------
    features : tuple of Feature
        Columns with public bounds, levels or edges, in the order of coordinates.
    intercept : bool
        Whether a constant 1 is appended.
    out_of_bounds : str
        The study's rule for cells that do not fit: "clamp" or "refuse". A prediction follows the rule of the training.
    precision : str
        How coordinates are stored: "float64" or "float32". It is not stored with a model, and predictions have float64.
    """

    features: tuple[Feature, ...]
    intercept: bool
    out_of_bounds: OutOfBounds = "refuse"
    precision: Precision = field(default="float64", compare=False)

    @classmethod
    def from_study(cls, study: Study) -> Self:
        """Return the study's encoder."""
        rules = study.study
        return cls(study.features, study.model.intercept, rules.out_of_bounds, rules.precision or "float64")

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of a coordinate."""
        return np.dtype(self.precision)

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
        return encoder_to_json(self.features, self.out_of_bounds, intercept=self.intercept)

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
            intercept, rule = data["intercept"], data.get("out_of_bounds", "refuse")
        except (AttributeError, KeyError, TypeError, ValidationError) as error:
            raise BadInput("the model file has no encoder of the form that this program writes", _GET_MODEL) from error
        if not features or not isinstance(intercept, bool) or rule not in get_args(OutOfBounds):
            raise BadInput("the model file has no encoder of the form that this program writes", _GET_MODEL)
        return cls(features, intercept, rule)

    def encode(self, columns: Mapping[str, Column]) -> NDArray[np.float64]:
        """Encode and clip records.

        Parameters
        ----------
        columns : mapping of str to sequence
            The cells of each feature's column; others are ignored. All have one length n. A cell is text as it would
            stand in a CSV file, or a number, or true or false. Equal data give equal records in either form: a number
            is read as the text that stands for exactly it, so the level "1" is the integer 1 and not the float 1.0.

        Returns
        -------
        ndarray of float64, shape (n, d)
            Rows of norm at most 1.

        Raises
        ------
        BadInput
            A column is missing, is not a list of cells, or is shorter than another. Or, where the rule is "refuse",
            cells are no numbers, outside their public bounds or no public levels; the columns and the first places are
            named, and no cell is shown.
        """
        return self.encode_counted(columns)[0]

    def encode_counted(self, columns: Mapping[str, Column]) -> tuple[NDArray[np.float64], Repaired]:
        """Encode and clip records as :meth:`encode` does; returns also how many cells were moved or filled."""
        n = length_of(columns, self.columns)
        X, faults = np.empty((n, self.d), dtype=self.dtype), Faults("the data", "record")
        repaired = self.encode_into(X, columns, range(1, n + 1), faults)
        faults.check()
        return X, repaired

    def encode_into(
        self, X: NDArray[np.float64], columns: Mapping[str, Column], places: Sequence[Place], faults: Faults
    ) -> Repaired:
        """Encode and clip records into the rows of X; returns how many cells were moved or filled.

        Parameters
        ----------
        X : ndarray of float64, shape (n, d)
        columns : mapping of str to sequence
            As for :meth:`encode`.
        places : sequence of Place
            Those of the records.
        faults : Faults
            Counts every cell that does not fit, and notes whether the study refuses it.
        """
        clamps, place, repaired = self.out_of_bounds == "clamp", 0, Repaired()
        faults.records += len(places)
        for f in self.features:
            width = len(f.coordinates)
            if f.name not in columns:  # its file lacks it, and says so
                X[:, place : place + width], place = 0.0, place + width
                continue
            found = encode_column(f, columns[f.name])
            for kind, rows in found.faults.items():
                refused = not is_allowed(f, kind, clamps=clamps)
                faults.add(f.name, kind, [places[row] for row in rows], refused=refused, allowed=allowed_of(f))
            X[:, place : place + width] = found.block
            place, repaired = place + width, repaired + found.repaired
        self._finish(X)
        return repaired

    def encode_whole(self, X: NDArray[np.float64], columns: Mapping[str, WholeColumn]) -> tuple[int, Repaired] | None:
        """Encode and clip records into the first rows of X, as :meth:`encode` does, but None where it would raise.

        Parameters
        ----------
        X : ndarray of float64, shape (n or more, d)
        columns : mapping of str to WholeColumn
            The columns of n records as pyarrow has read them.

        Returns
        -------
        n : int
        repaired : Repaired
        """
        clamps, place, n, repaired = self.out_of_bounds == "clamp", 0, 0, Repaired()
        for f in self.features:
            column, width = columns[f.name], len(f.coordinates)
            n = len(column)
            for start in range(0, n, ROWS):
                found = encode_whole(f, column[start : start + ROWS], clamps=clamps)
                if found is None:
                    return None
                X[start : min(start + ROWS, n), place : place + width] = found[0]
                repaired += found[1]
            place += width
        self._finish(X[:n])
        return n, repaired

    def _finish(self, X: NDArray[np.float64]) -> None:
        if self.intercept:
            X[:, -1] = 1.0
        for start in range(0, len(X), ROWS):
            rows = X[start : start + ROWS]
            if rows.dtype == np.float64:
                rows /= np.maximum(1.0, np.linalg.norm(rows, axis=1))[:, None]
            else:
                exact = rows.astype(np.float64)
                rows[:] = _towards_zero(exact / np.maximum(1.0, np.linalg.norm(exact, axis=1))[:, None])
