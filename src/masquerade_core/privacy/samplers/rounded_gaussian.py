"""Normal numbers, rounded to integers: a sampler whose distance from that law is bounded, and a bound on its tail.

Decisions about erfc(x), the complementary error function, which cheap bounds settle in nearly all cases.

``gmpy2.erfc`` takes many times as long as the bounds below, and a search for a tail bound asks many times.
"""

from collections.abc import Callable
from fractions import Fraction

import gmpy2

from masquerade_core.privacy.numbers import erfcinv, require, smallest_bound
from masquerade_core.privacy.samplers.many_bits import BOUND_BITS, uniforms
from masquerade_core.rng import TAIL_BITS, Bits, Rng, check_positive

__all__ = ["GAUSSIAN_TV_BITS", "gaussian", "gaussian_tail_bound"]


# --- erfc -----------------------------------------------------------------------------

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


# --- Rounded gaussian ------------------------------------------------------------

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
    with gmpy2.context(gmpy2.get_context(), precision=BOUND_BITS):
        unit = gmpy2.sqrt(gmpy2.mpfr(2)) * spread
        return smallest_bound(
            lambda B, limit: decide((B + gmpy2.mpfr("0.5")) / unit, lambda tail: bool(tail <= limit)),
            lambda limit: erfcinv(limit) * float(unit),
            size=size,
            bits=bits,
        )
