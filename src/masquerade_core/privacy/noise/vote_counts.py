"""The noise that ``vote`` and ``soft`` need on the counts of votes, from all parties; see ``docs/privacy/voting.md``.

Charlie opens q + x: q the counts of votes, x the parties' shares of noise. A party that votes otherwise at every one of
N points moves q by at most Delta in L2 norm (:func:`votes_sensitivity`); votes are whole numbers, and nothing is
rounded. Any h shares of x hide as well as a continuous normal of standard deviation Delta/mu (Balle and Wang 2018,
Theorem 8; :func:`~masquerade_core.privacy.noise.shares.gaussian_share_sigma`). The labels, the classifier and its release
are computed from q + x, and cost nothing more.

Slots follow from the noise, so it is worked out in fractions and correctly rounded arithmetic: the same at everybody.
"""

import math
from fractions import Fraction

from masquerade_core.privacy.noise.gaussian_rounds import SharedNoise, rounds_sigma
from masquerade_core.privacy.noise.shares import gaussian_share_sigma

__all__ = ["COUNT_BITS", "LEAST_SHARE", "count_noise", "counters_at_a_point", "counts_sensitivity"]

COUNT_BITS = 10
"""G: noisy counts are integers in units of 2^-G votes. On whole votes, 1,000 shares of sigma 3 would be 95 votes."""

LEAST_SHARE = 4
"""Units, the least sigma of a share: in total variation a count's noise is then within 2^-200 of a rounded normal. The
sum of 1,024 such shares has a sigma of an eighth of a vote."""

_TWO = 2
_ROOT_BITS = 32


def counters_at_a_point(classes: int) -> int:
    """Return how many counts are opened at each auxiliary point: one for two classes, else one for each.

    Of two classes the second has what is left of M. Of more, what is left would carry all other counts' noise.
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
        The wish.
    honest : int
        h, the parties whose shares must be enough: at least 1.

    Raises
    ------
    BadInput
        There is no such noise; the sentence says what would make it possible.
    """
    Delta = counts_sensitivity(N, classes)
    sigma = rounds_sigma(Delta, 1, epsilon, delta)
    share = max(gaussian_share_sigma(sigma, honest), Fraction(LEAST_SHARE))
    return SharedNoise(Delta, 1, sigma, share, epsilon, delta, honest)
