"""The model that ``weighted-dp`` would release without noise, computed by somebody who may see all records."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from masquerade_core.data.schema import Dataset
from masquerade_core.learning.gradients import gradient_sum
from masquerade_core.study import Study
from masquerade_protocols.comparing import judged_by_distance
from masquerade_protocols.entry import Noiseless, Weights
from masquerade_protocols.weighted_dp.public import parameters_of

__all__ = ["clean_descents", "noiseless"]


def clean_descents(study: Study, data: Mapping[str, Dataset]) -> Weights:
    """Return the average of the parties' local descents without noise; shape (d,)."""
    chosen = parameters_of(study)
    descents = []
    for records in data.values():
        theta = np.zeros(study.d)
        for _ in range(chosen.rounds):
            mean = gradient_sum(records.X, records.y, theta, study.model.loss) / len(records.y)
            theta = theta - chosen.learning_rate * (mean + study.model.regularization * theta)
        descents.append(theta)
    sizes = [len(records.y) if chosen.weights == "sizes" else 1 for records in data.values()]
    return np.average(descents, axis=0, weights=sizes)


def noiseless(study: Study, data: Mapping[str, Dataset], released: Weights, **_unused: Any) -> Noiseless:
    """Judge the noise by how far it moved the released classifier."""
    clean, what = clean_descents(study, data), "the parties' average after exact steps"
    cure = "as many times more records than these as that is larger"
    return judged_by_distance(clean, what, released, study.privacy.epsilon, cure)
