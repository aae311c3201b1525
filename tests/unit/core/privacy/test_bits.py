"""Random bits for samplers: the buffer changes no draw, and the exact coin has its chance."""

from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from masquerade_core.errors import LocalProtocolError
from masquerade_core.privacy.samplers.many_bits import uniforms
from masquerade_core.rng import Bits, check_positive
from masquerade_core.simulation_rng import SimulationRng
from tests.messages import raises
from tests.noise_helpers import P_ACCEPT


def test_a_coin_for_exp_minus_gamma_is_fair() -> None:
    bits = Bits(SimulationRng(8))
    for numerator, denominator in ((0, 1), (1, 1), (1, 3), (10**20, 3 * 10**20)):
        heads = sum(bits.exp_minus(numerator, denominator) for _ in range(20_000))
        chance = float(np.exp(-numerator / denominator))
        assert stats.binomtest(heads, 20_000, chance).pvalue > P_ACCEPT


@pytest.mark.parametrize("k", [1, 7, 8, 53, 384, 5_000])
def test_many_integers_at_once_are_those_that_come_one_by_one(k: int) -> None:
    at_once, one_by_one = Bits(SimulationRng(30)), Bits(SimulationRng(30))
    for bits in (at_once, one_by_one):
        bits.bytes(3)  # from the middle of a chunk on
    values = at_once.whole(k, 300)
    assert values == [one_by_one.bits(k) for _ in range(300)]
    assert max(values).bit_length() == k
    assert at_once.bits(64) == one_by_one.bits(64)


def test_uniform_numbers_leave_0_out_and_reach_1() -> None:
    drawn = [float(u) for u in uniforms(Bits(SimulationRng(31)), 3, 2_000)]
    assert sorted(set(drawn)) == [i / 8 for i in range(1, 9)]
    assert stats.chisquare(np.bincount([round(u * 8) - 1 for u in drawn], minlength=8)).pvalue > P_ACCEPT


def test_one_scale_of_several_that_is_not_positive_is_a_bug() -> None:
    check_positive(Fraction(1, 10**9), Fraction(7))
    for bad in (Fraction(0), Fraction(-1)):
        with raises(LocalProtocolError, "noise_scale_not_positive"):
            check_positive(Fraction(1), bad)
