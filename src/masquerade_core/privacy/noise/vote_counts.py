"""How much noise on counts of votes meets a privacy target; ``docs/privacy/voting.md`` derives it.

Released is q + x: q are the counts of votes, and x is the sum of all parties' shares of noise. A party that votes
otherwise at every one of N points moves q by at most Delta in L2 norm (:func:`counts_sensitivity`). Votes are whole
numbers, so nothing is rounded. The sum of any h shares hides as well as a continuous normal of standard deviation
Delta/mu (Balle and Wang 2018, Theorem 8; :func:`~masquerade_core.privacy.noise.gaussian_rounds.gaussian_share_sigma`).
What is computed from q + x costs no more privacy.

Slots of plaintexts follow from the noise. So it is worked out in fractions and correctly rounded arithmetic, and is the
same number on every machine.
"""

import math
from fractions import Fraction

from masquerade_core.privacy.noise.gaussian_rounds import SharedNoise, gaussian_share_sigma, rounds_sigma

__all__ = ["COUNT_BITS", "LEAST_SHARE", "count_noise", "counters_at_a_point", "counts_sensitivity"]

COUNT_BITS = 10
"""G: noisy counts are integers in units of 2^-G votes. In whole votes, 1,000 shares of sigma 3 would be noise of 95."""

LEAST_SHARE = 4
"""The least sigma of a share, in units of 2^-G votes. In total variation, a count's noise is then within 2^-200 of a
rounded normal. The sum of 1,024 such shares has a sigma of an eighth of a vote."""

_TWO = 2
_ROOT_BITS = 32


def counters_at_a_point(classes: int) -> int:
    """Return how many counts are released at each auxiliary point: 1 for two classes, else one for each class.

    The second of two classes has what the first leaves of M. Of more classes, the one without a count would carry the
    noise of all others.
    """
    return 1 if classes == _TWO else classes


def counts_sensitivity(N: int, classes: int) -> Fraction:
    """Return Delta, how far one party's votes at N points move the counts in L2 norm, in units of 2^-G; rounded up.

    One counter changes by 1 at each point, sqrt(N) votes in all; or two of them by 1 each, sqrt(2 N) votes.
    """
    square = N * (1 if counters_at_a_point(classes) == 1 else _TWO) << (2 * (COUNT_BITS + _ROOT_BITS))
    return Fraction(math.isqrt(square - 1) + 1, 1 << _ROOT_BITS)


def count_noise(*, N: int, classes: int, epsilon: float, delta: float, honest: int) -> SharedNoise:
    """Return the noise on the counts, in units of 2^-G votes; its ``rounds`` is 1.

    Parameters
    ----------
    N, classes : int
        Auxiliary points; C.
    epsilon, delta : float
        The privacy target.
    honest : int
        h, the number of shares that meet the target: at least 1.

    Raises
    ------
    BadInput
        No noise meets the target; the message says what would make it possible.
    """
    Delta = counts_sensitivity(N, classes)
    sigma = rounds_sigma(Delta, 1, epsilon, delta)
    share = max(gaussian_share_sigma(sigma, honest), Fraction(LEAST_SHARE))
    return SharedNoise(Delta, 1, sigma, share, epsilon, delta, honest)
