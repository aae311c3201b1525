"""A file of records: it is opened, and its lines become text cells.

*Lines.* A blank line is no record. A line with too many or too few cells, with a quote that nobody closes, or with
bytes that are no UTF-8 is a *broken* one: the table notes what is wrong with it, and reading goes on behind it.

*Format.* The study's format is CSV in UTF-8 with commas and one line of column names. A file that begins in another way
is looked at in :mod:`masquerade_core.data.dialects`, which says what is wrong with it.

*The meaning of* ``--data``: a file, a folder of Parquet files, or a database's address and a query behind it.
"""

import csv
import io
import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from decimal import Decimal
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, Union

import numpy as np
from numpy.typing import NDArray

from masquerade_core.bounded import regular
from masquerade_core.errors import BadInput
from masquerade_core.words import counted

if TYPE_CHECKING:
    from masquerade_core.data.addresses import Query
    from masquerade_core.data.packed import Unpacked

__all__ = [
    "MISSING_WORDS",
    "NO_CSV",
    "NO_UTF8",
    "PARQUET",
    "SAVE_AS_CSV",
    "Block",
    "Column",
    "Data",
    "Layout",
    "Opening",
    "Place",
    "Sign",
    "Source",
    "TextTable",
    "Unit",
    "alike",
    "cell_text",
    "content_of_file",
    "data_at",
    "header_of",
    "is_missing",
    "nothing",
    "number_in",
    "opened",
    "parse_lines",
    "parse_some",
    "plain_opening",
    "spelled",
]


# --- Cells -----------------------------------------------------------------------

Column = Sequence[Any] | NDArray[Any]
"""A column's cells: text, numbers or truth values."""

MISSING_WORDS = frozenset({"", "na", "n/a", "nan", "null", "none", "?"})
"""The words, in small letters, that stand for a missing value."""


def is_missing(cell: str) -> bool:
    """Return whether a cell says that its value is missing."""
    return cell.strip().lower() in MISSING_WORDS


def number_in(cell: str) -> float:
    """Return the number that a cell holds, NaN where it holds none."""
    try:
        return math.nan if "_" in cell or is_missing(cell) else float(cell)
    except ValueError:
        return math.nan


def alike(cell: str, known: Collection[str]) -> str | None:
    """Return the one known text that a cell differs from in capitals or blanks alone; None where there is not one."""
    exact = [text for text in known if text.strip() == cell.strip()]
    loose = exact or [text for text in known if text.strip().casefold() == cell.strip().casefold()]
    return loose[0] if len(loose) == 1 else None


def spelled(cell: str, known: Collection[str], *, loose: bool) -> str:
    """Return the known text that a cell means: in a study that matches loosely, capitals and blanks do not count."""
    if not loose or cell in known:
        return cell
    return alike(cell, known) or cell


def cell_text(value: Any) -> str | None:  # noqa: PLR0911  one return per kind of cell
    """Return the text that stands for exactly one cell's value, as a file of text cells has it.

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
        case float():  # before the kinds below, whose questions take longer
            return repr(float(value))
        case bool():
            return "true" if value else "false"
        case Integral() | Decimal():
            return format(value, "f") if isinstance(value, Decimal) else str(value)
        case Real():
            return repr(float(value))
        case _:
            return "" if type(value).__name__ == "NAType" else None


# --- Queries ---------------------------------------------------------------------

_ADDRESS = re.compile(r"\s*([A-Za-z][A-Za-z0-9+.-]*)://(\S*)\s*(.*)", re.DOTALL)
_MANGLED = re.compile(r"(postgres(ql)?|sqlite|duckdb):/")

Data = Union[Path, "Query"]
"""Where records are: a file, a folder or a query. Each of them has a ``name`` for errors."""


def data_at(given: "Path | str | Query") -> Data:
    """Return what a person means with ``--data``: the one place where the string is read.

    Raises
    ------
    BadInput
        It is a database's address, but no query can be made of it; or the address has a password in it.
    """
    if not isinstance(given, Path | str):
        return given
    found = _ADDRESS.fullmatch(given) if isinstance(given, str) else None
    if found is None and not _MANGLED.match(str(given)):
        return Path(given)
    from masquerade_core.data.addresses import SPELLING, query_at

    if found is None:
        raise BadInput("a database's address was given as the path of a file", SPELLING)
    return query_at(found[1], found[2], found[3])


# --- Files -----------------------------------------------------------------------

Unit = Literal["line", "record"]

Place = int | str
"""The number of a line or a record; of a file among several, "7 of part-2.parquet"."""

PARQUET = frozenset({".parquet", ".pq"})
"""The endings of Parquet files."""

SAVE_AS_CSV = "save the table as CSV in UTF-8"
"""The hint for a file of another kind."""

_PACKED = (b"\x1f", b"\x28")  # the first byte of gzip and of zstd, which is an opening bracket too


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """Open a file of records as it lies on the disk; :func:`content_of_file` unpacks one that is packed.

    Raises
    ------
    BadInput
        There is none, or it cannot be read.
    """
    try:
        with open(path, "rb", opener=regular) as file:
            yield file
    except FileNotFoundError as error:
        raise BadInput(f"there is no file {path}", "correct the path") from error
    except OSError as error:
        raise BadInput(f"{path.name} cannot be read: {error.strerror}", "check the path and who may read it") from error


@contextmanager
def content_of_file(path: Path) -> "Iterator[BinaryIO | Unpacked]":
    """Open a CSV file, and unpack it while it is read, where it is packed with gzip or zstd.

    Raises
    ------
    BadInput
        There is none, it cannot be read, or it is packed with zstd and nothing here unpacks that.
    """
    with opened(path) as file:
        if file.read(1) not in _PACKED:
            file.seek(0)
            yield file
            return
        file.seek(0)
        from masquerade_core.data.packed import unpacked

        with unpacked(file, path) as content:
            yield content


# --- Texts -----------------------------------------------------------------------

NO_CSV = "is not CSV"
NO_UTF8 = "is not UTF-8 text"
_RESUMED = 20
_BYTES = 1 << 21  # of a file that are searched for ends of lines at once
_ESCAPED = re.compile("[\udc80-\udcff]")
_ODD_QUOTE = re.compile(rb'"(?<=[^,\r\n]")(?=[^,\r\n])')  # inside a cell
_LONE_RETURN = re.compile(rb"\r(?!\n)")


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


def parse_some(
    body: bytes, layout: Layout, source: str, first: int, fills: bool, rows: Sequence[int], n: int
) -> TextTable | None:
    """Return the wanted cells of some of the n records in a CSV file's lines; None where a record may not be one line.

    The parameters before ``rows`` are those of :func:`parse_lines`.
    """
    text = body.removesuffix(b"\n")
    ends = np.flatnonzero(np.frombuffer(text, np.uint8) == ord("\n"))
    # As many lines as records, and each line is a record: none is blank, and no quote goes on behind a line's end.
    if (
        len(ends) + 1 != n
        or (b"\r" in body and _LONE_RETURN.search(body))
        or (b'"' in body and _ODD_QUOTE.search(body))
    ):
        return None
    starts, ends = np.append(0, ends + 1)[rows].tolist(), np.append(ends, len(text))[rows].tolist()
    lines = [body[start:end] for start, end in zip(starts, ends, strict=True)]
    found = parse_lines(b"\n".join(lines), layout, source, 0, fills=fills)
    if found.broken or len(found.numbers) != len(rows):
        return None
    return replace(found, numbers=[first + 1 + row for row in rows])


def nothing(*_: object) -> None:
    """Return no columns, and no cells of some records: the block is read cell by cell."""


@dataclass(frozen=True, repr=False)
class Block:
    """Some records of a file, in their order.

    Parameters
    ----------
    columns : callable
        Returns the columns as pyarrow reads them, or None where it cannot. A missing number is NaN.
    tables : callable
        Returns the block's cells, and the place of each record in the file; a large block's in several tables.
    some : callable
        (rows, n) -> the cells of some of the block's n records, in their order; None where they can be told from the
        others in ``tables`` alone.
    """

    columns: Callable[[], Mapping[str, Any] | None]
    tables: Callable[[], Iterable[TextTable]]
    some: Callable[[Sequence[int], int], TextTable | None] = nothing


@dataclass(frozen=True)
class Sign:
    """A fault of a file as a whole.

    Parameters
    ----------
    name : str
        For programs.
    says : str
        What is wrong, after the name of the file.
    hint : str
        What to do about it.
    final : bool
        Whether nothing else of the file can be read.
    """

    name: str
    says: str
    hint: str
    final: bool = False


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
        with content_of_file(self.lines_of) as file:
            while data := file.read(_BYTES):
                lines += data.count(b"\n") + data.count(b"\r")
        return lines


# --- How a file begins -----------------------------------------------------------

_MARK = b"\xef\xbb\xbf"  # of UTF-8


@dataclass(frozen=True)
class Opening:
    """How a CSV file begins.

    Parameters
    ----------
    layout : Layout
    encoding : str
    size : int
        The number of bytes up to the end of the header, in UTF-8.
    lines : int
        The number of lines up to there.
    signs : tuple of Sign
    """

    layout: Layout
    encoding: str = "utf-8"
    size: int = 0
    lines: int = 0
    signs: tuple[Sign, ...] = ()


def plain_opening(head: bytes, wanted: Sequence[str], *, fills: bool) -> Opening | None:
    """Return how a file begins that has each wanted column once, between commas, in UTF-8; None for any other file.

    Parameters
    ----------
    head : bytes
        The file's first lines.
    wanted : sequence of str
    fills : bool
        As in :func:`parse_lines`.
    """
    mark = len(_MARK) if head.startswith(_MARK) else 0
    try:
        text = head[mark:].decode()
    except UnicodeDecodeError:
        return None
    header, end, lines = header_of(text, ",", fills=fills)
    places = {name: i for i, name in enumerate(header)}
    one_of_each = all(name in places for name in wanted) and len(places) == len(header) > 1
    if not one_of_each or "\0" in text or text.startswith(("\r", "\n")):
        return None
    layout = Layout(tuple(header), {name: places[name] for name in wanted})
    return Opening(layout, "utf-8", mark + len(text[:end].encode()), lines)


def header_of(text: str, separator: str, *, fills: bool) -> tuple[list[str], int, int]:
    """Return the columns' names, and how many characters and lines they take."""
    file = io.StringIO(text, newline="")
    reader = csv.reader(file, strict=not fills, delimiter=separator)
    try:
        header = next(reader, [])
    except csv.Error:
        header = []
    return header, file.tell(), reader.line_num
