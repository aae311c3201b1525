"""Rajkumar and Agarwal's theorems for ``psgd``, of which they are expected and not proved."""

from masquerade_core.learning.theorems import Theorem
from masquerade_core.study import Study
from masquerade_protocols.blocks.objective_theorems import objective_theorems

__all__ = ["theorems"]


def theorems(study: Study) -> tuple[Theorem, ...]:
    """Return the theorems: they are about the minimiser that the rounds approach, and rounds end before it."""
    return objective_theorems(
        study,
        None,
        "It is proved for gop, the minimiser under the paper's noise; the paper expects it of psgd. Nothing is "
        "proved of psgd here, whose rounds end before the minimiser.",
    )
