"""Local classifiers as black boxes of any type: named in words, trained on one party's records, asked for votes.

Hamm, Cao and Belkin 2016 (section 3.1) ask of a local classifier only that it labels the auxiliary points. So anything
with ``fit`` and ``predict`` will do, and every party may have another kind. It learns and votes with the labels of a
:class:`~masquerade_core.data.schema.Dataset`: -1 and +1 where the study has a positive label, else class numbers.

What goes wrong inside a foreign classifier is told by its name and the exception's type: the text may hold data.
"""

import ast
import copy
import difflib
import inspect
from functools import cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from masquerade_core.data.schema import Dataset
from masquerade_core.errors import BadInput, MasqueradeError
from masquerade_core.learning.erm import fit, predict_labels
from masquerade_core.learning.softmax import fit_softmax, predict_classes
from masquerade_core.rng import Rng

__all__ = ["SHORT_NAMES", "Classifier", "Linear", "cast_votes", "classifier_of", "named"]

SHORT_NAMES = {
    "tree": "DecisionTreeClassifier",
    "forest": "RandomForestClassifier",
    "svm": "SVC",
    "logistic": "LogisticRegression",
}
"""What may be said for some of scikit-learn's names."""

_LONGEST = 500  # characters of a name with its settings
_SEED_BITS = 32  # of a random_state
_SEED = "random_state"
_HOW = "write, for example, tree, or RandomForestClassifier(n_estimators=50)"

_Array = NDArray[np.float64]


class Classifier(Protocol):
    """What a local classifier has to offer."""

    def fit(self, X: Any, y: Any) -> Any:
        """Learn from records of shape (n, d) and their labels, integers of shape (n,)."""
        ...

    def predict(self, X: Any) -> Any:
        """Return one label for each record."""
        ...


class Linear:
    """The program's own classifier: the exact minimiser of the study's loss, or of softmax for named classes.

    Parameters
    ----------
    loss : str
        The study's.
    Lambda : float
        The study's regularization, > 0.
    classes : int or None
        How many named classes there are; None for labels -1 and +1.
    """

    def __init__(self, loss: str, Lambda: float, classes: int | None) -> None:
        self._loss, self._Lambda, self._classes = loss, Lambda, classes
        self._w: _Array | None = None

    def fit(self, X: _Array, y: NDArray[np.int64]) -> "Linear":
        """Minimise the regularised risk."""
        if self._classes is None:
            self._w = fit(X, y.astype(np.float64), self._Lambda, self._loss)
        else:
            self._w = fit_softmax(X, y, self._Lambda, classes=self._classes)
        return self

    def predict(self, X: _Array) -> NDArray[Any]:
        """Label as Dave would."""
        if self._w is None:
            raise ValueError("not yet fitted")
        return predict_labels(X, self._w) if self._classes is None else predict_classes(X, self._w)


def named(text: str) -> Classifier:
    """Make a scikit-learn classifier from its name, with settings in brackets that are literals.

    Parameters
    ----------
    text : str
        Such as "RandomForestClassifier(n_estimators=50)", or one of ``SHORT_NAMES`` in place of the name. Nothing in it
        is evaluated but literals.

    Raises
    ------
    BadInput
        There is no such classifier or setting, a value is out of range, or the text is something else.
    """
    name, settings = _parsed(text)
    known = _scikit_learn()
    full = SHORT_NAMES.get(name, name)
    if full not in known:
        near = difflib.get_close_matches(name, (*known, *SHORT_NAMES), n=1, cutoff=0.55)
        raise BadInput(f"scikit-learn has no classifier {name!r}", f"did you mean {near[0]!r}?" if near else _HOW)
    kind = known[full]
    allowed = set(inspect.signature(kind).parameters) - {_SEED}
    for setting in settings:
        if setting == _SEED:
            raise BadInput(
                f"{_SEED} cannot be set: the seed of {full} is drawn when it is trained", "leave the setting out"
            )
        if setting not in allowed:
            near = difflib.get_close_matches(setting, sorted(allowed), n=1, cutoff=0.55)
            hint = f"did you mean {near[0]!r}?" if near else f"its settings are {', '.join(sorted(allowed))}"
            raise BadInput(f"{full} has no setting {setting!r}", hint)
    try:
        classifier = kind(**settings)
        # Else a wrong value would be found in training only, where no text may be shown.
        classifier._validate_params()  # noqa: SLF001  scikit-learn has no public name for it
    except (TypeError, ValueError) as error:
        raise BadInput(f"{full} cannot be made: {error}", "correct its settings") from error
    made: Classifier = classifier
    return made


def _parsed(text: str) -> tuple[str, dict[str, Any]]:
    """Split "Name(setting=literal, ...)"."""
    wrong = BadInput("a classifier is a name, with settings in brackets that are plain values", _HOW)
    if len(text) > _LONGEST:
        raise wrong
    try:
        node = ast.parse(text.strip(), mode="eval").body
        call = node if isinstance(node, ast.Call) else ast.Call(node, [], [])
        settings = {keyword.arg: ast.literal_eval(keyword.value) for keyword in call.keywords}
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        raise wrong from None
    if not isinstance(call.func, ast.Name) or call.args:
        raise wrong
    names = {name: value for name, value in settings.items() if name is not None}
    if len(names) != len(settings):  # **settings
        raise wrong
    return call.func.id, names


@cache
def _scikit_learn() -> dict[str, Any]:
    from sklearn.utils import all_estimators  # noqa: PLC0415  takes seconds to import

    return dict(all_estimators(type_filter="classifier"))


def classifier_of(given: object, default: Classifier) -> Classifier:
    """Return what a party was given as its classifier: an object, a name for :func:`named`, or the default for None.

    Raises
    ------
    BadInput
        It has no ``fit`` or no ``predict``, or its name is none.
    """
    if given is None:
        return default
    if isinstance(given, str):
        return named(given)
    missing = [method for method in ("fit", "predict") if not callable(getattr(given, method, None))]
    if missing or isinstance(given, type):
        seen = "is a class, not an object" if isinstance(given, type) else f"has no method {missing[0]}"
        raise BadInput(
            f"the classifier {_name(given)} {seen}", "give an object with the methods fit(X, y) and predict(X)"
        )
    found: Classifier = given  # type: ignore[assignment]  # the two methods are there
    return found


def cast_votes(classifier: Classifier, data: Dataset, X_aux: _Array, rng: Rng) -> tuple[int, ...]:
    """Train a classifier on one party's records and have it label the auxiliary points: h_j(x_1), ..., h_j(x_N).

    The given object is left as it is; a copy is trained. Wherever it has a ``random_state``, that is drawn from
    ``rng``, so all its randomness comes through the party's seat. Where the records are all of one class, a foreign
    classifier is not asked, for most refuse to learn from one class: the votes are that class.

    Parameters
    ----------
    classifier : Classifier
        Of any type.
    data : Dataset
        The party's records.
    X_aux : ndarray, shape (N, d)
        The auxiliary points.
    rng : Rng
        The only source of randomness.

    Returns
    -------
    tuple of int
        N class numbers: from 0 in the study's order; for labels -1 and +1 they are 0 and 1.

    Raises
    ------
    BadInput
        The classifier raised an exception, voted for something else than the study's classes, or not once a point.

    References
    ----------
    Hamm, Cao, Belkin 2016, section 3.1 and the first line of Algorithms 1 and 2.
    """
    labels = np.array((-1, 1)) if data.classes is None else np.arange(data.classes)
    y = data.y.astype(np.int64)
    seen = np.unique(y)
    if len(seen) == 1 and not isinstance(classifier, Linear):
        return (int(np.searchsorted(labels, seen[0])),) * len(X_aux)
    votes = _asked(classifier, data.X, y, X_aux, labels, rng)
    return tuple(np.searchsorted(labels, votes).tolist())


def _asked(classifier: Classifier, X: _Array, y: Any, X_aux: _Array, labels: Any, rng: Rng) -> Any:
    """Return the votes as labels, checked."""
    failed, known, votes = "", labels, labels
    try:
        student = _seeded(_untrained(classifier), rng)
        student.fit(np.array(X), np.array(y))
        known = np.ravel(np.asarray(getattr(student, "classes_", labels)))
        votes = np.asarray(student.predict(np.array(X_aux)))
    except MasqueradeError:
        raise
    except Exception as error:  # noqa: BLE001  whatever a foreign classifier may raise
        failed = type(error).__name__
    # Raised outside the handler: the original error may show a record, and must not become this one's context.
    if failed:
        raise BadInput(
            f"the classifier {_name(classifier)} raised {failed} when it was trained or asked",
            "try it alone on the same records, or choose another",
        )
    if not _among(known, labels):
        raise BadInput(
            f"the classifier {_name(classifier)} knows classes that are not the study's",
            f"it has to learn the labels that it is given: {_listed(labels)}",
        )
    if votes.shape != (len(X_aux),):
        raise BadInput(
            f"the classifier {_name(classifier)} did not give one vote for each of {len(X_aux)} auxiliary points",
            "predict(X) has to return one label for each row of X",
        )
    if not _among(votes, labels):
        raise BadInput(
            f"the classifier {_name(classifier)} voted for something that is no class of the study",
            f"the labels are {_listed(labels)}, as in training",
        )
    return votes


def _untrained(classifier: Classifier) -> Any:
    """Return a copy to train: one object may serve several parties, and none may learn from another's records."""
    if isinstance(classifier, Linear):
        return copy.copy(classifier)
    from sklearn.base import clone  # noqa: PLC0415  takes a second to import

    return clone(classifier, safe=False)  # a deep copy where it is none of scikit-learn's


def _seeded(classifier: Any, rng: Rng) -> Any:
    """Draw every ``random_state``, those of a pipeline's parts included."""
    if hasattr(classifier, "get_params") and hasattr(classifier, "set_params"):
        settings = sorted(name for name in classifier.get_params(deep=True) if name.split("__")[-1] == _SEED)
        return classifier.set_params(**{name: rng.bits(_SEED_BITS) for name in settings})
    if hasattr(classifier, _SEED):
        classifier.random_state = rng.bits(_SEED_BITS)
    return classifier


def _among(values: Any, labels: Any) -> bool:
    """Whether all values are numbers among the labels."""
    return values.dtype.kind in "iuf" and bool(np.isin(values, labels).all())


def _listed(labels: Any) -> str:
    return ", ".join(str(label) for label in labels.tolist())


def _name(classifier: object) -> str:
    return classifier.__name__ if isinstance(classifier, type) else type(classifier).__name__
