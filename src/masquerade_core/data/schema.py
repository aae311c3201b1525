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
refusal would tell others something about that record. With "refuse" an error names the column, the kinds of fault and
their places. With ``matching = "loose"`` capitals, and blanks around a cell, do not count where they leave one level or
label only; with "exact" they do.

*Labels* are read block by block, like columns, and an error says what is wrong with them. A label that is a number is
read as a feature is, and mapped from its public bounds to [-1, 1].
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise, repeat
from typing import Any, ClassVar, Self, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import ValidationError

from masquerade_core.data.file_faults import (
    INFINITE,
    LABEL_EMPTY,
    LABEL_MATCHED,
    LEVEL_MATCHED,
    MATCHED,
    MISSING,
    MISSING_WORDS,
    OUTSIDE,
    STRANGE,
    THIRD,
    THIRD_ALIKE,
    Faults,
    FaultyFile,
    Kind,
    Place,
    Sign,
    alike,
    allowed_of,
    escaped,
    is_missing,
    kind_of_class,
    kind_of_level,
    number_of,
    renaming,
    spelled,
)
from masquerade_core.data.files import TextTable, cell_text
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
    "MISSING_WORDS",
    "Column",
    "Covariates",
    "Dataset",
    "EncodedColumn",
    "Encoder",
    "Labels",
    "Levels",
    "NumberLabels",
    "OneHot",
    "Repaired",
    "check_labels",
    "check_rows",
    "encode_column",
    "encode_whole",
    "is_allowed",
    "labels_of",
    "length_of",
]


# --- Columns ---------------------------------------------------------------------

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


@dataclass(frozen=True, repr=False)
class EncodedColumn:
    """A column's coordinates, and its cells that do not fit.

    Parameters
    ----------
    block : ndarray of shape (n, k), or OneHot
        With every cell that does not fit moved to a bound or filled.
    repaired : Repaired
        How many cells were.
    faults : dict of Kind to list of int
        The rows of these cells, by what is wrong with them.
    """

    block: "_Array | OneHot"
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
    return clamps or kind in MATCHED or (f.missing is not None and kind in MISSING)


def encode_column(f: Feature, cells: Column, *, loose: bool = False) -> EncodedColumn:
    """Return one column's coordinates, and its cells that do not fit.

    Parameters
    ----------
    f : Feature
    cells : sequence
        Text, numbers or truth values.
    loose : bool
        Whether capitals, and blanks around a cell, do not count where they leave one level only.
    """
    return _levels(f, cells, loose=loose) if f.levels is not None else _numbers(f, cells)


def encode_whole(
    f: Feature, column: WholeColumn, *, clamps: bool, loose: bool = False, strict: bool = False
) -> "tuple[_Array | OneHot, Repaired, NDArray[np.intp]]":
    """Return a column's coordinates as :func:`encode_column` does, and the rows whose cells that one shall look at.

    These are the rows that the study refuses; where ``strict`` is true, also those that it fills or moves to a bound.
    """
    if isinstance(column, Levels):
        index = _level_index(f)
        known = np.array([index.get(spelled(text, index, loose=loose), -1) for text in column.texts], dtype=np.intp)
        places = known[column.places]
        filled = rows = np.flatnonzero(places < 0)
        if len(filled):
            if not strict and (clamps or f.missing is not None):
                said = np.array([clamps or is_missing(text) for text in column.texts])
                rows = filled[~said[column.places[filled]]]
            places[filled] = (f.levels or ()).index(str(f.filler))
        return OneHot(places, len(f.levels or ())), Repaired(filled=len(filled)), rows
    if f.edges is None:
        values = column[None].copy()
        repaired, rows = _to_units([f], values, clamps=clamps, strict=strict)
        return values.T, repaired, rows
    missing = np.isnan(column)
    wrong = np.zeros(len(column), dtype=np.bool_) if clamps else np.isinf(column)
    if f.min is not None and f.max is not None and (strict or not clamps):
        wrong |= (column < f.min) | (column > f.max)
    if strict or not (clamps or f.missing is not None):
        wrong |= missing
    block, repaired = _scaled(f, np.where(missing, float(f.filler), column), int(missing.sum()))
    return block, repaired, np.flatnonzero(wrong)


_NO_ROWS = np.empty(0, dtype=np.intp)


def _to_units(
    features: Sequence[Feature], values: _Array, *, clamps: bool, strict: bool
) -> tuple[Repaired, NDArray[np.intp]]:
    """Map numbers with public bounds to [-1, 1], in place; what is returned is that of :func:`encode_whole`.

    Parameters
    ----------
    features : sequence of Feature
        All have bounds, and neither levels nor edges.
    values : ndarray, shape (k, n)
        A row for each feature, NaN where a cell is missing.
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


def _levels(f: Feature, cells: Column, *, loose: bool) -> EncodedColumn:
    levels, index = f.levels or (), _level_index(f)
    texts, faults = _texts(cells)
    places = np.fromiter(map(index.get, texts, repeat(-1)), dtype=np.intp, count=len(texts))
    strange, no_cells = np.flatnonzero(places < 0).tolist(), set(faults.get(STRANGE, ()))
    if loose and strange:
        meant = {text: index.get(spelled(text, index, loose=True), -1) for text in {texts[row] for row in strange}}
        places[strange] = [meant[texts[row]] for row in strange]
        if matched := [row for row in strange if places[row] >= 0 and row not in no_cells]:
            faults[LEVEL_MATCHED] = matched
        strange = np.flatnonzero(places < 0).tolist()
    kinds: dict[str, Kind] = {}
    for row in strange:
        if row not in no_cells:
            if texts[row] not in kinds:
                kinds[texts[row]] = kind_of_level(texts[row], levels)
            faults.setdefault(kinds[texts[row]], []).append(row)
    places[strange] = levels.index(str(f.filler))
    return EncodedColumn(OneHot(places, len(levels)), Repaired(filled=len(strange)), faults)


def _numbers(f: Feature, cells: Column) -> EncodedColumn:
    values, filled, faults = _values(f, cells)
    if f.min is not None and f.max is not None:
        infinite = set(faults.get(INFINITE, ()))
        outside = np.flatnonzero((values < f.min) | (values > f.max)).tolist()
        if outside := [row for row in outside if row not in infinite]:
            faults[OUTSIDE] = outside
    block, repaired = _scaled(f, values, filled)
    return EncodedColumn(block, repaired, faults)


def _scaled(f: Feature, values: _Array, filled: int) -> tuple[_Array | OneHot, Repaired]:
    """Return the coordinates of numbers; those outside the public bounds are moved to the nearer one."""
    clamped = 0
    if f.min is not None and f.max is not None:
        clamped = int(((values < f.min) | (values > f.max)).sum())
        values = np.clip(values, f.min, f.max)
    repaired = Repaired(clamped, filled)
    if f.edges is not None:  # a value on an edge belongs to the bin above it
        return OneHot(np.searchsorted(np.array(f.edges), values, side="right"), len(f.edges) + 1), repaired
    if f.min is None or f.max is None:
        raise LocalProtocolError(f"feature {f.name!r} has neither bounds, levels nor edges")
    return _to_unit(f, values)[:, None], repaired


def _to_unit(f: Feature, values: _Array) -> _Array:
    """Map numbers from their bounds to [-1, 1], in place: 2 (x - min) / (max - min) - 1."""
    low, high = float(f.min or 0), float(f.max or 0)
    values -= low
    values /= high - low
    values *= 2.0
    values -= 1.0
    return values


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


def _texts(cells: Column) -> tuple[Sequence[str], dict[Kind, list[int]]]:
    """Return each cell as the text that stands for exactly it, as a file would hold it; and what is no cell."""
    if (isinstance(cells, list) and set(map(type, cells)) == {str}) or all(isinstance(cell, str) for cell in cells):
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


# --- Labels ----------------------------------------------------------------------

_DIFFERENT = 100  # values that are counted apart
_REST = "\0"


class Labels:
    """The labels of a file, block by block.

    Where the study clamps, no label makes a party refuse: what is not the positive value is the other one, and what is
    no class is the first class.

    A label of two values has the positive one and one other. Which values are too many shows at the end of the file
    alone, so the places of every further value are noted while the file is read.

    Parameters
    ----------
    study : Study
    strict : bool
        Whether a block whose labels do not fit is to be read cell by cell even where the study clamps.
    clamps : bool, optional
        Whether no label makes a party refuse; by default as the study says.
    part : bool
        Whether these are the labels of one part of the records. Then :meth:`check` says of all parts together whether
        there is a value too many.
    """

    def __init__(self, study: Study, *, strict: bool = False, clamps: bool | None = None, part: bool = False) -> None:
        self.repaired = Repaired()
        """How many cells were empty, or no class."""
        self.texts = set[str]()
        """The different texts."""
        self.name = study.label.name
        self._positive, self._classes = study.label.positive, study.label.classes
        self._clamps = study.study.out_of_bounds == "clamp" if clamps is None else clamps
        self._loose = study.study.matching == "loose"
        self._strict, self._part = strict or not self._clamps, part
        self._type: type[np.generic] = (
            np.int16 if len(self._classes or ()) < 1 << 15 else np.int32
        )  # small beside the records
        self._has_positive = False
        self._other: str | None = None
        self._odd: dict[str, tuple[int, list[Place]]] = {}
        self._parts: list[NDArray[Any]] = []

    def take(self, table: TextTable, faults: Faults) -> None:
        """Take a block's labels from its cells, and note those that cannot be used."""
        if self.name in table.columns:
            self._keep(self.note_cells(table, faults))

    def note_cells(self, table: TextTable, faults: Faults) -> Levels:
        """Note the labels of a table that cannot be used, and return all of them."""
        cells, all_places = table.columns[self.name], table.places(faults.source)
        numbers = {text: i for i, text in enumerate(dict.fromkeys(cells))}
        places = np.fromiter((numbers[cell] for cell in cells), np.intp, len(cells))
        levels = list(numbers)
        for i, text in enumerate(levels):
            kind, is_odd = self._kind(text), self._is_odd(text)
            if kind is None and not is_odd:
                continue
            where = [all_places[row] for row in np.flatnonzero(places == i).tolist()]
            if kind is not None:
                refused = not (self._clamps or kind in MATCHED)
                faults.add(self.name, kind, where, refused=refused, allowed=self._allowed)
            else:
                key = text if text in self._odd or len(self._odd) < _DIFFERENT else _REST
                count, first = self._odd.get(key, (0, []))
                self._odd[key] = (count + len(where), [*first, *where][:3])
        return Levels(places, levels)

    def rows_to_note(self, column: WholeColumn) -> NDArray[np.intp]:
        """Return the rows of a block whose labels are to be noted with :meth:`note_cells`."""
        if not self._strict:
            return _NO_ROWS
        levels = _texts_of(column)
        seen = np.bincount(levels.places, minlength=len(levels.texts)).tolist()
        noted = [
            bool(count) and (self._kind(text) is not None or self._is_odd(text))
            for text, count in zip(levels.texts, seen, strict=True)
        ]
        return np.flatnonzero(np.array(noted, dtype=np.bool_)[levels.places]) if any(noted) else _NO_ROWS

    def take_whole(self, column: WholeColumn) -> None:
        """Take a block's labels."""
        self._keep(_texts_of(column))

    def _kind(self, text: str) -> Kind | None:
        """Return what is wrong with a label, whatever the others are."""
        if self._spelled(text) != text:
            return LABEL_MATCHED
        if self._classes is not None:
            return None if text in self._classes else kind_of_class(text, self._classes)
        return None if text.strip() or (text and not self._loose) else LABEL_EMPTY

    def _spelled(self, text: str) -> str:
        """Return the class or the positive value that a label means, or the label as it is."""
        return spelled(text, self._classes or (str(self._positive),), loose=self._loose)

    def _same(self, text: str) -> str:
        """Return what two cells of the same label have in common."""
        return text.strip().casefold() if self._loose else text

    def _is_odd(self, text: str) -> bool:
        """Return whether a label of two values is neither the positive one nor the other one."""
        if self._positive is None or self._part or not text:
            return False
        if self._spelled(text) == self._positive:
            self._has_positive = True
            return False
        if alike(text, [self._positive]) is not None:
            return True
        if self._other is None:
            self._other = text
        return self._same(text) != self._same(self._other)

    @property
    def _allowed(self) -> str:
        return ", ".join(map(repr, self._classes or (self._positive,)))

    def _keep(self, levels: Levels) -> None:
        counts = np.bincount(levels.places, minlength=len(levels.texts)).tolist()
        meant = [self._spelled(text) for text in levels.texts]
        faulty = [not text if self._classes is None else text not in self._classes for text in meant]
        filled = sum(count for count, is_faulty in zip(counts, faulty, strict=True) if is_faulty)
        self.repaired += Repaired(filled=filled)
        found = {text for text, count in zip(meant, counts, strict=True) if count}
        self.texts |= {text if text == self._positive else self._same(text) for text in found}
        self._parts.append(np.array([self._number(text) for text in meant], dtype=self._type)[levels.places])

    def _number(self, text: str) -> int:
        if self._classes is None:
            return 1 if text == self._positive else -1
        return self._classes.index(text) if text in self._classes else 0

    def note(self, faults: Faults, *, all_values: bool = False) -> None:
        """Note the values of a label that are too many, once all labels were taken.

        Parameters
        ----------
        faults : Faults
        all_values : bool
            Whether they are noted although the study takes each for the value that is not the positive one.
        """
        others = len(self._odd) + (self._other is not None)
        if others == 2 and not self._has_positive and not self._clamps:  # noqa: PLR2004  neither is the positive one
            near = any(alike(text, [str(self._positive)]) is not None for text in self._odd)
            near_hint = "; one of its values differs from that in capitals or blanks alone"
            if not near:
                near_hint = f"\n  {renaming([(self.name, f'?={escaped(str(self._positive))}')])}"
            faults.signs.append(Sign("label_never", self._never, f"{_two(self._allowed)}{near_hint}"))
            if not near:
                return
        if others < 2 and not self._clamps:  # noqa: PLR2004
            return
        known = [text for text in (self._positive, self._other) if text is not None]
        for text, (count, first) in self._odd.items():
            is_alike = alike(text, known) is not None
            if is_alike or all_values or not self._clamps:
                kind = THIRD_ALIKE if is_alike else THIRD
                faults.add(self.name, kind, first, count=count, refused=not self._clamps, allowed=self._allowed)

    @property
    def unseen(self) -> tuple[str, ...]:
        """The values that the study names and that no record has."""
        numbers = np.unique(self.numbers()).tolist()
        names = self._classes or (str(self._positive),)
        return tuple(name for name in names if self._number(name) not in numbers)

    @property
    def other(self) -> str | None:
        """The first value that is not the positive one, nor differs from it in capitals or blanks alone."""
        return self._other

    def finish(self) -> NDArray[np.float64]:
        """Return all labels."""
        return self.numbers().astype(np.float64)

    def numbers(self) -> NDArray[Any]:
        """Return all labels that were taken, as small integers."""
        return np.concatenate([np.empty(0, self._type), *self._parts])

    def check(self, source: str) -> None:
        """Check that a label of two values has one that is not the positive one, and no third.

        Raises
        ------
        BadInput
            It has a third; or neither of its two is the positive one.
        """
        positive, others = self._positive, self.texts - {self._positive, ""}
        if positive is None or len(others) < 2 or self._clamps:  # noqa: PLR2004  a positive value and another
            return
        says = f"the label {self.name!r} has more than two different values"
        if len(others) == 2 and positive not in self.texts:  # noqa: PLR2004
            says = self._never
        raise FaultyFile(source, (Sign("label_third", says, _two(self._allowed)),), (), "record")

    @property
    def _never(self) -> str:
        return f"the label {self.name!r} is never {self._positive!r}, the study's positive value"


class NumberLabels(Labels):
    """The labels of a file, where they are numbers with public bounds: as features are read."""

    def __init__(self, study: Study, *, strict: bool = False, clamps: bool | None = None, part: bool = False) -> None:
        super().__init__(study, strict=strict, clamps=clamps, part=part)
        if study.label.number is None:
            raise LocalProtocolError("the study's label is no number")
        self._feature, self._type = study.label.number, np.float64

    def take(self, table: TextTable, faults: Faults) -> None:
        """Take a block's labels from its cells, and note those that do not fit."""
        if self.name in table.columns:
            found = self._noted(table, faults)
            self._add(found.block, found.repaired)

    def note_cells(self, table: TextTable, faults: Faults) -> Levels:
        """Note the labels of a table that do not fit; they are no texts."""
        self._noted(table, faults)
        return Levels(_NO_ROWS, ())

    def _noted(self, table: TextTable, faults: Faults) -> EncodedColumn:
        found, places = encode_column(self._feature, table.columns[self.name]), table.places(faults.source)
        for kind, rows in found.faults.items():
            where, allowed = [places[row] for row in rows], allowed_of(self._feature)
            faults.add(self.name, kind, where, refused=not self._clamps, allowed=allowed)
        return found

    def rows_to_note(self, column: WholeColumn) -> NDArray[np.intp]:
        """Return the rows of a block whose labels do not fit."""
        return encode_whole(self._feature, column, clamps=self._clamps, strict=self._strict)[2]

    def take_whole(self, column: WholeColumn) -> None:
        """Take a block's labels."""
        block, repaired, _ = encode_whole(self._feature, column, clamps=self._clamps)
        self._add(block, repaired)

    def _add(self, block: _Array | OneHot, repaired: Repaired) -> None:
        if isinstance(block, OneHot):
            raise LocalProtocolError("a label that is a number has no bins")
        self.repaired += repaired
        self._parts.append(block[:, 0])

    @property
    def unseen(self) -> tuple[str, ...]:
        """Nothing: a study names no single numbers."""
        return ()


def labels_of(study: Study, *, strict: bool = False, clamps: bool | None = None, part: bool = False) -> Labels:
    """Return the labels of a file, before any is read; the parameters are those of :class:`Labels`."""
    kind = Labels if study.label.number is None else NumberLabels
    return kind(study, strict=strict, clamps=clamps, part=part)


def _texts_of(column: WholeColumn) -> Levels:
    if not isinstance(column, Levels):
        raise LocalProtocolError("a label is read as text")
    return column


def _two(allowed: str) -> str:
    return f"one value must be {allowed} and all others must be equal"


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
        n = length_of(columns, self.columns)
        X, faults = self.matrix(n), Faults("the data", "record")
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
            width = len(self.of(f))
            if f.name not in columns:  # its file lacks it, and says so
                X[:, place : place + width], place = 0.0, place + width
                continue
            found = encode_column(f, columns[f.name], loose=self.loose)
            for kind, rows in found.faults.items():
                refused = not is_allowed(f, kind, clamps=clamps)
                faults.add(f.name, kind, [places[row] for row in rows], refused=refused, allowed=allowed_of(f))
            _put(found.block, X[:, place : place + width])  # of levels, treatment coding has no first
            place, repaired = place + width, repaired + found.repaired
        self._finish(X)
        return repaired

    def encode_whole(
        self, X: NDArray[np.float64], columns: Mapping[str, WholeColumn], *, strict: bool = False
    ) -> tuple[int, Repaired, NDArray[np.intp]]:
        """Encode and clip records into the first rows of X, as :meth:`encode` does.

        Parameters
        ----------
        X : ndarray of float64, shape (n or more, d)
        columns : mapping of str to WholeColumn
            The columns of n records as pyarrow has read them.
        strict : bool
            Whether cells that the study fills or moves to a bound are told, too.

        Returns
        -------
        n : int
        repaired : Repaired
        rows : ndarray of int
            The records with a cell that the study refuses, which :meth:`encode_into` shall take anew from their cells.
        """
        clamps, place, n, repaired = self.out_of_bounds == "clamp", 0, 0, Repaired()
        told = [_NO_ROWS]

        def take(start: int, width: int, block: _Array | OneHot, moved: Repaired, rows: NDArray[np.intp]) -> None:
            nonlocal repaired
            _put(block, X[start : start + len(block), place : place + width])
            repaired += moved
            if len(rows):
                told.append(rows + start)

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
                block, moved, rows = encode_whole(f, part, clamps=clamps, loose=self.loose, strict=strict)
                take(start, width, block, moved, rows)
            place += width
        self._finish(X[:n])
        return n, repaired, np.unique(np.concatenate(told))

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
