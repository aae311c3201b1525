"""What a protocol would release if it added no noise, worked out by somebody who may see everything."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from masquerade_core.data.auxiliary import Auxiliary
from masquerade_core.data.schema import Dataset
from masquerade_core.learning.classifiers import Linear, cast_votes, named
from masquerade_core.learning.gradients import gradient_sum
from masquerade_core.learning.input_noise import epochs_of, initial_weights, sgd
from masquerade_core.rng import SimulationRng
from masquerade_core.study import Study
from masquerade_protocols import dp_gd, input_noise, voting, weighted_dp
from masquerade_protocols.baselines import pool

__all__ = ["by_clipped_steps", "by_noisy_examples", "by_votes", "by_walks"]

_SEED = 2016

_Array = NDArray[np.float64]


def by_votes(study: Study, data: Mapping[str, Dataset], classifiers: Mapping[str, str], auxiliary: Auxiliary) -> _Array:
    """Return w_s of ``vote`` or ``soft``; shape (d,).

    Parameters
    ----------
    study : Study
    data : mapping of str to Dataset
        Each party's records.
    classifiers : mapping of str to str
        What a party votes with, by name; the study's own loss where a party has none.
    auxiliary : Auxiliary
        The public records that the study names.
    """
    own = Linear(study.model.loss, study.model.regularization, study.classes)
    votes = [
        cast_votes(
            named(classifiers[name]) if name in classifiers else own,
            records,
            auxiliary.X,
            SimulationRng(_SEED, name),
        )
        for name, records in data.items()
    ]
    positive = np.sum(votes, axis=0)
    counts = np.column_stack([len(votes) - positive, positive])
    soft = study.study.protocol == "soft"
    targets = voting.fractions(counts) if soft else voting.majority(counts, positive=True)
    return voting.minimiser(study, auxiliary.X, targets)


def by_walks(study: Study, data: Mapping[str, Dataset]) -> _Array:
    """Return the average of ``weighted-dp``'s local descents; shape (d,)."""
    chosen = weighted_dp.Parameters.model_validate(study.protocol)
    walks = []
    for records in data.values():
        theta = np.zeros(study.d)
        for _ in range(chosen.rounds):
            mean = gradient_sum(records.X, records.y, theta, study.model.loss) / len(records.y)
            theta = theta - chosen.learning_rate * (mean + study.model.regularization * theta)
        walks.append(theta)
    sizes = [len(records.y) if chosen.weights == "sizes" else 1 for records in data.values()]
    return np.average(walks, axis=0, weights=sizes)


def by_clipped_steps(study: Study, data: Mapping[str, Dataset]) -> _Array:
    """Return the last iterate of ``dp-gd`` on exact sums of clipped gradients; shape (d,)."""
    together = pool(study, data)
    descent = dp_gd.Descent(study, len(together.y))
    for _ in range(dp_gd.Parameters.model_validate(study.protocol).rounds):
        descent.step(descent.gradient(together))
    return descent.w


def by_noisy_examples(study: Study, data: Mapping[str, Dataset]) -> _Array:
    """Return the average of ``input-noise``'s local descents, by size, on examples as they are; shape (d,)."""
    chosen = input_noise.Parameters.model_validate(study.protocol)
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
