"""How the noise of ``input-noise`` compares with the model: before a run, and where all records can be seen."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from masquerade_core.data.schema import Dataset
from masquerade_core.learning.input_noise import epochs_of, initial_weights, sgd
from masquerade_core.privacy.expectation import Expectation, counted_records
from masquerade_core.simulation_rng import SimulationRng
from masquerade_core.study import Study
from masquerade_protocols.comparing import SMALL_NOISE, expected_by_ratio, model_of, times
from masquerade_protocols.entry import Noiseless, Released, Weights
from masquerade_protocols.input_noise.public import alpha_of, parameters_of

__all__ = ["exact_examples", "expectation", "noiseless"]

_SEED = 2016


def expectation(study: Study) -> Expectation:
    """Compare the noise on the mean of all examples with the longest mean that there can be.

    A mean of label times record tells the classes apart. Its noise has length sqrt(d)/alpha divided by sqrt(N), where
    every record has one noisy copy or several. A label that is kept with probability p shrinks the mean by 2p - 1.
    """
    chosen, d = parameters_of(study), study.d
    N, _ = counted_records(study)
    length = (math.sqrt(d) if chosen.noise == "gaussian" else 2 * math.sqrt(d * (d + 1))) / alpha_of(study)
    kept = 1.0 if chosen.epsilon_y is None else math.tanh(chosen.epsilon_y / 2)
    return expected_by_ratio(
        study,
        length / math.sqrt(N * chosen.copies) / kept,
        noise="the noise on the mean of all examples",
        beside="the longest mean that there can be",
        cure="many more records, a larger epsilon_y or a larger " + ("epsilon" if study.proven else "alpha"),
    )


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


def noiseless(study: Study, data: Mapping[str, Dataset], released: Released, **_unused: Any) -> Noiseless:
    """Judge the noise by how far it moved the released classifier.

    Where that is far, no epsilon is named at which the noise would be small, as the distance is not proportional to the
    noise on examples.
    """
    clean, what = exact_examples(study, data), "the parties' average on exact examples"
    ratio = float(np.linalg.norm(np.array(released.weights) - clean) / np.linalg.norm(clean))
    if ratio <= SMALL_NOISE:
        return Noiseless(model_of(clean), what, ratio, study.privacy.epsilon)
    advice = (
        f"The noise moved the classifier by {times(ratio)} its length. Every example carries noise of the scale "
        f"1/alpha = {1 / alpha_of(study):.3g}, beside a length of 1."
    )
    return Noiseless(model_of(clean), what, ratio, None, advice)
