"""The intervals of an evaluation hold the truth about fresh records as often as they say: thousands of seeded runs."""

from __future__ import annotations

from typing import cast

import numpy as np
import pytest
from benchmarks.coverage import FIGURES, GRID, Case, Tally, tallies
from numpy.typing import NDArray
from scipy import stats

from masquerade_core import evaluation
from masquerade_core.evaluation import (
    UNKNOWN,
    Bins,
    Estimate,
    Evaluation,
    Noisy,
    fraction_of,
    share_of,
    solved,
    z_value,
)
from masquerade_core.model import Model, scores_of
from masquerade_core.simulation_rng import SimulationRng
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


@pytest.mark.parametrize("positive", [0.3, 0.7])
def test_the_advantage_allows_for_all_of_the_noise(positive: float) -> None:
    """Nearly all that moves the figure here is noise: that on two counts of each bin where the answers differ."""
    rng, bins, tau, N, at = np.random.default_rng(7), 8, 200.0, 10_000, 4
    counts = [np.full(bins, N * share / bins) for share in (positive, 1 - positive)]
    differ = bins - at - 1 if positive < 0.5 else at + 1
    truth, hits = -differ / bins * abs(1 - 2 * positive), 0
    for _ in range(4000):
        p, n = (part + rng.normal(0, tau, bins) for part in counts)
        noisy = evaluation.Counts(p, n, tau**2, N, cast("Bins", None), None)
        found = evaluation.advantage_of(noisy, at, z_value())
        hits += found.low <= truth <= found.high
    assert 0.94 <= hits / 4000 <= 0.97


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


GRID_RUNS = 150
LEAST, MOST = 0.925, 0.985
ALARM = 1e-4  # of a single coverage that lies inside: the chance that so few runs show it outside


@pytest.fixture(scope="module")
def grid() -> dict[tuple[int, float, float], dict[str, Tally]]:
    return {cell: tallies(Case(*cell), GRID_RUNS) for cell in GRID}


def _outside(found: Tally) -> bool:
    """Whether a coverage from .925 to .985 shows so few or so many hits with a chance below ``ALARM``."""
    if found.coverage is None:
        return False
    few, many = stats.binom(found.intervals, LEAST), stats.binom(found.intervals, MOST)
    return bool(few.cdf(found.held) < ALARM or many.sf(found.held - 1) < ALARM)


def test_every_interval_holds_the_truth_as_often_as_it_says_or_is_not_there(
    grid: dict[tuple[int, float, float], dict[str, Tally]],
) -> None:
    outside = {(*cell, name) for cell, found in grid.items() for name in FIGURES if _outside(found[name])}
    assert outside == set()
    # Together the runs are enough to see coverages that are a little off.
    for name in FIGURES:
        told, held = (sum(getattr(found[name], what) for found in grid.values()) for what in ("intervals", "held"))
        assert LEAST + 0.01 <= held / told <= MOST - 0.01, name


def test_where_there_are_enough_records_every_figure_has_an_interval(
    grid: dict[tuple[int, float, float], dict[str, Tally]],
) -> None:
    enough = [cell for cell in GRID if cell[0] >= 2000 and cell[1] == 0.3 and cell[2] >= 1]
    assert len(enough) == 4
    for cell in enough:
        without = [name for name, found in grid[cell].items() if found.intervals < found.possible]
        assert set(without) <= {"calibration"}  # a bin at the model's threshold may hold next to nothing
    nothing = grid[500, 0.02, 0.3]
    assert nothing["auc"].intervals == nothing["precision"].intervals == 0


def test_the_aucs_interval_counts_the_noise_and_the_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test can fail: without a part of the variance, far too few intervals hold the truth."""
    case = Case(10_000, 0.05, 1.0)
    assert not _outside(tallies(case, 400)["auc"])
    for part in (0, 1):

        def without(
            numerator: float, denominator: float, variance: tuple[float, ...], z: float, part: int = part
        ) -> Estimate:
            if len(variance) == 3 and denominator > 1e5:  # that of the AUC: the number of pairs
                A = numerator / denominator
                sample = variance[1] * A + variance[2] * A**2
                variance = (variance[0] + sample, 0.0, 0.0) if part else (0.3 * (variance[0] + sample), 0.0, 0.0)
            return solved(numerator, denominator, (variance[0], variance[1], variance[2]), z)

        monkeypatch.setattr(evaluation, "solved", without)
        assert _outside(tallies(case, 400)["auc"]) != bool(part)


def test_with_wide_bins_the_correction_for_ties_counts_as_uncertain(monkeypatch: pytest.MonkeyPatch) -> None:
    case = Case(2000, 0.3, 1.0)
    with_doubt = tallies(case, 400)["auc"]
    monkeypatch.setattr(evaluation, "_DOUBT", 0.0)
    without = tallies(case, 400)["auc"]
    assert with_doubt.held - without.held > 0.02 * 400


def test_whether_there_is_an_interval_does_not_follow_from_the_noise_in_it() -> None:
    rng, z, sd, D = np.random.default_rng(8), z_value(), 10.0, 30.0
    by_other, by_own = [], []
    for p in (0.05, 0.5, 0.95):
        hits: tuple[list[bool], list[bool]] = ([], [])
        for _ in range(10_000):
            part, rest, other = (c + rng.normal(0, sd) for c in (p * D, (1 - p) * D, D))
            for said, count in zip(hits, (Noisy(other, sd**2), Noisy(part + rest, 2 * sd**2)), strict=True):
                found = fraction_of(Noisy(part, sd**2), Noisy(rest, sd**2), count, z)
                if found.value is not None:
                    said.append(found.low <= p <= found.high)
        by_other.append(np.mean(hits[0]))
        by_own.append(np.mean(hits[1]))
    assert min(by_other) >= LEAST
    assert min(by_own) < LEAST - 0.1  # a count that has the same noise chooses the runs whose noise is large


def test_no_interval_has_an_end_that_the_noise_does_not_give() -> None:
    assert solved(1.0, 1.0, (0.0, 0.0, 1.0), 1.96) == UNKNOWN
    found = solved(30.0, 100.0, (25.0, 0.0, 0.0), 2.0)
    assert found.value == 0.3
    assert (found.low, found.high) == pytest.approx((0.2, 0.4))


def test_a_model_that_is_nearly_perfect_is_known_to_be() -> None:
    study, rng = held_back_study(2, 4), np.random.default_rng(6)
    steep = tuple(60.0 * w for w in TRUE)
    lows = []
    for i in range(40):
        held = {name: records_of(rng, 5000, steep) for name in study.names}
        found = evaluate_in_the_clear(
            study, Model(steep, None), held, {name: SimulationRng(i, name) for name in study.names}
        )
        assert found.auc.low > 0.98
        lows.append(found.auc.low)
    fresh = records_of(rng, 200_000, steep)
    truth = auc_of(scores_of(Model(steep, None), fresh.X, None), fresh.y)
    assert truth > 0.998
    assert np.mean([low <= truth for low in lows]) >= 0.9


@pytest.mark.parametrize("p", [0.003, 0.3, 0.9])
@pytest.mark.parametrize("noise", [0.0, 400.0])
def test_shares_and_fractions_are_covered_near_the_ends_too(p: float, noise: float) -> None:
    rng, N, z = np.random.default_rng(4), 2000, z_value()
    hits = {"share": 0, "fraction": 0}
    for _ in range(2000):
        part = int(rng.binomial(N, p))
        noisy, rest = (count + rng.normal(0, noise**0.5) for count in (part, N - part))
        of = (Noisy(noisy, noise), Noisy(rest, noise), Noisy(N, 0.0))
        found = share_of(noisy, noise, N, z), fraction_of(*of, z)
        for name, interval in zip(hits, found, strict=True):
            hits[name] += interval.low <= p <= interval.high
    assert all(0.93 <= hit / 2000 <= 0.985 for hit in hits.values()), hits
