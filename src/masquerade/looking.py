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
from masquerade.guessing import MOST_LEVELS, column_kind
from masquerade.own_table import OwnText, column_of, read_own, text_of
from masquerade_core.data.blocks import TextTable
from masquerade_core.data.file_faults import (
    COMMA,
    DASH,
    DATE,
    DECIMAL_COMMA,
    PERCENT,
    THOUSANDS,
    UNIT,
    is_missing,
    number_of,
)
from masquerade_core.data.files import PARQUET
from masquerade_core.data.texts import SEPARATORS
from masquerade_core.errors import BadInput
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
}


@dataclass(frozen=True)
class Look:
    """What one column seems to be.

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
    """What a look at a table found. All of it is private, but for the draft.

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
    label : str or None
    """

    source: str
    records: int
    form: tuple[str, ...]
    columns: tuple[Look, ...]
    mends: tuple[str, ...] = ()
    label: str | None = None
    table: TextTable | None = field(default=None, compare=False)

    @property
    def draft(self) -> str:
        """The columns of a study as TOML; a person fills in the question marks."""
        return "\n".join(self._blocks())

    def _blocks(self) -> Iterator[str]:
        if self.label is not None:
            yield f'[label]\nname = {_quoted(self.label)}\npositive = "?"\n'
        for column in self.columns:
            if column.is_used:
                ranges = "min = ?\nmax = ?" if column.kind == "number" else 'levels = ["?", "?"]'
                yield f"[[feature]]\nname = {_quoted(column.name)}\n{ranges}\n"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def look(path: Path, label: str | None = None) -> Looked:
    """Look at a table.

    Parameters
    ----------
    path : Path
        CSV in any usual form, or Parquet.
    label : str, optional
        The column to predict.

    Raises
    ------
    BadInput
        It is no table, or has no such column.
    """
    parquet = path.suffix.lower() in PARQUET
    own = None if parquet else text_of(path)
    table = read_own(path)
    if label is not None:
        column_of(table, label)
    columns = tuple(_column(name, cells, is_label=name == label) for name, cells in table.columns.items())
    form, mends = (("a Parquet file",), ()) if own is None else _form(own)
    numeric = {kind for column in columns for kind in _kinds(table.columns[column.name]) if column.kind == "number"}
    mends += tuple(_NAMES[kind] for kind in (DECIMAL_COMMA, THOUSANDS, DASH) if kind in numeric)
    if label is not None and any(is_missing(cell) for cell in table.columns[label]):
        mends += ("records without a label",)
    return Looked(path.name, len(table.numbers), form, columns, mends, label, table)


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
        *((f"the packing with {own.packed}",) if own.packed else ()),
        *(() if plain else (f"the encoding, {own.encoding}",)),
        *(() if own.separator == "," else (f"{separator} between cells",)),
    )
    return form, mends


def _kinds(cells: Sequence[str]) -> set[Any]:
    return {number_of(cell)[1] for cell in set(cells)} - {None}


def _column(name: str, cells: Sequence[str], *, is_label: bool) -> Look:
    counts = Counter(cells)
    missing = sum(count for cell, count in counts.items() if is_missing(cell) or number_of(cell)[1] is DASH)
    present = {cell: number_of(cell) for cell in counts if not is_missing(cell) and number_of(cell)[1] is not DASH}
    if is_label:
        note = f"{counted(len(present), 'different value')}: {listed([repr(v) for v in sorted(present)[:5]])}"
        return Look(name, "label", _RULES["label"], missing, (note,) if present else ())
    kind = column_kind(cells)
    odd = [text for text, (_, fault) in present.items() if fault is not None and fault not in _MENDED]
    notes = tuple(_NAMES[fault] for fault in dict.fromkeys(f for _, f in present.values()) if fault in _NAMES)
    if kind == "number" and odd:
        notes += (f"{counted(sum(counts[text] for text in odd), 'cell')} of text, which count as missing",)
    return Look(name, kind, _RULES[kind], missing, notes)


def write_draft(looked: Looked, out: Path) -> None:
    """Write the draft; ``masquerade study new --features-from`` reads it, once no question mark is left.

    Raises
    ------
    BadInput
        ``out`` exists, or cannot be written.
    """
    with new_file(out) as file:
        file.write(f"# The columns of {looked.source}. Put what is public in the place of each question mark.\n\n")
        file.write(looked.draft)


def write_mended(looked: Looked, out: Path) -> int:
    """Write a corrected copy: CSV in UTF-8 with commas, and points before decimals; return how many records it has.

    Every column stays. A record without a label is left out, where the label is known.

    Raises
    ------
    BadInput
        ``out`` exists, or cannot be written.
    """
    if looked.table is None:
        raise BadInput(f"{looked.source} was not read", "look at the file first")
    columns = []
    numbers = {column.name for column in looked.columns if column.kind == "number"}
    for name, cells in looked.table.columns.items():
        columns.append(_mended(cells) if name in numbers else cells)
    rows = list(zip(*columns, strict=True))
    if looked.label is not None:
        place = list(looked.table.columns).index(looked.label)
        rows = [row for row in rows if not is_missing(row[place])]
    with new_file(out) as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(looked.table.columns)
        writer.writerows(rows)
    return len(rows)


def _mended(cells: Sequence[str]) -> list[str]:
    kinds = _kinds(cells)
    decimal, thousands = DECIMAL_COMMA in kinds, THOUSANDS in kinds
    return [mended_number(cell, decimal=decimal, thousands=thousands)[0] for cell in cells]
