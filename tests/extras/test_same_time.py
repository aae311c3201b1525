"""Times of a party's contributions: every power of two, and every sum, where ``make test`` has some."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from masquerade_protocols.blocks.masked_sum import MaskedPartySums
from masquerade_protocols.dp_glm import estimates as glm
from masquerade_protocols.dp_glm import vectors as of_glm
from masquerade_protocols.dp_glm.public import Columns
from masquerade_protocols.dp_whitened import vectors as of_whitened
from tests.unit.protocols.blocks.test_same_time import (
    CENTRE,
    DESIGN,
    LABELS,
    MOST,
    TIMES,
    Draw,
    answers,
    made_sums,  # noqa: F401 - a fixture
    near,
    spread,
    told_apart,
)

_COLUMNS = Columns(tuple(range(8)), ((8, 9),))
_LOCATION = glm.Location(np.zeros(8), np.full(8, 0.5), np.zeros(2), 0.0)
_LOCATED = glm.Located(np.zeros(10), np.full(10, 0.3), 0.5)


def _judged(process: Callable[[Any], object], small: Draw, large: Draw) -> float:
    """Return how often the classifier is right in 2,000 answers; where that is too often, in 2,000 others.

    Other tests run beside these. Once in some hundred looks, one empties the processor's caches at the wrong moments.
    What tells records apart by itself does so in both looks.
    """
    right = answers(process, small, large, 4 * TIMES)
    return answers(process, small, large, 4 * TIMES) if right > MOST else right


def _step(number: int, K: float | None = None) -> of_glm.Rows:
    return of_glm.step(DESIGN, glm.Point(np.full(11, 1.0), 1.5, 1.5, K), number)


_WHITENED: dict[str, Callable[[Any], object]] = {
    "means": lambda u: of_whitened._means(u, LABELS[:, None], B=2**20),
    "shifts": lambda u: of_whitened._shifts(u, LABELS[:, None], CENTRE, 2**20, distance=True),
    "labels": lambda u: of_whitened._labels(u, LABELS[:, None], B=2**20),
    "moments": lambda u: of_whitened._moments(u, LABELS[:, None], CENTRE, 2**20),
}
_GLM = {
    "location": of_glm.location(_COLUMNS, linear=False),
    "spread": of_glm.spread(_COLUMNS, _LOCATION, linear=False),
    "moments": of_glm.moments(_LOCATED, linear=False),
    "step 1": _step(1),
    "step 2": _step(2),
    "step 3": _step(3),
    "linear, step 1": _step(1, K=1.0),
    "linear, step 3": _step(3, K=1.0),
}


def test_times_tell_no_two_vectors_apart_whatever_their_lengths(sums: MaskedPartySums) -> None:
    assert told_apart(sums, range(62)) == {}


@pytest.mark.parametrize("name", _WHITENED)
def test_times_of_dp_whitened_do_not_tell_whether_all_records_lie_in_one_place(name: str) -> None:
    assert _judged(_WHITENED[name], near, spread) <= MOST


@pytest.mark.parametrize("name", _GLM)
def test_times_of_dp_glm_do_not_tell_whether_all_records_lie_in_one_place(name: str) -> None:
    total = of_glm._Sum(_GLM[name], _COLUMNS, 2.0**20)
    assert _judged(partial(total, y=LABELS), near, spread) <= MOST
