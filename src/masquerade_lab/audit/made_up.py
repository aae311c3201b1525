"""Made-up records for the audit of somebody's own study: they fit its features, parties and classes."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from masquerade_core.data.schema import Dataset
from masquerade_core.study import Study
from masquerade_lab.audit.canary import flat, others

__all__ = ["made_up"]

_Array = NDArray[np.float64]


def made_up(study: Study, *, whole: bool, moved: bool) -> Mapping[str, Dataset]:
    """Return everybody's made-up records; the last party holds the canary, or is the canary if ``whole``.

    Parameters
    ----------
    whole : bool
        Whether all labels of that party are reversed, or one record is another.
    moved : bool
        Whether these are the records of D', or of D.
    """
    n, d, canary = study.study.min_records, study.d, study.names[-1]
    data = {}
    for k, name in enumerate(study.names):
        if name == canary and not whole:
            records = flat(n, d, moved=moved)
            X, y = records.X, records.y
        else:
            X, y = others(n, d, seed=k + 1)
            turned = moved if name == canary else k % 2 == 1
            y = -y if whole and turned else y
        data[name] = Dataset.from_unit_ball(X, _classes(y, study), study.classes)
    return data


def _classes(y: _Array, study: Study) -> _Array:
    """Turn labels -1 and +1 into the first two classes, and give each other class one record."""
    if study.classes is None:
        return y
    indices = (y < 0).astype(np.float64)
    indices[: study.classes - 2] = np.arange(2, study.classes)
    return indices
