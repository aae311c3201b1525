"""What ``input-noise`` would release without noise, worked out by somebody who may see all records."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from masquerade_core.data.schema import Dataset
from masquerade_core.learning.input_noise import epochs_of, initial_weights, sgd
from masquerade_core.rng import SimulationRng
from masquerade_core.study import Study
from masquerade_protocols.comparing import judged_by_distance
from masquerade_protocols.entry import Noiseless, Weights
from masquerade_protocols.input_noise.roles import Parameters, alpha_of

__all__ = ["exact_examples", "noiseless"]

_SEED = 2016


def exact_examples(study: Study, data: Mapping[str, Dataset]) -> Weights:
    """Return the average of ``input-noise``'s local descents, by size, on examples as they are; shape (d,)."""
    chosen = Parameters.model_validate(study.protocol)
    found = []
    for name, records in data.items():
        rng = SimulationRng(_SEED, name)
        w = initial_weights(rng, study.d)
        batches = (
            (records.X[batch], records.y[batch])
            for batch in epochs_of(rng, len(records.y), chosen.epochs, chosen.batch)
        )
        found.append(sgd(w, batches, chosen.learning_rate, study.model.loss, study.model.regularization))
    return np.average(found, axis=0, weights=[len(records.y) for records in data.values()])


def noiseless(study: Study, data: Mapping[str, Dataset], released: Weights, **_unused: Any) -> Noiseless:
    """Judge by how far the noise moved the classifier."""
    clean, what = exact_examples(study, data), "the parties' average on exact examples"
    judged = judged_by_distance(clean, what, released, study.privacy.epsilon)
    if not judged.advice:
        return judged
    scale = f"Every example carries noise of the scale 1/alpha = {1 / alpha_of(study):.3g}, beside a length of 1."
    moved, _, _ = judged.advice.partition(". ")
    return replace(judged, enough_epsilon=None, advice=f"{moved}. {scale}")
