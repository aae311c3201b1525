"""A first look at a table: how the file is written, how each column would be read, and a draft without a bound in it.

All that a look finds follows from the records, so it is for the screen of their owner. The draft names columns, and
which of them hold numbers. It has a question mark wherever a study needs a bound, a level or a value: somebody must
know these without the records.
"""

import csv
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from masquerade.cleaning import mended_number, new_file
from masquerade.columns import parse_label
from masquerade.guessing import (
    MOST_LEVELS,
    all_percent,
    column_kind,
    copy_command,
    dotted_thousands,
    far_nines,
    has_signs,
    label_typed,
    like_serials,
    without_label,
)
from masquerade.own_table import OwnText, column_of, read_own, read_text, text_of
from masquerade_core.data.dialects import SEPARATORS
from masquerade_core.data.file_faults import COMMA, DASH, DATE, DECIMAL_COMMA, PERCENT, THOUSANDS, UNIT, number_of
from masquerade_core.data.files import PARQUET, TextTable, is_missing
from masquerade_core.errors import BadInput
from masquerade_core.study import Label
from masquerade_core.words import counted, listed

__all__ = ["Look", "Looked", "look", "write_draft", "write_mended"]

_MENDED = frozenset({COMMA, DASH, DECIMAL_COMMA, THOUSANDS})
_NAMES = {
    DASH: "dashes for missing values",
    DECIMAL_COMMA: "commas before decimals",
    THOUSANDS: "marks between thousands",
    PERCENT: "percent signs",
    UNIT: "units",
    DATE: "dates",
}
_RULES = {
    "number": "between a public min and max",
    "category": "as one of public levels",
    "text": f"not at all: it has more than {MOST_LEVELS} different texts",
    "date": "not at all: give an age, or the days since an event",
    "identifier": "not at all: it numbers records or patients",
    "constant": "not at all: it says the same of all records",
    "empty": "not at all: all its cells are missing",
    "label": "as the column to predict",
    "measured": "as the column to predict, a number",
}


@dataclass(frozen=True)
class Look:
    """The kind of one column, as it seems to be.

    Parameters
    ----------
    name : str
    kind : str
        "number", "category", "text", "date", "identifier", "constant", "empty" or "label".
    rule : str
        How a study would read it.
    missing : int
        How many of its cells are missing. It is private.
    notes : tuple of str
        What else is to be seen in it.
    """

    name: str
    kind: str
    rule: str
    missing: int = 0
    notes: tuple[str, ...] = ()

    @property
    def is_used(self) -> bool:
        """Whether a model can learn from it."""
        return self.kind in {"number", "category"}


@dataclass(frozen=True, repr=False)
class Looked:
    """The findings of a look at a table. All of them are private, but for the draft.

    Parameters
    ----------
    source : str
    records : int
    form : tuple of str
        How the file is written, in sentences without a full stop.
    columns : tuple of Look
        In the file's order.
    mends : tuple of str
        What a corrected copy would change.
    label : Label, str or None
        The column to predict: with the values that somebody typed, or its name alone.
    refused : BadInput or None
        Why nothing can be learned from the label as it is.
    """

    source: str
    records: int
    form: tuple[str, ...]
    columns: tuple[Look, ...]
    mends: tuple[str, ...] = ()
    label: Label | str | None = None
    refused: BadInput | None = None
    table: TextTable | None = field(default=None, compare=False)

    @property
    def label_name(self) -> str | None:
        """The name of the column to predict."""
        return self.label.name if isinstance(self.label, Label) else self.label

    @property
    def draft(self) -> str:
        """The columns of a study as TOML; a person fills in the question marks."""
        return "\n".join(self._blocks())

    def _blocks(self) -> Iterator[str]:
        if self.label is not None:
            yield f"[label]\nname = {_quoted(self.label_name)}\n{self._values()}\n"
        for column in self.columns:
            if column.is_used:
                ranges = "min = ?\nmax = ?" if column.kind == "number" else 'levels = ["?", "?"]'
                yield f"[[feature]]\nname = {_quoted(column.name)}\n{ranges}\n"

    def _values(self) -> str:
        """Return the label's values: those that somebody typed, or question marks."""
        match self.label:
            case Label(classes=(first, _)):
                return f"positive = {_quoted(first)}"
            case Label(classes=tuple() as classes):
                return f"classes = {_quoted(classes)}"
            case Label(positive=str(positive)):
                return f"positive = {_quoted(positive)}"
            case Label(number=number) if number is not None:
                return f"min = {number.min!r}\nmax = {number.max!r}"
        return "min = ?\nmax = ?" if self._is_number() else 'positive = "?"'

    def _is_number(self) -> bool:
        return any(c.name == self.label_name and c.rule == _RULES["measured"] for c in self.columns)


def _quoted(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def look(path: Path, label: str | None = None) -> Looked:
    """Look at a table.

    Parameters
    ----------
    path : Path
        CSV in any usual form, or Parquet.
    label : str, optional
        The column to predict: its name alone, or as ``study new --label`` has it. Where two values or more are named,
        records with another one are left out of a corrected copy.

    Raises
    ------
    BadInput
        It is no table, or has no such column.
    """
    parquet = path.suffix.lower() in PARQUET
    own = None if parquet else text_of(path)
    table, shape = (
        (read_own(path), ()) if own is None else read_text(path, own, label=label and label.partition(":")[0])
    )
    known = label if label is None or label in table.columns or ":" not in label else parse_label(label)
    name = known.name if isinstance(known, Label) else known
    named = _named(known)
    if name is not None:
        column_of(table, name)
    columns = tuple(
        _label(column, cells, named) if column == name else _column(column, cells)
        for column, cells in table.columns.items()
    )
    form, mends = (("a Parquet file",), ()) if own is None else _form(own)
    mends += shape
    dotted = dotted_thousands(table)
    kinds = {kind for column in columns for kind in _mended_kinds(column, table.columns[column.name])}
    kinds |= {THOUSANDS} if dotted else set()
    mends += tuple(_NAMES[kind] for kind in (DECIMAL_COMMA, THOUSANDS, PERCENT, DASH) if kind in kinds)
    if nines := {value for c in columns if c.kind == "number" for value in far_nines(table.columns[c.name])}:
        mends += (f"{listed(sorted(nines))} for missing values",)
    refused = None
    if name is not None:
        lost = without_label(table.columns[name], named)
        if lost:
            mends += ("records without a label",)
        values = _values(table.columns[name], lost)
        if len(named) > 1 and any(_plain(value) not in map(_plain, named) for value in values):
            mends += ("records with another label",)
        is_number = next(c.rule for c in columns if c.name == name) == _RULES["measured"]
        refused = None if is_number else _unlearnable(path, name, named, values)
    return Looked(path.name, len(table.numbers), form, columns, mends, known, refused, table)


def _named(label: Label | str | None) -> tuple[str, ...]:
    """Return the values that somebody named."""
    if not isinstance(label, Label):
        return ()
    return label.classes or ((label.positive,) if isinstance(label.positive, str) else ())


def _plain(value: str) -> str:
    return value.strip().casefold()


def _values(cells: Sequence[str], lost: frozenset[str]) -> dict[str, int]:
    """Return a label's values, the most frequent first; those that differ in capitals or blanks alone are one value."""
    first: dict[str, str] = {}
    counts = Counter(first.setdefault(_plain(cell), cell) for cell in cells if cell not in lost)
    return dict(counts.most_common())


def _unlearnable(path: Path, name: str, named: tuple[str, ...], values: dict[str, int]) -> BadInput | None:
    """Return why a label with these values is of no use; None if it is."""
    some = listed([repr(value) for value in list(values)[:5]])
    known = {_plain(value) for value in values}
    if never := [value for value in named if _plain(value) not in known]:
        return BadInput(f"the label {name!r} is never {never[0]!r}", f"its values are: {some}")
    if len(values) < 2:  # noqa: PLR2004
        return BadInput(
            f"the label {name!r} says the same of all records",
            "a model is learned from records of both kinds: see whether the export has left some out",
        )
    if len(named) < 2 < len(values):  # noqa: PLR2004
        kept = [*named, *(value for value in values if _plain(value) not in map(_plain, named))][:2]
        return BadInput(
            f"the label {name!r} has {len(values):,} different values, where 2 are needed: {some}",
            f"keep the records with two of them: {copy_command(path, label_typed(name, kept))}\n"
            f"  or name them all, as in --label {name}:VALUE,VALUE,VALUE, for a protocol that tells classes apart",
        )
    return None


def _label(name: str, cells: Sequence[str], named: tuple[str, ...]) -> Look:
    lost = without_label(cells, named)
    values = _values(cells, lost)
    missing = sum(cell in lost for cell in cells)
    if not named and len(values) > MOST_LEVELS and column_kind(cells) in {"number", "identifier"}:
        return Look(name, "label", _RULES["measured"], missing)
    some = listed([f"{value!r} ({count:,})" for value, count in list(values.items())[:5]])
    note = f"{counted(len(values), 'different value')}: {some}"
    return Look(name, "label", _RULES["label"], missing, (note,) if values else ())


def _form(own: OwnText) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return how a CSV file is written, and what of it is not as a study's records are."""
    separator = SEPARATORS.get(own.separator, "commas")
    form = (
        *((f"packed with {own.packed}",) if own.packed else ()),
        f"text in {own.encoding}",
        f"{separator} between cells",
    )
    plain = own.encoding in {"utf-8", "utf-8 with a mark"}
    mends = (
        *(() if plain else (f"the encoding, {own.encoding}",)),
        *(() if own.separator == "," else (f"{separator} between cells",)),
    )
    return form, mends


def _kinds(cells: Sequence[str]) -> set[Any]:
    return {number_of(cell)[1] for cell in set(cells)} - {None}


def _mended_kinds(column: Look, cells: Sequence[str]) -> set[Any]:
    """Return what is mended in a column's cells."""
    if column.kind == "number":
        return _kinds(cells) - ({PERCENT} if not all_percent(cells) else set())
    return _kinds(cells) & {DASH} if column.kind == "category" and not has_signs(cells) else set()


def _column(name: str, cells: Sequence[str]) -> Look:
    counts = Counter(cells)
    nothing = {cell for cell in counts if is_missing(cell)}
    if not has_signs(cells):
        nothing |= {cell for cell in counts if number_of(cell)[1] is DASH}
    missing = sum(counts[cell] for cell in nothing)
    present = {cell: number_of(cell) for cell in counts if cell not in nothing}
    kind = column_kind(cells)
    if kind == "number" and (nines := far_nines(cells)):
        missing += sum(counts[cell] for cell in nines)
        present = {cell: found for cell, found in present.items() if cell not in nines}
    odd = [text for text, (_, fault) in present.items() if fault is not None and fault not in _MENDED]
    if all_percent(cells):
        odd = []
    notes = tuple(_NAMES[fault] for fault in dict.fromkeys(f for _, f in present.values()) if fault in _NAMES)
    if kind == "number" and odd:
        notes += (f"{counted(sum(counts[text] for text in odd), 'cell')} of text, which count as missing",)
    if kind == "number" and like_serials([value for value, fault in present.values() if fault is None]):
        notes += ("perhaps dates as Excel numbers them: then leave it out, or give an age",)
    if kind == "number" and (missing or odd):
        notes += ("give it a usual value in the study, missing = ..., for what is missing",)
    if kind == "category" and missing:
        notes += ("add the level '?' for its missing cells",)
    return Look(name, kind, _RULES[kind], missing, notes)


def write_draft(looked: Looked, out: Path) -> None:
    """Write the draft; ``masquerade study new --features-from`` reads it, once no question mark is left.

    Raises
    ------
    BadInput
        ``out`` exists, or cannot be written.
    """
    with new_file(out) as file:
        file.write(
            f"# The columns of {looked.source}. Put what is public in the place of each question mark.\n"
            '# Where cells may be missing, a column of numbers takes missing = a usual value, and levels take "?".\n\n'
        )
        file.write(looked.draft)


def write_mended(looked: Looked, out: Path) -> int:
    """Write a corrected copy: CSV in UTF-8 with commas, and points before decimals; return how many records it has.

    Every column stays. A record without a label is left out, where the label is known. So is one with another label,
    where two or more were named.

    Raises
    ------
    BadInput
        ``out`` exists, or cannot be written.
    """
    if looked.table is None:
        raise BadInput(f"{looked.source} was not read", "look at the file first")
    columns = []
    dotted = dotted_thousands(looked.table)
    for look in looked.columns:
        cells = looked.table.columns[look.name]
        if look.name in dotted:
            cells = [cell.replace(".", "") for cell in cells]
        if look.kind == "number" and (nines := far_nines(cells)):
            cells = ["" if cell in nines else cell for cell in cells]
        columns.append(_mended(cells) if _mended_kinds(look, cells) else cells)
    rows = list(zip(*columns, strict=True))
    if looked.label_name is not None:
        place, named = list(looked.table.columns).index(looked.label_name), _named(looked.label)
        lost = without_label(looked.table.columns[looked.label_name], named)
        kept = {_plain(value) for value in named} if len(named) > 1 else set()
        rows = [row for row in rows if row[place] not in lost and (not kept or _plain(row[place]) in kept)]
    with new_file(out) as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(looked.table.columns)
        writer.writerows(rows)
    return len(rows)


def _mended(cells: Sequence[str]) -> list[str]:
    kinds = _kinds(cells)
    decimal, thousands, percent = DECIMAL_COMMA in kinds, THOUSANDS in kinds, all_percent(cells)
    if percent:
        cells = [cell.rstrip("% ") for cell in cells]
    return [mended_number(cell, decimal=decimal, thousands=thousands)[0] for cell in cells]
