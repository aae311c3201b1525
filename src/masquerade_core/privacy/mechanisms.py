"""Noise: integer vectors on the fixed-point grid, from a seat's bits and nothing else.

* :func:`discrete_laplace` is exact: rational arithmetic, no float anywhere.
* :func:`l2_laplace` and :func:`gaussian` are drawn in arithmetic of 192 bits or more and rounded; their distance from
  the law is bounded below.

All depend on public numbers and on n_j alone, so they are drawn before a party joins: the time they take, which is
not constant, falls into no message. The bounds for slots are computed with correctly rounded arithmetic, so that all
machines get the same layout.
"""

import math
from fractions import Fraction
from functools import cache
from itertools import pairwise

import gmpy2
from gmpy2 import mpz
from scipy.special import erfcinv, gammainccinv

from masquerade_core.errors import LocalProtocolError
from masquerade_core.privacy._erfc import decide
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
_UNIFORM_BITS = 384
_PRECISION = 448
_BOUND_PRECISION = 256  # a bound has at most 200 bits
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

    The norm of eta is Gamma(d)/beta, a sum of d exponentials -ln U. Its direction is that of m = ceil(d/2) pairs of
    normals, the last one left out for odd d. A pair's square over all squares' sum is one of the m spacings S of m - 1
    uniforms, and its angle that of a uniform point (a, b) of the unit disc: sqrt(S/(a^2 + b^2)) (a, b), with no
    logarithm, sine or cosine.

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
    The total variation from the exact law is at most 2^-62 a draw. Let r = scale/beta, R = ceil(64 d r) < 2^n and
    d < 2^D. Uniforms are multiples of 2^-u and the arithmetic carries u bits, where u >= n + 3 D + 171: more for larger
    noise, which in a fixed precision would be a multiple of a power of 2, and what it is added to could be read off the
    remainder. Couple each uniform with a continuous one in its cell of length 2^-u, and each point (a, b) with a
    continuous one in its cell of side 2^(1-u). The two vectors stay close but for these events:

    * the norm exceeds R grid units: exp(-58 d) < 2^-83, by Chernoff's bound;
    * one of the d uniforms under the logarithm is below 2^-(66+D): together less than 2^-66;
    * one of the m spacings is below 2^-(64+2D): at most m (m-1) 2^-(64+2D) < 2^-66;
    * one of the m points in the disc is within 2^-(33+D) of its centre: m 2^-(66+2D) < 2^-66;
    * of one couple of points one is in the disc and one is not: the cells that meet the circle have an area of less
      than 18 2^(1-u), so, with 4/pi tries a pair, less than m 2^(4-u) < 2^-66;
    * for odd d, what remains of the unit vector is shorter than 2^-66: at most 2^-66, which is the chance for d = 1.

    Else the logarithms are off by d 2^(67+D-u), which is R 2^(61+D-u) grid units, for d r <= R/64; the root of a
    spacing by 2^-u/sqrt(S) <= 2^(32+D-u); the unit vector along (a, b) by twice the distance of the two points over
    the radius, < 2^(35+D-u); so the vector of all pairs by 2^(36+3D/2-u); and once its remainder is normalised by 2
    2^66 times that, which is R 2^(103+3D/2-u) grid units. Arithmetic adds less than R 2^(5+D-u), as nothing cancels. In
    all a coordinate is off by less than R 2^(104+2D-u) < e = 2^-(67+D). The integers then differ only where a
    coordinate lies within e of a half-integer. Its density f is unimodal and symmetric, hence f(x) <= 1/(2 abs(x)), and
    the sum of f over the half-integers (each moved by e towards 0) is at most 1 + 2 f(1/2 - e) < 4: a chance of 8 e for
    each, of 2^-64 for all.

    References
    ----------
    Rajkumar and Agarwal 2012, equation (2) and footnote 2. Devroye, "Non-Uniform Random Variate Generation" (1986),
    chapter V, sections 2 (spacings) and 4 (points in a disc).
    """
    _check_positive(beta)
    _check_positive(scale)
    ratio = scale / beta
    bits = _l2_bits(ratio, d)
    with gmpy2.context(gmpy2.get_context(), precision=bits):
        return [int(gmpy2.rint(x)) for x in _l2_vector(rng, ratio, d, bits)]


def _l2_bits(ratio: Fraction, d: int) -> int:
    """Return u of :func:`l2_laplace`, in whole words of 64 bits; ``ratio`` is r."""
    n, D = math.ceil(64 * d * ratio).bit_length(), d.bit_length()
    return -(-(n + 3 * D + 171) // 64) * 64


def _l2_vector(rng: Rng, ratio: Fraction, d: int, bits: int) -> list[gmpy2.mpfr]:
    """Return what :func:`l2_laplace` rounds; ``bits`` is u, and the precision of the context."""
    one, cell = gmpy2.mpfr(1), _grid(bits)
    product = one
    for value in _integers(rng, bits, d):
        product *= (value + 1) * cell
    pairs, top = (d + 1) // 2, mpz(1) << bits
    cuts = [mpz(0), *sorted(_integers(rng, bits, pairs - 1)), top]
    vector: list[gmpy2.mpfr] = []  # of squared length top, with the coordinate that an odd d leaves out
    for (low, high), (a, b, r2) in zip(pairwise(cuts), _points(rng, bits, pairs), strict=True):
        stretch = gmpy2.sqrt(one * (high - low) / r2)
        vector += [a * stretch, b * stretch]
    square = top if d % 2 == 0 else cuts[-2] + vector[d - 1] * vector[d - 1]
    factor = -gmpy2.log(product) * gmpy2.mpq(ratio.numerator, ratio.denominator) / gmpy2.sqrt(square)
    return [factor * x for x in vector[:d]]


def _points(rng: Rng, bits: int, count: int) -> list[tuple[mpz, mpz, mpz]]:
    """Return points (a, b) uniform on the odd coordinates within the disc of radius 2^bits, and a^2 + b^2."""
    top, limit = mpz(1) << bits, mpz(1) << 2 * bits
    points: list[tuple[mpz, mpz, mpz]] = []
    while missing := count - len(points):
        values = [2 * value + 1 - top for value in _integers(rng, bits, 2 * missing)]
        pairs = zip(values[::2], values[1::2], strict=True)
        points += [(a, b, r2) for a, b in pairs if (r2 := a * a + b * b) < limit]
    return points


def _integers(rng: Rng, bits: int, count: int) -> list[mpz]:
    """Return ``count`` integers uniform in [0, 2^bits), for ``bits`` a multiple of 8."""
    if not count:
        return []
    mark = b""  # on top: an unpacking starts at the highest bit that is set
    return list(gmpy2.unpack(mpz.from_bytes(mark + rng.bytes(count * bits // 8), "big"), bits)[:-1])


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


def _normals(source: _Bits, count: int) -> list[gmpy2.mpfr]:
    """Return independent standard normals by the method of Box and Muller, in the precision of the context."""
    normals: list[gmpy2.mpfr] = []
    turn = 2 * gmpy2.const_pi()
    uniforms = _uniforms(source, _UNIFORM_BITS, count + count % 2)
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
    with gmpy2.context(gmpy2.get_context(), precision=_BOUND_PRECISION):
        limit = gmpy2.mpfr(1) / (1 << bits)
        guess = int(gammainccinv(d, float(limit))) if limit > _SMALLEST_FLOAT else d + bits
        high = smallest(lambda x: bool(_gamma_tail(d, x) <= limit), guess, least=1, most=64 * (d + bits))
    if high is None:
        raise LocalProtocolError(f"no bound on the noise holds with a chance of 2^-{bits}")
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
