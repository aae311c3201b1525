"""The noise of an evaluation: two vectors, where the first lays out the second.

A record that is held back adds 1 to one count of each vector. So a replaced record moves a vector's counts by sqrt(2)
at most, in L2 norm. To one more number of the second vector a record adds between 0 and 1: the square by which the
model's probability is off. The counts are multiplied by public whole numbers before noise is added: the first vector's
by ``LOCATE_UNITS``, the second's by ``COUNT_UNITS``, and the squares by ``SQUARE_UNITS``. All numbers get noise of one
sigma. So the second vector, from which everything is estimated, comes out COUNT_UNITS/LOCATE_UNITS times as precise as
the first, which only places its bins.

Two releases with Gaussian noise, where the second may depend on the first, are as private as one release that a
replaced record moves by Delta = sqrt(2 LOCATE_UNITS^2 + 2 COUNT_UNITS^2 + SQUARE_UNITS^2).
``docs/privacy/evaluation.md`` has the proof.
"""

import math
from fractions import Fraction

from masquerade_core.privacy.noise.gaussian_rounds import SharedNoise, charge, gaussian_share_sigma, rounds_sigma
from masquerade_core.privacy.numbers import root_up

__all__ = ["COUNT_UNITS", "LOCATE_UNITS", "SQUARE_UNITS", "count_sd", "counts_noise"]

LOCATE_UNITS = 64
"""Grid units of a record in the first vector."""

COUNT_UNITS = 192
"""Grid units of a record in the second vector."""

SQUARE_UNITS = 96
"""Grid units of the largest square."""

_ROOT_BITS = 32


def counts_noise(epsilon: float, delta: float, honest: int, *, classes: bool = False, retries: int = 0) -> SharedNoise:
    """Return the noise of an evaluation; parties draw it in shares.

    Parameters
    ----------
    epsilon, delta : float
        The study's privacy target, all of it: the records held back take part in nothing else.
    honest : int
        h, how many parties do not collude; their noise alone must meet the target.
    classes : bool
        Whether the label has named classes. Then there is one vector of counts, in units of ``COUNT_UNITS``: those of
        the confusion matrix.
    retries : int
        R, how often a vector may be released anew.

    Raises
    ------
    BadInput
        No noise meets the target.
    """
    first, last = (0, 0) if classes else (2 * LOCATE_UNITS**2, SQUARE_UNITS**2)
    second = 2 * COUNT_UNITS**2 + last  # the dearest vector: it is what a dishonest Charlie would have made again
    Delta, largest = root_up(Fraction(first + second), _ROOT_BITS), Fraction(second, first + second)
    sigma = rounds_sigma(Delta, charge(retries, largest), epsilon, delta)
    share = gaussian_share_sigma(sigma, honest)
    return SharedNoise(Delta, 1, sigma, share, epsilon, delta, honest, retries, largest)


def count_sd(noise: SharedNoise, parties: int) -> float:
    """Return the standard deviation of the noise on a count of the second vector, in records: that of all shares."""
    return float(noise.share) * math.sqrt(parties) / COUNT_UNITS
