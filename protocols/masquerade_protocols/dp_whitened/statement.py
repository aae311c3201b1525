"""Who sees what of a ``dp-whitened`` run, and what is proved of it; ``docs/privacy/dp-whitened.md`` derives it."""

from masquerade_core.privacy.statement import Claim
from masquerade_core.study import Study
from masquerade_protocols.blocks.noisy_sums import noisy_sums_statement
from masquerade_protocols.dp_whitened.public import noise_of

__all__ = ["statement"]


def statement(study: Study) -> tuple[Claim, ...]:
    """Return the statement: what is proved is the study's privacy target."""
    return noisy_sums_statement(
        study,
        noise_of(study),
        public="All noisy sums are public: the means, the second moments, the gradients and the counts of scores. So "
        "are the numbers that follow from them.",
        source="docs/privacy/dp-whitened.md: exact composition of Gaussian sums; Balle and Wang 2018, Theorem 8",
    )
