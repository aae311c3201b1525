"""What ``vote`` and ``soft`` would release without noise, computed by somebody who may see all records."""

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
from masquerade_protocols.voting.counting import minimiser, targets_of
from masquerade_protocols.voting.public import classes_of

__all__ = ["clean_votes", "noiseless"]

_SEED = 2016


def clean_votes(
    study: Study, data: Mapping[str, Dataset], classifiers: Mapping[str, str], auxiliary: Auxiliary
) -> Weights:
    """Return w_s of ``vote`` or ``soft``; shape (outputs d,), class by class.

    Parameters
    ----------
    study : Study
    data : mapping of str to Dataset
        Each party's records.
    classifiers : mapping of str to str
        The kind of classifier that a party votes with, by the party's name. A party without one minimises the study's
        own loss.
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
    counts = np.stack([np.sum(np.array(votes) == k, axis=0) for k in range(classes_of(study))], axis=1)
    return minimiser(study, auxiliary.X, targets_of(study, counts))


def noiseless(
    study: Study,
    data: Mapping[str, Dataset],
    released: Weights,
    *,
    auxiliary: Auxiliary,
    classifiers: Mapping[str, str],
    **_unused: Any,
) -> Noiseless:
    """Return the classifier learned from the same votes, and how far the noise moved the released one from it."""
    clean, what = clean_votes(study, data, classifiers, auxiliary), "learned from the same votes"
    cure = f"many more parties: this noise hides all records of a party, and {study.K} parties are few"
    return judged_by_distance(clean, what, released, study.privacy.epsilon, cure)
