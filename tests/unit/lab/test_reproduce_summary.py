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
    age, gain = rng.normal(40, 12, n), rng.exponential(4000, n) * (rng.random(n) < 0.3)
    rich = age / 40 + gain / 5000 + rng.normal(0, 0.3, n) > 1.5
    kinds = rng.choice(["a", "b", "c", "?"], p=[0.5, 0.45, 0.01, 0.04], size=(n, len(ADULT_COLUMNS)))
    columns = {
        name: ["1"] * n if name in summary._RANGES else kind.tolist()
        for name, kind in zip(ADULT_COLUMNS, kinds.T, strict=True)
    }
    for name, numbers in (("age", age), ("capital-gain", gain), ("fnlwgt", rng.uniform(1e4, 1e6, n))):
        columns[name] = [f"{number:.0f}" for number in numbers]
    columns["income"] = np.where(rich, ">50K", "<=50K").tolist()
    return Table(ADULT_COLUMNS, [list(row) for row in zip(*(columns[name] for name in ADULT_COLUMNS), strict=True)])


@pytest.fixture(scope="module")
def report() -> Report:
    return summary.tables(_table(9000, 1), _table(1000, 2), 2, 3, one_after_another)


def test_the_figures_are_where_they_must_be(report: Report) -> None:
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


def test_the_figures_follow_from_the_seed() -> None:
    """However few the records are."""
    tables = _table(2000, 1), _table(200, 2)
    report, again, other = (summary.tables(*tables, 1, seed, one_after_another) for seed in (3, 3, 4))
    assert again.to_json() == report.to_json()
    assert other.rows != report.rows


def test_bounds_are_compared_in_cells(report: Report) -> None:
    found = {row.name: row for row in report.rows if row.table == summary._BOUNDS}
    share, farthest = found["within one cell"], found["the largest distance, in cells"]
    assert math.isclose(share.value * 24, round(share.value * 24))  # two draws of six columns' bounds
    assert farthest.value == int(farthest.value)
    assert (share.value == 1.0) == (farthest.value <= 1)


def test_it_stands_among_the_figures_and_needs_the_original_files(tmp_path: Path) -> None:
    figure = PAPERS["summary"]["1"]
    assert "adult.data" in figure.needs
    with raises(BadInput, "part_of_original", ..., "adult.data", "UCI Adult"):
        figure.run(1, 1, one_after_another, tmp_path)
