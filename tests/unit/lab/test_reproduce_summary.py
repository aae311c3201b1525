"""The figures of summary on Adult: their bands see half of the noise, and the same seed gives the same figures."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from masquerade_core.errors import BadInput
from masquerade_lab.originals import ADULT_COLUMNS, Table
from masquerade_lab.reproduce import PAPERS, Report, summary
from masquerade_lab.reproduce.engine.tasks import one_after_another
from tests.messages import raises


def _table(n: int, seed: int) -> Table:
    """Invent records with Adult's columns; income follows from age and from capital gains."""
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(n):
        cells = dict.fromkeys(ADULT_COLUMNS, "1")
        age, gain = rng.normal(40, 12), rng.exponential(4000) * (rng.random() < 0.3)
        for name in ADULT_COLUMNS:
            if name not in summary._RANGES:
                cells[name] = str(rng.choice(["a", "b", "c", "?"], p=[0.5, 0.45, 0.01, 0.04]))
        cells |= {"age": f"{age:.0f}", "capital-gain": f"{gain:.0f}", "fnlwgt": f"{rng.uniform(1e4, 1e6):.0f}"}
        cells["income"] = ">50K" if age / 40 + gain / 5000 + rng.normal(0, 0.3) > 1.5 else "<=50K"
        rows.append([cells[name] for name in ADULT_COLUMNS])
    return Table(ADULT_COLUMNS, rows)


@pytest.fixture(scope="module")
def tables() -> tuple[Table, Table]:
    return _table(9000, 1), _table(1000, 2)


def _tables(tables: tuple[Table, Table], seed: int = 3, draws: int = 2) -> Report:
    return summary.tables(*tables, draws, seed, one_after_another)


def test_the_figures_are_where_they_must_be_and_follow_from_the_seed(tables: tuple[Table, Table]) -> None:
    report = _tables(tables)
    rows = {(row.table, row.name): row for row in report.rows}
    noise = {row.name: row for row in report.rows if row.table == summary._NOISE}
    assert noise["stated"].holds
    assert noise["drawn"].holds
    assert noise["a sensitivity of sqrt(H) for sqrt(2 H)"].verdict == "outside: caught"
    assert noise["noise for one share more than there is"].verdict == "outside: caught"
    assert rows[summary._LEVELS, "the smallest noisy count, beside the threshold"].holds
    errors = [row for row in report.rows if row.table == summary._ERRORS]
    assert len(errors) == 4
    assert errors[1].holds  # without privacy, the suggested columns are as good as the known ones
    assert errors[1].value < 0.2
    again = _tables(tables)
    assert again.to_json() == report.to_json()
    other = _tables(tables, seed=4)
    assert other.rows != report.rows


def test_bounds_are_compared_in_cells(tables: tuple[Table, Table]) -> None:
    report = _tables(tables, draws=1)
    found = {row.name: row for row in report.rows if row.table == summary._BOUNDS}
    share, farthest = found["within one cell"], found["the largest distance, in cells"]
    assert math.isclose(share.value * 12, round(share.value * 12))
    assert farthest.value == int(farthest.value)
    assert (share.value == 1.0) == (farthest.value <= 1)


def test_it_stands_among_the_figures_and_needs_the_original_files(tmp_path: Path) -> None:
    figure = PAPERS["summary"]["1"]
    assert "adult.data" in figure.needs
    with raises(BadInput, "part_of_original", ..., "adult.data", "UCI Adult"):
        figure.run(1, 1, one_after_another, tmp_path)
