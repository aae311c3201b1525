"""A file of records: it is opened, its wanted columns are found by their names, and CSV lines become text cells.

*Lines.* A blank line is no record. A line with too many or too few cells, with a quote that nobody closes, or with
bytes that are no UTF-8 is a *broken* one: the table notes what is wrong with it, and reading goes on behind it.

*Format.* The kind of a file follows from its first bytes, and then the layout of a CSV file, be it right or wrong. The
study's format is CSV in UTF-8 with commas. A file in another format is refused. Where its format is evident, the file
is read on nevertheless: so one error says what is wrong with the format and what is wrong with the cells.

*The meaning of* ``--data``: a file, a folder of Parquet files, or a database's address and a query behind it.
"""

import codecs
import csv
import difflib
import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from decimal import Decimal
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Union

from masquerade_core.bounded import regular
from masquerade_core.data.file_faults import NO_CSV, NO_UTF8, FaultyFile, Place, Sign, Unit
from masquerade_core.errors import BadInput
from masquerade_core.words import counted, listed

if TYPE_CHECKING:
    from masquerade_core.data.addresses import Query
    from masquerade_core.data.packed import Unpacked

__all__ = [
    "PARQUET",
    "SAVE_AS_CSV",
    "SEPARATORS",
    "Block",
    "Data",
    "Layout",
    "Opening",
    "Recoded",
    "Source",
    "TextTable",
    "cell_text",
    "columns_of",
    "content_of_file",
    "data_at",
    "encoding_of",
    "find_columns",
    "foreign",
    "loosely",
    "nothing",
    "opened",
    "opening_of",
    "parse_lines",
    "parse_some",
]


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

PARQUET = frozenset({".parquet", ".pq"})
"""The endings of Parquet files."""

SAVE_AS_CSV = "save the table as CSV in UTF-8"
"""The hint for a file of another kind."""

_PACKED = (b"\x1f", b"\x28")  # the first byte of gzip and of zstd, which is an opening bracket too
_SHOWN = 10
_RECORD = (
    "the first line of the file names the columns, but it seems to be a record: write a line with the names before it"
)


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


def loosely(name: str) -> str:
    """Return a column's name without the blanks around it and without its capitals."""
    return name.strip("\ufeff \t\r\n\u00a0").casefold()


def find_columns(header: Sequence[str], wanted: Iterable[str], source: str, otherwise: str) -> dict[str, int]:
    """Return the place of each wanted column among a file's columns.

    Raises
    ------
    BadInput
        Columns are not there, or there twice. Where no name is similar, ``otherwise`` says what to do.
    """
    picks, signs = columns_of(header, wanted, otherwise)
    if signs:
        raise FaultyFile(source, signs, (), "record")
    return picks


def columns_of(header: Sequence[str], wanted: Iterable[str], otherwise: str) -> tuple[dict[str, int], list[Sign]]:
    """Return the place of each wanted column that is there, and what is wrong with the others.

    A column whose name differs in capitals or in blanks around it alone is not the wanted one. Yet it has a place, so
    that its cells can be looked at.
    """
    picks: dict[str, int] = {}
    signs: list[Sign] = []
    lost: list[str] = []
    names = dict.fromkeys(wanted)
    places: dict[str, list[int]] = {}
    others: dict[str, list[int]] = {}  # by what is left of a name without capitals and blanks
    for i, name in enumerate(header):
        places.setdefault(name, []).append(i)
        if name not in names:
            others.setdefault(loosely(name), []).append(i)
    for name in names:
        alike = others.get(loosely(name), [])
        if (count := len(places.get(name, ()))) == 1:
            (picks[name],) = places[name]
        elif count > 1:
            says = f"has the column {name!r} twice" if count == 2 else f"has the column {name!r} {count} times"  # noqa: PLR2004
            signs.append(Sign("column_twice", says, "rename or remove one of them"))
        elif len(alike) == 1:
            picks[name], other = alike[0], header[alike[0]]
            hint = f"did you mean the column {other!r}? Blanks and capitals count: rename it to {name!r}"
            signs.append(Sign("column_alike", f"has no column {name!r}", hint))
        elif near := difflib.get_close_matches(name, header, n=1, cutoff=0.75):
            signs.append(Sign("column_near", f"has no column {name!r}", f"did you mean the column {near[0]!r}?"))
        else:
            lost.append(name)
    if lost:
        some = [*map(repr, lost[:_SHOWN]), *([f"{len(lost) - _SHOWN:,} more"] if len(lost) > _SHOWN else [])]
        says = f"has no column {lost[0]!r}" if len(lost) == 1 else f"has no columns {listed(some)}"
        hint = _RECORD if not picks and any(map(_is_number, header)) else otherwise
        signs.append(Sign("no_column", says, hint))
    return picks, signs


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


# --- Texts -----------------------------------------------------------------------

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


def parse_some(
    body: bytes, layout: Layout, source: str, first: int, fills: bool, rows: Sequence[int], n: int
) -> TextTable | None:
    """Return the wanted cells of some of the n records in a CSV file's lines; None where a record may not be one line.

    The parameters before ``rows`` are those of :func:`parse_lines`.
    """
    lines = body.removesuffix(b"\n").split(b"\n")
    # As many lines as records, and each line is a record: none is blank, and no quote goes on behind a line's end.
    if len(lines) != n or _LONE_RETURN.search(body) or _ODD_QUOTE.search(body):
        return None
    found = parse_lines(b"\n".join([lines[row] for row in rows]), layout, source, 0, fills=fills)
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


# --- Dialects --------------------------------------------------------------------

_EXCEL = "in the program that made it, save the table as 'CSV UTF-8 (comma delimited)'"
_UNPACK = "unpack it first"
_MAGIC: tuple[tuple[bytes, str, str], ...] = (
    (rb"PK\x03\x04", "is an Excel workbook or another zip archive, and not a CSV file", _EXCEL),
    (rb"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "is an old Excel workbook, and not a CSV file", _EXCEL),
    (rb"\x1f\x8b", "is compressed with gzip", f"{_UNPACK}, with gunzip"),
    (rb"BZh\d1AY&SY", "is compressed with bzip2", f"{_UNPACK}, with bunzip2"),
    (rb"\xfd7zXZ\x00", "is compressed with xz", f"{_UNPACK}, with unxz"),
    (rb"\x28\xb5\x2f\xfd", "is compressed with zstd", f"{_UNPACK}, with unzstd"),
    (rb"PAR1", "is a Parquet file, but its name does not say so", "let its name end in .parquet"),
    (rb"ARROW1", "is an Arrow file, and not a CSV file", "write it as Parquet or as CSV"),
    (rb"SQLite format 3\x00", "is a database of SQLite, and not a CSV file", "write its table as CSV"),
    (rb"%PDF-", "is a PDF document, and not a CSV file", SAVE_AS_CSV),
    (rb"(?i)\s*(<!doctype|<html|<\?xml)", "is a web page or XML, and not a CSV file", SAVE_AS_CSV),
    (rb"\s*(\{\s*[\"}]|\[\s*[\[{])", "is JSON, and not a CSV file", SAVE_AS_CSV),
)
_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "vertical bars"}
"""Marks that stand between cells in other files than those of a study, and their names."""

_SAYS_WHICH = re.compile(r"sep=(.)\r?\n?", re.IGNORECASE)
_FIRST_LINE = "the first line of the file names the columns"


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


class Recoded:
    """A text file in another encoding, read as bytes of UTF-8.

    Parameters
    ----------
    file : binary file
    encoding : str
    """

    def __init__(self, file: "BinaryIO | Unpacked", encoding: str) -> None:
        self._file = file
        self._decoder = codecs.getincrementaldecoder(encoding)("replace")
        self._left = b""

    def read(self, size: int) -> bytes:
        """Return this many bytes; fewer at the end of the file."""
        while len(self._left) < size and (data := self._file.read(size)):
            self._left += self._decoder.decode(data).encode("utf-8", "replace")
        if len(self._left) < size:
            self._left += self._decoder.decode(b"", final=True).encode("utf-8", "replace")
        found, self._left = self._left[:size], self._left[size:]
        return found


def encoding_of(head: bytes) -> str:
    """Return the encoding that a file's first bytes show: UTF-8, where they do not show another one."""
    for mark, name in _MARKS:
        if head.startswith(mark):
            return name
    some = head[:64]
    if len(some) > 3 and not any(some[1::2]) and all(some[::2]):  # noqa: PLR2004  letters of ASCII, two bytes each
        return "utf-16-le"
    if len(some) > 3 and not any(some[::2]) and all(some[1::2]):  # noqa: PLR2004
        return "utf-16-be"
    return "utf-8"


def foreign(head: bytes) -> tuple[str, str] | None:
    """Return what a file that is no text of cells is, after its name, and what to do; None for other files."""
    return next(((says, hint) for magic, says, hint in _MAGIC if re.match(magic, head)), None)


def opening_of(head: bytes, wanted: Sequence[str], encoding: str, *, fills: bool) -> Opening:
    """Return how a file begins.

    Parameters
    ----------
    head : bytes
        The file's first lines, in UTF-8.
    wanted : sequence of str
    encoding : str
        As :func:`encoding_of` found it.
    fills : bool
        As in :func:`masquerade_core.data.files.parse_lines`.
    """
    if not head:
        hint = "the first line names the columns, each further line is a record"
        return Opening(Layout(), signs=(Sign("empty", "is empty", hint, final=True),))
    if found := foreign(head):
        return Opening(Layout(), signs=(Sign("no_csv", *found, final=True),))
    signs: list[Sign] = []
    if encoding != "utf-8":
        signs.append(Sign("encoding", f"is not UTF-8 text, but {encoding[:6].upper()}", SAVE_AS_CSV))
    elif b"\0" in head:
        return Opening(Layout(), signs=(Sign("no_csv", "is not text: it has bytes of zero", SAVE_AS_CSV, final=True),))
    mark = len(codecs.BOM_UTF8) if head.startswith(codecs.BOM_UTF8) else 0
    text = head[mark:].decode("utf-8", "surrogateescape")
    skipped, chosen = _skipped(text, signs)
    separator = chosen or _separator(text[skipped:], wanted, fills=fills)
    header, end, lines = _header(text[skipped:], separator, fills=fills)
    if not fills and _no_utf8(header):
        signs.append(Sign("encoding", "is not UTF-8 text", SAVE_AS_CSV))
    picks, lost = columns_of(header, wanted, _FIRST_LINE)
    if separator != ",":
        plain = _header(text[skipped:], ",", fills=fills)[0]
        missing = next((name for name in wanted if name not in plain), "")
        seen = f"has {SEPARATORS.get(separator, repr(separator))} between its cells, where commas belong"
        says = f"{seen}; read with commas, it has no column {missing!r}"
        signs.append(Sign("separator", says, "save the table as CSV with commas, and with points before decimals"))
    signs += [replace(sign, final=not picks) for sign in lost]
    size = mark + len(text[: skipped + end].encode("utf-8", "surrogateescape"))
    layout = Layout(tuple(header), picks, separator)
    return Opening(layout, encoding, size, text[:skipped].count("\n") + lines, tuple(signs))


def _no_utf8(header: Sequence[str]) -> bool:
    return any("\udc80" <= letter <= "\udcff" for name in header for letter in name)


def _skipped(text: str, signs: list[Sign]) -> tuple[int, str]:
    """Return how many characters come before the header, and the separator that they name."""
    if found := _SAYS_WHICH.match(text):
        signs.append(Sign("sep_line", "begins with a line for Excel, sep=", "remove the first line"))
        return found.end(), found[1]
    blank = len(text) - len(text.lstrip("\r\n"))
    if blank and text.strip():
        signs.append(Sign("blank_line", "begins with a blank line", "the first line names the columns: remove it"))
        return blank, ""
    return 0, ""


def _separator(text: str, wanted: Sequence[str], *, fills: bool) -> str:
    """Return what separates the cells of the header, as far as the wanted columns show it."""

    def found(separator: str) -> int:
        header = {loosely(name) for name in _header(text, separator, fills=fills)[0]}
        return sum(loosely(name) in header for name in wanted)

    best = max((",", *SEPARATORS), key=found)  # the first of the best: commas, if nothing is better
    header = _header(text, ",", fills=fills)[0]
    if best == "," and len(header) == 1:
        best = next((separator for separator in SEPARATORS if separator in header[0]), ",")
    return best


def _header(text: str, separator: str, *, fills: bool) -> tuple[list[str], int, int]:
    """Return the columns' names, and how many characters and lines they take."""
    file = io.StringIO(text, newline="")
    reader = csv.reader(file, strict=not fills, delimiter=separator)
    try:
        header = next(reader, [])
    except csv.Error:
        header = []
    return header, file.tell(), reader.line_num
