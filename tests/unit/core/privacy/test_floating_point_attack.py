"""Attacks that tell two neighbours apart by the digits of a float.

They succeed on noise as libraries draw it, and fail on the noise of this program. They need no statistics: an output
that one data set cannot produce proves that it was the other one. So no epsilon holds, however large the noise is.
"""

from collections.abc import Callable
from fractions import Fraction
from functools import reduce
from math import atan2, cos, exp, gcd, log, pi, sin, sqrt
from operator import add

import numpy as np
import pytest
from scipy import stats

from masquerade_core.privacy.samplers.discrete_gaussian import discrete_gaussian
from masquerade_core.privacy.samplers.discrete_laplace import discrete_laplace
from masquerade_core.privacy.samplers.l2_laplace import l2_laplace
from masquerade_core.privacy.samplers.rounded_gaussian import gaussian
from masquerade_core.rng import Rng
from masquerade_core.simulation_rng import SimulationRng
from tests.noise_helpers import P_ACCEPT

RELEASES = 2_000
WINDOW = 8
"""Candidates on either side, as far as a few rounding errors can reach."""


# --- The attacks -------------------------------------------------------------------------


def laplace_of_no_uniform(y: float, scale: float) -> bool:
    """Mironov 2012: return whether ``y`` differs from -+scale log(u) in floats for all multiples u of 2^-53.

    Noise by the inverse distribution function takes 2^53 values, with gaps. The candidates near y are computed from y.
    """
    near = round(exp(-abs(y) / scale) * 2**53)
    candidates = range(max(near - WINDOW, 1), min(near + WINDOW, 2**53) + 1)
    return all(scale * log(k * 2.0**-53) != -abs(y) for k in candidates)


def box_muller_of_no_uniforms(first: float, second: float) -> bool:
    """Jin et al. 2022: the same for two normals that come from one pair of uniforms, multiples of 2^-53."""
    k1 = round(exp(-(first * first + second * second) / 2) * 2**53)
    k2 = round(atan2(second, first) / (2 * pi) % 1 * 2**53)
    for i in range(max(k1 - WINDOW, 1), k1 + WINDOW + 1):
        radius = sqrt(-2 * log(i * 2.0**-53))
        for j in range(k2 - WINDOW, k2 + WINDOW + 1):
            turn = 2 * pi * (j * 2.0**-53)
            if (radius * cos(turn), radius * sin(turn)) == (first, second):
                return False
    return True


def finer_than_a_sum_with_one(y: float) -> bool:
    """Haney et al. 2022: return whether ``y`` differs from 1 + z in floats for every z.

    Where abs(y) <= 1/2, z lies between -3/2 and -1/2 and is a multiple of 2^-53, and the sum is exact.
    """
    return abs(y) <= 0.5 and (y * 2.0**53) % 1 != 0


# --- On noise as libraries draw it ----------------------------------------------------------


def test_numpy_s_laplace_noise_gives_away_which_of_two_neighbours_it_was() -> None:
    generator = np.random.default_rng(1)
    for scale in (1.0, 10.0, 1000.0):
        zero, one = (f + generator.laplace(scale=scale, size=RELEASES) for f in (0.0, 1.0))
        assert not any(laplace_of_no_uniform(y, scale) for y in zero.tolist())
        assert np.mean([laplace_of_no_uniform(y, scale) for y in one.tolist()]) > 0.3


def test_a_pair_of_normals_in_floats_gives_it_away_too() -> None:
    generator = np.random.default_rng(2)
    found = {0.0: 0, 1.0: 0}
    for f in found:
        for _ in range(150):
            radius, turn = sqrt(-2 * log(1 - generator.random())), 2 * pi * generator.random()
            found[f] += box_muller_of_no_uniforms(f + radius * cos(turn), f + radius * sin(turn))
    assert found[0.0] == 0
    assert found[1.0] > 75


@pytest.mark.parametrize("draw", ["normal", "laplace"])
def test_numpy_s_noise_is_finer_than_what_another_neighbour_can_release(draw: str) -> None:
    sample = getattr(np.random.default_rng(3), draw)
    zero, one = (f + sample(size=RELEASES) for f in (0.0, 1.0))
    assert not any(finer_than_a_sum_with_one(y) for y in one.tolist())
    assert np.mean([finer_than_a_sum_with_one(y) for y in zero.tolist()]) > 0.2


# --- On the noise of this program -----------------------------------------------------------------------------------

Sampler = Callable[[Rng, Fraction, int], list[int]]
"""It takes the source, the rough width of the noise in grid units, and the number of draws."""


EXACT: dict[str, Sampler] = {
    "discrete_laplace": discrete_laplace,
    "discrete_gaussian": discrete_gaussian,
}
"""Samplers whose law gives every integer a positive probability."""

ROUNDED: dict[str, Sampler] = {
    "gaussian": lambda rng, width, size: gaussian(rng, Fraction(1), size, width),
    "l2_laplace": lambda rng, width, size: [
        v for _ in range(size // 2) for v in l2_laplace(rng, Fraction(1), 2, width)
    ],
}
"""Samplers of rounded continuous laws, up to a total variation distance of 2^-60."""

ALL = EXACT | ROUNDED


@pytest.mark.parametrize("name", sorted(ALL))
def test_neighbours_reach_the_same_integers(name: str) -> None:
    """At a width of three grid units, every integer of a window is reached from either neighbour: there is no gap."""
    reached = []
    for q in (1000, 1001):
        draws = ALL[name](SimulationRng(4, f"{name} {q}"), Fraction(3), 2_000)
        reached.append({q + v for v in draws} & set(range(997, 1005)))
    assert reached[0] == reached[1] == set(range(997, 1005))


@pytest.mark.parametrize("name", sorted(ALL))
@pytest.mark.parametrize("width", [Fraction(2**41, 7), Fraction(2) ** 130])
def test_no_remainder_of_a_release_tells_the_neighbours_apart(name: str, width: Fraction) -> None:
    """The lowest digits are uniform, for small noise and for very large noise."""
    size = 600
    draws = [v for v in ALL[name](SimulationRng(5, f"{name} {width}"), width, size) if abs(v) > 10_000]
    assert len(draws) > size / 2
    for m in (2, 3, 5, 16):
        counts = [np.bincount([(q + v) % m for v in draws], minlength=m) for q in (1000, 1001)]
        for count in counts:
            assert stats.chisquare(count).pvalue > P_ACCEPT
    assert gcd(*draws) == 1


def test_noise_that_is_multiplied_afterwards_would_tell_them_apart_every_time() -> None:
    """This shows what the test above is for: K times integer noise keeps the remainder of the number below it."""
    K, draws = 5, discrete_laplace(SimulationRng(6), Fraction(2**41, 7), 600)
    assert all((1000 + K * v) % K == 0 for v in draws)
    assert all((1001 + K * v) % K == 1 for v in draws)
    assert stats.chisquare(np.bincount([(1000 + K * v) % K for v in draws], minlength=K)).pvalue < P_ACCEPT


@pytest.mark.parametrize("name", sorted(ALL))
def test_the_attacks_find_nothing_in_a_release_on_the_grid(name: str) -> None:
    """A release is q + x in units of 2^-28. The number 1 is on the grid, so 1 + z and z are on the grid as well.

    The attack by precision finds nothing. The attack by candidates says the same about both neighbours.
    """
    unit = 2**28
    draws = [v for v in ALL[name](SimulationRng(7, name), Fraction(unit), 600) if 2**20 < abs(v) < 2**40]
    zero, one = ([(q + v) / unit for v in draws] for q in (0, unit))
    for releases in (zero, one):
        assert not any(finer_than_a_sum_with_one(y) for y in releases)
    told = [np.mean([laplace_of_no_uniform(y, 1.0) for y in releases]) for releases in (zero, one)]
    assert abs(told[0] - told[1]) < 0.2  # a number of 28 digits is the logarithm of a float, or is not, by chance alone


def test_a_sum_in_integers_does_not_depend_on_the_order_and_one_in_floats_does() -> None:
    """Casacuberta et al. 2022: a sum in floats is more sensitive to one value than the exact sum."""
    values = [1.0] + [2.0**-53] * 1024
    assert reduce(add, sorted(values)) - reduce(add, values) == 2.0**-43
    integers = [round(v * 2**53) for v in values]
    assert reduce(add, sorted(integers)) == reduce(add, integers)
