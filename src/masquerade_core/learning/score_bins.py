"""Bins of a model's scores: where they lie follows from the model and from one noisy histogram, so they are public.

*Cells* come first: 256 of them, equally wide, from -R to R. R is the smallest power of two that no score exceeds, since
no record is longer than 1; it is at most 16, where the probability of the logistic link is 1 - 10^-7. Scores beyond lie
in the outermost cells. A power of two divides a score exactly, so cells and thresholds never disagree.

*Bins* are runs of cells. The noisy histogram over the cells says where the scores lie. The edges of the bins are its
quantiles, in steps of 5 % where the noise allows so many, so each bin holds about as many records as any other. Fixed
bins would not do: the scores of
a model that finds few positives lie between -6 and -3, and those of a weak one between -0.1 and 0.1.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

__all__ = ["CELLS", "MOST_BINS", "Bins", "cells_of", "locate_bins", "score_range"]

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
