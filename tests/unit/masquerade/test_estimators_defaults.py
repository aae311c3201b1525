"""Estimators at their defaults: the one without noise is scikit-learn's, and no noise beats it."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from masquerade.datasets import breast_cancer
from masquerade.estimators import (
    GOP,
    PSGD,
    Batch,
    CentralDP,
    DPGradientDescent,
    DPWhitened,
    Individual,
    InputNoiseSGD,
    LocalAggregation,
    Pooled,
    SimulatedClassifier,
    WeightedDP,
)
from masquerade_core.study import Study

SEEDS = range(10)
CLOSE = 0.01
IRIS: dict[str, tuple[float, float]] = {
    "sepal length (cm)": (4, 8), "sepal width (cm)": (2, 4.5), "petal length (cm)": (1, 7), "petal width (cm)": (0, 2.6)
}  # fmt: skip


@cache
def _records(name: str) -> tuple[Any, Any, dict[str, tuple[float, float]]]:
    """Return the records, the labels, and public bounds."""
    if name.startswith("iris"):
        X, y = load_iris(return_X_y=True, as_frame=True)
        return X, (y == 2 if name == "iris, one class" else y), IRIS
    cohort = breast_cancer()
    rows = [row for records in (cohort.test, *cohort.parties.values()) for row in records.rows]
    X, y = np.array([row[:-1] for row in rows], dtype=float), np.array([row[-1] for row in rows])
    return X, y, {f"x{j}": (float(f.min or 0), float(f.max or 0)) for j, f in enumerate(cohort.features)}


@cache
def _splits(name: str) -> list[Any]:
    X, y, _ = _records(name)
    return [train_test_split(X, y, test_size=0.3, stratify=y, random_state=seed) for seed in SEEDS]


def _scores(kind: type[SimulatedClassifier], name: str, **settings: Any) -> list[float]:
    """Return the accuracy on the held-out records of each split; what is not named has its default."""
    bounds = _records(name)[2]
    return [
        kind(bounds=bounds, random_state=seed, **settings).fit(X, y).score(T, t)
        for seed, (X, T, y, t) in zip(SEEDS, _splits(name), strict=True)
    ]


@cache
def _of_pooled(name: str) -> list[float]:
    return _scores(Pooled, name)


@pytest.mark.parametrize("name", ["breast cancer", "iris"])
def test_without_noise_the_accuracy_is_that_of_scikit_learns_logistic_regression(name: str) -> None:
    oracle = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    wanted = float(np.mean([oracle.fit(X, y).score(T, t) for X, T, y, t in _splits(name)]))
    assert np.mean(_of_pooled(name)) == pytest.approx(wanted, abs=CLOSE)


@pytest.mark.parametrize(
    ("name", "settings"), [("breast cancer", {"epsilon": 4.0, "n_parties": 2}), ("iris, one class", {})]
)
@pytest.mark.parametrize("kind", [DPWhitened, DPGradientDescent, GOP])
def test_no_model_with_noise_beats_the_one_without(
    kind: type[SimulatedClassifier], name: str, settings: dict[str, Any]
) -> None:
    """The less noise there is, the smaller a fault of the other model is seen: so the larger data have little."""
    assert np.mean(_scores(kind, name, **settings)) <= np.mean(_of_pooled(name)) + CLOSE


class _Simulated(Exception):
    """The study that a fit was about to simulate."""


def _lambda(estimator: SimulatedClassifier, **more: Any) -> float:
    """Return the penalty in the study that a fit simulates; the conversation itself does not change it."""

    def simulate(study: Study, *_: object, **__: object) -> None:
        raise _Simulated(study)

    draw = np.random.default_rng(4)
    X = draw.uniform(-1, 1, (60, 3))
    owners = np.array(["a", "b", "c"])[np.r_[np.zeros(30, int), np.ones(20, int), np.full(10, 2)]]
    settings = {"bounds": (-1, 1), "random_state": 1, **more}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("masquerade.estimators.base.simulate", simulate)
        with pytest.raises(_Simulated) as found:
            estimator.set_params(**settings).fit(X, X[:, 0] > 0, parties=owners)
    return float(found.value.args[0].model.regularization)


@pytest.mark.parametrize("kind", [Pooled, Batch, Individual])
def test_the_penalty_without_noise_is_as_small_as_scikit_learns(kind: type[SimulatedClassifier]) -> None:
    assert _lambda(kind()) == pytest.approx(0.02 / 60)


@pytest.mark.parametrize(("kind", "factor"), [(GOP, 0.5), (LocalAggregation, 3.0)])
def test_a_penalty_against_noise_follows_from_public_numbers(kind: type[SimulatedClassifier], factor: float) -> None:
    # Four coordinates, and three parties with 10 records at least; at most 1.
    assert _lambda(kind(epsilon=8.0)) == pytest.approx(min(1, factor * math.sqrt(4) / (3 * 10 * 8.0)))
    assert _lambda(kind(epsilon=8.0, intercept=False)) == pytest.approx(factor * math.sqrt(3) / (3 * 10 * 8.0))
    assert _lambda(kind(epsilon=0.01)) == 1


@pytest.mark.parametrize(
    "kind", [PSGD, CentralDP, WeightedDP, InputNoiseSGD, DPGradientDescent, DPWhitened], ids=lambda kind: kind.__name__
)
def test_where_noise_does_not_depend_on_the_penalty_it_is_the_one_of_dp_gd(kind: type[SimulatedClassifier]) -> None:
    assert _lambda(kind()) == 1e-4


def test_a_penalty_that_is_given_is_taken() -> None:
    assert [_lambda(kind(regularization=0.3)) for kind in (Pooled, GOP, PSGD)] == [0.3] * 3
