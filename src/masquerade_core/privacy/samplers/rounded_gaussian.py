"""Normal numbers, rounded to the grid; their distance from that law is bounded."""

from fractions import Fraction

import gmpy2
from scipy.special import erfcinv

from masquerade_core.errors import LocalProtocolError
from masquerade_core.privacy._search import smallest
from masquerade_core.privacy.samplers._erfc import decide
from masquerade_core.privacy.samplers.bits import TAIL_BITS, Bits, check_positive, uniforms
from masquerade_core.rng import Rng

__all__ = ["GAUSSIAN_TV_BITS", "gaussian", "gaussian_tail_bound"]

GAUSSIAN_TV_BITS = 60
"""A vector of :func:`gaussian` is within total variation 2^-GAUSSIAN_TV_BITS of its law."""

_LARGEST_SD = 2**150  # grid units; the bound on a Gaussian's total variation is worked out up to here
_LARGEST_SIZE = 2**30  # the same
_LARGEST_BOUND = 2**200  # the tail of a Gaussian of the largest sd is far below
_SMALLEST_FLOAT = 1e-300
_UNIFORM_BITS = 384
_PRECISION = 448
_BOUND_PRECISION = 256  # a bound has at most 200 bits


def gaussian(rng: Rng, sigma: Fraction, size: int, scale: Fraction) -> list[int]:
    """Draw round(scale x) for ``size`` independent x, each normal with mean 0 and standard deviation ``sigma``.

    Parameters
    ----------
    rng : Rng
        The only source of randomness.
    sigma : Fraction
        Standard deviation of x, greater than 0.
    size : int
        How many: 1 to 2^30.
    scale : Fraction
        Grid units per unit of x, greater than 0; scale sigma is at most 2^150.

    Notes
    -----
    The total variation from the exact law is at most 2^-60 for a whole vector. Couple each uniform U, a multiple of
    2^-384, with a continuous one in the interval of that length below it. But for an event of probability below
    (size + 1) 2^-100 (a uniform under the logarithm within 2^-100 of 0 or 1), where |d sqrt(-2 ln U)/dU| <= 2^100, each
    normal differs from the continuous one by less than 2^-280, arithmetic included. The integers then differ only where
    a coordinate lies within 2^-280 scale sigma of a half-integer: a chance of at most 2^-279 (scale sigma + 1) each,
    since the density is unimodal. With the limits above this adds up to less than 2^-68.

    References
    ----------
    Box and Muller 1958. Rajkumar and Agarwal 2012, Procedure 3 and Algorithm 4: eta.
    """
    spread = _spread(sigma, size, scale)
    source = Bits(rng)
    with gmpy2.context(gmpy2.get_context(), precision=_PRECISION):
        return [int(gmpy2.rint(spread * z)) for z in _normals(source, size)]


def _spread(sigma: Fraction, size: int, scale: Fraction) -> gmpy2.mpq:
    """Return scale sigma, within the limits for which the accuracy of :func:`gaussian` is worked out."""
    check_positive(sigma)
    check_positive(scale)
    spread = sigma * scale
    if spread > _LARGEST_SD or not 1 <= size <= _LARGEST_SIZE:
        raise LocalProtocolError("Gaussian noise was asked for beyond what its accuracy is worked out for")
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

    A rounded coordinate exceeds B only if the normal is at least B + 1/2 away from 0 in grid units: size erfc((B + 1/2)
    / (sqrt(2) scale sigma)) <= 2^-bits.
    """
    spread = _spread(sigma, size, scale)
    with gmpy2.context(gmpy2.get_context(), precision=_BOUND_PRECISION):
        limit = gmpy2.mpfr(1) / (size << bits)
        unit = gmpy2.sqrt(gmpy2.mpfr(2)) * spread

        def enough(B: int) -> bool:
            return decide((B + gmpy2.mpfr("0.5")) / unit, lambda tail: bool(tail <= limit))

        guess = int(float(erfcinv(float(limit))) * float(unit)) if limit > _SMALLEST_FLOAT else 0
        bound = smallest(enough, guess, least=0, most=_LARGEST_BOUND)
    if bound is None:
        raise LocalProtocolError(f"no bound on the noise holds with a chance of 2^-{bits}")
    return bound
