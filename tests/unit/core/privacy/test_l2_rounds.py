"""The cost of T rounds of noise of density exp(-beta |x|_2), compared with quadratures and another accountant."""

import math
from functools import cache

import numpy as np
import pytest
from dp_accounting.pld import pld_pmf, privacy_loss_distribution
from scipy import integrate, stats

from masquerade_core.errors import LocalProtocolError
from masquerade_core.privacy.noise.l2_rounds import composed_epsilon, loss_distribution


@cache
def _delta(epsilon: float, d: int, at: float) -> float:
    """Return the delta at epsilon' = ``at`` of one round, by a quadrature along the shift and across it.

    At a distance y from the axis, the ratio of the densities grows along the axis. So the integral begins where the
    loss is ``at``: on a hyperbola, whose foci are the two centres. The law is the same for both neighbours, so
    delta(-e) = 1 - exp(-e) + exp(-e) delta(e).
    """
    if at < 0:
        return -math.expm1(at) + math.exp(at) * _delta(epsilon, d, -at)

    if at >= epsilon:
        return 0.0

    def across(y: float) -> float:
        begin = at / 2 * math.sqrt(1 + 4 * y**2 / (epsilon**2 - at**2)) - epsilon / 2
        if begin > 200:
            return 0.0
        value, _ = integrate.quad(
            lambda s: math.exp(-math.hypot(s, y)) - math.exp(at - math.hypot(s + epsilon, y)),
            begin,
            begin + 80,
            points=[begin + 1, begin + 10],
            limit=100,
            epsabs=1e-15,
        )
        return float(y ** (d - 2) * value)

    total, _ = integrate.quad(across, 0, 80, points=[1.0, 5.0, 20.0], limit=200, epsabs=1e-14)
    # The density is exp(-|x|) over surface(S^(d-1)) Gamma(d); y has the surface of S^(d-2).
    constant = math.exp(math.lgamma(d / 2) - math.lgamma((d - 1) / 2) - math.log(math.sqrt(math.pi)) - math.lgamma(d))
    return float(constant * total)


@pytest.mark.parametrize(("epsilon", "d"), [(0.1, 10), (1.0, 3), (4.0, 5)])
def test_one_round_s_curve_is_that_of_a_quadrature(epsilon: float, d: int) -> None:
    h, p = loss_distribution(epsilon, d)
    losses = h * (np.arange(len(p)) - len(p) // 2)
    assert p.sum() == pytest.approx(1, abs=1e-12)
    assert (p >= 0).all()
    for part in (-0.5, 0.0, 0.3, 0.8):
        at = losses[np.argmin(np.abs(losses - part * epsilon))]
        found = float(p @ np.maximum(-np.expm1(at - losses), 0))
        assert found == pytest.approx(_delta(epsilon, d, at), rel=1e-6, abs=1e-12)


def test_a_law_of_another_scale_or_dimension_is_told_apart() -> None:
    """This shows that the test above can fail."""
    h, p = loss_distribution(0.1, 10)
    losses = h * (np.arange(len(p)) - len(p) // 2)
    found = float(p @ np.maximum(-np.expm1(-losses), 0))
    assert found != pytest.approx(_delta(0.1, 9, 0.0), rel=1e-2)
    assert found != pytest.approx(_delta(0.13, 10, 0.0), rel=1e-2)


@pytest.mark.parametrize(("epsilon", "rounds", "delta"), [(0.1, 100, 1e-5), (1.0, 10, 1e-5), (0.1, 1000, 0.05)])
def test_in_one_dimension_it_is_laplace_noise(epsilon: float, rounds: int, delta: float) -> None:
    oracle = privacy_loss_distribution.from_laplace_mechanism(1 / epsilon, value_discretization_interval=1e-4)
    assert composed_epsilon(epsilon, rounds, 1, delta) == pytest.approx(
        oracle.self_compose(rounds).get_epsilon_for_delta(delta), rel=1e-5
    )


@pytest.mark.parametrize(
    ("epsilon", "rounds", "delta", "published"),
    [
        (0.1, 10, 1e-5, 0.332),
        (0.1, 50, 0.05, 0.101),
        (0.1, 100, 0.05, 0.222),
        (0.1, 1000, 0.05, 1.569),
        (0.1, 1000, 1e-5, 4.375),
        (0.2, 10, 0.05, 0.074),
        (0.2, 100, 0.05, 0.760),
        (0.2, 1000, 0.05, 4.5725),
        (0.2, 1000, 1e-5, 9.991),
    ],
)
def test_what_psgd_s_rounds_cost_in_ten_dimensions(epsilon: float, rounds: int, delta: float, published: float) -> None:
    """These numbers are in docs/privacy/psgd.md; the next test computes two of them in another way."""
    found = composed_epsilon(epsilon, rounds, 10, delta)
    assert found == pytest.approx(published, abs=6e-4)


def test_an_independent_accountant_agrees() -> None:
    epsilon, d, rounds, step = 0.2, 10, 1000, 1.25e-3
    grid = list(range(-round(epsilon / step), round(epsilon / step) + 1))
    deltas = [_delta(epsilon, d, step * j) for j in grid[1:-1]]
    deltas = [-math.expm1(-epsilon), *deltas, 0.0]
    pmf = pld_pmf.create_pmf_pessimistic_connect_dots(step, np.array(grid), np.array(deltas))
    composed = pmf.self_compose(rounds)
    for delta in (0.05, 1e-5):
        assert composed_epsilon(epsilon, rounds, d, delta) == pytest.approx(
            composed.get_epsilon_for_delta(delta), rel=2e-4
        )


def test_no_simulation_loses_more_than_is_counted() -> None:
    """Compare the law of the loss with a million draws."""
    epsilon, d = 1.0, 4
    rng = np.random.default_rng(4)
    u = rng.standard_normal((10**6, d))
    u *= rng.standard_gamma(d, (10**6, 1)) / np.linalg.norm(u, axis=1, keepdims=True)
    shift = np.zeros(d)
    shift[0] = epsilon
    loss = np.linalg.norm(u - shift, axis=1) - np.linalg.norm(u, axis=1)
    h, p = loss_distribution(epsilon, d)
    grid = h * (np.arange(len(p)) - len(p) // 2)
    mean, square = float(p @ grid), float(p @ grid**2)
    assert abs(loss.mean() - mean) < 5 * loss.std() / 1000
    assert abs((loss**2).mean() - square) < 5 * (loss**2).std() / 1000
    assert stats.kstest(loss[:20_000], lambda t: np.cumsum(p)[np.searchsorted(grid, t) - 1]).pvalue > 1e-6


def test_it_is_never_more_than_the_sum_and_falls_with_delta() -> None:
    for epsilon, rounds, d in ((0.01, 3, 2), (0.5, 40, 123), (5.0, 100, 1), (100.0, 7, 3), (1.0, 100_000, 50)):
        found = [composed_epsilon(epsilon, rounds, d, delta) for delta in (0.0, 1e-13, 1e-6, 1e-2, 0.5)]
        assert found == sorted(found, reverse=True)
        assert found[0] == rounds * epsilon
        assert composed_epsilon(epsilon, 2 * rounds, d, 1e-2) >= found[3]


@pytest.mark.parametrize(("epsilon", "rounds", "d"), [(0.0, 1, 1), (1.0, 0, 1), (1.0, 1, 0), (math.nan, 1, 1)])
def test_no_noise_no_rounds_and_no_coordinates_are_a_bug(epsilon: float, rounds: int, d: int) -> None:
    with pytest.raises(LocalProtocolError):
        composed_epsilon(epsilon, rounds, d, 1e-5)


@pytest.mark.parametrize(("d", "known"), [(3, 40.9), (5, 29.8), (8, 22.1)])
def test_the_default_psgd_study_costs_what_an_independent_accountant_finds(d: int, known: float) -> None:
    """A hundred rounds of epsilon = 1 at delta = 1e-6: 100 by adding them up, and far less by their composition."""
    epsilon, rounds, step = 1.0, 100, 0.02
    grid = list(range(-round(epsilon / step), round(epsilon / step) + 1))
    deltas = [-math.expm1(-epsilon), *(_delta(epsilon, d, step * j) for j in grid[1:-1]), 0.0]
    pmf = pld_pmf.create_pmf_pessimistic_connect_dots(step, np.array(grid), np.array(deltas))
    oracle = pmf.self_compose(rounds).get_epsilon_for_delta(1e-6)
    assert composed_epsilon(epsilon, rounds, d, 1e-6) == pytest.approx(oracle, rel=1e-3)
    assert oracle == pytest.approx(known, abs=0.06)
