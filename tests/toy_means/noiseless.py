"""What ``toy-means`` would release without noise."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from masquerade_core.data.pooling import pool
from masquerade_core.data.schema import Dataset
from masquerade_core.study import Study
from masquerade_protocols.comparing import judged_by_distance
from masquerade_protocols.entry import Noiseless, Released
from tests.toy_means.roles import FRACTION_BITS, exact_sum

__all__ = ["noiseless"]


def noiseless(study: Study, data: Mapping[str, Dataset], released: Released, **_unused: Any) -> Noiseless:
    """Judge by how far the noise moved the mean."""
    together = pool(study, data)
    mean = np.array(exact_sum(together)) / (len(together.y) << FRACTION_BITS)
    return judged_by_distance(mean, "the exact mean", released, study.privacy.epsilon, "as many times more records")
