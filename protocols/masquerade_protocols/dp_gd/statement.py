"""Who sees what of a run of ``dp-gd``, and what is proved against each; ``docs/privacy/dp-gd.md`` derives it."""

from masquerade_core.privacy.statement import Claim
from masquerade_core.study import Study
from masquerade_protocols.blocks.noisy_sums import noisy_sums_statement
from masquerade_protocols.dp_gd.schedule import noise_of

__all__ = ["statement"]


def statement(study: Study) -> tuple[Claim, ...]:
    """Return the statement: what is proved is the study's privacy target."""
    return noisy_sums_statement(study, noise_of(study))
