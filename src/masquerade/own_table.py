"""Reading a table as people keep it: compressed, in another encoding, with semicolons, comments, or no line of names.

A data owner's process reads its records strictly, and repairs nothing. This reader serves commands that may look at
all records: a demonstration, ``data look``, and a study whose author has a public sample. :func:`read_names` reads the
names alone.
"""

import csv
import gzip
import importlib
import io
import re
import zlib
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from masquerade_core.data.blocks import TextTable, read_table
from masquerade_core.data.texts import SEPARATORS, encoding_of, foreign
from masquerade_core.errors import BadInput
from masquerade_core.study.text import did_you_mean
from masquerade_core.words import counted

__all__ = ["Heading", "OwnText", "check_heading", "check_names", "column_of", "read_names", "read_own", "text_of"]

_PARQUET = frozenset({".parquet", ".pq"})
_COMMENT = "|"
_LONGEST_LINE = 1 << 20
_NAMES_FIRST = "put a line with the columns' names before the first record"
_SAVE_AS_CSV = "save the table as CSV in UTF-8"
_WESTERN = "windows-1252"  # of what is no UTF-8, what Excel writes in western Europe and America
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"

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
    packed: str = ""

    @property
    def separator(self) -> str:
        """The mark that separates cells: a comma, or what the first line has in its place."""
        lines = (line for line in self.text.splitlines() if not line.startswith(_COMMENT))
        return _delimiter(next(lines, ""))


def text_of(path: Path) -> OwnText:
    """Read a CSV file's text, whatever its encoding is, packed by gzip or zstd or not.

    Raises
    ------
    BadInput
        It is no text.
    """
    with _readable(path):
        raw = path.read_bytes()
    packed = _packed(raw)
    if packed:
        raw = _unpacked(raw, packed, path)
    if found := foreign(raw):
        raise BadInput(f"{path.name} {found[0]}", found[1])
    if encoding_of(raw) == "utf-8" and b"\0" in raw:
        raise BadInput(f"{path.name} is not text: it has bytes of zero", _SAVE_AS_CSV)
    return OwnText(*_decoded(raw), packed)


def _packed(start: bytes) -> str:
    return next((name for mark, name in ((_GZIP, "gzip"), (_ZSTD, "zstd")) if start.startswith(mark)), "")


def _unpacked(raw: bytes, packed: str, path: Path) -> bytes:
    damaged: tuple[type[Exception], ...] = (OSError, EOFError, zlib.error)
    try:
        with gzip.open(io.BytesIO(raw)) if packed == "gzip" else _zstd(io.BytesIO(raw), path) as file:
            found: bytes = file.read()
    except damaged:
        raise BadInput(f"{path.name} is packed with {packed}, and damaged", "write the file again") from None
    return found


def _zstd(file: Any, path: Path) -> Any:
    """Return a file's bytes unpacked, by the library that reads Parquet."""
    try:
        return importlib.import_module("pyarrow").CompressedInputStream(file, "zstd")
    except ImportError:
        raise BadInput(
            f"{path.name} is packed with zstd, and pyarrow, which unpacks it, is not installed",
            "unpack it with unzstd, or install pyarrow with 'pip install pyarrow'",
        ) from None


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


def read_names(path: Path) -> tuple[Heading, ...]:
    """Return the columns of a CSV or Parquet file. No record is read.

    Raises
    ------
    BadInput
        The file cannot be read, or its first line does not name its columns.
    """
    with _readable(path):
        if path.suffix.lower() in _PARQUET:
            return _parquet_headings(path)
        with path.open("rb") as raw:
            packed = _packed(raw.read(len(_ZSTD)))
        if packed == "zstd":
            start = _unpacked(path.read_bytes(), packed, path).partition(b"\n")[0]
        else:
            with gzip.open(path) if packed else path.open("rb") as lines:
                start = lines.readline(_LONGEST_LINE)  # of UTF-16, half of the line's end is missing
    first = _decoded(start)[0].partition("\n")[0]
    header = next(csv.reader([first], delimiter=_delimiter(first), skipinitialspace=True), [])
    return tuple(Heading(name) for name in _header([cell.strip() for cell in header], path))


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
    known = [heading.name for heading in read_names(path)] if names else []
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
    own = text_of(path)
    reader = csv.reader(io.StringIO(own.text, newline=""), delimiter=own.separator, skipinitialspace=True, strict=True)
    try:
        rows = [(reader.line_num, [cell.strip() for cell in row]) for row in reader if row]
    except csv.Error:
        raise BadInput(f"{path.name}, line {reader.line_num} is not CSV", "see whether a quote is left open") from None
    return _table(path, rows, heading)


def _table(path: Path, rows: list[tuple[int, list[str]]], heading: Sequence[str]) -> TextTable:
    rows = [(line, row) for line, row in rows if not (len(row) == 1 and row[0].startswith(_COMMENT))]
    named = not heading or (bool(rows) and bool(set(heading) & set(rows[0][1])))
    header = _header(rows[0][1] if rows else [], path) if named else list(heading)
    records = rows[named:]
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
    return TextTable(dict(zip(header, cells, strict=True)), [line for line, _ in records], "line", path.name)


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
            raise BadInput(f"{path.name} has the column {name!r} twice", "rename or remove one of them")
    return header


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
