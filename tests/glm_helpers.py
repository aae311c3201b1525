"""Studies and records of ``dp-glm``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from masquerade_core.data.schema import Covariates, Dataset
from masquerade_core.study import Feature, Study
from tests.whitened_helpers import whitened_study

__all__ = ["FEATURES", "as_data", "glm_study", "made_up", "split_up"]

FEATURES = (
    Feature(name="age", min=20, max=100),
    Feature(name="dose", min=-4, max=4),
    Feature(name="sex", levels=("f", "m")),
    Feature(name="site", levels=("a", "b", "c")),
)
"""Columns of every kind: five covariates."""


def glm_study(K: int = 3, features: Sequence[Feature] = FEATURES, **changes: Any) -> Study:
    """A study of K parties; the other arguments are those of ``whitened_study``."""
    study = whitened_study(K, **changes)
    section = study.study.model_copy(update={"protocol": "dp-glm"})
    return study.model_copy(update={"features": tuple(features), "study": section, "protocol": {}})


def made_up(n: int, seed: int = 0, beta: Sequence[float] = (0.02, 0.5, -0.4, 0.3, 0.0), b0: float = -1.0) -> Dataset:
    """Records of :data:`FEATURES` whose label follows a logistic model with these coefficients, in own units."""
    rng = np.random.default_rng(seed)
    age, dose = np.clip(rng.normal(60, 12, n), 20, 100), np.clip(rng.normal(0, 1, n), -4, 4)
    sex, site = (rng.random(n) < 0.4) * 1.0, rng.choice(3, n, p=[0.5, 0.3, 0.2])
    own = np.column_stack([age, dose, sex, site == 1, site == 2]).astype(float)
    y = np.where(rng.random(n) < 1 / (1 + np.exp(-(b0 + own @ beta))), 1.0, -1.0)
    own[:, 0], own[:, 1] = (age - 60) / 40, dose / 4
    return as_data(own, y)


def as_data(X: NDArray[np.float64], y: NDArray[np.float64]) -> Dataset:
    """Rows of a design matrix as records."""
    return Covariates(X, y)


def split_up(study: Study, data: Dataset) -> dict[str, Dataset]:
    """Records dealt to a study's parties."""
    parts = np.array_split(np.arange(data.n), study.K)
    return {name: as_data(data.X[part], data.y[part]) for name, part in zip(study.names, parts, strict=True)}
