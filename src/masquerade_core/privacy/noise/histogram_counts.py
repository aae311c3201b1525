"""How much noise on the counts of histograms meets a privacy target; ``docs/privacy/summary.md`` derives it.

Released is q + x: q are the counts of H histograms, and x is the sum of all parties' shares of noise. Each record is in
exactly one bin of each histogram. So a replaced record takes 1 from one bin and adds 1 to another, in each histogram at
most once, and moves q by at most sqrt(2 H) in L2 norm. Counts are whole numbers, so nothing is rounded. The sum of any
h shares hides as well as a continuous normal of standard deviation Delta/mu (Balle and Wang 2018, Theorem 8;
:func:`~masquerade_core.privacy.noise.gaussian_rounds.gaussian_share_sigma`). What is computed from q + x costs no more
privacy.
"""

from fractions import Fraction

from masquerade_core.privacy.noise.gaussian_rounds import SharedNoise, gaussian_share_sigma, rounds_sigma
from masquerade_core.privacy.numbers import root_up

__all__ = ["COUNT_BITS", "histogram_noise", "histogram_sensitivity"]

COUNT_BITS = 10
"""G: noisy counts are integers in units of 2^-G records, so that the grid adds next to nothing to the noise."""

_ROOT_BITS = 32


def histogram_sensitivity(histograms: int) -> Fraction:
    """Return Delta = sqrt(2 H) 2^G: how far a replaced record moves the counts, in L2 norm and in units of 2^-G.

    Parameters
    ----------
    histograms : int
        H, in each of which a record counts once.
    """
    return root_up(Fraction(2 * histograms << (2 * COUNT_BITS)), _ROOT_BITS)


def histogram_noise(*, histograms: int, epsilon: float, delta: float, honest: int, retries: int = 0) -> SharedNoise:
    """Return the noise on the counts, in units of 2^-G records; its ``rounds`` is 1.

    Parameters
    ----------
    histograms : int
        H.
    epsilon, delta : float
        The privacy target.
    honest : int
        h, the number of shares that meet the target: at least 1.
    retries : int
        R, how often the counts may be released anew.

    Raises
    ------
    BadInput
        There is no such noise; the sentence says what would make it possible.
    """
    Delta = histogram_sensitivity(histograms)
    sigma = rounds_sigma(Delta, 1 + retries, epsilon, delta)
    return SharedNoise(Delta, 1, sigma, gaussian_share_sigma(sigma, honest), epsilon, delta, honest, retries)
