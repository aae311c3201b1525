"""The release of ``dp-whitened`` without noise. Whoever computes it sees all records."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from masquerade_core.data.pooling import pool
from masquerade_core.data.records import training_sides
from masquerade_core.data.schema import Dataset
from masquerade_core.errors import LocalProtocolError
from masquerade_core.model import Model
from masquerade_core.study import Study
from masquerade_protocols.comparing import judged_by_scores
from masquerade_protocols.dp_whitened.public import Plan
from masquerade_protocols.dp_whitened.roles import learn
from masquerade_protocols.entry import Noiseless, Released

__all__ = ["clean_model", "noiseless"]

_Floats = NDArray[np.float64]


class _InTheClear:
    """Somebody who has all records: sums are exact, and nobody has to agree."""

    def __init__(self, plan: Plan, data: Dataset) -> None:
        self._plan, self._data = plan, data

    async def stage(self, name: str) -> None:
        """Say nothing."""

    async def progress(self, done: int, total: int) -> None:
        """Say nothing."""

    async def total(
        self, label: str, length: int, unit: int, own: Callable[[Dataset], NDArray[np.int64]], products: int = 0
    ) -> _Floats:
        """Return the exact mean."""
        del label, length, products
        mean: _Floats = own(self._data) / (float(unit) * self._plan.N)
        return mean

    async def agree(self, own: _Floats, *, unsure: bool = False) -> _Floats:
        """Go on from one's own numbers."""
        del unsure
        return own


def clean_model(study: Study, data: Mapping[str, Dataset]) -> Model:
    """Return the classifier that follows from exact sums, with the same cuts and the same shrinkage as with noise."""
    together = pool(study, training_sides(study, data))
    plan = Plan(study, len(together.y))
    steps = learn(_InTheClear(plan, together), plan)
    try:
        steps.send(None)
    except StopIteration as end:
        model: Model = end.value
        return model
    raise LocalProtocolError("somebody who has all records waited for somebody else")


def noiseless(study: Study, data: Mapping[str, Dataset], released: Released, **_unused: Any) -> Noiseless:
    """Judge the noise by how far it moved the records' scores; where no record points, it does no harm."""
    clean, together = clean_model(study, data), pool(study, data)
    return judged_by_scores(clean, "the same steps on exact sums", released, together, study.privacy.epsilon)
