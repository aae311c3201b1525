"""A file of records that is not in the study's format: what is wrong with it, and how to read it nevertheless.

The kind of a file follows from its first bytes, and then the layout of a CSV file, be it right or wrong. A file in
another format is refused. Where its format is evident, the file is read on nevertheless: so one error says what is
wrong with the format and what is wrong with the cells. An error shows a column name of the file only if it is nearly a
wanted one, since the first line of a file without headings is a record.
"""

import codecs
import difflib
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, BinaryIO

from masquerade_core.data.file_faults import FaultyFile
from masquerade_core.data.files import SAVE_AS_CSV, Layout, Opening, Sign, header_of
from masquerade_core.words import listed

if TYPE_CHECKING:
    from masquerade_core.data.packed import Unpacked

__all__ = [
    "SEPARATORS",
    "Recoded",
    "columns_of",
    "encoding_of",
    "find_columns",
    "foreign",
    "loosely",
    "opening_of",
]


# --- Columns ---------------------------------------------------------------------

_SHOWN = 10
_RECORD = (
    "the first line of the file names the columns, but it seems to be a record: write a line with the names before it"
)


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
    header, end, lines = header_of(text[skipped:], separator, fills=fills)
    if not fills and _no_utf8(header):
        signs.append(Sign("encoding", "is not UTF-8 text", SAVE_AS_CSV))
    picks, lost = columns_of(header, wanted, _FIRST_LINE)
    if separator != ",":
        plain = header_of(text[skipped:], ",", fills=fills)[0]
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
        header = {loosely(name) for name in header_of(text, separator, fills=fills)[0]}
        return sum(loosely(name) in header for name in wanted)

    best = max((",", *SEPARATORS), key=found)  # the first of the best: commas, if nothing is better
    header = header_of(text, ",", fills=fills)[0]
    if best == "," and len(header) == 1:
        best = next((separator for separator in SEPARATORS if separator in header[0]), ",")
    return best
