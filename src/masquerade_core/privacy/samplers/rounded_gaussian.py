"""Normal numbers, rounded to integers: a sampler whose distance from that law is bounded, and a bound on its tail."""

from fractions import Fraction

import gmpy2

from masquerade_core.privacy._checks import require
from masquerade_core.privacy.normal import erfcinv
from masquerade_core.privacy.samplers._erfc import decide
from masquerade_core.privacy.samplers._tails import PRECISION, smallest_bound
from masquerade_core.privacy.samplers.bits import TAIL_BITS, Bits, check_positive, uniforms
from masquerade_core.rng import Rng

__all__ = ["GAUSSIAN_TV_BITS", "gaussian", "gaussian_tail_bound"]

GAUSSIAN_TV_BITS = 60
"""A vector of :func:`gaussian` is within a total variation distance of 2^-GAUSSIAN_TV_BITS of its law."""

_LARGEST_BITS = 150  # a standard deviation in grid units is at most 2^150: the proof below goes so far
_LARGEST_SIZE_BITS = 30  # and so does the proof for at most 2^30 coordinates
_UNIFORM_BITS = 384
_PRECISION = 448


def gaussian(rng: Rng, sigma: Fraction, size: int, scale: Fraction) -> list[int]:
    """Draw round(scale x) for ``size`` independent x, each normal with mean 0 and standard deviation ``sigma``.

    Parameters
    ----------
    rng : Rng
        The only source of randomness.
    sigma : Fraction
        Standard deviation of x, greater than 0.
    size : int
        How many integers: 1 to 2^30.
    scale : Fraction
        Grid units per unit of x, greater than 0; scale sigma is at most 2^150.

    Notes
    -----
    The total variation distance from the exact law is at most 2^-60 for a whole vector. Couple each uniform U, a
    multiple of 2^-384, with a continuous one in the interval of that length below it. With a probability below
    (size + 1) 2^-100, a uniform under the logarithm lies within 2^-100 of 0 or 1. Otherwise |d sqrt(-2 ln U)/dU| <=
    2^100, and each normal differs from the continuous one by less than 2^-280, arithmetic included. The integers then
    differ only where a coordinate lies within 2^-280 scale sigma of a half-integer: a chance of at most 2^-279 (scale
    sigma + 1) each, since the density is unimodal. With the limits above this adds up to less than 2^-68.

    References
    ----------
    Box and Muller 1958. Rajkumar and Agarwal 2012, Procedure 3 and Algorithm 4: eta.
    """
    spread = _spread(sigma, size, scale)
    source = Bits(rng)
    with gmpy2.context(gmpy2.get_context(), precision=_PRECISION):
        return [int(gmpy2.rint(spread * z)) for z in _normals(source, size)]


def _spread(sigma: Fraction, size: int, scale: Fraction) -> gmpy2.mpq:
    """Return scale sigma, after a check that the accuracy of :func:`gaussian` is proved for it and for ``size``."""
    check_positive(sigma, scale)
    spread = sigma * scale
    require(
        spread <= 1 << _LARGEST_BITS, f"a standard deviation of rounded noise must be at most 2^{_LARGEST_BITS} units"
    )
    require(1 <= size <= 1 << _LARGEST_SIZE_BITS, f"rounded noise must have 1 to 2^{_LARGEST_SIZE_BITS} coordinates")
    return gmpy2.mpq(spread.numerator, spread.denominator)


def _normals(source: Bits, count: int) -> list[gmpy2.mpfr]:
    """Return independent standard normals by the method of Box and Muller, in the precision of the context."""
    normals: list[gmpy2.mpfr] = []
    turn = 2 * gmpy2.const_pi()
    drawn = uniforms(source, _UNIFORM_BITS, count + count % 2)
    for u, v in zip(drawn[::2], drawn[1::2], strict=True):
        radius = gmpy2.sqrt(-2 * gmpy2.log(u))
        sine, cosine = gmpy2.sin_cos(turn * v)
        normals += [radius * cosine, radius * sine]
    del normals[count:]
    return normals


def gaussian_tail_bound(sigma: Fraction, size: int, scale: Fraction, bits: int = TAIL_BITS) -> int:
    """Return the smallest B for which the union bound gives P(any |coordinate| of :func:`gaussian` > B) <= 2^-bits.

    Notes
    -----
    A rounded coordinate exceeds B only if the normal is at least B + 1/2 grid units away from 0. So B is the smallest
    with size erfc((B + 1/2) / (sqrt(2) scale sigma)) <= 2^-bits.
    """
    spread = _spread(sigma, size, scale)
    with gmpy2.context(gmpy2.get_context(), precision=PRECISION):
        unit = gmpy2.sqrt(gmpy2.mpfr(2)) * spread
    return smallest_bound(
        lambda B, limit: decide((B + gmpy2.mpfr("0.5")) / unit, lambda tail: bool(tail <= limit)),
        lambda limit: erfcinv(limit) * float(unit),
        size=size,
        bits=bits,
    )
