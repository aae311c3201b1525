"""How far sums of discrete Gaussian shares are from a rounded normal."""

import math
import sys
from fractions import Fraction

import gmpy2

from masquerade_core.errors import LocalProtocolError

__all__ = ["LEAST_SHARE_SIGMA", "closeness_of_scaled_sum", "closeness_of_sum"]

_ROUNDED = 1 + 1e-12  # floats of a statement, upwards

LEAST_SHARE_SIGMA = 3
"""Grid units, the least sigma of a share: the steps of the grid no longer show in a sum, 10 exp(-pi^2 3^2) < 10^-37."""

_BOUND_PRECISION = 256  # a bound has at most 200 bits


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


def closeness_of_scaled_sum(shares: int, d: int, unit: Fraction, fine: Fraction, b: int) -> float:
    """Return tau: how far b G + F is from a rounded normal of variance m (b^2 unit^2 + fine^2) - 9, in total variation.

    G and F are sums of m = ``shares`` draws of sigma ``unit`` and ``fine`` in d coordinates. A guarantee of the normal
    holds with (1 + exp(epsilon)) tau more in delta. With ``UNIT`` and ``FINE`` tau is below 10^-70 d m.

    Notes
    -----
    But for factors within exp(+-tau) of :func:`~masquerade_core.privacy.accounting.closeness.closeness_of_sum`, G and F are
    discrete Gaussians of variances A^2 = m unit^2 and C^2 = m fine^2. Completing the square, P(b G + F = v) is
    proportional to exp(-v^2/(2 (b^2 A^2 + C^2))) theta(c, v c^2 b/C^2), 1/c^2 = 1/A^2 + b^2/C^2, and by Poisson's
    formula theta is constant but for a factor of 1 +- 2.1 exp(-2 pi^2 c^2): so that of the discrete Gaussian of this
    variance, within exp(+-10 exp(-2 pi^2 c^2)), the normalisation included. Rounding a normal is as there.
    """
    c2 = shares / (1 / float(unit) ** 2 + (b / float(fine)) ** 2)
    if c2 < 1:
        raise LocalProtocolError("fine noise that is no finer than the scale: the lattice shows")
    smoothing = 10 * d * math.exp(-2 * math.pi**2 * c2) * _ROUNDED
    sums = closeness_of_sum(unit, shares, d) + closeness_of_sum(fine, shares, d)
    return max(sums + smoothing, sys.float_info.min)
