# ruff: noqa: S608  the queries are the tests' own
"""Commands that read records take a folder or a query where they take a file, and no file of a run shows a query."""

from __future__ import annotations

import csv
import sqlite3
from pathlib import Path

import pytest

from masquerade.doctor import examine
from masquerade_core.data.files import data_at
from masquerade_core.errors import BadInput, RefusedLocally
from tests.face_helpers import PARTIES, Shell, small_study, split_csv
from tests.messages import raises, says, sentence
from tests.unit.host.store.test_policy import policy
from tests.unit.parties.test_approve import Desk, desk, went_on

__all__ = ["desk"]

WORD = "hidden-word"


def sqlite_of(source: Path, path: Path) -> str:
    """A CSV file as an SQLite file, its last record first; returns the address."""
    with source.open(encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file)
    with sqlite3.connect(path) as made:
        made.execute(f"CREATE TABLE t (place INTEGER, {', '.join(header)})")
        numbered = [(place, *row) for place, row in enumerate(rows)]
        made.executemany(f"INSERT INTO t VALUES ({', '.join('?' * (len(header) + 1))})", reversed(numbered))
    made.close()
    return f"sqlite://{path}"


def _query(address: str, where: str = "1") -> str:
    return f"{address} SELECT * FROM t WHERE {where} AND '{WORD}' <> '' ORDER BY place"


def test_a_simulation_takes_queries(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    shell = Shell(capsys)
    study = small_study(shell, tmp_path / "study.toml", calibration="paper")
    everybody = split_csv(tmp_path / "all.csv")
    address = sqlite_of(everybody, tmp_path / "all.db")
    found = []
    for name, source in (("file", everybody), ("query", _query(address))):
        words = ("simulate", study, "--seed", 1, "--data", source, "--by", "site", "--test", source)
        answer = shell.json(*words, "--out", tmp_path / name)
        assert answer.code == 0, answer.out
        predicted = shell("predict", tmp_path / "file" / "model.json", source)
        assert predicted.code == 0
        found.append(((tmp_path / name / "model.json").read_bytes(), predicted.out, answer.data["metrics"]))
    assert found[0] == found[1]
    turned = _query(address).replace("ORDER BY place", "ORDER BY site, place")
    assert shell.json("simulate", study, "--seed", 1, "--data", turned, "--by", "site").code == 0
    assert found[0][1].count("\n") > 10
    named = shell("predict", tmp_path / "file" / "model.json", _query(address), "--id", "place")
    assert [line.partition(",")[0] for line in named.out.splitlines()[:3]] == ["place", "0", "1"]


def test_a_simulation_takes_a_folder_or_a_query_for_each_party(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    shell = Shell(capsys)
    study = small_study(shell, tmp_path / "study.toml", calibration="paper")
    address = sqlite_of(split_csv(tmp_path / "all.csv"), tmp_path / "all.db")
    where = {name: f"site = '{name}'" for name in PARTIES}
    data = [["--data", f"{name}={_query(address, where[name])}"] for name in PARTIES]
    answer = shell.json("simulate", study, "--seed", 1, *(word for words in data for word in words))
    assert answer.code == 0, answer.out


def test_a_party_reads_a_query_and_no_file_or_message_shows_it(desk: Desk) -> None:
    address = sqlite_of(desk.data, desk.machines.folder / "p1.db")
    desk.budget()
    refused = desk.approve("--data", f"{address} SELECT * FROM t WHERE '{WORD}' <> ''")
    assert refused.code == 4
    assert says(refused.json["message"], "order_missing", ...)
    assert desk.approve("--data", desk.data).code == 0
    answer = desk.party("--data", _query(address))  # the option that comes last counts
    assert went_on(answer)  # the ledger knows the records, wherever they lie
    assert desk.account().taken == 1.0
    other = desk.party("--data", _query(address, "place > 0"))
    assert other.code == 6
    assert says(other.json["message"], "never_used_here", ...)
    said = answer.out + answer.err + other.out + other.err + refused.out + refused.err
    files = [path.read_bytes() for path in desk.machines.folder.rglob("*") if path.is_file() and path.suffix != ".db"]
    assert len(files) > 5
    assert WORD not in said
    assert not any(WORD.encode() in data for data in files)


def test_the_policy_names_a_query_word_for_word(desk: Desk) -> None:
    address = sqlite_of(desk.data, desk.machines.folder / "p1.db")
    desk.budget()
    assert desk.approve().code == 0
    refused = desk.party("--data", _query(address))
    assert refused.code == 6
    assert says(refused.json["message"], "never_used_here", ...)
    assert WORD not in refused.out + refused.err
    desk.policy(f'[[population]]\nname = "default"\ndata = ["{_query(address)};"]\n')
    other = desk.party("--data", _query(address, "place < 9"))
    assert other.code == 6
    assert says(other.json["message"], "query_of", "p1.db")
    assert says(other.json["message"], "not_one_of_its_files")
    assert WORD not in other.out + other.err
    assert went_on(desk.party("--data", _query(address)))


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ("postgresql://me:86753@db/x SELECT 1", "has a password in it"),
        ("sqlite://x.db SELECT 86753", "must be an absolute path"),
        ("mysql://db SELECT 86753", "not read from mysql://"),
    ],
)
def test_a_policy_names_no_query_that_cannot_be_asked(data: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput) as caught:
        policy(tmp_path, f"[[population]]\nname = 'p'\ndata = ['{data}']\n")
    assert said in caught.value.message
    assert "86753" not in str(caught.value)


def test_one_query_belongs_to_one_population(tmp_path: Path) -> None:
    one, two = "duckdb:// SELECT 1 ORDER BY a", "duckdb:// SELECT 2 ORDER BY a"
    text = "[[population]]\nname = 'p'\ndata = ['{}', '/a/folder']\n[[population]]\nname = 'q'\ndata = ['{}']\n"
    with raises(BadInput, "in_two_populations", "the query of DuckDB"):
        policy(tmp_path, text.format(one, one))
    found = policy(tmp_path, text.format(one, two))
    assert found.population(data=data_at(one)) == "p"
    assert found.population(data=data_at(two)) == "q"
    assert found.population(data=Path("/a/b/../folder")) == "p"
    with raises(RefusedLocally, "belongs_to_population", "'q'") as caught:
        found.population("p", data_at(two))
    assert says(str(caught.value), "query_of", "DuckDB")


def test_the_doctor_takes_a_query(desk: Desk) -> None:
    address = sqlite_of(desk.data, desk.machines.folder / "p1.db")
    study = desk.machines.folder / "study.toml"
    [check] = [check for check in examine(study, data=_query(address), state=desk.state) if check.name == "data"]
    assert says(check.message, "data_complete", sentence("query_of", "p1.db"))
    assert WORD not in check.message
