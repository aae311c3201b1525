"""Reading a table as people keep it: compressed, in another encoding, with semicolons, comments, or no line of names.

A data owner's process reads its records strictly, and repairs nothing. This reader serves commands that may look at
all records: a demonstration, ``data look``, and a study whose author has a public sample. :func:`read_names` reads the
names alone.
"""

import codecs
import csv
import importlib
import io
import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Literal

from masquerade_core.data.dialects import SEPARATORS, encoding_of, foreign
from masquerade_core.data.files import TextTable, content_of_file
from masquerade_core.data.noting import read_table
from masquerade_core.data.packed import Packing, Unpacked
from masquerade_core.errors import BadInput
from masquerade_core.study.mistakes import did_you_mean
from masquerade_core.words import counted

__all__ = [
    "Heading",
    "OwnText",
    "check_heading",
    "check_names",
    "column_of",
    "read_names",
    "read_noted",
    "read_own",
    "read_text",
    "text_of",
]

_PARQUET = frozenset({".parquet", ".pq"})
_COMMENT = "|"
_BEFORE = re.compile(r"(?:(?:#[^\r\n]*|sep=.|[;,\t ]*)(?:\r\n|\r|\n))+", re.IGNORECASE)
_LONGEST_LINE = 1 << 20
_SOME = 1 << 16  # bytes in which the line of names is looked for
_NAMES_FIRST = "put a line with the columns' names before the first record"
_SAVE_AS_CSV = "save the table as CSV in UTF-8"
_WESTERN = "windows-1252"  # of what is no UTF-8, what Excel writes in western Europe and America
_MOST = 1 << 31  # bytes of a table's text, which is in memory as a whole

Kind = Literal["number", "truth", "text", ""]


@dataclass(frozen=True)
class Heading:
    """A column's name, and what its file's schema says of its values.

    Parameters
    ----------
    name : str
    kind : str
        "number", "truth" or "text" for a column of a Parquet file. It is empty for a CSV file, which has no schema.
    """

    name: str
    kind: Kind = ""


@dataclass(frozen=True)
class OwnText:
    """A CSV file's text, and how the file has it.

    Parameters
    ----------
    text : str
    encoding : str
        "utf-8", "utf-8 with a mark", "utf-16", "utf-32" or "windows-1252".
    packed : str
        "gzip" or "zstd", or empty.
    """

    text: str
    encoding: str
    packed: Packing = ""

    @property
    def before(self) -> str:
        """The text before the line of names: blank lines, comments, and Excel's ``sep=``."""
        found = _BEFORE.match(self.text)
        lines = found[0].splitlines(keepends=True) if found else []
        names = self.text[sum(map(len, lines)) :].partition("\n")[0]
        # A line of names may begin with this mark, too: then the record behind it is as long.
        while (
            lines and lines[-1].startswith("#") and lines[-1].count(mark := _delimiter(names)) == names.count(mark) > 0
        ):
            names = lines.pop()
        return "".join(lines)

    @property
    def separator(self) -> str:
        """The mark that separates cells: a comma, or what the line of names has in its place."""
        lines = (line for line in self.text[len(self.before) :].splitlines() if not line.startswith(_COMMENT))
        return _delimiter(next(lines, ""))


def text_of(path: Path) -> OwnText:
    """Read a CSV file's text, whatever its encoding is, packed by gzip or zstd or not.

    Raises
    ------
    BadInput
        It is no text.
    """
    raw, packed = _unpacked(path, _MOST + 1)
    if len(raw) > _MOST:
        raise BadInput(
            f"{path.name} has more than {_MOST >> 20:,} MiB of text, the most that is looked at as a whole",
            "write a part of the table to a file of its own",
        )
    if found := foreign(raw):
        raise BadInput(f"{path.name} {found[0]}", found[1])
    if encoding_of(raw) == "utf-8" and b"\0" in raw:
        raise BadInput(f"{path.name} is not text: it has bytes of zero", _SAVE_AS_CSV)
    return OwnText(*_decoded(raw), packed)


def _unpacked(path: Path, most: int) -> tuple[bytes, Packing]:
    """Return the first bytes of a file's content, and how the file is packed."""
    with content_of_file(path) as file:
        return file.read(most), file.packing if isinstance(file, Unpacked) else ""


def _decoded(raw: bytes) -> tuple[str, str]:
    """Return bytes as text, and the name of their encoding."""
    encoding = encoding_of(raw)
    if encoding != "utf-8":
        return raw.decode(encoding, "replace").removeprefix("\ufeff"), encoding[:6]
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        return raw.decode(_WESTERN, "replace"), _WESTERN
    return text.removeprefix("\ufeff"), "utf-8 with a mark" if text.startswith("\ufeff") else "utf-8"


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise BadInput(f"there is no file {path}", "correct the path") from error
    except OSError as error:
        raise BadInput(f"{path.name} cannot be read: {error.strerror}", "check the path and who may read it") from error


def read_names(path: Path, *, mends: bool = False) -> tuple[Heading, ...]:
    """Return the columns of a CSV or Parquet file. No record is read.

    Parameters
    ----------
    path : Path
    mends : bool
        Whether names that are missing or there twice are mended, as :func:`read_own` does it, and not refused.

    Raises
    ------
    BadInput
        The file cannot be read, or its first line does not name its columns.
    """
    with _readable(path):
        if path.suffix.lower() in _PARQUET:
            return _parquet_headings(path)
        start, _ = _unpacked(path, _SOME + _LONGEST_LINE)
        start = start[: start.find(b"\n", _SOME) + 1 or None]  # of UTF-16, half of the line's end is missing
    encoding = encoding_of(start)
    bytewise = encoding == "utf-8"  # the names are decoded by themselves: no record is
    text = start.removeprefix(codecs.BOM_UTF8).decode("latin-1") if bytewise else start.decode(encoding, "ignore")
    own = OwnText(text.removeprefix("\ufeff"), encoding)
    lines_of = io.StringIO(own.text[len(own.before) :], newline="")
    try:
        header = next(csv.reader(lines_of, delimiter=own.separator, skipinitialspace=True), [])
    except csv.Error:
        raise BadInput(f"the first line of {path.name} is not CSV", "see whether a quote is left open") from None
    names = [(_decoded(cell.encode("latin-1"))[0] if bytewise else cell).strip() for cell in header]
    if mends:
        names, _ = _names(names, range(len(names)))
    return tuple(Heading(name) for name in _header(names, path))


def check_heading(path: Path, headings: Sequence[Heading]) -> None:
    """Check that a first line holds names and no record, before the names go into a study, which is public.

    Raises
    ------
    BadInput
        A name is a number, or stands for a missing value.
    """
    if any(_like_a_value(heading.name) for heading in headings):
        raise BadInput(
            f"the first line of {path.name} holds numbers, so it may be a record and not the columns' names",
            f"{_NAMES_FIRST}; give a column whose name is a number another name",
        )


def check_names(path: Path, names: Collection[str], option: str) -> None:
    """Check that a file has the columns that an option names.

    Raises
    ------
    BadInput
        It does not.
    """
    known = [heading.name for heading in read_names(path, mends=True)] if names else []
    for name in names:
        if name not in known:
            raise BadInput(f"{option}: {path.name} has no column {name!r}", _which(name, known))


def _which(name: str, known: Sequence[str]) -> str:
    """Say which columns there are; but if the first line may be a record, show nothing of it."""
    return _NAMES_FIRST if any(map(_like_a_value, known)) else f"name one of its columns{did_you_mean(name, known)}"


def read_own(path: Path, *, heading: Sequence[str] = (), ignore: Sequence[str] = ()) -> TextTable:
    """Read all columns of a file, and strip the blanks around each cell.

    Parameters
    ----------
    path : Path
        CSV in UTF-8, or Parquet. Commas, semicolons or tabs separate the cells of a CSV file.
    heading : sequence of str, optional
        The columns' names, for a file without a line of names. Other files name them in their first line.
    ignore : sequence of str
        Columns of a Parquet file that are not read.

    Raises
    ------
    BadInput
        The file cannot be used as it is; the line is named.
    """
    with _readable(path):
        if path.suffix.lower() in _PARQUET:
            names = [h.name for h in _parquet_headings(path) if h.name not in ignore]
            return read_table(path, names)
    return read_text(path, text_of(path), heading)[0]


def read_noted(path: Path, *, ignore: Sequence[str] = (), label: str) -> tuple[TextTable, tuple[str, ...]]:
    """Read all columns of a file as :func:`read_own`, and say what of its form was mended for that."""
    if path.suffix.lower() in _PARQUET:
        return read_own(path, ignore=ignore), ()
    table, mends = read_text(path, text_of(path), label=label)
    return table, ((f"mended while {path.name} was read: {', '.join(mends)}",) if mends else ())


def read_text(
    path: Path, own: OwnText, heading: Sequence[str] = (), *, label: str | None = None
) -> tuple[TextTable, tuple[str, ...]]:
    """Read all columns of a CSV file's text, as :func:`read_own`; and return what of its form was mended for that.

    Raises
    ------
    BadInput
        As :func:`read_own`; or the column ``label`` is there twice, so that nobody knows which is meant.
    """
    text = io.StringIO(own.text[len(own.before) :], newline="")
    above = len((own.before + "|").splitlines()) - 1
    reader = csv.reader(text, delimiter=own.separator, skipinitialspace=True, strict=True)
    try:
        rows = [(above + reader.line_num, [cell.strip() for cell in row]) for row in reader if row]
    except csv.Error:
        line = above + reader.line_num
        raise BadInput(f"{path.name}, line {line} is not CSV", "see whether a quote is left open") from None
    if label is not None and rows and rows[0][1].count(label) > 1:
        raise _twice(path, label)
    table, mends = _table(path, rows, heading)
    return table, (*(("lines before the names",) if own.before else ()), *mends)


def _table(path: Path, rows: list[tuple[int, list[str]]], heading: Sequence[str]) -> tuple[TextTable, tuple[str, ...]]:
    rows = [(line, row) for line, row in rows if not (len(row) == 1 and row[0].startswith(_COMMENT))]
    named = not heading or (bool(rows) and bool(set(heading) & set(rows[0][1])))
    mends: tuple[str, ...] = ()
    header = list(heading)
    records = rows[named:]
    if named and rows:
        header, mends = _names(rows[0][1], {i for _, row in records for i, cell in enumerate(row) if cell})
    header = _header(header, path) if named else header
    longer = [row for _, row in records if len(row) > len(header)]
    if longer and not any(any(row[len(header) :]) for row in longer):
        mends += ("separators at the ends of lines",)
        records = [(line, row[: len(header)]) for line, row in records]
    if any(not any(row) for _, row in records):
        mends += ("records without any cell",)
        records = [(line, row) for line, row in records if any(row)]
    if not records:
        raise BadInput(f"{path.name} has column names but no records", "put a record on each further line")
    for line, row in records:
        if len(row) != len(header):
            raise BadInput(
                f"{path.name}, line {line} has {counted(len(row), 'column')}, but "
                + (f"the first line has {len(header)}" if named else f"{len(header)} are expected"),
                "each record has one cell for each column; quote cells that hold a comma",
            )
    cells = zip(*(row for _, row in records), strict=True)
    return TextTable(dict(zip(header, cells, strict=True)), [line for line, _ in records], "line", path.name), mends


def _names(header: Sequence[str], used: Collection[int]) -> tuple[list[str], tuple[str, ...]]:
    """Return names of columns that are all different, and what was done to them.

    Parameters
    ----------
    header : sequence of str
    used : collection of int
        The places of columns in which any record has a cell. Columns without a name at the end, and without cells, are
        left out.
    """
    names = list(header)
    mends: tuple[str, ...] = ()
    if any(map(_like_a_value, names)) or not any(names):
        return names, ()  # it is a record, perhaps
    while names and not names[-1] and len(names) - 1 not in used:
        names.pop()
    if len(names) < len(header):
        mends = ("separators at the ends of lines",)
    if "" in names:
        mends += ("columns without a name",)
        names = [name or f"column {place}" for place, name in enumerate(names, 1)]
    if len(set(names)) < len(names):
        mends += ("columns of one name",)
        taken = set(names)
        for place, name in enumerate(names):
            if name in names[:place]:
                names[place] = next(other for i in count(2) if (other := f"{name} {i}") not in taken)
                taken.add(names[place])
    return names, mends


def column_of(table: TextTable, name: str) -> Sequence[str]:
    """Return a column's cells.

    Raises
    ------
    BadInput
        The table has no such column.
    """
    if name not in table.columns:
        raise BadInput(f"{table.source} has no column {name!r}", _which(name, list(table.columns)))
    return table.columns[name]


def _like_a_value(cell: str) -> bool:
    return cell == "?" or re.fullmatch(r"[+-]?\d+(\.\d+)?", cell) is not None


def _header(header: list[str], path: Path) -> list[str]:
    if not any(header):
        raise BadInput(f"{path.name} is empty", "the first line names the columns, each further line is a record")
    if "" in header:
        raise BadInput(f"{path.name}: column {header.index('') + 1} has no name", "name every column in the first line")
    for name in header:
        if header.count(name) > 1 and any(map(_like_a_value, header)):
            raise BadInput(f"the first line of {path.name} names no columns: it holds numbers", _NAMES_FIRST)
        if header.count(name) > 1:
            raise _twice(path, name)
    return header


def _twice(path: Path, name: str) -> BadInput:
    return BadInput(f"{path.name} has the column {name!r} twice", "rename or remove one of them")


def _delimiter(line: str) -> str:
    """Return the mark that separates cells: the one of which the line has most; a comma, where it has none."""
    return max((",", *SEPARATORS), key=line.count)


def _parquet_headings(path: Path) -> tuple[Heading, ...]:
    try:
        arrow, parquet = importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    except ImportError:
        raise BadInput(
            f"{path.name} is a Parquet file, and pyarrow, which reads such files, is not installed",
            f"install it with 'pip install pyarrow', or {_SAVE_AS_CSV}",
        ) from None
    try:
        with path.open("rb") as raw:
            schema = parquet.ParquetFile(raw).schema_arrow
    except (arrow.ArrowException, UnicodeDecodeError):
        raise BadInput(
            f"{path.name} is not a Parquet file, or is damaged", f"write the file again, or {_SAVE_AS_CSV}"
        ) from None
    _header(list(schema.names), path)

    def kind(column: object) -> Kind:
        if arrow.types.is_boolean(column):
            return "truth"
        if arrow.types.is_integer(column) or arrow.types.is_floating(column) or arrow.types.is_decimal(column):
            return "number"
        return "text"

    return tuple(Heading(name, kind(schema.field(i).type)) for i, name in enumerate(schema.names))
