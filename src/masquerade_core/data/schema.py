"""The encoder: from columns of cells to records in the unit ball, by public constants alone.

A number is mapped from its public [min, max] to [-1, 1], or to one 0/1 coordinate for each bin between public edges. A
category is mapped to one 0/1 coordinate for each public level. A constant 1 stands last if the study has an intercept.
Then every record is clipped, which means divided by max(1, ||x||_2): all sensitivity bounds need ||x||_2 <= 1, the
constant counted. Nothing is centred, scaled or binned by the data themselves. That would be a release of its own, for
which no theorem accounts.

*Covariates* are made of the same coordinates, for protocols that estimate a regression. There no record is divided, so
that a coefficient keeps the meaning that it has in a regression: each number lies between -1 and 1 by itself. In
*treatment coding* the first level of a category has no coordinate, and there is no constant: a protocol adds its own.

*Cells that do not fit.* A study says what happens to a cell that is missing, cannot be read, lies outside its public
bounds or is not one of the public levels. With ``out_of_bounds = "clamp"`` a number moves to the nearer bound, and
every other such cell becomes the feature's public ``missing`` value or level. So no record makes a party refuse: a
refusal would tell others something about that record. With "refuse" the encoder tells which rows have such a cell. What
is wrong with them is found elsewhere (:mod:`masquerade_core.data.file_faults`), for an error that names the column, the
kinds of fault and their places. With ``matching = "loose"`` capitals, and blanks around a cell, do not count where they
leave one level or label only; with "exact" they do.

*Labels* are taken block by block, like columns. A label that is a number is read as a feature is, and mapped from its
public bounds to [-1, 1].
"""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, ClassVar, Self, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import ValidationError

from masquerade_core.data.files import Column, cell_text, is_missing, number_in, spelled
from masquerade_core.data.records import (
    ROWS,
    OfBlock,
    Records,
    Repaired,
    are_held_back,
    cells_in,
    content_of,
    few_rows,
    taken,
    zeros,
)
from masquerade_core.errors import BadInput, LocalProtocolError
from masquerade_core.model import encoder_to_json
from masquerade_core.study import INTERCEPT, Coding, Feature, Matching, OutOfBounds, Precision, Study

__all__ = [
    "MISSING_LEVEL",
    "TOGETHER",
    "Columns",
    "Covariates",
    "Dataset",
    "Encoder",
    "Labels",
    "Levels",
    "NumberLabels",
    "OneHot",
    "Repaired",
    "WholeColumn",
    "check_labels",
    "check_rows",
    "encode_column",
    "labels_of",
    "lacks_column",
    "length_of",
    "numeric",
]


# --- Columns ---------------------------------------------------------------------

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


TOGETHER = 1 << 20
"""Bytes of a block's columns that are read and encoded together: one by one, each of thousands would cost a call."""

WholeColumn = NDArray[np.float64] | Levels
"""A column that was read at once: numbers, NaN where a cell is missing; or texts."""


def lacks_column(name: str, hint: str) -> BadInput:
    """Return the error for data in memory that have no column of this name."""
    return BadInput(f"the data have no column {name!r}", hint)


def length_of(columns: Mapping[str, Column], names: Sequence[str]) -> int:
    """Return how many records columns in memory hold."""
    if (missing := next((name for name in names if name not in columns), None)) is not None:
        raise lacks_column(missing, f"the columns are {', '.join(map(repr, names))}")
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


@dataclass(frozen=True, repr=False, eq=False)
class Columns(Mapping[str, WholeColumn]):
    """Columns of cells as the encoder takes them; each is made when it is asked for.

    Parameters
    ----------
    cells : mapping of str to Column
    numbers : collection of str
        The columns that hold numbers.
    fills : bool
        Whether the study fills what is no number. Such a cell is NaN then, as a missing one is. Elsewhere it is
        infinite: an infinite number fits nowhere, so the encoder tells its row.
    """

    cells: Mapping[str, Column]
    numbers: Collection[str]
    fills: bool

    def __getitem__(self, name: str) -> WholeColumn:
        cells = self.cells[name]
        return self._numbers(cells) if name in self.numbers else self._levels(cells)

    def __iter__(self) -> Iterator[str]:
        return iter(self.cells)

    def __len__(self) -> int:
        return len(self.cells)

    def _numbers(self, cells: Column) -> _Array:
        if isinstance(cells, np.ndarray) and cells.dtype.kind in "iuf" and np.isfinite(cells).all():
            return cells.astype(np.float64)  # the same as by way of text, without its time
        texts = _texts_of(cells)
        try:
            values = np.fromiter((float(text or "") for text in texts), dtype=np.float64, count=len(texts))
            if np.isfinite(values).all() and not any("_" in (text or "") for text in texts):
                return values
        except ValueError:
            pass
        return np.fromiter(map(self._number, texts), dtype=np.float64, count=len(texts))

    def _number(self, text: str | None) -> float:
        if text is not None and is_missing(text):
            return math.nan
        value = math.nan if text is None else number_in(text)
        return math.inf if math.isnan(value) and not self.fills else value

    def _levels(self, cells: Column) -> Levels:
        no_cell, places = "" if self.fills else _NO_CELL, dict[str, int]()
        texts = (no_cell if text is None else text for text in _texts_of(cells))
        found = np.fromiter((places.setdefault(text, len(places)) for text in texts), dtype=np.intp, count=len(cells))
        return Levels(found, tuple(places))


_NO_CELL = "\0"  # no level and no label


def _texts_of(cells: Column) -> Sequence[str | None]:
    """Return each cell as the text that stands for exactly it, as a file would hold it; None for what is no cell."""
    if (isinstance(cells, list) and set(map(type, cells)) == {str}) or all(isinstance(cell, str) for cell in cells):
        return cells if isinstance(cells, Sequence) else list(cells)
    return [cell_text(cell) for cell in cells]


@dataclass(frozen=True, repr=False)
class OneHot:
    """Coordinates of which each record has a single 1.

    Parameters
    ----------
    places : ndarray of int, shape (n,)
    width : int
        How many coordinates there are.
    """

    places: NDArray[np.intp]
    width: int

    def __len__(self) -> int:
        """Return the number of records."""
        return len(self.places)


def encode_column(
    f: Feature, column: WholeColumn, *, clamps: bool, loose: bool = False, strict: bool = False
) -> "tuple[_Array | OneHot, Repaired, NDArray[np.intp]]":
    """Encode a column of numbers or of texts.

    Parameters
    ----------
    f : Feature
    column : WholeColumn
    clamps : bool
        Whether the study moves or fills every cell that does not fit.
    loose : bool
        Whether capitals, and blanks around a cell, do not count where they leave one level only.
    strict : bool
        Whether the rows are told, too, whose cells the study moves, fills or matches loosely.

    Returns
    -------
    block : ndarray of shape (n, k), or OneHot
        The coordinates. Every cell that does not fit is moved to a bound or filled.
    repaired : Repaired
        How many cells were.
    rows : ndarray of int
        The rows whose cells the study refuses.
    """
    if isinstance(column, Levels):
        index = _level_index(f)
        meant = [index.get(spelled(text, index, loose=loose), -1) for text in column.texts]
        places = np.array(meant, dtype=np.intp)[column.places]
        filled = rows = np.flatnonzero(places < 0)
        if strict and loose:
            rows = np.flatnonzero(np.array([text not in index for text in column.texts])[column.places])
        elif len(filled) and not strict and (clamps or f.missing is not None):
            is_filled = np.array([clamps or is_missing(text) for text in column.texts])
            rows = filled[~is_filled[column.places[filled]]]
        if len(filled):
            places[filled] = (f.levels or ()).index(str(f.filler))
        return OneHot(places, len(f.levels or ())), Repaired(filled=len(filled)), rows
    if f.edges is None:
        values = column[None].copy()
        repaired, rows = _to_units([f], values, clamps=clamps, strict=strict)
        return values.T, repaired, rows
    missing, outside, moved = np.isnan(column), np.isinf(column), 0
    if f.min is not None and f.max is not None:
        outside = (column < f.min) | (column > f.max)
        moved = int(outside.sum())
    told = outside & (strict or not clamps) | missing & (strict or not (clamps or f.missing is not None))
    values = np.where(missing, float(f.filler), column)
    bins = np.searchsorted(np.array(f.edges), values, side="right")  # a value on an edge belongs to the bin above it
    return OneHot(bins, len(f.edges) + 1), Repaired(moved, int(missing.sum())), np.flatnonzero(told)


_NO_ROWS = np.empty(0, dtype=np.intp)


def _to_units(
    features: Sequence[Feature], values: _Array, *, clamps: bool, strict: bool
) -> tuple[Repaired, NDArray[np.intp]]:
    """Map numbers with public bounds to [-1, 1], in place: 2 (x - min) / (max - min) - 1.

    Parameters
    ----------
    features : sequence of Feature
        All have bounds, and neither levels nor edges.
    values : ndarray, shape (k, n)
        A row for each feature, NaN where a cell is missing.

    Returns
    -------
    repaired : Repaired
    rows : ndarray of int
        As in :func:`encode_column`.
    """
    low, high = (np.array([ends], dtype=np.float64).T for ends in zip(*((f.min, f.max) for f in features), strict=True))
    repaired, rows = Repaired(), _NO_ROWS
    fits = (values.min(axis=1) >= low[:, 0]) & (values.max(axis=1) <= high[:, 0]) if values.size else np.array([True])
    if not fits.all():
        some = np.flatnonzero(~fits).tolist()
        few, least, most = values[some], low[some], high[some]
        missing, outside = np.isnan(few), (few < least) | (few > most)
        repaired = Repaired(int(outside.sum()), int(missing.sum()))
        if strict or not clamps:
            told = [strict or features[i].missing is None for i in some]
            rows = np.flatnonzero((outside | (missing & np.array([told]).T)).any(axis=0))
        np.copyto(few, np.array([[float(features[i].filler)] for i in some]), where=missing)
        values[some] = np.clip(few, least, most)
    values -= low
    values /= high - low
    values *= 2.0
    values -= 1.0
    return repaired, rows


def _level_index(f: Feature) -> dict[str, int]:
    index = {level: i for i, level in enumerate(f.levels or ())}
    if MISSING_LEVEL in index:
        index.setdefault("", index[MISSING_LEVEL])
    return index


def _put(block: _Array | OneHot, X: NDArray[np.float64]) -> None:
    """Write coordinates into a part of X; where X is narrower, without the first ones."""
    if not isinstance(block, OneHot):
        X[:] = block[:, -X.shape[1] :]
        return
    for some in few_rows(X):
        # Memory that nobody wrote may hold bits that are no number, or -0. A page that is not written to takes none.
        if X[some].view(f"u{X.itemsize}").any():
            X[some] = 0.0
    places = block.places - (block.width - X.shape[1])
    rows = np.flatnonzero(places >= 0)
    X[rows, places[rows]] = 1.0


# --- Labels ----------------------------------------------------------------------


class Labels:
    """The labels of a file, block by block.

    Where the study clamps, no label makes a party refuse: what is not the positive value is the other one, and what is
    no class is the first class. A label of two values has the positive one and one other.

    Parameters
    ----------
    study : Study
    clamps : bool, optional
        Whether no label makes a party refuse; by default as the study says.
    """

    def __init__(self, study: Study, *, clamps: bool | None = None) -> None:
        self.study, self.name = study, study.label.name
        self.clamps = study.study.out_of_bounds == "clamp" if clamps is None else clamps
        self.repaired = Repaired()
        """How many cells were empty, or no class."""
        self.texts = set[str]()
        """The different texts."""
        self.unfit = False
        """Whether the study refuses a label, whatever the others are."""
        self.positive, self.classes = study.label.positive, study.label.classes
        self.loose = study.study.matching == "loose"
        self._type: type[np.generic] = np.int16 if len(self.classes or ()) < 1 << 15 else np.int32  # small beside X
        self._parts: list[NDArray[Any]] = []

    def take(self, column: WholeColumn) -> None:
        """Take a block's labels."""
        levels = _levels_of(column)
        counts = np.bincount(levels.places, minlength=len(levels.texts)).tolist()
        seen = [text for text, count in zip(levels.texts, counts, strict=True) if count]
        meant = [self.meant(text) for text in levels.texts]
        faulty = [not text if self.classes is None else text not in self.classes for text in meant]
        filled = sum(count for count, is_faulty in zip(counts, faulty, strict=True) if is_faulty)
        self.repaired += Repaired(filled=filled)
        self.unfit |= not self.clamps and not all(map(self.fits, seen))
        self.texts |= {self.same(text) for text in seen}
        self._parts.append(np.array([self.number(text) for text in meant], dtype=self._type)[levels.places])

    def fits(self, text: str) -> bool:
        """Return whether a label may be one of the study's, whatever the others are."""
        if self.classes is not None:
            return self.meant(text) in self.classes
        return bool(text.strip() if self.loose else text)

    def meant(self, text: str) -> str:
        """Return the class or the positive value that a label means, or the label as it is."""
        return spelled(text, self.classes or (str(self.positive),), loose=self.loose)

    def same(self, text: str) -> str:
        """Return what all cells of a label have in common."""
        if (meant := self.meant(text)) == self.positive:
            return meant
        return meant.strip().casefold() if self.loose else meant

    def number(self, text: str) -> int:
        """Return the number of a label by what it means."""
        if self.classes is None:
            return 1 if text == self.positive else -1
        return self.classes.index(text) if text in self.classes else 0

    @property
    def refused(self) -> bool:
        """Whether the study refuses the labels: one of them, or a third of what has two values."""
        thirds = self.classes is None and len(self.texts - {self.positive, ""}) > 1
        return self.unfit or (thirds and not self.clamps)

    def finish(self) -> NDArray[np.float64]:
        """Return all labels."""
        return self.numbers().astype(np.float64)

    def numbers(self) -> NDArray[Any]:
        """Return all labels that were taken, as small integers."""
        return np.concatenate([np.empty(0, self._type), *self._parts])


class NumberLabels(Labels):
    """The labels of a file, where they are numbers with public bounds: as features are read."""

    def __init__(self, study: Study, *, clamps: bool | None = None) -> None:
        super().__init__(study, clamps=clamps)
        if study.label.number is None:
            raise LocalProtocolError("the study's label is no number")
        self.feature, self._type = study.label.number, np.float64

    def take(self, column: WholeColumn) -> None:
        """Take a block's labels."""
        block, repaired, rows = encode_column(self.feature, column, clamps=self.clamps)
        if isinstance(block, OneHot):
            raise LocalProtocolError("a label that is a number has no bins")
        self.repaired += repaired
        self.unfit |= len(rows) > 0
        self._parts.append(block[:, 0])


def labels_of(study: Study, *, clamps: bool | None = None) -> Labels:
    """Return the labels of a file, before any is read; the parameters are those of :class:`Labels`."""
    return (Labels if study.label.number is None else NumberLabels)(study, clamps=clamps)


def _levels_of(column: WholeColumn) -> Levels:
    if not isinstance(column, Levels):
        raise LocalProtocolError("a label is read as text")
    return column


def numeric(encoder: "Encoder", labels: Labels | None) -> frozenset[str]:
    """Return the columns that hold numbers, the label's among them."""
    numbers = {f.name for f in encoder.features if f.levels is None}
    return frozenset(numbers | ({labels.name} if isinstance(labels, NumberLabels) else set()))


# --- Schema ----------------------------------------------------------------------

_NORM_SLACK = 1e-12
_LABELS = "a data set needs one label for each record: -1 or +1, the number of a class, or a number in [-1, 1]"
_GET_MODEL = "take the model.json that a run left in its directory"


def check_rows(X: NDArray[np.float64], coding: Coding = "one-hot") -> None:
    """Check that X is a matrix of records of norm at most 1; of covariates, that none lies outside [-1, 1].

    Raises
    ------
    LocalProtocolError
        It is not, so it did not come from the encoder.
    """
    if X.ndim != 2:  # noqa: PLR2004
        raise LocalProtocolError("records must be a matrix of finite numbers, with one row for each record")
    for some in few_rows(X):  # a copy of all of them would double the memory
        rows = np.asarray(X[some], dtype=np.float64)
        if not np.isfinite(rows).all():
            raise LocalProtocolError("records must be a matrix of finite numbers, with one row for each record")
        if coding == "treatment" and (np.abs(rows) > 1).any():
            raise LocalProtocolError("a covariate lies outside [-1, 1]; no privacy bound would hold for it")
        if coding == "one-hot" and (np.linalg.norm(rows, axis=1) > 1 + _NORM_SLACK).any():
            raise LocalProtocolError("a record lies outside the unit ball; no privacy bound would hold for it")


def check_labels(y: NDArray[np.float64], classes: int | None) -> None:
    """Check that all labels are -1 or +1, or the number of a named class, or with no classes, a number in [-1, 1].

    Raises
    ------
    LocalProtocolError
        They are not.
    """
    allowed = np.arange(classes) if classes else np.array((-1, 1))
    if not (np.abs(y) <= 1 if classes == 0 else np.isin(y, allowed)).all():
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
        """Check that no record is larger than every privacy bound needs it to be, and freeze the arrays."""
        X, y = self.X, self.y
        self._check()
        if y.shape != X.shape[:1]:
            raise LocalProtocolError(_LABELS)
        X.setflags(write=False)
        y.setflags(write=False)

    def _check(self) -> None:
        check_rows(self.X)
        check_labels(self.y, self.classes)

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
        side = replace(self, X=taken(self.X, kept), y=self.y[kept], repaired=Repaired())
        object.__setattr__(side, "_ends_of_side", tuple(before[list(self._ends)].tolist()))
        return side

    @property
    def matrix(self) -> NDArray[np.float64]:
        """The records as a matrix of float64, a copy where they are stored as float32."""
        return np.asarray(self.X, dtype=np.float64)

    @property
    def _ends(self) -> tuple[int, ...]:
        return (*range(ROWS, self.n, ROWS), self.n) if self._ends_of_side is None else self._ends_of_side


class Covariates(Dataset):
    """One party's records for a regression: numbers between -1 and 1 as they are, not divided by a record's length.

    Parameters
    ----------
    X : ndarray, shape (n, p)
        Numbers by their public bounds; levels and bins in treatment coding, 0 or 1. There is no constant among them.
    y : ndarray, shape (n,)
        Labels -1 and +1, or numbers between -1 and 1 by the label's public bounds.
    classes : int, optional
        0 where the label is a number; None if it has two values.
    repaired : Repaired
    """

    @property
    def coding(self) -> Coding:
        """That of covariates."""
        return "treatment"

    def _check(self) -> None:
        for values, dimensions in ((self.X, 2), (self.y, 1)):
            # Written so that a number that is not finite fails as well.
            fits = values.ndim == dimensions
            if not fits or not all(
                (np.abs(values[some]) <= 1).all() for some in few_rows(values.reshape(len(values), -1))
            ):
                raise LocalProtocolError("a covariate or a label lies outside [-1, 1]; no privacy bound would hold")

    def __repr__(self) -> str:
        return "<Covariates: secret>"


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
    coding : Coding
        "one-hot" for vectors in the unit ball, or "treatment" for covariates, which have no intercept.
    matching : Matching
        "loose" where capitals, and blanks around a cell, do not count where they leave one level only.
    """

    features: tuple[Feature, ...]
    intercept: bool
    out_of_bounds: OutOfBounds = "refuse"
    precision: Precision = field(default="float64", compare=False)
    coding: Coding = "one-hot"
    matching: Matching = "exact"

    @classmethod
    def from_study(cls, study: Study, coding: Coding = "one-hot") -> Self:
        """Return the study's encoder, in a coding."""
        rules, intercept = study.study, study.model.intercept and coding == "one-hot"
        precision, matching = rules.precision or "float64", rules.matching or "exact"
        return cls(study.features, intercept, rules.out_of_bounds, precision, coding, matching)

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
        encoded = tuple(name for f in self.features for name in self.of(f))
        return (*encoded, INTERCEPT) if self.intercept else encoded

    def of(self, f: Feature) -> tuple[str, ...]:
        """Return the names of the coordinates that a feature becomes."""
        return f.covariates if self.coding == "treatment" else f.coordinates

    @property
    def d(self) -> int:
        """The number of coordinates."""
        return len(self.names)

    def matrix(self, n: int) -> NDArray[Any]:
        """Return room for n records: zeros where they are wide, so that what stays zero takes no memory.

        Raises
        ------
        BadInput
            The system has too little memory for them. Their number is not told.
        """
        try:
            return zeros(n, self.d, self.dtype)
        except (MemoryError, OSError):
            pass
        raise BadInput(
            f"this machine has too little memory for the records: each may take {self.d * self.dtype.itemsize:,} bytes",
            "keep them on a disk, with --stream FOLDER; or ask for a study with fewer columns or levels",
        )

    @property
    def loose(self) -> bool:
        """Whether levels are matched loosely."""
        return self.matching == "loose"

    def to_json(self) -> dict[str, Any]:
        """Return a JSON value that keeps every number exactly."""
        form: dict[str, Any] = {"intercept": self.intercept, "coding": self.coding, "matching": self.matching}
        return encoder_to_json(self.features, self.out_of_bounds, **form)

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
            coding, matching = data.get("coding", "one-hot"), data.get("matching", "exact")
        except (AttributeError, KeyError, TypeError, ValidationError) as error:
            raise BadInput("the model file has no encoder of the form that this program writes", _GET_MODEL) from error
        known = rule in get_args(OutOfBounds) and coding in get_args(Coding) and matching in get_args(Matching)
        if not (features and isinstance(intercept, bool) and known) or (intercept and coding == "treatment"):
            raise BadInput("the model file has no encoder of the form that this program writes", _GET_MODEL)
        return cls(features, intercept, rule, coding=coding, matching=matching)

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
            Rows of norm at most 1, or covariates.

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
        X = self.matrix(length_of(columns, self.columns))
        whole = Columns(columns, numeric(self, None), self.out_of_bounds == "clamp")
        _, repaired, rows = self.encode_into(X, whole)
        if len(rows):
            from masquerade_core.data.file_faults import Faults, note_cells

            faults, clamps = Faults("the data", "record"), self.out_of_bounds == "clamp"
            note_cells(self.features, columns, range(1, len(X) + 1), faults, clamps=clamps, loose=self.loose)
            faults.check()
        return X, repaired

    def encode_into(
        self, X: NDArray[np.float64], columns: Mapping[str, WholeColumn], *, strict: bool = False
    ) -> tuple[int, Repaired, NDArray[np.intp]]:
        """Encode and clip records into the first rows of X.

        Parameters
        ----------
        X : ndarray of float64, shape (n or more, d)
        columns : mapping of str to WholeColumn
            The columns of n records.
        strict : bool
            Whether rows with a cell that the study moves, fills or matches loosely are told, too.

        Returns
        -------
        n : int
        repaired : Repaired
            How many cells were moved or filled.
        rows : ndarray of int
            The records with a cell that the study refuses.
        """
        clamps, place, n, repaired = self.out_of_bounds == "clamp", 0, 0, Repaired()
        refused = np.zeros(len(X), dtype=np.bool_)

        def take(start: int, width: int, block: _Array | OneHot, moved: Repaired, rows: NDArray[np.intp]) -> None:
            nonlocal repaired
            _put(block, X[start : start + len(block), place : place + width])
            repaired += moved
            refused[rows + start] = True

        for features, some in self._alike(columns):
            n = len(some[0])
            if features[0].levels is None and features[0].edges is None:
                for start in range(0, n, ROWS):
                    values = np.stack([column[start : start + ROWS] for column in some])
                    moved, rows = _to_units(features, values, clamps=clamps, strict=strict)
                    take(start, len(some), values.T, moved, rows)
                place += len(some)
                continue
            (f,), (column,), width = features, some, len(self.of(features[0]))
            for start in range(0, n, ROWS):
                part = column[start : start + ROWS]
                block, moved, rows = encode_column(f, part, clamps=clamps, loose=self.loose, strict=strict)
                take(start, width, block, moved, rows)
            place += width
        self._finish(X[:n])
        return n, repaired, np.flatnonzero(refused[:n])

    def _alike(self, columns: Mapping[str, WholeColumn]) -> Iterator[tuple[list[Feature], list[Any]]]:
        """Return the columns in their order: numbers with bounds some at a time, every other one by itself."""
        features, some, size = list[Feature](), list[Any](), 0
        for f in self.features:
            column, is_plain = columns[f.name], f.levels is None and f.edges is None
            if some and not (is_plain and size < TOGETHER):
                yield features, some
                features, some, size = [], [], 0
            if not is_plain:
                yield [f], [column]
                continue
            features.append(f)
            some.append(column)
            size += 8 * len(column)
        if some:
            yield features, some

    def _finish(self, X: NDArray[np.float64]) -> None:
        if self.coding == "treatment":
            return
        if self.intercept:
            X[:, -1] = 1.0
        for some in few_rows(X):
            rows = X[some]
            exact = np.asarray(rows, dtype=np.float64)
            lengths = np.maximum(1.0, np.linalg.norm(exact, axis=1))
            if (at := cells_in(rows)) is not None:
                clipped = exact[at] / lengths[at[0]]
                rows[at] = clipped if rows.dtype == np.float64 else _towards_zero(clipped)
            elif rows.dtype == np.float64:
                rows /= lengths[:, None]
            else:
                rows[:] = _towards_zero(exact / lengths[:, None])
