"""How many neighbours hold shares, and how many open them: against exact fractions, draws, and the four rules."""

from __future__ import annotations

import math
from fractions import Fraction
from math import comb, log2

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from masquerade_core import thresholds as module
from masquerade_core.thresholds import Thresholds, tail_bits, thresholds
from tests.property.strategies import QUICK

TABLE = {  # K: (k, t) at a tenth, a fifth, a third corrupt, a tenth silent
    200: [(76, 57), (102, 82), (134, 114)],
    1_000: [(132, 97), (196, 152), (308, 250)],
    20_000: [(172, 125), (264, 202), (462, 370)],
}


@QUICK
@given(st.integers(1, 80), st.data())
def test_tails_are_those_of_exact_fractions(n: int, data: st.DataObject) -> None:
    marked, drawn = data.draw(st.integers(0, n)), data.draw(st.integers(0, n))
    least = data.draw(st.integers(-2, n + 2))
    ways = sum(comb(marked, i) * comb(n - marked, drawn - i) for i in range(max(least, 0), drawn + 1))
    got = tail_bits(n, marked, drawn, least)
    if not ways:
        assert got == -math.inf
    else:
        assert got == pytest.approx(log2(Fraction(ways, comb(n, drawn))), abs=1e-9)


def test_the_tail_is_what_draws_give() -> None:
    draws = np.random.default_rng(5).hypergeometric(100, 900, 60, size=200_000)
    assert 2 ** tail_bits(1000, 100, 60, 9) == pytest.approx((draws >= 9).mean(), rel=0.02)


@pytest.mark.parametrize("K", TABLE)
def test_the_table_of_the_module(K: int) -> None:
    found = [thresholds(K, corrupt, K // 10) for corrupt in (K // 10, K // 5, K // 3)]
    assert [(row.neighbours, row.threshold) for row in found if row] == TABLE[K]
    shown = ", ".join(f"{k}, {t}" for k, t in TABLE[K]).split(", ")
    (line,) = (line for line in (module.__doc__ or "").splitlines() if line.startswith(f"{K:,} "))
    assert line.replace(",", " ").split()[-6:] == shown


@pytest.mark.parametrize(
    ("K", "corrupt", "silent"), [(200, 2, 20), (1000, 100, 50), (1000, 333, 100), (20_000, 2000, 2000)]
)
def test_the_four_conditions_hold_and_fail_one_step_below(K: int, corrupt: int, silent: int) -> None:
    """Exact tails by integers, in the test's own words."""

    def exact(population: int, marked: int, drawn: int, least: int) -> Fraction:
        ways = sum(comb(marked, i) * comb(population - marked, drawn - i) for i in range(max(least, 0), drawn + 1))
        return Fraction(ways, comb(population, drawn))

    def holds(k: int, t: int) -> bool:
        both = (K + 1) * exact(K - 1, corrupt, k, 2 * t - k)
        parts = Fraction(K * K, 2) * exact(K, corrupt, k // 2, t - k // 2) ** 2
        stops = (K + 1) * exact(K - 1, silent, k, k - t + 1)
        return both <= Fraction(1, 2**81) and parts <= Fraction(1, 2**81) and stops <= Fraction(1, 2**20)

    found = thresholds(K, corrupt, silent)
    assert found is not None
    k, t = found.neighbours, found.threshold
    assert found == Thresholds(k, t, k, t)
    assert holds(k, t)
    assert not any(holds(k - 2, lower) for lower in range((k - 2) // 2, k - 1))


@pytest.mark.parametrize(
    ("K", "corrupt", "silent", "sizes"),
    [
        (5, 0, 1, (4, 3, 5, 3)),
        (5, 1, 1, (4, 3, 5, 4)),
        (3, 0, 1, None),  # two of three are the quorum, but each has one neighbour left where two are needed
        (4, 0, 1, (3, 2, 4, 3)),
        (20, 6, 2, (18, 16, 18, 16)),
        (20, 9, 4, (19, 15, 20, 15)),
        (20, 9, 6, None),
        (20, 0, 10, None),
    ],
)
def test_few_parties_are_all_neighbours(K: int, corrupt: int, silent: int, sizes: tuple[int, ...] | None) -> None:
    assert thresholds(K, corrupt, silent) == (None if sizes is None else Thresholds(*sizes))
    if sizes is not None and sizes[0] == K - 1:
        k, t, committee, quorum = sizes
        assert 2 * t > k + corrupt  # never both masks
        assert 2 * quorum > committee + corrupt  # one set
        assert K - silent >= quorum  # the committee goes on
        assert K - silent - 1 >= t  # and so do everybody's neighbours


def test_it_is_fast_enough_for_a_study() -> None:
    thresholds.cache_clear()
    assert thresholds(20_000, 6_666, 2_000) == Thresholds(462, 370, 462, 370)
