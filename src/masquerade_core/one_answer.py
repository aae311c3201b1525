"""Whether a model gives nearly all records the same answer, although their labels differ."""

import numpy as np
from numpy.typing import NDArray

__all__ = ["gives_one_answer", "is_one_answer"]

_NEARLY = 0.02  # of the records may have another answer
_TIMES = 5  # as many records must have another label, or the answers are only as rare as the labels are


def gives_one_answer(answers: NDArray[np.float64], labels: NDArray[np.float64]) -> bool:
    """Return whether all answers, or nearly all, are the same one, and the labels are not.

    Parameters
    ----------
    answers, labels : ndarray, shape (n,)
        What a model says of n >= 1 records, and what is true of them.
    """
    values = np.union1d(answers, labels)
    size = len(values)
    places = np.searchsorted(values, labels) * size + np.searchsorted(values, answers)
    return is_one_answer(np.bincount(places, minlength=size**2).reshape(size, size))


def is_one_answer(counts: NDArray[np.int64]) -> bool:
    """Return the same from the number of records of each label (by row) and with each answer (by column)."""
    answered, n = counts.sum(axis=0), int(counts.sum())
    most = int(answered.argmax())
    others, differ = n - int(answered[most]), n - int(counts[most].sum())
    return differ > 0 and others <= _NEARLY * n and others * _TIMES <= differ
