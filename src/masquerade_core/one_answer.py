"""Whether a model gives nearly all records the same answer, although their labels differ."""

import numpy as np
from numpy.typing import NDArray

__all__ = ["gives_one_answer"]

_NEARLY = 0.02  # of the records may have another answer
_TIMES = 5  # as many records must have another label, or the answers are only as rare as the labels are


def gives_one_answer(answers: NDArray[np.float64], labels: NDArray[np.float64]) -> bool:
    """Return whether all answers, or nearly all, are the same one, and the labels are not.

    Parameters
    ----------
    answers, labels : ndarray, shape (n,)
        What a model says of n >= 1 records, and what is true of them.
    """
    values, counts = np.unique(answers, return_counts=True)
    most = values[counts.argmax()]
    others, differ = float(np.mean(answers != most)), float(np.mean(labels != most))
    return differ > 0 and others <= _NEARLY and others * _TIMES <= differ
