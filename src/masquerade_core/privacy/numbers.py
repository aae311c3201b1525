"""Tails of the normal distribution, of one number at a time.

``scipy.special`` has them too, for arrays; but a process that needs no more of it is smaller by 27 MB without it.
:func:`mills` is exact but for one rounding: gmpy2 computes it with more bits.

The one check of the mathematics of privacy: an argument for which a formula is not proved is a bug of the caller.

Square roots of fractions, rounded up in integer arithmetic, so that every machine gets the same number.

A search for the smallest integer that satisfies a monotone condition.

The search that all bounds on the size of noise share: the smallest bound that fails rarely enough.
"""

import math
from collections.abc import Callable
from fractions import Fraction

import gmpy2

from masquerade_core.errors import LocalProtocolError

__all__ = ["PRECISION", "erfcinv", "mills", "phi", "require", "root_up", "smallest", "smallest_bound"]


# --- Checks ---------------------------------------------------------------------------


def require(allowed: bool, rule: str) -> None:
    """Stop unless ``allowed``; ``rule`` says what an argument must be.

    The value itself is not shown, since a scale of noise may depend on how many records a party has.

    Raises
    ------
    LocalProtocolError
        The argument is not allowed. The study that led to it should have been refused when it was read.
    """
    if not allowed:
        raise LocalProtocolError(f"{rule}; the study that led to this should have been refused when it was read")


# --- Roots ----------------------------------------------------------------------------


def root_up(square: Fraction, bits: int) -> Fraction:
    """Return the least multiple of 2^-bits whose square is at least ``square``, for a ``square`` greater than 0."""
    return Fraction(math.isqrt(math.ceil(square * (1 << 2 * bits)) - 1) + 1, 1 << bits)


# --- Search ---------------------------------------------------------------------------


def smallest(enough: Callable[[int], bool], near: int, *, least: int, most: int) -> int | None:
    """Return the smallest integer in [``least``, ``most``] that is enough, or None where none is found.

    Parameters
    ----------
    enough : callable
        The condition. If an integer satisfies it, every larger integer must satisfy it too.
    near : int
        A guess. A good guess makes the search short; no guess changes the result. So it may come from a float, which
        differs between machines.
    least, most : int
        Where to look. The search may go a little beyond ``most`` before it gives up.
    """
    low = high = max(least, min(near, most))
    step = 1
    while low >= least and enough(low):
        high, low, step = low, max(least - 1, low - step), 2 * step
    while high == low or not enough(high):
        if high > most:
            return None
        low, high, step = high, high + step, 2 * step
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


# --- Bounds on noise ------------------------------------------------------------------

PRECISION = 256
"""Bits of the arithmetic in which a bound is computed; a bound itself has at most 200 bits."""

_LEAST_LIMIT = 1e-300  # below it, the limit is no float, and a guess is not worth its cost


def smallest_bound(
    enough: Callable[[int, gmpy2.mpfr], bool],
    guess: Callable[[float], float],
    *,
    size: int,
    bits: int,
    otherwise: int = 0,
    least: int = 0,
    most: int = 1 << 200,
) -> int:
    """Return the smallest bound that is enough for one coordinate to exceed it with a chance of at most 2^-bits/size.

    The arithmetic is correctly rounded, so every machine gets the same bound.

    Parameters
    ----------
    enough : callable
        Whether a bound will do, given the largest allowed chance; called in a context of ``PRECISION`` bits.
    guess : callable
        Roughly the bound for this chance, computed in floats: it speeds the search up and does not change its result.
    size : int
        How many coordinates share the chance of 2^-bits.
    bits : int
        -log2 of the chance.
    otherwise : int
        The guess where the chance is too small for a float.
    least, most : int
        Where to look.

    Raises
    ------
    LocalProtocolError
        There is no such bound.
    """
    with gmpy2.context(gmpy2.get_context(), precision=PRECISION):
        limit = gmpy2.mpfr(1) / (size << bits)
        near = int(guess(float(limit))) if limit > _LEAST_LIMIT else otherwise
        bound = smallest(lambda B: enough(B, limit), near, least=least, most=most)
    if bound is None:
        raise LocalProtocolError(f"no bound was found that the noise exceeds with a chance of at most 2^-{bits}")
    return bound


# --- Normal ----------------------------------------------------------------------

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
