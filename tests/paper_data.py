"""Rajkumar and Agarwal's simulated data (2012, section 6, 1), and studies to run on it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from masquerade_core.data.schema import Dataset
from masquerade_core.study import Study
from tests.protocol_helpers import make_study

D, N = 10, 1000

_Array = NDArray[np.float64]


def simulated(number: int, n: int = N, d: int = D) -> tuple[Dataset, Dataset]:
    """Draw n training and 1,000 test records from the interior of the unit ball, labelled by a random hyperplane."""
    rng = np.random.default_rng((2012, number))
    w = rng.normal(size=d)

    def records(count: int) -> Dataset:
        X = rng.normal(size=(count, d))
        X *= (rng.random(count) ** (1 / d) / np.linalg.norm(X, axis=1))[:, None]
        return Dataset(X, np.where(X @ w > 0, 1.0, -1.0))

    return records(n), records(1000)


def split(records: Dataset, study: Study, shares: Sequence[float]) -> dict[str, Dataset]:
    """Deal the records out in the given parts."""
    ends = np.rint(np.cumsum([0.0, *shares]) * len(records.y)).astype(int)
    parts = [Dataset(records.X[a:b], records.y[a:b]) for a, b in pairwise(ends)]
    return dict(zip(study.names, parts, strict=True))


def study_of(
    protocol: str,
    K: int = 5,
    d: int = D,
    *,
    epsilon: float = 0.2,
    delta: float = 0.05,
    Lambda: float = 0.1,
    loss: str = "logistic",
    section: str = "",
) -> Study:
    """A study with the settings of the paper's figure 1."""
    text = make_study(K, d, epsilon=epsilon, regularization=Lambda).to_toml()
    for old, new in (
        ('protocol = "local-aggregation"', f'protocol = "{protocol}"'),
        ("delta = 1e-05", f"delta = {delta}"),
        ('loss = "logistic"', f'loss = "{loss}"'),
        ('noise = "laplace"', section),
    ):
        assert text.count(old) == 1
        text = text.replace(old, new)
    return Study.parse(text, in_memory=True)
