"""Discrete Gaussian noise: its law and no other, its bound, its cost."""

from collections.abc import Mapping
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import ArrayLike
from scipy import stats

from masquerade_core.errors import LocalProtocolError
from masquerade_core.privacy.samplers.discrete_gaussian import discrete_gaussian, discrete_gaussian_tail_bound
from masquerade_core.rng import SimulationRng, SystemRng
from tests.helpers import calls
from tests.messages import raises
from tests.noise_helpers import P_ACCEPT, P_REJECT, exact_gaussian_law, gaussian_law


def _fits(draws: ArrayLike, law: Mapping[int, float]) -> float:
    """The p-value of draws under a law on the integers; at least 5 are expected in each cell."""
    values = np.asarray(draws, dtype=np.int64)
    points = np.array(sorted(law))
    chances = np.array([law[int(x)] for x in points])
    inner = points[chances * len(values) > 10]
    low, high = int(inner[0]), int(inner[-1])
    observed = np.bincount(np.clip(values, low, high) - low, minlength=high - low + 1)
    expected = chances[(points >= low) & (points <= high)]
    expected[0] += chances[points < low].sum()
    expected[-1] += chances[points > high].sum()
    return float(stats.chisquare(observed, expected / expected.sum() * len(values)).pvalue)


@pytest.mark.parametrize("sigma", [Fraction(1, 2), Fraction(7, 3), Fraction(41, 4)])
def test_discrete_gaussian_noise_has_its_law_and_no_other_scale(sigma: Fraction) -> None:
    draws = discrete_gaussian(SimulationRng(20, f"{sigma}"), sigma, 20_000)
    assert _fits(draws, gaussian_law(float(sigma))) > P_ACCEPT
    assert _fits(draws, gaussian_law(float(sigma) * 0.7)) < P_REJECT
    assert _fits(draws, gaussian_law(float(sigma) * 1.3)) < P_REJECT


def test_discrete_gaussian_noise_on_a_fine_grid_has_the_continuous_law() -> None:
    sigma = Fraction(2**60, 1237 * 10**5)
    draws = np.array(discrete_gaussian(SimulationRng(21), sigma, 10_000), dtype=float)
    for factor, accept in ((1.0, True), (0.7, False), (1.3, False)):
        p = stats.kstest(draws, stats.norm(scale=float(sigma) * factor).cdf).pvalue
        assert p > P_ACCEPT if accept else p < P_REJECT
    assert stats.spearmanr(draws[::2], draws[1::2]).pvalue > P_ACCEPT
    assert stats.chisquare(np.bincount(draws.astype(np.int64) % 16, minlength=16)).pvalue > P_ACCEPT


@pytest.mark.parametrize("sigma", [Fraction(1, 3), Fraction(10), Fraction(2**40, 12345)])
def test_the_tail_of_discrete_gaussian_noise_is_bounded(sigma: Fraction) -> None:
    B = discrete_gaussian_tail_bound(sigma, 123)
    if sigma < 20:
        with localcontext() as context:
            context.prec = 60
            law = exact_gaussian_law((Decimal(sigma.numerator) / sigma.denominator) ** 2, 20 * (int(sigma) + 1))
            middle = len(law) // 2
            assert 2 * 123 * sum(law[middle + B + 1 :]) <= Decimal(2) ** -60
            assert B < 2 or 2 * 123 * sum(law[middle + B - 1 :]) > Decimal(2) ** -60
    else:
        assert stats.norm.logsf(B / float(sigma)) <= np.log(2.0**-61 / 123)
        assert stats.norm.logsf((B - 1) / float(sigma) - 1e-6) > np.log(2.0**-61 / 123)


@pytest.mark.parametrize("bad", [Fraction(0), Fraction(-1)])
def test_no_noise_is_a_bug(bad: Fraction) -> None:
    with raises(LocalProtocolError, "noise_scale_not_positive"):
        discrete_gaussian(SystemRng(), bad, 1)
    with raises(LocalProtocolError, "noise_scale_not_positive"):
        discrete_gaussian_tail_bound(bad, 1)
    with raises(LocalProtocolError, "noise_bound_without_coordinates"):
        discrete_gaussian_tail_bound(Fraction(5), 0)


def test_noise_is_cheap() -> None:
    sigma = Fraction(2**30) * 577 / 1000
    assert calls(lambda: discrete_gaussian(SimulationRng(1), sigma, 123)) < 20_000  # some 14,500, depending on the draw
