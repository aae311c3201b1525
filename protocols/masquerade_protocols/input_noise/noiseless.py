"""The model that ``input-noise`` would release without noise, computed by somebody who may see all records."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from masquerade_core.data.schema import Dataset
from masquerade_core.learning.input_noise import epochs_of, initial_weights, sgd
from masquerade_core.rng import SimulationRng
from masquerade_core.study import Study
from masquerade_protocols.comparing import SMALL_NOISE, times
from masquerade_protocols.entry import Noiseless, Weights
from masquerade_protocols.input_noise.public import alpha_of, parameters_of

__all__ = ["exact_examples", "noiseless"]

_SEED = 2016


def exact_examples(study: Study, data: Mapping[str, Dataset]) -> Weights:
    """Return the parties' average, by size, of stochastic gradient descent on examples without noise; shape (d,)."""
    chosen = parameters_of(study)
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
    """Judge the noise by how far it moved the released classifier.

    Where that is far, no epsilon is named at which the noise would be small, as the distance is not proportional to the
    noise on examples.
    """
    clean, what = exact_examples(study, data), "the parties' average on exact examples"
    ratio = float(np.linalg.norm(released - clean) / np.linalg.norm(clean))
    if ratio <= SMALL_NOISE:
        return Noiseless(clean, what, ratio, study.privacy.epsilon)
    advice = (
        f"The noise moved the classifier by {times(ratio)} its length. Every example carries noise of the scale "
        f"1/alpha = {1 / alpha_of(study):.3g}, beside a length of 1."
    )
    return Noiseless(clean, what, ratio, None, advice)
