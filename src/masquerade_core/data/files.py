"""A file of records: it is opened, and its wanted columns are found by their names.

The meaning of ``--data``: a file, a folder of Parquet files, or a database's address and a query behind it.
"""

import difflib
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Union

from masquerade_core.bounded import regular
from masquerade_core.data.file_faults import FaultyFile, Sign
from masquerade_core.errors import BadInput
from masquerade_core.words import listed

if TYPE_CHECKING:
    from masquerade_core.data.addresses import Query
    from masquerade_core.data.packed import Unpacked

__all__ = [
    "PARQUET",
    "SAVE_AS_CSV",
    "Data",
    "columns_of",
    "content_of_file",
    "data_at",
    "find_columns",
    "loosely",
    "opened",
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
