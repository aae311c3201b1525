"""Records from a query to an SQLite file. A cell has a type of its own there, and is read as a CSV file's.

A number becomes the text that stands for exactly it, and NULL an empty cell. SQLite knows neither truth values nor
decimals: a column of those holds the integers 0 and 1, floating-point numbers, or text.
"""

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from masquerade_core.data.addresses import Query
from masquerade_core.data.answers import NAMES, ReadBlock, Rows, another_number, count_of, guarded
from masquerade_core.data.columns import Levels, WholeColumn
from masquerade_core.data.files import find_columns, opened
from masquerade_core.data.texts import TextTable
from masquerade_core.errors import BadInput

__all__ = ["open_sqlite"]

_BATCH = 1 << 16
_UNREADABLE = "\N{REPLACEMENT CHARACTER}"
_READS = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE})
_KINDS = {
    sqlite3.SQLITE_BUSY: "waits for another program that writes into the file",
    sqlite3.SQLITE_LOCKED: "waits for another program that writes into the file",
    sqlite3.SQLITE_AUTH: "does something else than read",
    sqlite3.SQLITE_CANTOPEN: "cannot open its file",
    sqlite3.SQLITE_CORRUPT: "reads a damaged file",
    sqlite3.SQLITE_NOTADB: "reads a file that is no SQLite database",
}
_SEE_SQLITE = "run it with sqlite3 to see the database's own message, which may show a cell and is not repeated here"

_Row = tuple[Any, ...]


def open_sqlite(query: Query, numbers: Sequence[str], others: Sequence[str], *, fills: bool) -> Rows:
    """Return the wanted columns of a query's answer; :func:`masquerade_core.data.databases.open_query` has the rest."""
    path = Path(query.place)
    with opened(path):  # says what is wrong with the path
        pass
    ask: Callable[..., Any] = partial(_sound, query.name)
    # What is read stays as it is until the connection is closed: SQLite keeps writers out, or a snapshot.
    connection = ask(lambda: sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True, isolation_level=None))
    try:
        ask(lambda: connection.execute("BEGIN"))
        connection.set_authorizer(_only_reads)
        connection.text_factory = partial(_text, query.name, fills=fills)
        n = ask(lambda: connection.execute(count_of(query.text)).fetchone()[0])
        cursor = ask(lambda: connection.execute(query.text))
        picks = find_columns([column[0] for column in cursor.description], (*numbers, *others), query.name, NAMES)
    except BaseException:
        connection.close()
        raise
    return Rows(n, _sqlite_blocks(connection, cursor, _Cells(query.name, picks, frozenset(numbers), fills), n))


def _sqlite_blocks(
    connection: sqlite3.Connection, cursor: sqlite3.Cursor, cells: "_Cells", n: int
) -> Iterator[ReadBlock]:
    first = 1
    with closing(connection):
        while rows := _sound(cells.source, lambda: cursor.fetchmany(_BATCH)):
            if first + len(rows) - 1 > n:
                raise another_number(cells.source)
            yield partial(cells.columns, rows), partial(cells.tables, rows, first)
            first += len(rows)
    if first - 1 != n:
        raise another_number(cells.source)


class _Cells:
    """How rows become columns.

    Parameters
    ----------
    source : str
        The query's name.
    picks : mapping of str to int
        The wanted columns' places in a row.
    numbers : frozenset of str
        The columns that hold numbers.
    fills : bool
        Whether binary data count as a text that no number and no level has.
    """

    def __init__(self, source: str, picks: Mapping[str, int], numbers: frozenset[str], fills: bool) -> None:
        self.source = source
        self._picks, self._numbers, self._fills = picks, numbers, fills

    def columns(self, rows: Sequence[_Row]) -> dict[str, WholeColumn] | None:
        """Return the columns at once; None where a column of numbers holds something else."""
        found: dict[str, WholeColumn] = {}
        columns = list(zip(*rows, strict=True))
        for name, i in self._picks.items():
            cells = columns[i]
            kinds = set(map(type, cells))
            if name in self._numbers:
                if not kinds <= {int, float, type(None)}:
                    return None
                full = cells if type(None) not in kinds else [np.nan if cell is None else cell for cell in cells]
                found[name] = np.array(full, dtype=np.float64)
                continue
            if bytes in kinds:
                return None
            places = {text: place for place, text in enumerate(dict.fromkeys(map(_written, cells)))}
            found[name] = Levels(
                np.fromiter((places[_written(cell)] for cell in cells), np.intp, len(cells)), tuple(places)
            )
        return found

    def tables(self, rows: Sequence[_Row], first: int) -> Iterator[TextTable]:
        """Return all cells as text."""
        columns: dict[str, Sequence[str]] = {}
        for name, i in self._picks.items():
            faulty = next((row for row, cells in enumerate(rows) if isinstance(cells[i], bytes)), None)
            if faulty is not None and not self._fills:
                raise BadInput(
                    f"{self.source}, record {first + faulty}: column {name!r} holds binary data",
                    "write such a column as numbers or text: CAST(... AS TEXT) in the query",
                )
            columns[name] = [_written(row[i]) for row in rows]
        yield TextTable(columns, range(first, first + len(rows)), "record", self.source)


def _written(cell: Any) -> str:
    """Return the text that stands for exactly a cell."""
    if cell is None:
        return ""
    if isinstance(cell, bytes):
        return _UNREADABLE
    return cell if isinstance(cell, str) else repr(cell)


def _text(source: str, data: bytes, *, fills: bool) -> str:
    try:
        return data.decode(errors="replace" if fills else "strict")
    except UnicodeDecodeError:
        pass
    raise BadInput(f"{source} gives text that is not UTF-8", "convert the column: CAST(CAST(... AS BLOB) AS TEXT)")


def _only_reads(action: int, *_: object) -> int:
    return sqlite3.SQLITE_OK if action in _READS else sqlite3.SQLITE_DENY


def _sound(source: str, read: Callable[[], Any]) -> Any:
    return guarded(read, (sqlite3.Error, OverflowError, ValueError), partial(_failure, source))


def _failure(source: str, error: Exception) -> BadInput:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    what = _KINDS.get(code, "was refused by SQLite, or failed while it was read")
    return BadInput(f"{source} {what}", _SEE_SQLITE)
