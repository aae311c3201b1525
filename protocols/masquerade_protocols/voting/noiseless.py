"""How the noise of ``vote`` and ``soft`` compares with the model: before a run, and where all records can be seen."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from masquerade_core.data.auxiliary import Auxiliary
from masquerade_core.data.schema import Dataset
from masquerade_core.learning.classifiers import Linear, cast_votes, named
from masquerade_core.privacy.expectation import Expectation
from masquerade_core.privacy.noise.vote_counts import COUNT_BITS
from masquerade_core.privacy.noise.votes import minimiser_radius
from masquerade_core.simulation_rng import SimulationRng
from masquerade_core.study import Study
from masquerade_protocols.comparing import expected_by_ratio, judged_by_distance
from masquerade_protocols.entry import Noiseless, Released, Weights
from masquerade_protocols.voting.counting import minimiser, targets_of
from masquerade_protocols.voting.public import beta, classes_of, is_soft, noise_of, parameters_of

__all__ = ["clean_votes", "expectation", "noiseless"]

_SEED = 2016


def expectation(study: Study) -> Expectation:
    """Compare the noise with the longest classifier or, where it is on counts, with unanimous votes.

    *The paper's noise* eta has the density exp(-beta |eta|), so its root mean square length is sqrt(D (D + 1))/beta for
    D weights. No classifier is longer than :func:`~masquerade_core.privacy.noise.votes.minimiser_radius`.

    *Noise on counts*: a fit of d coordinates to N points leaves min(d, N)/N of its variance in the fitted fractions of
    votes. A fraction differs from one half by one half at most.
    """
    model, K = study.model, study.K
    if study.proven:
        N = parameters_of(study).auxiliary.records
        deviation = math.sqrt(K) * float(noise_of(study).share) / (1 << COUNT_BITS)
        return expected_by_ratio(
            study,
            2 * deviation / K * math.sqrt(min(study.d, N) / N),
            noise=f"the noise in the fitted fractions of {K} votes",
            beside="the most that unanimous votes can tell",
            measured=f"Every count of at most {K} votes carries noise of standard deviation {deviation:.2g}.",
            cure="many more parties, since this noise hides all records of a party; or a larger epsilon",
        )
    D = study.outputs * study.d
    radius = minimiser_radius(loss=model.loss, classes=study.classes, Lambda=model.regularization)
    return expected_by_ratio(
        study,
        math.sqrt(D * (D + 1)) / float(beta(study)) / radius,
        noise="the noise on the model",
        beside=f"the longest classifier that regularization = {model.regularization:g} allows",
        cure=("many more parties, " if is_soft(study) else "")
        + "a larger epsilon or a larger regularization: this noise hides all records of a party, and does not depend "
        "on how many there are",
    )


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
    released: Released,
    *,
    auxiliary: Auxiliary,
    classifiers: Mapping[str, str],
    **_unused: Any,
) -> Noiseless:
    """Return a classifier without noise, and how far the noise moved the released one from it.

    The parties' classifiers are trained anew. One that draws at random, such as a forest, may vote a little otherwise.
    """
    clean, what = clean_votes(study, data, classifiers, auxiliary), "learned from the same classifiers' votes"
    cure = f"many more parties: this noise hides all records of a party, and {study.K} parties are few"
    return judged_by_distance(clean, what, released, study.privacy.epsilon, cure)
