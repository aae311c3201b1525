"""What ``vote`` and ``soft`` would release without noise, worked out by somebody who may see all records."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from masquerade_core.data.auxiliary import Auxiliary
from masquerade_core.data.schema import Dataset
from masquerade_core.learning.classifiers import Linear, cast_votes, named
from masquerade_core.rng import SimulationRng
from masquerade_core.study import Study
from masquerade_protocols.comparing import judged_by_distance
from masquerade_protocols.entry import Noiseless, Weights
from masquerade_protocols.voting.roles import fractions, majority, minimiser

__all__ = ["clean_votes", "noiseless"]

_SEED = 2016


def clean_votes(
    study: Study, data: Mapping[str, Dataset], classifiers: Mapping[str, str], auxiliary: Auxiliary
) -> Weights:
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
    targets = fractions(counts) if soft else majority(counts, positive=True)
    return minimiser(study, auxiliary.X, targets)


def noiseless(
    study: Study,
    data: Mapping[str, Dataset],
    released: Weights,
    *,
    auxiliary: Auxiliary,
    classifiers: Mapping[str, str],
    **_unused: Any,
) -> Noiseless:
    """Judge by how far the noise moved the classifier."""
    clean, what = clean_votes(study, data, classifiers, auxiliary), "learned from the same votes"
    cure = f"many more parties: this noise hides all that a party has, and {study.K} are few"
    return judged_by_distance(clean, what, released, study.privacy.epsilon, cure)
