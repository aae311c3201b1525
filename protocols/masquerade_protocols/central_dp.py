"""Central noisy gradient descent: what weighted-dp's parties could learn who trusted somebody with all records.

One walk of T rounds down everybody's objective, with the noise of n records in every round: a baseline, no protocol.
Here the paper's sigma is right, as one record moves the mean gradient by 2 G/n: with c >= 16, T rounds at mu = 2 G
sqrt(T)/(n sigma) = 2 epsilon/sqrt(c ln(1/delta)) are (epsilon, delta)-private by far (Kang, Liu and Wang, Theorem 1).
"""

import numpy as np
from numpy.typing import NDArray

from masquerade_core.data.schema import Dataset
from masquerade_core.errors import BadInput
from masquerade_core.rng import Rng
from masquerade_core.study import Study
from masquerade_protocols.weighted_dp import DescentParameters, check_steps, paper_sigma, walk

__all__ = ["Parameters", "central_dp", "check"]


class Parameters(DescentParameters):
    """``[protocol]`` of ``central-dp``."""


def check(study: Study) -> None:
    """Refuse what can be known to fail.

    Raises
    ------
    BadInput
        Steps that diverge, no c, a delta or epsilon without Gaussian noise, or more classes than two.
    """
    if study.multiclass:
        raise BadInput(
            "[label] has classes, but central-dp learns to tell one value from all others", "name it positive"
        )
    chosen = Parameters.model_validate(study.protocol)
    check_steps(study, chosen)
    paper_sigma(study, chosen, study.K * study.study.min_records)


def central_dp(study: Study, records: Dataset, rng: Rng) -> NDArray[np.float64]:
    """Return theta_T of everybody's records, shape (d,).

    Parameters
    ----------
    study : Study
    records : Dataset
        Pooled.
    rng : Rng
        The only source of randomness.
    """
    chosen = Parameters.model_validate(study.protocol)
    sigma = paper_sigma(study, chosen, len(records.y))
    return walk(study, chosen.rounds, chosen.learning_rate, sigma, records, rng)
