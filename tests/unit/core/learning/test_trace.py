"""The objective at the public classifiers of the rounds: after a run, during it, and where there is none."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from masquerade_core.data.schema import Dataset
from masquerade_core.learning.losses import SMOOTHED_HINGE, objective
from masquerade_core.learning.trace import MOST_POINTS, objective_at, objective_trace
from masquerade_core.study import Study
from masquerade_curator import _testing
from masquerade_curator._testing import PublicTests
from tests.protocol_helpers import make_study

STUDY = make_study(2, 3)
RNG = np.random.default_rng(0)
TEST = Dataset(RNG.uniform(-0.5, 0.5, size=(50, 3)), np.where(RNG.random(50) < 0.5, 1.0, -1.0))


def _iterates(count: int) -> list[tuple[int, tuple[float, ...]]]:
    return [(t, (0.1 * t, -0.2, 0.05 * t)) for t in range(1, count + 1)]


def _with_loss(loss: str) -> Study:
    return STUDY.model_copy(update={"model": STUDY.model.model_copy(update={"loss": loss})})


def test_every_round_of_a_short_descent_is_there_with_its_objective() -> None:
    points = objective_trace(_iterates(5), TEST, STUDY)
    assert [p["round"] for p in points] == [1, 2, 3, 4, 5]
    for point, (_, w) in zip(points, _iterates(5), strict=True):
        m = TEST.y * (TEST.X @ np.array(w))
        J = np.mean(np.log1p(np.exp(-m))) + STUDY.model.regularization / 2 * np.dot(w, w)
        assert point["objective"] == pytest.approx(J, abs=1e-6)


@pytest.mark.parametrize("count", [MOST_POINTS, MOST_POINTS + 1, 1777, 20_000])
def test_a_long_descent_is_thinned_evenly_from_the_first_round_to_the_last(count: int) -> None:
    rounds = [int(p["round"] or 0) for p in objective_trace(_iterates(count), TEST, STUDY)]
    assert len(rounds) == MOST_POINTS == 200
    assert (rounds[0], rounds[-1]) == (1, count)
    gaps = np.diff(rounds)
    assert gaps.max() - gaps.min() <= 1


def test_the_loss_is_the_studys() -> None:
    w = (0.3, -0.2, 0.9)
    hinge = _with_loss("smoothed-hinge")
    expected = objective(np.array(w), TEST.X, TEST.y, hinge.model.regularization, SMOOTHED_HINGE)
    assert objective_at(w, TEST, hinge) == expected != objective_at(w, TEST, STUDY)


@pytest.mark.parametrize("iterates", [[], [(1, ()), (2, ())]])
def test_without_iterates_or_records_there_is_no_trace(iterates: Any) -> None:
    assert objective_trace(iterates, TEST, STUDY) == []
    assert objective_trace(_iterates(3), None, STUDY) == []


def test_one_iterate_is_enough() -> None:
    assert [p["round"] for p in objective_trace([(7, (1.0, 0.0, 0.0))], TEST, STUDY)] == [7]


def test_an_objective_too_large_for_a_float_is_null_in_json() -> None:
    points = objective_trace([(1, (1e200, 0.0, 0.0)), (2, (0.0, 0.0, 0.0))], TEST, STUDY)
    assert json.loads(json.dumps(points, allow_nan=False)) == [
        {"round": 1, "objective": None},
        {"round": 2, "objective": pytest.approx(np.log(2), abs=1e-6)},
    ]


# --- While it runs ---------------------------------------------------------------------------------


class _Session:
    def __init__(self) -> None:
        self.iterates: list[tuple[int, tuple[float, ...]]] = []


def _heard(test: Dataset, events: list[tuple[str, dict[str, Any]]]) -> list[tuple[str, dict[str, Any]]]:
    heard: list[tuple[str, dict[str, Any]]] = []

    def observe(event: str, /, **fields: str | float) -> None:
        heard.append((event, fields))

    curve = PublicTests(test, STUDY, observe)
    session: Any = _Session()
    curve.session = session
    for event, fields in events:
        if event == "progress":
            session.iterates += [(int(fields["done"]), (0.1, 0.2, 0.3))]
        curve.observe(event, **fields)
    return heard


EVENTS: list[tuple[str, dict[str, Any]]] = [("stage", {"name": "rounds"}), ("progress", {"done": 4, "total": 9})]


def test_the_objective_follows_the_progress_of_the_rounds() -> None:
    heard = _heard(TEST, EVENTS)
    assert heard[:2] == EVENTS
    assert [event for event, _ in heard] == ["stage", "progress", "objective"]
    assert heard[2][1]["done"] == 4
    assert float(heard[2][1]["message"]) == pytest.approx(objective_at((0.1, 0.2, 0.3), TEST, STUDY), rel=1e-5)


def test_without_time_for_them_nothing_is_added(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_testing, "_LIVE", TEST.X.size - 1)
    assert _heard(TEST, EVENTS) == EVENTS
