"""Noise that many parties draw in shares, and what any h of the shares add up to.

* :func:`discrete_gaussian` is exact. The sum is as good as a continuous normal, but for :func:`closeness_of_sum`.
* :func:`laplace_share` is exact, and the sum is a discrete Laplace exactly.
* :func:`l2_laplace_share`: the sum is as good as l2-Laplace noise, but for a total variation of h 2^-60.
* :func:`grid_l2_laplace` is exact; it is drawn whole, by one party, in few dimensions.

"Exact" means that integers are compared, or that bounds of a real number are narrowed until they decide. All depend on
public numbers alone and take a time that is not constant, so they are drawn before a party joins.
"""

import math
import sys
from bisect import bisect_right
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache, partial
from itertools import accumulate

import gmpy2
from scipy.special import erfcinv

from masquerade_core.errors import LocalProtocolError
from masquerade_core.privacy._search import smallest
from masquerade_core.privacy.mechanisms import TAIL_BITS, _Bits, _one, _uniforms, l2_tail_bound, tail_bound
from masquerade_core.rng import Rng

__all__ = [
    "GRID_L2_DIMENSIONS",
    "L2_SHARE_TV_BITS",
    "LEAST_SHARE_SIGMA",
    "closeness_of_sum",
    "discrete_gaussian",
    "discrete_gaussian_tail_bound",
    "gaussian_share_sigma",
    "grid_l2_laplace",
    "l2_laplace_share",
    "l2_share_tail_bound",
    "laplace_share",
    "laplace_share_tail_bound",
]

GRID_L2_DIMENSIONS = 20
"""The most dimensions of :func:`grid_l2_laplace`: in 20 one proposal in 200 is kept, in 30 one in 2,600."""

L2_SHARE_TV_BITS = 60
"""A vector of :func:`l2_laplace_share` adds at most 2^-60 to the total variation of the sum from its law."""

LEAST_SHARE_SIGMA = 3
"""Grid units, the least sigma of a share: the steps of the grid no longer show in a sum, 10 exp(-pi^2 3^2) < 10^-37."""

_LEAST_USED_SIGMA = 4
_BOUND_PRECISION = 256  # a bound has at most 200 bits
_LARGEST_BOUND = 2**200
_SMALLEST_FLOAT = 1e-300
_LARGEST_LOGARITHM = 1024  # of a block's length, of its offer, of 1/(1 - q), of Gamma(1/h): a scale has 200 bits
_LARGEST_HONEST = 2**20
_LARGEST_DIMENSIONS = 2**30
_LARGEST_RATIO = 2**150
_FIRST_PRECISION = 128
_WEIGHT_BITS = 64
_GAMMA_BITS = 256
_VARIANCE_BITS = 90
_SLOPE_BITS = 32
_SHARE_BITS = 20  # behind the point of a share's sigma: rounding up costs less than 2^-20/3 of it

_Bounds = tuple[gmpy2.mpfr, gmpy2.mpfr]


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
    return _gaussian(_Bits(rng), sigma**2, size)


def _gaussian(source: _Bits, variance: Fraction, size: int) -> list[int]:
    """Draw from the law of :func:`discrete_gaussian`, exactly, of whatever rational sigma^2."""
    a, b = variance.numerator, variance.denominator
    t = math.isqrt(a // b) + 1
    slope, denominator = t * b, 2 * a * b * t * t
    draws: list[int] = []
    while len(draws) < size:
        y = _one(source, t, 1)
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


def gaussian_share_sigma(sigma: Fraction, honest: int) -> Fraction:
    """Return the sigma of a party's share: any ``honest`` shares hide as well as a continuous normal of ``sigma``.

    It is sqrt((sigma^2 + 9)/h), rounded up to a multiple of 2^-20, and at least 4: then tau is below 10^-67 a share and
    coordinate, and less than what statements keep of delta.

    Parameters
    ----------
    sigma : Fraction
        Standard deviation that the sum must have, in grid units, greater than 0.
    honest : int
        h, how many shares the adversary does not know: at least 1.

    Notes
    -----
    Let x be the sum of h draws of :func:`discrete_gaussian` with the sigma that is returned, s, on each coordinate. The
    release is q + x, q an integer vector that neighbours move by Delta in L2 norm. Whatever (epsilon, delta) holds for
    q + z, z continuous, normal, of standard deviation sqrt(h s^2 - 9) >= sigma, holds for q + x with delta raised by
    (1 + exp(epsilon)) tau, tau = :func:`closeness_of_sum`. So the exact curve of Gaussian noise in
    :mod:`masquerade_core.privacy.gaussian_dp` applies in any number of dimensions. The other parties' shares, which
    an adversary may not know either, only add independent noise.
    """
    _check(sigma > 0 and honest >= 1)
    least = (sigma**2 + LEAST_SHARE_SIGMA**2) / honest
    root = math.isqrt(math.ceil(least * 4**_SHARE_BITS) - 1) + 1
    return max(Fraction(root, 2**_SHARE_BITS), Fraction(_LEAST_USED_SIGMA))


def closeness_of_sum(sigma_share: Fraction, honest: int, size: int = 1) -> float:
    """Return tau: how far the sum of ``honest`` shares is from a rounded normal, in total variation, at most.

    tau = 10 size (sum_{k=1}^{h-1} exp(-2 pi^2 s^2 k/(k+1)) + exp(-2 pi^2 3^2)), s the share's sigma: less than
    10^-36 size h from s = 3 on, whatever h. For a guarantee (epsilon, delta) add (1 + exp(epsilon)) tau to delta.

    Parameters
    ----------
    sigma_share : Fraction
        s, in grid units: at least 3.
    honest : int
        h, at least 1.
    size : int
        How many coordinates are released.

    Notes
    -----
    Write theta(c, u) for the sum over the integers k of exp(-(k - u)^2/(2 c^2)). By Poisson's formula it is
    sqrt(2 pi) c (1 + r) with abs(r) <= 2 sum_{k>=1} exp(-2 pi^2 c^2 k^2) < 2.1 e, e = exp(-2 pi^2 c^2), for c >= 1.

    *Sum.* Let x have a density proportional to exp(-x^2/(2 a^2)) on the integers but for factors, and let y be discrete
    Gaussian with sigma s. That of x + y is proportional to exp(-v^2/(2 (a^2 + s^2))) theta(c, v a^2/(a^2 + s^2)), with
    1/c^2 = 1/a^2 + 1/s^2, but for the same factors. For a^2 = k s^2, c^2 = s^2 k/(k+1): so after h shares
    the density is that of the discrete Gaussian of variance h s^2 but for a factor within exp(+-10 sum_k e_k), the
    normalisation included, as log((1 + 2.1 e)/(1 - 2.1 e)) < 5 e for e < exp(-pi^2 3^2).

    *Rounding.* Let z be normal with variance h s^2 - 9, and w an integer drawn with P(w) proportional to exp(-(w -
    z)^2/(2 3^2)): a way to round z that commutes with a shift by an integer. The density of w is the integral over z of
    the two exponentials over theta(3, z), so proportional to exp(-w^2/(2 h s^2)), but for a factor within 1 +- 2.1 e.
    Hence it is that of the discrete Gaussian of variance h s^2 but for a factor within exp(+-10 exp(-2 pi^2 3^2)).

    A factor within exp(+-tau) bounds the total variation by (exp(tau) - 1)/2 <= tau; total variations of independent
    coordinates add up. Last, q + w is the rounding of q + z, and P(A) <= Q(A) + tau <= exp(epsilon) Q'(A) + delta + tau
    <= exp(epsilon) P'(A) + delta + (1 + exp(epsilon)) tau.

    References
    ----------
    Kairouz, Liu, Steinke 2021, "The Distributed Discrete Gaussian Mechanism for Federated Learning with Secure
    Aggregation", arXiv 2102.06387: the first sum. Canonne, Kamath, Steinke, arXiv 2004.00010, section 2.
    """
    _check(sigma_share >= LEAST_SHARE_SIGMA and honest >= 1 and size >= 1)
    with gmpy2.context(gmpy2.get_context(), precision=_BOUND_PRECISION, round=gmpy2.RoundUp):
        s2 = gmpy2.mpq(sigma_share.numerator, sigma_share.denominator) ** 2
        exponents = [s2 * k / (k + 1) for k in range(1, honest)] + [gmpy2.mpq(LEAST_SHARE_SIGMA**2)]
        # Down, for the exponential grows with what is subtracted last.
        with gmpy2.context(gmpy2.get_context(), round=gmpy2.RoundDown):
            pi2 = 2 * gmpy2.const_pi() ** 2
            exponents = [pi2 * exponent for exponent in exponents]
        tau = 10 * size * sum((gmpy2.exp(-exponent) for exponent in exponents), gmpy2.mpfr(0))
        return max(math.nextafter(float(tau), math.inf), sys.float_info.min)


def laplace_share(rng: Rng, scale: Fraction, honest: int, size: int) -> list[int]:
    """Draw a party's share: ``honest`` of them add up to noise with P(x) proportional to exp(-|x|/scale), exactly.

    Parameters
    ----------
    rng : Rng
        The only source of randomness.
    scale : Fraction
        b of the sum, in grid units: greater than 0, at most 2^200.
    honest : int
        h, how many shares the adversary does not know: 1 to 2^20.
    size : int
        How many coordinates.

    Notes
    -----
    With q = exp(-1/b) a discrete Laplace is the difference of two geometric variables, and a geometric one is the sum
    of h negative binomial ones, P(k) proportional to g(k) q^k, g(k) = Gamma(k + 1/h)/k!: their generating function is
    ((1 - q)/(1 - q z))^(1/h). A share is the difference of two of those.

    They are drawn by rejection. g falls, so that on 0, and on the blocks [2^i, 2^(i+1)) up to m > b, g(k) q^k is at
    most what it is where the block starts; from m on it is at most g(m) q^k. A block is chosen by integers not below
    these bounds times 2^64, k uniform in it (from m on: geometric), and kept with the chance that remains. The chance's
    logarithm is bounded, first by Kershaw's inequality, then by log-gammas of ever more digits, until a uniform number
    drawn bit by bit is on one side. However large b, a block more or less is all that it costs.

    References
    ----------
    Goryczka and Xiong 2017, "A comprehensive comparison of multiparty secure additions with differential privacy":
    shares of geometric noise. Kershaw 1983, "Some extensions of W. Gautschi's inequalities for the gamma function":
    with 0 < r < 1, (k + r/2)^(1-r) < k!/Gamma(k + r) < (k - 1/2 + sqrt(r + 1/4))^(1-r).
    """
    _check(0 < scale <= _LARGEST_BOUND and 1 <= honest <= _LARGEST_HONEST)
    source, law = _Bits(rng), _law(scale, honest)
    return [law.draw(source) - law.draw(source) for _ in range(size)]


def laplace_share_tail_bound(scale: Fraction, size: int, bits: int = TAIL_BITS) -> int:
    """Return a B with P(any of ``size`` coordinates of :func:`laplace_share` beyond +-B) <= 2^-bits, whatever h.

    A share exceeds B only if one of its two terms does; a geometric variable, that term and others, does no less often.
    So the chance is at most 2 size q^(B+1), less than what :func:`tail_bound` allows to 2 size discrete Laplace draws.
    """
    _check(size >= 1)
    return tail_bound(scale, bits, count=2 * size)


class _NegativeBinomial:
    """The law with P(k) proportional to g(k) q^k = Gamma(k + 1/h)/k! exp(-k/b); see :func:`laplace_share`."""

    def __init__(self, scale: Fraction, honest: int) -> None:
        self._r = gmpy2.mpq(1, honest)
        self._t, self._s = scale.numerator, scale.denominator
        self._scale = gmpy2.mpq(self._t, self._s)
        last = math.floor(scale).bit_length()
        self._tail = 1 << last  # m
        self._blocks = [(0, 0), *((1 << i, i) for i in range(last))]  # where it starts, the logarithm of its length
        starts = [*(start for start, _ in self._blocks), self._tail]
        self._constants: dict[tuple[int, int], gmpy2.mpfr] = {}
        self._offers = [gmpy2.mpq(1)] * len(starts)
        highs = [self._log_chance(block, k, _BOUND_PRECISION)[1] for block, k in enumerate(starts)]
        with gmpy2.context(gmpy2.get_context(), precision=_BOUND_PRECISION, round=gmpy2.RoundUp):
            weights = [int(gmpy2.ceil(gmpy2.exp(high) * 2**_WEIGHT_BITS)) for high in highs]
        self._offers = [gmpy2.mpq(weight, 2**_WEIGHT_BITS) for weight in weights]
        self._constants.clear()
        self._ends = list(accumulate(weights))

    def draw(self, source: _Bits) -> int:
        """Return one integer."""
        while True:
            block = bisect_right(self._ends, source.below(self._ends[-1]))
            if block == len(self._blocks):
                k = self._tail + _geometric(source, self._t, self._s)
            else:
                start, length = self._blocks[block]
                k = start + source.bits(length)
            if _happens(source, partial(self._log_chance, block, k)):
                return k

    def _log_chance(self, block: int, k: int, precision: int) -> _Bounds:
        """Bound the logarithm of a proposal's chance: of the mass left to k over what its block offers.

        The mass is g(k) q^k times the length of the block, from m on g(k) q^m/(1 - q). No number on the way is larger
        than ``size``; there are less than 32 roundings to ``precision`` digits, that of Gamma's argument included, as
        its slope times k, at most k (1 + log k), is not larger either.
        """
        scale, x = self._scale, min(k, self._tail)
        with gmpy2.context(gmpy2.get_context(), precision=precision):
            rest = self._constant(block, precision) - x / scale
            size = _LARGEST_LOGARITHM + math.ceil(x / scale) + k * (k.bit_length() + 1)
            error = gmpy2.mpfr(size) * gmpy2.mpfr(2) ** (5 - precision)
            low, high = _log_g(k, self._r, lazy=precision == _FIRST_PRECISION)
            return rest + low - error, rest + high + error

    def _constant(self, block: int, precision: int) -> gmpy2.mpfr:
        """Return what does not depend on k, in the context's precision."""
        if (block, precision) not in self._constants:
            value = -gmpy2.log(gmpy2.mpfr(self._offers[block]))
            if block < len(self._blocks):
                value += self._blocks[block][1] * gmpy2.log(gmpy2.mpfr(2))
            else:
                value -= gmpy2.log(-gmpy2.expm1(-1 / gmpy2.mpfr(self._scale)))
            self._constants[block, precision] = value
        return self._constants[block, precision]


@lru_cache(maxsize=8)
def _law(scale: Fraction, honest: int) -> _NegativeBinomial:
    """Return the law, whose table of blocks takes longer than a hundred draws."""
    return _NegativeBinomial(scale, honest)


def _log_g(k: int, r: gmpy2.mpq, *, lazy: bool) -> _Bounds:
    """Bound log(Gamma(k + r)/k!), 0 < r <= 1, but for roundings: by Kershaw's inequality, or by itself if not lazy."""
    if lazy and k:
        middle = gmpy2.mpfr(k - gmpy2.mpq(1, 2)) + gmpy2.sqrt(gmpy2.mpfr(r + gmpy2.mpq(1, 4)))
        return (r - 1) * gmpy2.log(middle), (r - 1) * gmpy2.log(gmpy2.mpfr(k + r / 2))
    value = gmpy2.lgamma(gmpy2.mpfr(k + r))[0] - gmpy2.lgamma(gmpy2.mpfr(k + 1))[0]
    return value, value


def _geometric(source: _Bits, t: int, s: int) -> int:
    """Draw k >= 0 with P(k) proportional to exp(-k s/t), exactly: discrete Laplace noise without its sign."""
    while not source.exp_minus(u := source.below(t), t):
        pass
    v = 0
    while source.exp_minus(1, 1):
        v += 1
    return (u + t * v) // s


def _happens(source: _Bits, log_chance: Callable[[int], _Bounds]) -> bool:
    """Return True with a chance of which ``log_chance(precision)`` bounds the logarithm, ever more closely: exactly.

    The chance is compared with a uniform number of which 64 bits are drawn at a time, until no further bit matters.
    """
    u, n = 0, 0
    while True:
        u, n = u << 64 | source.bits(64), n + 64
        low, high = log_chance(n + _FIRST_PRECISION - 64)
        with gmpy2.context(gmpy2.get_context(), precision=n + 1, round=gmpy2.RoundUp):
            if gmpy2.log(gmpy2.mpfr(u + 1) / (1 << n)) <= low:
                return True
        with gmpy2.context(gmpy2.get_context(), precision=n + 1, round=gmpy2.RoundDown):
            if u and gmpy2.log(gmpy2.mpfr(u) / (1 << n)) >= high:
                return False


def l2_laplace_share(rng: Rng, beta: Fraction, honest: int, d: int, scale: Fraction) -> list[int]:
    """Draw a party's share: ``honest`` of them hide as well as scale eta, eta of density exp(-beta ||eta||_2).

    Parameters
    ----------
    rng : Rng
        The only source of randomness.
    beta : Fraction
        Greater than 0.
    honest : int
        h, how many shares the adversary does not know: 1 to 2^20.
    d : int
        Dimensions: 1 to 2^30.
    scale : Fraction
        Grid units per unit of eta, greater than 0; scale/beta is at most 2^150.

    Notes
    -----
    A share is a vector of discrete Gaussians of variance v = 2 r^2 G + 9, r = scale/beta, with one G for all
    coordinates, Gamma of shape (d + 1)/(2h). Given the G, the sum of h shares is, but for tau, a rounding of a normal
    vector of variance 2 r^2 sum G + 9 (h - 1) that commutes with integer shifts: the Notes of :func:`closeness_of_sum`
    hold for unequal variances too, all of 9 or more, for then 1/c^2 <= 1/9 + 1/9. The normal vector's first part, with
    sum G of shape (d + 1)/2, has a density proportional to exp(-||x||_2/r); the second is noise on top. So a release
    q + sum is epsilon-DP for epsilon = beta Delta, Delta what neighbours move q by (rounding included), but for a delta
    of (1 + exp(epsilon)) times the total variation: tau < 10^-37 d h, and what the arithmetic of G adds for each share.
    Both together are below h 2^-60.

    *Arithmetic.* G = -log(U_1 ... U_m) - log(U) X/(X + Y), m the whole part of the shape and f what remains; X =
    V^(1/f) and Y = W^(1/(1-f)) are drawn until X + Y <= 1. Uniforms are multiples of 2^-256, and the arithmetic carries
    256 bits; couple each with a continuous one in the cell below it. One lies within 2^-96 of 0 or 1 with a chance of
    2^-95, in all less than (d + 8) 2^-95, with 4/pi tries on average at most. Else -log U is off by 2^-159 of itself,
    and X and Y, as 1/f and 1/(1-f) are at most 2h, by h 2^-157 of themselves. So the test X + Y <= 1 goes another way
    with a chance of h 2^-155 a try at most: the density of X + Y at s <= 1 is f (1 - f) pi/sin(pi f) <= 1, and no more
    beyond. G is off by less than (h + d) 2^-155 of itself, and v, rounded up to a multiple of 2^-90, by 2^-93 of
    itself. That moves a discrete Gaussian by 2^-93 in total variation at most, since log P(x) changes with log v at a
    rate of x^2/(2v) less its mean, and E x^2 <= v. In all: (d + 8) 2^-95 + d 2^-93 + h 2^-154 < 2^-61.

    References
    ----------
    Kotz, Kozubowski, Podgorski 2001, "The Laplace Distribution and Generalizations", chapter 6: mixtures of normals.
    Johnk 1964, in Devroye 1986, "Non-Uniform Random Variate Generation", chapter IX, 3.5: Beta from powers of uniforms.
    """
    _check_l2(beta, d, scale)
    _check(1 <= honest <= _LARGEST_HONEST)
    source, ratio = _Bits(rng), scale / beta
    with gmpy2.context(gmpy2.get_context(), precision=_GAMMA_BITS):
        root = _gamma(source, Fraction(d + 1, 2 * honest)) * 2 * gmpy2.mpq(ratio.numerator, ratio.denominator) ** 2
        variance = int(gmpy2.ceil(root * 2**_VARIANCE_BITS))
    return _gaussian(source, Fraction(variance, 2**_VARIANCE_BITS) + LEAST_SHARE_SIGMA**2, d)


def _gamma(source: _Bits, shape: Fraction) -> gmpy2.mpfr:
    """Draw a Gamma variable in the precision of the context; see :func:`l2_laplace_share`."""
    whole, f = divmod(shape, 1)
    value = gmpy2.mpfr(0)
    if whole:
        value -= gmpy2.log(math.prod(_uniforms(source, _GAMMA_BITS, whole), start=gmpy2.mpfr(1)))
    if f:
        powers = [gmpy2.mpfr(gmpy2.mpq(a.denominator, a.numerator)) for a in (f, 1 - f)]
        x = y = gmpy2.mpfr(1)
        while x + y > 1:
            x, y = (u**power for u, power in zip(_uniforms(source, _GAMMA_BITS, 2), powers, strict=True))
        value -= gmpy2.log(_uniforms(source, _GAMMA_BITS, 1)[0]) * x / (x + y)
    return value


def l2_share_tail_bound(beta: Fraction, d: int, scale: Fraction, bits: int = TAIL_BITS) -> int:
    """Return a B with P(any |coordinate| of :func:`l2_laplace_share` > B) <= 2^-bits, whatever h.

    Coordinates exceed B no more often than those of y + 3z reach it, y normal of variance 2 r^2 G, z standard normal.
    ||y|| is the larger, the larger G, so its tail is below that of scale ||eta||, for which G has all of the shape.
    """
    _check_l2(beta, d, scale)
    more = d.bit_length() + 2
    return l2_tail_bound(beta, d, scale, bits + more) + discrete_gaussian_tail_bound(
        Fraction(LEAST_SHARE_SIGMA), d, bits + more
    )


def _check_l2(beta: Fraction, d: int, scale: Fraction) -> None:
    _check(beta > 0 and scale > 0 and scale / beta <= _LARGEST_RATIO and 1 <= d <= _LARGEST_DIMENSIONS)


def grid_l2_laplace(rng: Rng, beta: Fraction, d: int) -> list[int]:
    """Draw a vector of integers with P(x) proportional to exp(-beta ||x||_2), exactly.

    A release q + x, with q an integer vector that neighbours move by Delta, is epsilon-DP for epsilon = beta Delta and
    nothing more: abs(||x||_2 - ||x - v||_2) <= ||v||_2. It is no share: one party draws it all.

    Parameters
    ----------
    rng : Rng
        The only source of randomness.
    beta : Fraction
        Per grid unit, greater than 0.
    d : int
        Dimensions: 1 to 20.

    Notes
    -----
    Independent discrete Laplace coordinates with P proportional to exp(-r ||x||_1), r <= beta/sqrt(d), are kept with
    the chance exp(-(beta ||x||_2 - r ||x||_1)), which is at most 1 since ||x||_1 <= sqrt(d) ||x||_2. The exponent is
    bounded by directed rounding, of as many digits as it takes to decide.
    """
    _check(beta > 0 and 1 <= d <= GRID_L2_DIMENSIONS)
    source = _Bits(rng)
    rate = beta * Fraction(math.isqrt(4**_SLOPE_BITS // d), 2**_SLOPE_BITS)
    while True:
        x = [_one(source, rate.denominator, rate.numerator) for _ in range(d)]
        if _happens(source, partial(_log_kept, x, beta, rate)):
            return x


def _log_kept(x: list[int], beta: Fraction, rate: Fraction, precision: int) -> _Bounds:
    """Bound rate ||x||_1 - beta ||x||_2."""
    one, square = sum(map(abs, x)) * rate, sum(v * v for v in x)
    gain, slope = (gmpy2.mpq(v.numerator, v.denominator) for v in (one, beta))
    bounds = []
    for loss, whole in ((gmpy2.RoundUp, gmpy2.RoundDown), (gmpy2.RoundDown, gmpy2.RoundUp)):
        with gmpy2.context(gmpy2.get_context(), precision=precision, round=loss):
            norm = gmpy2.sqrt(gmpy2.mpfr(square)) * slope
        with gmpy2.context(gmpy2.get_context(), precision=precision, round=whole):
            bounds.append(gain - norm)
    return bounds[0], bounds[1]


def _check(allowed: bool) -> None:
    if not allowed:
        raise LocalProtocolError("noise was asked for beyond what its law is worked out for")
