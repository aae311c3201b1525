"""Discrete Gaussian noise, exactly."""

import math
from fractions import Fraction

import gmpy2
from scipy.special import erfcinv

from masquerade_core.errors import LocalProtocolError
from masquerade_core.privacy._search import smallest
from masquerade_core.privacy.samplers.bits import TAIL_BITS, Bits
from masquerade_core.privacy.samplers.discrete_laplace import discrete_laplace_draw
from masquerade_core.rng import Rng

__all__ = ["discrete_gaussian", "discrete_gaussian_tail_bound"]

_BOUND_PRECISION = 256  # a bound has at most 200 bits
_LARGEST_BOUND = 2**200
_SMALLEST_FLOAT = 1e-300


def discrete_gaussian(rng: Rng, sigma: Fraction, size: int) -> list[int]:
    """Draw independent integers with P(x) proportional to exp(-x^2/(2 sigma^2)), exactly.

    Parameters
    ----------
    rng : Rng
        The only source of randomness.
    sigma : Fraction
        Greater than 0, in grid units.
    size : int
        How many.

    Notes
    -----
    A discrete Laplace y of scale t = floor(sigma) + 1 is kept with the chance exp(-(abs(y) - sigma^2/t)^2/(2 sigma^2)),
    which is exp(-y^2/(2 sigma^2)) exp(abs(y)/t) but for a constant. With sigma^2 = a/b the exponent is (abs(y) t b -
    a)^2 / (2 a b t^2), a ratio of integers. Of the proposals .46 are kept for a tiny sigma, .76 for a large one.

    References
    ----------
    Canonne, Kamath, Steinke, "The Discrete Gaussian for Differential Privacy", arXiv 2004.00010, Algorithm 3.
    """
    _check(sigma > 0)
    return _gaussian(Bits(rng), sigma**2, size)


def _gaussian(source: Bits, variance: Fraction, size: int) -> list[int]:
    """Draw from the law of :func:`discrete_gaussian`, exactly, of whatever rational sigma^2."""
    a, b = variance.numerator, variance.denominator
    t = math.isqrt(a // b) + 1
    slope, denominator = t * b, 2 * a * b * t * t
    draws: list[int] = []
    while len(draws) < size:
        y = discrete_laplace_draw(source, t, 1)
        times, rest = divmod((abs(y) * slope - a) ** 2, denominator)
        if all(source.exp_minus(1, 1) for _ in range(times)) and source.exp_minus(rest, denominator):
            draws.append(y)
    return draws


def discrete_gaussian_tail_bound(sigma: Fraction, size: int, bits: int = TAIL_BITS) -> int:
    """Return the smallest B for which the bound below gives P(any of ``size`` coordinates beyond +-B) <= 2^-bits.

    Notes
    -----
    P(x >= m) <= P(z >= m - 1) for a normal z of the same sigma: the sum of exp(-k^2/(2 sigma^2)) over k >= m is at most
    its integral from m - 1 on, and the sum over all k is at least sqrt(2 pi) sigma, by Poisson's formula, whose terms
    are all positive. So P(any abs(x) > B) <= size erfc(B/(sqrt(2) sigma)), which is asked to be at most 2^-bits.
    """
    _check(sigma > 0 and size >= 1)
    with gmpy2.context(gmpy2.get_context(), precision=_BOUND_PRECISION):
        limit = gmpy2.mpfr(1) / (size << bits)
        unit = gmpy2.sqrt(gmpy2.mpfr(2)) * gmpy2.mpq(sigma.numerator, sigma.denominator)
        guess = int(float(erfcinv(float(limit))) * float(unit)) if limit > _SMALLEST_FLOAT else 0
        bound = smallest(lambda B: bool(gmpy2.erfc(B / unit) <= limit), guess, least=0, most=_LARGEST_BOUND)
    if bound is None:
        raise LocalProtocolError(f"no bound on the noise holds with a chance of 2^-{bits}")
    return bound


def _check(allowed: bool) -> None:
    if not allowed:
        raise LocalProtocolError("noise was asked for beyond what its law is worked out for")
