"""Who sees what of a run of ``summary``, and what is proved against each; ``docs/privacy/summary.md`` derives it."""

from masquerade_core.privacy.statement import ALL_FOLLOW, Claim
from masquerade_core.study import Study
from masquerade_core.words import counted
from masquerade_protocols.blocks.masked_sum import whose_noise
from masquerade_protocols.blocks.noisy_sums import Observed, noisy_views
from masquerade_protocols.summary.public import grid_of, noise_of

__all__ = ["statement"]

_ASSUMPTIONS = (
    ALL_FOLLOW,
    "ranges, levels and edges are public; nobody looked at the records to choose them",
    "the statistics are released once; every further run over the same records adds its own epsilon",
)


def statement(study: Study) -> tuple[Claim, ...]:
    """Return the statement: what is proved is the study's privacy target."""
    histograms = counted(len(grid_of(study).histograms), "histogram")
    seen = Observed(
        view="released statistics",
        released=f"The noisy counts of {histograms} are public, and all that follows from them. They carry the noise "
        f"of {whose_noise(study)}. No number of records is published without noise.",
        left="counts",
    )
    source = "docs/privacy/summary.md: one Gaussian release of all counts; Balle and Wang 2018, Theorem 8"
    return noisy_views(study, noise_of(study), seen, source=source, assumptions=_ASSUMPTIONS)
