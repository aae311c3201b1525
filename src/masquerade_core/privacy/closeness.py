"""How close a sum of discrete Gaussian variables is to a rounded normal variable.

It is neither that nor discrete Gaussian. But it is so close to the former that exact results about normal noise hold
for it, if delta is larger by a tiny tau.
"""

import math
import sys
from fractions import Fraction

import gmpy2

from masquerade_core.privacy.accounting import LEAST_SHARE_SIGMA
from masquerade_core.privacy.numbers import require

__all__ = ["closeness_of_sum"]

_PRECISION = 256


def closeness_of_sum(sigma_share: Fraction, honest: int, size: int = 1) -> float:
    """Return tau, a bound on the total variation distance between the sum of ``honest`` shares and a rounded normal.

    The normal has the variance h s^2 - 9. A guarantee (epsilon, delta) of the normal holds for the sum with
    (1 + exp(epsilon)) tau more in delta. tau = 10 size (sum_{k=1}^{h-1} exp(-2 pi^2 s^2 k/(k+1)) + exp(-2 pi^2 3^2)),
    which is less than 10^-36 size h for every h and every s of at least 3.

    Parameters
    ----------
    sigma_share : Fraction
        s, the sigma of each share, in grid units: at least 3.
    honest : int
        h, how many shares are added up: at least 1. They are the shares that the adversary does not know.
    size : int
        How many coordinates are released.

    Notes
    -----
    Write theta(c, u) for the sum over the integers k of exp(-(k - u)^2/(2 c^2)). By Poisson's formula it is
    sqrt(2 pi) c (1 + r) with abs(r) <= 2 sum_{k>=1} exp(-2 pi^2 c^2 k^2) < 2.1 e, e = exp(-2 pi^2 c^2), for c >= 1.

    *Sum.* Let x have a density on the integers that is proportional to exp(-x^2/(2 a^2)) up to factors near 1, and let
    y be discrete Gaussian with sigma s. Up to the same factors, the density of x + y is proportional to
    exp(-v^2/(2 (a^2 + s^2))) theta(c, v a^2/(a^2 + s^2)), with 1/c^2 = 1/a^2 + 1/s^2. For a^2 = k s^2 this is c^2 =
    s^2 k/(k+1). So after h shares the density is that of the discrete Gaussian of variance h s^2 up to a factor within
    exp(+-10 sum_k e_k). The normalisation is included, as log((1 + 2.1 e)/(1 - 2.1 e)) < 5 e for e < exp(-pi^2 3^2).

    *Rounding.* Let z be normal with variance h s^2 - 9, and w an integer drawn with P(w) proportional to exp(-(w -
    z)^2/(2 3^2)). This is a way to round z that commutes with a shift by an integer. The density of w is the integral
    over z of the two exponentials over theta(3, z), so it is proportional to exp(-w^2/(2 h s^2)) up to a factor within
    1 +- 2.1 e. Hence it is that of the discrete Gaussian of variance h s^2 up to a factor within
    exp(+-10 exp(-2 pi^2 3^2)).

    *Guarantee.* A factor within exp(+-tau) bounds the total variation distance by (exp(tau) - 1)/2 <= tau, and the
    distances of independent coordinates add up. Let a release be q + w, with an integer vector q that depends on the
    records: it is the rounding of q + z. With P and P' the laws of the released sum for two neighbours, and Q and Q'
    those of the rounded normal, P(A) <= Q(A) + tau <= exp(epsilon) Q'(A) + delta + tau <= exp(epsilon) P'(A) + delta +
    (1 + exp(epsilon)) tau.

    References
    ----------
    Kairouz, Liu, Steinke 2021, "The Distributed Discrete Gaussian Mechanism for Federated Learning with Secure
    Aggregation", arXiv 2102.06387: the first sum. Canonne, Kamath, Steinke, arXiv 2004.00010, section 2.
    """
    require(sigma_share >= LEAST_SHARE_SIGMA, f"a share's sigma must be at least {LEAST_SHARE_SIGMA} grid units")
    require(honest >= 1 and size >= 1, "a sum of noise needs at least one share and one coordinate")
    with gmpy2.context(gmpy2.get_context(), precision=_PRECISION, round=gmpy2.RoundUp):
        s2 = gmpy2.mpq(sigma_share.numerator, sigma_share.denominator) ** 2
        exponents = [s2 * k / (k + 1) for k in range(1, honest)] + [gmpy2.mpq(LEAST_SHARE_SIGMA**2)]
        # Rounded down, since a smaller exponent makes the exponential, and so the bound, larger.
        with gmpy2.context(gmpy2.get_context(), round=gmpy2.RoundDown):
            pi2 = 2 * gmpy2.const_pi() ** 2
            exponents = [pi2 * exponent for exponent in exponents]
        tau = 10 * size * sum((gmpy2.exp(-exponent) for exponent in exponents), gmpy2.mpfr(0))
        return max(math.nextafter(float(tau), math.inf), sys.float_info.min)
