"""Audits of what is proved of counts of records: ``summary``, at the pair of data sets for which its proof is tight."""

from collections.abc import Sequence
from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import NDArray

from masquerade.draft import Draft, throwaway_key
from masquerade_core.data.histograms import Cells
from masquerade_core.privacy.noise.gaussian_rounds import SharedNoise
from masquerade_core.privacy.samplers.discrete_gaussian import discrete_gaussian
from masquerade_core.study import Feature, Study
from masquerade_lab.audit.audit import Audit, Gate
from masquerade_lab.audit.source import Source
from masquerade_protocols.summary import public, roles

__all__ = ["count_proofs", "count_scores"]

_Array = NDArray[np.float64]
_COLUMNS = 3


def _study(colluders: int) -> Study:
    draft = Draft(
        parties=[(f"party-{k}", throwaway_key()) for k in range(1, 6)],
        curator_key=throwaway_key(),
        protocol="summary",
        features=[Feature(name=f"x{i}", levels=("a", "b")) for i in range(_COLUMNS)],
        epsilon=1.0,
        delta=0.05,
        colluders=colluders,
        min_records=10,
        key_bits=512,
    )
    return Study.parse(draft.to_toml(), "an audit's study", in_memory=True)


def _records(study: Study, *, moved: bool) -> Cells:
    """Return ten records in every histogram's second bin but the last one, which is in the first, or ``moved`` too."""
    grid = public.grid_of(study)
    places = np.ones((10, len(grid.histograms)), dtype=np.int32)
    places[-1] = 1 if moved else 0
    return Cells(places, grid)


def count_scores(
    study: Study, noise: SharedNoise, shares: int, runs: int, moved: bool, source: Source, factor: Fraction
) -> _Array:
    """Add up what is opened in every histogram's first bin, less what is opened in its second.

    Parameters
    ----------
    study : Study
    noise : SharedNoise
        What every party draws its share from.
    shares : int
        How many shares of the noise the adversary does not know.
    """
    data = _records(study, moved=moved)
    share, bins = noise.share * factor, len(data.grid)
    scores = np.zeros(runs)
    for run in range(runs):
        first, *others = (discrete_gaussian(source.rng, share, bins) for _ in range(shares))
        opened = [sum(column) for column in zip(roles.contribution(data, first), *others, strict=True)]
        scores[run] = sum(_first_less_second(part) for part in data.grid.split(opened))
    return scores


def _first_less_second(counts: Sequence[int]) -> int:
    return counts[0] - counts[1]


def _proof(colluders: int, adversary: str, quick: int) -> Audit:
    study = _study(colluders)
    noise = public.noise_of(study)
    return Audit(
        name=f"summary, {colluders} colluders",
        protocol=study.study.protocol,
        gate=Gate.HOLDS,
        adversary=adversary,
        canary="a record in the first bin of every histogram, or in the second",
        epsilon=study.privacy.epsilon,
        delta=study.privacy.delta,
        scores=partial(count_scores, study, noise, study.honest),
        runs=4000,
        quick=quick,
        proved=study.privacy.epsilon,
        cost=0.25 * study.honest,
    )


def count_proofs() -> tuple[Audit, ...]:
    """Return the audits of protocols that count records."""
    return (
        _proof(0, "everybody: the noisy counts, with the noise of all 5 parties", 0),
        _proof(4, "Charlie with 4 of 5 parties", 4000),
    )
