"""A party's share of Gaussian noise: as many shares as are honest add up to enough noise, and not to more."""

from fractions import Fraction
from math import exp

import numpy as np
import pytest
from scipy import stats

from masquerade_core.errors import LocalProtocolError
from masquerade_core.privacy.accounting import delta_of
from masquerade_core.privacy.noise.gaussian_rounds import gaussian_share_sigma
from masquerade_core.privacy.samplers.discrete_gaussian import discrete_gaussian
from masquerade_core.simulation_rng import SimulationRng
from tests.messages import raises
from tests.noise_helpers import P_ACCEPT, P_REJECT, gaussian_law


@pytest.mark.parametrize("honest", [1, 3, 5])
def test_as_many_gaussian_shares_as_are_honest_have_the_sigma_asked_for(honest: int) -> None:
    sigma = Fraction(40)
    share = gaussian_share_sigma(sigma, honest)
    assert 0 <= honest * share**2 - sigma**2 - 9 < Fraction(1, 1000)
    shares = np.array([discrete_gaussian(SimulationRng(23, str(i)), share, 20_000) for i in range(honest)])
    total = shares.sum(axis=0)
    assert stats.norm.cdf(abs(total.mean()) / (40 / np.sqrt(20_000))) < 1 - P_ACCEPT
    for factor, accept in ((1.0, True), (0.7, False), (1.3, False)):  # spread over each step of the grid
        p = stats.kstest(total + np.random.default_rng(1).random(20_000) - 0.5, stats.norm(scale=40.1 * factor).cdf)
        assert p.pvalue > P_ACCEPT if accept else p.pvalue < P_REJECT


def test_a_share_is_never_too_small_for_the_grid() -> None:
    assert gaussian_share_sigma(Fraction(1), 100) == 4


def _delta(law: dict[int, float], shift: tuple[int, int], epsilon: float) -> float:
    """The smallest delta at this epsilon for two independent coordinates of a law, against the same law shifted."""
    reach = max(law)
    p = np.array([law[x] for x in range(-reach, reach + 1)])
    joint, other = (np.outer(np.roll(p, a), np.roll(p, b)) for a, b in ((0, 0), shift))
    return float(np.maximum(joint - exp(epsilon) * other, 0).sum())


@pytest.mark.parametrize("shift", [(1, 0), (1, 1), (3, 4)])
def test_shares_hide_as_well_as_continuous_noise_of_the_sigma_asked_for(shift: tuple[int, int]) -> None:
    """At sigma = 5 grid units the steps of the grid matter; the 9 more in the variance makes up for them."""
    sigma, delta_2 = 5.0, float(np.hypot(*shift))
    padded = gaussian_share_sigma(Fraction(5), 1)
    excess = []
    for epsilon in np.linspace(0, 3 * delta_2 / sigma, 60):
        claimed = delta_of(delta_2 / sigma, epsilon)
        assert _delta(gaussian_law(float(padded), 9), shift, epsilon) <= claimed
        excess.append(_delta(gaussian_law(sigma, 9), shift, epsilon) / claimed)
    if shift == (1, 0):
        assert max(excess) > 1.001  # without the 9 the claim would be false


@pytest.mark.parametrize(("sigma", "honest"), [(Fraction(0), 1), (Fraction(-1), 1), (Fraction(5), 0)])
def test_no_noise_or_nobody_to_draw_it_is_a_bug(sigma: Fraction, honest: int) -> None:
    with raises(LocalProtocolError, "rounds_sigma_refused"):
        gaussian_share_sigma(sigma, honest)
