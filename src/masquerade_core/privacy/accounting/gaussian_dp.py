"""The exact privacy of Gaussian noise: delta as a function of epsilon, and back.

Add noise of standard deviation sigma to a vector that differs by at most Delta in L2 norm between neighbours. Telling
the neighbours apart is then as hard as telling one number drawn from N(0, 1) from one drawn from N(mu, 1), with mu =
Delta/sigma. Several rounds with mu_1, mu_2, ... compose exactly to mu = sqrt(sum_t mu_t^2), also where each round
depends on those before. Anything that is computed from the noisy vectors costs no more privacy. That covers noise that
is rounded to a grid afterwards.

A sum of discrete Gaussian variables is neither discrete Gaussian nor a rounded normal variable. But it is so close to
the latter that exact results about normal noise hold for it, if delta is larger by a tiny tau.
:func:`closeness_of_sum` bounds tau.

References
----------
Balle and Wang 2018, "Improving the Gaussian mechanism for differential privacy", Theorem 8. Dong, Roth and Su 2022,
"Gaussian differential privacy", Corollaries 2.13 and 3.3.
"""

import math
import sys
from fractions import Fraction
from functools import lru_cache

import gmpy2

from masquerade_core.privacy.numbers import mills, phi, require

__all__ = ["LEAST_SHARE_SIGMA", "closeness_of_sum", "delta_of", "epsilon_of", "mu_of"]


# --- Closeness -------------------------------------------------------------------

LEAST_SHARE_SIGMA = 3
"""The least sigma of a summand, in grid units: from here on the steps of the grid hardly show in a sum of two or more.

What is left of them is 10 exp(-pi^2 3^2) < 10^-37.
"""

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


# --- Gaussian dp -----------------------------------------------------------------

_KEPT = 4096  # results of a bisection; a statement asks for the same ones again and again
_SMALL = 2.0**-16  # the difference of two values of R loses too many digits where mu is less
_STEPS = 200  # at most, of a bisection; it ends earlier, when no float lies between its two ends


def delta_of(mu: float, epsilon: float) -> float:
    """Return delta(epsilon) = Phi(-epsilon/mu + mu/2) - exp(epsilon) Phi(-epsilon/mu - mu/2).

    Parameters
    ----------
    mu : float
        Sensitivity over standard deviation, greater than 0.
    epsilon : float
        At least 0.

    Notes
    -----
    With a, b = epsilon/mu -+ mu/2 and R(x) = Phi(-x)/phi(x) this is phi(a) (R(a) - R(b)), as exp(epsilon) phi(b) =
    phi(a). In this form nothing overflows, and a small result is a difference of large numbers only where mu is tiny.
    There, R(a) - R(b) is mu times the slope halfway, 1 - m R(m) with m = epsilon/mu, up to a factor within 1 and 1 +
    mu^2/12.
    """
    require(mu > 0 and epsilon >= 0, "mu must be greater than 0, and epsilon at least 0")
    a, b = epsilon / mu - mu / 2, epsilon / mu + mu / 2
    density = math.exp(-a * a / 2) / math.sqrt(2 * math.pi)
    if mu < _SMALL:
        middle = epsilon / mu
        return density * mu * max(0.0, 1 - middle * mills(middle))
    if a < 0:
        return phi(-a) - density * mills(b)
    return density * (mills(a) - mills(b))


@lru_cache(maxsize=_KEPT)
def epsilon_of(mu: float, delta: float) -> float:
    """Return the smallest epsilon >= 0 with delta(epsilon) <= delta, rounded up to the float above.

    Parameters
    ----------
    mu : float
        Greater than 0.
    delta : float
        Between 0 and 1, ends excluded.

    Notes
    -----
    The result is at most mu^2/2 + mu sqrt(2 ln(1/delta)): there, delta(epsilon) < Phi(-sqrt(2 ln(1/delta))) < delta.
    """
    require(mu > 0 and 0 < delta < 1, "mu must be greater than 0, and delta between 0 and 1")
    low, high = 0.0, mu * mu / 2 + mu * math.sqrt(-2 * math.log(delta))
    if delta_of(mu, low) <= delta:
        return low
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if not low < middle < high:
            break
        low, high = (middle, high) if delta_of(mu, middle) > delta else (low, middle)
    return high


@lru_cache(maxsize=_KEPT)
def mu_of(epsilon: float, delta: float) -> float:
    """Return the largest mu with delta(epsilon) <= delta: noise of sigma = Delta/mu meets the target (epsilon, delta).

    Parameters
    ----------
    epsilon : float
        At least 0.
    delta : float
        Between 0 and 1, ends excluded.
    """
    require(epsilon >= 0 and 0 < delta < 1, "epsilon must be at least 0, and delta between 0 and 1")
    low, high = 0.0, 1.0
    while delta_of(high, epsilon) <= delta:
        low, high = high, 2 * high
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if not low < middle < high:
            break
        low, high = (middle, high) if delta_of(middle, epsilon) <= delta else (low, middle)
    return low
