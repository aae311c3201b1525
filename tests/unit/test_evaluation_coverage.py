"""The intervals of an evaluation hold the truth about fresh records as often as they say: a thousand seeded runs."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from masquerade_core.learning import label_counts
from masquerade_core.learning.evaluation import Evaluation
from masquerade_core.learning.intervals import Estimate, fraction_of, share_of, z_value
from masquerade_core.model import Model, scores_of
from masquerade_core.rng import SimulationRng
from tests.evaluation_helpers import auc_of, evaluate_in_the_clear, held_back_study, records_of

RUNS = 1000
HELD = 10_000
TRUE = (4.0, -3.0, 2.0, 1.0)
MODEL = Model((3.0, -3.0, 2.5, 0.0), None, (-1.2,))  # it errs a little everywhere, and is too sure of nothing

_Array = NDArray[np.float64]


@pytest.fixture(scope="module")
def fresh() -> tuple[_Array, NDArray[np.bool_]]:
    data = records_of(np.random.default_rng(1), 1_000_000, TRUE, -1.5)
    return scores_of(MODEL, data.X, None), data.y > 0


@pytest.fixture(scope="module")
def runs() -> list[tuple[Evaluation, float]]:
    """A thousand evaluations, each of new records, and the AUC of these records."""
    study, rng, found = held_back_study(2, 4, epsilon=1.0, delta=1e-6), np.random.default_rng(2), []
    for i in range(RUNS):
        held = {name: records_of(rng, HELD // 2, TRUE, -1.5) for name in study.names}
        measured = evaluate_in_the_clear(study, MODEL, held, {name: SimulationRng(i, name) for name in study.names})
        scores = np.concatenate([scores_of(MODEL, side.X, None) for side in held.values()])
        found.append((measured, auc_of(scores, np.concatenate([side.y for side in held.values()]))))
    return found


def _coverage(intervals: list[Estimate], truth: float) -> float:
    return float(np.mean([found.low <= truth <= found.high for found in intervals]))


def test_the_intervals_of_auc_and_error_cover_the_truth_on_fresh_records(
    runs: list[tuple[Evaluation, float]], fresh: tuple[_Array, NDArray[np.bool_]]
) -> None:
    scores, positive = fresh
    said = scores > 0
    truth = {
        "auc": auc_of(scores, np.where(positive, 1.0, -1.0)),
        "error": float((said != positive).mean()),
        "sensitivity": float(said[positive].mean()),
        "precision": float(positive[said].mean()),
        "brier": float(np.mean((1 / (1 + np.exp(-scores)) - positive) ** 2)),
        "advantage": float(positive.mean() - (said != positive).mean()),
    }
    intervals = {
        "auc": [found.auc for found, _ in runs],
        "brier": [found.brier or Estimate(None, 0, 0) for found, _ in runs],
        "advantage": [found.advantage for found, _ in runs],
        **{name: [getattr(found.chosen, name) for found, _ in runs] for name in ("error", "sensitivity", "precision")},
    }
    covered = {name: _coverage(intervals[name], truth[name]) for name in truth}
    assert all(0.92 <= share <= 0.98 for share in covered.values()), covered
    # Intervals that forget the noise, or the sample, are too narrow; these say so.
    narrow = [Estimate(e.value, *(_shrunk(e, end) for end in (e.low, e.high))) for e in intervals["error"]]
    assert _coverage(narrow, truth["error"]) < 0.92


def _shrunk(found: Estimate, end: float) -> float:
    assert found.value is not None
    return found.value + 0.8 * (end - found.value)


def test_the_noise_moves_the_auc_of_ten_thousand_records_by_a_hundredth_at_most(
    runs: list[tuple[Evaluation, float]],
) -> None:
    off = np.array([abs((found.auc.value or 0.0) - exact) for found, exact in runs])
    assert off.mean() <= 0.005
    assert np.quantile(off, 0.95) <= 0.01


def test_intervals_at_a_chosen_threshold_allow_for_the_choice(fresh: tuple[_Array, NDArray[np.bool_]]) -> None:
    scores, positive = fresh
    study, rng = held_back_study(2, 4, rule='"f1"'), np.random.default_rng(3)
    held_at_once = alone = 0
    for i in range(200):
        held = {name: records_of(rng, 1000, TRUE, -1.5) for name in study.names}
        found = evaluate_in_the_clear(study, MODEL, held, {name: SimulationRng(i, name) for name in study.names})
        said = scores > found.threshold
        truth = 2 * (said & positive).sum() / (said.sum() + positive.sum())
        held_at_once += found.chosen.f1.low <= truth <= found.chosen.f1.high
        point = next(p for p in found.curve if p.score == found.threshold)
        alone += point.f1.low <= truth <= point.f1.high
    assert held_at_once >= 0.95 * 200
    assert alone < held_at_once


def test_with_few_records_the_correction_for_ties_counts_as_uncertain(monkeypatch: pytest.MonkeyPatch) -> None:
    study, rng = held_back_study(2, 4), np.random.default_rng(5)
    fresh = records_of(rng, 500_000, TRUE)
    model = Model(TRUE, None)
    truth = auc_of(scores_of(model, fresh.X, None), fresh.y)
    runs = [({name: records_of(rng, 250, TRUE) for name in study.names}, i) for i in range(300)]

    def covered() -> float:
        found = [
            evaluate_in_the_clear(study, model, held, {name: SimulationRng(i, name) for name in study.names}).auc
            for held, i in runs
        ]
        return _coverage(found, truth)

    with_doubt = covered()
    monkeypatch.setattr(label_counts, "_DOUBT", 0.0)
    assert with_doubt >= 0.91
    assert covered() < with_doubt - 0.01


@pytest.mark.parametrize("p", [0.003, 0.3, 0.9])
@pytest.mark.parametrize("noise", [0.0, 400.0])
def test_shares_and_fractions_are_covered_near_the_ends_too(p: float, noise: float) -> None:
    rng, N, z = np.random.default_rng(4), 2000, z_value()
    hits = {"share": 0, "fraction": 0}
    for _ in range(2000):
        part = int(rng.binomial(N, p))
        noisy, rest = (count + rng.normal(0, noise**0.5) for count in (part, N - part))
        found = share_of(noisy, noise, N, z), fraction_of(noisy, rest, noise, noise, z)
        for name, interval in zip(hits, found, strict=True):
            hits[name] += interval.low <= p <= interval.high
    assert all(0.93 <= hit / 2000 <= 0.985 for hit in hits.values()), hits
