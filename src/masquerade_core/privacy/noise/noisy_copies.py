"""The privacy statement of input noise: what Bixler claims, and what is provable of a record and its noisy copies.

The noise is added before anything is computed, so the proof needs no view: whatever is made of the noisy copies, and
whoever sees it, Charlie with all other parties included, learns no more than the copies themselves would tell (local
differential privacy). An access of a record x in the unit ball, replaced by x', shifts the noise by ||x - x'|| <= 2.
"""

import math

from masquerade_core.errors import BadInput
from masquerade_core.privacy.accounting.gaussian_dp import epsilon_of, mu_of
from masquerade_core.privacy.samplers.l2_laplace import L2_TV_BITS
from masquerade_core.privacy.samplers.rounded_gaussian import GAUSSIAN_TV_BITS

__all__ = ["access_sensitivity", "copies_delta", "copies_epsilon", "largest_alpha", "proven_alpha"]

_DIAMETER = 2.0  # of the unit ball
_SHORT = 1 - 2.0**-23  # of a derived alpha, so that floats' error leaves it on the safe side, for tiny wishes too


def access_sensitivity(d: int, fraction_bits: int) -> float:
    """Return how far apart two records of d coordinates lie at most once they are rounded to a grid of 2^-F."""
    return _DIAMETER + math.sqrt(d) * 2.0**-fraction_bits


def copies_epsilon(*, law: str, alpha: float, copies: int, delta: float = 0.0, sensitivity: float = _DIAMETER) -> float:
    """Return the epsilon of m noisy copies of one record.

    * "l2": density exp(-(alpha/2) ||n||_2): a shift by s costs at most alpha s/2, by the triangle inequality, and m
      copies m times that; pure. For s = 2: m alpha.
    * "gaussian": N(0, I/alpha^2): m shifts by s are one Gaussian mechanism of mu = s alpha sqrt(m); for s = 2: 2 alpha
      sqrt(m) (:func:`~masquerade_core.privacy.accounting.gaussian_dp.epsilon_of`).

    Parameters
    ----------
    alpha : float
        Greater than 0.
    copies : int
        m, how often the record is perturbed; 1 where the noisy copy is kept.
    delta : float
        For "gaussian": greater than 0.

    References
    ----------
    Song, Chaudhuri and Sarwate 2013, equation (2). Dong, Roth and Su 2022, Corollary 3.3.
    """
    if law == "l2":
        return copies * alpha * sensitivity / 2
    return epsilon_of(sensitivity * alpha * math.sqrt(copies), delta)


def copies_delta(*, law: str, copies: int, epsilon: float, delta: float = 0.0) -> float:
    """Return delta, with what each draw's distance from its law adds: (1 + e^epsilon) 2^-60, on both neighbours."""
    distance = 2.0 ** -(L2_TV_BITS if law == "l2" else GAUSSIAN_TV_BITS)
    return min(1.0, (0.0 if law == "l2" else delta) + copies * distance * (1 + math.exp(min(epsilon, 700.0))))


def largest_alpha(*, law: str, epsilon: float, delta: float, copies: int) -> float:
    """Return the largest alpha under which m copies of the features cost no more than ``epsilon`` and ``delta``."""
    if law == "l2":
        return epsilon / copies
    return mu_of(epsilon, delta) / (2 * math.sqrt(copies))


def proven_alpha(*, law: str, epsilon: float, epsilon_y: float, delta: float, sensitivity: float) -> float:
    """Return the largest alpha under which one copy of a record, label included, keeps the wish; rounded down.

    The label's randomised response costs epsilon_y, so the features have epsilon - epsilon_y: the noise on them is
    independent of the label's, and the two costs add up. What the sampler's distance from its law adds to delta
    (:func:`copies_delta`) is taken off before.

    * "gaussian": mu(epsilon - epsilon_y, delta) = s alpha, s how far two records lie apart.
    * "l2": epsilon - epsilon_y = alpha s/2.

    Parameters
    ----------
    epsilon, delta : float
        The study's wish.
    epsilon_y : float
        A label's share of epsilon.
    sensitivity : float
        s, of :func:`access_sensitivity`.

    Raises
    ------
    BadInput
        The label takes all of epsilon, or the sampler more than delta.
    """
    if not 0 < epsilon_y < epsilon:
        raise BadInput(
            f"[protocol] epsilon_y is {epsilon_y:g} and [privacy] epsilon {epsilon:g}: nothing of the wish is left "
            "for a record's features",
            "choose an epsilon_y less than epsilon, such as a third of it",
        )
    left = delta - copies_delta(law=law, copies=1, epsilon=epsilon)
    if left < 0 or (law == "gaussian" and left == 0):
        raise BadInput(
            f"[privacy] delta is {delta:g}, but at epsilon = {epsilon:g} the noise's arithmetic alone takes "
            f"{delta - left:.2g} of it",
            "choose a larger delta" if epsilon < 1 else "choose a larger delta, or a smaller epsilon",
        )
    features = epsilon - epsilon_y
    alpha = 2 * features / sensitivity if law == "l2" else mu_of(features, left) / sensitivity
    return alpha * _SHORT
