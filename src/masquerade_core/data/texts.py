"""Records as text cells, and the lines of a CSV file as such records.

A blank line is no record. A line with too many or too few cells, with a quote that nobody closes, or with bytes that
are no UTF-8 is a *broken* one: the table notes what is wrong with it, and reading goes on behind it.
"""

import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from numbers import Integral, Real
from pathlib import Path
from typing import Any

from masquerade_core.data.faults import Place, Sign, Unit
from masquerade_core.data.files import opened
from masquerade_core.data.kinds import NO_CSV, NO_UTF8
from masquerade_core.words import counted

__all__ = ["Block", "Layout", "Source", "TextTable", "cell_text", "nothing", "parse_lines"]

_RESUMED = 20
_BYTES = 1 << 21  # of a file that are searched for ends of lines at once
_ESCAPED = re.compile("[\udc80-\udcff]")


@dataclass(frozen=True)
class Layout:
    """How the lines of a CSV file are read.

    Parameters
    ----------
    header : tuple of str
        The columns' names as the file has them.
    picks : dict of str to int
        The place of each wanted column that is there.
    separator : str
        What stands between cells.
    """

    header: tuple[str, ...] = ()
    picks: dict[str, int] = field(default_factory=dict)
    separator: str = ","


@dataclass(frozen=True, repr=False)
class TextTable:
    """Text cells, and the place of each record in its file.

    Parameters
    ----------
    columns : dict of str to sequence of str
        The wanted columns, all of one length.
    numbers : sequence of int
        The record's line in a CSV file, or the record's own number, from 1.
    unit : str
        The thing that ``numbers`` count.
    source : str
        The file's name.
    broken : dict of int to str
        Rows that stand for lines that are no records, and what is wrong with each; their cells are empty.
    """

    columns: dict[str, Sequence[str]]
    numbers: Sequence[int]
    unit: Unit
    source: str
    broken: dict[int, str] = field(default_factory=dict)

    def at(self, row: int) -> str:
        """Name the place of the record that stands at ``row``, counted from 0."""
        return f"{self.source}, {self.unit} {self.numbers[row]}"

    def places(self, source: str) -> Sequence[Place]:
        """Return the places of the records, for an error about a source; this file may be one of many in it."""
        return self.numbers if source == self.source else [f"{number} of {self.source}" for number in self.numbers]

    def whole(self) -> "TextTable":
        """Return the table without its broken rows."""
        if not self.broken:
            return self
        rows = [row for row in range(len(self.numbers)) if row not in self.broken]
        columns: dict[str, Sequence[str]] = {name: [cells[row] for row in rows] for name, cells in self.columns.items()}
        return TextTable(columns, [self.numbers[row] for row in rows], self.unit, self.source)


def cell_text(value: Any) -> str | None:
    """Return the text that stands for exactly one cell's value, as :func:`read_table` gives it.

    Returns
    -------
    str or None
        An empty text for a missing value, which is None or pandas' NA; None where a value is neither text, a number nor
        a truth value.
    """
    if isinstance(value, str):
        return str(value)
    if hasattr(value, "item") and hasattr(value, "dtype"):  # a number of numpy's
        value = value.item()
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case Integral() | Decimal():
            return format(value, "f") if isinstance(value, Decimal) else str(value)
        case Real():
            return repr(float(value))
        case _:
            return "" if type(value).__name__ == "NAType" else None


def parse_lines(body: bytes, layout: Layout, source: str, first: int, *, fills: bool) -> TextTable:
    """Return the wanted cells of a CSV file's lines.

    Parameters
    ----------
    body : bytes
        Whole lines, in UTF-8.
    layout : Layout
    source : str
        The file's name.
    first : int
        How many lines of the file come before.
    fills : bool
        Whether a broken line becomes a record of empty cells and is not noted. Then bytes that are no UTF-8 become a
        character that no number and no level has, and quotes are read as well as can be.
    """
    width = len(layout.header)
    rows: list[list[str]] = []
    lines: list[int] = []
    broken: dict[int, str] = {}
    for line, row in _rows(body.decode("utf-8", "replace" if fills else "surrogateescape"), layout, strict=not fills):
        wrong = NO_CSV if row is None else ""
        if row is not None and not fills and any(map(_ESCAPED.search, row)):
            wrong = NO_UTF8
        elif row is not None and len(row) != width:
            wrong = f"has {counted(len(row), 'column')}, but the first line has {width}"
        if wrong and not fills:
            broken[len(rows)] = wrong
        rows.append([""] * width if wrong or row is None else row)
        lines.append(first + line)
    cells = list(zip(*rows, strict=True)) if rows else [()] * width
    return TextTable({name: cells[i] for name, i in layout.picks.items()}, lines, "line", source, broken)


def _rows(text: str, layout: Layout, *, strict: bool) -> Iterator[tuple[int, list[str] | None]]:
    """Return each record with the line in which it ends, and None with a line that is no CSV."""
    start = 0
    for _ in range(_RESUMED):
        file = io.StringIO(text, newline="")
        reader = csv.reader(file, strict=strict, delimiter=layout.separator)
        last = 0
        try:
            for row in reader:
                last = reader.line_num
                if row:
                    yield start + last, row
        except csv.Error:
            pass
        else:
            return
        yield start + last + 1, None
        file.seek(0)
        for _ in range(last + 1):  # go on behind the line where the record begins
            file.readline()
        text, start = file.read(), start + last + 1


def nothing() -> None:
    """Return no columns: the block is read cell by cell."""


@dataclass(frozen=True, repr=False)
class Block:
    """Some records of a file, in their order.

    Parameters
    ----------
    columns : callable
        Returns the columns as pyarrow reads them, or None where it cannot. A missing number is NaN.
    tables : callable
        Returns the block's cells, and the place of each record in the file; a large block's in several tables.
    """

    columns: Callable[[], Mapping[str, Any] | None]
    tables: Callable[[], Iterable[TextTable]]


@dataclass(frozen=True, repr=False)
class Source:
    """A file of records.

    Parameters
    ----------
    name : str
        The file's name, for an error.
    about : int
        Roughly how many records there are; seldom fewer than that.
    blocks : iterator of Block
        They can be read once. A block without records has an empty table.
    signs : tuple of Sign
        What is wrong with the file as a whole. The blocks have those columns that could be found.
    unit : str
        What places in it count: "line" or "record".
    lines_of : Path or None
        The CSV file, whose lines are not counted yet.
    """

    name: str
    about: int
    blocks: Iterator[Block]
    signs: tuple[Sign, ...] = ()
    unit: Unit = "record"
    lines_of: Path | None = None

    @property
    def most(self) -> int:
        """There are no more records than this."""
        if self.lines_of is None:
            return self.about
        lines = 1
        with opened(self.lines_of) as file:
            while data := file.read(_BYTES):
                lines += data.count(b"\n") + data.count(b"\r")
        return lines
