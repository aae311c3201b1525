"""Tails of the normal distribution, of one number at a time.

``scipy.special`` has them too, for arrays; but a process that needs no more of it is smaller by 27 MB without it.
:func:`mills` is exact but for one rounding: gmpy2 computes it with more bits.
"""

import math

import gmpy2

__all__ = ["erfcinv", "mills", "phi"]

_BITS = 160
_FAR = 1e4  # beyond it, three terms of the asymptotic series are the ratio up to its last bit
_STEPS = 4


def phi(x: float) -> float:
    """Return Phi(x), the chance that a standard normal number is at most x."""
    return math.erfc(-x / math.sqrt(2)) / 2


def mills(x: float) -> float:
    """Return Phi(-x)/phi(x) for x >= 0: the tail over the density (Mills' ratio)."""
    if x > _FAR:
        return (1 - 1 / x**2 + 3 / x**4) / x
    with gmpy2.context(gmpy2.get_context(), precision=_BITS):
        y = gmpy2.mpfr(x) / gmpy2.sqrt(gmpy2.mpfr(2))
        return float(gmpy2.sqrt(gmpy2.const_pi() / 2) * gmpy2.exp(y * y) * gmpy2.erfc(y))


def erfcinv(y: float) -> float:
    """Return roughly the x >= 0 with erfc(x) = y, for 1e-300 < y < 2; 0 where y >= 1. A search begins there."""
    if y >= 1:
        return 0.0
    x = math.sqrt(-math.log(y))
    for _ in range(_STEPS):  # of Newton's method, for log erfc
        tail = math.erfc(x)
        slope = -2 / math.sqrt(math.pi) * math.exp(-x * x) / tail
        x = max(0.0, x - (math.log(tail) - math.log(y)) / slope)
    return x
