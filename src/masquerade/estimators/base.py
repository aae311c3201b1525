"""The common base of all estimators: a fit is a simulation of a study that is made of the estimator's settings."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self
from warnings import warn

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax, softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from masquerade.estimators.accounts import debits_of
from masquerade.estimators.dealing import by_label, deal, rng_of, study_names
from masquerade.estimators.family import Family, warn_of_a_search
from masquerade.estimators.labels import label_of, targets_of
from masquerade.estimators.ranges import features_of
from masquerade.estimators.records import Records, read_records
from masquerade.estimators.studies import AUXILIARY_FILE, Penalty, Public, Shape, draft_of, parsed, write_new
from masquerade.estimators.units import in_units
from masquerade.estimators.warned import PrivacyLeakWarning, refuse_weights, refusing
from masquerade.simulation import WATERMARK, Simulation, simulate
from masquerade_core.data.schema import Covariates, Dataset, Encoder
from masquerade_core.learning.losses import LOGISTIC
from masquerade_core.model import scores_of
from masquerade_core.study import Feature, Label, Study
from masquerade_protocols import entry_named

__all__ = ["SimulatedClassifier"]

_Array = NDArray[Any]


def _has_probabilities(estimator: "SimulatedClassifier") -> bool:
    if estimator.loss == LOGISTIC.name:
        return True
    raise AttributeError(
        f'a model learned with loss="{estimator.loss}" has no probabilities; use decision_function, or loss="logistic"'
    )


@dataclass(eq=False, repr=False, kw_only=True)
class SimulatedClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn ships no types
    """A protocol or a baseline as a scikit-learn classifier. Every ``fit`` is a simulation: not a private release.

    One process sees all records. What it learns has the noise that a run between machines would have had. Errors about
    records or settings are ``ValueError``.

    Parameters
    ----------
    epsilon, delta : float
        The privacy target of one fit.
    n_parties : int
        To how many parties the records are dealt at random, where ``fit`` gets no ``parties``.
    bounds : pair or mapping, optional
        The public bounds of columns of numbers: a pair (low, high), each a number or a list with one for each column;
        or a pair for each column's name. Left out, they are read off the records, with a :class:`PrivacyLeakWarning`.
    levels : mapping, optional
        The public levels of columns of categories, by the column's name; read off the records where left out.
    regularization : float, optional
        Lambda of the penalty (Lambda/2) |w|^2 on the mean loss. ``LogisticRegression`` has C = 1/(n Lambda). Left out,
        it follows from the numbers that each class names; without such a rule it is that of a new study.
    loss : {"logistic", "smoothed-hinge", "sigmoid"}
        Only the logistic one has ``predict_proba``.
    intercept : bool
        Whether records get a constant coordinate. It is penalised like the others.
    calibration : {"proven", "paper"}, optional
        As much noise as a proof needs, or that of the protocol's paper. Left out, the first where there is a proof.
    colluders : int, optional
        How many parties may side with the curator; as in a new study if left out.
    min_records : int, optional
        The public fewest records of a party. Left out, the number that the smallest party has.
    expected_records : int, optional
        How many records all parties are expected to have. Some protocols choose their rounds by it.
    out_of_bounds : {"clamp", "refuse"}
        Whether a number outside its bounds moves to the nearer one, or is an error.
    random_state : int, RandomState or None
        An int is the simulation's seed. Without one, the randomness is the operating system's.

    Attributes
    ----------
    classes_ : ndarray
    n_features_in_, feature_names_in_
        As in scikit-learn.
    statement_ : list of dict
        The rows of the privacy statement, as ``masquerade statement`` has them.
    ledger_ : dict of str to Debits
        What the fit would have debited of each party's privacy budget.
    study_ : Study
        What was simulated.
    simulation_ : Simulation
        The outcome.
    weights_ : ndarray, shape (1 or C, d)
        In the order of ``study_.coordinates``; of a regression, in that of ``study_.covariates``.
    coef_, intercept_ : ndarray, shape (1 or C, p) and (1 or C,)
        The same weights in the columns' own units, without the constant coordinate. A column of numbers has one
        coefficient, a column of categories one for each level, so p is ``n_features_in_`` where all are numbers.
    parties_ : ndarray of str, shape (n,)
        Each record's party, by its name in the study.
    party_labels_ : dict of str to str
        The label that ``fit`` got for each of these names.
    """

    epsilon: float = 1.0
    delta: float = 1e-6
    n_parties: int = 5
    bounds: Any = None
    levels: Any = None
    regularization: float | None = None
    loss: str = "logistic"
    intercept: bool = True
    calibration: str | None = None
    colluders: int | None = None
    min_records: int | None = None
    expected_records: int | None = None
    out_of_bounds: str = "clamp"
    random_state: Any = None

    _protocol: ClassVar[str]
    _section: ClassVar[tuple[str, ...]] = ()
    """Which parameters stand in the study's ``[protocol]``."""

    _penalty: ClassVar[Penalty | None] = None
    """How Lambda follows where ``regularization`` is None; that of a new study where this is None too."""

    _several: ClassVar[bool] = False
    """Whether it learns more than two classes."""

    _noisy: ClassVar[bool] = True
    """Whether noise may spoil the model: then scikit-learn's checks ask for no good scores."""

    def fit(self, X: Any, y: Any = None, parties: Any = None, n_parties: int | None = None, **others: Any) -> Self:
        """Simulate the protocol on these records.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame, shape (n, d)
            A frame is one of pandas or Polars, or a table of pyarrow. Its columns of text, categories and truth values
            are categories. Missing numbers are refused.
        y : array-like, shape (n,)
            Labels. The larger of two counts as positive.
        parties : array-like, shape (n,), optional
            The owner of each record. Left out, the records are dealt at random.
        n_parties : int, optional
            To how many parties they are dealt; the parameter of this name if None.
        **others
            Nothing else is taken; ``sample_weight`` is refused with the reason.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            The records or the settings cannot be used as they are.
        """
        refuse_weights(others)
        name = getattr(y, "name", None)
        records = read_records(self, X, y, fitting=True)
        seed = self._seed()
        with refusing():
            self._fit(records, str(name or "label"), parties, n_parties, seed)
        return self

    def _fit(self, records: Records, label_name: str, parties: Any, n_parties: int | None, seed: int | None) -> None:
        entry = entry_named(self._protocol)
        features, leaks = features_of(records, self.bounds, self.levels)
        classes, y, label, more = self._targets(records, label_name, features)
        leaks += more
        self._warn_of_leaks(leaks)
        if parties is None:
            labels, owners = deal(records.n, self.n_parties if n_parties is None else n_parties, rng_of(seed, "deal"))
        else:
            labels, owners = by_label(records.n, parties)
        names = study_names(labels)
        rows = [np.flatnonzero(owners == j) for j in range(len(names))]
        public = self._public(features, seed)
        shape = Shape(
            features=features,
            label=label,
            parties=names,
            fewest=max(2, min(len(own) for own in rows)),
            records=records.n,
            auxiliary=None if public is None else public.named,
        )
        text = self._study_text(shape)
        study = parsed(text)
        coding = entry.records.coding
        X = Encoder.from_study(study, coding).encode(records.encodable(features))
        made = Covariates if coding == "treatment" else Dataset
        data = {name: made(X[own], y[own], study.classes) for name, own in zip(names, rows, strict=True)}
        family: Family = self.__dict__.setdefault("_family", Family())
        warn_of_a_search(family, type(self).__name__, study.privacy.epsilon, study.privacy.delta)
        own_classifiers = self._own_classifiers(names)
        auxiliary = None if public is None else public.records
        found = simulate(study, data, seed=seed, classifiers=own_classifiers, auxiliary=auxiliary)
        self.classes_ = classes
        self.simulation_: Simulation = found
        self.study_: Study = study
        self.statement_: list[dict[str, Any]] = found.result["statement"]
        self.ledger_ = debits_of(entry, study, found.debits)
        self.weights_ = np.array(found.model.weights).reshape(study.outputs, -1)
        self.parties_ = np.array(names)[owners]
        self.party_labels_ = dict(zip(names, labels, strict=True))
        self.watermark_ = WATERMARK
        self._shape, self._text, self._leaks = shape, text, leaks
        self._auxiliary_text = None if public is None else public.text

    def _targets(
        self, records: Records, name: str, features: tuple[Feature, ...]
    ) -> tuple[_Array, _Array, Label, tuple[str, ...]]:
        """Return the classes, the records' labels, the study's label, and what was read off the records for it."""
        classes, y = targets_of(records.y, self._protocol, several=self._several)
        return classes, y, label_of(name, classes, features), ()

    def _study_text(self, shape: Shape) -> str:
        settings = self.get_params(deep=False)
        section = {key: settings[key] for key in self._section}
        return draft_of(self._protocol, settings, section, shape, self._penalty).to_toml()

    def study_for(self, shape: Shape) -> Study:
        """Return the study that a fit with these settings would simulate, for records of this shape.

        Raises
        ------
        BadInput
            The settings do not fit together.
        """
        return parsed(self._study_text(shape))

    @property
    def shape(self) -> Shape:
        """The public shape of the records of ``fit``."""
        check_is_fitted(self)
        shape: Shape = self._shape
        return shape

    @property
    def coef_(self) -> _Array:
        """The coefficients, shape (1 or C, p): how far a score moves for one unit of a column, or for a level.

        A record's vector is divided by its length where that is more than 1. So a score is ``X @ coef_.T + intercept_``
        by this length, plus the offset that ``simulation_.model`` has with some protocols. Numbers outside their bounds
        count as the bounds.
        """
        return self._in_units()[0]

    @property
    def intercept_(self) -> _Array:
        """The same scores where every number is 0 and no level applies, shape (1 or C,)."""
        return self._in_units()[1]

    @property
    def coef_names_(self) -> list[str]:
        """The names of the coefficients: those of the columns, and ``column=level`` for categories."""
        check_is_fitted(self)
        return [name for feature in self.study_.features for name in feature.coordinates]

    def _in_units(self) -> tuple[_Array, _Array]:
        check_is_fitted(self)
        return in_units(self.weights_, self.study_.features, intercept=self.study_.model.intercept)

    def _seed(self) -> int | None:
        """Return the simulation's seed; None for the operating system's randomness."""
        state = self.random_state
        if state is None:
            return None
        if isinstance(state, int | np.integer):
            return int(state)
        return int(check_random_state(state).randint(2**31 - 1))

    def _warn_of_leaks(self, leaks: tuple[str, ...]) -> None:
        if leaks:
            warn(
                f"{' and '.join(leaks)} were read from the records. That is a separate release, which no epsilon "
                "covers. Between machines they are public constants of the study: give them as bounds= and levels=.",
                PrivacyLeakWarning,
                stacklevel=4,
            )

    def _public(self, features: tuple[Feature, ...], seed: int | None) -> Public | None:
        """Return the public records that the protocol learns from; None where it needs none."""
        del features, seed
        return None

    def _own_classifiers(self, names: tuple[str, ...]) -> Mapping[str, Any] | None:
        """Return the classifier of each party, where the protocol takes one."""
        del names
        return None

    def decision_function(self, X: Any) -> _Array:
        """Return each record's score, shape (n,); with more than two classes, one for each, shape (n, C).

        A record with a score above 0 belongs to ``classes_[1]``, or the largest of several wins.
        """
        check_is_fitted(self)
        records = read_records(self, X, fitting=False)
        study = self.study_
        with refusing():
            coding = entry_named(self._protocol).records.coding
            coordinates = Encoder.from_study(study, coding).encode(records.encodable(study.features))
        model = self.simulation_.model
        scores: _Array = scores_of(model, coordinates, study.classes)
        return scores if study.multiclass else scores - model.threshold

    def predict(self, X: Any) -> _Array:
        """Return each record's class."""
        scores = self.decision_function(X)
        chosen: _Array = self.classes_[(scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)]
        return chosen

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]  # scikit-learn ships no types
    def predict_proba(self, X: Any) -> _Array:
        """Return the probability of each class, in the order of ``classes_``, shape (n, C)."""
        scores = self.decision_function(X)
        if scores.ndim == 1:
            positive = 0.5 * (1 + np.tanh(scores / 2))
            return np.column_stack([1 - positive, positive])
        probabilities: _Array = softmax(scores, axis=1)
        return probabilities

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]  # scikit-learn ships no types
    def predict_log_proba(self, X: Any) -> _Array:
        """Return the logarithm of each class's probability, in the order of ``classes_``, shape (n, C).

        It is finite where the probability itself is rounded to 0.
        """
        scores = self.decision_function(X)
        if scores.ndim == 1:
            return np.column_stack([-np.logaddexp(0, scores), -np.logaddexp(0, -scores)])
        logarithms: _Array = log_softmax(scores, axis=1)
        return logarithms

    def to_study(self, path: Path | str | None = None) -> str:
        """Return the study that the same thing would be between machines, as commented TOML.

        ``masquerade study show`` explains it, and ``masquerade study new --like`` makes a new study of it, with the
        keys of real parties: those in this text belong to nobody. The bounds and levels in it are public then; they
        must not come from records.

        Parameters
        ----------
        path : path, optional
            A new file for the text. Public records that the study names are written beside it.

        Raises
        ------
        ValueError
            The file cannot be written.
        """
        check_is_fitted(self)
        head = f"# {WATERMARK}.\n# {type(self).__name__}.to_study() wrote this. Its keys belong to nobody.\n"
        head += "".join(f"# NOT PUBLIC: {leak} were read off the records.\n" for leak in self._leaks)
        text = head + self._text
        if path is not None:
            write_new(Path(path), text)
            if self._auxiliary_text is not None:
                write_new(Path(path).with_name(AUXILIARY_FILE), self._auxiliary_text)
        return text

    def save(self, directory: Path | str) -> None:
        """Write ``model.json`` and ``result.json``, each with a watermark; ``masquerade predict`` reads the model.

        Raises
        ------
        ValueError
            The directory holds results already, or cannot be used.
        """
        check_is_fitted(self)
        with refusing():
            self.simulation_.write(directory)

    def __sklearn_clone__(self) -> Self:
        twin: Self = super().__sklearn_clone__()
        family: Family = self.__dict__.setdefault("_family", Family())
        family.clones += 1
        twin._family = family
        return twin

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        return f"{super().__repr__(N_CHAR_MAX)}  # {WATERMARK}"

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = self._several
        tags.classifier_tags.poor_score = self._noisy
        tags.input_tags.sparse = True
        return tags

    def _more_tags(self) -> dict[str, Any]:
        """Return what scikit-learn 1.5 reads in the place of ``__sklearn_tags__``."""
        return {"binary_only": not self._several, "poor_score": self._noisy}
