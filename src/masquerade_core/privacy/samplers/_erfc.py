"""Whether erfc(x) is small enough: mostly known long before erfc(x) is."""

from collections.abc import Callable

import gmpy2

__all__ = ["decide"]

_CLOSE = -80  # bits: bounds so close decide all that is ever asked, nearly
_SLACK = 20  # bits, of the context's precision, for roundings


def decide(x: gmpy2.mpfr, small: Callable[[gmpy2.mpfr], bool]) -> bool:
    """Return ``small(erfc(x))``, for a condition that holds of all numbers up to some point; x > 0.

    The partial sums of erfc(x) = exp(-x^2)/(x sqrt(pi)) (1 - 1/(2 x^2) + 3/(2 x^2)^2 - ...) lie on either side of it by
    turns. Where two of them agree about the condition, so does what is between; else erfc(x) itself is worked out,
    which takes many times as long. Both are the same on every machine.

    References
    ----------
    Abramowitz and Stegun 1964, 7.1.23 and 7.1.24: the remainder is less than the first term left out, and of its sign.
    """
    low, high = _bounds(x)
    if small(high):
        return True
    return small(low) and small(gmpy2.erfc(x))


def _bounds(x: gmpy2.mpfr) -> tuple[gmpy2.mpfr, gmpy2.mpfr]:
    """Bound erfc(x), closely where x is large."""
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
