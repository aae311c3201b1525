"""How the noise of ``weighted-dp`` compares with the model: before a run, and where all records can be seen."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from masquerade_core.data.schema import Dataset
from masquerade_core.learning.gradients import gradient_sum
from masquerade_core.learning.losses import loss_of
from masquerade_core.privacy.expectation import Expectation, counted_records
from masquerade_core.study import Study
from masquerade_protocols.comparing import (
    expected_by_ratio,
    judged_by_distance,
    least_noise_left,
    longest_classifier,
)
from masquerade_protocols.entry import Noiseless, Released, Weights
from masquerade_protocols.weighted_dp.public import parameters_of, plan

__all__ = ["clean_descents", "expectation", "noiseless"]


def expectation(study: Study) -> Expectation:
    """Compare the noise, for parties of equally many records, with the longest classifier that there can be."""
    N, _ = counted_records(study)
    descent, loss = plan(study, N), loss_of(study.model.loss)
    eta, Lambda = float(descent.eta), study.model.regularization
    deviation = float(descent.sigma_at(max(1, N // study.K))) / math.sqrt(study.K)  # K parties' noise is averaged
    left = least_noise_left(deviation, study.d, descent.T, eta, float(loss.c), Lambda)
    return expected_by_ratio(
        study,
        left / longest_classifier(study, eta * descent.T * float(loss.L)),
        noise="the noise on the model, if all parties have equally many records,",
        beside="the longest classifier that so many steps and the regularization allow",
        cure="more records in each party, a larger epsilon or fewer rounds",
    )


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


def noiseless(study: Study, data: Mapping[str, Dataset], released: Released, **_unused: Any) -> Noiseless:
    """Judge the noise by how far it moved the released classifier."""
    clean, what = clean_descents(study, data), "the parties' average after exact steps"
    cure = "as many times more records than these as that is larger"
    return judged_by_distance(clean, what, released, study.privacy.epsilon, cure)
