"""Hamm, Cao and Belkin's figure 2 on invented records: the aggregates, the bounds, and noise of the right length."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression

from masquerade_core.errors import BadInput
from masquerade_core.study import Study
from masquerade_lab.baselines.average import average_rate
from masquerade_lab.reproduce import Report, Row, hamm, reproduce
from masquerade_lab.reproduce.engine.report import Series
from masquerade_lab.reproduce.engine.tasks import Task, one_after_another
from masquerade_lab.reproduce.hamm import (
    Point,
    accuracies,
    aggregate,
    crossed,
    crossing,
    crossing_row,
    draw_noise,
    draw_norms,
    principal_components,
    published_sensitivity,
    radius,
    sensitivity,
    shuffled,
)
from tests.messages import raises, sentence
from tests.paper_data import study_of

_Array = NDArray[np.float64]

C, FEATURES = 6, 12
_WORDS = hamm.FIGURE_2.words
_FALLING = (0.8, 0.7, 0.6, 0.5, 0.4, 0.35, 0.3, 0.25, 0.2)


def _records(n: int, seed: int = 0) -> tuple[_Array, NDArray[np.intp]]:
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, FEATURES)) + 0.2
    centres = np.random.default_rng(9).normal(size=(FEATURES, C))
    y = np.argmax(X @ centres + 0.3 * rng.normal(size=(n, C)), axis=1)
    y[:C] = np.arange(C)
    return X, y


# --- What is computed -----------------------------------------------------------------------------


def test_principal_components_are_not_centred_and_rows_are_clipped() -> None:
    X, _ = _records(200)
    other, _ = _records(50, seed=1)
    _, _, rows = np.linalg.svd(X, full_matrices=False)
    train, test = principal_components(X, other, 4)
    for ours, raw in ((train, X @ rows[:4].T), (test, other @ rows[:4].T)):
        expected = raw / np.maximum(1, np.linalg.norm(raw, axis=1))[:, None]
        np.testing.assert_allclose(np.abs(ours), np.abs(expected), atol=1e-9)  # a direction's sign is nobody's choice
        assert (np.linalg.norm(ours, axis=1) <= 1 + 1e-12).all()
        assert (np.linalg.norm(raw, axis=1) > 1).any()


def _fitted(X: _Array, y: NDArray[np.intp], Lambda: float, weights: _Array | None = None) -> LogisticRegression:
    n = len(X) if weights is None else weights.sum()
    model = LogisticRegression(C=1 / (n * Lambda), fit_intercept=False, tol=1e-12, solver="newton-cg", max_iter=2000)
    return model.fit(X, y, sample_weight=weights)


def test_the_aggregates_are_what_another_library_makes_of_the_same_votes() -> None:
    X, y = _records(400)
    X, _ = principal_components(X, X, 5)
    Lambda = 1e-2
    # Each party has each class, for scikit-learn cannot name classes that it does not see.
    parts = np.array([[np.flatnonzero(y == k)[j] for k in range(C)] for j in range(7)])
    aux = np.flatnonzero(~np.isin(np.arange(400), parts))
    trial = aggregate(X, y, C, Lambda, parts, aux)

    own = [_fitted(X[part], y[part], Lambda) for part in parts]
    np.testing.assert_allclose(trial.own, [model.coef_ for model in own], atol=1e-6)
    counts = np.stack([np.bincount(votes, minlength=C) for votes in np.array([m.predict(X[aux]) for m in own]).T])
    majority = counts.argmax(axis=1)
    assert 0.02 < np.mean(np.sort(counts, axis=1)[:, -1] == np.sort(counts, axis=1)[:, -2]) < 0.5  # ties are among them
    everybody = parts.ravel()
    expected = {
        "batch": _fitted(X[everybody], y[everybody], Lambda),
        "vote": _fitted(X[aux], majority, Lambda),
        "soft": _fitted(np.repeat(X[aux], C, axis=0), np.tile(np.arange(C), len(aux)), Lambda, counts.ravel() / 7),
    }
    for name, model in expected.items():
        np.testing.assert_allclose(trial.W[name], model.coef_, atol=1e-6)
    np.testing.assert_allclose(trial.W["avg"], np.mean([model.coef_ for model in own], axis=0), atol=1e-6)

    noise = np.random.default_rng(1).normal(size=(3, C * 5))
    found = accuracies(X, y, trial.W["soft"], noise)
    for value, eta in zip(found, noise, strict=True):
        assert value == np.mean(np.argmax(X @ (trial.W["soft"] + eta.reshape(C, 5)).T, axis=1) == y)


def test_records_are_dealt_by_seed() -> None:
    order = shuffled("a", 500)
    assert sorted(order) == list(range(500))
    np.testing.assert_array_equal(order, shuffled("a", 500))
    assert stats.kendalltau(order, np.arange(500)).pvalue > 1e-6
    assert stats.kendalltau(order, shuffled("b", 500)).pvalue > 1e-6


# --- Sensitivities --------------------------------------------------------------------------------


def test_the_sensitivities_are_those_of_appendix_b() -> None:
    found = {method: published_sensitivity(method, 1000, 1e-4, 6) for method in ("vote", "soft", "avg")}
    assert found == pytest.approx({"vote": 14142.1356, "soft": 14.1421356, "avg": 28.2842712})
    text = study_of("average", Lambda=1e-4, epsilon=0.5).to_toml().replace('positive = "1"', 'classes = ["a", "b"]')
    rate = average_rate(Study.parse(text, in_memory=True))  # of five parties
    assert 0.5 / float(rate) == pytest.approx(published_sensitivity("avg", 5, 1e-4, 6))
    tight = {method: sensitivity(method, "tight", 1000, 1e-4, 6) for method in ("vote", "soft", "avg")}
    assert tight == pytest.approx({"vote": 180.5, "soft": 14.1421356, "avg": 0.1805}, rel=1e-4)


@pytest.mark.parametrize("classes", [2, 3, 6, 20])
def test_the_radius_is_the_largest_pull_on_a_record_over_all_margins(classes: int) -> None:
    """With margins m_l it is sum_l P_l m_l = lambda ||w||^2; the largest value by a general-purpose search."""

    def pull(m: _Array) -> float:
        return -float(np.sum(m * np.exp(-m)) / (1 + np.sum(np.exp(-m))))

    starts = np.random.default_rng(classes).normal(size=(20, classes - 1))
    most = max(-minimize(pull, start).fun for start in starts)
    assert radius(classes, 0.25) == pytest.approx(np.sqrt(most / 0.25), rel=1e-5)
    assert radius(6, 1e-4) == pytest.approx(90.25, abs=0.01)


# --- Noise ----------------------------------------------------------------------------------------


def test_the_noise_has_the_norm_and_the_direction_of_its_density() -> None:
    d, scale = 40, 3.0
    eta = draw_noise("test", scale, d, 300)
    norms = np.linalg.norm(eta, axis=1)
    assert stats.kstest(norms, stats.gamma(d, scale=scale).cdf).pvalue > 1e-6
    assert stats.kstest(norms, stats.expon(scale=scale).cdf).pvalue < 1e-20
    assert stats.kstest(norms, stats.gamma(d, scale=scale * 1.1).cdf).pvalue < 1e-6
    u = (1 + eta / norms[:, None]) / 2
    assert stats.kstest(u.ravel(), stats.beta((d - 1) / 2, (d - 1) / 2).cdf).pvalue > 1e-6
    assert ((eta * 2**32) % 1 == 0).all()
    wrong = draw_norms("test", scale, 2000)
    assert stats.kstest(wrong, stats.expon(scale=scale).cdf).pvalue > 1e-6


# --- The figure -----------------------------------------------------------------------------------


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    plan = replace(
        hamm.FIGURE_2,
        trials=3,
        sizes=(12,),
        auxiliary=80,
        features=10,
        d=8,
        pool=100,
        points=(Point("soft", "published", 0.01, 12), Point("vote", "tight", 0.1, 12)),
    )
    monkeypatch.setattr(hamm, "FIGURE_2", plan)
    X, y = _records(300)
    X_test, y_test = _records(100, seed=1)
    np.savez(tmp_path / "har.npz", X_train=X, y_train=y + 1, X_test=X_test, y_test=y_test + 1)
    return tmp_path


def _named(report: Report, table: str, name: str = "") -> list[Row]:
    return [row for row in report.rows if row.table == table and name in row.name]


def test_a_reduced_run_has_every_row_and_noise_of_the_right_length(small: Path) -> None:
    report = reproduce("hamm-2016", "2", data=small, draws=3)
    for table in (_WORDS.without, hamm._BESIDE):
        shown = [row.name for row in _named(report, table) if ":" not in row.name]
        assert shown == ["batch", "indiv", "vote", "soft", "avg"]
    norm, *wrong = _named(report, _WORDS.norms)
    assert norm.inside()
    assert norm.error is not None
    assert 0 < norm.error < 0.02
    assert all(row.broken and row.holds for row in wrong)
    assert [row.name for row in wrong] == [
        f"norm: {mistake}" for mistake in ("no noise", "half of the noise", "5 % short", "norm from Exp(Delta/eps)")
    ]
    assert wrong[-1].value == pytest.approx(1 / (C * 8), rel=0.3)
    # Nothing is known of these records under noise, so nothing is checked.
    assert [row.name for row in _named(report, _WORDS.noise)] == [point.name for point in hamm.FIGURE_2.points]
    assert [len(_named(report, table)) for table in _WORDS.curves.values()] == [27, 18, 27]
    assert {row.table for row in report.rows if row.banded} == {
        *(_WORDS.without, hamm._BESIDE, hamm.PUBLIC, hamm._ORDER, _WORDS.norms)
    }
    # Far noise leaves what a classifier that never saw a record has; hardly any leaves what there is without.
    (near,) = _named(report, _WORDS.curves["exp"], "soft, 1/eps = 0.001")
    (without,) = (row for row in _named(report, _WORDS.without) if row.name == "soft")
    assert near.value == pytest.approx(without.value, abs=0.05)
    (far,) = _named(report, _WORDS.curves["published"], "vote, 1/eps = 10")
    assert far.value < 0.35 < without.value
    assert reproduce("hamm-2016", "2", data=small, draws=3, seed=1).to_json() != report.to_json()


def test_a_public_projection_takes_the_auxiliary_records_directions_alone(
    small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[_Array] = []
    right = hamm.principal_components

    def noted(X: _Array, other: _Array, d: int, *, of: _Array | None = None) -> tuple[_Array, _Array]:
        if of is not None:
            seen.append(of)
        return right(X, other, d, of=of)

    monkeypatch.setattr(hamm, "principal_components", noted)
    rows = _named(reproduce("hamm-2016", "2", data=small, draws=1), hamm.PUBLIC)
    assert [row.name for row in rows if not row.broken] == ["batch", "vote", "soft", "avg"]
    assert next(row.name for row in rows if row.broken) == "batch: the first columns in their place"
    assert [of.shape for of in seen] == [(80, 10), (8, 10)] * 3
    np.testing.assert_array_equal(seen[1], np.eye(8, 10))
    X, _ = _records(300)
    order = shuffled("hamm-2016 2016 0", 300)
    np.testing.assert_array_equal(seen[0], X[order[12 * C : 12 * C + 80], :10])
    # With all records' directions nothing is gained: what is compared is the same figure.
    monkeypatch.setattr(hamm, "principal_components", lambda X, other, d, of=None: right(X, other, d))
    for row in _named(reproduce("hamm-2016", "2", data=small, draws=1), hamm.PUBLIC):
        assert (row.value, row.error) == (0, 0)


@pytest.mark.parametrize("factor", [1.0, 0.95])
def test_a_sampler_that_forgets_the_dimension_or_is_five_percent_short_is_noticed(
    small: Path, monkeypatch: pytest.MonkeyPatch, factor: float
) -> None:
    right = hamm.draw_noise

    def wrong(seed: str, scale: float, dimension: int, count: int) -> _Array:
        if dimension == 1:  # the broken variant's own norm
            return right(seed, scale, dimension, count)
        eta = factor * right(seed, scale, dimension, count)
        norms = draw_norms(seed, scale, count) / np.linalg.norm(eta, axis=1) if factor == 1 else np.ones(count)
        return eta * norms[:, None]

    monkeypatch.setattr(hamm, "draw_noise", wrong)
    report = reproduce("hamm-2016", "2", data=small, draws=1)
    norm, *_ = _named(report, _WORDS.norms)
    assert norm in report.failed
    assert not norm.inside(2)


def test_where_a_curve_falls_to_a_level_is_between_its_points() -> None:
    curve = Series("soft", hamm.FIGURE_2.inverses, _FALLING)
    assert crossing(curve, 0.6) == pytest.approx(0.01)
    assert crossing(curve, 0.55) == pytest.approx(np.sqrt(0.01 * 0.03))
    assert crossing(curve, 0.9) == hamm.FIGURE_2.inverses[0]
    assert crossing(curve, 0.1) == hamm.FIGURE_2.inverses[-1]
    back = Series("soft", (1.0, 10.0, 100.0), (0.8, 0.4, 0.7))  # noise may lift a curve again
    assert crossing(back, 0.6) == pytest.approx(np.sqrt(10))


def test_a_crossing_that_is_none_says_why() -> None:
    rng = np.random.default_rng(8)
    found = {f"soft {x:g}": 0.5 - x / 1000 + 1e-3 * rng.standard_normal((10, 2)) for x in (1.0, 10.0, 100.0)}

    def row(level: float) -> Row:
        return crossing_row("t", "soft", found, "soft", (1.0, 10.0, 100.0), np.full(10, level), "the paper: 10")

    below, above = (sentence("at_every_point", where, "; the paper: 10") for where in ("below", "above"))
    assert (row(0.6).value, row(0.6).error, row(0.6).note) == (1.0, None, below)
    assert (row(0.3).value, row(0.3).error, row(0.3).note) == (100.0, None, above)
    assert row(0.45).note == "the paper: 10"
    assert row(0.45).error is not None


def test_a_crossing_s_error_is_that_of_other_trials_and_other_noise() -> None:
    """Against many repetitions of ten trials, whose crossing scatters by as much as the error says."""
    rng = np.random.default_rng(8)
    inverses = (0.1, 1.0, 10.0)

    def once() -> tuple[float, float | None]:
        at = {0.1: 0.9, 1.0: 0.8, 10.0: 0.4}
        trials = {f"soft {x:g}": y + 0.05 * rng.standard_normal((10, 4)) for x, y in at.items()}
        return crossed(trials, "soft", inverses, 0.7 + 0.02 * rng.standard_normal(10))

    places, errors = zip(*(once() for _ in range(400)), strict=True)
    assert np.mean(places) == pytest.approx(10**0.25, rel=0.05)
    assert np.sqrt(np.mean(np.square(np.array(errors, dtype=np.float64)))) == pytest.approx(np.std(places), rel=0.15)
    flat = {f"soft {x:g}": np.full((10, 1), 0.9) for x in inverses}
    assert crossed(flat, "soft", inverses, np.full(10, 0.1)) == (10.0, None)


def test_the_panels_have_the_papers_axes_and_its_numbers(small: Path) -> None:
    report = reproduce("hamm-2016", "2", data=small, draws=2)
    assert [panel.title for panel in report.panels] == list(_WORDS.panels.values())
    for panel in report.panels:
        assert (panel.x_label, panel.y_label, panel.x_scale) == ("1/eps", "test accuracy", "log")
        claims = {series.name: tuple(series.y) for series in panel.series if series.claimed}
        assert claims["vote"] == (0.79,)
        assert (claims["batch"], claims["indiv"]) == ((0.90, 0.90), (0.47, 0.47))
        assert [name for name, _ in panel.reference] == ["batch", "indiv"]
    drawn = {series.name: series for series in report.panels[0].series if not series.claimed}
    assert list(drawn) == ["vote", "soft", "avg"]
    (row,) = _named(report, _WORDS.curves["published"], "soft, 1/eps = 0.001")
    assert drawn["soft"].y[0] == row.value
    assert drawn["soft"].error is not None
    assert drawn["soft"].error[0] == row.error


def test_the_numbers_do_not_depend_on_the_order_of_the_tasks(small: Path) -> None:
    """Nor on anything else but the seed."""
    report = reproduce("hamm-2016", "2", data=small, draws=2)

    def backwards(tasks: Sequence[Task]) -> list[Any]:
        assert len({task.key for task in tasks}) == len(tasks) == 3
        return one_after_another(tasks[::-1])[::-1]

    again = reproduce("hamm-2016", "2", data=small, draws=2, run_tasks=backwards)
    assert again.to_json() == report.to_json()
    assert again.panels == report.panels


def test_too_few_records_or_none_are_refused(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hamm, "FIGURE_2", replace(hamm.FIGURE_2, sizes=(40,)))
    with raises(BadInput, "too_small_for_figure", 300, 12, 320, 10):
        reproduce("hamm-2016", "2", data=small)
    with raises(BadInput, "needs_real_data", ..., ...):
        reproduce("hamm-2016", "2")
    with raises(BadInput, "part_of_original", ..., ..., "UCI Human Activity Recognition Using Smartphones"):
        reproduce("hamm-2016", "2", data=small / "nowhere")
