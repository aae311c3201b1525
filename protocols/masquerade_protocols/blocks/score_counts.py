"""The counts of an evaluation over the held-back records: by the cell, the bin or the class of their scores."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from masquerade_core.learning.score_bins import CELLS, MOST_BINS, Bins, cells_of
from masquerade_core.model import Model, scores_of
from masquerade_core.privacy.noise.evaluation_counts import COUNT_UNITS, LOCATE_UNITS, SQUARE_UNITS

__all__ = ["Confusion", "InBins", "InCells"]

_Array = NDArray[np.float64]


def _scores(model: Model, X: _Array, classes: int | None) -> _Array:
    with np.errstate(over="ignore", invalid="ignore"):  # whatever the model is, nobody stops
        return scores_of(model, X, classes)


@dataclass(frozen=True, eq=False)
class InCells:
    """The first vector: how many records have a score in each cell, in units of the grid."""

    model: Model
    exponent: int

    def __call__(self, X: _Array, y: _Array) -> NDArray[np.int64]:
        """Count one block of records."""
        del y
        cells = cells_of(_scores(self.model, X, None), self.exponent)
        return np.bincount(cells, minlength=CELLS).astype(np.int64) * LOCATE_UNITS


@dataclass(frozen=True, eq=False)
class InBins:
    """The second vector: the records of each label in each bin, and the sum of squares."""

    model: Model
    bins: Bins

    def __call__(self, X: _Array, y: _Array) -> NDArray[np.int64]:
        """Count one block of records."""
        scores = _scores(self.model, X, None)
        where = self.bins.of(scores)
        # Negative labels count in places of their own: to pick the records of one label would take its own time.
        counts = np.bincount(where + MOST_BINS * (y < 0), minlength=2 * MOST_BINS)
        return np.append(counts.astype(np.int64) * COUNT_UNITS, _squares(scores, y))


@dataclass(frozen=True, eq=False)
class Confusion:
    """The only vector for named classes: the confusion matrix row by row, in units of the grid."""

    model: Model
    classes: int

    def __call__(self, X: _Array, y: _Array) -> NDArray[np.int64]:
        """Count one block of records."""
        answers = _scores(self.model, X, self.classes).argmax(axis=1)
        counts = np.bincount(y.astype(np.int64) * self.classes + answers, minlength=self.classes**2)
        return counts.astype(np.int64) * COUNT_UNITS


def _squares(scores: _Array, y: _Array) -> int:
    """Return the sum of all (probability - label)^2, where each record is rounded to the grid by itself."""
    off = 0.5 * (1 - np.tanh(np.nan_to_num(y * scores) / 2))  # the probability of the other label
    return int(np.clip(np.rint(off**2 * SQUARE_UNITS), 0, SQUARE_UNITS).astype(np.int64).sum())
