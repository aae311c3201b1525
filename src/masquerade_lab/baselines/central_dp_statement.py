"""The statement of ``central-dp``: Kang, Liu and Wang's descent on pooled records, for which their sigma is right.

Each of T rounds adds Gaussian noise to a mean gradient that one record of n moves by 2 G/n. The rounds compose exactly,
and anyone who sees all iterates learns no more than the proof counts. ``docs/privacy/weighted-dp.md`` derives it, at
the part 1 of all records.
"""

import math
from dataclasses import replace

from masquerade_core.learning.losses import loss_of
from masquerade_core.privacy.accounting import epsilon_of, mu_of
from masquerade_core.privacy.noise.local_descent import C_OF_THE_PROOF, exact_mu, rounding_part
from masquerade_core.privacy.several_records import Bound
from masquerade_core.privacy.statement import Claim, digits
from masquerade_core.rng import TAIL_BITS
from masquerade_core.study import Study
from masquerade_lab.baselines.statement import ASSUMPTIONS, ROWS, record_statement, target_claim
from masquerade_protocols.blocks.local_descent import FRACTION_BITS, DescentParameters, draws, paper_c, proven_noise

__all__ = ["statement"]

_VIEW = "released model and all iterates"
_ROWS = replace(
    ROWS,
    source="docs/privacy/weighted-dp.md: T Gaussian rounds compose exactly; Balle and Wang 2018, Theorem 8",
    assumptions=ASSUMPTIONS,
)


def statement(study: Study) -> tuple[Claim, ...]:
    """Return the privacy statement, for the study's calibration."""
    epsilon, delta = study.privacy.epsilon, study.privacy.delta
    chosen = DescentParameters.model_validate(study.protocol)
    if study.proven:
        text = (
            "Each of T rounds adds noise to the sum of all records' gradients, which one record moves by 2 G at most."
        )
        claimed, noise = target_claim(epsilon, delta), proven_noise(study, chosen.rounds)

        def of_several(size: int) -> Bound:
            return noise.proved(1, size)

        return record_statement(
            study, _ROWS, _VIEW, text, claimed=claimed, epsilon=epsilon, delta=delta, gaussian=of_several
        )

    c, rounding = paper_c(chosen), rounding_part(study.d, FRACTION_BITS, loss_of(study.model.loss).L)
    mu = exact_mu(c=c, epsilon=epsilon, delta=delta, part=1.0, rounding=rounding)
    proved = epsilon_of(mu, delta)

    def spent(epsilon: float) -> float:
        # Each vector of noise is within total variation 2^-TAIL_BITS of its law, under both neighbours.
        lost = draws(chosen.rounds, study.d) * 2.0**-TAIL_BITS * (1 + math.exp(min(epsilon, 700.0)))
        return min(1.0, delta + lost)

    def of_so_many(size: int) -> Bound:
        found = epsilon_of(size * mu, delta)
        return (found, spent(found)) if spent(found) < 1 else None

    doubt = "" if c >= C_OF_THE_PROOF else f"; its proof needs c >= {C_OF_THE_PROOF}, and c is {c:g}"
    return record_statement(
        study,
        _ROWS,
        _VIEW,
        "One record moves the mean gradient of all n by 2 G/n at most, and the paper's sigma is sized for that.",
        claimed=f"approximate, epsilon = {epsilon:g}, delta = {delta:g} (Theorem 1){doubt}",
        epsilon=proved,
        delta=spent(proved),
        holds_at=f"c = {digits(c * (mu / mu_of(epsilon, delta)) ** 2)} in the study",  # mu falls with the root of c
        gaussian=of_so_many,
    )
