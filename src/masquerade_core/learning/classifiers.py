"""Local classifiers of any kind: chosen by name or given as an object, trained on one party's records, asked for votes.

In a vote (Hamm, Cao and Belkin 2016, section 3.1) a party trains a classifier of its own on its records. The classifier
then labels *auxiliary points*, records that all participants know. So every object with ``fit`` and ``predict`` will
do, and every party may choose another kind. Labels are those of a :class:`~masquerade_core.data.schema.Dataset`: -1 and
+1 where the study has a positive label, otherwise class numbers.

If a classifier from outside this program raises an exception, the error shows the classifier's name and the exception's
type only: the exception's text may contain records.
"""

import ast
import copy
import difflib
import inspect
import warnings
from functools import cache
from importlib import import_module
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from masquerade_core.data.records import Records
from masquerade_core.data.schema import Dataset
from masquerade_core.errors import BadInput, MasqueradeError
from masquerade_core.learning.erm import fit, fit_records, predict_labels
from masquerade_core.learning.softmax import fit_softmax, predict_classes
from masquerade_core.rng import Rng
from masquerade_core.words import listed

__all__ = ["SHORT_NAMES", "Classifier", "Linear", "cast_votes", "classifier_of", "named"]

SHORT_NAMES = {
    "tree": "DecisionTreeClassifier",
    "forest": "RandomForestClassifier",
    "svm": "SVC",
    "logistic": "LogisticRegression",
}
"""Short names for some classifiers of scikit-learn."""

# Most names are found here. To find the others takes all of scikit-learn, a second or two of a process.
_FAMILIES = ("tree", "ensemble", "linear_model", "svm")
_LONGEST = 500  # characters of a name with its settings
_SEED_BITS = 32  # of a random_state
_SEED = "random_state"
_HOW = "write, for example, tree or RandomForestClassifier(n_estimators=50)"

_Array = NDArray[np.float64]


class Classifier(Protocol):
    """The methods that a local classifier must have."""

    def fit(self, X: Any, y: Any) -> Any:
        """Learn from records of shape (n, d) and their labels, integers of shape (n,)."""
        ...

    def predict(self, X: Any) -> Any:
        """Return one label for each record."""
        ...


class Linear:
    """This program's own classifier: the exact minimiser of the study's loss, or of the softmax loss for named classes.

    Parameters
    ----------
    loss : str
        The study's.
    Lambda : float
        The study's regularization, > 0.
    classes : int or None
        The number of named classes; None for labels -1 and +1.
    """

    def __init__(self, loss: str, Lambda: float, classes: int | None) -> None:
        self._loss, self._Lambda, self._classes = loss, Lambda, classes
        self._w: _Array | None = None

    def fit(self, X: _Array, y: NDArray[np.int64]) -> "Linear":
        """Minimise the regularised risk on these records."""
        if self._classes is None:
            self._w = fit(X, y.astype(np.float64), self._Lambda, self._loss)
        else:
            self._w = fit_softmax(X, y, self._Lambda, classes=self._classes)
        return self

    def over(self, records: Records) -> "Linear":
        """Return a copy that has learned from records of two classes, wherever they lie."""
        learned = copy.copy(self)
        learned._w = fit_records(records, self._Lambda, self._loss)  # noqa: SLF001  its own copy
        return learned

    def predict(self, X: _Array) -> NDArray[Any]:
        """Return the labels that the classifier predicts.

        Raises
        ------
        ValueError
            It was not fitted before.
        """
        if self._w is None:
            raise ValueError("not yet fitted")
        return predict_labels(X, self._w) if self._classes is None else predict_classes(X, self._w)


def named(text: str) -> Classifier:
    """Make a scikit-learn classifier from its name, which may be followed by settings in brackets.

    Parameters
    ----------
    text : str
        For example "RandomForestClassifier(n_estimators=50)". ``SHORT_NAMES`` has short forms of some names. Values
        must be literals, and nothing else in the text is evaluated.

    Raises
    ------
    BadInput
        There is no such classifier or setting, a value is out of range, or the text has another form.
    """
    name, settings = _parsed(text)
    full = SHORT_NAMES.get(name, name)
    kind = _kind(full)
    if kind is None:
        near = difflib.get_close_matches(name, (*_all_kinds(), *SHORT_NAMES), n=1, cutoff=0.55)
        raise BadInput(f"scikit-learn has no classifier {name!r}", f"did you mean {near[0]!r}?" if near else _HOW)
    allowed = set(inspect.signature(kind).parameters) - {_SEED}
    for setting in settings:
        if setting == _SEED:
            raise BadInput(
                f"{_SEED} cannot be set, since this program draws the seed of {full} when it is trained",
                "leave the setting out",
            )
        if setting not in allowed:
            near = difflib.get_close_matches(setting, sorted(allowed), n=1, cutoff=0.55)
            hint = f"did you mean {near[0]!r}?" if near else f"its settings are {', '.join(sorted(allowed))}"
            raise BadInput(f"{full} has no setting {setting!r}", hint)
    try:
        classifier = kind(**settings)
        # Without this, scikit-learn would reject a wrong value in training only, where no error text may be shown.
        classifier._validate_params()  # noqa: SLF001  scikit-learn has no public name for it
    except (TypeError, ValueError) as error:
        raise BadInput(f"{full} does not accept these settings: {error}", "correct the settings") from error
    made: Classifier = classifier
    return made


def _parsed(text: str) -> tuple[str, dict[str, Any]]:
    """Split "Name(setting=literal, ...)" into the name and the settings."""
    wrong = BadInput(
        "a classifier must be a name, which may be followed by settings with plain values in brackets", _HOW
    )
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
def _kind(name: str) -> Any:
    """Return scikit-learn's class of this name; None if it has no such classifier."""
    from sklearn.base import ClassifierMixin

    for family in _FAMILIES:
        found = getattr(import_module(f"sklearn.{family}"), name, None)
        if isinstance(found, type) and issubclass(found, ClassifierMixin):
            return found
    return _all_kinds().get(name)


@cache
def _all_kinds() -> dict[str, Any]:
    from sklearn.utils import all_estimators

    return dict(all_estimators(type_filter="classifier"))


def classifier_of(given: object, default: Classifier) -> Classifier:
    """Return a party's classifier.

    Parameters
    ----------
    given : object
        The classifier itself, a name for :func:`named`, or None for the default.
    default : Classifier
        The classifier of a party that brings none.

    Raises
    ------
    BadInput
        The object has no method ``fit`` or no method ``predict``, or there is no classifier of this name.
    """
    if given is None:
        return default
    if isinstance(given, str):
        return named(given)
    missing = [method for method in ("fit", "predict") if not callable(getattr(given, method, None))]
    if missing or isinstance(given, type):
        seen = f"{_name(given)} is a class, not an object"
        if not isinstance(given, type):
            seen = f"is an object of type {_name(given)}, which has no method {missing[0]}"
        raise BadInput(f"the classifier {seen}", "give an object with the methods fit(X, y) and predict(X)")
    found: Classifier = given  # type: ignore[assignment]  # the two methods are there
    return found


def cast_votes(classifier: Classifier, data: Records, X_aux: _Array, rng: Rng) -> tuple[int, ...]:
    """Train a classifier on one party's records and let it label the auxiliary points: h_j(x_1), ..., h_j(x_N).

    A copy is trained, and the given object stays as it is. Every ``random_state`` of the copy is drawn from ``rng``, so
    that this is the classifier's only source of randomness. If all records are of one class, a classifier from outside
    this program is not asked, since most refuse to learn from one class. All votes are then for that class.

    Records are no reason to refuse, for a refusal would tell others something about them. So if the classifier fails on
    these records, but works with made-up labels of the auxiliary points, all votes are for the first class. A warning
    tells the party's owner, and nobody else.

    Parameters
    ----------
    classifier : Classifier
        Of any kind.
    data : Records
        The party's records. Only this program's own classifier of two classes can learn from some that are not in
        memory.
    X_aux : ndarray, shape (N, d)
        The auxiliary points.
    rng : Rng
        The only source of randomness.

    Returns
    -------
    tuple of int
        N class numbers, from 0 on in the study's order; 0 stands for the label -1, and 1 for +1.

    Raises
    ------
    BadInput
        It cannot learn from records that are not in memory. Or it raised an exception, voted for something that is not
        a class of the study, or did not return one vote for each point; and it did so with made-up labels of the
        auxiliary points as well.

    References
    ----------
    Hamm, Cao, Belkin 2016, section 3.1 and the first line of Algorithms 1 and 2.
    """
    labels = np.array((-1, 1)) if data.classes is None else np.arange(data.classes)
    if isinstance(classifier, Linear) and data.classes is None:
        return tuple(np.searchsorted(labels, classifier.over(data).predict(X_aux)).tolist())
    if not isinstance(data, Dataset):
        raise BadInput(
            f"the classifier {_name(classifier)} needs all records in memory; only the study's own classifier, for a "
            "label of two values, learns from a disk or a cluster",
            "leave --stream and --dask out, or --classifier",
        )
    y = data.y.astype(np.int64)
    seen = np.unique(y)
    if len(seen) == 1 and not isinstance(classifier, Linear):
        return (int(np.searchsorted(labels, seen[0])),) * len(X_aux)
    try:
        votes = _asked(classifier, data.matrix, y, X_aux, labels, rng)
    except BadInput as error:
        if not _works(classifier, X_aux, labels, rng):
            raise
        failed = error.message
    else:
        return tuple(np.searchsorted(labels, votes).tolist())
    warnings.warn(
        f"{failed}; all votes of this party are for the first class, and nobody else is told why", stacklevel=2
    )
    return (0,) * len(X_aux)


def _works(classifier: Classifier, X_aux: _Array, labels: Any, rng: Rng) -> bool:
    """Say whether a classifier can learn made-up labels of the auxiliary points, which everybody knows."""
    try:
        _asked(classifier, X_aux, np.resize(labels, len(X_aux)), X_aux, labels, rng)
    except BadInput:
        return False
    return True


def _asked(classifier: Classifier, X: _Array, y: Any, X_aux: _Array, labels: Any, rng: Rng) -> Any:
    """Train a copy, and return its votes as labels that were checked."""
    failed, known, votes = "", labels, labels
    try:
        student = _seeded(_untrained(classifier), rng)
        student.fit(np.array(X), np.array(y))
        known = np.ravel(np.asarray(getattr(student, "classes_", labels)))
        votes = np.asarray(student.predict(np.array(X_aux)))
    except MasqueradeError:
        raise
    except Exception as error:  # noqa: BLE001  a classifier from outside may raise anything
        failed = type(error).__name__
    # Raised outside the handler, so that the original error, which may show a record, is not attached to this one.
    if failed:
        raise BadInput(
            f"the classifier {_name(classifier)} raised {failed} when it was trained or asked",
            "run it alone on the same records to find the cause, or choose another classifier",
        )
    if not _among(known, labels):
        raise BadInput(
            f"the classifier {_name(classifier)} knows classes that are not the study's",
            f"it must learn the labels that it is given: {_listed(labels)}",
        )
    if votes.shape != (len(X_aux),):
        raise BadInput(
            f"the classifier {_name(classifier)} did not give one vote for each of {len(X_aux)} auxiliary points",
            "predict(X) must return one label for each row of X",
        )
    if not _among(votes, labels):
        raise BadInput(
            f"the classifier {_name(classifier)} voted for something that is not a class of the study",
            f"predict(X) must return the labels of the training: {_listed(labels)}",
        )
    return votes


def _untrained(classifier: Classifier) -> Any:
    """Return a copy to train: several parties may share one object, and none may learn from another's records."""
    if isinstance(classifier, Linear):
        return copy.copy(classifier)
    from sklearn.base import clone

    return clone(classifier, safe=False)  # a deep copy if it is not a classifier of scikit-learn


def _seeded(classifier: Any, rng: Rng) -> Any:
    """Draw every ``random_state`` of a classifier, also in the parts of a pipeline."""
    if hasattr(classifier, "get_params") and hasattr(classifier, "set_params"):
        settings = sorted(name for name in classifier.get_params(deep=True) if name.split("__")[-1] == _SEED)
        return classifier.set_params(**{name: rng.bits(_SEED_BITS) for name in settings})
    if hasattr(classifier, _SEED):
        classifier.random_state = rng.bits(_SEED_BITS)
    return classifier


def _among(values: Any, labels: Any) -> bool:
    """Return whether all values are numbers among the labels."""
    return values.dtype.kind in "iuf" and bool(np.isin(values, labels).all())


def _listed(labels: Any) -> str:
    return listed([str(label) for label in labels.tolist()])


def _name(classifier: object) -> str:
    return classifier.__name__ if isinstance(classifier, type) else type(classifier).__name__
