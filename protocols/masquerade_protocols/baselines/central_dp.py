"""Central noisy gradient descent: what weighted-dp's parties could learn who trusted somebody with all records.

One walk of T rounds down everybody's objective, with the noise of n records in every round: a baseline, no protocol.
Here the paper's sigma is right, as one record moves the mean gradient by 2 G/n: with c >= 16, T rounds at mu = 2 G
sqrt(T)/(n sigma) = 2 epsilon/sqrt(c ln(1/delta)) are (epsilon, delta)-private by far (Kang, Liu and Wang, Theorem 1).
With ``calibration = "proven"`` the rounds compose to the wish itself.
"""

import numpy as np
from numpy.typing import NDArray

from masquerade_core.data.schema import Dataset
from masquerade_core.errors import BadInput
from masquerade_core.learning.losses import loss_of
from masquerade_core.privacy.noise.local_descent import MOST_ROUNDED_RECORDS
from masquerade_core.privacy.statement import Claim
from masquerade_core.rng import Rng
from masquerade_core.study import Study
from masquerade_protocols.baselines.statement import central_dp_statement, central_proven_statement
from masquerade_protocols.blocks.descent import check_steps
from masquerade_protocols.blocks.local_descent import (
    FRACTION_BITS,
    DescentParameters,
    check_no_c,
    draws,
    local_descent,
    paper_c,
    paper_sigma,
    proven_noise,
)

__all__ = ["Parameters", "central_dp", "check", "statement"]


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
    check_steps(study, chosen.learning_rate)
    check_no_c(study, chosen)
    if study.proven:
        proven_noise(study, chosen.rounds)
        return
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
    chosen, n = Parameters.model_validate(study.protocol), len(records.y)
    if not study.proven:
        sigma = paper_sigma(study, chosen, n)
    elif n <= MOST_ROUNDED_RECORDS:
        sigma = proven_noise(study, chosen.rounds).share / (n << FRACTION_BITS)
    else:
        raise BadInput(
            f"{n:,} records are more than the {MOST_ROUNDED_RECORDS:,} for which rounding is counted in the noise"
        )
    return local_descent(study, chosen.rounds, chosen.learning_rate, sigma, records, rng)


def statement(study: Study) -> tuple[Claim, ...]:
    """Return what is claimed and proved of a run."""
    chosen, privacy = Parameters.model_validate(study.protocol), study.privacy
    if study.proven:
        return central_proven_statement(epsilon=privacy.epsilon, delta=privacy.delta)
    return central_dp_statement(
        d=study.d,
        eps=privacy.epsilon,
        delta=privacy.delta,
        c=paper_c(chosen),
        G=loss_of(study.model.loss).L,
        draws=draws(chosen.rounds, study.d),
        fraction_bits=FRACTION_BITS,
    )
