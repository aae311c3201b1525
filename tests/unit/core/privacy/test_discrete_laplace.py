"""Discrete Laplace noise: its law and no other, its bound, its cost."""

from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from masquerade_core.errors import LocalProtocolError
from masquerade_core.privacy.samplers.discrete_laplace import discrete_laplace, tail_bound
from masquerade_core.rng import SystemRng
from masquerade_core.simulation_rng import SimulationRng
from tests.helpers import calls
from tests.messages import raises
from tests.noise_helpers import P_ACCEPT, P_REJECT


def _chi_square(draws: NDArray[np.int64], scale: float) -> float:
    """The p-value of draws under the discrete Laplace law of this scale; at least 5 are expected in each cell."""
    law = stats.dlaplace(1 / scale)
    reach = int(law.ppf(1 - 10 / len(draws)))
    cells = np.clip(draws, -reach, reach)
    observed = np.bincount(cells + reach, minlength=2 * reach + 1)
    expected = law.pmf(np.arange(-reach, reach + 1))
    expected[0] = expected[-1] = law.cdf(-reach)
    return float(stats.chisquare(observed, expected / expected.sum() * len(draws)).pvalue)


@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction(7, 2), Fraction(29)])
def test_discrete_laplace_noise_has_its_law_and_no_other_scale(scale: Fraction) -> None:
    draws = np.array(discrete_laplace(SimulationRng(5, f"{scale}"), scale, 60_000))
    assert _chi_square(draws, float(scale)) > P_ACCEPT
    assert _chi_square(draws, float(scale) * 0.7) < P_REJECT
    assert _chi_square(draws, float(scale) * 1.3) < P_REJECT


def test_discrete_laplace_noise_on_a_fine_grid_has_the_continuous_law() -> None:
    scale = Fraction(20 * 2**32 * 1000, 1237)
    draws = np.array(discrete_laplace(SimulationRng(6), scale, 30_000), dtype=float)
    for factor, accept in ((1.0, True), (0.7, False), (1.3, False)):
        p = stats.kstest(draws, stats.laplace(scale=float(scale) * factor).cdf).pvalue
        assert p > P_ACCEPT if accept else p < P_REJECT
    halves = stats.spearmanr(draws[::2], draws[1::2]).pvalue
    assert halves > P_ACCEPT
    assert len(set(draws.tolist())) == len(draws)


@pytest.mark.parametrize("scale", [Fraction(1, 7), Fraction(1), Fraction(10, 3), Fraction(2**45, 12345)])
@pytest.mark.parametrize("count", [1, 123])
def test_the_tail_bound_is_the_smallest(scale: Fraction, count: int) -> None:
    with localcontext() as context:
        context.prec = 120
        q = (-Decimal(scale.denominator) / Decimal(scale.numerator)).exp()

        def tail(B: int) -> Decimal:
            return count * 2 * (Decimal(B + 1) * q.ln()).exp() / (1 + q)

        B = tail_bound(scale, count=count)
        limit = Decimal(2) ** -60
        assert tail(B) <= limit
        assert B == 0 or tail(B - 1) > limit


def test_a_tail_bound_of_few_bits_is_exceeded_as_often_as_it_says() -> None:
    scale = Fraction(50)
    B = tail_bound(scale, bits=5)
    draws = np.abs(discrete_laplace(SimulationRng(12), scale, 50_000))
    beyond = int((draws > B).sum())
    assert stats.binomtest(beyond, 50_000, 2.0**-5, alternative="greater").pvalue > P_ACCEPT
    assert stats.binomtest(beyond, 50_000, 2.0**-6, alternative="greater").pvalue < P_ACCEPT


def test_bounds_are_wider_for_less_data() -> None:
    scales = [Fraction(10**12, n) for n in (10, 100, 101)]
    assert sorted(map(tail_bound, scales)) == [tail_bound(s) for s in reversed(scales)]


def test_noise_repeats_with_a_seed_and_never_without() -> None:
    scale = Fraction(2**40)
    assert discrete_laplace(SimulationRng(1), scale, 5) == discrete_laplace(SimulationRng(1), scale, 5)
    assert discrete_laplace(SimulationRng(1), scale, 5) != discrete_laplace(SimulationRng(2), scale, 5)
    assert discrete_laplace(SystemRng(), scale, 5) != discrete_laplace(SystemRng(), scale, 5)


@pytest.mark.parametrize("bad", [Fraction(0), Fraction(-1)])
def test_no_noise_is_a_bug(bad: Fraction) -> None:
    with raises(LocalProtocolError, "noise_scale_not_positive"):
        discrete_laplace(SystemRng(), bad, 1)
    with raises(LocalProtocolError, "noise_scale_not_positive"):
        tail_bound(bad)


def test_noise_is_cheap() -> None:
    scale = Fraction(2**40 * 10**17, 123456789012345678)
    assert calls(lambda: discrete_laplace(SimulationRng(1), scale, 123)) < 12_000  # some 8,500, depending on the draw
