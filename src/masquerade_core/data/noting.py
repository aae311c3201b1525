"""Notes the faults of a file of records by column and kind: for the error that refuses it, and for a check.

The encoder tells which rows have a cell that a study refuses (:mod:`masquerade_core.data.schema`), and a party stops
there. Then the file is read here from its beginning, for the sake of the error: it says all that is wrong at once. Only
a record with a fault is read cell by cell. The places are noted, and no cell is kept.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from masquerade_core.data.blocks import records_of, source_of
from masquerade_core.data.file_faults import (
    LABEL_EMPTY,
    LABEL_MATCHED,
    MATCHED,
    THIRD,
    THIRD_ALIKE,
    Faults,
    FaultyFile,
    Kind,
    allowed_of,
    cell_faults,
    escaped,
    kind_of_class,
    line_kind,
    no_records,
    note_cells,
    renaming,
)
from masquerade_core.data.files import Block, Place, Sign, Source, TextTable, alike
from masquerade_core.data.schema import (
    Columns,
    Encoder,
    Labels,
    Levels,
    NumberLabels,
    WholeColumn,
    encode_column,
    labels_of,
    numeric,
)
from masquerade_core.errors import BadInput
from masquerade_core.study import Study

__all__ = [
    "LabelNotes",
    "Noting",
    "faults_in_table",
    "faulty_file",
    "note_broken",
    "read_table",
]


# --- Labels ----------------------------------------------------------------------

_DIFFERENT = 100  # values that are counted apart
_REST = "\0"


class LabelNotes:
    """The labels of a file, block by block, and what is wrong with them.

    Which values of a two-valued label are too many shows at the end of the file alone. So the places of every further
    value are noted while the file is read.

    Parameters
    ----------
    labels : Labels
        Before any is taken.
    strict : bool
        Whether labels that do not fit are noted even where the study clamps.
    """

    def __init__(self, labels: Labels, *, strict: bool = False) -> None:
        self.labels, self.name = labels, labels.name
        self._strict = strict or not labels.clamps
        self._has_positive = False
        self._other: str | None = None
        self._odd: dict[str, tuple[int, list[Place]]] = {}

    @property
    def allowed(self) -> str:
        """The values that a label may have, for a sentence."""
        if isinstance(self.labels, NumberLabels):
            return allowed_of(self.labels.feature)
        return ", ".join(map(repr, self.labels.classes or (self.labels.positive,)))

    def rows(self, column: WholeColumn) -> NDArray[np.intp]:
        """Return the rows of a block whose labels are to be noted with :meth:`note`."""
        if isinstance(self.labels, NumberLabels):
            return encode_column(self.labels.feature, column, clamps=self.labels.clamps, strict=self._strict)[2]
        if not (self._strict and isinstance(column, Levels)):
            return np.empty(0, np.intp)
        seen = np.bincount(column.places, minlength=len(column.texts)).tolist()
        noted = [
            bool(count) and (self._kind(text) is not None or self._is_odd(text))
            for text, count in zip(column.texts, seen, strict=True)
        ]
        return np.flatnonzero(np.array(noted, dtype=np.bool_)[column.places])

    def note(self, cells: Sequence[str], places: Sequence[Place], faults: Faults) -> None:
        """Note those labels that cannot be used."""
        if isinstance(self.labels, NumberLabels):
            found = cell_faults(self.labels.feature, cells)
            for kind, rows in found.items():
                self._add(kind, [places[row] for row in rows], faults)
            return
        rows_of: dict[str, list[int]] = {}
        for row, text in enumerate(cells):
            rows_of.setdefault(text, []).append(row)
        for text, rows in rows_of.items():
            wrong, is_odd, where = self._kind(text), self._is_odd(text), [places[row] for row in rows]
            if wrong is not None:
                self._add(wrong, where, faults)
            elif is_odd:
                key = text if text in self._odd or len(self._odd) < _DIFFERENT else _REST
                count, first = self._odd.get(key, (0, []))
                self._odd[key] = (count + len(where), [*first, *where][:3])

    def _add(self, kind: Kind, places: Sequence[Place], faults: Faults) -> None:
        faults.add(self.name, kind, places, refused=not (self.labels.clamps or kind in MATCHED), allowed=self.allowed)

    def _kind(self, text: str) -> Kind | None:
        """Return what is wrong with a label, whatever the others are."""
        if self.labels.meant(text) != text:
            return LABEL_MATCHED
        if self.labels.fits(text):
            return None
        return LABEL_EMPTY if self.labels.classes is None else kind_of_class(text, self.labels.classes)

    def _is_odd(self, text: str) -> bool:
        """Return whether a label of two values is neither the positive one nor the other one."""
        positive = self.labels.positive
        if positive is None or not text:
            return False
        if self.labels.meant(text) == positive:
            self._has_positive = True
            return False
        if alike(text, [positive]) is not None:
            return True
        if self._other is None:
            self._other = text
        return self.labels.same(text) != self.labels.same(self._other)

    def end(self, faults: Faults, *, all_values: bool = False) -> None:
        """Note the values of a label that are too many, once all labels were taken.

        Parameters
        ----------
        faults : Faults
        all_values : bool
            Whether they are noted although the study takes each for the value that is not the positive one.
        """
        clamps, positive = self.labels.clamps, self.labels.positive
        others = len(self._odd) + (self._other is not None)
        if others == 2 and not self._has_positive and not clamps:  # noqa: PLR2004  neither is the positive one
            near = any(alike(text, [str(positive)]) is not None for text in self._odd)
            near_hint = "; one of its values differs from that in capitals or blanks alone"
            if not near:
                near_hint = f"\n  {renaming([(self.name, f'?={escaped(str(positive))}')])}"
            never = f"the label {self.name!r} is never {positive!r}, the study's positive value"
            two = f"one value must be {self.allowed} and all others must be equal"
            faults.signs.append(Sign("label_never", never, f"{two}{near_hint}"))
            if not near:
                return
        if others < 2 and not clamps:  # noqa: PLR2004
            return
        known = [text for text in (positive, self._other) if text is not None]
        for text, (count, first) in self._odd.items():
            is_alike = alike(text, known) is not None
            if is_alike or all_values or not clamps:
                kind = THIRD_ALIKE if is_alike else THIRD
                faults.add(self.name, kind, first, count=count, refused=not clamps, allowed=self.allowed)

    @property
    def unseen(self) -> tuple[str, ...]:
        """The values that the study names and that no record has; none of a label that is a number."""
        if isinstance(self.labels, NumberLabels):
            return ()
        numbers = np.unique(self.labels.numbers()).tolist()
        names = self.labels.classes or (str(self.labels.positive),)
        return tuple(name for name in names if self.labels.number(name) not in numbers)

    @property
    def other(self) -> str | None:
        """The first value that is not the positive one, nor differs from it in capitals or blanks alone."""
        return self._other


# --- Files -----------------------------------------------------------------------


def _note_cells(encoder: Encoder, table: TextTable, faults: Faults) -> None:
    places, clamps = table.places(faults.source), encoder.out_of_bounds == "clamp"
    note_cells(encoder.features, table.columns, places, faults, clamps=clamps, loose=encoder.loose)


class Noting:
    """A file while its faults are noted, block by block.

    Parameters
    ----------
    encoder : Encoder
    labels : LabelNotes or None
    source : Source
    fills : bool
        As it was given to :func:`masquerade_core.data.blocks.records_of`.
    strict : bool
        Whether cells that the study moves, fills or matches loosely are noted, too.
    """

    def __init__(
        self, encoder: Encoder, labels: LabelNotes | None, source: Source, *, fills: bool, strict: bool = False
    ) -> None:
        self.encoder, self.labels = encoder, labels
        self.faults = Faults(source.name, source.unit, signs=list(source.signs))
        self._numbers, self._fills, self._strict = (
            numeric(encoder, None if labels is None else labels.labels),
            fills,
            strict,
        )

    def take(self, block: Block) -> None:
        """Note the faults of a block: column by column, and its faulty records cell by cell; all where that must be."""
        if (columns := block.columns()) is None or not self._takes_whole(block, columns):
            for table in block.tables():
                self.take_cells(table)

    def _takes_whole(self, block: Block, columns: Mapping[str, WholeColumn]) -> bool:
        X, n, rows = self._encoded(columns)
        if self.labels is not None:
            rows = np.union1d(rows, self.labels.rows(columns[self.labels.name]))
        if len(rows):
            if (table := block.some(rows.tolist(), n)) is None:
                return False
            self._note(table)
        self._took(X, columns, n - len(rows))
        return True

    def take_cells(self, table: TextTable) -> None:
        """Note the faults of a table, its broken lines among them."""
        note_broken(table, self.faults, refused=self.encoder.out_of_bounds != "clamp")
        good = table.whole()
        self._note(good)
        if not self.faults.signs:  # else columns may be missing
            columns = Columns(good.columns, self._numbers, self._fills)
            X, _, _ = self._encoded(columns)
            self._took(X, columns, 0)

    def _encoded(self, columns: Mapping[str, WholeColumn]) -> tuple[NDArray[np.float64], int, NDArray[np.intp]]:
        n = len(columns[self.encoder.columns[0]])
        X = self.encoder.matrix(n)
        return X, n, self.encoder.encode_into(X, columns, strict=self._strict)[2]

    def _note(self, table: TextTable) -> None:
        places = table.places(self.faults.source)
        _note_cells(self.encoder, table, self.faults)
        if self.labels is not None and self.labels.name in table.columns:
            self.labels.note(table.columns[self.labels.name], places, self.faults)
        self.noted(table)

    def _took(self, X: NDArray[np.float64], columns: Mapping[str, Any], more: int) -> None:
        self.faults.records += more
        if self.labels is not None:
            self.labels.labels.take(columns[self.labels.name])
        self.watch(X, columns)

    def noted(self, table: TextTable) -> None:
        """Be told of the cells of records that were read cell by cell."""

    def watch(self, X: NDArray[np.float64], columns: Mapping[str, WholeColumn]) -> None:
        """Be told of a block's records, encoded and as columns."""


def faulty_file(path: Path | str, encoder: Encoder, study: Study | None) -> BadInput:
    """Read a file that was refused once more, and return the error that says all that is wrong with it.

    Parameters
    ----------
    path : path or str
    encoder : Encoder
    study : Study or None
        It says what labels are; None where there are none.
    """
    fills, labels = encoder.out_of_bounds == "clamp", None if study is None else labels_of(study)
    source = records_of(path, encoder, labels, fills=fills)
    noting = Noting(encoder, None if labels is None else LabelNotes(labels), source, fills=fills)
    for block in () if any(sign.final for sign in source.signs) else source.blocks:
        noting.take(block)
    if noting.labels is not None:
        noting.labels.end(noting.faults)
    return _error(noting.faults)


def faults_in_table(table: TextTable, encoder: Encoder, study: Study) -> BadInput:
    """Return the error for text cells of which a study refuses some."""
    faults, labels = Faults(table.source, table.unit), LabelNotes(labels_of(study))
    places = table.places(faults.source)
    _note_cells(encoder, table, faults)
    labels.note(table.columns[labels.name], places, faults)
    labels.end(faults)
    return _error(faults)


def _error(faults: Faults) -> BadInput:
    if faults.signs or faults.refused:
        return FaultyFile(faults.source, faults.signs, faults.refused, faults.unit)
    if not faults.records:
        return no_records(faults.source)
    return BadInput(f"{faults.source} was changed while it was read", "leave it alone, and start again")


def read_table(path: Path | str, wanted: Sequence[str], *, fills: bool = False, keeps: bool = False) -> TextTable:
    """Read the wanted columns of a file as text cells, all of them at once.

    Parameters
    ----------
    path : path
    wanted : sequence of str
    fills : bool
        Whether a faulty line of a CSV file makes faulty cells and no error: a line with too many or too few cells
        becomes a record of empty cells, bytes that are no UTF-8 become a character that no number and no level has, and
        quotes are read as well as can be.
    keeps : bool
        Whether a line that is no record is no error, but noted in the table's ``broken``.

    Raises
    ------
    BadInput
        The file cannot be used as it is; the error says all that is wrong with it.
    """
    source = source_of(path, (), wanted, fills=fills)
    faults = Faults(source.name, source.unit, signs=list(source.signs))
    if any(sign.final for sign in source.signs):
        faults.check()
    columns: dict[str, list[str]] = {name: [] for name in wanted}
    numbers: list[int] = []
    broken: dict[int, str] = {}
    for block in source.blocks:
        for table in block.tables():
            note_broken(table, faults, refused=not keeps)
            broken |= {len(numbers) + row: wrong for row, wrong in table.broken.items()}
            numbers += table.numbers
            for name, cells in table.columns.items():
                columns[name] += cells
    faults.check()
    if not numbers:
        raise no_records(source.name)
    return TextTable(dict(columns), numbers, source.unit, source.name, broken)


def note_broken(table: TextTable, faults: Faults, *, refused: bool) -> None:
    """Count the lines of a table that are no records."""
    places = table.places(faults.source)
    faults.records += len(table.broken)
    for wrong in dict.fromkeys(table.broken.values()):
        numbers = [places[row] for row, other in table.broken.items() if other == wrong]
        faults.add("", line_kind(wrong), numbers, refused=refused)
