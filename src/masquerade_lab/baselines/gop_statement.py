"""The statement of ``gop``, Gaussian objective perturbation; ``docs/privacy/gop.md`` derives it.

The paper's sigma* is far more than the proof there needs, so more is proved than the paper claims. With ``calibration =
"proven"`` the noise is smaller, and keeps the privacy target.
"""

from dataclasses import replace

from masquerade_core.learning.losses import loss_of
from masquerade_core.privacy.accounting import epsilon_of
from masquerade_core.privacy.noise.objective_perturbation import compute_slack, noise_sigma
from masquerade_core.privacy.statement import Claim, digits
from masquerade_core.study import Study
from masquerade_lab.baselines.statement import ASSUMPTIONS, ROWS, record_statement, target_claim

__all__ = ["statement"]

_VIEW = "released model"
_EXACT = (
    "the minimiser is exact and the noise continuous: the proof does not cover a gradient norm of 1e-9 and the "
    "rounding of floats"
)
_PROVEN = replace(ROWS, source="docs/privacy/gop.md; Balle and Wang 2018, Theorem 8", assumptions=ASSUMPTIONS)
_PAPER = replace(_PROVEN, assumptions=(*ASSUMPTIONS, _EXACT))


def statement(study: Study) -> tuple[Claim, ...]:
    """Return the privacy statement, for the study's calibration; it holds for every N that the study allows."""
    epsilon, delta = study.privacy.epsilon, study.privacy.delta
    if study.proven:
        text = (
            "The objective has noise in it. A little more is on its minimiser, to cover the errors of floating point."
        )
        claimed = target_claim(epsilon, delta)
        return record_statement(study, _PROVEN, _VIEW, text, claimed=claimed, epsilon=epsilon, delta=delta)

    # sigma* is smallest where nothing of epsilon pays for determinants: for N without bound.
    slack, sigma = _largest_slack(study), float(noise_sigma(study.d, epsilon, delta))
    return record_statement(
        study,
        _PAPER,
        _VIEW,
        f"The noise is as large as the gradients of {digits(sigma)} records. It hides one record better than the paper "
        "claims.",
        claimed=f"probabilistic, epsilon = {epsilon:g}, delta = {delta:g} (Theorem 4.1)",
        epsilon=slack + max(epsilon_of(2 / sigma, delta), 1 / sigma**2),
        delta=delta,
        holds_at='calibration = "proven" in the study, with far less noise',
    )


def _largest_slack(study: Study) -> float:
    """Bound s = log(1 + c/(N (Lambda + Delta))), the cost of the determinants, for every N that the study allows."""
    epsilon, Lambda, c = study.privacy.epsilon, study.model.regularization, loss_of(study.model.loss).c
    fewest = compute_slack(epsilon, Lambda, study.K * study.study.min_records, c)
    # Where Delta is 0, eps~ is epsilon - 2 s, and s falls as N grows. Else 2 s may be nearly epsilon at another N.
    return (epsilon - float(fewest.epsilon)) / 2 if fewest.Delta == 0 else epsilon / 2
