"""A reference without privacy: logistic regression whose penalty is chosen by cross-validation.

The study's own penalty would not do. Where it is too strong, a model without noise is as bad as the released one, and
a comparison with it shows nothing.
"""

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from masquerade.datasets import shuffled
from masquerade_core.data.schema import Dataset

__all__ = ["tuned_answers"]

_CHOICES = (0.1, 1.0, 10.0, 100.0, 1e3, 1e4)
"""scikit-learn's C: the weight of the sum of all losses beside half the squared length of the weights."""

_FOLDS = 5
_MOST = 3_000  # records among which C is chosen; with C, all records are fitted


def tuned_answers(records: Dataset, X: NDArray[np.float64]) -> NDArray[np.float64]:
    """Learn from records without privacy, and return the labels of ``X``, shape (n,).

    C is the one with the smallest log loss over 5 folds of the records, or of 3,000 of them where there are more. The
    best C changes little with the number of records, since it weighs the sum of their losses. Where a label is too rare
    for folds, C is 1. Where all records have the same label, that label is the answer to everything.
    """
    from sklearn.linear_model import LogisticRegression

    if len(np.unique(records.y)) == 1:
        return np.full(len(X), records.y[0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a C for which the fit does not converge is a poor choice, and is not chosen
        chosen = _chosen(records)
        fitted = LogisticRegression(C=chosen, solver=_solver(records)).fit(records.X, records.y)
    return np.asarray(fitted.predict(X), dtype=np.float64)


def _chosen(records: Dataset) -> float:
    """Return the C with the smallest log loss on records that were not fitted."""
    from sklearn.linear_model import LogisticRegressionCV

    some = shuffled(len(records.y))[:_MOST]
    X, y = records.X[some], records.y[some]
    folds = min(_FOLDS, int(np.unique(y, return_counts=True)[1].min()))
    if folds < 2 or len(np.unique(y)) < 2:  # noqa: PLR2004  a fold that lacks a label judges nothing
        return 1.0
    search = LogisticRegressionCV(Cs=list(_CHOICES), cv=folds, scoring=_likelihood, solver=_solver(records))
    return float(np.mean(search.fit(X, y).C_))


def _likelihood(model: Any, X: NDArray[np.float64], y: NDArray[np.float64]) -> float:
    """Return minus the log loss. scikit-learn's own looks at its arguments for longer than a small fit takes."""
    told = model.predict_proba(X)[np.arange(len(y)), np.searchsorted(model.classes_, y)]
    return float(np.mean(np.log(np.maximum(told, np.finfo(np.float64).eps))))


def _solver(records: Dataset) -> str:
    return "newton-cholesky" if records.classes is None else "lbfgs"
