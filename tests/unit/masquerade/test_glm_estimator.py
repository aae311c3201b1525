"""``DPGLM``: coefficients and intervals beside those of scikit-learn on the same records."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from sklearn.base import is_classifier, is_regressor
from sklearn.linear_model import LinearRegression, LogisticRegression

from masquerade.estimators import DPGLM, PrivacyLeakWarning
from masquerade_core.data.loading import load_csv
from masquerade_core.data.schema import Covariates
from masquerade_core.errors import BadInput
from masquerade_core.model import error_on
from masquerade_curator._testing import PublicTests
from masquerade_protocols import entry_named
from tests.messages import raises

_BOUNDS, _LEVELS = {"age": (20.0, 80.0)}, {"sex": ["f", "m"], "stage": ["i", "ii", "iii"]}
_TRUE = np.array([-2.0, 0.03, 0.7, 0.5, -0.4])


def _frame(n: int, seed: int = 1) -> tuple[pd.DataFrame, NDArray[np.float64]]:
    """Return records, and their covariates in the columns' own units."""
    draw = np.random.default_rng(seed)
    age, sex, stage = draw.uniform(20, 80, n), draw.choice(["f", "m"], n), draw.choice(["i", "ii", "iii"], n)
    covariates = np.column_stack([np.ones(n), age, sex == "m", stage == "ii", stage == "iii"])
    return pd.DataFrame({"age": age, "sex": sex, "stage": stage}), covariates


def _labels(covariates: NDArray[np.float64], family: str) -> NDArray[np.float64]:
    draw, eta = np.random.default_rng(2), covariates @ _TRUE
    if family == "linear":
        return np.asarray(np.clip(100 + 10 * eta + draw.normal(0, 5, len(eta)), 60, 160), dtype=np.float64)
    return np.asarray(draw.uniform(size=len(eta)) < 1 / (1 + np.exp(-eta)), dtype=np.float64)


@cache
def _fitted(family: str) -> DPGLM:
    frame, covariates = _frame(12_000)
    ends = (60, 160) if family == "linear" else None
    estimator = DPGLM(epsilon=2.0, family=family, label_bounds=ends, bounds=_BOUNDS, levels=_LEVELS, random_state=1)
    return estimator.fit(frame, pd.Series(_labels(covariates, family), name="ill"))


@pytest.mark.parametrize("family", ["logistic", "linear"])
def test_estimates_are_those_of_a_fit_without_noise_within_their_intervals(family: str) -> None:
    frame, covariates = _frame(12_000)
    y, found = _labels(covariates, family), _fitted(family)
    oracle = LogisticRegression(C=np.inf, max_iter=1000) if family == "logistic" else LinearRegression()
    oracle.fit(covariates[:, 1:], y)
    wanted = np.concatenate((np.ravel(oracle.intercept_), np.ravel(oracle.coef_)))
    assert found.names_ == ["(intercept)", "age", "sex=m", "stage=ii", "stage=iii"]
    low, high = found.conf_int().T
    assert ((low < wanted) & (wanted < high)).all()
    assert np.allclose((low + high) / 2, found.params)
    assert np.allclose((high - low) / 2, 1.96 * found.bse, rtol=1e-3)
    assert (found.bse > 0).all()
    # Wrong units of a column, or a wrong reference level, would be far outside of so narrow an interval.
    assert (high - low < 10 * np.abs(wanted)).all()
    if family == "logistic":
        assert np.abs(found.predict_proba(frame) - oracle.predict_proba(covariates[:, 1:])).max() < 0.05
    else:
        assert np.abs(found.predict(frame) - oracle.predict(covariates[:, 1:])).max() < 2
        assert found.score(frame, y) == pytest.approx(oracle.score(covariates[:, 1:], y), abs=0.02)


@pytest.mark.parametrize("family", ["logistic", "linear"])
def test_coef_and_intercept_are_the_estimates_and_give_the_scores(family: str) -> None:
    frame, covariates = _frame(12_000)
    found = _fitted(family)
    assert found.coef_names_ == ["age", "sex=m", "stage=ii", "stage=iii"]
    scores = covariates @ np.concatenate((found.intercept_, found.coef_[0]))
    wanted = found.decision_function(frame) if family == "logistic" else found.predict(frame)
    assert scores == pytest.approx(wanted, abs=1e-6)


def test_the_summary_has_a_line_for_each_coefficient() -> None:
    found = _fitted("logistic")
    lines = [line.split() for line in found.summary().splitlines()]
    for name, estimate, se in zip(found.names_, found.params, found.bse, strict=True):
        assert next(line for line in lines if line[:1] == [name])[1:3] == [f"{estimate:.4g}", f"{se:.4g}"]


def test_a_family_says_whether_it_classifies() -> None:
    assert is_classifier(DPGLM())
    assert is_regressor(DPGLM(family="linear"))


def test_where_nothing_can_be_told_there_are_no_numbers() -> None:
    frame, covariates = _frame(300)
    found = DPGLM(bounds=_BOUNDS, levels=_LEVELS, random_state=1).fit(frame, _labels(covariates, "logistic"))
    assert np.isnan(found.params).all()
    assert np.isnan(found.conf_int()).all()
    assert found.coefficients_.refused


def test_label_bounds_are_public_or_there_is_a_warning() -> None:
    frame, covariates = _frame(300)
    y = _labels(covariates, "linear")
    linear = DPGLM(family="linear", bounds=_BOUNDS, levels=_LEVELS, random_state=1)
    with pytest.warns(PrivacyLeakWarning, match="bounds of the label 'label'"):
        linear.fit(frame, y)
    assert (linear.study_.label.min, linear.study_.label.max) == (y.min(), y.max())
    linear.label_bounds = (1, 0)
    with raises(ValueError, "label_bounds_no_pair"):
        linear.fit(frame, y)
    linear.label_bounds = (60, 160)
    with raises(ValueError, "labels_no_numbers"):
        linear.fit(frame, ["a", "b", "c"] * 100)


def test_a_test_set_is_encoded_as_covariates_and_there_is_none_for_numbers(tmp_path: Path) -> None:
    frame, covariates = _frame(12_000)
    ill = np.where(_labels(covariates, "logistic") > 0, "1.0", "0.0")
    frame.assign(ill=ill).to_csv(tmp_path / "test.csv", index=False)
    found = _fitted("logistic")
    tests = load_csv(tmp_path / "test.csv", found.study_, need_label=False, coding="treatment")
    assert isinstance(tests, Covariates)
    assert error_on(found.simulation_.model, tests) == pytest.approx(1 - found.score(frame, tests.y > 0), abs=1e-12)
    assert PublicTests.read(tmp_path / "test.csv", found.study_, lambda _event, /, **_fields: None).metrics(
        found.simulation_.model
    ) == {"test_error": error_on(found.simulation_.model, tests)}
    with raises(BadInput, "no_classifier_to_test", "dp-glm"):
        entry_named("dp-glm").check_test(_fitted("linear").study_, given=True)
    entry_named("dp-glm").check_test(found.study_, given=True)
