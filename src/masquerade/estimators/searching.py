"""The privacy cost of a search over settings: every model that it fits, and its scores beside them.

A search fits each candidate to each fold's training records, and the best one to all records. The costs of these fits
add up. It chooses by scores, which are computed on records without noise: no epsilon counts what they tell.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, Self
from warnings import warn

from sklearn.model_selection import GridSearchCV

from masquerade.estimators.accounts import spending
from masquerade.estimators.base import SimulatedClassifier
from masquerade.estimators.family import Family
from masquerade.estimators.warned import InvalidInput, SearchCostWarning, refusing
from masquerade_core.privacy.accounting import DELTA_UNITS, Total
from masquerade_core.privacy.statement import NONE, NOT_PROMISED, Rows, shown
from masquerade_core.study import Study
from masquerade_core.words import counted
from masquerade_protocols import entry_of, statement_of

__all__ = ["CountedGridSearchCV", "JointCost", "joint_cost", "search_cost"]

_ADDED = "the costs of all fits are added up, as if every record had been in every training set"
_SCORES = (
    "The scores of all candidates, and so the choice of the best, come from records that were held out, and carry no "
    "noise. What they tell of a record is bounded by nothing."
)


@dataclass(frozen=True)
class JointCost:
    """The joint cost of several fits to the same records.

    Parameters
    ----------
    fits : int
    epsilon, delta : float
        What all models together keep, by the best rule of composition that holds. Infinite, and 1, where one of them
        has no noise. The scores are not in it.
    statement : list of dict
        The rows of one fit's statement, each with what all fits add up to. Where scores were looked at, the last row
        speaks of them, and proves nothing.
    """

    fits: int
    epsilon: float
    delta: float
    statement: list[dict[str, Any]]


def joint_cost(estimators: Iterable[Any]) -> JointCost:
    """Return what fitted estimators cost together, if they were fitted to the same records.

    Parameters
    ----------
    estimators : iterable of estimator
        Of this package, or pipelines that end in one; ``cross_validate(..., return_estimator=True)`` returns such.

    Raises
    ------
    ValueError
        There is none, or one of them is not fitted.
    """
    studies = [one.study_ for estimator in estimators for one in _fitted(estimator).values()]
    return _joint([(study, 1) for study in studies], scores=False)


def search_cost(search: Any) -> JointCost:
    """Return what a search cost: each candidate once for each split, and the last fit to all records.

    The training records of a split are taken to be shared out among the parties as all records are.

    Parameters
    ----------
    search : GridSearchCV, RandomizedSearchCV or another search that refits its best candidate
        It was fitted.

    Raises
    ------
    ValueError
        It was not fitted or did not refit, or it holds no estimator of this package.
    """
    if not hasattr(search, "cv_results_") or not hasattr(search, "best_estimator_"):
        raise InvalidInput(
            f"the {type(search).__name__} has no best_estimator_, from which the cost is worked out; call its fit "
            "first, with refit=True"
        )
    best, splits = _fitted(search.best_estimator_), search.n_splits_
    fits = [(one.study_, 1) for one in best.values()]
    for parameters in search.cv_results_["params"]:
        candidate = deepcopy(search.estimator).set_params(**parameters)
        for path, fitted in best.items():
            one = _at(candidate, path)
            shape = fitted.shape
            with refusing():
                fits.append((one.study_for(replace(shape, fewest=_fold(shape.fewest, splits))), splits))
    return _joint(fits, scores=True)


def _fold(fewest: int, splits: int) -> int:
    """Return the fewest training records of a party in a split."""
    return max(2, fewest * (splits - 1) // splits)


def _at(estimator: Any, path: str) -> Any:
    return estimator if not path else estimator.get_params(deep=True)[path]


def _ours(estimator: Any) -> Iterator[tuple[str, SimulatedClassifier]]:
    """Yield each estimator of this package, by the name of the parameter that holds it; "" for the estimator itself."""
    if isinstance(estimator, SimulatedClassifier):
        yield "", estimator
        return
    for path, value in estimator.get_params(deep=True).items():
        if isinstance(value, SimulatedClassifier):
            yield path, value


def _fitted(estimator: Any) -> dict[str, SimulatedClassifier]:
    found = {path: one for path, one in _ours(estimator) if hasattr(one, "study_")}
    if not found:
        raise InvalidInput(
            f"the {type(estimator).__name__} holds no fitted estimator of masquerade.estimators; give a fitted one, or "
            "a fitted pipeline with one"
        )
    return found


def _joint(fits: Sequence[tuple[Study, int]], *, scores: bool) -> JointCost:
    """Compose studies, each with how often it was run."""
    if not fits:
        raise InvalidInput("there are no estimators, so nothing was fitted; give at least one")
    count = sum(times for _, times in fits)
    total: Total | None = Total()
    for study, times in fits:
        cost = spending(entry_of(study), study)
        total = None if cost is None or total is None else sum([Total.of(cost)] * times, total)
    rows = _added([(statement_of(study), times) for study, times in fits], count)
    if scores:
        rows.append(_row_of_scores())
    if total is None:
        return JointCost(count, math.inf, 1.0, rows)
    return JointCost(count, total.composed(total.delta), total.delta / DELTA_UNITS, rows)


def _added(statements: Sequence[tuple[Sequence[Any], int]], fits: int) -> list[dict[str, Any]]:
    """Return the rows of the first statement, with what all statements add up to."""
    rows = []
    for claim in statements[0][0]:
        key = (claim.view, claim.unit, claim.neighbours)
        same = [
            (next((c for c in claims if (c.view, c.unit, c.neighbours) == key), None), times)
            for claims, times in statements
        ]
        held = [(c, times) for c, times in same if c is not None and c.epsilon is not None and c.delta is not None]
        epsilon = sum(c.epsilon * times for c, times in held)
        delta = sum(c.delta * times for c, times in held)
        proved = len(held) == len(same) and delta < 1
        rows.append(
            claim.to_json()
            | {
                "claimed": f"{NOT_PROMISED}: each of {counted(fits, 'fit')} has a target of its own",
                "provable": shown(epsilon, delta) if proved else NONE,
                "definition": claim.definition if proved else NONE,
                "epsilon": epsilon if proved else None,
                "delta": delta if proved else None,
                "holds_at": "a single fit",
                "assumptions": [*claim.assumptions, _ADDED],
                "text": f"{counted(fits, 'model')} together, of which each costs what its own statement says.",
            }
        )
    return rows


def _row_of_scores() -> dict[str, Any]:
    rows = Rows(source="by inspection")
    view = "whoever learns the scores of a search, or which candidate won"
    return rows.none(view, _SCORES, claimed=NOT_PROMISED, holds_at="a choice made without these records").to_json()


class CountedGridSearchCV(GridSearchCV):  # type: ignore[misc]  # scikit-learn ships no types
    """scikit-learn's ``GridSearchCV``, which says afterwards what the search cost in privacy.

    Attributes
    ----------
    cost_ : JointCost
    statement_ : list of dict
        ``cost_.statement``.
    """

    def fit(self, X: Any, y: Any = None, **params: Any) -> Self:
        """Search as ``GridSearchCV`` does, and warn of what it cost.

        Raises
        ------
        ValueError
            As scikit-learn has it; or the search does not refit, or it holds no estimator of this package.
        """
        found = [one for _, one in _ours(self.estimator)]
        if not (found and self.refit):
            raise InvalidInput(
                "a CountedGridSearchCV needs refit=True and an estimator of masquerade.estimators, alone or in a "
                "pipeline; use GridSearchCV for others"
            )
        for one in found:  # the total below says more than the warning about clones
            one.__dict__.setdefault("_family", Family()).warned = True
        super().fit(X, y, **params)
        self.cost_ = search_cost(self)
        self.statement_ = self.cost_.statement
        warn(
            f"This search fitted {counted(self.cost_.fits, 'model')} to the same records. Together they cost epsilon = "
            f"{self.cost_.epsilon:.4g} and delta = {self.cost_.delta:.3g}, and the scores cost more than any epsilon "
            "counts, because they carry no noise.",
            SearchCostWarning,
            stacklevel=2,
        )
        return self
