"""``central-dp``: noisy gradient descent by somebody whom all parties trust with their records.

It is one local descent of T rounds over all n records, with noise sized for n records in every round. G is the longest
gradient of a record. Here the paper's sigma is right, as one record moves the mean gradient by 2 G/n. With c >= 16, T
rounds at mu = 2 G sqrt(T)/(n sigma) = 2 epsilon/sqrt(c ln(1/delta)) are (epsilon, delta)-private by far (Kang, Liu and
Wang, Theorem 1). With ``calibration = "proven"`` the rounds compose to the privacy target itself.
"""

import numpy as np
from numpy.typing import NDArray

from masquerade_core.data.schema import Dataset
from masquerade_core.errors import BadInput
from masquerade_core.privacy.noise.local_descent import MOST_ROUNDED_RECORDS
from masquerade_core.rng import Rng
from masquerade_core.study import Study
from masquerade_protocols.blocks.descent import check_steps
from masquerade_protocols.blocks.local_descent import (
    UNIT,
    DescentParameters,
    check_no_c,
    local_descent,
    paper_sigma,
    proven_noise,
)

__all__ = ["Parameters", "central_dp", "check"]


class Parameters(DescentParameters):
    """``[protocol]`` of ``central-dp``."""


def check(study: Study) -> None:
    """Refuse a study that is known to fail.

    Raises
    ------
    BadInput
        Steps diverge, c is missing, no Gaussian noise keeps the privacy target, or there are more than two classes.
    """
    if study.multiclass:
        raise BadInput(
            "[label] has classes, but central-dp learns to tell one value from all others",
            "set positive to that value, and leave classes out",
        )
    chosen = Parameters.model_validate(study.protocol)
    check_steps(study, chosen.learning_rate)
    check_no_c(study, chosen)
    if study.proven:
        proven_noise(study, chosen.rounds)
        return
    paper_sigma(study, chosen, study.K * study.study.min_records)


def central_dp(study: Study, records: Dataset, rng: Rng) -> NDArray[np.float64]:
    """Return theta_T, shape (d,).

    Parameters
    ----------
    study : Study
    records : Dataset
        All parties' records, pooled.
    rng : Rng
        The only source of randomness.
    """
    chosen, n = Parameters.model_validate(study.protocol), len(records.y)
    if not study.proven:
        sigma = paper_sigma(study, chosen, n)
    elif n <= MOST_ROUNDED_RECORDS:
        sigma = proven_noise(study, chosen.rounds).share / (n * UNIT)
    else:
        raise BadInput(
            f"there are more than {MOST_ROUNDED_RECORDS:,} records, the most for which the proof counts rounding "
            "errors",
            'give fewer records, or set calibration = "paper"',
        )
    return local_descent(study, chosen.rounds, chosen.learning_rate, sigma, records, rng)
