"""dp-glm's tables: a run in the clear is a run of the roles, and scores that are cut miss the band of coverage."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from masquerade_core.data.schema import Covariates
from masquerade_core.errors import BadInput
from masquerade_core.simulation_rng import SimulationRng
from masquerade_core.study import CHARLIE
from masquerade_lab.originals import ADULT_COLUMNS, Table
from masquerade_lab.reproduce import PAPERS, dp_glm
from masquerade_lab.reproduce.dp_glm import CELLS, SHORT, Square, covered, figure_2, learn_in_clear
from masquerade_lab.reproduce.engine.tasks import one_after_another
from masquerade_protocols.blocks import adaptive_sums
from masquerade_protocols.dp_glm import roles
from masquerade_protocols.dp_glm.public import Plan
from masquerade_protocols.in_memory import run_in_memory
from tests.adult_helpers import official, write_adult
from tests.messages import raises


def test_a_run_in_the_clear_is_a_run_of_the_roles(monkeypatch: pytest.MonkeyPatch) -> None:
    cell = replace(CELLS[0], N=6000, epsilon=4.0)
    data = dp_glm.records_of(cell, 1)
    clear = learn_in_clear(cell.study, data, "a label")
    drawn = Plan(cell.study, 1).numbers_drawn
    shares = [adaptive_sums.draw_noise(SimulationRng("a label", f"party {k}"), drawn) for k in range(1, 6)]
    monkeypatch.setattr(adaptive_sums, "draw_noise", lambda _rng, numbers: shares.pop())
    parts = np.array_split(np.arange(data.n), 5)
    dealt = {name: Covariates(data.X[part], data.y[part]) for name, part in zip(cell.study.names, parts, strict=True)}
    model = run_in_memory(roles, cell.study, dealt)[CHARLIE]
    assert model.coefficients is not None
    assert any(row.told for row in clear)
    assert model.coefficients.rows == clear


@pytest.mark.parametrize("epsilon", [1.0, 3.0])
def test_of_few_records_of_breast_cancer_a_run_of_the_roles_tells_nothing(epsilon: float) -> None:
    features, data = dp_glm.breast_cancer_records()
    assert (data.n, data.X.shape[1], int((data.y > 0).sum())) == (569, 30, 212)
    study = dp_glm.study_of(epsilon, 1e-5, features)
    parts = np.array_split(np.arange(data.n), 5)
    dealt = {name: Covariates(data.X[part], data.y[part]) for name, part in zip(study.names, parts, strict=True)}
    found = run_in_memory(roles, study, dealt)
    for model in found.values():
        assert model.coefficients is not None
        assert [row.told for row in model.coefficients.rows] == [False] * 31
        assert all(row.estimate is None for row in model.coefficients.rows)
        assert set(model.weights) == {0.0}
    assert dp_glm._told_of_breast_cancer(epsilon, 3, 1) == [0.0] * 3


def _found(cell: dp_glm.Cell, runs: int) -> dict[str, Any]:
    return {name: np.array(rows) for name, rows in dp_glm._coverage(cell, 0, runs, 5).items()}


def test_cut_scores_miss_the_band_where_weights_at_the_same_bound_are_within_it() -> None:
    weights, cut = (covered(_found(replace(cell, N=12_000), 6))[0] for cell in SHORT)
    assert weights > 85
    assert cut < 50


def test_the_width_without_noise_is_that_of_the_fit() -> None:
    """At an epsilon so large that the noise adds next to nothing."""
    for name in ("N = 10,000, epsilon = 1", "linear, N = 10,000, epsilon = 1"):
        (cell,) = (cell for cell in CELLS if cell.name == name)
        found = _found(replace(cell, N=4000, epsilon=60.0), 2)
        assert np.nanmedian(found["ratios"]) == pytest.approx(1.04, abs=0.06)
        assert found["told"].all()


def test_the_coverage_s_error_counts_runs_and_not_coefficients() -> None:
    told = np.ones((4, 10))
    hit = np.repeat([[1.0], [1.0], [1.0], [0.0]], 10, axis=1)
    value, error = covered({"told": told, "covered": hit})
    assert value == 75
    assert error == pytest.approx(100 * np.sqrt(3 * 0.25**2 + 0.75**2) / 4)
    assert covered({"told": 0 * told, "covered": 0 * hit}) == (0.0, 0.0)


def test_a_square_has_the_strength_that_it_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dp_glm, "GRID", (Square(1000, 5, 1.0), Square(250, 5, 3.4)))
    report = figure_2(4, 1, one_after_another)
    assert [row.name for row in report.rows[:2]] == ["s = 1,000, d = 5, spread 1", "s = 250, d = 5, spread 3.4"]
    assert [row.value for row in report.rows[2:]] == [100.0, 0.0]
    assert report.failed == ()
    assert pytest.approx(10_563, abs=2) == dp_glm.GRID[0].N


def test_the_figures_are_known() -> None:
    assert set(PAPERS["dp-glm"]) == {"1", "2", "3"}


def test_the_truth_of_census_records_is_the_fit_on_all_of_them(tmp_path: Path) -> None:
    """Beside scikit-learn, in the columns' own units; at an epsilon so large that each interval holds nearly that."""
    rows = official(1500)
    write_adult(tmp_path / "adult.data", rows[:1000], columns=ADULT_COLUMNS, heading=False)
    write_adult(tmp_path / "adult.test", rows[1000:], columns=ADULT_COLUMNS, heading=False, stop=".")
    data = dp_glm.census_records(Table(ADULT_COLUMNS, [tuple(row) for row in rows]))
    cells = dict(zip(ADULT_COLUMNS, zip(*rows, strict=True), strict=True))
    numbers = [np.array(cells[name], dtype=float) for name in ("age", "education-num", "hours-per-week")]
    same = [np.array(cells[name]) == value for name, value in (("sex", "Male"), ("race", "White"))]
    own = np.column_stack([*numbers, same[0], np.array(cells["marital-status"]) == "Married-civ-spouse", same[1]])
    free = LogisticRegression(C=np.inf, tol=1e-10, max_iter=10_000).fit((own - own.mean(0)) / own.std(0), data.y)
    halves, middles = np.array([36.5, 7.5, 50, 1, 1, 1]), np.array([53.5, 8.5, 50, 0, 0, 0])
    truth, _ = dp_glm.fitted_freely(data, halves, middles)
    np.testing.assert_allclose(truth[1:], free.coef_[0] / own.std(0), rtol=1e-4)
    report = dp_glm.figure_3(2, 1, one_after_another, tmp_path)
    assert {row.name for row in report.rows} == {"epsilon = 1", "epsilon = 0.3"}
    cell = dp_glm._Census(60.0, data, data.n)
    found = {name: np.array(value) for name, value in dp_glm._census(cell, 0, 4, 1).items()}
    assert found["told"].mean() > 0.7
    assert covered(found)[0] > 80
    assert np.nanmedian(found["ratios"]) == pytest.approx(1.0, abs=0.1)


def test_where_a_file_of_the_census_is_missing_it_is_named(tmp_path: Path) -> None:
    with raises(BadInput, "part_of_original", ..., "adult.data", "UCI Adult"):
        dp_glm.figure_3(2, 1, one_after_another, tmp_path)
