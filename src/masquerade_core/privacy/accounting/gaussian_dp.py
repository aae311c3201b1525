"""The exact privacy of Gaussian noise: delta as a function of epsilon, and back.

Add noise of standard deviation sigma to a vector that differs by at most Delta in L2 norm between neighbours. Telling
the neighbours apart is then as hard as telling one number drawn from N(0, 1) from one drawn from N(mu, 1), with mu =
Delta/sigma. Several rounds with mu_1, mu_2, ... compose exactly to mu = sqrt(sum_t mu_t^2), also where each round
depends on those before. Anything that is computed from the noisy vectors costs no more privacy. That covers noise that
is rounded to a grid afterwards.

References
----------
Balle and Wang 2018, "Improving the Gaussian mechanism for differential privacy", Theorem 8. Dong, Roth and Su 2022,
"Gaussian differential privacy", Corollaries 2.13 and 3.3.
"""

import math
from functools import lru_cache

from masquerade_core.privacy._checks import require
from masquerade_core.privacy.normal import mills, phi

__all__ = ["delta_of", "epsilon_of", "mu_of"]

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
