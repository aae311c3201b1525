"""Records from a query to PostgreSQL, DuckDB or SQLite, some records at a time.

Every connection only reads, and all that it reads is of one moment. PostgreSQL and DuckDB give Arrow's batches, so that
columns of numbers are read at once. Packages of the extra ``sql`` do the work, and are imported when needed. In SQLite
a cell has a type of its own, and is read as a CSV file's. A number becomes the text that stands for exactly it, and
NULL an empty cell. SQLite knows neither truth values nor decimals: a column of those holds the integers 0 and 1,
floating-point numbers, or text.

*The order.* A record's place decides whether it is held back to measure the model
(:mod:`masquerade_core.data.records`), and a process that starts again reads the same records again. So a query ends
with ORDER BY. It orders by plain columns, and by none that the study learns from: if a record's values moved it, it
would change which others are held back.

*Checks.* This module checks a query's text: it must only read, and say in which order the records come. These checks
find mistakes. They do not protect the database: the connection does, since it only reads.

*Errors.* A database's own message may show a cell or an address. So no error has it in it, and none is raised inside
the handler of another.
"""

import importlib
import os
import re
import sqlite3
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote

import numpy as np

from masquerade_core.data.addresses import Query
from masquerade_core.data.arrow import is_number, levels_of, numbers_of
from masquerade_core.data.dialects import find_columns
from masquerade_core.data.files import TextTable, opened
from masquerade_core.data.parquet import text_writer
from masquerade_core.data.schema import Levels, WholeColumn
from masquerade_core.errors import BadInput

__all__ = [
    "NAMES",
    "ReadBlock",
    "Rows",
    "another_number",
    "check_sql",
    "count_of",
    "guarded",
    "not_installed",
    "open_query",
    "open_sqlite",
]


# --- SQL -------------------------------------------------------------------------

_TOKENS = re.compile(
    r"""(?P<skip>\s+|--[^\n]*|/\*.*?\*/)
      | (?P<text>[eE]'(?:[^'\\]|\\.|'')*'|'(?:[^']|'')*'|\$(?P<tag>\w*)\$.*?\$(?P=tag)\$)
      | (?P<quoted>"(?:[^"]|"")*"|`[^`]*`)
      | (?P<word>[^\W\d][\w$]*)
      | (?P<other>\d[\w.]*|.)""",
    re.VERBOSE | re.DOTALL,
)
_NO_NAMES = frozenset({"all", "null", "true", "false"})
_DIRECTION = re.compile(r"(collate \S+ ?)?(asc ?|desc ?)?(nulls (first|last))?")
_KEY = "end it with ORDER BY and the key of a record, such as the number under which it was entered: ... ORDER BY id"


class _Token(NamedTuple):
    kind: str
    text: str

    def is_word(self, *words: str) -> bool:
        return self.kind == "word" and self.text.lower() in words


def check_sql(text: str, source: str, learned: Collection[str]) -> None:
    """Check a query before a database sees it.

    Parameters
    ----------
    text : str
        The query.
    source : str
        Its name for an error.
    learned : collection of str
        The columns that the study learns from.

    Raises
    ------
    BadInput
        It is not one SELECT, has no ORDER BY at its end, or orders by something else than plain columns, or by one of
        ``learned``.
    """
    tokens = [token for token in _top(text) if token.kind != "skip"]
    if not (tokens and tokens[0].is_word("select", "with")):
        raise BadInput(f"{source} begins neither with SELECT nor with WITH", "give one query that reads records")
    if any(token.text == ";" for token in tokens):
        raise BadInput(f"{source} has more than one statement", "give one query that reads records")
    places = [i + 2 for i in range(len(tokens) - 1) if tokens[i].is_word("order") and tokens[i + 1].is_word("by")]
    if not places:
        raise BadInput(f"{source} does not say in which order the records come", _KEY)
    small = {name.lower() for name in learned}
    for key in _keys(tokens[places[-1] :]):
        column = _column(key)
        if column is None:
            raise BadInput(
                f"{source} orders the records by something other than a column's name",
                f"{_KEY}; where a formula is the key, name it: SELECT ..., (formula) AS place ... ORDER BY place",
            )
        if column.lower() in small:
            raise BadInput(
                f"{source} orders the records by the column {column!r}, which the study reads",
                f"a record's place must not follow from its values; {_KEY}",
            )


def _top(text: str) -> Iterator[_Token]:
    """Yield the tokens that stand in no brackets; a pair of brackets is one token."""
    depth = 0
    for found in _TOKENS.finditer(text):
        kind = found.lastgroup if found.lastgroup != "tag" else "text"
        token = _Token(kind or "other", found.group())
        if token.kind == "other" and token.text in "([{":
            depth += 1
            if depth == 1:
                yield _Token("brackets", "()")
        elif token.kind == "other" and token.text in ")]}":
            depth -= 1
        elif depth <= 0 or token.text == ";":
            yield token


def _keys(tokens: list[_Token]) -> list[list[_Token]]:
    """Return what stands between the commas behind ORDER BY."""
    keys: list[list[_Token]] = [[]]
    for token in tokens:
        if token.is_word("limit", "offset", "fetch"):
            break
        if token.kind == "other" and token.text == ",":
            keys.append([])
        else:
            keys[-1].append(token)
    return keys


def _column(key: list[_Token]) -> str | None:
    """Return the column that a key names; None where it is something else."""
    end = 1
    while len(key) > end + 1 and key[end].text == ".":
        end += 2
    names = key[:end:2]
    if not names or any(token.kind not in {"word", "quoted"} for token in names):
        return None
    if not _DIRECTION.fullmatch(" ".join(token.text.lower() for token in key[end:])):
        return None
    last = names[-1]
    if last.kind == "quoted":
        return last.text[1:-1].replace('""', '"')
    return None if last.text.lower() in _NO_NAMES else last.text


# --- Answers ---------------------------------------------------------------------

ReadBlock = tuple[Callable[[], Mapping[str, WholeColumn] | None], Callable[[], Iterator[TextTable]]]
"""How some records are read: column by column, which gives None where it cannot be done; and cell by cell."""

NAMES = "the query names the columns: SELECT a, b AS c ..."
"""The hint for a missing column."""

T = TypeVar("T")


@dataclass(frozen=True, repr=False)
class Rows:
    """A query's answer.

    Parameters
    ----------
    n : int
        The number of its records.
    blocks : iterator of ReadBlock
        They can be read once.
    """

    n: int
    blocks: Iterator[ReadBlock]


def count_of(text: str) -> str:
    """Return the query that counts the records of a query; a comment at its end ends with the line."""
    return f"SELECT count(*) FROM ({text}\n) AS records"  # noqa: S608  the query is the user's own, and only reads


def guarded(read: Callable[[], T], kinds: tuple[type[Exception], ...], failure: Callable[[Exception], BadInput]) -> T:
    """Return what ``read`` returns. An error of these kinds becomes the one that ``failure`` makes of it."""
    try:
        return read()
    except kinds as error:
        failed = failure(error)
    try:
        raise failed
    finally:
        del failed  # else the error and this frame keep each other alive, and with them an open connection


def another_number(source: str) -> BadInput:
    """Return the error of a query that does not give the same records twice."""
    return BadInput(
        f"{source} gave a different number of records when it ran a second time",
        "a query gives the same records whenever it runs: leave random() and files that change out of it",
    )


def not_installed(package: str, source: str) -> BadInput:
    """Return the error where a database's driver is not there."""
    return BadInput(
        f"{source} needs the package {package}, which is not installed",
        "install it with \"pip install 'masquerade[sql]'\", or save the records as CSV",
    )


# --- SQLite ----------------------------------------------------------------------

_BATCH = 1 << 16
_UNREADABLE = "\N{REPLACEMENT CHARACTER}"
_READS = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE})
_KINDS = {
    sqlite3.SQLITE_BUSY: "waits for another program that writes into the file",
    sqlite3.SQLITE_LOCKED: "waits for another program that writes into the file",
    sqlite3.SQLITE_AUTH: "does more than read",
    sqlite3.SQLITE_CANTOPEN: "cannot open its file",
    sqlite3.SQLITE_CORRUPT: "reads a damaged file",
    sqlite3.SQLITE_NOTADB: "reads a file that is not an SQLite database",
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


# --- Databases -------------------------------------------------------------------

_SECONDS = 20  # to reach a server
_AS_TEXT = "dates, binary data and nested values are not read; write CAST(... AS text) in the query, or a number"
_UTF8 = "SET client_encoding TO 'UTF8'"
_SNAPSHOT = "BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY"
_DUCKDB: dict[str, Any] = {
    "autoinstall_known_extensions": False,  # so no query reaches the network
    "autoload_known_extensions": False,
    "allow_community_extensions": False,
    "allow_persistent_secrets": False,
    "lock_configuration": True,
}
_SELECT = "StatementType.SELECT"
_SEE = "to see the database's own message, which may show a cell and is not repeated here"
_STATES = {
    "25006": "would write, but this connection only reads",
    "42501": "reads a table that this user may not read",
    "42601": "is not SQL that PostgreSQL understands",
    "42703": "names a column that is not there",
    "42P01": "names a table that is not there",
    "57014": "was cancelled by the server",
}
_DUCKDB_KINDS = {
    "ParserException": "is not SQL that DuckDB understands",
    "CatalogException": "names a table or function that is not there",
    "BinderException": "names a column that is not there, or mixes types",
    "ConversionException": "converts a cell that does not fit the type",
    "IOException": "reads a file that is not there, is not a database, or is open for writing in another program",
    "OutOfMemoryException": "needs more memory than there is",
}


def open_query(
    query: Query, numbers: Sequence[str], others: Sequence[str], *, fills: bool = False, keys: Sequence[str] = ()
) -> Rows:
    """Ask a database, and return the wanted columns of its answer.

    Parameters
    ----------
    query : Query
    numbers : sequence of str
        The columns that hold numbers.
    others : sequence of str
        The columns whose texts matter.
    fills : bool
        Whether a cell of SQLite that is neither number nor text becomes a text that no number and no level has.
    keys : sequence of str
        Those wanted columns by which the query may order its records.

    Raises
    ------
    BadInput
        The query is refused, here or by the database; the database cannot be reached; what reads it is not installed.
        While blocks are read: the query failed.
    """
    check_sql(query.text, query.name, {*numbers, *others} - set(keys))
    if query.scheme == "sqlite":
        return open_sqlite(query, numbers, others, fills=fills)
    answer = _postgresql(query) if query.scheme == "postgresql" else _duckdb(query)
    try:
        columns = _Columns(query.name, answer.batches.schema, numbers, others)
    except BaseException:
        answer.resources.close()
        raise
    return Rows(answer.n, _blocks(answer, columns))


@dataclass(frozen=True, repr=False)
class _Answer:
    """A database's answer: the number of its records, Arrow's reader of them, and what is closed behind it."""

    n: int
    batches: Any
    resources: ExitStack
    sound: Callable[[Callable[[], Any]], Any]


def _blocks(answer: _Answer, columns: "_Columns") -> Iterator[ReadBlock]:
    first = 1
    with answer.resources:
        while (records := answer.sound(lambda: next(answer.batches, None))) is not None:
            if first + records.num_rows - 1 > answer.n:
                raise another_number(columns.source)
            yield partial(columns.whole, records), partial(columns.tables, records, first)
            first += records.num_rows
    if first - 1 != answer.n:
        raise another_number(columns.source)


class _Columns:
    """How Arrow's batches of records become columns.

    Parameters
    ----------
    source : str
        The query's name.
    schema : Schema
        Arrow's, of the answer.
    numbers, others : sequence of str
    """

    def __init__(self, source: str, schema: Any, numbers: Sequence[str], others: Sequence[str]) -> None:
        self.source = source
        self._types, wanted = importlib.import_module("pyarrow").types, (*numbers, *others)
        self._picks, self._numbers = find_columns(schema.names, wanted, source, NAMES), frozenset(numbers)
        self._kinds = {name: schema.field(i).type for name, i in self._picks.items()}
        self._writers = {
            name: str if _is_numeric(kind) else text_writer(self._types, kind, name, source, _AS_TEXT)
            for name, kind in self._kinds.items()
        }

    def whole(self, records: Any) -> Mapping[str, WholeColumn] | None:
        """Return the columns of a batch at once; None where a column of numbers holds something else."""
        found: dict[str, WholeColumn] = {}
        for name, i in self._picks.items():
            kind, column = self._kinds[name], _stored(records.column(i))
            if name not in self._numbers:
                found[name] = levels_of(column, partial(self._texts, name))
            elif is_number(kind):
                found[name] = numbers_of(column)
            elif _is_numeric(kind) or self._types.is_decimal(kind):  # by way of its digits, to the nearest number
                found[name] = numbers_of(column.cast("string"))
            else:
                return None
        return found

    def tables(self, records: Any, first: int) -> Iterator[TextTable]:
        """Return all cells of a batch as text."""
        cells = {name: self._texts(name, _stored(records.column(i))) for name, i in self._picks.items()}
        yield TextTable(dict(cells), range(first, first + records.num_rows), "record", self.source)

    def _texts(self, name: str, array: Any) -> list[str]:
        write = self._writers[name]
        return ["" if value is None else write(value) for value in array.to_pylist()]


def _is_numeric(kind: Any) -> bool:
    """Return whether a column is one of PostgreSQL's numeric type, which Arrow has as digits in text."""
    return getattr(kind, "type_name", None) == "numeric" and str(kind.storage_type) == "string"


def _stored(column: Any) -> Any:
    return getattr(column, "storage", column)


# --- PostgreSQL ------------------------------------------------------------------------


def _postgresql(query: Query) -> _Answer:
    try:
        adbc: Any = importlib.import_module("adbc_driver_postgresql.dbapi")
        arrow: Any = importlib.import_module("pyarrow")
    except ImportError:
        raise not_installed("adbc-driver-postgresql", query.name) from None
    kinds = (adbc.Error, arrow.ArrowException, OSError, ValueError)
    sound: Callable[..., Any] = lambda read, failure=_postgresql_failure: guarded(  # noqa: E731
        read, kinds, partial(failure, query.name)
    )
    with ExitStack() as resources:
        connection = sound(lambda: adbc.connect(_address(query.place), autocommit=True), _not_connected)
        resources.callback(connection.close)
        cursor = connection.cursor()
        resources.callback(cursor.close)
        for command in (_UTF8, _SNAPSHOT, count_of(query.text)):
            sound(partial(cursor.execute, command))
        n = sound(lambda: cursor.fetchone()[0])
        sound(lambda: cursor.execute(query.text))
        return _Answer(n, sound(cursor.fetch_record_batch), resources.pop_all(), sound)
    raise AssertionError  # an ExitStack may swallow errors, for all that mypy knows


def _address(place: str) -> str:
    """Return an address with a limit of time to reach the server, where nobody has set one."""
    if "connect_timeout=" in place or "PGCONNECT_TIMEOUT" in os.environ:
        return place
    return f"{place}{'&' if '?' in place else '?'}connect_timeout={_SECONDS}"


def _not_connected(source: str, error: Exception) -> BadInput:
    if "password" in str(error) or "authentication" in str(error):
        return BadInput(
            f"{source}: the server does not accept this user and password",
            "set PGUSER and PGPASSWORD, or name a file of passwords with PGPASSFILE",
        )
    if "does not exist" in str(error):
        return BadInput(
            f"{source}: the server has no such database or user", "see whether psql connects to the same address"
        )
    return BadInput(f"{source}: no server answers there", "see whether psql connects to the same address")


def _postgresql_failure(source: str, error: Exception) -> BadInput:
    state = getattr(error, "sqlstate", None) or ""
    what = _STATES.get(state, "was refused by PostgreSQL, or failed while it was read")
    return BadInput(f"{source} {what}{f' (SQLSTATE {state})' if state else ''}", f"run it with psql {_SEE}")


# --- DuckDB ----------------------------------------------------------------------------


def _duckdb(query: Query) -> _Answer:
    try:
        duckdb: Any = importlib.import_module("duckdb")
        arrow: Any = importlib.import_module("pyarrow")
    except ImportError:
        raise not_installed("duckdb", query.name) from None
    if query.place:
        with opened(Path(query.place)):  # says what is wrong with the path
            pass
    kinds = (duckdb.Error, arrow.ArrowException, OSError, ValueError, RuntimeError)
    sound: Callable[..., Any] = lambda read: guarded(read, kinds, partial(_duckdb_failure, query.name))  # noqa: E731
    with ExitStack() as resources:
        # A large answer is sorted on disk: in a folder that only this user reads, and that is deleted.
        private = importlib.import_module("tempfile").TemporaryDirectory(prefix="masquerade-")
        spills = resources.enter_context(private)
        settings = {**_DUCKDB, "temp_directory": spills}
        connection = sound(
            lambda: duckdb.connect(query.place or ":memory:", read_only=bool(query.place), config=settings)
        )
        resources.callback(connection.close)
        if [str(each.type) for each in sound(lambda: connection.extract_statements(query.text))] != [_SELECT]:
            raise BadInput(f"{query.name} does more than read", "give one query that reads records")
        n = sound(lambda: connection.sql(count_of(query.text)).fetchall()[0][0])
        answer = sound(lambda: connection.sql(query.text))
        read = getattr(answer, "to_arrow_reader", None) or answer.fetch_arrow_reader
        return _Answer(n, sound(lambda: read(_BATCH)), resources.pop_all(), sound)
    raise AssertionError


def _duckdb_failure(source: str, error: Exception) -> BadInput:
    what = _DUCKDB_KINDS.get(type(error).__name__, "was refused by DuckDB, or failed while it was read")
    if "extension" in str(error):
        what = "needs an extension of DuckDB, and none is loaded: it reads local files alone"
    return BadInput(f"{source} {what}", f"run it with duckdb {_SEE}")
