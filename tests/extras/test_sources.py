"""Records in a folder of Parquet files or in a database: the same records, to the bit, as from a CSV file."""

# ruff: noqa: S608  the queries are the tests' own

from __future__ import annotations

import importlib
import sqlite3
import sys
from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from masquerade_core.data.addresses import Query
from masquerade_core.data.blocks import source_of
from masquerade_core.data.databases import _address as with_patience
from masquerade_core.data.databases import check_sql
from masquerade_core.data.files import data_at
from masquerade_core.data.groups import load_grouped
from masquerade_core.data.loading import load_csv
from masquerade_core.data.sources import read_cells
from masquerade_core.errors import BadInput, RefusedLocally
from masquerade_core.study import Study
from tests import postgres_server
from tests.messages import says, sentence
from tests.postgres_server import Server
from tests.unit.core.data.test_data import STUDY

dbapi: Any = importlib.import_module("adbc_driver_postgresql.dbapi")
N = 3_000
FEATURES = """
[[feature]]
name = "weight"
min = 0.0
max = 200.0
missing = 70.0

[[feature]]
name = "income"
min = 0.0
max = 100000.0
missing = 0.0

[[feature]]
name = "visits"
edges = [1, 5, 20]
missing = 0

[[feature]]
name = "ratio"
min = 0.0
max = 1.0

[[feature]]
name = "smoker"
levels = ["false", "true"]

[[feature]]
name = "diet"
levels = ["none, really", "käse", "x", "?"]

[[feature]]
name = "dose"
levels = ["0.1000000", "0.0000001", "100.0000000", "?"]
"""
Row = tuple[Any, ...]
NAMES = ("id", "weight", "income", "visits", "ratio", "smoker", "diet", "dose", "diagnosis", "site")


def _study(out_of_bounds: str = "refuse") -> Study:
    start, end = STUDY.index("[[feature]]"), STUDY.index("[curator]")
    text = STUDY[:start] + FEATURES + "\n" + STUDY[end:]
    return Study.parse(text.replace("[study]\n", f'[study]\nout_of_bounds = "{out_of_bounds}"\n'))


@cache
def _rows(*, wild: bool) -> list[Row]:
    """Every kind of cell; ``wild`` ones lie outside of all bounds."""
    rng = np.random.default_rng(14)
    rows: list[Row] = []
    for i in range(N):
        weight = float(rng.uniform(0, 200))
        if wild and i % 97 == 0:
            weight = (-1e300, float("inf"), -0.0, 5e-324)[i // 97 % 4]
        rows.append(
            (
                i + 1,
                None if i % 11 == 0 else weight,
                None if i % 13 == 0 else Decimal(int(rng.integers(0, 10**9))).scaleb(-4),
                None if i % 17 == 0 else int(rng.integers(0, 30)),
                float(np.float32(rng.uniform(0, 1))),
                bool(rng.integers(0, 2)),
                (None, "none, really", "käse", "x")[int(rng.integers(0, 4))],
                (None, Decimal("0.1000000"), Decimal("0.0000001"), Decimal("100.0000000"))[int(rng.integers(0, 4))],
                ("malignant", "benign")[int(rng.integers(0, 2))],
                ("a", "b")[i % 2],
            )
        )
    return rows


def _text(cell: Any) -> str:
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return "true" if cell else "false"
    text = format(cell, "f") if isinstance(cell, Decimal) else str(cell)
    return f'"{text}"' if "," in text else text


def _literal(cell: Any) -> str:
    if cell is None:
        return "NULL"
    if isinstance(cell, bool | int):
        return str(cell)
    if isinstance(cell, float):
        return f"'{'Infinity' if cell == float('inf') else repr(cell)}'"
    return f"'{cell}'" if isinstance(cell, str) else format(cell, "f")


TABLE = (
    "(id INTEGER, weight DOUBLE PRECISION, income NUMERIC(13, 4), visits INTEGER, ratio REAL, smoker BOOLEAN, "
    "diet TEXT, dose NUMERIC(11, 7), diagnosis TEXT, site TEXT)"
)
IN_SQLITE = TABLE.replace("NUMERIC(13, 4)", "REAL").replace("NUMERIC(11, 7)", "TEXT").replace("BOOLEAN", "TEXT")


def _statements(table: str, rows: list[Row]) -> list[str]:
    """SQL that fills a table, the last record first: the query alone puts them in order."""
    values = ", ".join(f"({', '.join(map(_literal, row))})" for row in reversed(rows))
    return [f"CREATE TABLE {table} {TABLE}", f"INSERT INTO {table} VALUES {values}"]


def _arrow(rows: list[Row]) -> pa.Table:
    kinds = {"income": pa.decimal128(13, 4), "dose": pa.decimal128(11, 7), "ratio": pa.float32()}
    columns = zip(NAMES, zip(*rows, strict=True), strict=True)
    return pa.table({name: pa.array(cells, kinds.get(name)) for name, cells in columns})


def _folder(path: Path, table: pa.Table, *ends: int) -> Path:
    path.mkdir()
    (path / "_SUCCESS").write_text("")
    for i, (start, end) in enumerate(zip((0, *ends), (*ends, len(table)), strict=True)):
        pq.write_table(table.slice(start, end - start), path / f"part-{i}.parquet", row_group_size=700)
    return path


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    if postgres_server.programs() is None:
        pytest.skip("PostgreSQL is not installed (Debian's package postgresql)")
    with postgres_server.running() as started:
        with pytest.MonkeyPatch.context() as environment:
            environment.setenv("PGPASSWORD", postgres_server.PASSWORD)
            for table, wild in (("tame", False), ("wild", True)):
                ask(started, *_statements(table, _rows(wild=wild)))
        yield started


@pytest.fixture
def postgres(server: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    monkeypatch.setenv("PGPASSWORD", postgres_server.PASSWORD)
    return server


def ask(server: Server, *statements: str) -> Any:
    """Let the owner of the database speak; returns the last answer's rows, if it has any."""
    with dbapi.connect(server.address(), autocommit=True) as connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
        return cursor.fetchall() if cursor.description else None


@pytest.fixture(params=["parquet", "folder", "sqlite", "duckdb", "duckdb over parquet", "postgresql"])
def same(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[bool], str | Path]:
    """The table in one of its forms."""
    if request.param == "postgresql":
        server: Server = request.getfixturevalue("postgres")
        return lambda wild: f"{server.address()} SELECT * FROM {'wild' if wild else 'tame'} ORDER BY id"

    def made(wild: bool) -> str | Path:
        rows, path = _rows(wild=wild), tmp_path / "records with blanks"
        match request.param:
            case "parquet":
                pq.write_table(_arrow(rows), tmp_path / "records.parquet", row_group_size=700)
                return tmp_path / "records.parquet"
            case "folder":
                return _folder(path, _arrow(rows), 5, 5, 1_900)
            case "sqlite":
                cells = [(*row[:2], row[2] and float(row[2]), *row[3:5], *map(_plain, row[5:])) for row in rows]
                with sqlite3.connect(path) as connection:
                    connection.execute(f"CREATE TABLE tame {IN_SQLITE}")
                    marks = ", ".join("?" * len(NAMES))
                    connection.executemany(f"INSERT INTO tame VALUES ({marks})", reversed(cells))
                connection.close()
            case "duckdb":
                pq.write_table(_arrow(rows[::-1]), tmp_path / "turned")
                with duckdb.connect(path) as made:
                    made.execute(f"CREATE TABLE tame AS SELECT * FROM read_parquet('{tmp_path / 'turned'}')")
            case _:
                pq.write_table(_arrow(rows[::-1]), path)
                return f"duckdb:// SELECT * FROM read_parquet('{path}') ORDER BY id;"
        return f"{request.param}://{str(path).replace(' ', '%20')} SELECT * FROM tame ORDER BY id"

    return made


def _plain(cell: Any) -> Any:
    return None if cell is None else _text(cell).strip('"')


def _csv(folder: Path, rows: list[Row]) -> Path:
    path = folder / "same.csv"
    lines = [",".join(NAMES), *(",".join(map(_text, row)) for row in rows)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


# --- Equal records ------------------------------------------------------------------


@pytest.mark.parametrize(("rule", "wild"), [("refuse", False), ("clamp", True)])
def test_a_table_gives_the_same_records_wherever_it_lies(
    rule: str, wild: bool, same: Callable[[bool], str | Path], tmp_path: Path
) -> None:
    study, source = _study(rule), same(wild)
    one, two = load_csv(_csv(tmp_path, _rows(wild=wild)), study), load_csv(source, study)
    assert len(two.y) == N
    assert one.X.tobytes() == two.X.tobytes()
    assert one.y.tobytes() == two.y.tobytes()
    assert one.repaired == two.repaired
    assert (one.repaired.clamped > 10) == wild
    parts, others = load_grouped(source, study, "site"), load_grouped(tmp_path / "same.csv", study, "site")
    assert list(parts) == list(others) == ["a", "b"]
    assert all(parts[name].X.tobytes() == others[name].X.tobytes() for name in parts)


def test_every_cell_is_the_same_text(same: Callable[[bool], str | Path], tmp_path: Path) -> None:
    columns = [name for name in NAMES if name != "id"]
    one, two = read_cells(_csv(tmp_path, _rows(wild=False)), columns), read_cells(same(False), columns)
    for name in columns:
        if name == "income":  # SQLite has no decimals, so it holds the nearest numbers
            assert [cell and float(cell) for cell in one.columns[name]] == [
                cell and float(cell) for cell in two.columns[name]
            ]
        else:
            assert list(one.columns[name]) == list(two.columns[name])
    assert two.at(N - 1).endswith(("record 3000", "record 1100"))


def test_databases_are_read_column_by_column(same: Callable[[bool], str | Path]) -> None:
    found = same(False)
    if isinstance(found, Path):
        pytest.skip("a file's decimals are read cell by cell")
    source = source_of(found, ["weight", "income", "visits", "ratio"], ["smoker", "diet", "dose", "diagnosis"])
    assert source.most == N
    for block in source.blocks:
        columns = block.columns()
        assert columns is not None
        assert {len(column) for column in columns.values()} == {len(next(iter(block.tables())).numbers)}


@pytest.mark.parametrize("kind", ["sqlite", "duckdb", "postgresql"])
def test_a_large_answer_comes_in_blocks(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    n, numbers = 150_000, "generate_series(1, 150000) AS t(id)"
    address = f"{kind}://{tmp_path / 'x.db'}"
    if kind == "postgresql":
        address = request.getfixturevalue("postgres").address()
        numbers = "(SELECT id, repeat('x', 300) AS filling FROM generate_series(1, 150000) AS t(id)) AS t"
    elif kind == "sqlite":
        sqlite3.connect(tmp_path / "x.db").close()
        numbers = (
            "(WITH RECURSIVE t(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM t WHERE id < 150000) SELECT * FROM t)"
        )
    else:
        duckdb.connect(tmp_path / "x.db").close()
    filling = ", filling" if kind == "postgresql" else ""
    source = source_of(f"{address} SELECT id{filling}, id + 0.5 AS v FROM {numbers} ORDER BY id", ["v"], [])
    places: list[int] = []
    values: list[float] = []
    blocks = 0
    for block in source.blocks:
        columns = block.columns()
        assert columns is not None
        values += np.asarray(columns["v"]).tolist()
        places += [place for table in block.tables() for place in table.numbers]
        blocks += 1
    assert blocks > 1
    assert places == list(range(1, n + 1))
    assert values == [place + 0.5 for place in places]


# --- What is refused ----------------------------------------------------------------


def _refused(data: str | Path, study: Study | None = None) -> str:
    """The sentence and the hint with which records are refused. Neither shows a cell or a secret, nor does a cause."""
    try:
        load_csv(data, study or Study.parse(STUDY))
    except BadInput as error:  # not pytest.raises, which would keep its frames, and so a connection, alive
        _show_no_secret(error)
        return f"{error.message}; {error.hint}"
    pytest.fail("nothing was refused")


def _show_no_secret(error: BaseException | None) -> None:
    while error is not None:
        for secret in ("86753", "hidden-word", postgres_server.PASSWORD):
            assert secret not in f"{error} {getattr(error, 'hint', '')}"
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("SELECT * FROM t", "does not say in which order"),
        ("SELECT * FROM (SELECT * FROM t ORDER BY id) AS u", "does not say in which order"),
        ("SELECT array_agg(x ORDER BY id), rank() OVER (ORDER BY id) FROM t", "does not say in which order"),
        ("SELECT * FROM t -- ORDER BY id", "does not say in which order"),
        ("SELECT * FROM t /* \n ORDER BY id */", "does not say in which order"),
        ("SELECT 'a '' ORDER BY id' FROM t", "does not say in which order"),
        ("SELECT * FROM t WHERE a = $q$ ORDER BY id $q$", "does not say in which order"),
        ("SELECT * FROM t ORDER BY", "something other than a column's name"),
        ("SELECT * FROM t ORDER BY 1", "something other than a column's name"),
        ("SELECT * FROM t ORDER BY id, random()", "something other than a column's name"),
        ("SELECT * FROM t ORDER BY id + 1", "something other than a column's name"),
        ("SELECT * FROM t ORDER BY ALL", "something other than a column's name"),
        ("SELECT * FROM t ORDER BY 'id'", "something other than a column's name"),
        ("SELECT * FROM t ORDER BY id, radius DESC", "by the column 'radius', which the study reads"),
        ("SELECT * FROM t ORDER BY t.Diagnosis", "by the column 'Diagnosis', which the study reads"),
        ('SELECT * FROM t ORDER BY "sex" COLLATE x', "by the column 'sex', which the study reads"),
        ("DELETE FROM t", "neither with SELECT nor with WITH"),
        ("VALUES (1) ORDER BY id", "neither with SELECT nor with WITH"),
        ("SELECT * FROM t ORDER BY id; DROP TABLE t", "more than one statement"),
        ("SELECT (1; DROP TABLE t) FROM t ORDER BY id", "more than one statement"),
    ],
)
@pytest.mark.parametrize("scheme", ["sqlite:///nowhere.db", "duckdb://", "postgresql://nowhere.invalid/x"])
def test_a_query_that_names_no_order_or_does_more_than_read_is_refused_unasked(
    scheme: str, query: str, said: str
) -> None:
    assert said in _refused(f"{scheme} {query}")


@pytest.mark.parametrize(
    "end",
    [
        "id",
        "t.id DESC NULLS LAST, other ASC",
        '"T"."the id" COLLATE "C" asc limit 5 offset 2',
        "id FETCH FIRST 3 ROWS ONLY;",
        "id -- radius",
        "id /* and so on */",
    ],
)
def test_a_query_may_end_with_any_plain_columns(end: str) -> None:
    check_sql(f"WITH t AS (SELECT 1) SELECT ';' AS a, \"b;\" FROM t ORDER BY {end}".rstrip(";"), "it", ["radius"])


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ("postgresql://me:hidden-word@db/x SELECT 1", "has a password in it"),
        ("postgres://me:hidden-w/ord86753@db/x SELECT 1", "has a password in it"),
        ("postgresql://me:?hidden-word@db/x SELECT 1", "has a password in it"),
        ("postgresql://db/x?password=hidden-word SELECT 1", "has a password in it"),
        ("postgresql://db/x?passw%6Frd=hidden-word SELECT 1", "has a password in it"),
        ("postgresql://db/x?user=me&sslpassword=hidden-word SELECT 1", "has a password in it"),
        ("postgresql://[db/x SELECT 1", "cannot be read"),
        ("postgresql://db/x", "no query follows"),
        ("sqlite:// SELECT 1", "names no file"),
        ("mysql://me:hidden-word@db/x SELECT 1", "not read from mysql://"),
        ("sqlite:///nowhere/x.db SELECT 1 AS a ORDER BY id", "there is no file /nowhere/x.db"),
        (Path("postgresql://me:hidden-word@db/x SELECT 1"), "as the path of a file"),
    ],
)
def test_an_address_that_is_none_or_has_a_password_is_refused(data: str | Path, said: str) -> None:
    assert said in _refused(data)


def test_a_query_shows_neither_its_text_nor_its_user() -> None:
    query = data_at("postgresql://me@db.example:5433/clinic?sslmode=require SELECT 86753 ORDER BY id")
    assert isinstance(query, Query)
    assert str(query) == query.name == sentence("query_at_server", "postgresql", "db.example:5433", "/clinic")
    assert repr(query) == f"<Query: {query.name}>"
    assert str(data_at("duckdb:// SELECT 1")) == sentence("query_of", "DuckDB")
    assert data_at("sqlite://a%20b.db SELECT 1;") == Query("sqlite", str(Path("a b.db").resolve()), "SELECT 1")


CELLS = "SELECT 1 AS id, '86753' AS radius, 'f' AS sex, 'malignant' AS diagnosis"


@pytest.mark.parametrize(
    ("query", "said"),
    [
        (f"{CELLS} UNION ALL SELECT 2, '86753x', 'm', 'benign' ORDER BY id", "record 2: column 'radius' holds text"),
        ("SELECT 1 AS id, 1 AS radius, 1 AS sx, 1 AS diagnosis ORDER BY id", "no column 'sex'; did you mean"),
        (
            "SELECT 1 AS id, 1 AS radius, 2 AS radius, 1 AS sex, 1 AS diagnosis ORDER BY id",
            "has the column 'radius' twice",
        ),
        (f"SELECT * FROM ({CELLS}) AS t WHERE id > 1 ORDER BY id", "has column names but no records"),
        (f"SELECT *, nothing FROM ({CELLS}) AS t ORDER BY id", "names a column that is not there"),
        ("SELECT * FROM nothing ORDER BY id", "names a table"),
        (f"SELECT * FROM ({CELLS}) AS t WHERE WHERE ORDER BY id", "is not SQL"),
        (f"SELECT *, CAST(radius || 'x' AS INTEGER) FROM ({CELLS}) AS t ORDER BY id", "a cell that does not fit"),
        ("SELECT DATE '2020-01-01' AS radius, 1 AS id, 'f' AS sex, 'x' AS diagnosis ORDER BY id", "write CAST("),
    ],
)
@pytest.mark.parametrize("kind", ["sqlite", "duckdb", "postgresql"])
def test_a_query_that_fails_says_how_and_shows_no_cell(
    kind: str, query: str, said: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    if kind == "sqlite":
        sqlite3.connect(tmp_path / "x.db").close()
        if "CAST" in query or "DATE" in query:
            pytest.skip("SQLite casts any text, and has no dates")
        said = "was refused by SQLite" if said.startswith(("names a", "is not SQL")) else said
    address = {"duckdb": "duckdb://", "sqlite": f"sqlite://{tmp_path / 'x.db'}"}.get(kind)
    address = address or request.getfixturevalue("postgres").address()
    if kind == "postgresql" and "does not fit" in said:
        said = "SQLSTATE 22P02"
    found = _refused(f"{address} {query}")
    assert said in found
    assert says(found, "query_of", ...)


def test_a_server_is_told_nothing_but_the_password_of_the_environment(
    postgres: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = f"{CELLS} ORDER BY id"
    assert says(_refused(f"{postgres.address(database='nothing')} {query}"), "no_such_database", ...)
    assert says(_refused(f"postgresql:///x?host=/nowhere {query}"), "no_server_answers", ...)
    monkeypatch.setenv("PGPASSWORD", "hidden-word")
    assert says(_refused(f"{postgres.address()} {query}"), "server_lets_nobody_in", ...)
    monkeypatch.delenv("PGPASSWORD")
    monkeypatch.setenv("PGPASSFILE", str(postgres.socket / "passwords"))
    assert "PGPASSFILE" in _refused(f"{postgres.address()} {query}")
    (postgres.socket / "passwords").write_text(f"*:*:*:*:{postgres_server.PASSWORD}\n")
    (postgres.socket / "passwords").chmod(0o600)
    assert "record 1: column 'radius'" in _refused(f"{postgres.address()} {query}")


@pytest.mark.parametrize(
    "query",
    [
        "WITH gone AS (DELETE FROM tame RETURNING *) SELECT * FROM gone ORDER BY id",
        "SELECT nextval('places') AS radius, sex, diagnosis FROM tame ORDER BY id",
        "SELECT lo_create(7) AS radius, diet AS sex, diagnosis FROM tame ORDER BY id",
    ],
)
def test_postgresql_is_only_read(query: str, postgres: Server) -> None:
    ask(postgres, "CREATE SEQUENCE IF NOT EXISTS places")
    _refused(f"{postgres.address()} {query}")
    assert ask(
        postgres,
        "SELECT count(*), (SELECT is_called FROM places), (SELECT count(*) FROM pg_largeobject_metadata) FROM tame",
    ) == [(N, False, 0)]


def _settings(address: str, *names: str) -> list[str]:
    wanted = ", ".join(f"CAST(current_setting('{name}') AS text) AS {name}" for name in names)
    found = read_cells(f"{address} SELECT 1 AS id, {wanted} ORDER BY id", names)
    return [found.columns[name][0] for name in names]


def test_connections_have_the_settings_that_are_promised(postgres: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGCLIENTENCODING", "LATIN1")
    names = ("transaction_isolation", "transaction_read_only", "client_encoding")
    assert _settings(postgres.address(), *names) == ["repeatable read", "on", "UTF8"]
    loads = ("autoinstall_known_extensions", "autoload_known_extensions", "allow_community_extensions")
    assert _settings("duckdb://", *loads, "lock_configuration") == ["false", "false", "false", "true"]
    [spills] = _settings("duckdb://", "temp_directory")
    assert "masquerade-" in spills
    assert not Path(spills).exists()


def test_a_server_that_is_not_there_is_waited_for_some_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PGCONNECT_TIMEOUT", raising=False)
    assert with_patience("postgresql://h/d") == "postgresql://h/d?connect_timeout=20"
    assert with_patience("postgresql://h/d?user=u") == "postgresql://h/d?user=u&connect_timeout=20"
    assert with_patience("postgresql://h/d?connect_timeout=3") == "postgresql://h/d?connect_timeout=3"
    monkeypatch.setenv("PGCONNECT_TIMEOUT", "5")
    assert with_patience("postgresql://h/d") == "postgresql://h/d"


def test_files_are_only_read_and_nothing_is_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("masquerade_core.data.databases.check_sql", lambda *_: None)  # the connection alone defends
    (made := sqlite3.connect(tmp_path / "x.db")).execute("CREATE TABLE t AS SELECT 1 AS radius")
    made.close()
    duckdb.connect(tmp_path / "d.db").execute("CREATE TABLE t AS SELECT 1 AS radius").close()
    before = [(tmp_path / name).read_bytes() for name in ("x.db", "d.db")]
    for query in (
        "DELETE FROM t",
        "INSERT INTO t VALUES (2) RETURNING *",
        "PRAGMA user_version = 3",
        "SELECT 1; DROP TABLE t",
    ):
        for address in (f"sqlite://{tmp_path / 'x.db'}", f"duckdb://{tmp_path / 'd.db'}"):
            _refused(f"{address} {query}")
    _refused(f"sqlite://{tmp_path / 'x.db'} ATTACH '{tmp_path / 'other.db'}' AS other")
    for query in (
        f"COPY t TO '{tmp_path / 'other.db'}'",
        f"ATTACH '{tmp_path / 'other.db'}'",
        "INSTALL httpfs",
        "LOAD httpfs",
    ):
        _refused(f"duckdb://{tmp_path / 'd.db'} {query}")
    assert says(_refused("duckdb:// SELECT * FROM 'https://example.invalid/x.csv'"), "needs_extension")
    assert [(tmp_path / name).read_bytes() for name in ("x.db", "d.db")] == before
    assert not (tmp_path / "other.db").exists()


@pytest.mark.parametrize("query", ["DELETE FROM t", "INSERT INTO t VALUES (2) RETURNING *", "PRAGMA user_version = 3"])
def test_an_sqlite_file_is_defended_twice(query: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with sqlite3.connect(tmp_path / "x.db") as made:
        made.execute("CREATE TABLE t AS SELECT 1 AS radius")
    made.close()
    address = f"sqlite://{tmp_path / 'x.db'}"
    before = (tmp_path / "x.db").read_bytes()
    monkeypatch.setattr("masquerade_core.data.databases.check_sql", lambda *_: None)
    monkeypatch.setattr("masquerade_core.data.databases.count_of", lambda _: "SELECT 0")
    assert says(_refused(f"{address} {query}"), "more_than_reading")
    monkeypatch.setattr("masquerade_core.data.databases._only_reads", lambda *_: sqlite3.SQLITE_OK)
    assert says(_refused(f"{address} {query}"), "refused_by_sqlite")
    assert (tmp_path / "x.db").read_bytes() == before


def test_duckdb_answers_a_select_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("masquerade_core.data.databases.check_sql", lambda *_: None)
    monkeypatch.setattr("masquerade_core.data.databases.count_of", lambda _: "SELECT 0")
    for query in (f"COPY (SELECT 1) TO '{tmp_path / 'out.csv'}'", "SELECT 1; SELECT 2"):
        assert says(_refused(f"duckdb:// {query}"), "more_than_reading")
    assert not (tmp_path / "out.csv").exists()


def test_binary_data_in_sqlite_make_a_party_refuse_only_where_the_study_says_so(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "x.db") as made:
        made.execute("CREATE TABLE t (id, radius, sex, diagnosis)")
        rows = [(1, 20, "f", "malignant"), (2, b"86753", b"f", "benign"), (3, 1.5, "m", b"x"), (4, 3, "m", "benign")]
        made.executemany("INSERT INTO t VALUES (?, ?, ?, ?)", rows)
        made.execute("INSERT INTO t VALUES (5, CAST(x'31ff' AS TEXT), 'm', 'benign')")
    made.close()
    address = f"sqlite://{tmp_path / 'x.db'} SELECT * FROM t"
    few, two = (f"{address} WHERE id {which} ORDER BY id" for which in ("< 5", "IN (1, 3)"))
    whole = f"{address} ORDER BY id"
    assert says(_refused(few), "binary_cell", ..., 2, "'radius'")
    assert says(_refused(two), "binary_cell", ..., 2, "'diagnosis'")
    assert "not UTF-8" in _refused(whole)
    study = Study.parse(STUDY.replace("[study]\n", '[study]\nout_of_bounds = "clamp"\n'))
    data = load_csv(whole, study)
    assert data.y.tolist() == [1, -1, -1, -1, -1]
    assert data.repaired.filled == 3


@pytest.mark.parametrize("more", [-1, 1])
@pytest.mark.parametrize("kind", ["sqlite", "duckdb"])
def test_a_query_whose_answer_changes_is_refused(
    kind: str, more: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sqlite3.connect(tmp_path / "x.db").close()
    address = "duckdb://" if kind == "duckdb" else f"sqlite://{tmp_path / 'x.db'}"
    query = "SELECT 1 AS id, 1.5 AS radius, 'f' AS sex, 'malignant' AS diagnosis"
    both = f"{address} {query} UNION ALL {query.replace('1', '2')} ORDER BY id"
    assert "fewer records" in _refused_by_size(both)
    monkeypatch.setattr("masquerade_core.data.databases.count_of", lambda _: f"SELECT 2 + {more}")
    assert says(_refused(both), "answer_changed", ...)


def _refused_by_size(data: str) -> str:
    with pytest.raises(RefusedLocally) as caught:
        load_csv(data, Study.parse(STUDY))
    return caught.value.message


def _good(path: Path, **columns: Any) -> Path:
    table = {
        "radius": [20.0, 30.0, 1.0],
        "sex": ["f", "m", "m"],
        "diagnosis": ["malignant", "benign", "benign"],
        **columns,
    }
    pq.write_table(pa.table(table), path)
    return path


def test_an_error_in_a_folder_names_the_file_and_the_record(tmp_path: Path) -> None:
    _good(tmp_path / "a.parquet")
    _good(tmp_path / "b.parquet", sex=["f", "86753", "m"])
    assert "b.parquet, record 2: column 'sex'" in _refused(tmp_path)
    assert says(_refused_grouped(tmp_path), "group_cell_empty", "b.parquet, record 2", ...)


def _refused_grouped(path: Path) -> str:
    _good(path / "b.parquet", site=["a", "", "b"])
    _good(path / "a.parquet", site=["a", "b", "b"])
    with pytest.raises(BadInput) as caught:
        load_grouped(path, Study.parse(STUDY), "site")
    return caught.value.message


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"radius": [1, 2, 3]}, "b.parquet and a.parquet have the column 'radius' in two types, int64 and double"),
        ({"further": [1, 2, 3]}, "b.parquet and a.parquet do not have the same columns"),
        ({"sex": [b"f", b"m", b"m"]}, "b.parquet: column 'sex' holds neither"),
    ],
)
def test_a_folder_is_one_table(other: dict[str, Any], said: str, tmp_path: Path) -> None:
    _good(tmp_path / "a.parquet")
    _good(tmp_path / "b.parquet", **other)
    assert said in _refused(tmp_path)


@pytest.mark.parametrize("name", ["b.csv", "year=2020", "b.parquet.tmp"])
def test_a_folder_holds_parquet_files_alone(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    assert says(_refused(folder), "folder_without_parquet", "folder")
    (folder / "_metadata").write_text("")
    (folder / ".a.parquet.crc").write_text("")
    _good(folder / "a.parquet")
    assert len(load_csv(folder, Study.parse(STUDY)).y) == 3
    (folder / name).mkdir() if "=" in name else (folder / name).write_text("")
    assert says(_refused(folder), "folder_with_other_file", "folder", name)


@pytest.mark.parametrize(
    ("package", "address"), [("duckdb", "duckdb://"), ("adbc_driver_postgresql", "postgresql://db/x")]
)
def test_without_the_extra_a_sentence_says_what_to_install(
    package: str, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.setitem(sys.modules, f"{package}.dbapi", None)
    said = _refused(f"{address} {CELLS} ORDER BY id")
    assert "'masquerade[sql]'" in said


def test_the_server_of_the_tests_is_stopped_when_a_test_fails() -> None:
    if postgres_server.programs() is None:
        pytest.skip("PostgreSQL is not installed (Debian's package postgresql)")
    with pytest.raises(ZeroDivisionError), postgres_server.running() as started:  # noqa: PT012
        process = int((started.socket / "cluster" / "postmaster.pid").read_text().split()[0])
        assert _lives(process)
        raise ZeroDivisionError
    assert not _lives(process)
    assert not started.socket.exists()


def _lives(process: int) -> bool:
    """A process that has ended and waits to be buried has no command line."""
    path = Path(f"/proc/{process}/cmdline")
    return path.exists() and b"postgres" in path.read_bytes()
