"""Noise that many parties draw in shares: exact laws on the integers.

:func:`discrete_gaussian` is exact: rational arithmetic, no float anywhere. Any h shares of it add up to noise that is
as good as a continuous normal, but for the :func:`closeness_of_sum`.

All depend on public numbers alone and take a time that is not constant, so they are drawn before a party joins.
"""

import math
import sys
from fractions import Fraction

import gmpy2
from scipy.special import erfcinv

from masquerade_core.errors import LocalProtocolError
from masquerade_core.privacy._search import smallest
from masquerade_core.privacy.mechanisms import TAIL_BITS, _Bits, _one
from masquerade_core.rng import Rng

__all__ = [
    "LEAST_SHARE_SIGMA",
    "closeness_of_sum",
    "discrete_gaussian",
    "discrete_gaussian_tail_bound",
    "gaussian_share_sigma",
]

LEAST_SHARE_SIGMA = 3
"""Grid units, the least sigma of a share: the steps of the grid no longer show in a sum, 10 exp(-pi^2 3^2) < 10^-37."""

_BOUND_PRECISION = 256  # a bound has at most 200 bits
_LARGEST_BOUND = 2**200
_SMALLEST_FLOAT = 1e-300
_SHARE_BITS = 20  # behind the point of a share's sigma: rounding up costs less than 2^-20/3 of it


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
    which is exp(-y^2/(2 sigma^2)) exp(abs(y)/t) but for a constant. With sigma = p/q the exponent is (abs(y) t q^2 -
    p^2)^2 / (2 p^2 q^2 t^2), a ratio of integers. Of the proposals .46 are kept for a tiny sigma, .76 for a large one.

    References
    ----------
    Canonne, Kamath, Steinke, "The Discrete Gaussian for Differential Privacy", arXiv 2004.00010, Algorithm 3.
    """
    _check(sigma > 0)
    source, p, q = _Bits(rng), sigma.numerator, sigma.denominator
    t = p // q + 1
    slope, centre, denominator = t * q * q, p * p, 2 * (p * q * t) ** 2
    draws: list[int] = []
    while len(draws) < size:
        y = _one(source, t, 1)
        times, rest = divmod((abs(y) * slope - centre) ** 2, denominator)
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

    It is sqrt((sigma^2 + 9)/h), rounded up to a multiple of 2^-20, and at least 3.

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
    return max(Fraction(root, 2**_SHARE_BITS), Fraction(LEAST_SHARE_SIGMA))


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


def _check(allowed: bool) -> None:
    if not allowed:
        raise LocalProtocolError("noise was asked for beyond what its law is worked out for")
