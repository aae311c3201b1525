"""Noise: integer vectors on the fixed-point grid, from a seat's bits and nothing else.

* :func:`discrete_laplace` is exact: rational arithmetic, no float anywhere.
* :func:`l2_laplace` and :func:`gaussian` are drawn in arithmetic of 448 bits or more and rounded; their distance from
  the law is bounded below.

All depend on public numbers and on n_j alone, so they are drawn before a party joins: the time they take, which is
not constant, falls into no message. The bounds for slots are computed with correctly rounded arithmetic, so that all
machines get the same layout.
"""

from fractions import Fraction
from functools import cache

import gmpy2
from scipy.special import erfcinv

from masquerade_core.errors import LocalProtocolError
from masquerade_core.privacy._search import smallest
from masquerade_core.rng import FromBytes, Rng

__all__ = [
    "GAUSSIAN_TV_BITS",
    "L2_TV_BITS",
    "TAIL_BITS",
    "discrete_laplace",
    "gaussian",
    "gaussian_tail_bound",
    "l2_laplace",
    "l2_tail_bound",
    "tail_bound",
]

TAIL_BITS = 60
"""A draw exceeds the public bound with a chance of at most 2^-TAIL_BITS."""

L2_TV_BITS = 60
"""A draw of :func:`l2_laplace` is within total variation 2^-L2_TV_BITS of its law."""

GAUSSIAN_TV_BITS = 60
"""A vector of :func:`gaussian` is within total variation 2^-GAUSSIAN_TV_BITS of its law."""

_LARGEST_SD = 2**150  # grid units; the bound on a Gaussian's total variation is worked out up to here
_LARGEST_SIZE = 2**30  # the same
_LARGEST_BOUND = 2**200  # the tail of a Gaussian of the largest sd is far below
_SMALLEST_FLOAT = 1e-300
_NORM_BITS = 80  # of a vector's norm in grid units, up to which _UNIFORM_BITS and _PRECISION are enough
_UNIFORM_BITS = 384
_PRECISION = 448
_CHUNK = 512


class _Bits(FromBytes):
    """The seat's randomness, fetched in chunks: a call of the source costs more than the few bits mostly wanted."""

    def __init__(self, rng: Rng) -> None:
        self._rng = rng
        self._buffer = b""
        self._at = 0

    def bytes(self, n: int) -> bytes:
        """Return ``n`` uniform bytes."""
        if self._at + n > len(self._buffer):
            self._buffer, self._at = self._rng.bytes(max(n, _CHUNK)), 0
        self._at += n
        return self._buffer[self._at - n : self._at]

    def whole(self, k: int, count: int) -> list[int]:
        """Return what ``count`` calls of ``bits(k)`` would, for less."""
        n, surplus = (k + 7) // 8, -k % 8
        values: list[int] = []
        while len(values) < count:
            if self._at + n > len(self._buffer):
                self._buffer, self._at = self._rng.bytes(max(n, _CHUNK)), 0
            fit = min(count - len(values), (len(self._buffer) - self._at) // n)
            end = self._at + fit * n
            values += [int.from_bytes(self._buffer[i : i + n], "big") >> surplus for i in range(self._at, end, n)]
            self._at = end
        return values

    def exp_minus(self, numerator: int, denominator: int) -> bool:
        """Return True with probability exp(-numerator/denominator), for a ratio in [0, 1].

        References
        ----------
        Canonne, Kamath, Steinke, "The Discrete Gaussian for Differential Privacy", arXiv 2004.00010, Algorithm 1.
        """
        k = 1
        while self.below(denominator * k) < numerator:
            k += 1
        return k % 2 == 1


def discrete_laplace(rng: Rng, scale: Fraction, size: int) -> list[int]:
    """Draw independent integers with P(x) proportional to exp(-|x|/scale), exactly.

    Parameters
    ----------
    rng : Rng
        The only source of randomness.
    scale : Fraction
        Greater than 0, in grid units.
    size : int
        How many.

    References
    ----------
    Canonne, Kamath, Steinke, arXiv 2004.00010, Algorithm 2, with t/s = scale.
    """
    _check_positive(scale)
    source, t, s = _Bits(rng), scale.numerator, scale.denominator
    return [_one(source, t, s) for _ in range(size)]


def _one(source: _Bits, t: int, s: int) -> int:
    while True:
        u = source.below(t)
        if not source.exp_minus(u, t):
            continue
        v = 0
        while source.exp_minus(1, 1):
            v += 1
        y = (u + t * v) // s
        negative = source.bits(1)
        if negative and y == 0:  # else zero would come up twice as often
            continue
        return -y if negative else y


def tail_bound(scale: Fraction, bits: int = TAIL_BITS, count: int = 1) -> int:
    """Return the smallest B with ``count`` P(|x| > B) <= 2^-bits for a discrete Laplace x.

    P(|x| > B) = 2 q^(B+1) / (1+q) with q = exp(-1/scale).
    """
    _check_positive(scale)
    with gmpy2.context(gmpy2.get_context(), precision=_PRECISION):
        inverse = gmpy2.mpfr(gmpy2.mpq(scale.denominator, scale.numerator))
        logarithm = bits * gmpy2.log(gmpy2.mpfr(2)) + gmpy2.log(2 * count / (1 + gmpy2.exp(-inverse)))
        return max(0, int(gmpy2.ceil(logarithm / inverse)) - 1)


def l2_laplace(rng: Rng, beta: Fraction, d: int, scale: Fraction) -> list[int]:
    """Draw round(scale eta), eta in R^d with density proportional to exp(-beta ||eta||_2).

    The norm of eta is Gamma(d)/beta, a sum of d exponentials -ln U; its direction is that of d normals (Box, Muller).

    Parameters
    ----------
    rng : Rng
        The only source of randomness.
    beta : Fraction
        Greater than 0.
    d : int
        Dimensions, at least 1.
    scale : Fraction
        Grid units per unit of eta, greater than 0.

    Notes
    -----
    The total variation from the exact law is at most 2^-60 a draw. Uniforms are multiples of 2^-384 and the arithmetic
    carries 448 bits. But for events of probability below 2^-62 (one of the 2d + 1 uniforms within 2^-80 of 0 or 1, or
    ||Z|| below 2^-70), every coordinate differs from the one that continuous uniforms would make by less than 2^-180 of
    the vector's norm, which is below 2^80 grid units; the rounded integers then differ only if a coordinate lies within
    2^-100 of a half-integer. For a larger norm, uniforms and arithmetic get as many bits more. In 448 bits alone, large
    noise would be a multiple of a power of 2, and what it is added to could be read off the remainder.

    References
    ----------
    Rajkumar and Agarwal 2012, equation (2) and footnote 2.
    """
    _check_positive(beta)
    _check_positive(scale)
    source, ratio = _Bits(rng), scale / beta
    norm = -(-64 * d * ratio.numerator // ratio.denominator)  # exceeded less often than once in 2^80 draws
    more = max(0, norm.bit_length() - _NORM_BITS)
    with gmpy2.context(gmpy2.get_context(), precision=_PRECISION + more):
        product = gmpy2.mpfr(1)
        for uniform in _uniforms(source, _UNIFORM_BITS + more, d):
            product *= uniform
        normals = _normals(source, d, _UNIFORM_BITS + more)
        length = gmpy2.sqrt(sum((z * z for z in normals), gmpy2.mpfr(0)))
        factor = -gmpy2.log(product) * gmpy2.mpq(ratio.numerator, ratio.denominator) / length
        return [int(gmpy2.rint(factor * z)) for z in normals]


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
    source = _Bits(rng)
    with gmpy2.context(gmpy2.get_context(), precision=_PRECISION):
        return [int(gmpy2.rint(spread * z)) for z in _normals(source, size)]


def _spread(sigma: Fraction, size: int, scale: Fraction) -> gmpy2.mpq:
    """Return scale sigma, within the limits for which the accuracy of :func:`gaussian` is worked out."""
    _check_positive(sigma)
    _check_positive(scale)
    spread = sigma * scale
    if spread > _LARGEST_SD or not 1 <= size <= _LARGEST_SIZE:
        raise LocalProtocolError("Gaussian noise was asked for beyond what its accuracy is worked out for")
    return gmpy2.mpq(spread.numerator, spread.denominator)


def _normals(source: _Bits, count: int, bits: int = _UNIFORM_BITS) -> list[gmpy2.mpfr]:
    """Return independent standard normals by the method of Box and Muller, in the precision of the context."""
    normals: list[gmpy2.mpfr] = []
    turn = 2 * gmpy2.const_pi()
    uniforms = _uniforms(source, bits, count + count % 2)
    for u, v in zip(uniforms[::2], uniforms[1::2], strict=True):
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
    with gmpy2.context(gmpy2.get_context(), precision=_PRECISION):
        limit = gmpy2.mpfr(1) / (size << bits)
        unit = gmpy2.sqrt(gmpy2.mpfr(2)) * spread

        def enough(B: int) -> bool:
            return bool(gmpy2.erfc((B + gmpy2.mpfr("0.5")) / unit) <= limit)

        guess = int(float(erfcinv(float(limit))) * float(unit)) if limit > _SMALLEST_FLOAT else 0
        bound = smallest(enough, guess, least=0, most=_LARGEST_BOUND)
    if bound is None:
        raise LocalProtocolError(f"no bound on the noise holds with a chance of 2^-{bits}")
    return bound


def _uniforms(source: _Bits, bits: int, count: int) -> list[gmpy2.mpfr]:
    """Return ``count`` numbers uniform on the multiples of 2^-bits in (0, 1]."""
    grid = _grid(bits)
    return [(value + 1) * grid for value in source.whole(bits, count)]


@cache
def _grid(bits: int) -> gmpy2.mpfr:
    """Return 2^-bits, which is exact in any precision."""
    return gmpy2.mpfr(1) / (1 << bits)


def l2_tail_bound(beta: Fraction, d: int, scale: Fraction, bits: int = TAIL_BITS) -> int:
    """Return a B with P(any |coordinate| of :func:`l2_laplace` > B) <= 2^-bits.

    No coordinate exceeds the norm, whose tail is that of Gamma(d): P(beta ||eta|| > x) = exp(-x) sum_{k<d} x^k / k!.
    """
    _check_positive(beta)
    _check_positive(scale)
    with gmpy2.context(gmpy2.get_context(), precision=_PRECISION):
        limit = gmpy2.mpfr(1) / (1 << bits)
        low, high = 0, d + bits
        while _gamma_tail(d, high) > limit:
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if _gamma_tail(d, middle) > limit else (low, middle)
    bound = high * scale / beta
    return -(-bound.numerator // bound.denominator) + 1


def _gamma_tail(d: int, x: int) -> gmpy2.mpfr:
    term = total = gmpy2.exp(gmpy2.mpfr(-x))
    for k in range(1, d):
        term = term * x / k
        total += term
    return total


def _check_positive(value: Fraction) -> None:
    if value <= 0:
        raise LocalProtocolError("a noise scale must be greater than 0; the study should have been refused")
