"""Shares of noise: each law is accepted at its own scale and rejected at another, and so are sums of shares."""

from collections.abc import Iterator, Mapping
from decimal import Decimal, localcontext
from fractions import Fraction
from math import exp

import numpy as np
import pytest
from numpy.typing import ArrayLike
from opendp import prelude as dp
from scipy import stats

from masquerade_core.errors import LocalProtocolError
from masquerade_core.privacy.accounting.closeness import closeness_of_sum
from masquerade_core.privacy.accounting.gaussian_dp import delta_of
from masquerade_core.privacy.noise.shares import gaussian_share_sigma
from masquerade_core.privacy.samplers.discrete_gaussian import discrete_gaussian, discrete_gaussian_tail_bound
from masquerade_core.rng import SimulationRng, SystemRng
from tests.helpers import calls

P_ACCEPT = 1e-9
"""A right sampler fails a test once in a thousand million runs."""

P_REJECT = 1e-20
"""A wrong scale is noticed beyond all doubt."""


@pytest.fixture(autouse=True)
def _opendp() -> Iterator[None]:
    dp.enable_features("contrib")
    yield
    dp.disable_features("contrib")


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


def _gaussian_law(sigma: float, reach: int = 40) -> dict[int, float]:
    weights = {x: exp(-x * x / (2 * sigma * sigma)) for x in range(-int(reach * sigma) - 2, int(reach * sigma) + 3)}
    total = sum(weights.values())
    return {x: w / total for x, w in weights.items()}


@pytest.mark.parametrize("sigma", [Fraction(1, 2), Fraction(7, 3), Fraction(41, 4)])
def test_discrete_gaussian_noise_has_its_law_and_no_other_scale(sigma: Fraction) -> None:
    draws = discrete_gaussian(SimulationRng(20, f"{sigma}"), sigma, 20_000)
    assert _fits(draws, _gaussian_law(float(sigma))) > P_ACCEPT
    assert _fits(draws, _gaussian_law(float(sigma) * 0.7)) < P_REJECT
    assert _fits(draws, _gaussian_law(float(sigma) * 1.3)) < P_REJECT


def test_discrete_gaussian_noise_on_a_fine_grid_has_the_continuous_law() -> None:
    sigma = Fraction(2**60, 1237 * 10**5)
    draws = np.array(discrete_gaussian(SimulationRng(21), sigma, 10_000), dtype=float)
    for factor, accept in ((1.0, True), (0.7, False), (1.3, False)):
        p = stats.kstest(draws, stats.norm(scale=float(sigma) * factor).cdf).pvalue
        assert p > P_ACCEPT if accept else p < P_REJECT
    assert stats.spearmanr(draws[::2], draws[1::2]).pvalue > P_ACCEPT
    assert stats.chisquare(np.bincount(draws.astype(np.int64) % 16, minlength=16)).pvalue > P_ACCEPT


def test_discrete_gaussian_noise_is_that_of_another_library() -> None:
    """OpenDP's exact sampler cannot be seeded, so two samples are compared."""
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.l2_distance(T=float)
    for factor, accept in ((1.0, True), (0.7, False), (1.3, False)):
        theirs = dp.m.make_gaussian(*space, scale=6.0 * factor)([0] * 10_000)
        ours = discrete_gaussian(SimulationRng(22), Fraction(6), 10_000)
        table = np.array([np.bincount(np.clip(x, -18, 18) + 18, minlength=37) for x in (ours, theirs)])
        p = stats.chi2_contingency(table).pvalue
        assert p > P_ACCEPT if accept else p < P_REJECT


@pytest.mark.parametrize("honest", [1, 3, 5])
def test_as_many_gaussian_shares_as_are_honest_have_the_sigma_asked_for(honest: int) -> None:
    sigma = Fraction(40)
    share = gaussian_share_sigma(sigma, honest)
    assert 0 <= honest * share**2 - sigma**2 - 9 < Fraction(1, 1000)
    shares = np.array([discrete_gaussian(SimulationRng(23, str(i)), share, 5_000) for i in range(honest)])
    total = shares.sum(axis=0)
    assert stats.norm.cdf(abs(total.mean()) / (40 / np.sqrt(5_000))) < 1 - P_ACCEPT
    for factor, accept in ((1.0, True), (0.7, False), (1.3, False)):  # continuous but for steps of a fortieth
        p = stats.kstest(total + np.random.default_rng(1).random(5_000) - 0.5, stats.norm(scale=40.1 * factor).cdf)
        assert p.pvalue > P_ACCEPT if accept else p.pvalue < P_REJECT


def test_a_share_is_never_too_small_for_the_grid() -> None:
    assert gaussian_share_sigma(Fraction(1), 100) == 4
    with pytest.raises(LocalProtocolError):
        closeness_of_sum(Fraction(299, 100), 2)


def _exact_law(variance: Decimal, reach: int) -> list[Decimal]:
    weights = [(-Decimal(x * x) / (2 * variance)).exp() for x in range(-reach, reach + 1)]
    total = sum(weights)
    return [w / total for w in weights]


def test_the_sum_of_shares_is_as_close_as_it_says() -> None:
    """Two shares of sigma 3, convolved in 80 digits; the bound is not idle either."""
    reach, gap = 60, Decimal(0)
    with localcontext() as context:
        context.prec = 80
        one = _exact_law(Decimal(9), reach)
        two = _exact_law(Decimal(18), 2 * reach)
        for x in range(-20, 21):
            pairs = [(y, x - y) for y in range(-reach, reach + 1) if abs(x - y) <= reach]
            total = sum((one[y + reach] * one[z + reach] for y, z in pairs), Decimal(0))
            gap += abs(total - two[x + 2 * reach]) / 2
    tau = closeness_of_sum(Fraction(3), 2)
    assert tau / 100 < gap < tau
    assert closeness_of_sum(Fraction(3), 2, 123) == pytest.approx(123 * tau)
    assert tau < closeness_of_sum(Fraction(3), 3) < 2 * tau
    assert 0 < closeness_of_sum(Fraction(2**30), 3) < closeness_of_sum(Fraction(4), 3)


def _delta(law: dict[int, float], shift: tuple[int, int], epsilon: float) -> float:
    """The hockey stick of two independent coordinates of this law against themselves shifted."""
    reach = max(law)
    p = np.array([law[x] for x in range(-reach, reach + 1)])
    joint, other = (np.outer(np.roll(p, a), np.roll(p, b)) for a, b in ((0, 0), shift))
    return float(np.maximum(joint - exp(epsilon) * other, 0).sum())


@pytest.mark.parametrize("shift", [(1, 0), (1, 1), (3, 4)])
def test_shares_hide_as_well_as_continuous_noise_of_the_sigma_asked_for(shift: tuple[int, int]) -> None:
    """At 1/mu = sigma = 5 grid units the steps of the grid show; the 9 in the variance pays for them."""
    sigma, delta_2 = 5.0, float(np.hypot(*shift))
    padded = gaussian_share_sigma(Fraction(5), 1)
    excess = []
    for epsilon in np.linspace(0, 3 * delta_2 / sigma, 60):
        claimed = delta_of(delta_2 / sigma, epsilon)
        assert _delta(_gaussian_law(float(padded), 9), shift, epsilon) <= claimed
        excess.append(_delta(_gaussian_law(sigma, 9), shift, epsilon) / claimed)
    if shift == (1, 0):
        assert max(excess) > 1.001  # without the 9 the claim would be false


@pytest.mark.parametrize("sigma", [Fraction(1, 3), Fraction(10), Fraction(2**40, 12345)])
def test_the_tail_of_discrete_gaussian_noise_is_bounded(sigma: Fraction) -> None:
    B = discrete_gaussian_tail_bound(sigma, 123)
    if sigma < 20:
        with localcontext() as context:
            context.prec = 60
            law = _exact_law((Decimal(sigma.numerator) / sigma.denominator) ** 2, 20 * (int(sigma) + 1))
            middle = len(law) // 2
            assert 2 * 123 * sum(law[middle + B + 1 :]) <= Decimal(2) ** -60
            assert B < 2 or 2 * 123 * sum(law[middle + B - 1 :]) > Decimal(2) ** -60
    else:
        assert stats.norm.logsf(B / float(sigma)) <= np.log(2.0**-61 / 123)
        assert stats.norm.logsf((B - 1) / float(sigma) - 1e-6) > np.log(2.0**-61 / 123)


@pytest.mark.parametrize("bad", [Fraction(0), Fraction(-1)])
def test_no_noise_is_a_bug(bad: Fraction) -> None:
    for call in (
        lambda: discrete_gaussian(SystemRng(), bad, 1),
        lambda: discrete_gaussian_tail_bound(bad, 1),
        lambda: gaussian_share_sigma(bad, 1),
        lambda: gaussian_share_sigma(Fraction(5), 0),
    ):
        with pytest.raises(LocalProtocolError):
            call()


def test_noise_is_cheap() -> None:
    sigma = gaussian_share_sigma(Fraction(2**30), 3)
    assert calls(lambda: discrete_gaussian(SimulationRng(1), sigma, 123)) < 20_000  # some 14,500, as it draws
