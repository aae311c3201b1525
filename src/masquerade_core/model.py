"""A released classifier: its weights, the additive shares in which some protocols publish it, and ``model.json``.

*Dave* is anybody who has the published model and a new record.

Whether a model gives nearly all records the same answer, although their labels differ.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from masquerade_core.study import Coding, Feature, Matching, OutOfBounds, Study

if TYPE_CHECKING:
    from masquerade_core.coefficients import Coefficients
    from masquerade_core.evaluation import Evaluation
    from masquerade_core.learning.class_evaluation import ClassEvaluation

__all__ = [
    "ESTIMATES",
    "FEATURES",
    "KIND",
    "STATISTICS",
    "Labelled",
    "Model",
    "Published",
    "PublishedShares",
    "Release",
    "Scoring",
    "answers_of",
    "encoder_to_json",
    "error_on",
    "gives_one_answer",
    "is_one_answer",
    "model_to_json",
    "scores_of",
]


# --- A model with one answer ----------------------------------------------------------

_NEARLY = 0.02  # of the records may have another answer
_TIMES = 5  # as many records must have another label, or the answers are only as rare as the labels are


def gives_one_answer(answers: NDArray[np.float64], labels: NDArray[np.float64]) -> bool:
    """Return whether all answers, or nearly all, are the same one, and the labels are not.

    Parameters
    ----------
    answers, labels : ndarray, shape (n,)
        What a model says of n >= 1 records, and what is true of them.
    """
    values = np.union1d(answers, labels)
    size = len(values)
    places = np.searchsorted(values, labels) * size + np.searchsorted(values, answers)
    return is_one_answer(np.bincount(places, minlength=size**2).reshape(size, size))


def is_one_answer(counts: NDArray[np.int64]) -> bool:
    """Return the same from the number of records of each label (by row) and with each answer (by column)."""
    answered, n = counts.sum(axis=0), int(counts.sum())
    most = int(answered.argmax())
    others, differ = n - int(answered[most]), n - int(counts[most].sum())
    return differ > 0 and others <= _NEARLY * n and others * _TIMES <= differ


# --- Model -----------------------------------------------------------------------

ESTIMATES = "estimates.csv"
"""The coefficients of a regression, for spreadsheets and statistics programs; ``model.json`` has them as well."""

STATISTICS = "statistics.json"
FEATURES = "features.toml"
"""The files of a release that is no model but statistics."""

KIND = "masquerade model 1"
"""The kind that ``model.json`` states."""


class Release(Protocol):
    """A role's result: everything that the run publishes, the same at every participant."""

    def files(self, study: Study, run: bytes) -> Mapping[str, Mapping[str, Any] | str]:
        """Return the contents of the files that publish it, by the files' names: a JSON object, or a text."""


class PublishedShares(Protocol):
    """The form of the shares in which some protocols publish a classifier: as in ``masquerade_core.saved_model``."""

    @property
    def values(self) -> Mapping[str, tuple[int, ...]]:
        """Each participant's share."""

    def open(self) -> tuple[float, ...]:
        """Add the shares up, and return the weights."""

    def to_json(self) -> dict[str, Any]:
        """Return a JSON value."""


class Scoring(Protocol):
    """The classifier behind the answers: a released one, or one that was read from its file."""

    @property
    def weights(self) -> tuple[float, ...]:
        """D weights, or d for each named class in turn."""

    @property
    def offset(self) -> tuple[float, ...]:
        """The number added to a score."""

    @property
    def threshold(self) -> float:
        """The score above which the answer is the positive label."""


class Labelled(Protocol):
    """Encoded records with their labels, as in a :class:`~masquerade_core.data.schema.Dataset`."""

    @property
    def X(self) -> NDArray[np.float64]:  # noqa: N802  the papers' letter
        """The records, shape (n, d)."""

    @property
    def y(self) -> NDArray[np.float64]:
        """The labels, shape (n,)."""

    @property
    def classes(self) -> int | None:
        """The number of named classes."""


@dataclass(frozen=True)
class Published:
    """Numbers about all records that a run shows besides its model, to everybody who sees the run.

    Parameters
    ----------
    records : int
        N, how many records the parties learned from together: exact.
    class_shares : tuple of float
        The share of records with the positive label, or with each named class, as it was opened: with noise. Empty
        where the protocol does not open it.
    class_shares_sd : float
        The standard deviation of that noise.
    weight_noise : tuple of float
        The standard deviation of the noise on each weight. Empty where it is not known from the released sums.
    """

    records: int
    class_shares: tuple[float, ...] = ()
    class_shares_sd: float = 0.0
    weight_noise: tuple[float, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the field ``published`` of ``result.json``."""
        shares = {"class_shares": list(self.class_shares), "class_shares_sd": self.class_shares_sd}
        noise = {"weight_noise": list(self.weight_noise)} if self.weight_noise else {}
        return {"records": self.records, **(shares if self.class_shares else {}), **noise}


@dataclass(frozen=True)
class Model:
    """A released linear classifier.

    Parameters
    ----------
    weights : tuple of float
        w^s: d weights in the order of the encoder's coordinates; with named classes, d weights for each class in turn.
    shares : Shares or None
        The published shares, if the classifier was released as shares; ``shares.open()`` gives the weights.
    offset : tuple of float
        What is added to a record's score; with named classes, a number for each. Empty where nothing is added.
    threshold : float
        The score above which a record is answered with the positive label. It means nothing with named classes.
    evaluation : Evaluation or ClassEvaluation or None
        How good the classifier is on records that were held back. It goes to ``result.json``.
    published : Published or None
        What else the run shows of all records. It goes to ``result.json`` as well.
    coefficients : Coefficients or None
        The coefficients of a regression, with intervals. The weights are then one for each covariate of the study, and
        0 for one that cannot be told.
    """

    weights: tuple[float, ...]
    shares: PublishedShares | None
    offset: tuple[float, ...] = ()
    threshold: float = 0.0
    evaluation: "Evaluation | ClassEvaluation | None" = None
    published: Published | None = None
    coefficients: "Coefficients | None" = None

    def files(self, study: Study, run: bytes) -> dict[str, dict[str, Any] | str]:
        """Return the files that publish the classifier, and the coefficients where it has some."""
        estimates = {} if self.coefficients is None else {ESTIMATES: self.coefficients.to_csv()}
        return {"model.json": model_to_json(self, study, run), **estimates}


def scores_of(model: Scoring, X: NDArray[np.float64], classes: int | None) -> NDArray[np.float64]:
    """Return each record's score w.x + offset, shape (n,); with named classes, one for each, shape (n, classes).

    ``classes`` is as in the records: 0 where the label is a number, of which the score is then the estimate.
    """
    scores: NDArray[np.float64] = X @ np.array(model.weights).reshape(classes or 1, -1).T
    scores = scores + np.array(model.offset or (0.0,))
    return scores if classes else scores[:, 0]


def answers_of(model: Scoring, X: NDArray[np.float64], classes: int | None) -> NDArray[np.float64]:
    """Return each record's label, shape (n,), as in a data set's ``y``; a score at the threshold stands for -1."""
    scores = scores_of(model, X, classes)
    if classes:
        best: NDArray[np.float64] = scores.argmax(axis=1).astype(np.float64)
        return best
    return np.where(scores > model.threshold, 1.0, -1.0)


def error_on(model: Scoring, tests: Labelled) -> float:
    """Return the fraction of records that a model labels wrongly."""
    return float(np.mean(answers_of(model, tests.X, tests.classes) != tests.y))


def model_to_json(model: Model, study: Study, run: bytes) -> dict[str, Any]:
    """Return the contents of ``model.json``: the classifier as it was released, and the encoder for records."""
    rules = study.study
    matching, intercept = rules.matching or "exact", study.model.intercept
    encoder = encoder_to_json(study.features, rules.out_of_bounds, intercept=intercept, matching=matching)
    names = study.coordinates
    if model.coefficients is not None:
        encoder, names = {**encoder, "intercept": False, "coding": "treatment"}, study.covariates
    return {
        "kind": KIND,
        "study": study.study.name,
        "protocol": study.study.protocol,
        "run_id": run.hex(),
        "epsilon": study.privacy.epsilon,
        "delta": study.privacy.delta,
        "loss": study.model.loss,
        "label": study.label.model_dump(mode="json", exclude_none=True),
        "encoder": encoder,
        "release": "weights" if model.shares is None else "shares",
        "weights": _named(model.weights, names, study.label.classes),
        **({"offset": list(model.offset)} if model.offset else {}),
        **({"threshold": model.threshold} if model.threshold else {}),
        **({} if model.shares is None else {"shares": model.shares.to_json()}),
        **({} if model.coefficients is None else {"coefficients": model.coefficients.to_json()}),
    }


def encoder_to_json(
    features: Sequence[Feature],
    out_of_bounds: OutOfBounds,
    *,
    intercept: bool,
    coding: Coding = "one-hot",
    matching: Matching = "exact",
) -> dict[str, Any]:
    """Return the encoder's part of a model file: public constants, with every number kept exactly."""
    dumped = [f.model_dump(mode="json", exclude_none=True) for f in features]
    rule = {} if out_of_bounds == "refuse" else {"out_of_bounds": out_of_bounds}
    shape = {} if coding == "one-hot" else {"coding": coding}
    spelling = {} if matching == "exact" else {"matching": matching}
    return {"features": dumped, "intercept": intercept, **rule, **shape, **spelling}


def _named(weights: tuple[float, ...], names: Sequence[str], classes: Sequence[str] | None) -> dict[str, Any]:
    """Return weights by the names of their coordinates; with named classes, such a mapping for each class."""
    d = len(names)
    rows = [dict(zip(names, weights[i : i + d], strict=True)) for i in range(0, len(weights), d)]
    return rows[0] if classes is None else dict(zip(classes, rows, strict=True))
