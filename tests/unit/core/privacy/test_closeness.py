"""Sums of discrete Gaussians are as close to a rounded normal as is claimed."""

from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import pytest

from masquerade_core.errors import LocalProtocolError
from masquerade_core.privacy.closeness import closeness_of_sum
from tests.messages import raises
from tests.noise_helpers import exact_gaussian_law


def test_the_sum_of_shares_is_as_close_as_it_says() -> None:
    """Two shares of sigma 3, convolved in 80 digits; the bound is not idle either."""
    reach, gap = 60, Decimal(0)
    with localcontext() as context:
        context.prec = 80
        one = exact_gaussian_law(Decimal(9), reach)
        two = exact_gaussian_law(Decimal(18), 2 * reach)
        for x in range(-20, 21):
            pairs = [(y, x - y) for y in range(-reach, reach + 1) if abs(x - y) <= reach]
            total = sum((one[y + reach] * one[z + reach] for y, z in pairs), Decimal(0))
            gap += abs(total - two[x + 2 * reach]) / 2
    tau = closeness_of_sum(Fraction(3), 2)
    assert tau / 100 < gap < tau
    assert closeness_of_sum(Fraction(3), 2, 123) == pytest.approx(123 * tau)
    assert tau < closeness_of_sum(Fraction(3), 3) < 2 * tau
    assert 0 < closeness_of_sum(Fraction(2**30), 3) < closeness_of_sum(Fraction(4), 3)


@pytest.mark.parametrize(
    ("sigma", "honest", "size", "said"),
    [
        (Fraction(299, 100), 2, 1, ("share_too_narrow", 3)),
        (Fraction(3), 0, 1, ("sum_without_shares",)),
        (Fraction(3), 2, 0, ("sum_without_shares",)),
    ],
)
def test_beyond_the_lemma_nothing_is_claimed(sigma: Fraction, honest: int, size: int, said: tuple[Any, ...]) -> None:
    with raises(LocalProtocolError, *said):
        closeness_of_sum(sigma, honest, size)
