"""Kang, Liu and Wang's theorems for ``central-dp``, the one descent that their proofs follow."""

from masquerade_core.learning.theorems import Theorem
from masquerade_core.study import Study
from masquerade_lab.baselines.central_dp import Parameters
from masquerade_protocols.blocks.descent_theorems import descent_theorems
from masquerade_protocols.blocks.local_descent import UNIT, paper_sigma, proven_noise

__all__ = ["theorems"]


def theorems(study: Study) -> tuple[Theorem, ...]:
    """Return both theorems, with what is proved under this study's own noise."""
    chosen, n = Parameters.model_validate(study.protocol), study.K * study.study.min_records
    sigma = proven_noise(study, chosen.rounds).share / (n * UNIT) if study.proven else paper_sigma(study, chosen, n)
    return descent_theorems(study, chosen, float(sigma), averaged=False)
