"""Numbers that every machine computes alike: decimals, roots of fractions, tails of the normal distribution, searches.

:func:`require` is the one check of the mathematics of privacy: an argument for which a formula is not proved is a bug
of the caller.

Tails are computed in decimals of many digits. Every operation on them is correctly rounded, exponentials and roots
included, so their result depends on no machine. ``scipy.special`` has tails too, in floats; but a process that needs no
more of it is smaller by 27 MB without it, and by 4 MB without gmpy2.
"""

import math
from collections.abc import Callable
from contextlib import AbstractContextManager
from decimal import Context, Decimal, getcontext, localcontext
from fractions import Fraction

from masquerade_core.errors import LocalProtocolError

__all__ = [
    "as_fraction",
    "decimal_of",
    "density",
    "digits",
    "erfcinv",
    "mills",
    "mills_ratio",
    "phi",
    "require",
    "root_up",
    "smallest",
    "smallest_bound",
]


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


# --- Decimals -------------------------------------------------------------------------


def as_fraction(x: float) -> Fraction:
    """Return exactly the decimal number that the study's file shows for ``x``: 0.1 is 1/10.

    So two machines that read the same study compute the same noise scale to the last bit.
    """
    return Fraction(repr(float(x)))


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

_LEAST_LIMIT = 1e-300  # below it, the limit is no float, and a guess is not worth its cost


def smallest_bound(
    enough: Callable[[int, Fraction], bool],
    guess: Callable[[float], float],
    *,
    size: int,
    bits: int,
    otherwise: int = 0,
    least: int = 0,
    most: int = 1 << 200,
) -> int:
    """Return the smallest bound that is enough for one coordinate to exceed it with a chance of at most 2^-bits/size.

    Parameters
    ----------
    enough : callable
        Whether a bound will do, given the largest allowed chance. Every machine must get the same answer.
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
    limit = Fraction(1, size << bits)
    near = int(guess(float(limit))) if limit > _LEAST_LIMIT else otherwise
    bound = smallest(lambda B: enough(B, limit), near, least=least, most=most)
    if bound is None:
        raise LocalProtocolError(f"no bound was found that the noise exceeds with a chance of at most 2^-{bits}")
    return bound


# --- Normal ----------------------------------------------------------------------

_FLOAT_DIGITS = 25  # 9 more than a float has: a rounded ratio is the float next to the ratio itself
_FAR = 1e4  # beyond it, three terms of the asymptotic series are the ratio up to its last bit
_STEPS = 4
_PI = Decimal(
    "3.14159265358979323846264338327950288419716939937510582097494459230781640628620899862803482534"
    "2117067982148086513282306647093844609550582231725359408128481117450284102701938521105559644622"
)


def phi(x: float) -> float:
    """Return Phi(x), the chance that a standard normal number is at most x."""
    return math.erfc(-x / math.sqrt(2)) / 2


def mills(x: float) -> float:
    """Return Mills' ratio Phi(-x)/phi(x) for x >= 0, as :func:`mills_ratio` does, for a float."""
    if x > _FAR:
        return (1 - 1 / x**2 + 3 / x**4) / x
    with digits(_FLOAT_DIGITS):
        return float(mills_ratio(Decimal(x)))


def digits(precision: int) -> AbstractContextManager[Context]:
    """Return a context in which decimals have so many digits, for a ``with``. Pi is known to enough of them for 140."""
    return localcontext(Context(prec=precision))


def decimal_of(x: Fraction) -> Decimal:
    """Return a fraction, rounded to the digits of the context."""
    return Decimal(x.numerator) / x.denominator


def density(x: Decimal) -> Decimal:
    """Return phi(x) = exp(-x^2/2)/sqrt(2 pi); with p digits its relative error is below (x^2 + 4) 10^(1-p)."""
    return (-x * x / 2).exp() / (2 * _PI).sqrt()


def mills_ratio(x: Decimal) -> Decimal:
    """Return R(x) = Phi(-x)/phi(x), the tail over the density, for x >= 0.

    With p digits in the context the relative error is below 10^(2-p).

    Notes
    -----
    *The series.* R(x) = sqrt(pi/2) exp(x^2/2) - sum_{k>=0} x^(2k+1)/(1 3 5 ... (2k+1)), for x^2 < p. R(x) is more than
    1/(x + 1), and what is subtracted is less than 1.26 exp(p/2) < 10^(p/4 + 1). So p/4 + 10 more digits pay for the
    difference, and for the roundings of some p terms.

    *The fraction.* R(x) = 1/(x + 1/(x + 2/(x + 3/(x + ...)))) otherwise. Its parts are B_n/A_n with A_0 = 1, A_1 = x,
    A_(n+1) = x A_n + n A_(n-1), and two parts that follow each other differ by (-1)^n n!/(A_n A_(n+1)). These
    differences alternate and fall, so a sum of them is off by less than the first that it leaves out.

    References
    ----------
    Abramowitz and Stegun 1964, 26.2.11 and 26.2.14.
    """
    precision = getcontext().prec
    with digits(precision + precision // 4 + 10):
        square, small = x * x, Decimal(10) ** -(precision + 1)
        if square < precision:
            k, term, total = 1, x, x
            while term > small:
                k += 2
                term = term * square / k
                total += term
            return (_PI / 2).sqrt() * (square / 2).exp() - total
        n, before, now = 0, Decimal(1), x
        term = total = 1 / x
        while abs(term) > small * total:
            n += 1
            before, now, last = now, x * now + n * before, before
            term = -term * n * last / now
            total += term
        return total


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
