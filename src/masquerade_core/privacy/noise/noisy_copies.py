"""The privacy of noisy copies of a record: epsilon and delta from the noise, and the noise from a privacy target.

A record x in the unit ball is released with noise on each coordinate, once or several times. Replacing x by x' shifts
a copy by ||x - x'||, at most 2. All bounds here are for somebody who sees the copies themselves (local differential
privacy). Whatever is computed from the copies tells no more.

The scale of the noise is 1/alpha. ``law`` names its distribution: "gaussian" is N(0, I/alpha^2), and "l2" has a density
proportional to exp(-(alpha/2) ||n||_2).
"""

import math

from masquerade_core.errors import BadInput
from masquerade_core.privacy.accounting.gaussian_dp import epsilon_of, mu_of
from masquerade_core.privacy.samplers.l2_laplace import L2_TV_BITS
from masquerade_core.privacy.samplers.rounded_gaussian import GAUSSIAN_TV_BITS

__all__ = ["access_sensitivity", "copies_delta", "copies_epsilon", "largest_alpha", "proven_alpha"]

_DIAMETER = 2.0  # of the unit ball
_SHORT = 1 - 2.0**-23  # a derived alpha is multiplied by it: more than floats are off by, for tiny targets, too


def access_sensitivity(d: int, fraction_bits: int) -> float:
    """Bound the distance of two records of d coordinates that are rounded to a grid of 2^-F."""
    return _DIAMETER + math.sqrt(d) * 2.0**-fraction_bits


def copies_epsilon(*, law: str, alpha: float, copies: int, delta: float = 0.0, sensitivity: float = _DIAMETER) -> float:
    """Return the epsilon of m noisy copies of one record.

    * "l2": a shift by s costs at most alpha s/2, by the triangle inequality, and m copies cost m times as much. For s =
      2 that is m alpha. It is pure differential privacy.
    * "gaussian": m shifts by s are one Gaussian mechanism with mu = s alpha sqrt(m). For s = 2 that is 2 alpha sqrt(m)
      (:func:`~masquerade_core.privacy.accounting.gaussian_dp.epsilon_of`).

    Parameters
    ----------
    alpha : float
        Greater than 0.
    copies : int
        m, how often the record is perturbed; 1 where one noisy copy is kept and used again.
    delta : float
        For "gaussian": greater than 0.
    sensitivity : float
        s, as from :func:`access_sensitivity`.

    References
    ----------
    Song, Chaudhuri and Sarwate 2013, equation (2). Dong, Roth and Su 2022, Corollary 3.3.
    """
    if law == "l2":
        return copies * alpha * sensitivity / 2
    return epsilon_of(sensitivity * alpha * math.sqrt(copies), delta)


def copies_delta(*, law: str, copies: int, epsilon: float, delta: float = 0.0) -> float:
    """Return delta of m noisy copies, raised by (1 + e^epsilon) 2^-60 for each draw.

    A draw is within total variation 2^-60 of its law, under either of two neighbours.
    """
    distance = 2.0 ** -(L2_TV_BITS if law == "l2" else GAUSSIAN_TV_BITS)
    return min(1.0, (0.0 if law == "l2" else delta) + copies * distance * (1 + math.exp(min(epsilon, 700.0))))


def largest_alpha(*, law: str, epsilon: float, delta: float, copies: int) -> float:
    """Return the largest alpha under which m copies of the features cost no more than ``epsilon`` and ``delta``."""
    if law == "l2":
        return epsilon / copies
    return mu_of(epsilon, delta) / (2 * math.sqrt(copies))


def proven_alpha(*, law: str, epsilon: float, epsilon_y: float, delta: float, sensitivity: float) -> float:
    """Return the largest alpha with which one copy of a record and its label keeps a privacy target; rounded down.

    The label's randomised response costs epsilon_y, which leaves epsilon - epsilon_y for the features. The two noises
    are independent, so their costs add up. The sampler's own part of delta (:func:`copies_delta`) is taken off first.

    * "gaussian": mu(epsilon - epsilon_y, delta) = s alpha, where s is the largest distance of two records.
    * "l2": epsilon - epsilon_y = alpha s/2.

    Parameters
    ----------
    epsilon, delta : float
        The privacy target.
    epsilon_y : float
        A label's share of epsilon.
    sensitivity : float
        s, as from :func:`access_sensitivity`.

    Raises
    ------
    BadInput
        The label takes all of epsilon, or the sampler more than delta.
    """
    if not 0 < epsilon_y < epsilon:
        raise BadInput(
            f"[protocol] epsilon_y is {epsilon_y:g} and [privacy] epsilon is {epsilon:g}, so nothing of epsilon is "
            "left for a record's features",
            "choose an epsilon_y less than epsilon, such as a third of it",
        )
    lost = copies_delta(law=law, copies=1, epsilon=epsilon)
    left = delta - lost
    if left < 0 or (law == "gaussian" and left == 0):
        raise BadInput(
            f"[privacy] delta is {delta:g}, but at epsilon = {epsilon:g} small errors of the noise alone use up a "
            f"delta of {lost:.2g}",
            "choose a larger delta" if epsilon < 1 else "choose a smaller epsilon, or a larger delta",
        )
    features = epsilon - epsilon_y
    alpha = 2 * features / sensitivity if law == "l2" else mu_of(features, left) / sensitivity
    return alpha * _SHORT
