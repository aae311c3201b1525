"""Rajkumar and Agarwal's simulated data (2012, section 6, 1), and studies to run on it."""

from __future__ import annotations

from collections.abc import Sequence

from masquerade.datasets import deal, unit_ball
from masquerade_core.data.schema import Dataset
from masquerade_core.study import Study
from tests.protocol_helpers import make_study

D, N = 10, 1000

simulated = unit_ball


def split(records: Dataset, study: Study, shares: Sequence[float]) -> dict[str, Dataset]:
    """Deal the records out in the given parts."""
    return dict(zip(study.names, deal(records, shares), strict=True))


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
