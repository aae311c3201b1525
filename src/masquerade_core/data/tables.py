"""Reading the wanted columns of a CSV or Parquet file as text cells.

CSV is UTF-8 with commas and one line of column names. Of a Parquet file (.parquet, .pq) only the wanted columns are
read, a batch of records at a time. Each value becomes the text that stands for exactly it, and a missing value an empty
cell. So equal data give equal records from either kind of file. An error shows a column name of the file only if it is
nearly a wanted one, since the first line of a file without headings is a record.
"""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Literal, TextIO

from masquerade_core.data.files import find_columns, no_utf8, opened
from masquerade_core.data.parquet import PARQUET, ParquetFile
from masquerade_core.errors import BadInput
from masquerade_core.words import counted

__all__ = [
    "TextTable",
    "cell_text",
    "parse_header",
    "parse_lines",
    "read_table",
]


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
        Rows that stand for lines with too many or too few cells, and what is wrong with each; their cells are empty.
    """

    columns: dict[str, Sequence[str]]
    numbers: Sequence[int]
    unit: Literal["line", "record"]
    source: str
    broken: dict[int, str] = field(default_factory=dict)

    def at(self, row: int) -> str:
        """Name the place of the record that stands at ``row``, counted from 0."""
        return f"{self.source}, {self.unit} {self.numbers[row]}"


def read_table(path: Path | str, wanted: Sequence[str], *, fills: bool = False, keeps: bool = False) -> TextTable:
    """Read the wanted columns of a file.

    Parameters
    ----------
    path : path
    wanted : sequence of str
    fills : bool
        Whether a faulty line of a CSV file makes faulty cells and no error: a line with too many or too few cells
        becomes a record of empty cells, bytes that are no UTF-8 become a character that no number and no level has, and
        quotes are read as well as can be.
    keeps : bool
        Whether a line with too many or too few cells is no error, but noted in the table's ``broken``.

    Raises
    ------
    BadInput
        The file cannot be used as it is.
    """
    path = Path(path)
    if path.suffix.lower() in PARQUET:
        file = ParquetFile(path)
        file.find(wanted)
        columns: dict[str, list[str]] = {name: [] for name in wanted}
        for group in range(len(file.groups)):
            for records in file.batches(wanted, group):
                for name in columns:
                    columns[name] += file.texts(records.column(name), name)
        if not (n := len(columns[wanted[0]])):
            raise BadInput(f"{path.name} has column names and no records", "write the records into it")
        return TextTable(dict(columns), range(1, n + 1), "record", path.name)
    with opened(path) as raw:
        text = io.TextIOWrapper(raw, encoding="utf-8-sig", newline="", errors="replace" if fills else "strict")
        try:
            return _parse(text, wanted, path.name, fills=fills, keeps=keeps)
        except UnicodeDecodeError:
            pass
    raise no_utf8(path.name)


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


def _parse(file: TextIO, wanted: Sequence[str], source: str, *, fills: bool, keeps: bool) -> TextTable:
    header, first = parse_header(file, wanted, source, fills=fills)
    table = parse_lines(file, header, wanted, source, first, fills=fills, keeps=keeps)
    if not table.numbers:
        raise BadInput(f"{source} has column names and no records", "put a record on each further line")
    return table


def parse_header(file: TextIO, wanted: Sequence[str], source: str, *, fills: bool) -> tuple[list[str], int]:
    """Return the columns' names in a CSV file, and the number of lines that they take.

    Raises
    ------
    BadInput
        The file is empty, or lacks a wanted column, or has it twice.
    """
    reader = csv.reader(file, strict=not fills)
    try:
        header = next(reader, None)
    except csv.Error:
        header = []
    if header is None:
        raise BadInput(f"{source} is empty", "the first line names the columns, each further line is a record")
    find_columns(header, wanted, source, "the first line of the file names the columns")
    return header, reader.line_num


def parse_lines(
    file: TextIO,
    header: Sequence[str],
    wanted: Sequence[str],
    source: str,
    first: int,
    *,
    fills: bool,
    keeps: bool = False,
) -> TextTable:
    """Return the wanted cells of a CSV file's lines.

    Parameters
    ----------
    file : text file
        It stands behind the columns' names.
    header, wanted : sequence of str
    source : str
        The file's name.
    first : int
        How many lines of the file come before.
    fills, keeps : bool
        As in :func:`read_table`.

    Raises
    ------
    BadInput
        A line is not CSV; or, without ``fills`` and ``keeps``, has another number of cells than the columns' names.
    """
    reader = csv.reader(file, strict=not fills)
    picks = {name: header.index(name) for name in wanted}
    rows: list[list[str]] = []
    lines: list[int] = []
    broken: dict[int, str] = {}
    try:
        for row in reader:
            if row:  # a blank line is no record
                fits = len(row) == len(header)
                if not fits:
                    wrong = f"has {counted(len(row), 'column')}, but the first line has {len(header)}"
                    if not (fills or keeps):
                        raise BadInput(
                            f"{source}, line {first + reader.line_num} {wrong}",
                            "each record has one cell for each column; quote cells that hold a comma",
                        )
                    broken |= {len(rows): wrong} if keeps else {}
                rows.append(row if fits else [""] * len(header))
                lines.append(first + reader.line_num)
    except csv.Error:
        raise BadInput(
            f"{source}, line {first + reader.line_num} is not CSV", "see whether a quote is left open"
        ) from None
    cells = list(zip(*rows, strict=True)) if rows else [()] * len(header)
    return TextTable({name: cells[i] for name, i in picks.items()}, lines, "line", source, broken)
