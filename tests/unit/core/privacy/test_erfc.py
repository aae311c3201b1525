"""A decision about erfc(x) by cheap bounds is the same as one by erfc(x) itself."""

from __future__ import annotations

from fractions import Fraction
from functools import partial

import gmpy2
import pytest

from masquerade_core.privacy.noise import objective_perturbation as objective
from masquerade_core.privacy.samplers import rounded_gaussian
from masquerade_core.privacy.samplers.rounded_gaussian import _bounds, decide


def _within(limit: gmpy2.mpfr, tail: gmpy2.mpfr) -> bool:
    return bool(tail <= limit)


@pytest.mark.parametrize("precision", [192, 256, 448])
def test_the_bounds_hold_and_are_close_where_x_is_large(precision: int) -> None:
    with gmpy2.context(gmpy2.get_context(), precision=precision):
        for tenths in (1, 3, 7, 10, 14, 15, 22, 35, 50, 71, 87, 102, 200, 999):
            x = gmpy2.mpfr(tenths) / 10 + gmpy2.mpfr(1) / 777
            low, high = _bounds(x)
            exact = gmpy2.erfc(x)
            assert low <= exact <= high
            if x > 8:
                assert (high - low) / exact < 2.0**-70


def test_a_decision_is_that_of_erfc_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is the same also right beside the point where it changes; there, erfc is computed."""
    asked = []
    with gmpy2.context(gmpy2.get_context(), precision=256):
        erfc = gmpy2.erfc

        class Counting:
            def __getattr__(self, name: str) -> object:
                return getattr(gmpy2, name)

            def erfc(self, x: gmpy2.mpfr) -> gmpy2.mpfr:
                asked.append(x)
                return erfc(x)

        monkeypatch.setattr(rounded_gaussian, "gmpy2", Counting())
        for x in (gmpy2.mpfr("0.2"), gmpy2.mpfr(2), gmpy2.mpfr("8.7"), gmpy2.mpfr(25)):
            exact = erfc(x)
            for step in (-1, 0, 1):
                for bits, near in ((20, False), (120, True), (200, True)):
                    limit = exact * (1 + step * gmpy2.exp2(-bits))
                    before = len(asked)
                    assert decide(x, partial(_within, limit)) == bool(exact <= limit)
                    if x > 8 and step:
                        assert (len(asked) > before) == near


@pytest.mark.parametrize("d", [1, 2, 9, 10, 123])
def test_noise_and_bounds_are_what_erfc_makes_them(d: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def made() -> tuple[object, ...]:
        objective._noise_sigma.cache_clear()
        return (
            *(objective.noise_sigma(d, eps, delta) for eps in (0.1, 2.0) for delta in (0.05, 1e-9)),
            *(
                rounded_gaussian.gaussian_tail_bound(Fraction(s), d, Fraction(1 << 28))
                for s in (1, 40, Fraction(1, 997))
            ),
        )

    short = made()
    for module in (objective, rounded_gaussian):
        monkeypatch.setattr(module, "decide", lambda x, small: small(gmpy2.erfc(x)))
    assert made() == short
    objective._noise_sigma.cache_clear()
