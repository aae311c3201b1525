"""The privacy of noisy copies of a record: epsilon and delta from the noise, and the noise from a privacy target.

A record x in the unit ball is released with noise on each coordinate, once or several times. Replacing x by x' shifts
a copy by ||x - x'||, at most 2. Its label may be released beside the copies, reversed with probability 1/(1 +
e^epsilon_y) (randomised response). All bounds here are for somebody who sees the copies and the label themselves (local
differential privacy). Whatever is computed from them tells no more.

The scale of the noise is 1/alpha. ``law`` names its distribution: "gaussian" is N(0, I/alpha^2), and "l2" has a density
proportional to exp(-(alpha/2) ||n||_2).
"""

import math
from collections.abc import Callable
from functools import lru_cache

from masquerade_core.errors import BadInput
from masquerade_core.privacy.accounting import delta_of, epsilon_of, mu_of
from masquerade_core.privacy.noise.gaussian_rounds import used_up
from masquerade_core.privacy.numbers import require
from masquerade_core.privacy.samplers.l2_laplace import L2_TV_BITS
from masquerade_core.privacy.samplers.rounded_gaussian import GAUSSIAN_TV_BITS

__all__ = ["access_sensitivity", "copies_delta", "copies_epsilon", "delta_with_label", "largest_alpha", "proven_alpha"]

_DIAMETER = 2.0  # of the unit ball
_SHORT = 1 - 2.0**-23  # a derived alpha is multiplied by it: more than floats are off by, for tiny targets, too
_STEPS = 200  # at most, of a bisection; it ends earlier, when no float lies between its two ends


def access_sensitivity(d: int, fraction_bits: int) -> float:
    """Bound the distance of two records of d coordinates that are rounded to a grid of 2^-F."""
    return _DIAMETER + math.sqrt(d) * 2.0**-fraction_bits


def delta_with_label(mu: float, epsilon_y: float, epsilon: float) -> float:
    """Return delta(epsilon) of Gaussian noise and randomised response together, exactly.

    With G the curve of the Gaussian noise alone and p = e^epsilon_y/(1 + e^epsilon_y), it is

        p G(epsilon - epsilon_y) + (1 - p) G(epsilon + epsilon_y).

    Parameters
    ----------
    mu : float
        Greater than 0: the shift over the standard deviation.
    epsilon_y : float
        At least 0: the privacy loss of the label; 0 where the label is the same in both data sets.
    epsilon : float
        At least 0.

    Notes
    -----
    The label comes out as it is with probability p. The neighbour's label then comes out like that with probability
    1 - p, so the label's privacy loss is epsilon_y, and epsilon - epsilon_y is left for the features. Otherwise it is
    -epsilon_y. For e < 0, G(e) = 1 - exp(e) + exp(e) G(-e), because noise and shift look the same from either side.
    """
    require(epsilon_y >= 0 and epsilon >= 0, "epsilon and epsilon_y must be at least 0")
    left = epsilon - epsilon_y
    kept = delta_of(mu, left) if left >= 0 else math.exp(left) * delta_of(mu, -left) - math.expm1(left)
    odds = math.exp(-epsilon_y)  # of a reversed label
    return (kept + odds * delta_of(mu, epsilon + epsilon_y)) / (1 + odds)


def copies_epsilon(
    *,
    law: str,
    alpha: float,
    copies: int,
    delta: float = 0.0,
    sensitivity: float = _DIAMETER,
    epsilon_y: float = 0.0,
) -> float:
    """Return the epsilon of m noisy copies of one record and, if ``epsilon_y`` is not 0, of its randomised label.

    * "l2": a shift by s costs at most alpha s/2, by the triangle inequality, and m copies cost m times as much. For s =
      2 that is m alpha. The label adds epsilon_y. It is pure differential privacy.
    * "gaussian": m shifts by s are one Gaussian mechanism with mu = s alpha sqrt(m). For s = 2 that is 2 alpha sqrt(m).
      With the label, :func:`delta_with_label` is at most delta from this epsilon on. It is less than the sum of both
      costs.

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
    epsilon_y : float
        At least 0: the privacy loss of the label, which is randomised once.

    References
    ----------
    Song, Chaudhuri and Sarwate 2013, equation (2). Dong, Roth and Su 2022, Corollary 3.3.
    """
    if law == "l2":
        return copies * alpha * sensitivity / 2 + epsilon_y
    mu = sensitivity * alpha * math.sqrt(copies)
    added = epsilon_of(mu, delta) + epsilon_y
    if not epsilon_y:
        return added
    if delta_with_label(mu, epsilon_y, 0) <= delta:
        return 0.0
    return _between(0.0, added, lambda epsilon: delta_with_label(mu, epsilon_y, epsilon) > delta)[1]


def copies_delta(*, law: str, copies: int, epsilon: float, delta: float = 0.0) -> float:
    """Return delta of m noisy copies, raised by (1 + e^epsilon) 2^-60 for each draw.

    A draw is within total variation 2^-60 of its law, under either of two neighbours.
    """
    distance = 2.0 ** -(L2_TV_BITS if law == "l2" else GAUSSIAN_TV_BITS)
    return min(1.0, (0.0 if law == "l2" else delta) + copies * distance * (1 + math.exp(min(epsilon, 700.0))))


def largest_alpha(
    *,
    law: str,
    epsilon: float,
    delta: float,
    copies: int,
    sensitivity: float = _DIAMETER,
    epsilon_y: float = 0.0,
) -> float:
    """Return the largest alpha under which :func:`copies_epsilon` is at most ``epsilon``.

    Parameters
    ----------
    epsilon, delta : float
        What the copies and the label may cost together. For "gaussian", delta is greater than 0.
    copies : int
        m, how often the record is perturbed.
    sensitivity : float
        s, as from :func:`access_sensitivity`.
    epsilon_y : float
        At least 0 and less than ``epsilon``: the privacy loss of the label.
    """
    require(0 <= epsilon_y < epsilon, "epsilon_y must be at least 0, and less than epsilon")
    if law == "l2":
        return 2 * (epsilon - epsilon_y) / (copies * sensitivity)
    return _largest_mu(epsilon, epsilon_y, delta) / (sensitivity * math.sqrt(copies))


@lru_cache(maxsize=256)  # of public numbers, which each step of a run asks for again
def _largest_mu(epsilon: float, epsilon_y: float, delta: float) -> float:
    """Return the largest mu for which :func:`delta_with_label` is at most ``delta``."""
    low = mu_of(epsilon - epsilon_y, delta)  # enough, as both costs add up to the target
    if not epsilon_y:
        return low
    high = 2 * low
    while delta_with_label(high, epsilon_y, epsilon) <= delta:
        low, high = high, 2 * high
    return _between(low, high, lambda mu: delta_with_label(mu, epsilon_y, epsilon) <= delta)[0]


def _between(low: float, high: float, holds: Callable[[float], bool]) -> tuple[float, float]:
    """Return two neighbouring floats: ``holds`` is true at ``low`` and at the first, and false at the second."""
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if not low < middle < high:
            break
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low, high


def proven_alpha(*, law: str, epsilon: float, epsilon_y: float, delta: float, sensitivity: float) -> float:
    """Return the largest alpha with which one copy of a record and its label keeps a privacy target; rounded down.

    The sampler's own part of delta (:func:`copies_delta`) is taken off first. The rest, and all of epsilon, is what one
    copy and the label may cost together (:func:`largest_alpha`).

    Parameters
    ----------
    epsilon, delta : float
        The privacy target.
    epsilon_y : float
        The privacy loss of the label.
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
        raise used_up(epsilon, delta, lost)
    alpha = largest_alpha(law=law, epsilon=epsilon, delta=left, copies=1, sensitivity=sensitivity, epsilon_y=epsilon_y)
    return alpha * _SHORT
