"""Records from a query to PostgreSQL, DuckDB or SQLite, some records at a time.

PostgreSQL and DuckDB give Arrow's batches, so that columns of numbers are read at once. Every connection only reads,
and all that it reads is of one moment. Packages of the extra ``sql`` do the work. They are imported when needed.
"""

import importlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from masquerade_core.data.addresses import Query
from masquerade_core.data.answers import NAMES, ReadBlock, Rows, another_number, count_of, guarded, not_installed
from masquerade_core.data.arrow import is_number, levels_of, numbers_of
from masquerade_core.data.columns import WholeColumn
from masquerade_core.data.files import find_columns, opened
from masquerade_core.data.parquet import text_writer
from masquerade_core.data.sql import check_sql
from masquerade_core.data.sqlite import open_sqlite
from masquerade_core.data.texts import TextTable
from masquerade_core.errors import BadInput

__all__ = ["open_query"]

_BATCH = 1 << 16
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
    "25006": "would write, and this connection only reads",
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
    "IOException": "reads a file that is not there, is no database, or is written by another program",
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
            f"{source}: the server lets nobody in with this user and password",
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
            raise BadInput(f"{query.name} does something else than read", "give one query that reads records")
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
