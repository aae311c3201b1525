"""The trace of a descent: the objective at the published classifiers of its rounds, on public records.

Classifiers and records are public, so a trace costs no privacy. It is computed after the run and does not slow it down.
"""

from collections.abc import Mapping, Sequence
from itertools import compress

import numpy as np

from masquerade_core.data.schema import Dataset
from masquerade_core.learning.losses import loss_of, objective
from masquerade_core.study import Study

__all__ = ["MOST_POINTS", "objective_at", "objective_trace"]

MOST_POINTS = 200
"""The most rounds that a trace shows."""

_Iterates = Sequence[tuple[int, tuple[float, ...]]]


def objective_at(weights: Sequence[float], test: Dataset, study: Study) -> float:
    """Return J(w) = mean loss + (Lambda/2) ||w||^2 on ``test``; infinity where it is too large for a float."""
    with np.errstate(over="ignore", invalid="ignore"):
        value = objective(np.array(weights), test.X, test.y, study.model.regularization, loss_of(study.model.loss))
    return value if np.isfinite(value) else float("inf")


def objective_trace(iterates: _Iterates, test: Dataset | None, study: Study) -> list[Mapping[str, float | None]]:
    """Return ``[{round, objective}]`` for at most ``MOST_POINTS`` rounds, spread evenly and ending with the last one.

    Parameters
    ----------
    iterates : sequence of (int, tuple of float)
        The rounds with their public classifiers; rounds with an empty tuple are left out.
    test : Dataset or None
        Public records. Without them the list is empty.
    study : Study

    Returns
    -------
    list
        ``objective`` is None where it is too large for a float, since JSON has no infinity.
    """
    told = [(number, w) for number, w in iterates if w]
    if test is None or not told:
        return []
    last, steps = len(told) - 1, min(len(told), MOST_POINTS) - 1
    chosen = {round(i * last / steps) for i in range(steps + 1)} if steps else {last}
    values = [
        (number, objective_at(w, test, study)) for number, w in compress(told, (i in chosen for i in range(len(told))))
    ]
    return [{"round": number, "objective": round(v, 6) if np.isfinite(v) else None} for number, v in values]
