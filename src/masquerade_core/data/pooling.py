"""All parties' records as one data set, for baselines and for comparisons with them."""

from collections.abc import Mapping

import numpy as np

from masquerade_core.data.schema import Dataset
from masquerade_core.errors import BadInput
from masquerade_core.study import Study
from masquerade_core.words import listed

__all__ = ["pool"]


def pool(study: Study, data: Mapping[str, Dataset]) -> Dataset:
    """Return the records of all parties of the study as one data set, in the roster's order.

    Raises
    ------
    BadInput
        A party of the roster has no records here.
    """
    if absent := [name for name in study.names if name not in data]:
        raise BadInput(f"there are no records of {listed(absent)}", "give records for every party of the study")
    parts = [data[name] for name in study.names]
    X, y = (np.concatenate(columns) for columns in zip(*((part.X, part.y) for part in parts), strict=True))
    return type(parts[0])(X, y, study.classes)
