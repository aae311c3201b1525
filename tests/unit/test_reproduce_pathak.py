"""Figure 2 of Pathak, Rane and Raj on invented records: sizes, noise, and bands that catch broken variants."""

from __future__ import annotations

import json
import math
import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from sklearn.linear_model import LogisticRegression

from masquerade_core.errors import BadInput
from masquerade_core.rng import SimulationRng
from masquerade_lab.reproduce import Report, Row, pathak, pathak_runs, reproduce
from masquerade_lab.reproduce.pathak_runs import BROKEN, CURVES, Curve, Records, Setting
from masquerade_lab.reproduce.results import decode, encode
from masquerade_lab.reproduce.tasks import Task, one_after_another

_Array = NDArray[np.float64]

LAM = 0.01
EPS = 0.5


def _one_hot(generator: np.random.Generator, n: int) -> _Array:
    """Fourteen attributes of two values each: rows of norm sqrt 14, as Adult's."""
    bits = generator.integers(0, 2, (n, 14))
    return np.hstack([bits, 1 - bits]).astype(float)


@pytest.fixture(scope="module")
def records() -> Records:
    generator = np.random.default_rng(3)
    normal = generator.normal(size=28)

    def made(n: int) -> tuple[_Array, _Array]:
        X = _one_hot(generator, n)
        return X, np.where(X @ normal > normal.sum() / 2 + generator.normal(size=n), 1.0, -1.0)

    return Records(*made(2003), *made(1000))


def _trained(X: _Array, y: _Array, lam: float) -> _Array:
    """Minimise the mean loss plus lambda w.w, by another program."""
    model = LogisticRegression(C=1 / (2 * lam * len(y)), fit_intercept=False, tol=1e-10, max_iter=1000)
    return np.asarray(model.fit(X, y).coef_[0], dtype=float)


def _law(epsilon: float, n: int, **curve: Any) -> _Array:
    rng, chosen = SimulationRng("law"), Curve("even", **curve)
    return np.array([pathak_runs.noise(rng, chosen, n, epsilon, 2 * LAM, 30) for _ in range(200)]).ravel()


# --- What is run ----------------------------------------------------------------------------------


def test_the_parties_have_as_many_records_as_the_paper_says() -> None:
    assert sorted(pathak_runs.sizes(32561, "even")) == [6512, 6512, 6512, 6512, 6513]
    assert sorted(pathak_runs.sizes(32561, "15%")) == [4884, 6512, 6512, 6512, 8141]
    assert sorted(pathak_runs.sizes(32561, "10%")) == [3256, 6512, 6512, 6512, 9769]


@pytest.mark.parametrize(
    ("drawn", "smallest", "more", "factor"),
    [
        ("w*", 1001, {}, 1),
        ("even", 200, {}, 1),
        ("15%", 150, {}, 1),
        ("10%", 100, {}, 1),
        ("even", 200, {"divided": 5}, 1 / 5),
        ("even", 200, {"inverse": True}, 1 / 4),
    ],
)
def test_the_noise_is_the_smallest_partys_and_has_its_law(
    drawn: str, smallest: int, more: dict[str, Any], factor: float
) -> None:
    eta = _law(EPS, 1001, drawn=drawn, **more)
    scale = factor * 2 / (smallest * EPS * LAM)
    for wrong, fits in ((1.0, True), (0.8, False), (1.25, False)):
        assert (stats.kstest(eta, stats.laplace(scale=wrong * scale).cdf).pvalue > 1e-6) == fits


def test_k_eta_is_drawn_as_one_integer_on_the_protocols_grid() -> None:
    whole = _law(EPS, 1000, drawn="even") * 5 * 2**32
    np.testing.assert_array_equal(whole, np.rint(whole))
    assert set(np.mod(whole, 5)) == {0, 1, 2, 3, 4}


def test_an_average_is_that_of_five_classifiers_trained_on_a_partition(records: Records) -> None:
    number, n = np.arange(2003.0), 2003
    marked = Records(np.column_stack([records.X, number]), records.y, records.X_test, records.y_test)
    parties: list[tuple[_Array, _Array]] = []

    def noted(X: _Array, y: _Array, Lambda: float) -> _Array:
        parties.append((X, y))
        return np.asarray(_trained(X[:, :-1] / math.sqrt(14), y, Lambda / 2))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pathak_runs, "fit", noted)
        expected = pathak_runs.averages(marked, 2 * LAM, "here")
    assert [len(y) for _, y in parties] == [400, 400, 400, 400, 403, 300, 503, 200, 603]
    for last in ((3, 4), (5, 6), (7, 8)):  # the first three are in every split
        assert sorted(np.concatenate([parties[i][0][:, -1] for i in (0, 1, 2, *last)])) == list(range(n))
    X, y = parties[7]
    np.testing.assert_array_equal(y, records.y[X[:, -1].astype(int)])
    found = pathak_runs.averages(records.scaled(unit=True), 2 * LAM, "here")
    for split, w in expected.items():
        np.testing.assert_allclose(found[split], w, atol=1e-5)
    assert np.abs(pathak_runs.averages(records.scaled(unit=True), 2 * LAM, "there")["10%"] - found["10%"]).max() > 1e-3


def test_each_partition_has_its_own_average_and_every_draw_its_own_noise(records: Records) -> None:
    here, setting = records.scaled(unit=True), Setting(LAM, True, (1.0, 2.0))

    def errors(draws: int) -> dict[tuple[str, float], _Array]:
        return pathak_runs.joined([pathak_runs.run(records, setting, CURVES, range(6), draws, 1)])

    noisy = errors(4)
    assert {values.shape for (_, eps), values in noisy.items() if eps < math.inf} == {(6, 4)}
    assert all(len(np.unique(values)) > 12 for (_, eps), values in noisy.items() if eps < math.inf)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pathak_runs, "noise", lambda *_args: np.zeros(28))
        quiet = errors(1)
    seen = set()
    for name in CURVES:
        np.testing.assert_array_equal(quiet[name, 1.0], quiet[name, 2.0])
        seen.add(tuple(quiet[name, 1.0].ravel()))
        if name == "w* + eta":
            assert set(quiet[name, 1.0].ravel()) == {here.error(pathak_runs.w_star(here, setting))}
        else:
            np.testing.assert_array_equal(quiet[name, 1.0], noisy[name, math.inf])
            assert len(set(quiet[name, 1.0].ravel())) > 1
    assert len(seen) == len(CURVES)


# --- Bands -----------------------------------------------------------------------------------------


def _expected(records: Records) -> dict[str, tuple[float, float]]:
    """Simulate the curves with another trainer, another generator and plain floats: mean, and four standard errors."""
    generator, n, here = np.random.default_rng(17), len(records.y), records.scaled(unit=True)
    bands = {}
    for name, sizes in (("w* + eta", (2003,)), *((split, pathak_runs.sizes(n, split)) for split in pathak_runs.SPLITS)):
        means = []
        for _ in range(8):
            parts = np.split(generator.permutation(n), np.cumsum(sizes)[:-1])
            w = np.mean([_trained(here.X[part], here.y[part], LAM) for part in parts], axis=0)
            etas = generator.laplace(scale=2 / (min(sizes) * EPS * LAM), size=(100, len(w)))
            means.append(np.mean(np.sign(here.X_test @ (w + etas).T) != here.y_test[:, None]))
        bands[name] = (float(np.mean(means)), 4 * float(np.std(means)))
    return bands


@pytest.fixture(scope="module")
def report(records: Records) -> Report:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pathak, "_PARTITIONS", 8)
        patch.setattr(pathak, "_USEFUL", Setting(LAM, True, (0.1, EPS, 5.0)))
        patch.setattr(pathak, "_OTHERS", (Setting(0.02, False, (1.0,)), Setting(40.0, True, (1.0,))))
        central = {lam: _central(records, lam, unit) for lam, unit in ((LAM, True), (0.02, False))}
        patch.setattr(pathak, "_CENTRAL", {lam: (error, 1e-9) for lam, error in central.items()})
        patch.setattr(pathak, "_BANDS", _expected(records))
        return pathak.tables(records, 25, 5, one_after_another)


def _central(records: Records, lam: float, unit: bool) -> float:
    here = records.scaled(unit=unit)
    return float(np.mean(np.sign(here.X_test @ _trained(here.X, here.y, lam)) != here.y_test))


def _rows(report: Report, table: str) -> list[Row]:
    return [row for row in report.rows if row.table.startswith(table)]


def test_the_curves_lie_where_another_simulation_has_them_and_broken_ones_do_not(report: Report) -> None:
    rows = _rows(report, "A3")
    assert [row.name for row in rows if row.broken] == ["even, eta/K", "10%, n/K for n_(1)"]
    assert [row.name for row in rows if not row.broken] == [*CURVES, "smallest step"]
    assert [row for row in rows if not row.holds] == []


def test_errors_must_fall_with_epsilon(report: Report) -> None:
    rows = _rows(report, "A4")
    assert [(row.name, row.broken) for row in rows] == [*((name, False) for name in CURVES), ("1/eps for eps", True)]
    assert [row for row in rows if not row.holds] == []


def test_the_classifier_of_all_records_is_that_of_another_program(report: Report) -> None:
    errors = [row for row in _rows(report, "A1") if "yes" not in row.name and not row.name.startswith("lambda = 40")]
    assert [row.broken for row in errors] == [False, True, False, True]
    assert [row for row in errors if not row.holds] == []


def test_rows_without_a_band_show_every_curve(report: Report) -> None:
    shown = [row for row in report.rows if not row.banded]
    assert len(shown) == (4 * 3 + 3) + 2 * (4 * 1 + 3)
    assert all(0 < row.value < 1 for row in shown)


def test_a_step_up_and_an_order_that_is_not_the_papers_are_seen() -> None:
    flat = np.full((4, 2), 0.2) + np.arange(4)[:, None] * 1e-4
    errors = {(name, eps): flat for name in (*CURVES, *BROKEN) for eps in pathak._USEFUL.epsilons}
    errors["15%", 1.0] = flat + 0.001
    steps = {row.name: row.holds for row in pathak._falling_rows(errors)}
    assert steps == {"w* + eta": True, "even": True, "15%": False, "10%": True, "1/eps for eps": False}
    errors["15%", 0.5] = flat - 0.001
    (smallest,) = (row for row in pathak._split_rows(errors) if row.name == "smallest step")
    assert (smallest.holds, smallest.note) == (False, "15% minus even")


# --- The command -------------------------------------------------------------------------------------


def test_figure_2_reads_the_directory_that_is_named(
    records: Records, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[Path] = []

    def a9a(directory: Path) -> tuple[_Array, ...]:
        asked.append(directory)
        return records.X, records.y, records.X_test, records.y_test

    monkeypatch.setattr(pathak_runs, "a9a", a9a)
    monkeypatch.setattr(pathak, "_PARTITIONS", 3)
    monkeypatch.setattr(pathak, "_CHUNK", 2)
    report = reproduce("pathak-2010", "2", data=tmp_path, draws=1)
    assert asked == [tmp_path]
    assert (report.paper, report.figure, report.settings["draws"]) == ("pathak-2010", "2", 1)
    assert {row.name for row in report.failed} >= {"lambda = 0.001, unit rows: error"}  # these are not Adult's records
    again = reproduce("pathak-2010", data=tmp_path, draws=1)
    assert again.rows == report.rows
    assert reproduce("pathak-2010", data=tmp_path, draws=1, seed=1).rows != report.rows

    def elsewhere(tasks: Sequence[Task]) -> list[Any]:
        assert [task.key for task in tasks if "w*" not in task.key][:2] == [
            "lambda = 0.001, unit rows: partitions 0 to 1",
            "lambda = 0.001, unit rows: partitions 2 to 2",
        ]
        sent = [pickle.loads(pickle.dumps(task)) for task in reversed(tasks)]  # noqa: S301 - made here
        done = {task.key: task.function(*task.arguments) for task in sent}
        return [decode(json.loads(json.dumps(encode(done[task.key])))) for task in tasks]

    assert reproduce("pathak-2010", data=tmp_path, draws=1, run_tasks=elsewhere) == report
    monkeypatch.setattr(pathak, "_CHUNK", 3)
    assert reproduce("pathak-2010", data=tmp_path, draws=1) == report


def test_raw_rows_are_taken_as_they_are(records: Records) -> None:
    for unit in (False, True):
        (*_, (name, epsilon, errors)) = pathak_runs.run(records, Setting(LAM, unit, ()), {}, (3,), 1, 8)
        scaled = records.scaled(unit=unit)
        w = pathak_runs.averages(scaled, 2 * LAM, "pathak-2010 8 3")[name]
        assert (epsilon, errors.tolist()) == (math.inf, [[scaled.error(w)]])


def test_a_panel_has_the_paper_s_axes_and_its_curves_are_the_rows(report: Report) -> None:
    assert [panel.title for panel in report.panels] == [
        "lambda = 0.01, unit rows",
        "lambda = 0.02, raw rows",
        "lambda = 40, unit rows",
    ]
    for panel in report.panels:
        assert (panel.x_label, panel.x_scale, panel.y_scale) == ("epsilon", "log", "linear")
        shown = {row.name: row for row in report.rows if row.table == panel.title}
        assert [series.name for series in panel.series] == list(CURVES)
        for series in panel.series:
            rows = [shown[f"{series.name}, eps = {eps:g}"] for eps in series.x]
            assert (series.y, series.error) == ([row.value for row in rows], [row.error for row in rows])
            assert not series.claimed
        ((_, quiet),) = panel.reference
        assert quiet == next(row.value for row in report.rows if row.name == f"{panel.title}: error")


def test_figure_2_needs_the_data() -> None:
    with pytest.raises(BadInput, match="figure 2 of pathak-2010 needs real data") as refused:
        reproduce("pathak-2010")
    assert "a9a and a9a.t" in str(refused.value.hint)
