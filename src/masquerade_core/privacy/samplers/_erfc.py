"""Decisions about erfc(x), the complementary error function, which cheap bounds settle in nearly all cases.

``gmpy2.erfc`` takes many times as long as the bounds below, and a search for a tail bound asks many times.
"""

from collections.abc import Callable

import gmpy2

__all__ = ["decide"]

_CLOSE = -80  # log2 of a term after which the series stops: bounds this close decide nearly every question
_SLACK = 20  # bits of the context's precision that pay for rounding errors


def decide(x: gmpy2.mpfr, small: Callable[[gmpy2.mpfr], bool]) -> bool:
    """Return ``small(erfc(x))`` for x > 0, where ``small`` holds of all numbers up to some point and of none beyond it.

    The partial sums of erfc(x) = exp(-x^2)/(x sqrt(pi)) (1 - 1/(2 x^2) + 3/(2 x^2)^2 - ...) lie above and below erfc(x)
    in turn. If ``small`` gives the same answer for two neighbouring sums, it gives that answer for erfc(x) as well.
    Otherwise erfc(x) itself is computed. Every machine gets the same answer.

    References
    ----------
    Abramowitz and Stegun 1964, 7.1.23 and 7.1.24: the remainder has the sign of the first term left out and is smaller.
    """
    low, high = _bounds(x)
    if small(high):
        return True
    return small(low) and small(gmpy2.erfc(x))


def _bounds(x: gmpy2.mpfr) -> tuple[gmpy2.mpfr, gmpy2.mpfr]:
    """Return a lower and an upper bound on erfc(x); they are close to each other where x is large."""
    square = x * x
    total, term, k = gmpy2.mpfr(1), gmpy2.mpfr(1), 1
    while 2 * k - 1 < 2 * square and abs(term) > gmpy2.exp2(_CLOSE):
        term *= -(2 * k - 1) / (2 * square)
        total += term
        k += 1
    other = total - term * (2 * k - 1) / (2 * square)
    scale = gmpy2.exp(-square) / (x * gmpy2.sqrt(gmpy2.const_pi()))
    slack = gmpy2.exp2(_SLACK - gmpy2.get_context().precision)
    return scale * min(total, other) * (1 - slack), scale * max(total, other) * (1 + slack)
