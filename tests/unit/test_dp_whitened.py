"""dp-whitened: one replaced record moves each sum as far as the proof says, and the noise is what the proof needs."""

from __future__ import annotations

from fractions import Fraction
from math import isqrt, sqrt

import numpy as np
import pytest
from dp_accounting import GaussianDpEvent, NeighboringRelation
from dp_accounting.pld import PLDAccountant
from numpy.typing import NDArray

from masquerade_core.data.schema import Dataset
from masquerade_core.privacy.accounting.gaussian_dp import mu_of
from masquerade_protocols.dp_whitened import public, vectors
from masquerade_protocols.dp_whitened.estimates import Centre, Point
from masquerade_protocols.dp_whitened.public import OFF_DIAGONAL, SIGMA, Plan, noise_of
from tests.whitened_helpers import whitened_study

_Floats = NDArray[np.float64]


def _record(u: _Floats, y: float) -> Dataset:
    return Dataset(u[None, :].copy(), np.array([y]))


def _rows(rng: np.random.Generator, count: int, d: int) -> _Floats:
    """Rows of length 1 and less, on the axes, opposite, and anywhere."""
    rows: _Floats = rng.normal(size=(count, d))
    rows[::4] = np.eye(d)[rng.integers(d, size=len(rows[::4]))] * rng.choice([-1.0, 1.0], size=(len(rows[::4]), 1))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    rows[1::3] *= rng.random((len(rows[1::3]), 1))
    return rows * (1 - 1e-12)


def _squared_move(a: NDArray[np.int64], b: NDArray[np.int64], products: int = 0) -> int:
    """The squared length of a - b in integers of any size, where the first numbers, products, count twice."""
    move = [int(x) - int(y) for x, y in zip(a, b, strict=True)]
    return 2 * sum(x * x for x in move[:products]) + sum(x * x for x in move[products:])


# --- How far one record moves a sum -----------------------------------------------------


@pytest.mark.parametrize("d", [1, 2, 7])
def test_one_record_moves_a_mean_by_no_more_than_the_proof_says(d: int) -> None:
    rng, B = np.random.default_rng(d), 1 << 20
    rows = _rows(rng, 60, d)
    centre = Centre(_rows(rng, 3, d)[-1] / 20, 0.3, 0.2, centred=True)
    first, second = [], []
    for u, x in zip(rows[::2], rows[1::2], strict=True):
        for labels in ((1.0, -1.0), (1.0, 1.0)):
            a, b = (_record(row, y) for row, y in zip((u, x), labels, strict=True))
            first.append(_squared_move(vectors.mean_sum(a, B), vectors.mean_sum(b, B)))
            second.append(_squared_move(vectors.shift_sum(a, centre, B), vectors.shift_sum(b, centre, B)))
    opposite = np.eye(d)[0] * (1 - 1e-12)
    a, b = _record(opposite, 1.0), _record(-opposite, -1.0)
    first.append(_squared_move(vectors.mean_sum(a, B), vectors.mean_sum(b, B)))
    second.append(_squared_move(vectors.shift_sum(a, centre, B), vectors.shift_sum(b, centre, B)))
    assert max(first) <= 5 * B**2
    assert max(first) >= 4.99 * B**2
    assert 3.5 * B**2 <= max(second) <= 4 * B**2


def _moments(u: _Floats, y: float, yb: float, B: int, *, centred: bool) -> NDArray[np.int64]:
    centre = Centre(np.zeros(len(u)), 1.0, yb, centred=centred)
    return vectors.moments_sum(_record(u, y), centre, B)


@pytest.mark.parametrize(("centred", "most"), [(True, Fraction(5)), (False, Fraction(9, 2))])
def test_one_record_moves_the_second_moments_by_no_more_than_the_proof_says(*, centred: bool, most: Fraction) -> None:
    """On a grid of lengths, angles, labels and yb, and at random; the bound is reached and never exceeded."""
    B, d, found = 1 << 14, 3, []
    lengths, angles = (0.5, 0.8, 1 - 1e-9), np.linspace(0, np.pi, 25)
    for p, q, angle, yb in (
        (p, q, angle, yb)
        for p in lengths
        for q in lengths
        for angle in angles
        for yb in ((0.0, 0.4, -0.9) if centred else (0.0,))
    ):
        u, x = np.array([p, 0, 0]), q * np.array([np.cos(angle), np.sin(angle), 0])
        for labels in ((1.0, 1.0), (1.0, -1.0), (-1.0, -1.0)):
            a, b = (_moments(row, y, yb, B, centred=centred) for row, y in zip((u, x), labels, strict=True))
            found.append(_squared_move(a, b, d * (d - 1) // 2))
    rng = np.random.default_rng(5)
    for u, x in _rows(rng, 200, d).reshape(100, 2, d):
        labels = rng.choice([-1.0, 1.0], size=2)
        a, b = (_moments(row, y, 0.0, B, centred=centred) for row, y in zip((u, x), labels, strict=True))
        found.append(_squared_move(a, b, d * (d - 1) // 2))
    assert max(found) <= most * B**4
    assert max(found) >= 0.995 * most * B**4


def test_one_record_moves_a_gradient_by_no_more_than_the_proof_says() -> None:
    rng, B, d = np.random.default_rng(3), 1 << 20, 6
    root = rng.normal(size=(d, d))
    centre = Centre(np.full(d, 0.05), 0.5, 0.1, centred=True)
    point = Point(root @ root.T, 1.4 * sqrt(d), 1.5, rng.normal(size=d) * 3, 0.4, centred=True)
    found = []
    for u, x in _rows(rng, 400, d).reshape(200, 2, d):
        a, b = (vectors.gradient_sum(_record(row, y), centre, point, B) for row, y in ((u, 1.0), (x, -1.0)))
        found.append(_squared_move(a, b))
    assert 3.5 * B**2 <= max(found) <= 4 * B**2


def test_no_point_makes_a_contribution_longer() -> None:
    """Charlie chooses the point, within its bounds: each record is cut all the same."""
    B, d = 1 << 20, 3
    centre = Centre(np.array([2.0**30, -(2.0**30), 0]), 2.0**-10, 0.9, centred=True)
    point = Point(np.full((d, d), 2.0**30), 2.0**30, 2.0**30, np.full(d, -(2.0**30)), 6.0, centred=True)
    data = _record(np.array([0.6, 0.0, -0.8]), 1.0)
    assert _squared_move(vectors.gradient_sum(data, centre, point, B), np.zeros(d + 2, dtype=np.int64)) <= B**2
    assert _squared_move(vectors.shift_sum(data, centre, B), np.zeros(d, dtype=np.int64)) <= B**2


# --- The noise ----------------------------------------------------------------------


@pytest.mark.parametrize(("N", "epsilon"), [(300, 1.0), (3_000, 1.0), (30_000, 0.1), (400_000, 3.0)])
@pytest.mark.parametrize("colluders", [0, 1, 4])
def test_all_sums_together_cost_the_privacy_target(N: int, epsilon: float, colluders: int) -> None:
    """A replaced record's moves, as measured above, beside the noise of h parties: their squares add up to mu^2."""
    study = whitened_study(5, 20, epsilon=epsilon, colluders=colluders)
    plan, h = Plan(study, N), 5 - colluders
    for centred in (True, False):
        moves = [5 * plan.first_mean**2, 4 * plan.second_mean**2] if plan.parts[0] else []
        moves.append((5 if centred else Fraction(9, 2)) * plan.moments(centred=centred) ** 4)
        moves += [4 * plan.gradient**2] * plan.rounds
        mu = sqrt(sum(moves) / (h * SIGMA**2))
        target = mu_of(epsilon, 1e-5)
        assert 0.995 * target <= mu <= target
    accountant = PLDAccountant(NeighboringRelation.REPLACE_ONE)
    accountant.compose(GaussianDpEvent(2 / mu_of(epsilon, 1e-5)))
    found, delta = noise_of(study).proved(h) or (np.inf, 1.0)
    assert found <= epsilon
    assert delta == 1e-5
    assert accountant.get_epsilon(1e-5) == pytest.approx(epsilon, rel=2e-3)


@pytest.mark.parametrize("colluders", [0, 1, 4])
def test_every_standard_deviation_is_its_formula(colluders: int) -> None:
    """S/(mu sqrt(part)) sqrt(K/h) on a sum, with the S of the derivation, to three digits."""
    study = whitened_study(5, 20, colluders=colluders)
    N = 6_000
    plan, mu = Plan(study, N), mu_of(1.0, 1e-5) / sqrt(5 / (5 - colluders))
    f1, f2, f3 = map(float, plan.parts)
    assert plan.noise_sd(plan.first_mean) * N == pytest.approx(2 * sqrt(1.25) / (mu * sqrt(f1 / 2)), rel=1e-3)
    assert plan.noise_sd(plan.second_mean) * N == pytest.approx(2 / (mu * sqrt(f1 / 2)), rel=1e-3)
    for centred, S2 in ((True, 5), (False, 4.5)):
        B = plan.moments(centred=centred)
        assert plan.noise_sd(B**2) * N == pytest.approx(sqrt(S2) / (mu * sqrt(f2)), rel=1e-3)
    assert plan.noise_sd(plan.gradient) * N == pytest.approx(2 * sqrt(plan.rounds) / (mu * sqrt(f3)), rel=1e-3)


def test_the_noise_of_products_has_half_the_variance_and_not_less() -> None:
    assert 2 * OFF_DIAGONAL**2 >= SIGMA**2 + 9
    assert pytest.approx(sqrt(0.5), rel=1e-9) == OFF_DIAGONAL / SIGMA
    assert isqrt(OFF_DIAGONAL) > public.MOST_COORDINATES
