"""A lower bound on epsilon from counts: one half of the runs chooses an event, and the other half counts it.

A mechanism is (epsilon, delta)-private only if every event A has P'(A) <= exp(epsilon) P(A) + delta, whichever of two
neighbouring data sets D and D' stands on which side. So an event with P'(A) >= p' and P(A) <= p shows that epsilon is
at least log((p' - delta)/p). The runs that choose the event are not counted, or chance alone would show an epsilon.

References
----------
Jagielski, Ullman and Oprea 2020, "Auditing Differentially Private Machine Learning", Theorem 1. Clopper and Pearson
1934, for the bounds on a probability.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv

__all__ = [
    "Rule",
    "choose",
    "count",
    "epsilon_bound",
    "largest_bound",
    "probability_above",
    "probability_below",
]

_CANDIDATES = 400  # thresholds that are tried
_LEAST = 10  # runs of each half

_Array = NDArray[np.float64]


def probability_above(hits: _Array | int, runs: int, error: float) -> _Array:
    """Bound a probability from above by the hits; the bound is too small with a chance of at most ``error``.

    It is a quantile of a beta distribution, as the inverse of the incomplete beta function.
    """
    k = np.asarray(hits, dtype=np.float64)
    return np.where(k < runs, betaincinv(k + 1, np.maximum(runs - k, 1), 1 - error), 1.0)


def probability_below(hits: _Array | int, runs: int, error: float) -> _Array:
    """Bound a probability from below by the hits; the bound is too large with a chance of at most ``error``."""
    k = np.asarray(hits, dtype=np.float64)
    return np.where(k > 0, betaincinv(np.maximum(k, 1), runs - k + 1, error), 0.0)


@dataclass(frozen=True)
class Rule:
    """An event: the score lies on one side of a threshold.

    Parameters
    ----------
    threshold : float
    above : bool
        Whether the event is a score above the threshold, or one below it; an equal score is neither.
    moved : bool
        Whether the event should be likelier under D', or under D.
    """

    threshold: float
    above: bool
    moved: bool

    def hits(self, scores: _Array) -> int:
        """Count the runs in which the event occurred."""
        return int(np.sum(scores > self.threshold if self.above else scores < self.threshold))


def choose(zeros: _Array, ones: _Array, delta: float, error: float) -> Rule:
    """Return the event with the largest bound on epsilon, among events above and below quantiles of the scores.

    Parameters
    ----------
    zeros, ones : ndarray, shape (n,)
        Scores under D and under D'.
    delta, error : float
        As in :func:`epsilon_bound`.
    """
    pooled = np.sort(np.concatenate([zeros, ones]))
    places = np.linspace(0, len(pooled) - 1, min(_CANDIDATES, len(pooled))).astype(np.int64)
    thresholds = np.unique(pooled[places])
    best, rule = -np.inf, Rule(float(thresholds[0]), above=True, moved=True)
    zeros, ones = np.sort(zeros), np.sort(ones)
    for above in (True, False):
        under = [_beyond(scores, thresholds, above=above) for scores in (zeros, ones)]
        for moved in (True, False):
            bounds = _bounds(under[moved], under[not moved], (len(zeros), len(ones)), moved, delta, error)
            at = int(np.argmax(bounds))
            if bounds[at] > best:
                best, rule = float(bounds[at]), Rule(float(thresholds[at]), above=above, moved=moved)
    return rule


def _beyond(scores: _Array, thresholds: _Array, *, above: bool) -> _Array:
    """Count sorted scores above or below each threshold."""
    if above:
        return np.asarray(len(scores) - np.searchsorted(scores, thresholds, side="right"), dtype=np.float64)
    return np.asarray(np.searchsorted(scores, thresholds, side="left"), dtype=np.float64)


def _bounds(
    likely: _Array | int, unlikely: _Array | int, runs: tuple[int, int], moved: bool, delta: float, error: float
) -> _Array:
    """Return log((p' - delta)/p), or 0 where that shows nothing; ``runs`` are those under D and D'."""
    high = probability_below(likely, runs[moved], error / 2) - delta
    low = probability_above(unlikely, runs[not moved], error / 2)
    return np.log(np.maximum(high, low) / low)


def count(rule: Rule, zeros: _Array, ones: _Array, delta: float, error: float) -> float:
    """Return the lower bound on epsilon that an event shows, from runs that did not choose it."""
    runs = (len(zeros), len(ones))
    hits = (rule.hits(zeros), rule.hits(ones))
    return float(_bounds(hits[rule.moved], hits[not rule.moved], runs, rule.moved, delta, error))


def epsilon_bound(zeros: _Array, ones: _Array, delta: float, error: float = 0.05) -> float:
    """Return a lower bound on epsilon at ``delta``: the true one is smaller with a probability of at most ``error``.

    The first half of the runs chooses the event; the second counts it. Each of the two probabilities gets a one-sided
    bound with half of the error, so that both hold together.

    Parameters
    ----------
    zeros, ones : ndarray, shape (n,)
        Scores of independent runs under D and under D'; at least 20 of each.
    delta : float
        At least 0, less than 1.
    error : float
        Greater than 0, less than 1: .05 for a bound at 95 %.

    Returns
    -------
    float
        At least 0: 0 where nothing is shown.
    """
    half = len(zeros) // 2, len(ones) // 2
    if min(half) < _LEAST:
        msg = f"an audit was asked for with {len(zeros)} and {len(ones)} runs"
        raise ValueError(msg)
    rule = choose(zeros[: half[0]], ones[: half[1]], delta, error)
    return count(rule, zeros[half[0] :], ones[half[1] :], delta, error)


def largest_bound(runs: int, delta: float, error: float = 0.05) -> float:
    """Return the largest bound that so many runs can show: that of two data sets that are always told apart."""
    counted = runs - runs // 2
    return float(_bounds(counted, 0, (counted, counted), True, delta, error))
