"""Exact minimisers without privacy: of everybody's records, and of each party's own."""

from collections.abc import Mapping

from masquerade_core.data.pooling import pool
from masquerade_core.data.schema import Dataset
from masquerade_core.errors import BadInput
from masquerade_core.learning.erm import error_rate, fit
from masquerade_core.learning.losses import LOGISTIC, require_convex
from masquerade_core.learning.softmax import class_error_rate, fit_softmax
from masquerade_core.rng import Rng
from masquerade_core.study import Study
from masquerade_protocols.entry import Weights

__all__ = ["best_single_party", "check_minimiser", "individual", "pooled"]


def _fit(study: Study, records: Dataset) -> Weights:
    """Return the exact minimiser over these records: of the study's loss, or of softmax loss for named classes."""
    Lambda = study.model.regularization
    if records.classes is None:
        return fit(records.X, records.y, Lambda, study.model.loss)
    return fit_softmax(records.X, records.y, Lambda, classes=records.classes).ravel()


def pooled(study: Study, data: Mapping[str, Dataset], rng: Rng) -> Weights:  # noqa: ARG001  no noise
    """Return the exact minimiser over all parties' records together."""
    return _fit(study, pool(study, data))


def individual(study: Study, data: Mapping[str, Dataset], rng: Rng) -> dict[str, Weights]:  # noqa: ARG001  no noise
    """Return each party's exact minimiser over its own records."""
    pool(study, data)  # refuses a party without records
    return {name: _fit(study, data[name]) for name in study.names}


def best_single_party(classifiers: Mapping[str, Weights], test: Dataset) -> tuple[str, float]:
    """Return the party whose classifier errs least on public test records, and its error rate; of equals, the first."""
    errors = {name: _error(test, w) for name, w in classifiers.items()}
    best = min(errors, key=lambda name: errors[name])
    return best, errors[best]


def _error(test: Dataset, w: Weights) -> float:
    if test.classes is None:
        return error_rate(test.X, test.y, w)
    return class_error_rate(test.X, test.y, w.reshape(test.classes, -1))


def check_minimiser(study: Study) -> None:
    """Refuse a study whose objective has no single minimiser.

    Raises
    ------
    BadInput
        The loss is not convex, the regularization is 0, or several classes come with another loss than the logistic.
    """
    require_convex(study.model)
    if study.multiclass and study.model.loss != LOGISTIC.name:
        raise BadInput(
            f'[model] loss is "{study.model.loss}", but a study with several classes learns by softmax regression, '
            "which has the logistic loss",
            'set loss = "logistic"',
        )
