"""The cost of a search: each fit is counted, and costs that no epsilon covers are named."""

from __future__ import annotations

import math
import warnings
from copy import deepcopy
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from masquerade.estimators import (
    Average,
    CountedGridSearchCV,
    DPGradientDescent,
    InputNoiseSGD,
    Pooled,
    SearchCostWarning,
    joint_cost,
    search_cost,
)
from masquerade_core.privacy.accounting import epsilon_of, mu_of
from tests.messages import raises, says

GRID = {"epsilon": [0.5, 2.0]}


def _records(n: int = 150) -> tuple[Any, Any]:
    draw = np.random.default_rng(1)
    X = draw.uniform(-1.0, 1.0, (n, 2))
    return X, (X[:, 0] > 0).astype(int)


def _descent(**settings: Any) -> DPGradientDescent:
    return DPGradientDescent(bounds=(-1, 1), rounds=2, n_parties=3, random_state=4, **settings)


def _caught(run: Any) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run()
    return [str(one.message) for one in caught if issubclass(one.category, SearchCostWarning)]


def test_a_plain_grid_search_works_and_says_once_that_its_fits_add_up() -> None:
    X, y = _records()
    search = GridSearchCV(_descent(), GRID, cv=3)
    said = _caught(lambda: search.fit(X, y))
    assert len(said) == 1
    assert says(said[0], "costs_add_up", 0.5, "1e-06")
    assert search.best_estimator_.epsilon in GRID["epsilon"]
    assert search.score(X, y) > 0.6


def test_a_search_whose_fits_run_in_other_processes_is_noticed_there_and_at_its_last_fit() -> None:
    X, y = _records()
    base = clone(_descent())  # as a search does it: it clones here, sends the clones away, and fits the last one itself
    away = [deepcopy(clone(base)) for _ in range(4)]
    assert len(_caught(lambda: away[3].fit(X, y))) == 1
    assert len(_caught(lambda: clone(base).fit(X, y))) == 1


def test_a_cross_validation_says_it_too_and_a_single_fit_or_clone_does_not() -> None:
    X, y = _records()
    assert len(_caught(lambda: cross_val_score(_descent(), X, y, cv=3))) == 1
    estimator = _descent()
    assert _caught(lambda: estimator.fit(X, y)) == []
    assert _caught(lambda: clone(estimator).fit(X, y)) == []
    assert len(_caught(lambda: clone(estimator).fit(X, y))) == 1


@pytest.mark.filterwarnings("ignore::masquerade.estimators.SearchCostWarning")
def test_the_cost_of_a_search_is_that_of_all_its_fits() -> None:
    X, y = _records()
    search = GridSearchCV(_descent(), GRID, cv=3).fit(X, y)
    cost, chosen = search_cost(search), search.best_params_["epsilon"]
    # Each candidate three times, and the best once more. Gaussian releases compose to a root of squares.
    targets = [0.5] * 3 + [2.0] * 3 + [chosen]
    assert cost.fits == 7
    assert cost.delta == pytest.approx(7e-6)
    mu = math.sqrt(sum(mu_of(epsilon, 1e-6) ** 2 for epsilon in targets))
    assert cost.epsilon == pytest.approx(epsilon_of(mu, 7e-6), rel=1e-6)
    row, scores = cost.statement[0], cost.statement[-1]
    alone = {epsilon: _descent(epsilon=epsilon).fit(X, y).statement_[0]["epsilon"] for epsilon in (0.5, 2.0)}
    assert row["epsilon"] == pytest.approx(sum(alone[epsilon] for epsilon in targets))
    assert row["delta"] == pytest.approx(7e-6)
    assert row["claimed"].startswith("not promised")
    assert (scores["epsilon"], scores["provable"]) == (None, "none")
    assert "scores" in scores["view"]


@pytest.mark.filterwarnings("ignore::masquerade.estimators.SearchCostWarning")
def test_pure_costs_add_up_and_no_noise_costs_everything() -> None:
    X, y = _records()
    estimator = Average(bounds=(-1, 1), delta=0.0, random_state=1)
    search = GridSearchCV(estimator, {"regularization": [0.1, 1.0, 10.0]}, cv=2).fit(X, y)
    assert (search_cost(search).epsilon, search_cost(search).fits) == (7.0, 7)
    bare = search_cost(GridSearchCV(Pooled(bounds=(-1, 1)), {"regularization": [0.1, 1.0]}, cv=2).fit(X, y))
    assert (bare.epsilon, bare.delta, len(bare.statement)) == (math.inf, 1.0, 1)


@pytest.mark.filterwarnings("ignore::masquerade.estimators.SearchCostWarning")
def test_rows_of_a_search_are_none_where_one_fit_proves_nothing() -> None:
    X, y = _records()
    estimator = InputNoiseSGD(bounds=(-1, 1), calibration="paper", n_parties=2, epochs=1, random_state=1)
    held, broken = (
        search_cost(GridSearchCV(estimator, {"alpha": alphas}, cv=2).fit(X, y)).statement[0]
        for alphas in ([1.0, 2.0], [1.0, 500.0])
    )
    assert held["epsilon"] is not None
    assert (broken["epsilon"], broken["provable"], broken["definition"]) == (None, "none", "none")


def test_a_counted_search_says_what_it_cost_and_has_a_statement() -> None:
    X, y = _records()
    piped = make_pipeline(FunctionTransformer(), _descent())
    search = CountedGridSearchCV(piped, {"dpgradientdescent__epsilon": [0.5, 2.0]}, cv=3)
    said = _caught(lambda: search.fit(X, y))
    assert len(said) == 1
    assert says(said[0], "search_cost", "7 models", f"{search.cost_.epsilon:.4g}", ...)
    assert search.statement_ == search_cost(search).statement
    plain = GridSearchCV(piped, {"dpgradientdescent__epsilon": [0.5, 2.0]}, cv=3)
    _caught(lambda: plain.fit(X, y))
    assert search.cv_results_["mean_test_score"].tolist() == plain.cv_results_["mean_test_score"].tolist()


@pytest.mark.filterwarnings("ignore::masquerade.estimators.SearchCostWarning")
def test_other_searches_and_cross_validations_are_counted_too() -> None:
    X, y = _records()
    drawn = RandomizedSearchCV(_descent(), GRID, n_iter=2, cv=2, random_state=0).fit(X, y)
    assert search_cost(drawn).fits == 5
    models = cross_validate(_descent(), X, y, cv=4, return_estimator=True)["estimator"]
    together = joint_cost(models)
    assert together.fits == 4
    assert together.delta == pytest.approx(4e-6)
    assert together.epsilon == pytest.approx(epsilon_of(2 * mu_of(1.0, 1e-6), 4e-6), rel=1e-6)
    assert all("scores" not in row["view"] for row in together.statement)


def test_what_cannot_be_counted_is_refused() -> None:
    X, y = _records()
    with raises(ValueError, "no_best_estimator", ...):
        search_cost(GridSearchCV(_descent(), GRID))
    with raises(ValueError, "no_fitted_estimator", ...):
        search_cost(GridSearchCV(LogisticRegression(), {"C": [1.0]}).fit(X, y))
    with raises(ValueError, "cannot_count_search"):
        CountedGridSearchCV(LogisticRegression(), {"C": [1.0]}).fit(X, y)
    with raises(ValueError, "nothing_fitted"):
        joint_cost([])
