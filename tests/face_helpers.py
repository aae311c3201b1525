"""Helpers for tests of the command line: run one command line, and write studies and records to disk."""

import csv
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from masquerade.cli import run

PARTIES = ("north", "south", "west")

FIELDS = {"schema_version", "status", "error_code", "message", "hint", "data"}

RESULT_FIELDS = {
    "run_id", "protocol", "parties", "n_features", "epsilon", "delta", "calibration", "seconds", "stages", "messages",
    "bytes", "statement", "metrics", "participant", "releases",
}  # fmt: skip

STATEMENT_FIELDS = {
    "view", "unit", "neighbours", "definition", "claimed", "provable", "epsilon", "delta", "holds_at", "source",
    "assumptions", "text", "adversary",
}  # fmt: skip


@dataclass(frozen=True)
class Answer:
    """How one command line ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        """The JSON object on stdout."""
        answer: dict[str, Any] = json.loads(self.out)
        assert set(answer) == FIELDS
        assert answer["schema_version"] == 1
        assert answer["status"] == ("ok" if self.code == 0 else "error")
        return answer

    @property
    def data(self) -> dict[str, Any]:
        """The data in that object."""
        data: dict[str, Any] = self.json["data"]
        return data


class Shell:
    """Run command lines in this process."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *words: object) -> Answer:
        self._capsys.readouterr()
        code = run([str(word) for word in words])
        captured = self._capsys.readouterr()
        return Answer(code, captured.out, captured.err)

    def json(self, *words: object) -> Answer:
        """Run a command line with ``--format json``."""
        return self(*words, "--format", "json")


def small_study(
    shell: Shell, path: Path, parties: Sequence[str] = ("north", "south", "west"), **options: object
) -> Path:
    """Write a study for simulations: two features, small keys, and a protocol whose model has shares."""
    words = [word for party in parties for word in ("--party", party)]
    chosen = {
        "protocol": "local-aggregation",
        "key_bits": 512,
        "min_records": 20,
        "epsilon": 1.0,
        "regularization": 0.1,
        **options,
    }
    words += [word for name, value in chosen.items() for word in ("--" + name.replace("_", "-"), str(value))]
    answer = shell(
        "study", "new", "--output", path, "--throwaway-keys", "--feature", "age:0:120", "--feature", "sex:f,m",
        "--label", "ill:yes", *words,
    )  # fmt: skip
    assert answer.code == 0, answer.err
    return path


def records(n: int, seed: int = 0) -> list[dict[str, str]]:
    """Draw records that fit :func:`small_study`, with both classes."""
    rng = np.random.default_rng(seed)
    rows = []
    for i in range(n):
        age, sex = rng.uniform(20, 90), rng.choice(["f", "m"])
        ill = age + (10 if sex == "m" else 0) + rng.normal(scale=5) > 65
        rows.append({"age": f"{age:.1f}", "sex": str(sex), "ill": "yes" if (i == 0 or ill) and i != 1 else "no"})
    return rows


def write_csv(path: Path, rows: Sequence[dict[str, str]]) -> Path:
    """Write a CSV file."""
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def split_csv(path: Path, parties: Sequence[str] = PARTIES, n: int = 40) -> Path:
    """Write everybody's records into one file, with a column ``site``."""
    rows = [{"site": name, **row} for seed, name in enumerate(parties) for row in records(n + seed, seed)]
    return write_csv(path, rows)
