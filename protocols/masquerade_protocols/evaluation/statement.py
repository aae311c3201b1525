"""Who sees what of a run of ``evaluation``, and what is proved against each; ``docs/privacy/evaluation.md``."""

from masquerade_core.privacy.statement import ALL_FOLLOW, Claim
from masquerade_core.study import Study
from masquerade_protocols.blocks.evaluation import noise_of
from masquerade_protocols.blocks.masked_sum import whose_noise
from masquerade_protocols.blocks.noisy_sums import Observed, noisy_views

__all__ = ["statement"]

_ASSUMPTIONS = (
    ALL_FOLLOW,
    "N, the number of all records, is published as it is; epsilon does not cover sizes",
    "the model's own run, and every other run over the same records, adds its own epsilon",
)


def statement(study: Study) -> tuple[Claim, ...]:
    """Return the statement: what is proved is the study's privacy target, of the evaluation alone."""
    sums = "One sum of counts is public." if study.multiclass else "Two sums of counts are public."
    seen = Observed(
        view="evaluation",
        released=f"{sums} Each number carries the noise of {whose_noise(study)}.",
        left="counts",
    )
    source = "docs/privacy/evaluation.md; Balle and Wang 2018, Theorem 8"
    return noisy_views(study, noise_of(study), seen, source=source, assumptions=_ASSUMPTIONS)
