"""Noisy counts of records by label and bin of score, and the figures that need all bins at once."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from masquerade_core.learning.intervals import UNKNOWN, Estimate, Noisy, around, solved, stands_out
from masquerade_core.learning.score_bins import Bins

__all__ = ["Counts", "advantage_of", "auc_of", "brier_of"]

_Array = NDArray[np.float64]

_SHOWS = 2.0  # standard deviations of noise; a bin with fewer records counts as empty
_DOUBT = 0.7  # of the correction for ties: so much of it counts as one standard deviation
_LEVEL = 1e-3  # a slope below which both labels have one density


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
    fourth = float(counts.positive @ (1 - predicted) ** 4 + counts.negative @ predicted**4)
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
    """Estimate the area under the ROC curve; neither a value nor an interval where the noise is too large.

    Records in different bins are compared by their bins. Of two in one bin, the positive one has the higher score with
    a chance that :func:`_same_bin` estimates. With h these chances, p and n the counts of both labels, and P and N
    their totals, A = U/(P N) is estimated, where U = sum p_i h_ij n_j.

    Notes
    -----
    The interval holds every A with T(A)^2 <= z^2 V(A), where T(A) = U - A P N. T has no bias at the true A, since the
    noise on p is independent of that on n; a quotient of noisy counts has one. With W = h - A,

        V(A) = tau^2 (|W n|^2 + |W' p|^2) + tau^4 |W|^2 + P^2 N^2 s^2(A) + (a part of what ties add)^2.

    The first two parts are the variance of the noise, exactly. Of noisy counts, |W n|^2 comes out too large by
    tau^2 |W|^2, and so does the other; that is taken off. s^2 is the variance over samples of records (DeLong and
    others 1988) at the estimate: sum p_i (W n)_i^2 + sum n_j (W' p)_j^2 over P^2 N^2, again without what noise adds to
    it. An AUC close to 1 varies less than one of .5. So s^2 is taken to be proportional to A (1 - A), as Wilson does
    for a share; Newcombe (2006, method 5) evaluates the variance of an AUC at A as well. V is a quadratic function of
    A, so :func:`solved` finds the interval.

    Which runs get an interval must not depend on the noise in T (:mod:`masquerade_core.learning.intervals`). So the
    positive records are counted as all records less the others. This count has the noise on n alone, of which T has
    next to nothing: its part of T has the weights (W' p)_j, and these add up to about 0 over bins of equal mass.

    References
    ----------
    DeLong, DeLong and Clarke-Pearson 1988, "Comparing the areas under two or more correlated receiver operating
    characteristic curves". Fieller 1954, "Some problems in interval estimation". Newcombe 2006, "Confidence intervals
    for an effect size measure based on the Mann-Whitney statistic. Part 2".
    """
    p, n, tau2 = counts.positive, counts.negative, counts.variance
    P, N, bins = float(p.sum()), float(n.sum()), len(p)
    others = Noisy(counts.records - P, bins * tau2), Noisy(counts.records - N, bins * tau2)
    if not (counts.bins.resolve(counts.records) and all(map(stands_out, others)) and min(P, N) > 0):
        return UNKNOWN
    half = _same_bin(counts)
    h = np.tril(np.ones((bins, bins)), -1) + np.diag(half)
    below, above = h @ n, p @ h
    U, D, squares, rows, columns = float(p @ below), P * N, h**2, h.sum(axis=1), h.sum(axis=0)
    # Polynomials in A, the lowest power first.
    all_squares = np.array([squares.sum(), -2 * h.sum(), bins**2])
    noise = tau2 * (_squared(below, N).sum(axis=1) + _squared(above, P).sum(axis=1)) - tau2**2 * all_squares
    of_p = _squared(below, N) - tau2 * np.array([squares.sum(axis=1), -2 * rows, np.full(bins, bins)])
    of_n = _squared(above, P) - tau2 * np.array([squares.sum(axis=0), -2 * columns, np.full(bins, bins)])
    edge = 0.5 / min(P, N)  # no sample shows an AUC closer to 0 or 1
    at = min(1 - edge, max(edge, U / D))
    sampled = max(0.0, float((of_p @ p + of_n @ n) @ np.array([1, at, at**2]))) / (at * (1 - at))
    v_0, v_1, v_2 = (float(v) for v in noise + sampled * np.array([0, 1, -1]))
    ties = float(p @ (n * (half - 0.5)))
    return solved(U, D, (v_0 + (_DOUBT * ties) ** 2, v_1, v_2), z)


def _squared(values: _Array, slope: float) -> _Array:
    """Return (values - slope A)^2 as polynomials in A, the lowest power first; shape (3, number of values)."""
    return np.array([values**2, -2 * slope * values, np.full(len(values), slope**2)])


def _same_bin(counts: Counts) -> _Array:
    """Return for each bin the chance that of two of its records with different labels the positive scores higher.

    Let the ratio of the labels' densities grow like exp(slope score), and let the others' scores lie evenly in a bin of
    width w. With a = w slope, the chance is 1/(1 - exp(-a)) - 1/a, about 1/2 + a/12. Two scores that lie evenly are w/3
    apart on average; the bins say how far apart two scores are. The slope is that of two normal densities: the distance
    of the labels' means over the variance around them.
    """
    middles, spreads = np.array(counts.bins.middles), np.array(counts.bins.spreads)
    # A bin far away that holds noise alone would have more to say in a variance than all records.
    there = counts.positive + counts.negative > _SHOWS * (2 * counts.variance) ** 0.5
    p, n = counts.positive * there, counts.negative * there
    P, N = float(p.sum()), float(n.sum())
    if min(P, N) <= 0:
        return np.full(len(middles), 0.5)
    plus, minus = float(p @ middles) / P, float(n @ middles) / N
    variance = float(p @ (middles - plus) ** 2 + n @ (middles - minus) ** 2) / (P + N)
    slope = max(0.0, (plus - minus) / variance) if variance > 0 else 0.0
    a = np.maximum(3 * slope * spreads, _LEVEL)
    chances: _Array = 1 / -np.expm1(-a) - 1 / a
    return chances
