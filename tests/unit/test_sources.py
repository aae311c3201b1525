"""Records in a folder of Parquet files or in a database: the same records, to the bit, as from a CSV file."""

from __future__ import annotations

import importlib
import sqlite3
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from masquerade_core.data.blocks import source_of
from masquerade_core.data.loading import load_csv, load_grouped
from masquerade_core.data.sources import read_cells
from masquerade_core.study import Study
from tests import postgres_server
from tests.postgres_server import Server
from tests.unit.test_data import STUDY

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
    return [f"CREATE TABLE {table} {TABLE}", f"INSERT INTO {table} VALUES {values}"]  # noqa: S608


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
        return lambda wild: f"{server.address()} SELECT * FROM {'wild' if wild else 'tame'} ORDER BY id"  # noqa: S608

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
                    connection.executemany(f"INSERT INTO tame VALUES ({marks})", reversed(cells))  # noqa: S608
                connection.close()
            case "duckdb":
                with duckdb.connect(path) as made:
                    for statement in _statements("tame", rows):
                        made.execute(statement)
            case _:
                pq.write_table(_arrow(rows[::-1]), path)
                return f"duckdb:// SELECT * FROM read_parquet('{path}') ORDER BY id;"  # noqa: S608
        return f"{request.param}://{str(path).replace(' ', '%20')} SELECT * FROM tame ORDER BY id"  # noqa: S608

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
    source = source_of(f"{address} SELECT id{filling}, id + 0.5 AS v FROM {numbers} ORDER BY id", ["v"], [])  # noqa: S608
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
