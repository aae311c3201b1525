"""The exact privacy of Gaussian noise: delta as a function of epsilon, and back.

Noise of standard deviation sigma on a vector that neighbours move by Delta in L2 norm is as hard to see through as one
number from N(0, 1) is to tell from one of N(mu, 1), mu = Delta/sigma. T rounds at mu_t, each of which may depend on
those before, compose exactly to mu = sqrt(sum_t mu_t^2). Whatever is computed from the noisy vectors costs nothing
more, so noise that is rounded to the grid of integer vectors is covered.

References
----------
Balle and Wang 2018, "Improving the Gaussian mechanism for differential privacy", Theorem 8. Dong, Roth and Su 2022,
"Gaussian differential privacy", Corollaries 2.13 and 3.3.
"""

import math

from scipy.special import erfcx, ndtr

from masquerade_core.errors import LocalProtocolError

__all__ = ["delta_of", "epsilon_of", "mu_of"]

_STEPS = 200  # of a bisection, which ends when two floats are neighbours


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
    phi(a): nothing overflows, and no small number is the difference of two large ones but where mu itself is tiny.
    """
    _check(mu > 0 and epsilon >= 0)
    a, b = epsilon / mu - mu / 2, epsilon / mu + mu / 2
    density = math.exp(-a * a / 2) / math.sqrt(2 * math.pi)
    if a < 0:
        return float(ndtr(-a) - density * _mills(b))
    return density * (_mills(a) - _mills(b))


def _mills(x: float) -> float:
    """R(x) = Phi(-x)/phi(x), x >= 0."""
    return math.sqrt(math.pi / 2) * float(erfcx(x / math.sqrt(2)))


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
    It is at most mu^2/2 + mu sqrt(2 ln(1/delta)), for there delta(epsilon) < Phi(-sqrt(2 ln(1/delta))) < delta.
    """
    _check(mu > 0 and 0 < delta < 1)
    low, high = 0.0, mu * mu / 2 + mu * math.sqrt(-2 * math.log(delta))
    if delta_of(mu, low) <= delta:
        return low
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if not low < middle < high:
            break
        low, high = (middle, high) if delta_of(mu, middle) > delta else (low, middle)
    return high


def mu_of(epsilon: float, delta: float) -> float:
    """Return the largest mu with delta(epsilon) <= delta: the noise that a wish asks for has sigma = Delta/mu.

    Parameters
    ----------
    epsilon : float
        At least 0.
    delta : float
        Between 0 and 1, ends excluded.
    """
    _check(epsilon >= 0 and 0 < delta < 1)
    low, high = 0.0, 1.0
    while delta_of(high, epsilon) <= delta:
        low, high = high, 2 * high
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if not low < middle < high:
            break
        low, high = (middle, high) if delta_of(middle, epsilon) <= delta else (low, middle)
    return low


def _check(in_range: bool) -> None:
    if not in_range:
        raise LocalProtocolError("the privacy of no noise was asked for; the study should have been refused")
