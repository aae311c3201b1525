"""Noise of density proportional to exp(-beta ||eta||_2), rounded to integers: a sampler and a bound on its tail.

The sampler's distance from the exact law is bounded.
"""

import math
from fractions import Fraction
from itertools import pairwise

import gmpy2
from gmpy2 import mpz

from masquerade_core.lazy_scipy import gammainccinv
from masquerade_core.privacy.numbers import require, smallest_bound
from masquerade_core.privacy.samplers.many_bits import BOUND_BITS, grid
from masquerade_core.rng import TAIL_BITS, Rng, check_positive

__all__ = ["L2_TV_BITS", "l2_laplace", "l2_tail_bound"]

L2_TV_BITS = 60
"""Unless told otherwise, a draw of :func:`l2_laplace` is within total variation 2^-L2_TV_BITS of its law."""


def l2_laplace(rng: Rng, beta: Fraction, d: int, scale: Fraction, tv_bits: int = L2_TV_BITS) -> list[int]:
    """Draw round(scale eta), eta in R^d with density proportional to exp(-beta ||eta||_2).

    The norm of eta is Gamma(d)/beta, a sum of d exponentials -ln U over beta. The direction of eta is that of m =
    ceil(d/2) pairs of normals, of which an odd d leaves the very last normal out. A pair's squared length, as a part of
    all pairs', is one of the m spacings S between m - 1 uniforms. The pair's angle is that of a point (a, b) drawn
    uniformly from the unit disc. So the pair is sqrt(S/(a^2 + b^2)) (a, b), which takes no logarithm, sine or cosine.

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
    tv_bits : int
        60 or more, and even: the draw is within a total variation distance of 2^-``tv_bits`` of its law. A guarantee
        with a large epsilon needs more than 60, since (1 + exp(epsilon)) 2^-tv_bits of delta pays for that distance.

    Notes
    -----
    The total variation distance from the exact law is at most 2^-(62+g) a draw, where g = tv_bits - 60. Let r =
    scale/beta, R = ceil((64 + g) d r) < 2^n and d < 2^D. Uniforms are multiples of 2^-u and the arithmetic carries u
    bits, where u >= n + 3 D + 171 + 5g/2. Larger noise takes more bits. In a fixed precision, large noise would be a
    multiple of a power of 2, and the lowest bits of a noisy number would be those of the number itself. Couple each
    uniform with a continuous one in its cell of length 2^-u, and each point (a, b) with a continuous one in its cell of
    side 2^(1-u). The two vectors stay close except in these events:

    * the norm exceeds R grid units: exp(-(63 + g - ln(64 + g)) d) < 2^-(83+g), by Chernoff's bound;
    * one of the d uniforms under the logarithm is below 2^-(66+g+D): together less than 2^-(66+g);
    * one of the m spacings is below 2^-(64+g+2D): at most m (m-1) 2^-(64+g+2D) < 2^-(66+g);
    * one of the m points in the disc is within 2^-(33+g/2+D) of its centre: m 2^-(66+g+2D) < 2^-(66+g);
    * of two coupled points one is in the disc and the other is not: the cells that meet the circle have an area of less
      than 18 2^(1-u), so, with 4/pi tries a pair, less than m 2^(4-u) < 2^-(66+g);
    * for odd d, what remains of the unit vector is shorter than 2^-(66+g): at most 2^-(66+g), the chance for d = 1.

    Otherwise the logarithms are off by d 2^(67+g+D-u), which is R 2^(61+g+D-u) grid units, for d r <= R/64. The root of
    a spacing is off by 2^-u/sqrt(S) <= 2^(32+g/2+D-u). The unit vector along (a, b) is off by twice the distance of the
    two points over the radius, < 2^(35+g/2+D-u). So the vector of all pairs is off by 2^(36+g/2+3D/2-u). Once its
    remainder is normalised, it is off by 2 2^(66+g) times that, which is R 2^(103+3g/2+3D/2-u) grid units. Arithmetic
    adds less than R 2^(5+D-u), as nothing cancels. In all a coordinate is off by less than R 2^(104+3g/2+2D-u) < e =
    2^-(67+g+D). The integers then differ only where a coordinate lies within e of a half-integer. Its density f is
    unimodal and symmetric, hence f(x) <= 1/(2 abs(x)), and the sum of f over the half-integers (each moved by e towards
    0) is at most 1 + 2 f(1/2 - e) < 4: a chance of 8 e for each, of 2^-(64+g) for all.

    References
    ----------
    Rajkumar and Agarwal 2012, equation (2) and footnote 2. Devroye, "Non-Uniform Random Variate Generation" (1986),
    chapter V, sections 2 (spacings) and 4 (points in a disc).
    """
    check_positive(beta, scale)
    require(tv_bits >= L2_TV_BITS and tv_bits % 2 == 0, f"tv_bits must be even, and at least {L2_TV_BITS}")
    ratio = scale / beta
    bits = _l2_bits(ratio, d, tv_bits)
    with gmpy2.context(gmpy2.get_context(), precision=bits):
        return [int(gmpy2.rint(x)) for x in _l2_vector(rng, ratio, d, bits)]


def _l2_bits(ratio: Fraction, d: int, tv_bits: int = L2_TV_BITS) -> int:
    """Return u of :func:`l2_laplace`, in whole words of 64 bits; ``ratio`` is r."""
    g = tv_bits - L2_TV_BITS
    n, D = math.ceil((64 + g) * d * ratio).bit_length(), d.bit_length()
    return -(-(n + 3 * D + 171 + 5 * g // 2) // 64) * 64


def _l2_vector(rng: Rng, ratio: Fraction, d: int, bits: int) -> list[gmpy2.mpfr]:
    """Return the vector that :func:`l2_laplace` rounds; ``bits`` is u, which is also the precision of the context."""
    one, cell = gmpy2.mpfr(1), grid(bits)
    product = one
    for value in _integers(rng, bits, d):
        product *= (value + 1) * cell
    pairs, top = (d + 1) // 2, mpz(1) << bits
    cuts = [mpz(0), *sorted(_integers(rng, bits, pairs - 1)), top]
    vector: list[gmpy2.mpfr] = []  # its squared length is top, before an odd d leaves a coordinate out
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
    mark = b"\x01"  # in front, since unpacking starts at the highest bit that is set
    return list(gmpy2.unpack(mpz.from_bytes(mark + rng.bytes(count * bits // 8), "big"), bits)[:-1])


def l2_tail_bound(beta: Fraction, d: int, scale: Fraction, bits: int = TAIL_BITS) -> int:
    """Return a B with P(any |coordinate| of :func:`l2_laplace` > B) <= 2^-bits.

    Notes
    -----
    No coordinate exceeds the norm, whose tail is that of Gamma(d): P(beta ||eta|| > x) = exp(-x) sum_{k<d} x^k / k!.
    """
    check_positive(beta, scale)
    with gmpy2.context(gmpy2.get_context(), precision=BOUND_BITS):
        high = smallest_bound(
            lambda x, limit: bool(_gamma_tail(d, x) <= limit),
            lambda limit: float(gammainccinv(d, limit)),
            size=1,
            bits=bits,
            otherwise=d + bits,
            least=1,
            most=64 * (d + bits),
        )
    bound = high * scale / beta
    return -(-bound.numerator // bound.denominator) + 1


def _gamma_tail(d: int, x: int) -> gmpy2.mpfr:
    """Return P(g > x) for g of the law Gamma(d)."""
    term = total = gmpy2.exp(gmpy2.mpfr(-x))
    for k in range(1, d):
        term = term * x / k
        total += term
    return total
