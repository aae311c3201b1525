"""The model that ``local-aggregation`` would release without noise, computed by somebody who may see all records."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from masquerade_core.data.schema import Dataset
from masquerade_core.learning.erm import fit
from masquerade_core.privacy.noise.output_perturbation import eps_where_noise_is_small, paper_noise_norm
from masquerade_core.study import Study
from masquerade_protocols.comparing import SMALL_NOISE, times, two_digits
from masquerade_protocols.entry import Noiseless, Weights

__all__ = ["noiseless"]


def noiseless(study: Study, data: Mapping[str, Dataset], _released: Weights, **_unused: Any) -> Noiseless:
    """Compare the expected length of the paper's noise with the length of the parties' average classifier."""
    Lambda, epsilon = study.model.regularization, study.privacy.epsilon
    average = np.mean([fit(part.X, part.y, Lambda, study.model.loss) for part in data.values()], axis=0)
    sizes = [len(part.y) for part in data.values()]
    smallest, norm = min(sizes), float(np.linalg.norm(average))
    noise = str(study.protocol.get("noise", "laplace"))
    ratio = paper_noise_norm(study.d, smallest, epsilon, Lambda, noise) / norm
    enough = eps_where_noise_is_small(study.d, smallest, Lambda, norm, noise)
    advice = (
        f"{sum(sizes):,} training records are too few for this paper's noise. It is sized for the smallest party "
        f"alone, which has {smallest:,} records, and at epsilon = {epsilon:g} it is {times(ratio)} as long as the "
        f"classifier. An epsilon of {two_digits(enough)} would do, or as many times more records as that is larger."
    )
    return Noiseless(average, "the parties' average", ratio, enough, advice if ratio > SMALL_NOISE else "")
