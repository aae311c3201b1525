"""Kang, Liu and Wang's theorems for ``weighted-dp``, an average of local descents."""

from masquerade_core.learning.theorems import Theorem
from masquerade_core.study import Study
from masquerade_protocols.blocks.descent_theorems import descent_theorems
from masquerade_protocols.weighted_dp.public import parameters_of, plan

__all__ = ["theorems"]


def theorems(study: Study) -> tuple[Theorem, ...]:
    """Return both theorems, with what is proved of an average of descents under this study's own noise."""
    each = study.study.min_records
    sigma = float(plan(study, study.K * each).sigma_at(each))
    return descent_theorems(study, parameters_of(study), sigma, averaged=True)
