"""Noisy counts of records by label and bin of score, and the figures that need all bins at once."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from masquerade_core.learning.intervals import UNKNOWN, Estimate, around, on_logit_scale
from masquerade_core.learning.score_bins import Bins

__all__ = ["Counts", "Noisy", "advantage_of", "auc_of", "brier_of"]

_Array = NDArray[np.float64]

_DOUBT = 0.5  # of the correction for ties, which is of first order: so much of it counts as one standard deviation


class Noisy(NamedTuple):
    """An opened number, and the variance of the noise on it."""

    value: float
    variance: float


@dataclass(frozen=True, eq=False)
class Counts:
    """Noisy counts of the records held back.

    Parameters
    ----------
    positive, negative : ndarray of float64
        For each bin, from the lowest scores up: the records with the positive and with the other label.
    variance : float
        tau^2, the variance of the noise on each count.
    records : int
        How many records were held back: exact, and public.
    bins : Bins
    squares : Noisy or None
        The sum of all (probability - label)^2; None where scores give no probabilities.
    """

    positive: _Array
    negative: _Array
    variance: float
    records: int
    bins: Bins
    squares: Noisy | None

    @property
    def candidates(self) -> int:
        """How many thresholds there are."""
        return len(self.bins.cuts)


def brier_of(counts: Counts, predicted: _Array, z: float) -> Estimate | None:
    """Estimate the mean square; its spread from record to record follows from the bins."""
    if counts.squares is None:
        return None
    N, value = counts.records, counts.squares.value / counts.records
    fourth = float(
        np.maximum(counts.positive, 0) @ (1 - predicted) ** 4 + np.maximum(counts.negative, 0) @ predicted**4
    )
    spread = max(0.0, fourth / N - value**2)
    return around(value, spread / N + counts.squares.variance / N**2, z)


def advantage_of(counts: Counts, at: int, z: float) -> Estimate:
    """Estimate the majority's error less the model's: only records on which the two answers differ count.

    If the majority says no, these are the records above the threshold, of which the model wins the positive ones.
    """
    p, n, N = counts.positive, counts.negative, counts.records
    above = np.arange(len(p)) > at
    differ, sign = (~above, -1) if p.sum() > n.sum() else (above, 1)
    won, lost = float(p[differ].sum()), float(n[differ].sum())
    gain = sign * (won - lost) / N
    spread = max(0.0, (won + lost) / N - gain**2)
    reach = z * (spread / N + 2 * int(differ.sum()) * counts.variance / N**2) ** 0.5
    return Estimate(gain, max(-1.0, gain - reach), min(1.0, gain + reach))


def auc_of(counts: Counts, z: float) -> Estimate:
    """Estimate the area under the ROC curve.

    Records in different bins are compared by their bins. Of two in one bin, the positive one has the higher score with
    a chance that :func:`_same_bin` estimates; half of what this adds counts as a standard deviation of its own. The
    rest of the variance is the delta method's: with g the gradient of U/(P N) in the counts, it is sum c g^2 + tau^2
    sum g^2, and the noise's part of second order, since U multiplies noisy counts.
    """
    p, n, tau2 = counts.positive, counts.negative, counts.variance
    P, N, bins = float(p.sum()), float(n.sum()), len(p)
    if min(P, N) <= 0 or min(P, N) ** 2 <= z * z * bins * tau2:
        return UNKNOWN  # one label is lost in the noise
    half = _same_bin(counts, P, N)
    below, above = np.cumsum(n) - n * (1 - half), P - np.cumsum(p) + p * half
    auc = float(p @ below) / (P * N)
    g = np.concatenate([(below / N - auc) / P, (above / P - auc) / N])
    c = np.maximum(np.concatenate([p, n]), 0.0)
    second = tau2**2 * (bins * (bins - 1) / 2 + bins / 4) / (P * N) ** 2
    ties = float(p @ (n * (half - 0.5))) / (P * N)
    return on_logit_scale(auc, float(c @ g**2) + tau2 * float(g @ g) + second + (_DOUBT * ties) ** 2, z)


def _same_bin(counts: Counts, P: float, N: float) -> _Array:
    """Return for each bin the chance that of two of its records with different labels the positive scores higher.

    Let the ratio of the labels' densities grow like exp(slope score). To first order in the bin's width, the chance is
    1/2 + slope spread/4, where spread is the mean distance of two of the bin's records. The slope is that of two normal
    densities: the distance of the labels' means over the variance around them.
    """
    middles, spreads = np.array(counts.bins.middles), np.array(counts.bins.spreads)
    plus, minus = float(counts.positive @ middles) / P, float(counts.negative @ middles) / N
    around_means = counts.positive @ (middles - plus) ** 2 + counts.negative @ (middles - minus) ** 2
    variance = float(around_means) / (P + N)
    slope = max(0.0, (plus - minus) / variance) if variance > 0 else 0.0
    return np.minimum(1.0, 0.5 + slope * spreads / 4)
