"""How the noise of ``local-aggregation`` compares with the model: before a run, and where all records can be seen."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from masquerade_core.data.schema import Dataset
from masquerade_core.learning.erm import fit
from masquerade_core.privacy.accounting import epsilon_of, mu_of
from masquerade_core.privacy.expectation import Expectation, counted_records
from masquerade_core.privacy.noise.output_perturbation import eps_where_noise_is_small, paper_noise_norm
from masquerade_core.study import Study
from masquerade_protocols.comparing import (
    SMALL_NOISE,
    expected_by_ratio,
    longest_classifier,
    model_of,
    times,
    two_digits,
)
from masquerade_protocols.entry import Noiseless, Released
from masquerade_protocols.local_aggregation.public import joint_noise_of, parameters_of

__all__ = ["expectation", "noise_length", "noiseless", "times_the_paper_s"]

_EQUAL = " if all parties have equally many records,"
_MORE = {
    "selected": "more records in the smallest party",
    "floor": "a larger min_records, which every party must have",
    "sizes": "more records",
}
"""Advice for smaller noise, by the rule that sets its scale."""


def expectation(study: Study) -> Expectation:
    """Compare the noise with the longest classifier that Lambda allows, for parties of equally many records."""
    smallest, rule = counted_records(study)[0] // study.K, _scale_rule(study)
    return expected_by_ratio(
        study,
        noise_length(study, smallest) / longest_classifier(study),
        noise="the noise on the model" + ("," + _EQUAL if rule == "selected" else ""),
        beside=f"the longest classifier that regularization = {study.model.regularization:g} allows",
        cure=f"{_MORE[rule]}, a larger epsilon or a larger regularization",
    )


def _scale_rule(study: Study) -> str:
    """Return what sets the scale of the noise; the paper's noise, too, is that of the smallest party."""
    return joint_noise_of(study).scale_rule if study.proven else "selected"


def noise_length(study: Study, smallest: int) -> float:
    """Return the noise's root mean square length on the average classifier."""
    d, K, Lambda = study.d, study.K, study.model.regularization
    if not study.proven:
        return paper_noise_norm(d, smallest, study.privacy.epsilon, Lambda, parameters_of(study).noise)
    noise = joint_noise_of(study)
    if noise.scale_rule == "selected":
        noise = noise.of_class(noise.class_of(smallest))
    divisor = K * (smallest if noise.scale_rule == "sizes" else 1)
    return float(noise.share()) * math.sqrt(K * d) / divisor / (1 << noise.fraction_bits)


def times_the_paper_s(study: Study) -> float:
    """Return how long the paper's noise is beside this study's, where all parties have ``min_records`` records."""
    d, floor, privacy = study.d, study.study.min_records, study.privacy
    paper = paper_noise_norm(d, floor, privacy.epsilon, study.model.regularization, "laplace")
    return paper / noise_length(study, floor)


def noiseless(study: Study, data: Mapping[str, Dataset], _released: Released, **_unused: Any) -> Noiseless:
    """Compare the root mean square length of the noise with the length of the parties' average classifier."""
    Lambda, epsilon = study.model.regularization, study.privacy.epsilon
    sizes = [len(part.y) for part in data.values()]
    rule, floor = _scale_rule(study), study.study.min_records
    by_size = rule == "sizes"
    found = [fit(part.X, part.y, Lambda, study.model.loss) for part in data.values()]
    average = np.average(found, axis=0, weights=sizes if by_size else None)
    smallest, norm = sum(sizes) // len(sizes) if by_size else min(sizes), float(np.linalg.norm(average))
    ratio = noise_length(study, smallest) / norm
    if study.proven:
        enough = epsilon_of(ratio / SMALL_NOISE * mu_of(epsilon, study.privacy.delta), study.privacy.delta)
        more = ratio / SMALL_NOISE
        remedy = (
            f"or min_records = {math.ceil(floor * more):,}, if every party has so many."
            if rule == "floor"
            else f"or {times(more)} the records."
        )
    else:
        enough = eps_where_noise_is_small(study.d, smallest, Lambda, norm, parameters_of(study).noise)
        remedy = "or as many times more records as that is larger."
    whose = "this noise" if study.proven else "this paper's noise"
    sized = {
        "selected": f"It is sized for the smallest party alone, which has {smallest:,} records, and at ",
        "floor": f"It is sized as if every party had only min_records = {floor:,}, and at ",
        "sizes": "At ",
    }[rule]
    advice = (
        f"{sum(sizes):,} training records are too few for {whose}. {sized}epsilon = {epsilon:g} it is "
        f"{times(ratio)} as long as the classifier. An epsilon of {two_digits(enough)} would do, {remedy}"
    )
    what = "the parties' average" + (", by their sizes" if by_size else "")
    return Noiseless(model_of(average), what, ratio, enough, advice if ratio > SMALL_NOISE else "")
