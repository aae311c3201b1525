"""A file of records against a study, before the day: what is refused, what would be repaired, and what is doubtful.

A study with ``out_of_bounds = "clamp"`` refuses no cell, so that no record makes a party refuse on the day. Before a
person says yes it is different: a file whose labels are spelled in another way would be learned from, and nobody would
notice. So what looks like a mistake is a *doubt*. A command that stands before the yes refuses a file with doubts until
they are mended, or accepted by the names of their columns. The rules of a doubt are public and the same for every file.
"""

import shlex
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from masquerade_core.data.blocks import records_of
from masquerade_core.data.file_faults import (
    CLEAN,
    CODE,
    CODES,
    INFINITE,
    MATCHED,
    MISSING,
    NO_RECORDS,
    OUTSIDE,
    THIRD,
    Fault,
    FaultyFile,
    escaped,
    number_of,
    renaming,
)
from masquerade_core.data.files import Sign, Source, TextTable, Unit
from masquerade_core.data.noting import LabelNotes, Noting
from masquerade_core.data.schema import Encoder, WholeColumn, labels_of
from masquerade_core.errors import BadInput
from masquerade_core.study import Feature, Study

__all__ = [
    "FEWEST",
    "LINES",
    "MOST",
    "Doubt",
    "DoubtfulFile",
    "Examined",
    "examine",
    "examine_table",
    "kind_of_numbers",
    "looks_like_dates",
    "looks_like_ids",
]

LINES = "lines"
"""The name by which broken lines are accepted, where columns are accepted by their names."""

MOST = 5
"""More than one cell in so many is too many to be filled or moved."""

FEWEST = 30
"""Of fewer records nothing is said by their columns."""

_ENOUGH = 50  # whole numbers: fewer may all differ by chance
_LONG = 10**5  # a number of six digits
_REPEATED = 0.05
_THRICE = 3
_REPAIRED_BY_RULE = MISSING | {OUTSIDE, INFINITE, CODE}


@dataclass(frozen=True)
class Doubt:
    """Something in a file that a study allows, and that looks like a mistake.

    Parameters
    ----------
    column : str
        By this name it is accepted; :data:`LINES` for lines that are no records.
    kind : str
        For programs: "value", "missing_code", "repaired", "one_class", "constant", "identifier" or "date".
    says : str
        What was seen, without any cell.
    hint : str
        What to do about it.
    rename : str
        What the command that mends it needs to know (:attr:`~masquerade_core.data.file_faults.Kind.rename`).
    """

    column: str
    kind: str
    says: str
    hint: str = ""
    rename: str = ""

    def to_json(self) -> dict[str, str]:
        """Return a JSON value."""
        return {"column": self.column, "kind": self.kind, "says": self.says, "hint": self.hint}


class DoubtfulFile(BadInput):
    """A file looks like a mistake, and nobody has accepted what does.

    Parameters
    ----------
    source : str
        Names the file.
    doubts : sequence of Doubt
    """

    def __init__(self, source: str, doubts: Sequence[Doubt]) -> None:
        self.doubts = tuple(doubts)
        rows = [doubt.says for doubt in doubts]
        what = rows[0] if len(rows) == 1 else "".join(f"\n  {row}" for row in rows)
        names = " ".join(f"--accept {_quoted(name)}" for name in dict.fromkeys(doubt.column for doubt in doubts))
        hints = [
            *dict.fromkeys(doubt.hint for doubt in doubts if doubt.hint),
            *filter(None, [renaming((doubt.column, doubt.rename) for doubt in doubts)]),
            f"if all of it is as it should be: {names}",
        ]
        self.all_hints = "".join(f"\n  {hint}" for hint in hints)
        super().__init__(f"{source} can be read, but looks like a mistake: {what}", self.all_hints)


def _quoted(name: str) -> str:
    return name if name.replace("_", "").replace("-", "").isalnum() else f"'{name}'"


@dataclass(frozen=True, repr=False)
class Examined:
    """The findings in a file of records.

    Parameters
    ----------
    source : str
        Names the file.
    unit : str
        What places in it count.
    signs : tuple of Sign
        What is wrong with the file as a whole.
    faults : tuple of Fault
        Of lines, of columns and of the label. Some of them the study may repair.
    records : int
        How many there are, broken lines too. It is secret.
    unseen : tuple of str
        The label values that the study names and no record has.
    other : str or None
        The first value of a two-valued label that is not the positive one. It is a cell, and not shown.
    doubts : tuple of Doubt
        What the study allows and looks like a mistake.
    """

    source: str
    unit: Unit
    signs: tuple[Sign, ...]
    faults: tuple[Fault, ...]
    records: int
    unseen: tuple[str, ...]
    other: str | None = None
    doubts: tuple[Doubt, ...] = ()

    @property
    def refused(self) -> FaultyFile | None:
        """The error with which a party's process would refuse the file; None if it would not."""
        refused = [fault for fault in self.faults if fault.refused]
        return FaultyFile(self.source, self.signs, refused, self.unit) if self.signs or refused else None

    @property
    def repaired(self) -> tuple[Fault, ...]:
        """The repairs that the study's public rules make."""
        return tuple(fault for fault in self.faults if not fault.refused)

    def doubtful(self, accepted: Collection[str] = ()) -> DoubtfulFile | None:
        """Return the error that names all doubts but the accepted ones; None if there are none.

        Parameters
        ----------
        accepted : collection of str
            Names of columns, or :data:`LINES`.
        """
        left = [doubt for doubt in self.doubts if doubt.column not in accepted]
        return DoubtfulFile(self.source, left) if left else None

    def check(self, accepted: Collection[str] = ()) -> tuple[str, ...]:
        """Return the names of the doubts that were accepted.

        Raises
        ------
        BadInput
            A party's process would refuse the file, a doubt was not accepted, or a name was accepted that has no doubt.
        """
        if (error := self.refused or self.doubtful(accepted)) is not None:
            raise error
        known = {doubt.column for doubt in self.doubts}
        if more := [name for name in accepted if name not in known]:
            raise BadInput(
                f"--accept {_quoted(more[0])}: nothing in {self.source} is doubtful about it",
                f"leave --accept {_quoted(more[0])} out",
            )
        return tuple(name for name in dict.fromkeys(accepted))


def examine(
    path: Path | str, study: Study, *, counts: bool = False, change: Callable[[TextTable], TextTable] | None = None
) -> Examined:
    """Find all that is wrong with a file of records, in one reading.

    Parameters
    ----------
    path : path or str
        As for :func:`masquerade_core.data.blocks.source_of`.
    study : Study
    counts : bool
        Whether the study's protocol counts cells, and has a bin for every one of them. Then it refuses none, and none
        is doubtful.
    change : callable, optional
        What is done to the cells before they are looked at.

    Raises
    ------
    BadInput
        The file cannot be opened.
    """
    encoder, labels = _encoder(study, counts=counts), labels_of(study, clamps=counts or None)
    source = records_of(path, encoder, labels, fills=False)
    examining = _Examining(study, source, counts=counts)
    for block in () if any(sign.final for sign in source.signs) else source.blocks:
        if change is None:
            examining.take(block)
        else:
            for table in block.tables():
                examining.take_cells(change(table))
    return examining.found()


def examine_table(table: TextTable, study: Study) -> Examined:
    """Find all that is wrong with records in memory."""
    examining = _Examining(study, Source(table.source, len(table.numbers), iter(()), unit=table.unit), counts=False)
    examining.take_cells(table)
    return examining.found()


def _encoder(study: Study, *, counts: bool) -> Encoder:
    """Return an encoder of covariates, which keep what a column says: records in the unit ball are divided."""
    rule, matching = "clamp" if counts else study.study.out_of_bounds, study.study.matching or "exact"
    return Encoder(study.features, intercept=False, out_of_bounds=rule, coding="treatment", matching=matching)


class _Examining(Noting):
    """A file while it is examined, block by block."""

    def __init__(self, study: Study, source: Source, *, counts: bool) -> None:
        self._labels = LabelNotes(labels_of(study, clamps=counts or None), strict=True)
        super().__init__(_encoder(study, counts=counts), self._labels, source, fills=False, strict=True)
        self.study, self.counts = study, counts
        self._extremes: list[NDArray[np.float64]] = []
        known = (*study.features, *((study.label.number,) if study.label.number is not None else ()))
        self._bounded = [f for f in known if f.min is not None]
        self._codes = Counter[str]()
        self._numbers_in = {f.name: _Numbers() for f in study.features if f.levels is None}

    def noted(self, good: TextTable) -> None:
        """Count the numbers out of bounds that often stand for a missing value."""
        outside = {fault.column for fault in self.faults.all() if fault.kind == OUTSIDE}
        for f in (f for f in self._bounded if f.name in outside):
            for cell, count in Counter(good.columns.get(f.name, ())).items():
                value = number_of(cell)[0]
                if value in CODES and not float(f.min or 0) <= value <= float(f.max or 0):
                    self._codes[f.name] += count

    def watch(self, X: NDArray[np.float64], columns: Mapping[str, WholeColumn]) -> None:
        """Look at a block's columns as a whole."""
        if len(X):
            self._extremes.append(np.stack([X.min(axis=0), X.max(axis=0)]))
        for name, numbers in self._numbers_in.items():
            numbers.take(columns[name])

    def found(self) -> Examined:
        """Return the findings, once all blocks were taken."""
        self._labels.end(self.faults, all_values=not self.counts)
        if not (self.faults.records or self.faults.signs):
            self.faults.signs.append(NO_RECORDS)
        unseen = () if self.faults.signs else self._labels.unseen
        faults = tuple(map(self._named, self.faults.all()))
        doubts = () if self.counts or self.faults.signs else tuple(self._doubts(faults, unseen))
        source, unit, signs = self.faults.source, self.faults.unit, tuple(self.faults.signs)
        return Examined(source, unit, signs, faults, self.faults.records, unseen, self._labels.other, doubts)

    def _doubts(self, faults: Sequence[Fault], unseen: Sequence[str]) -> Iterator[Doubt]:
        for fault in faults:
            if fault.kind == CODE and not fault.refused:
                yield Doubt(fault.column, "missing_code", fault.row(self.faults.unit), rename=CODE.rename)
            elif not fault.refused and fault.kind not in _REPAIRED_BY_RULE | MATCHED:
                mend = f"'{CLEAN}' mends what public rules can"
                if fault.kind == THIRD:
                    label = shlex.quote(fault.column)
                    mend = f"'masquerade data look FILE --label {label}' names its values, and keeps two of them"
                hint = "; ".join(part for part in (fault.hint, mend) if part)
                yield Doubt(fault.column or LINES, "value", fault.row(self.faults.unit), hint, fault.kind.rename)
        yield from self._repaired(faults)
        yield from self._of_label(unseen)
        odd = {fault.column for fault in faults if fault.kind not in MATCHED}
        yield from (doubt for doubt in self._of_columns() if doubt.column not in odd)

    def _named(self, fault: Fault) -> Fault:
        """Return a fault of numbers out of bounds with its meaning, where three and half of them are known codes."""
        codes = self._codes[fault.column] if fault.kind == OUTSIDE else 0
        return replace(fault, kind=CODE) if codes >= max(_THRICE, fault.count / 2) else fault

    def _repaired(self, faults: Sequence[Fault]) -> Iterator[Doubt]:
        repaired: dict[str, int] = {}
        for fault in faults:
            if fault.column and not fault.refused and fault.kind in _REPAIRED_BY_RULE:
                repaired[fault.column] = repaired.get(fault.column, 0) + fault.count
        for column, count in repaired.items():
            if count * MOST > self.faults.records:
                yield Doubt(
                    column,
                    "repaired",
                    f"column {column!r}: more than a fifth of the cells would be filled, or moved to a bound",
                    f"see whether the study means this column, and in this unit: it has {self._range(column)}",
                )

    def _range(self, column: str) -> str:
        label = self.study.label.number
        known = (*self.study.features, *((label,) if label is not None else ()))
        return next((f.range for f in known if f.name == column), "other values")

    def _of_label(self, unseen: Sequence[str]) -> Iterator[Doubt]:
        label = self.study.label
        if label.number is None and (only := self._only_label(unseen)):
            hint = "see whether the study names the label's values as you do; with one class, these records say little"
            rename = f"?={escaped(unseen[0])}" if len(unseen) == 1 and label.classes is None else ""
            yield Doubt(label.name, "one_class", f"the label {label.name!r} {only}", hint, rename)

    def _only_label(self, unseen: Sequence[str]) -> str:
        classes = self.study.label.classes
        if classes is not None:
            return "has one class in all records" if len(unseen) == len(classes) - 1 else ""
        if unseen:
            return f"is never {unseen[0]!r}"
        return "" if self._labels.other is not None else f"is {self.study.label.positive!r} in all records"

    def _of_columns(self) -> Iterator[Doubt]:
        if not self._extremes or self.faults.records < FEWEST:
            return
        low = np.min([pair[0] for pair in self._extremes], axis=0)
        high = np.max([pair[1] for pair in self._extremes], axis=0)
        place = 0
        for f in self.study.features:
            width = len(self.encoder.of(f))
            same = bool((low[place : place + width] == high[place : place + width]).all())
            place += width
            if same:
                says = f"column {f.name!r} says the same of all records"
                yield Doubt(f.name, "constant", says, f"see whether it was exported: the study has {f.range} there")
            elif f.name in self._numbers_in and (kind := self._numbers_in[f.name].kind):
                yield _DOUBTED[kind](f)


def _identifier(f: Feature) -> Doubt:
    says = f"column {f.name!r} seems to number the records or the patients: nearly all its whole numbers differ"
    return Doubt(f.name, "identifier", says, "a model learns nothing from a number of that kind: ask for another study")


def _date(f: Feature) -> Doubt:
    says = f"column {f.name!r} seems to hold dates, written as numbers of eight digits"
    return Doubt(f.name, "date", says, "ask for a study with an age, or with the days since an event, in its place")


_DOUBTED = {"identifier": _identifier, "date": _date}


class _Numbers:
    """The look of a column's numbers, taken block by block."""

    def __init__(self) -> None:
        self._values = list[NDArray[np.float64]]()
        self._whole = True

    def take(self, cells: WholeColumn) -> None:
        """Take a block's cells, as long as all of them are whole numbers."""
        if not self._whole or not isinstance(cells, np.ndarray):
            return
        values = cells[np.isfinite(cells)]
        self._whole = bool((values == np.rint(values)).all())
        if self._whole:
            self._values.append(values)
            self._whole = not _repeat(values)
        if not self._whole:
            self._values.clear()

    @property
    def kind(self) -> str:
        """Return "identifier", "date", or nothing."""
        return kind_of_numbers(np.concatenate([np.empty(0), *self._values]))


def kind_of_numbers(values: NDArray[np.float64]) -> str:
    """Return what a column of numbers seems to be: "identifier" or "date", and else nothing."""
    if len(values) < FEWEST or not (values == np.rint(values)).all():
        return ""
    if looks_like_dates(values):
        return "date"
    return "identifier" if looks_like_ids(values) else ""


def _repeat(values: NDArray[np.float64]) -> bool:
    """Return whether so many numbers of a block stand there twice that a column is neither an identifier nor a date."""
    few_dates = len(values) and not looks_like_dates(values)
    return bool(few_dates and len(np.unique(values)) < (1 - 2 * _REPEATED) * len(values))


def looks_like_ids(values: NDArray[np.float64]) -> bool:
    """Return whether whole numbers seem to number something.

    There are 50 or more, and nearly all differ. Either they are about as many as the numbers from the smallest to the
    largest, or all of them have six digits or more.
    """
    if len(values) < _ENOUGH or len(np.unique(values)) < (1 - _REPEATED) * len(values):
        return False
    return bool(values.max() - values.min() < 3 * len(values) or np.abs(values).min() >= _LONG)


def looks_like_dates(values: NDArray[np.float64]) -> bool:
    """Return whether all whole numbers are dates of the form 20240131, between 1850 and 2100."""
    year, month, day = values // 10_000, values // 100 % 100, values % 100
    fits = (year >= 1850) & (year <= 2100) & (month >= 1) & (month <= 12) & (day >= 1) & (day <= 31)  # noqa: PLR2004
    return bool(len(values) and fits.all())
