"""How little noise an audit would have noticed, and how many runs are enough to notice half of the noise.

An audit that finds nothing says little unless it could have found something. Its *control* repeats it with half of the
noise. From the control, this module estimates the largest fraction x of the noise at which the audit would still have
exceeded the target, 99 times out of 100.

A *separation* says how far apart an event's two probabilities p and p' lie: quantile(p') - quantile(p), in quantiles of
the normal law. For Gaussian noise and a score that is linear in it, the separation is the same for every threshold, and
1/f times as large with f times the noise. Other laws and scores are measured at two fractions of the noise, all of it
and half; between them the logarithm of the separation is taken to be linear in the logarithm of the noise. So x is an
estimate; the catalogue checks it with runs at x times the noise.
"""

import math
from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri
from scipy.stats import binom

from masquerade_lab.audit.audit import CONTROL
from masquerade_lab.audit.bounds import Rule, choose, probability_above, probability_below

__all__ = [
    "MOST_RUNS",
    "POWER",
    "enough_runs",
    "fraction",
    "least_separation",
    "needed_separation",
    "noticed",
    "separation",
]

POWER = 0.99
"""How often an audit exceeds the target at the fraction of noise of which it says that it would notice it."""

MOST_RUNS = 10_000_000
"""More runs than anybody makes: beyond it no number of runs is named."""

_STEPS = 30  # of a bisection
_ROUNDS = 3  # in which a fraction of the noise and how rare its event is agree
_WIDE = 8.0  # standard deviations; hits beyond them do not occur
_FAR = 12.0  # a separation at which two data sets are always told apart
_CELLS = 400  # numbers of hits that are looked at
_CHOSEN = 1.05  # half of the runs choose the event, and not always the best: measured, it costs up to 5 %
_RAREST, _PLACES = 1e-6, 200  # probabilities of events that are tried
_MORE = 1.05  # steps of a search
_LEAST = 10  # runs that are counted

_EVENTS = tuple(round(float(p), 4) for p in np.geomspace(0.01, 0.4, 12))  # how rare the events are that are tried

_Array = NDArray[np.float64]
_Pair = tuple[_Array, _Array]


def separation(zeros: _Array, ones: _Array, rule: Rule) -> tuple[float, float]:
    """Return how rare an event is under the data set that makes it less likely, and the two data sets' separation.

    Parameters
    ----------
    zeros, ones : ndarray, shape (n,)
        Scores under D and under D'.
    rule : Rule
        The event.
    """
    likely, unlikely = (ones, zeros) if rule.moved else (zeros, ones)
    rates = [min(max(rule.hits(x), 0.5), len(x) - 0.5) / len(x) for x in (unlikely, likely)]
    return rates[0], float(ndtri(rates[1]) - ndtri(rates[0]))


def _at(zeros: _Array, ones: _Array, rule: Rule, place: float) -> Rule:
    """Return the rule with the threshold at which its event is about as rare as ``place``."""
    unlikely = np.sort(zeros if rule.moved else ones)
    thresholds = np.unique(np.concatenate([zeros, ones]))
    below = np.searchsorted(unlikely, thresholds, side="left")
    beyond = len(unlikely) - np.searchsorted(unlikely, thresholds, side="right") if rule.above else below
    at = int(np.argmin(np.abs(beyond / len(unlikely) - place)))
    return Rule(float(thresholds[at]), above=rule.above, moved=rule.moved)


@cache
def needed_separation(runs: int, rare: float, epsilon: float, delta: float, error: float) -> float:
    """Return the least separation at which an audit exceeds epsilon, ``POWER`` of the time; infinite if none does.

    Parameters
    ----------
    runs : int
        Of each data set; half of them are counted.
    rare : float
        How often the event occurs under the data set that makes it less likely.
    epsilon, delta : float
        The target.
    error : float
        The chance that the audit's bound is too large.
    """
    power = _power(runs - runs // 2, rare, epsilon, delta, error)
    return _CHOSEN * _least(power, 0.0, _FAR) if power(_FAR) >= POWER else math.inf


def least_separation(runs: int, epsilon: float, delta: float, error: float) -> float:
    """Return :func:`needed_separation` of the event for which it is least."""
    return min(needed_separation(runs, rare, epsilon, delta, error) for rare in _EVENTS)


def _power(counted: int, rare: float, epsilon: float, delta: float, error: float) -> Callable[[float], float]:
    """Return how often the bound exceeds epsilon, as a function of the separation."""
    spread = _WIDE * math.sqrt(counted * rare * (1 - rare)) + _WIDE
    low, high = max(0, int(counted * rare - spread)), min(counted, int(counted * rare + spread) + 1)
    hits = np.unique(np.linspace(low, high, min(_CELLS, high - low + 1)).astype(np.int64))
    # A cell's hits count as its largest number, which is harder to exceed.
    chances = np.diff(binom.cdf(hits, counted, rare), prepend=0.0)
    wanted = math.exp(epsilon) * probability_above(hits.astype(np.float64), counted, error / 2) + delta
    least = _fewest(wanted, counted, error)

    def power(apart: float) -> float:
        likely = float(ndtr(ndtri(rare) + apart))
        return float(chances @ binom.sf(least - 1, counted, likely))

    return power


def _fewest(wanted: _Array, counted: int, error: float) -> NDArray[np.int64]:
    """Return, for each probability, the fewest hits that show more than it; ``counted + 1`` where none do."""
    low, high = np.zeros(len(wanted), np.int64), np.full(len(wanted), counted + 1, np.int64)
    while np.any(high - low > 1):
        middle = (low + high) // 2
        shown = probability_below(middle.astype(np.float64), counted, error / 2) > wanted
        low, high = np.where(shown, low, middle), np.where(shown, middle, high)
    return high


def _least(power: Callable[[float], float], low: float, high: float) -> float:
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if power(middle) >= POWER else (middle, high)
    return high


def noticed(whole: _Pair, less: _Pair, epsilon: float, delta: float, error: float) -> float:
    """Estimate the fraction of the noise below which an audit would have exceeded epsilon.

    The runs that choose an event choose it here too, and the others measure its separation.

    Parameters
    ----------
    whole, less : (ndarray, ndarray)
        Scores under D and D', with all of the noise and with ``CONTROL`` of it.
    epsilon, delta, error : float
        As for :func:`needed_separation`.
    """
    half, runs = len(less[0]) // 2, len(less[0])
    first = [(zeros[:half], ones[:half]) for zeros, ones in (less, whole)]
    counted = [(zeros[half:], ones[half:]) for zeros, ones in (less, whole)]
    rule = choose(*first[0], delta, error)
    events = [(_at(*first[0], rule, place), _at(*first[1], rule, place)) for place in _EVENTS]

    def least(event: tuple[Rule, Rule], pairs: Sequence[_Pair]) -> float:
        (rare, near), (often, far) = (separation(*pair, each) for pair, each in zip(pairs, event, strict=True))
        x, place = 0.0, rare
        for _ in range(_ROUNDS):
            needed = needed_separation(runs, float(f"{place:.2g}"), epsilon, delta, error)
            x = fraction(near, far, needed, (1.0, float(CONTROL)))
            # Where scores have atoms, an event is not equally rare with all of the noise and with half of it.
            place = rare * (often / rare) ** min(max(1 + math.log2(x), 0.0), 1.0) if x else rare
        return x

    return least(max(events, key=lambda event: least(event, first)), counted)


def fraction(near: float, far: float, needed: float, factors: tuple[float, float]) -> float:
    """Return the fraction of the noise at which the separation is what is needed, at most ``factors[0]``.

    Parameters
    ----------
    near, far : float
        Separations with less noise and with more of it, which are ``factors[1]`` and ``factors[0]``.
    """
    if not (near > 0 and math.isfinite(needed)):
        return 0.0
    slope = math.log(near / far) / math.log(factors[0] / factors[1]) if 0 < far < near else 1.0
    if needed > near:
        slope = min(1.0, slope)  # beyond what was measured, no more is expected than of Gaussian noise
    return float(min(factors[1] * (near / needed) ** (1 / slope), factors[0]))


@cache
def enough_runs(apart: float, epsilon: float, delta: float, error: float, *, pure: bool = False) -> int | None:
    """Return how many runs of each data set are enough to exceed epsilon; None if ``MOST_RUNS`` are too few.

    The event is the best one. How many runs it takes follows from the normal law, and is raised until binomial
    distributions agree.

    Parameters
    ----------
    apart : float
        The separation, the same for every event. If ``pure``, the epsilon of a mechanism without delta, whose two data
        sets are as far apart as it allows.
    epsilon, delta, error : float
        As for :func:`needed_separation`.
    """
    apart /= _CHOSEN
    rare = np.geomspace(_RAREST, 0.5, _PLACES)
    likely = _pure(rare, apart) if pure else ndtr(ndtri(rare) + apart)
    margin = likely - delta - math.exp(epsilon) * rare
    able = margin > 0
    if not able.any():
        return None
    sides = np.sqrt(likely * (1 - likely)), math.exp(epsilon) * np.sqrt(rare * (1 - rare))
    spread = -ndtri(error / 2) * (sides[0] + sides[1]) + ndtri(POWER) * np.hypot(*sides)
    needed = np.where(able, (spread / np.where(able, margin, 1.0)) ** 2, np.inf)
    # Where hits are few, the normal law is wrong: no upper bound is below log(2/error)/n, that of no hits.
    needed = np.maximum(needed, math.log(2 / error) / rare)
    at = int(np.argmin(needed))
    counted, place = max(_LEAST, float(needed[at])), float(rare[at])
    separated = float(ndtri(likely[at]) - ndtri(place))
    while 2 * counted <= MOST_RUNS:
        if _power(math.ceil(counted), place, epsilon, delta, error)(separated) >= POWER:
            return 2 * math.ceil(counted)
        counted *= _MORE
    return None


def _pure(rare: _Array, epsilon: float) -> _Array:
    """Return the largest P'(A) that (epsilon, 0)-privacy allows beside P(A)."""
    return np.minimum(math.exp(epsilon) * rare, 1 - math.exp(-epsilon) * (1 - rare))
