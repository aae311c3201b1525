"""Discrete Gaussian noise: its law and no other, its bound, its cost."""

import math
from collections.abc import Mapping
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import ArrayLike
from scipy import stats

from masquerade_core.errors import LocalProtocolError
from masquerade_core.privacy.samplers import discrete_gaussian as module
from masquerade_core.privacy.samplers.discrete_gaussian import (
    discrete_gaussian,
    discrete_gaussian_array,
    discrete_gaussian_tail_bound,
)
from masquerade_core.rng import FromBytes, SystemRng
from masquerade_core.simulation_rng import SimulationRng
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


def test_an_array_of_noise_is_the_list_of_it_and_has_no_larger_scale() -> None:
    drawn = discrete_gaussian_array(SimulationRng(3), Fraction(1 << 32), 100_000)
    assert drawn.dtype == np.int64
    assert drawn.tolist() == discrete_gaussian(SimulationRng(3), Fraction(1 << 32), 100_000)
    with raises(LocalProtocolError, "noise_beyond_arrays"):
        discrete_gaussian_array(SimulationRng(3), Fraction(1 << 52), 1)
    assert len(discrete_gaussian(SimulationRng(3), Fraction(1 << 52), 1)) == 1


@pytest.mark.parametrize("sigma", [Fraction(1, 2), Fraction(7, 3), Fraction(41, 4)])
def test_discrete_gaussian_noise_has_its_law_and_no_other_scale(sigma: Fraction) -> None:
    draws = discrete_gaussian(SimulationRng(20, f"{sigma}"), sigma, 200_000)
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


def test_noise_that_no_float_can_hold_has_the_continuous_law() -> None:
    sigma = Fraction(2**57, 3)
    draws = np.array([float(x) for x in discrete_gaussian(SimulationRng(22), sigma, 10_000)])
    assert stats.kstest(draws, stats.norm(scale=float(sigma)).cdf).pvalue > P_ACCEPT
    assert stats.kstest(draws, stats.norm(scale=1.3 * float(sigma)).cdf).pvalue < P_REJECT


@pytest.mark.parametrize(
    "sigma", [Fraction(1, 10**9), Fraction(1, 3), Fraction(7, 3), Fraction(2**40, 7), Fraction(2**51)]
)
def test_floats_settle_what_integers_settle(sigma: Fraction, monkeypatch: pytest.MonkeyPatch) -> None:
    mostly_floats = discrete_gaussian(SimulationRng(23), sigma, 200)
    monkeypatch.setattr(module, "_ERROR", 2.0)  # no difference is greater, so that every decision is one of integers
    assert discrete_gaussian(SimulationRng(23), sigma, 200) == mostly_floats


class _Said(FromBytes):
    """A source that gives these bytes."""

    def __init__(self, said: bytes) -> None:
        self.said = said

    def bytes(self, n: int) -> bytes:
        given, self.said = self.said[:n], self.said[n:]
        assert len(given) == n
        return given


def _cell(exponent: Fraction, bits: int) -> int:
    """floor(2^bits exp(-exponent)), from another library."""
    with localcontext() as context:
        context.prec = 150
        return int((Decimal(-exponent.numerator) / exponent.denominator).exp() * 2**bits)


@given(
    st.integers(0, 42_957).map(lambda part: Fraction(part, 999)),
    st.integers(-3, 3),
    st.binary(min_size=8, max_size=8),
    st.integers(-1, 1),
)
def test_a_decision_draws_as_many_bits_as_it_needs(exponent: Fraction, near: int, more: bytes, nearer: int) -> None:
    edge = _cell(exponent, 64)
    word = min(max(edge + near, 0), 2**64 - 1)
    further = _cell(exponent, 192) % 2**64
    for second in (more, ((_cell(exponent, 128) + nearer) % 2**64).to_bytes(8, "big")):
        source = _Said(second + further.to_bytes(8, "big") + bytes(8))
        below = module._Uniform(source, word).below_exp(exponent.numerator, exponent.denominator)
        number = int.from_bytes(word.to_bytes(8, "big") + second + further.to_bytes(8, "big") + bytes(8), "big")
        assert below == (number < _cell(exponent, 256))


@pytest.mark.parametrize(("k", "above"), [(1, 0), (2, 0), (30, 0), (43, 0), (1, -1), (1, 1), (30, 1), (43, -1)])
def test_a_uniform_number_beside_a_power_of_e_is_put_on_the_right_side(k: int, above: int) -> None:
    word = _cell(Fraction(k), 64) + above
    for more in (bytes(16), b"\xff" * 16):
        (v,) = module._geometric(_Said(word.to_bytes(8, "little") + more), 1)
        number = int.from_bytes(word.to_bytes(8, "big") + more, "big")
        assert v == sum(number < _cell(Fraction(j), 192) for j in range(1, 60))


def test_a_uniform_number_that_begins_with_64_zeros_is_drawn_on() -> None:
    (v,) = module._geometric(_Said(bytes(8) + b"\x00\x00" + b"\xff" * 6 + b"\xff" * 64), 1)
    assert v == math.floor(80 * math.log(2))


def test_noise_is_cheap() -> None:
    sigma = Fraction(2**30) * 577 / 1000
    assert calls(lambda: discrete_gaussian(SimulationRng(1), sigma, 123)) < 600
    assert calls(lambda: discrete_gaussian(SimulationRng(1), sigma, 12_300)) < 600
