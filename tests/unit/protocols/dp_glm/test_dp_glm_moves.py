"""dp-glm: one replaced record moves the integers of each sum as far as the proof says, and not farther."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from masquerade_core.study import Feature
from masquerade_protocols.dp_glm import vectors
from masquerade_protocols.dp_glm.estimates import Design, Located, Location, Point
from masquerade_protocols.dp_glm.public import SQUARES, SUMS, Columns, Plan
from tests.glm_helpers import FEATURES, glm_study

_Floats = NDArray[np.float64]


class _One:
    """One record, as a source of sums."""

    def __init__(self, u: _Floats, y: float) -> None:
        self._u, self._y = u[None, :], np.array([y])

    def total(self, f: Callable[[_Floats, _Floats], NDArray[np.int64]]) -> NDArray[np.int64]:
        return f(self._u, self._y)


def _moved(plan: Plan, label: str, rows: vectors.Rows, pair: list[tuple[_Floats, float]]) -> float:
    """The squared move of the integers, in units of S^2 B^2; products count twice."""
    noisy = plan.sums[label]
    a, b = (vectors.contribution(_One(*one), rows, plan.columns, plan.scale(label)) for one in pair)  # type: ignore[arg-type]  # all that is used of records
    assert len(a) == noisy.length
    move = [int(x) - int(y) for x, y in zip(a, b, strict=True)]
    squared = 2 * sum(x * x for x in move[: noisy.products]) + sum(x * x for x in move[noisy.products :])
    return squared / float(noisy.squared * plan.unit(label) ** 2)


def _same(rows: vectors.Rows, _public: _Floats) -> vectors.Rows:
    return rows


def _climbed(
    plan: Plan, label: str, rows: Callable[[_Floats], vectors.Rows], start: tuple[_Floats, Any, _Floats], steps: int
) -> float:
    """The farthest move that is found from a start: two records with labels, and public numbers, changed at random."""
    rng = np.random.default_rng(7)
    records, labels, public = start
    best = _moved(plan, label, rows(public), list(zip(records, labels, strict=True)))
    for t in range(steps):
        size = 10.0 ** -rng.uniform(0, 6)
        tried = records + rng.normal(size=records.shape) * size * np.abs(records).max() * (
            rng.random(records.shape) < 0.5
        )
        other = public * np.exp(rng.normal(size=public.shape) * size * (t % 2))
        found = _moved(plan, label, rows(other), list(zip(tried, labels, strict=True)))
        assert found <= 1
        if found > best:
            best, records, public = found, tried, other
    return best


_OWN = [(Feature(name="x1", min=-1, max=1),), FEATURES, tuple(Feature(name=f"x{i}", min=0, max=1) for i in range(6))]


@pytest.mark.parametrize("features", _OWN, ids=["one number", "every kind", "six numbers"])
@pytest.mark.parametrize("label", ["location", "spread"])
def test_one_record_moves_the_first_sums_as_far_as_the_proof_says(features: tuple[Feature, ...], label: str) -> None:
    plan = Plan(glm_study(features=features), 5000)
    columns, p = plan.columns, plan.columns.p
    at = Location(np.zeros(len(columns.numbers)), np.ones(len(columns.numbers)), np.zeros(len(columns.levels)), 0.5)
    rows = vectors.location(columns, linear=False) if label == "location" else vectors.spread(columns, at, linear=False)
    one, other = np.zeros(p), np.zeros(p)
    one[list(columns.numbers)], other[list(columns.numbers)] = 1, -1
    for group in columns.groups:
        one[group[0]] = 1
        other[group[-1]] = len(group) > 1
    found = _climbed(plan, label, partial(_same, rows), (np.array([one, other]), (1.0, -1.0), np.zeros(1)), 300)
    assert 0.999 < found <= 1
    rng = np.random.default_rng(3)
    for u in rng.uniform(-1.5, 1.5, size=(100, 2, p)):
        assert _moved(plan, label, rows, list(zip(u, (1.0, -1.0), strict=True))) <= 1


@pytest.mark.parametrize("p", [1, 3, 8])
def test_one_record_moves_the_moments_as_far_as_the_proof_says(p: int) -> None:
    plan = Plan(glm_study(features=[Feature(name=f"x{i}", min=-1, max=1) for i in range(p)]), 5000)
    one, other = np.zeros(p), np.zeros(p)
    one[0], other[:2] = 0.9, (0.45, 0.78)[:p]
    for m, s, yb in ((0.0, 1e-3, 0.5), (0.05, 0.1, 0.03)):
        rows = vectors.moments(Located(np.full(p, m), np.full(p, s), yb), linear=False)
        start = (np.array([one, other]), (1.0, -1.0), np.ones(1))
        found = _climbed(plan, "moments", partial(_same, rows), start, 300)
        assert found > 0.97 or p == 1 or yb < 0.5


def _step_plan(p: int = 1) -> Plan:
    return Plan(glm_study(features=[Feature(name=f"x{i}", min=-1, max=1) for i in range(p)]), 5000)


def _steps(plan: Plan, number: int) -> Callable[[_Floats], vectors.Rows]:
    """Public numbers -> the vectors of a step at theta = public[:-2], C = public[-2], CH = public[-1]."""
    p = plan.columns.p
    design = Design(np.zeros(p), np.full(p, 1e-3), np.eye(p))

    def rows(public: _Floats) -> vectors.Rows:
        point = Point(public[:-2], float(public[-2]), float(public[-1]))
        return vectors.step(design, point, number)

    return rows


_OPPOSITE = (np.array([[-0.012], [-0.018]]), (1.0, -1.0), np.array([-28.2, -2.35, 6.0, 36.0]))
"""Two long records in one direction: the first is undecided and fills the Hessian's part, the second is sure."""


@pytest.mark.parametrize("label", ["step 1", "step 2", "step 3"])
def test_one_record_moves_a_step_as_far_as_the_proof_says(label: str) -> None:
    plan = _step_plan()
    found = _climbed(plan, label, _steps(plan, int(label[-1])), _OPPOSITE, 1500)
    assert 0.97 < found <= 1


# --- A linear model -----------------------------------------------------------------


def _linear_plan(p: int = 1) -> Plan:
    study = glm_study(features=[Feature(name=f"x{i}", min=-1, max=1) for i in range(p)], K=3)
    return Plan(study.model_copy(update={"protocol": {"family": "linear"}}), 5000)


def test_with_a_linear_model_the_label_is_a_number_more_in_the_first_sums() -> None:
    plan = _linear_plan()
    at = Location(np.zeros(2), np.ones(2), np.zeros(0), 0.0)
    for label, rows in (
        ("location", vectors.location(plan.columns, linear=True)),
        ("spread", vectors.spread(plan.columns, at, linear=True)),
    ):
        found = _climbed(plan, label, partial(_same, rows), (np.array([[1.0], [-1.0]]), (1.0, -1.0), np.zeros(1)), 100)
        assert 0.999 < found <= 1
        assert plan.sums[label].squared == 8 / SQUARES


def test_with_a_linear_model_one_record_moves_the_moments_as_far_as_the_proof_says() -> None:
    """The label's square is free: where the label's product moves farthest, the squares are alike."""
    plan = _linear_plan(2)
    rows = vectors.moments(Located(np.zeros(2), np.full(2, 1e-3), 0.0, 0.2), linear=True)
    records = np.array([[0.9, 0.0], [0.5, 0.85]])
    best = 0.0
    for labels in ((0.6, -0.6), (0.6, -0.3), (0.6, 0.0)):
        best = max(best, _climbed(plan, "moments", partial(_same, rows), (records, labels, np.ones(1)), 150))
    assert 0.97 < best <= 1


@pytest.mark.parametrize("number", [1, 2, 3])
def test_with_a_linear_model_one_record_moves_a_step_as_far_as_the_proof_says(number: int) -> None:
    """One residual is just shorter than K and counts in the Hessian; the other is longer and does not."""
    plan = _linear_plan()
    design = Design(np.zeros(1), np.full(1, 1e-3), np.eye(1), 0.0, 1.0)

    def rows(public: _Floats) -> vectors.Rows:
        C, CH, K = public[-3:].tolist()
        return vectors.step(design, Point(public[:-3], C, CH, K), number)

    start = (np.array([[-0.00695], [-0.0072]]), (0.4999, -1.0), np.array([0.0, 0.0, 6.9, 6.9**2, 0.5]))
    found = _climbed(plan, f"step {number}", rows, start, 300)
    assert 0.97 < found <= 1


# --- Any step -------------------------------------------------------------------------


@pytest.mark.parametrize("p", [1, 2, 5])
def test_no_records_and_no_public_numbers_move_a_step_farther(p: int) -> None:
    plan, rng = _step_plan(p), np.random.default_rng(p)
    for _ in range(40):
        start = (
            rng.uniform(-1, 1, size=(2, p)) * 10.0 ** -rng.uniform(0, 4),
            rng.choice([-1.0, 1.0], size=2),
            np.append(rng.normal(size=p + 1) * 10.0 ** -rng.uniform(-1, 3), 10.0 ** rng.uniform(-1, 3, size=2)),
        )
        assert _climbed(plan, "step 2", _steps(plan, 2), start, 15) <= 1
        assert _climbed(plan, "step 1", _steps(plan, 1), start, 15) <= 1


def test_with_a_half_for_the_weight_of_squared_scores_a_record_moves_a_step_farther(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two undecided records at a cosine of 1/3, both long: the proof's other corner, 5.33 instead of 4.985."""
    plan = _step_plan(2)
    angle = np.arccos(1 / 3)
    records = 0.2 * np.array([[1.0, 0.0], [np.cos(angle), np.sin(angle)]])
    rows = _steps(plan, 2)(np.array([0.0, 0.0, 0.0, 100.0, 1e4]))
    pair = list(zip(records, (1.0, -1.0), strict=True))
    assert 0.97 * 4.985 / 5.05 < _moved(plan, "step 2", rows, pair) <= 1
    monkeypatch.setattr(vectors, "MEAT", 0.5)
    assert _moved(plan, "step 2", rows, pair) > 1


def test_without_room_for_rounding_a_record_moves_farther(monkeypatch: pytest.MonkeyPatch) -> None:
    """At a B of a few units, where rounding shows: 41/sqrt(2.7) is just below 25."""
    plan = _step_plan()
    monkeypatch.setattr(Plan, "unit", lambda *_: 41)
    assert all(plan.scale(label) > 0 for label in SUMS)
    rows, rng = vectors.location(plan.columns, linear=False), np.random.default_rng(0)

    def farthest() -> float:
        ends = rng.uniform(0.9, 1, size=(300, 2, 1)) * [[1.0], [-1.0]]
        return max(_moved(plan, "location", rows, list(zip(pair, (1.0, -1.0), strict=True))) for pair in ends)

    assert farthest() <= 1
    monkeypatch.setattr(Plan, "scale", lambda plan, label: plan.unit(label))
    assert farthest() > 1


def test_overflowing_public_numbers_leave_a_record_out() -> None:
    plan = _step_plan()
    design = Design(np.zeros(1), np.zeros(1), np.full((1, 1), 2.0**30))
    rows = vectors.step(design, Point(np.array([0.0, 2.0**30]), 1.0, 1.0), 2)
    for u in (0.0, 0.5):
        assert not vectors.contribution(_One(np.array([u]), 1.0), rows, plan.columns, 1e6).any()  # type: ignore[arg-type]


def test_a_record_with_two_levels_of_a_column_counts_as_one() -> None:
    columns = Columns.of(glm_study())
    u = vectors.bounded(np.array([[2.0, -3.0, 1.0, 1.0, 1.0], [0.5, 0.5, 0.0, 0.0, 1.0]]), columns)
    assert u.tolist() == [[1, -1, 1, 0.5, 0.5], [0.5, 0.5, 0, 0, 1]]
