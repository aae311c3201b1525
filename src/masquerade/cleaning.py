"""A corrected copy of a file of records, by public rules alone.

Textual repairs keep what a cell says: the encoding, the separators, blanks around a cell, a comma before decimals,
marks between thousands, capitals where one level or label alone differs in them. The study's own rules move a number to
its bound and fill a missing cell. Where a file has words of its own, a person says what they stand for; none is
guessed. A record that nothing of this mends is left out. Each record is mended by itself; only how a column writes its
commas is looked up in the rest of the file.

A record's place in the file says whether an evaluation holds it back (:mod:`masquerade_core.data.records`). So the last
records take the places of those that are left out, and every other record keeps its own.
"""

import csv
import os
import re
import shlex
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

from masquerade_core.data.blocks import records_of
from masquerade_core.data.examining import MOST, Examined, examine
from masquerade_core.data.file_faults import (
    COMMA,
    DASH,
    DECIMAL_COMMA,
    INFINITE,
    LABEL_EMPTY,
    MENDED_SIGNS,
    OUTSIDE,
    THOUSANDS,
    Fault,
    Faults,
    FaultyFile,
    Kind,
    allowed_of,
    cell_faults,
    escaped,
    is_allowed,
    kind_of_class,
    number_of,
)
from masquerade_core.data.files import PARQUET, Sign, TextTable, alike
from masquerade_core.data.noting import note_broken
from masquerade_core.data.schema import Encoder, labels_of
from masquerade_core.errors import BadInput
from masquerade_core.study import Feature, Study
from masquerade_core.words import listed
from masquerade_host.store.state import sync_file

__all__ = ["Cleaned", "clean", "mended_number", "new_file"]

_GAPS = re.compile("[.' \u00a0\u202f]")
_MARKS = re.compile("[,' \u00a0\u202f]")
_THREE = re.compile(r"\s*[+-]?\d{1,3}\.\d{3}\s*")
_EITHER = Kind(
    "point",
    "has a point before three digits",
    "in this column commas stand before decimals, so the point may stand between thousands",
    "write the number without marks between thousands",
)
_DECIMAL = "a comma before the decimals became a point"
_THOUSANDS = "marks between thousands were taken out"
_EMPTIED = "a dash, or another mark for a missing value, became an empty cell"
_BLANKS = "blanks around a cell were taken away"
_CAPITALS = "a value became the one that it differs from in capitals or blanks alone"
_BOUND = "a number out of bounds became the nearer bound"
_FILLED = "a cell that does not fit became the study's public value"


@dataclass(repr=False)
class Cleaned:
    """The changes made to a file.

    Parameters
    ----------
    found : Examined
        The file as it was.
    mended : Counter
        How many cells of a column each rule has changed: (column, rule) -> number.
    left_out : Faults
        Why records were left out.
    dropped : int
        How many were.
    kept : int
        How many records the copy has. It is secret.
    """

    found: Examined
    left_out: Faults
    mended: Counter[tuple[str, str]] = field(default_factory=Counter)
    dropped: int = 0
    kept: int = 0

    @property
    def signs(self) -> tuple[Sign, ...]:
        """The repairs of the file as a whole."""
        return tuple(sign for sign in self.found.signs if sign.name in MENDED_SIGNS)

    @property
    def reasons(self) -> list[Fault]:
        """The faults for which records were left out."""
        return self.left_out.all()


def clean(
    path: Path | str,
    study: Study,
    out: Path,
    *,
    counts: bool = False,
    renames: Sequence[tuple[str, Mapping[str, str]]] = (),
) -> Cleaned:
    """Write a corrected copy of a file of records, with the study's columns alone.

    Parameters
    ----------
    path : path or str
    study : Study
    out : Path
        A CSV file that is not there yet. Nobody but its owner may read it.
    counts : bool
        As in :func:`masquerade_core.data.examining.examine`. Then only textual repairs are made.
    renames : sequence of (str, mapping of str to str)
        A column, and for each word of the file the value of the study that it stands for; the empty text for a missing
        value.

    Raises
    ------
    BadInput
        Something is wrong that no rule mends: a column is missing, or a label has a third value. Or ``renames`` do not
        fit the study or the file. Or ``out`` exists, or cannot be written. Nothing is written then.
    """
    if out.suffix.lower() in PARQUET:
        raise BadInput(f"{out.name} would be a Parquet file, but the copy is CSV", "let its name end in .csv")
    if out.exists():
        raise BadInput(f"{out} exists already, and is not overwritten", "choose another file")
    renaming = _Renaming(study, renames)
    found = examine(path, study, counts=counts, change=renaming.table if renames else None)
    renaming.check(found.source)
    _check(found)
    cleaned = Cleaned(found, Faults(found.source, found.unit), mended=renaming.counts.copy())
    work = _Work(study, cleaned, "count" if counts else study.study.out_of_bounds)
    with new_file(out) as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([*(f.name for f in study.features), study.label.name])
        with tempfile.TemporaryFile("w+", encoding="utf-8", newline="", dir=out.parent) as good:
            left_out = _write_good(csv.writer(good, lineterminator="\n"), work, renaming, path)
            gaps = [place for place in left_out if place < cleaned.kept]
            good.seek(0)
            last = list(islice(csv.reader(good), cleaned.kept - len(gaps), None))
            good.seek(0)
            writer.writerows(_in_their_places(csv.reader(good), gaps, last, cleaned.kept))
        for (column, rule), count in cleaned.mended.items():
            if rule == _FILLED and count * MOST > cleaned.kept:
                raise BadInput(
                    f"{found.source}: the public rules would fill more than a fifth of the column {column!r}, so "
                    "nothing was written",
                    "'masquerade data check' says what is wrong with its cells: mend them where the file was made, or "
                    "say what they mean, with --rename",
                )
        if not cleaned.kept:
            raise BadInput(
                f"{found.source} has no record that the public rules mend, so nothing was written",
                f"'masquerade data check' says what is wrong with {found.source}",
            )
    return cleaned


def _write_good(writer: Any, work: "_Work", renaming: "_Renaming", path: Path | str) -> list[int]:
    """Write the records that can be mended, and return the places of the others, counted from 0."""
    left_out, place = [], 0
    for block in records_of(path, work.encoder, work.labels, fills=False).blocks:
        for table in block.tables():
            for row in work.rows(renaming.table(table)):
                if row is None:
                    left_out.append(place)
                else:
                    writer.writerow(row)
                place += 1
    return left_out


def _in_their_places(
    rows: Iterator[list[str]], gaps: Sequence[int], last: Sequence[list[str]], n: int
) -> Iterator[list[str]]:
    """Yield n records: ``last`` at the places that are ``gaps``, and the others in their order."""
    fill = dict(zip(gaps, last, strict=True))
    return (fill[place] if place in fill else next(rows) for place in range(n))


def _check(found: Examined) -> None:
    """Refuse a file with a fault that no rule mends."""
    alike_only = any(fault.kind.name == "label_alike" for fault in found.faults)
    signs = [s for s in found.signs if s.name not in MENDED_SIGNS and not (s.name == "label_never" and alike_only)]
    thirds = [fault for fault in found.faults if fault.kind.name == "label_third" and fault.refused]
    if signs or thirds:
        raise FaultyFile(found.source, signs, thirds, found.unit)
    if codes := [doubt for doubt in found.doubts if doubt.kind == "missing_code"]:
        column = shlex.quote(escaped(codes[0].column))
        raise BadInput(
            f"{found.source}, {codes[0].says}",
            f"say whether it does, with the file's own number before '=': --rename {column}:9999= for a missing value, "
            f"and --rename {column}:9999=BOUND for the nearer bound",
        )


@contextmanager
def new_file(out: Path) -> Iterator[TextIO]:
    """Open a file that appears under its name when it is whole, and that is never one that was there before."""
    part = ""
    try:
        descriptor, part = tempfile.mkstemp(dir=out.parent, prefix=f".{out.name}.")
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as file:
            yield file
            file.flush()
            sync_file(file.fileno())
        os.link(part, out)
    except FileExistsError:
        raise BadInput(f"{out} exists already, and is not overwritten", "choose another file") from None
    except OSError as error:
        raise BadInput(f"{out} cannot be written: {error.strerror}", "choose another folder") from None
    finally:
        if part:
            Path(part).unlink(missing_ok=True)


class _Renaming:
    """The words of a file for which a person says what they stand for.

    A cell is such a word where it is that text or, in a column of numbers, that number. Capitals and blanks do not
    count, unless the cell is one of the study's values.
    """

    def __init__(self, study: Study, renames: Sequence[tuple[str, Mapping[str, str]]]) -> None:
        self.counts = Counter[tuple[str, str]]()
        self._words: dict[str, dict[str, str]] = {}
        self._values: dict[str, tuple[str, ...]] = {}
        self._known: dict[tuple[str, str], str | None] = {}
        number = study.label.number
        features = {f.name: f for f in (*study.features, *((number,) if number is not None else ()))}
        for column, words in renames:
            f = features.get(column)
            if f is None and column != study.label.name:
                raise BadInput(
                    f"--rename names the column {column!r}, which the study does not have",
                    f"its columns are {listed([*map(repr, (*(f.name for f in study.features), study.label.name))])}",
                )
            label = study.label
            self._values[column] = (f.levels or ()) if f is not None else label.classes or (str(label.positive),)
            of_column = self._words.setdefault(column, {})
            for word, value in words.items():
                if of_column.get(word, value) != value:
                    raise BadInput(f"--rename says twice what {word!r} of column {column!r} stands for", "say it once")
                if value and not _fits(value, f, label.classes):
                    allowed = allowed_of(f) if f is not None else ", ".join(map(repr, label.classes or ()))
                    raise BadInput(
                        f"--rename of column {column!r}: {value!r} is not a value of the study",
                        f"its values are {allowed or 'numbers'}; write nothing after '=' for a missing value",
                    )
                of_column[word] = value

    def table(self, table: TextTable) -> TextTable:
        """Return a table in which each word is the value that it stands for."""
        renamed = {
            name: [self._cell(name, cell) for cell in cells] if name in self._words else cells
            for name, cells in table.columns.items()
        }
        return replace(table, columns=renamed)

    def check(self, source: str) -> None:
        """Check that each word was there."""
        for column, words in self._words.items():
            for word, value in words.items():
                if not self.counts[column, _renamed(word, value)]:
                    raise BadInput(f"{source}: no cell of column {column!r} is {word!r}", "see how the file spells it")

    def _cell(self, column: str, cell: str) -> str:
        if (column, cell) not in self._known:
            self._known[column, cell] = self._word(column, cell)
        word = self._known[column, cell]
        if word is None:
            return cell
        value = self._words[column][word]
        self.counts[column, _renamed(word, value)] += 1
        return value

    def _word(self, column: str, cell: str) -> str | None:
        """Return the word that a cell is; None where it is none of them."""
        words, values = self._words[column], self._values[column]
        if cell.strip() in words:
            return cell.strip()
        if values:
            return None if cell in values else alike(cell, words)
        number = number_of(cell)[0]
        return next((word for word in words if number_of(word)[0] == number), None)


def _fits(value: str, f: Feature | None, classes: Sequence[str] | None) -> bool:
    """Return whether a study takes a value: a feature's, or a label's, of which two-valued ones have any other."""
    if f is None:
        return classes is None or value in classes
    return not cell_faults(f, [value])


def _renamed(word: str, value: str) -> str:
    return f"{word!r} became {value!r}, as you said" if value else f"{word!r} became an empty cell, as you said"


class _Work:
    """The rules for one file, and what they did.

    Parameters
    ----------
    study : Study
    cleaned : Cleaned
    rule : str
        "refuse", "clamp", or "count" where the protocol has a bin for every cell.
    """

    def __init__(self, study: Study, cleaned: Cleaned, rule: str) -> None:
        self.study, self.cleaned, self.rule = study, cleaned, rule
        self.encoder = Encoder.from_study(study)
        self.labels = labels_of(study)
        self._kinds = {(fault.column, fault.kind) for fault in cleaned.found.faults}

    def rows(self, table: TextTable) -> list[tuple[str, ...] | None]:
        """Return the mended records of a table; None in place of one that cannot be mended."""
        note_broken(table, self.cleaned.left_out, refused=True)
        good = table.whole()
        places = good.places(self.cleaned.left_out.source)
        lost: set[int] = set()
        columns = []
        for f in self.study.features:
            cells, faults = self._feature(f, good.columns[f.name])
            columns.append(cells)
            self._leave_out(f.name, faults, places, lost, allowed_of(f))
        label = self.study.label
        if label.number is None:
            cells, faults = self._label(good.columns[label.name])
            allowed = ", ".join(map(repr, label.classes or (label.positive,)))
        else:
            cells, faults = self._feature(label.number, good.columns[label.name])
            allowed = allowed_of(label.number)
        columns.append(cells)
        self._leave_out(label.name, faults, places, lost, allowed)
        self.cleaned.dropped += len(lost) + len(table.broken)
        self.cleaned.kept += len(good.numbers) - len(lost)
        mended = iter([None if i in lost else row for i, row in enumerate(zip(*columns, strict=True))])
        return [None if row in table.broken else next(mended) for row in range(len(table.numbers))]

    def _leave_out(
        self, column: str, faults: dict[Kind, list[int]], places: Sequence[int | str], lost: set[int], allowed: str
    ) -> None:
        for kind, rows in faults.items():
            self.cleaned.left_out.add(column, kind, [places[row] for row in rows], allowed=allowed)
            lost.update(rows)

    def _feature(self, f: Feature, cells: Sequence[str]) -> tuple[list[str], dict[Kind, list[int]]]:
        """Return a feature's mended cells, and those that no rule mends."""
        mended, either = [], []
        for row, cell in enumerate(cells):
            text, rule = self._level(cell, f.levels) if f.levels is not None else self._number(f.name, cell)
            if f.levels is None and (f.name, DECIMAL_COMMA) in self._kinds and _THREE.fullmatch(cell):
                either.append(row)
            mended.append(text)
            self.cleaned.mended[f.name, rule] += bool(rule)
        left: dict[Kind, list[int]] = {_EITHER: either} if either else {}
        for kind, rows in cell_faults(f, mended).items():
            if self.rule == "count":
                continue
            if not is_allowed(f, kind, clamps=self.rule == "clamp"):
                left[kind] = rows
                continue
            for row in rows:
                mended[row], rule = _by_the_study(f, kind, mended[row])
                self.cleaned.mended[f.name, rule] += 1
        return mended, left

    def _number(self, column: str, cell: str) -> tuple[str, str]:
        """Return a cell of numbers without what is wrong with its text, and the rule by which it was mended."""
        decimal, thousands = (column, DECIMAL_COMMA) in self._kinds, (column, THOUSANDS) in self._kinds
        return mended_number(cell, decimal=decimal, thousands=thousands)

    def _level(self, cell: str, levels: Sequence[str]) -> tuple[str, str]:
        if cell in levels or (known := alike(cell, levels)) is None:
            return cell, ""
        return known, _CAPITALS

    def _label(self, cells: Sequence[str]) -> tuple[list[str], dict[Kind, list[int]]]:
        """Return the mended labels, and those that no rule mends."""
        label, faults = self.study.label, dict[Kind, list[int]]()
        other = self.cleaned.found.other
        known = label.classes or tuple(value for value in (label.positive, other) if value is not None)
        mended = []
        for row, cell in enumerate(cells):
            text, rule = self._level(cell, known)
            self.cleaned.mended[label.name, rule] += bool(rule)
            mended.append(text)
            if self.rule == "count":
                continue
            if label.classes is not None and text not in label.classes:
                faults.setdefault(kind_of_class(text, label.classes), []).append(row)
            elif not text:
                faults.setdefault(LABEL_EMPTY, []).append(row)
        return mended, faults


def mended_number(cell: str, *, decimal: bool, thousands: bool) -> tuple[str, str]:
    """Return a cell of numbers without what is wrong with its text, and the rule by which it was mended.

    Parameters
    ----------
    cell : str
    decimal, thousands : bool
        Whether other cells of the column show that its commas stand before decimals, or between thousands.
    """
    kind = number_of(cell)[1]
    if kind is COMMA and decimal != thousands:
        kind = DECIMAL_COMMA if decimal else THOUSANDS
    if kind is DASH:
        return "", _EMPTIED
    if kind is DECIMAL_COMMA:
        return _GAPS.sub("", cell.strip()).replace(",", "."), _DECIMAL
    if kind is THOUSANDS:
        plain = _MARKS.sub("", cell.strip())
        return plain.replace(".", "") if plain.count(".") > 1 else plain, _THOUSANDS
    return _stripped(cell)


def _stripped(cell: str) -> tuple[str, str]:
    return (cell, "") if cell == cell.strip() else (cell.strip(), _BLANKS)


def _by_the_study(f: Feature, kind: Kind, cell: str) -> tuple[str, str]:
    """Return what a study makes of a cell that does not fit, and the rule."""
    if kind in {OUTSIDE, INFINITE} and f.min is not None and f.max is not None:
        return repr(f.max if number_of(cell)[0] > f.max else f.min), _BOUND
    return str(f.filler), _FILLED
