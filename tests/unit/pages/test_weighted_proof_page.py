"""The numbers in docs/privacy/weighted-dp.md are those that the code computes, and the tests that it names exist."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from masquerade_core.privacy.accounting import epsilon_of, mu_of
from masquerade_core.privacy.noise.local_descent import (
    MOST_ROUNDED_RECORDS,
    ROUNDING,
    descent_sigma,
    exact_mu,
    local_descent_noise,
)
from masquerade_protocols.blocks import local_descent
from tests.pages import Page, defined_tests

PAGE = Page("docs/privacy/weighted-dp.md")

N, M, T, DELTA = 45_222, 32, 1000, 1e-3
CLAIMED = (0.01, 0.05, 0.1, 0.25)


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("a secure sum in every round, even split", 1 / math.sqrt(M)),
        ("**the published algorithm**, even split", 1 / M),
        ("a party with 1/128 of all records, the default floor", 1 / (4 * M)),
        ("a party with 200 records", 200 / N),
    ],
)
def test_the_proved_epsilons_of_the_paper_s_noise(name: str, part: float) -> None:
    found = [epsilon_of(exact_mu(c=16.0, epsilon=e, delta=DELTA, part=part), DELTA) for e in CLAIMED]
    assert PAGE.row(name) == pytest.approx(found, rel=6e-4)


def test_the_noise_of_both_calibrations() -> None:
    one = Fraction(1)
    assert PAGE.row("sigma") == pytest.approx(
        [float(descent_sigma(16.0, one, T, e, DELTA, N)) for e in CLAIMED], abs=6e-5
    )
    assert PAGE.row("mu") == pytest.approx([mu_of(e, DELTA) for e in CLAIMED], rel=6e-4)
    noises = [local_descent_noise(G=one, d=10, rounds=T, epsilon=e, delta=DELTA, fraction_bits=28) for e in CLAIMED]
    s = [float(noise.share / 2**28 / (1 + ROUNDING)) for noise in noises]
    assert PAGE.row("s, on a coordinate of a sum of gradients") == pytest.approx(s, abs=0.51)
    assert PAGE.row("s/n_j at n_j = 45,222/32, where the paper has sigma") == pytest.approx(
        [value * M / N for value in s], rel=6e-4
    )


def test_constants_and_names() -> None:
    assert f"F = {local_descent.FRACTION_BITS}" in PAGE.text
    assert MOST_ROUNDED_RECORDS == 2**20
    assert Fraction(1, 2**12) == ROUNDING
    assert len(PAGE.tests) > 8
    assert not PAGE.tests - defined_tests("test_weighted_*.py")
    assert PAGE.broken_links == []
