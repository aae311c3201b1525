"""Who sees what of a ``dp-glm`` run, and what is proved of it; ``docs/privacy/dp-glm.md`` derives it."""

from masquerade_core.privacy.statement import Claim
from masquerade_core.study import Study
from masquerade_protocols.blocks.adaptive_sums import noise_of
from masquerade_protocols.blocks.noisy_sums import noisy_sums_statement

__all__ = ["statement"]


def statement(study: Study) -> tuple[Claim, ...]:
    """Return the statement: what is proved is the study's privacy target."""
    return noisy_sums_statement(
        study,
        noise_of(study),
        public="All noisy sums are public: means, second moments, and the weighted scores, Hessians and squared scores "
        "of three steps. So are the numbers that follow from them, the coefficients and their intervals among them.",
        source="docs/privacy/dp-glm.md: exact composition of Gaussian sums; Balle and Wang 2018, Theorem 8",
    )
