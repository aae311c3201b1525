"""How good a model is, from noisy counts of the records that were held back, by label and bin of score.

All of it is computed from what is opened, so it costs no privacy beyond the counts. A count is that of one label in one
bin; the noise on each has the same known standard deviation tau. Every participant computes the same numbers.

*Intervals.* What noisy counts estimate has a 95 % interval, which allows for the sample and for the noise. A count that
is opened is c + x. The true count c is random, since the records held back are a sample of all that there could be; x
is noise of a known variance tau^2. Two facts carry everything here. A sum of m counts has noise of variance m tau^2.
And of D records, those with a property of chance p vary by D p (1 - p).

Intervals solve for the chance, as Wilson's does: the chances p at which the observed count is at most z standard
deviations from what p predicts. So they keep their coverage near 0 and 1, where "estimate plus or minus z standard
errors" loses it.

**Where no interval is given.** A fraction of few records is lost in the noise. Whether it is must not be asked of the
counts that the fraction is made of. Only runs whose noise made the denominator large would pass, and their intervals
would hold the truth too rarely. So :func:`stands_out` asks a second count of the same records, with noise of its own:
all records held back, whose number is public, less those that do not belong to them.

**Where the bins lie** follows from the model and from one noisy histogram, so they are public. *Cells* come first: 256
of them, equally wide, from -R to R. R is the smallest power of two that no score exceeds, since no record is longer
than 1; it is at most 16, where the probability of the logistic link is 1 - 10^-7. Scores beyond lie in the outermost
cells. A power of two divides a score exactly, so cells and thresholds never disagree.

*Bins* are runs of cells. The noisy histogram over the cells says where the scores lie. The edges of the bins are its
quantiles, in steps of 5 % where the noise allows so many, so each bin holds about as many records as any other. Fixed
bins would not do: the scores of a model that finds few positives lie between -6 and -3, and those of a weak one between
-0.1 and 0.1.

*The noise* is on two vectors, where the first lays out the second. A record that is held back adds 1 to one count of
each vector. So a replaced record moves a vector's counts by sqrt(2) at most, in L2 norm. To one more number of the
second vector a record adds between 0 and 1: the square by which the model's probability is off. The counts are
multiplied by public whole numbers before noise is added: the first vector's by ``LOCATE_UNITS``, the second's by
``COUNT_UNITS``, and the squares by ``SQUARE_UNITS``. All numbers get noise of one sigma. So the second vector, from
which everything is estimated, comes out COUNT_UNITS/LOCATE_UNITS times as precise as the first, which only places its
bins.

Two releases with Gaussian noise, where the second may depend on the first, are as private as one release that a
replaced record moves by Delta = sqrt(2 LOCATE_UNITS^2 + 2 COUNT_UNITS^2 + SQUARE_UNITS^2).
``docs/privacy/evaluation.md`` has the proof.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from masquerade_core.privacy.noise.gaussian_rounds import SharedNoise, charge, gaussian_share_sigma, rounds_sigma
from masquerade_core.privacy.numbers import root_up

__all__ = [
    "CELLS",
    "COUNT_UNITS",
    "COVERAGE",
    "LOCATE_UNITS",
    "MOST_BINS",
    "SQUARE_UNITS",
    "UNKNOWN",
    "Bins",
    "Confusion",
    "Counts",
    "Estimate",
    "Evaluation",
    "Group",
    "Noisy",
    "advantage_of",
    "around",
    "auc_of",
    "brier_of",
    "cells_of",
    "count_sd",
    "counts_noise",
    "evaluate",
    "fraction_of",
    "locate_bins",
    "score_range",
    "share_of",
    "solved",
    "stands_out",
    "z_value",
]


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


# --- Intervals -------------------------------------------------------------------

COVERAGE = 0.95

_DIGITS = 6
_STANDS_OUT = 4.0  # standard deviations of noise


@dataclass(frozen=True)
class Estimate:
    """An estimated number and its interval. Without a value, the noise drowns it.

    Parameters
    ----------
    value : float or None
    low, high : float
    """

    value: float | None
    low: float
    high: float

    def to_json(self) -> dict[str, Any]:
        """Return a JSON value, rounded to six digits after the point."""
        value = None if self.value is None else round(self.value, _DIGITS)
        return {"value": value, "low": round(self.low, _DIGITS), "high": round(self.high, _DIGITS)}


UNKNOWN = Estimate(None, 0.0, 1.0)
"""A fraction of which nothing can be told."""


class Noisy(NamedTuple):
    """An opened number, and the variance of the noise on it."""

    value: float
    variance: float


def stands_out(count: Noisy) -> bool:
    """Return whether there are enough records for an interval: a count of four standard deviations of its noise."""
    return count.value >= _STANDS_OUT * math.sqrt(count.variance)


def z_value(together: int = 1) -> float:
    """Return how many standard deviations an interval reaches to each side: 1.96 for one interval.

    Parameters
    ----------
    together : int
        How many intervals shall all hold at once with 95 % (Bonferroni's bound).
    """
    return NormalDist().inv_cdf(1 - (1 - COVERAGE) / (2 * together))


def share_of(count: float, noise: float, records: int, z: float) -> Estimate:
    """Estimate a share of all records held back, whose number is known.

    Parameters
    ----------
    count : float
        The noisy number of those that belong to the share.
    noise : float
        The variance of its noise.
    records : int
        All records held back, at least 1.
    z : float
        From :func:`z_value`.
    """
    p, v, s = _inside(count / records), noise / records**2, z * z / records
    # (p - x)^2 = z^2 (x (1 - x)/records + v)
    root = math.sqrt(max(0.0, s * (4 * p * (1 - p) + s) + 4 * z * z * v * (1 + s)))
    low, high = ((2 * p + s + sign * root) / (2 * (1 + s)) for sign in (-1, 1))
    return Estimate(p, _inside(low), _inside(high))


def fraction_of(part: Noisy, rest: Noisy, all_of_them: Noisy, z: float) -> Estimate:
    """Estimate part/(part + rest), where both are noisy counts of disjoint sets of records.

    Parameters
    ----------
    part, rest : Noisy
        Their noise is independent.
    all_of_them : Noisy
        A second count of the records of both, whose noise is independent of theirs. If it does not stand out, there is
        no interval.
    z : float
        From :func:`z_value`.

    Notes
    -----
    With D = part + rest the interval holds every p with (part - p D)^2 <= z^2 (D p (1 - p) + (1 - p)^2 v + p^2 w),
    where v and w are the variances of the noise. This is Fieller's way to treat a noisy denominator.
    """
    D, v, w = part.value + rest.value, part.variance, rest.variance
    if D <= 0 or not stands_out(all_of_them):
        return UNKNOWN
    return solved(part.value, D, (v, D - 2 * v, v + w - D), z)


def solved(numerator: float, denominator: float, variance: tuple[float, float, float], z: float) -> Estimate:
    """Return the fractions x at which numerator - x denominator is at most z standard deviations from 0.

    Parameters
    ----------
    numerator, denominator : float
        Their quotient is the estimate.
    variance : tuple of float
        (v_0, v_1, v_2): at x the difference has the variance v_0 + v_1 x + v_2 x^2.
    z : float
        From :func:`z_value`.

    Notes
    -----
    Fieller 1954: a quadratic inequality. Where the denominator itself is lost in the noise, its solutions have no end,
    and there is no interval.
    """
    a = denominator**2 - z * z * variance[2]
    b = -2 * numerator * denominator - z * z * variance[1]
    c = numerator**2 - z * z * variance[0]
    inside = b * b - 4 * a * c
    if a <= 0 or inside < 0:
        return UNKNOWN
    low, high = ((-b + sign * math.sqrt(inside)) / (2 * a) for sign in (-1, 1))
    return Estimate(_inside(numerator / denominator), _inside(low), _inside(high))


def around(value: float, variance: float, z: float) -> Estimate:
    """Return value +- z standard deviations, cut to [0, 1]."""
    reach = z * math.sqrt(max(0.0, variance))
    return Estimate(_inside(value), _inside(value - reach), _inside(value + reach))


def _inside(p: float) -> float:
    return min(1.0, max(0.0, p))


# --- Score bins ------------------------------------------------------------------

CELLS = 256
"""The cells of the first histogram."""

_STEPS = 20  # bins of equal mass at most
_LEAST_STEPS = 10  # bins at least, however large the noise
_WORTH = 6.0  # a bin shall hold so many times the noise of a cell
MOST_BINS = _STEPS + 2
"""The most bins that there can be: those of equal mass, a cut at the model's threshold and one at the study's rate."""

_LARGEST, _SMALLEST = 4, -20  # R as a power of two
_EMPTY, _SPLIT = 2.0, 3.0  # a run with fewer records than so many sd of its noise is empty; with more, worth halving
_HALF = CELLS // 2

_Array = NDArray[np.float64]


def score_range(weights: Sequence[float], offset: Sequence[float] = ()) -> int:
    """Return log2 R. It is computed exactly, so that all machines agree: |w| + |offset| <= R, within the limits."""
    if not all(map(math.isfinite, (*weights, *offset))):
        return _LARGEST
    squared = sum((Fraction(w) ** 2 for w in weights), Fraction(0))
    shift = sum((abs(Fraction(b)) for b in offset), Fraction(0))
    for exponent in range(_SMALLEST, _LARGEST):
        room = Fraction(2) ** exponent - shift
        if room >= 0 and squared <= room**2:
            return exponent
    return _LARGEST


def cells_of(scores: _Array, exponent: int) -> NDArray[np.int64]:
    """Return each score's cell, 0 to 255. Cell c holds the scores above (c - 128) R/128, up to (c - 127) R/128.

    Parameters
    ----------
    scores : ndarray, shape (n,)
        A score that is no number counts as 0: no party may stop over its records.
    exponent : int
        log2 R.
    """
    R = 2.0**exponent
    inside = np.clip(np.nan_to_num(scores, nan=0.0, posinf=R, neginf=-R), -R, R)
    cells: NDArray[np.int64] = np.ceil(inside * (_HALF / R)).astype(np.int64) - 1 + _HALF
    return np.clip(cells, 0, CELLS - 1)


@dataclass(frozen=True)
class Bins:
    """Bins of scores. Bin i holds the scores above ``edges[i - 1]``, up to ``edges[i]``; the outer ones are open.

    Parameters
    ----------
    exponent : int
        log2 R.
    cuts : tuple of int
        The first cell of each bin but the lowest; they grow, and the model's threshold is always among them.
    middles : tuple of float
        For each bin the mean score of its records, by the noisy histogram.
    spreads : tuple of float
        For each bin the mean distance of two of its records' scores, in the same way.
    noise_sd : float
        The standard deviation of the noise on a count of that histogram.
    """

    exponent: int
    cuts: tuple[int, ...]
    middles: tuple[float, ...]
    spreads: tuple[float, ...]
    noise_sd: float

    def resolve(self, records: int) -> bool:
        """Return whether the noisy histogram shows where so many records lie: without noise, it would be halved.

        It follows from public numbers alone, so it tells nothing of the noise.
        """
        return records > _SPLIT * self.noise_sd * math.sqrt(CELLS)

    def nearest(self, threshold: float) -> int:
        """Return which edge is next to a threshold."""
        return min(range(len(self.cuts)), key=lambda i: abs(self.edges[i] - threshold))

    @property
    def edges(self) -> tuple[float, ...]:
        """The scores between the bins: the thresholds whose confusion matrix is counted exactly."""
        return tuple(_edge(cut, self.exponent) for cut in self.cuts)

    def of(self, scores: _Array) -> NDArray[np.int64]:
        """Return each score's bin."""
        # A search for each score would take its own time, so the bins of all cells are looked for beforehand.
        bin_of = np.searchsorted(np.array(self.cuts), np.arange(CELLS), side="right")
        bins: NDArray[np.int64] = bin_of[cells_of(scores, self.exponent)]
        return bins


def _edge(cut: int, exponent: int) -> float:
    return (cut - _HALF) * 2.0**exponent / _HALF


def locate_bins(
    histogram: Sequence[float], sd: float, exponent: int, rate: float | None = None, threshold: float = 0.0
) -> Bins:
    """Return bins of equal mass from a noisy histogram over the cells.

    Parameters
    ----------
    histogram : sequence of float
        256 noisy counts of records.
    sd : float
        The standard deviation of their noise.
    exponent : int
        log2 R.
    rate : float, optional
        A share of records for which an edge is wanted: so many shall have a higher score.
    threshold : float
        The model's threshold; the cell border next to it becomes an edge. 0 is a border.
    """
    border = min(CELLS - 1, max(1, _HALF + round(threshold * _HALF / 2.0**exponent)))
    seen = _smoothed(np.array(histogram, dtype=np.float64), sd)
    if not seen.any():
        seen = np.ones(CELLS)
    mass = np.cumsum(seen) / seen.sum()
    steps = max(_LEAST_STEPS, min(_STEPS, int(max(0.0, math.fsum(histogram)) / (_WORTH * sd))))
    wanted = [step / steps for step in range(1, steps)] + ([] if rate is None else [1 - rate])
    found = {int(np.abs(mass - quantile).argmin()) + 1 for quantile in wanted} | {border}
    cuts = tuple(sorted(cut for cut in found if 0 < cut < CELLS))
    inside = [_within(seen[low:high]) for low, high in zip((0, *cuts), (*cuts, CELLS), strict=True)]
    width, starts = 2.0**exponent / _HALF, np.array((0, *cuts)) - _HALF
    middles = tuple(float(start + mean) * width for start, (mean, _) in zip(starts, inside, strict=True))
    return Bins(exponent, cuts, middles, tuple(spread * width for _, spread in inside), sd)


def _smoothed(noisy: _Array, sd: float) -> _Array:
    """Return a histogram that is as fine as the noise allows.

    A run of cells is halved as long as its records stand out from its noise. The records of a run that is not halved
    count as spread evenly over it, and none as there if the noise could be all of them.
    """
    records, noise = float(noisy.sum()), sd * math.sqrt(len(noisy))
    if records > _SPLIT * noise and len(noisy) > 1:
        middle = len(noisy) // 2
        return np.concatenate([_smoothed(half, sd) for half in (noisy[:middle], noisy[middle:])])
    return np.full(len(noisy), records / len(noisy) if records > _EMPTY * noise else 0.0)


def _within(seen: _Array) -> tuple[float, float]:
    """Return the mean place of a bin's records, and the mean distance of two of them, in cells from the bin's start.

    Inside a cell records lie evenly; in a bin that looks empty, all cells count alike.
    """
    weights = seen / seen.sum() if seen.any() else np.full(len(seen), 1 / len(seen))
    places = np.arange(len(seen)) + 0.5
    below = np.cumsum(weights)
    apart = 2 * float(below @ (1 - below))  # the mean of |i - j| is the sum of 2 F (1 - F) over the borders
    return float(places @ weights), apart + float(weights @ weights) / 3


# --- Label counts ----------------------------------------------------------------

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

    Which runs get an interval must not depend on the noise in T (:mod:`masquerade_core.evaluation`). So the
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


# --- Evaluation ------------------------------------------------------------------

_RARE = 0.01  # an answer that so few records get hardly ever comes


@dataclass(frozen=True)
class Confusion:
    """The model's results with one threshold: a record with a higher score is answered with the positive label.

    Parameters
    ----------
    score : float
        The threshold.
    true_positives, false_positives, false_negatives, true_negatives : float
        The confusion matrix: noisy numbers of records, which may be negative or fractions.
    answered : Estimate
        The share of all records that get the positive answer.
    error : Estimate
        The share of all records that are answered wrongly.
    sensitivity, specificity : Estimate
        The share of the positive records that are found, and that of the others that are let pass.
    precision : Estimate
        The share of the positive answers that are right.
    f1 : Estimate
        2 TP/(2 TP + FP + FN).
    """

    score: float
    true_positives: float
    false_positives: float
    false_negatives: float
    true_negatives: float
    answered: Estimate
    error: Estimate
    sensitivity: Estimate
    specificity: Estimate
    precision: Estimate
    f1: Estimate

    def to_json(self) -> dict[str, Any]:
        """Return a JSON value."""
        return {
            name: value.to_json() if isinstance(value, Estimate) else round(value, _DIGITS)
            for name, value in vars(self).items()
        }


@dataclass(frozen=True)
class Group:
    """The records of one bin: a point of the calibration curve.

    Parameters
    ----------
    low, high : float or None
        The scores between which they lie; None where the bin is open.
    predicted : float
        The probability that the model gives them: the logistic link at the middle of the bin.
    observed : Estimate
        The share of positive records among them.
    records : float
        Their noisy number.
    """

    low: float | None
    high: float | None
    predicted: float
    observed: Estimate
    records: float

    def to_json(self) -> dict[str, Any]:
        """Return a JSON value."""
        ends = {
            name: None if end is None else round(end, _DIGITS) for name, end in (("low", self.low), ("high", self.high))
        }
        return {
            **ends,
            "predicted": round(self.predicted, _DIGITS),
            "observed": self.observed.to_json(),
            "records": round(self.records, _DIGITS),
        }


@dataclass(frozen=True)
class Evaluation:
    """How good a model is on records that it has not seen.

    Parameters
    ----------
    records : int
        How many records were held back, at all parties together.
    noise_sd : float
        tau, the standard deviation of the noise on each count, in records.
    positive_share : Estimate
        The share of records with the positive label.
    auc : Estimate
        The chance that a positive record has a higher score than another one. Half of a tie counts.
    majority_error : float
        The error of always giving the answer that is right more often.
    advantage : Estimate
        That error less the model's. The interval may reach below 0, to -1.
    brier : Estimate or None
        The mean of (probability - label)^2, the label being 0 or 1. None if scores give no probabilities.
    rule : str or float or None
        By which rule the threshold was chosen: "youden", "f1", the share of positive answers, or none.
    chosen : Confusion
        At the model's threshold. Where it was chosen from the same counts, the intervals hold for all thresholds at
        once, and so for the chosen one.
    curve : tuple of Confusion
        At every edge between bins: the points of the ROC and the precision-recall curve. Each interval is for itself.
    calibration : tuple of Group
        One for each bin; empty if scores give no probabilities.
    """

    records: int
    noise_sd: float
    positive_share: Estimate
    auc: Estimate
    majority_error: float
    advantage: Estimate
    brier: Estimate | None
    rule: str | float | None
    chosen: Confusion
    curve: tuple[Confusion, ...]
    calibration: tuple[Group, ...]

    @property
    def threshold(self) -> float:
        """The score above which the model's answer is the positive label."""
        return self.chosen.score

    @property
    def same_answer(self) -> str:
        """The answer that nearly all records get, "positive" or "negative"; empty if there is none."""
        value = self.chosen.answered.value or 0.0
        return "negative" if value < _RARE else "positive" if value > 1 - _RARE else ""

    @property
    def better_than_majority(self) -> bool:
        """Whether it is shown that the model errs less than the same answer for every record."""
        return self.advantage.low > 0

    def to_json(self) -> dict[str, Any]:
        """Return the field ``evaluation`` of ``result.json``."""
        return {
            "records": self.records,
            "noise_sd": round(self.noise_sd, _DIGITS),
            "positive_share": self.positive_share.to_json(),
            "auc": self.auc.to_json(),
            "error": self.chosen.error.to_json(),
            "majority_error": round(self.majority_error, _DIGITS),
            "advantage": self.advantage.to_json(),
            "better_than_majority": self.better_than_majority,
            "same_answer": self.same_answer or None,
            "brier": None if self.brier is None else self.brier.to_json(),
            "threshold": {
                "rule": self.rule,
                "intervals": "each for itself" if self.rule is None else "for all thresholds at once",
                **self.chosen.to_json(),
            },
            "curve": [point.to_json() for point in self.curve],
            "calibration": [group.to_json() for group in self.calibration],
        }


def evaluate(counts: Counts, *, rule: str | float | None = None, threshold: float = 0.0) -> Evaluation:
    """Estimate how good a model is.

    Parameters
    ----------
    counts : Counts
    rule : str or float or None
        How the threshold is chosen: the largest Youden index (sensitivity + specificity - 1), the largest F1, or the
        share of positive answers closest to a number. Without a rule it is that of the model.
    threshold : float
        The model's.
    """
    z = z_value()
    curve = tuple(_confusion(counts, at, z) for at in range(counts.candidates))
    at = counts.bins.nearest(threshold) if rule is None else _choose(curve, rule)
    chosen = curve[at] if rule is None else _confusion(counts, at, z_value(counts.candidates))
    share = _positives(counts)
    middles = np.array(counts.bins.middles)
    predicted = 0.5 * (1 + np.tanh(middles / 2))
    prevalence = share_of(share, len(middles) * counts.variance / 2, counts.records, z)
    return Evaluation(
        records=counts.records,
        noise_sd=counts.variance**0.5,
        positive_share=prevalence,
        auc=auc_of(counts, z),
        majority_error=min(prevalence.value or 0.0, 1 - (prevalence.value or 0.0)),
        advantage=advantage_of(counts, at, z if rule is None else z_value(counts.candidates)),
        brier=brier_of(counts, predicted, z),
        rule=rule,
        chosen=chosen,
        curve=curve,
        calibration=() if counts.squares is None else _calibration(counts, predicted, z),
    )


def _positives(counts: Counts) -> float:
    """Estimate the positive records in two ways, and take the mean: all records less the others are positive too."""
    return float(counts.positive.sum() + counts.records - counts.negative.sum()) / 2


def _confusion(counts: Counts, at: int, z: float) -> Confusion:
    """Return the confusion matrix at the edge ``at``."""
    cut, bins, tau2, N = at + 1, len(counts.positive), counts.variance, counts.records
    below, above = cut * tau2, (bins - cut) * tau2
    fn, tp = (Noisy(float(c.sum()), v) for c, v in zip(np.split(counts.positive, [cut]), (below, above), strict=True))
    tn, fp = (Noisy(float(c.sum()), v) for c, v in zip(np.split(counts.negative, [cut]), (below, above), strict=True))
    both = bins * tau2 / 2  # of the mean of two estimates: what is counted, and all records less what is not

    def but(*others: Noisy) -> Noisy:
        """Count records by those that do not belong to them."""
        return Noisy(N - sum(c.value for c in others), sum(c.variance for c in others))

    wrong = Noisy(fp.value + fn.value, below + above)
    jaccard = fraction_of(tp, wrong, but(tn), z)
    return Confusion(
        score=counts.bins.edges[at],
        true_positives=tp.value,
        false_positives=fp.value,
        false_negatives=fn.value,
        true_negatives=tn.value,
        answered=share_of((tp.value + fp.value + N - fn.value - tn.value) / 2, both, N, z),
        error=share_of((wrong.value + N - tp.value - tn.value) / 2, both, N, z),
        sensitivity=fraction_of(tp, fn, but(tn, fp), z),
        specificity=fraction_of(tn, fp, but(tp, fn), z),
        precision=fraction_of(tp, fp, but(tn, fn), z),
        f1=Estimate(None if jaccard.value is None else _f1(jaccard.value), _f1(jaccard.low), _f1(jaccard.high)),
    )


def _f1(jaccard: float) -> float:
    """F1 = 2 J/(1 + J), where J = TP/(TP + FP + FN); it grows with J."""
    return 2 * jaccard / (1 + jaccard)


def _choose(curve: Sequence[Confusion], rule: str | float) -> int:
    """Return the edge that the rule chooses; of equals the first."""

    def worth(point: Confusion) -> float:
        if isinstance(rule, float):
            return -abs((point.answered.value or 0.0) - rule)
        if rule == "f1":
            return point.f1.value or 0.0
        return (point.sensitivity.value or 0.0) + (point.specificity.value or 0.0)

    return max(range(len(curve)), key=lambda at: worth(curve[at]))


def _calibration(counts: Counts, predicted: _Array, z: float) -> tuple[Group, ...]:
    edges: list[float | None] = [None, *counts.bins.edges, None]
    tau2, both = counts.variance, counts.positive + counts.negative
    # The bins are placed so that each holds about as many records; no other count of a single bin is as good.
    expected = Noisy(counts.records / len(both), 2 * tau2)
    return tuple(
        Group(
            low, high, float(said), fraction_of(Noisy(float(p), tau2), Noisy(float(n), tau2), expected, z), float(all_)
        )
        for low, high, said, p, n, all_ in zip(
            edges[:-1], edges[1:], predicted, counts.positive, counts.negative, both, strict=True
        )
    )
