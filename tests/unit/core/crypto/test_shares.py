"""Shares, permutations from a common seed, and pairwise masks."""

import math
from collections import Counter
from itertools import permutations

import pytest

from masquerade_core.crypto.shares import invert, mask, permutation, random_permutation, share
from masquerade_core.simulation_rng import SimulationRng

M33 = 1 << 33


def chi2(counts: Counter[int], cells: int) -> float:
    expected = counts.total() / cells
    return sum((counts[i] - expected) ** 2 / expected for i in range(cells))


@pytest.mark.parametrize("value", [0, 1, M33 - 1, M33 // 2, 12345])
def test_shares_add_up(value: int) -> None:
    rng = SimulationRng(value)
    for _ in range(50):
        a, b = share(rng, value, M33)
        assert 0 <= a < M33
        assert 0 <= b < M33
        assert (a + b) % M33 == value


@pytest.mark.parametrize("modulus", [M33, (1 << 33) - 9, 5 << 30])
@pytest.mark.parametrize("value", [0, 7, (1 << 32) - 1])
@pytest.mark.parametrize("which", [0, 1])
def test_either_share_alone_is_uniform_whatever_it_shares(modulus: int, value: int, which: int) -> None:
    rng, draws, cells = SimulationRng(value, f"{modulus} {which}"), 4000, 16
    drawn = [share(rng, value, modulus)[which] for _ in range(draws)]
    # 15 degrees of freedom: 52.2 is passed by chance once in 200,000.
    assert chi2(Counter(v % cells for v in drawn), cells) < 52.2
    assert chi2(Counter(v * cells // modulus for v in drawn), cells) < 52.2


@pytest.mark.parametrize("size", [0, 1, 2, 3, 50])
def test_a_permutation_is_one_and_its_inverse_undoes_it(size: int) -> None:
    p = random_permutation(SimulationRng(size), size)
    assert sorted(p) == list(range(size))
    assert [invert(p)[p[i]] for i in range(size)] == list(range(size))
    assert [p[invert(p)[i]] for i in range(size)] == list(range(size))


def test_all_permutations_come_equally_often() -> None:
    rng, draws = SimulationRng(0), 4800
    order = {p: i for i, p in enumerate(permutations(range(4)))}
    drawn = Counter(order[random_permutation(rng, 4)] for _ in range(draws))
    assert chi2(drawn, 24) < 66  # 23 degrees of freedom: p = 5e-6


def test_public_permutations_come_equally_often_over_seeds() -> None:
    order = {p: i for i, p in enumerate(permutations(range(4)))}
    drawn = Counter(order[permutation(i.to_bytes(32, "big"), "pi1", 4)] for i in range(4800))
    assert chi2(drawn, 24) < 66


def test_one_seed_gives_everybody_one_permutation_and_another_label_another() -> None:
    seed = bytes(32)
    assert permutation(seed, "pi1", 50) == permutation(seed, "pi1", 50)
    assert permutation(seed, "pi1", 50) != permutation(seed, "tie", 50)
    assert permutation(seed, "pi1", 50) != permutation(bytes(31) + b"\1", "pi1", 50)


def test_ties_and_pi1_are_independent() -> None:
    pairs: Counter[int] = Counter()
    for i in range(3600):
        seed = i.to_bytes(32, "big")
        pairs[permutation(seed, "pi1", 2)[0] * 2 + permutation(seed, "tie", 2)[0]] += 1
    assert chi2(pairs, 4) < 28  # 3 degrees of freedom: p = 4e-6


def test_masks_are_the_same_on_both_sides_and_differ_by_key_and_label() -> None:
    n = (1 << 511) + 9
    one = mask(b"k" * 32, b"zero", n, 5)
    assert one == mask(b"k" * 32, b"zero", n, 5)
    assert len(set(one)) == 5
    assert all(0 <= v < n for v in one)
    assert mask(b"k" * 32, b"zero", n, 3) == one[:3]
    assert not set(one) & set(mask(b"l" * 32, b"zero", n, 5))
    assert not set(one) & set(mask(b"k" * 32, b"one", n, 5))


def test_masks_are_uniform_even_where_the_modulus_is_far_from_a_power_of_two() -> None:
    values = mask(b"k", b"", 3 << 60, 6000)
    assert chi2(Counter(v * 12 // (3 << 60) for v in values), 12) < 46  # 11 degrees of freedom: p = 3e-6
    assert math.isclose(sum(v % 2 for v in values) / 6000, 0.5, abs_tol=0.03)
