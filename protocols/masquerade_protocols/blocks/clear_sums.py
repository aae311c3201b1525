"""The side of somebody who has all records, in a protocol of adaptive sums; no run needs it."""

from collections.abc import Callable, Coroutine
from typing import Any

import numpy as np
from numpy.typing import NDArray

from masquerade_core.data.schema import Dataset
from masquerade_core.errors import LocalProtocolError
from masquerade_core.model import Model
from masquerade_protocols.blocks.adaptive_sums import SumsPlan

__all__ = ["ClearSide", "finished"]

_Floats = NDArray[np.float64]


class ClearSide:
    """Somebody who has all records: sums are exact, and nobody has to agree.

    Parameters
    ----------
    plan : SumsPlan
    data : Dataset
    """

    def __init__(self, plan: SumsPlan, data: Dataset) -> None:
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

    async def agree_on_many(self, length: int, own: Callable[[], tuple[_Floats, bool]]) -> _Floats:
        """Go on from one's own numbers."""
        del length
        return own()[0]


def finished(steps: Coroutine[Any, Any, Model]) -> Model:
    """Return what a protocol's steps return, where nobody else takes part."""
    try:
        steps.send(None)
    except StopIteration as end:
        model: Model = end.value
        return model
    raise LocalProtocolError("somebody who has all records waited for somebody else")
