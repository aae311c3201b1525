"""Tails of the normal distribution in decimals are those of MPFR, to the digits that are promised."""

from __future__ import annotations

from decimal import Decimal

import gmpy2
import numpy as np
import pytest

from masquerade_core.privacy.numbers import density, digits, mills, mills_ratio

_BITS = 900
_PLACES = (0.0, 1e-300, 1e-9, 0.3, 1.0, 2.5, 4.99, 5.01, 7.7, 8.0, 11.8, 11.9, 12.0, 30.0, 1e3, 1e8)
"""From where the series is used to where the fraction is, with 25, 60 and 140 digits."""


def _ratio(x: float) -> gmpy2.mpfr:
    y = gmpy2.mpfr(x) / gmpy2.sqrt(gmpy2.mpfr(2))
    return gmpy2.sqrt(gmpy2.const_pi() / 2) * gmpy2.exp(y * y) * gmpy2.erfc(y)


def _density(x: float) -> gmpy2.mpfr:
    return gmpy2.exp(-(gmpy2.mpfr(x) ** 2) / 2) / gmpy2.sqrt(2 * gmpy2.const_pi())


@pytest.mark.parametrize("precision", [25, 60, 140])
def test_the_ratio_and_the_density_have_the_digits_that_they_promise(precision: int) -> None:
    with gmpy2.context(gmpy2.get_context(), precision=_BITS, emin=-(1 << 60)):
        unit = gmpy2.mpfr(10) ** -precision
        for x in _PLACES:
            with digits(precision):
                ratio, height = (gmpy2.mpfr(str(f(Decimal(x)))) for f in (mills_ratio, density))
            if x < 1e8:
                assert abs(ratio / _ratio(x) - 1) < 100 * unit
                assert abs(height / _density(x) - 1) < 10 * (x * x + 4) * unit
            else:  # exp(x^2/2) is no number of MPFR's any more
                assert abs(ratio * gmpy2.mpfr(x) - 1) < 2 * gmpy2.mpfr(x) ** -2


def test_a_ratio_of_floats_is_the_float_next_to_it() -> None:
    draw = np.random.default_rng(20)
    with gmpy2.context(gmpy2.get_context(), precision=_BITS):
        for x in (*draw.uniform(0, 15, 200).tolist(), *(10 ** draw.uniform(-9, 4, 200)).tolist()):
            assert mills(x) == float(_ratio(x))
