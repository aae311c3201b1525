"""Runs of weighted-dp, and a second implementation of its local descents: Algorithm 1, lines 3 to 8."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from masquerade_core.data.schema import Dataset
from masquerade_core.model import Model
from masquerade_core.rng import Rng
from masquerade_core.study import CHARLIE, Study
from masquerade_core.table import Table
from masquerade_protocols.in_memory import run_in_memory
from masquerade_protocols.weighted_dp import roles as wd
from tests.sum_helpers import descent_study

_Array = NDArray[np.float64]


def local_descent_study(
    section: str = "c = 16.0\nrounds = 30", K: int = 3, d: int = 4, *, proven: bool = False, **kw: Any
) -> Study:
    """A study of weighted-dp with a key of 512 bits; ``proven`` for that calibration."""
    study = descent_study("weighted-dp", K=K, d=d, section=section, **{"epsilon": 5.0, "delta": 1e-3, **kw})
    return Study.parse(study.to_toml().replace('"paper"', '"proven"'), in_memory=True) if proven else study


@dataclass(frozen=True)
class Descended:
    """One run at the table."""

    study: Study
    table: Table
    results: Mapping[str, Model]

    @property
    def w(self) -> _Array:
        """The release of Charlie."""
        return np.array(self.results[CHARLIE].weights)


def run_local_descents(study: Study, data: Mapping[str, Dataset], rngs: Mapping[str, Rng] | None = None) -> Descended:
    """Run weighted-dp at the in-memory table."""
    table = Table(study.names, rngs)
    return Descended(study, table, run_in_memory(wd, study, data, table=table))


def _slope(loss: str, m: _Array) -> _Array:
    """Each phi' from its definition."""
    if loss == "logistic":
        with np.errstate(over="ignore"):  # a slope of 0
            return np.asarray(-1 / (1 + np.exp(m)))
    return np.asarray(-np.exp(m) / (1 + np.exp(m)) ** 2)


def descended(study: Study, part: Dataset, T: int, eta: float = 0.5, noise: _Array | None = None) -> _Array:
    """Lines 4 to 6 for one party; ``noise`` holds z_t in its rows."""
    theta = np.zeros(study.d)
    for t in range(T):
        gradient = np.zeros(study.d)
        for x, label in zip(part.X, part.y, strict=True):
            gradient += _slope(study.model.loss, label * (x @ theta)) * label * x
        z = 0.0 if noise is None else noise[t]
        theta = theta - eta * (gradient / len(part.y) + study.model.regularization * theta + z)
    return theta


def averaged(study: Study, data: Mapping[str, Dataset], T: int, *, by_size: bool = True) -> _Array:
    """Line 8 without noise."""
    weights = [len(data[name].y) if by_size else 1 for name in study.names]
    return np.average([descended(study, data[name], T) for name in study.names], axis=0, weights=weights)
