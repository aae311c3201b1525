"""Bands computed from draws: how often they are mistaken, measured on numbers whose law is known."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from masquerade_lab.reproduce.engine.judging import FALSE_ALARM, Mean, band, judged, power, reference
from masquerade_lab.reproduce.engine.report import POWER
from tests.messages import sentence

_RUNS = 40_000


def _means(rng: np.random.Generator, mean: float, sets: int) -> NDArray[np.float64]:
    return np.asarray(mean + rng.standard_normal(_RUNS) / np.sqrt(sets))


@pytest.mark.parametrize(("old", "new"), [(20, 20), (5, 10), (10, 5)])
def test_a_right_program_leaves_the_band_once_in_a_thousand_runs(old: int, new: int) -> None:
    """Reference and run are drawn afresh, so the band's own scatter counts."""
    rng = np.random.default_rng(3)
    means = _means(rng, 0.0, old)
    errors = np.sqrt(rng.chisquare(old - 1, _RUNS) / (old - 1) / old)
    found = _means(rng, 0.0, new)
    low, high = band(Mean(0.0, 1.0, old), new)
    assert low == -high
    np.testing.assert_allclose(band(Mean(2.0, 3.0, old), new), (2 + 3 * low, 2 + 3 * high))
    out = int((np.abs(found - means) > high * errors).sum())
    # A binomial count of 40 +- 6.3; a normal quantile in place of Student's gives 140 and more at 20 sets.
    assert FALSE_ALARM * _RUNS - 26 <= out <= FALSE_ALARM * _RUNS + 26


def test_the_power_is_the_share_of_runs_outside() -> None:
    rng = np.random.default_rng(4)
    edges, wrong = (-0.8, 0.8), Mean(1.1, 1 / np.sqrt(20), 20)
    found = _means(rng, 1.1, 20)
    assert power(edges, wrong) == pytest.approx(((found < -0.8) | (found > 0.8)).mean(), abs=0.01)
    assert power(edges, Mean(0.7, 0.0, 20)) == 0
    assert power(edges, Mean(-0.9, 0.0, 20)) == 1


def test_a_mean_of_draws_has_the_error_of_its_sets() -> None:
    found = Mean.of(np.array([[1.0, 3.0], [5.0, 7.0], [0.0, 2.0]]))
    assert (found.mean, found.sets) == (3.0, 3)
    assert found.error == pytest.approx(np.std([2, 6, 1], ddof=1) / np.sqrt(3))


def test_a_mistake_must_be_caught_surely_unless_it_is_said_to_be_unseen() -> None:
    expected = Mean(0.0, 0.1, 20)
    draws = np.random.default_rng(5).standard_normal((20, 4)) * 0.3
    edge = band(expected, 20)[1]
    near, far = draws - draws.mean() + edge + 0.02, draws + 10 * edge
    right, barely, surely = judged("t", "q", draws - draws.mean(), expected, {"barely": near, "surely": far})
    assert right.holds
    assert right.low == -edge < 0 < edge == right.high
    assert (barely.inside(), barely.holds) == (False, False)
    assert barely.verdict.startswith("outside: NOT CAUGHT, power 0.")
    assert (surely.holds, surely.verdict) == (True, "outside: caught, power 1.000")
    assert barely.power is not None
    assert barely.power < POWER
    (_, seen, unseen) = judged("t", "q", draws, expected, {"barely": near, "surely": far}, hidden={"barely"})
    assert (seen.name, seen.banded) == ("q: surely", True)
    assert (unseen.banded, unseen.note) == (False, sentence("not_seen_here", f"{barely.power:.2f}"))
    (shown,) = judged("t", "q", draws, None, {"surely": far})
    assert not shown.banded
    assert shown.value == pytest.approx(draws.mean())


def test_references_are_read_and_what_is_not_there_is_none() -> None:
    found = reference("kang 1", "BC, J")
    assert found is not None
    assert 0 < found.error < 0.05
    assert found.sets >= 10
    assert reference("kang 1", "nothing") is None
