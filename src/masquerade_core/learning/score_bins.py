"""Bins of a model's scores: where they lie follows from the model and from one noisy histogram, so they are public.

*Cells* come first: 256 of them, equally wide, from -R to R. R is the smallest power of two that no score exceeds, since
no record is longer than 1; it is at most 16, where the probability of the logistic link is 1 - 10^-7. Scores beyond lie
in the outermost cells. A power of two divides a score exactly, so cells and thresholds never disagree.

*Bins* are runs of cells. The noisy histogram over the cells says where the scores lie. The edges of the bins are its
quantiles in steps of 5 %, so each bin holds about as many records as any other. Fixed bins would not do: the scores of
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

_STEPS = 20  # bins of equal mass
MOST_BINS = _STEPS + 2
"""The most bins that there can be: those of equal mass, one cut at a score of 0 and one at the study's own rate."""

_LARGEST, _SMALLEST = 4, -20  # R as a power of two
_SHOWS = 2.0  # standard deviations of noise; a cell with fewer records than that counts as empty
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
        The first cell of each bin but the lowest; they grow, and 128, the score 0, is always among them.
    middles : tuple of float
        For each bin a score in its middle, by the noisy histogram.
    """

    exponent: int
    cuts: tuple[int, ...]
    middles: tuple[float, ...]

    @property
    def edges(self) -> tuple[float, ...]:
        """The scores between the bins: the thresholds whose confusion matrix is counted exactly."""
        return tuple(_edge(cut, self.exponent) for cut in self.cuts)

    def of(self, scores: _Array) -> NDArray[np.int64]:
        """Return each score's bin."""
        return np.searchsorted(np.array(self.cuts), cells_of(scores, self.exponent), side="right")


def _edge(cut: int, exponent: int) -> float:
    return (cut - _HALF) * 2.0**exponent / _HALF


def locate_bins(histogram: Sequence[float], sd: float, exponent: int, rate: float | None = None) -> Bins:
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
    """
    noisy = np.array(histogram, dtype=np.float64)
    seen = np.where(noisy > _SHOWS * sd, noisy, 0.0)
    if not seen.any():
        seen = np.ones(CELLS)
    mass = np.cumsum(seen) / seen.sum()
    wanted = [step / _STEPS for step in range(1, _STEPS)] + ([] if rate is None else [1 - rate])
    found = {int(np.abs(mass - quantile).argmin()) + 1 for quantile in wanted} | {_HALF}
    cuts = tuple(sorted(cut for cut in found if 0 < cut < CELLS))
    middles = tuple(_middle(seen, low, high, exponent) for low, high in zip((0, *cuts), (*cuts, CELLS), strict=True))
    return Bins(exponent, cuts, middles)


def _middle(seen: _Array, low: int, high: int, exponent: int) -> float:
    """Return the mean score of the cells low to high - 1, each by its records; of all alike if none has any."""
    cells = np.arange(low, high)
    weights = seen[low:high] if seen[low:high].any() else np.ones(high - low)
    return float(np.dot(cells + 0.5, weights) / weights.sum() - _HALF) * 2.0**exponent / _HALF
