"""Local classifiers: chosen by name, trained as a copy, seeded by the party, checked before anything is sent."""

from __future__ import annotations

import subprocess
import sys
import traceback
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils import all_estimators

from masquerade_core.data.schema import Dataset
from masquerade_core.errors import BadInput, RunFailed
from masquerade_core.learning import classifiers, erm
from masquerade_core.learning.classifiers import SHORT_NAMES, Linear, cast_votes, classifier_of, named
from masquerade_core.simulation_rng import SimulationRng
from tests.messages import raises, says
from tests.vote_helpers import Fixed, unit_rows, vote_data, vote_study

X_AUX = unit_rows(20, 4, 5)
BINARY = vote_data(vote_study(K=2))["p0"]
FOUR = vote_data(vote_study(K=2, classes=4), n=60)["p0"]


def _rng(seed: int = 1) -> SimulationRng:
    return SimulationRng(seed)


# --- Names -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("short", SHORT_NAMES)
def test_short_names_are_scikit_learn_s(short: str) -> None:
    assert type(named(short)).__name__ == SHORT_NAMES[short]


def test_every_name_means_what_scikit_learn_means_by_it() -> None:
    known = dict(all_estimators(type_filter="classifier"))
    others = {name for family in classifiers._FAMILIES for name in dir(import_module(f"sklearn.{family}"))}
    assert {name: classifiers._kind(name) for name in others | set(known)} == {
        **dict.fromkeys(others),
        **known,
    }


def test_a_frequent_name_loads_little_of_scikit_learn() -> None:
    code = (
        "import sys; from masquerade_core.learning.classifiers import named; named('forest'); named('svm'); "
        "print([name for name in ('gaussian_process', 'datasets') if f'sklearn.{name}' in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout == "[]\n"


def test_a_name_comes_with_literal_settings() -> None:
    forest: Any = named(" RandomForestClassifier(n_estimators=50, max_depth=None, criterion='entropy') ")
    assert (forest.n_estimators, forest.max_depth, forest.criterion) == (50, None, "entropy")
    machine: Any = named("svm(C=2.0, class_weight={-1: 1.0, 1: 2.5})")
    assert (machine.C, machine.class_weight) == (2.0, {-1: 1.0, 1: 2.5})
    assert named("tree(max_depth=3)").max_depth == 3  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("RandomForestClasifier", "no classifier 'RandomForestClasifier'", "did you mean 'RandomForestClassifier'?"),
        ("LinearRegression", "no classifier 'LinearRegression'", "LogisticRegression"),
        ("zzzzzz", "no classifier 'zzzzzz'", "write, for example, tree"),
        ("tree(max_deph=3)", "DecisionTreeClassifier has no setting 'max_deph'", "did you mean 'max_depth'?"),
        ("tree(qqqqqq=3)", "has no setting 'qqqqqq'", "its settings are ccp_alpha, "),
        ("forest(random_state=1)", "random_state cannot be set", "leave the setting out"),
        (
            "forest(n_estimators='many')",
            "RandomForestClassifier does not accept these settings: The 'n_estimators' parameter",
            "correct",
        ),
        ("forest(n_estimators=0)", "RandomForestClassifier does not accept these settings", "correct"),
        ("StackingClassifier", "StackingClassifier does not accept these settings", "correct"),
    ],
)
def test_a_classifier_or_setting_that_scikit_learn_does_not_have_is_refused(text: str, message: str, hint: str) -> None:
    with pytest.raises(BadInput) as caught:
        named(text)
    assert message in caught.value.message
    assert hint in caught.value.hint


@pytest.mark.parametrize(
    "text",
    [
        "",
        "tree(",
        "__import__('os').system('true')",
        "tree(max_depth=__import__('os'))",
        "tree(max_depth=[1 for _ in 'a'])",
        "tree(3)",
        "tree(**{'max_depth': 3})",
        "tree(**settings)",
        "tree()()",
        "sklearn.tree.DecisionTreeClassifier()",
        "tree\nforest",
        "lambda: 1",
        "tree(max_depth=" + "9" * 600 + ")",
        "(" * 240 + "tree" + ")" * 240,
        "tree(class_weight={[]: 1})",
        "a\0b",
    ],
)
def test_a_name_is_a_name_and_nothing_is_evaluated(text: str) -> None:
    with raises(BadInput, "classifier_not_a_name"):
        named(text)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (object(), ("no_such_method", "object", "fit")),
        (StandardScaler(), ("no_such_method", "StandardScaler", "predict")),
        (SVC, ("classifier_is_a_class", "SVC")),
        (3, ("no_such_method", "int", "fit")),
    ],
)
def test_an_object_needs_fit_and_predict(given: object, message: tuple[str, ...]) -> None:
    with raises(BadInput, *message):
        classifier_of(given, Linear("logistic", 0.1, None))


def test_the_default_is_the_program_s_own() -> None:
    own = Linear("logistic", 0.1, None)
    assert classifier_of(None, own) is own
    assert isinstance(classifier_of("svm", own), SVC)


# --- Votes -----------------------------------------------------------------------------------------


def test_votes_are_the_predictions_of_the_classifier_alone() -> None:
    for kind in (DecisionTreeClassifier(max_depth=2, random_state=0), SVC(), LogisticRegression()):
        alone = kind.fit(BINARY.X, BINARY.y).predict(X_AUX)
        assert cast_votes(kind, BINARY, X_AUX, _rng()) == tuple((alone > 0).astype(int))
        alone = kind.fit(FOUR.X, FOUR.y).predict(X_AUX)
        assert cast_votes(kind, FOUR, X_AUX, _rng()) == tuple(alone.astype(int))
        assert len(set(alone)) > 1


@pytest.mark.parametrize("data", [BINARY, FOUR])
def test_the_own_classifier_votes_as_scikit_learn_s_exact_one(data: Dataset) -> None:
    oracle = LogisticRegression(C=1 / (0.01 * len(data.y)), fit_intercept=False, tol=1e-10, max_iter=10_000)
    expected = oracle.fit(data.X, data.y).predict(X_AUX)
    votes = cast_votes(Linear("logistic", 0.01, data.classes), data, X_AUX, _rng())
    assert votes == tuple((np.maximum(expected, 0)).astype(int))


def test_randomness_comes_from_the_partys_source_alone() -> None:
    forest = named("forest(n_estimators=3)")
    points = unit_rows(300, 4, 6)
    by_seed = [cast_votes(forest, BINARY, points, _rng(seed)) for seed in (1, 1, 2, 3)]
    assert by_seed[0] == by_seed[1]
    assert len(set(by_seed)) == 3
    pipeline = make_pipeline(StandardScaler(), DecisionTreeClassifier(max_features=1, splitter="random"))
    nested = [cast_votes(pipeline, BINARY, points, _rng(seed)) for seed in (1, 1, 2, 3)]
    assert nested[0] == nested[1]
    assert len(set(nested)) == 3


def test_an_object_with_an_attribute_random_state_gets_one_too() -> None:
    class Homemade(Fixed):
        random_state = 0

        def predict(self, X: Any) -> Any:
            return np.where(np.random.default_rng(self.random_state).random(len(X)) < 0.5, -1, 1)

    votes = [cast_votes(Homemade(None), BINARY, X_AUX, _rng(seed)) for seed in (1, 1, 2)]
    assert votes[0] == votes[1] != votes[2]


def test_the_given_object_is_left_untrained() -> None:
    """Several parties may share one object, and none may learn from another's records."""
    tree = DecisionTreeClassifier()
    homemade = Fixed([1] * 20)
    for kind in (tree, homemade):
        before = dict(vars(kind))
        cast_votes(kind, BINARY, X_AUX, _rng())
        assert vars(kind) == before


def test_a_classifier_cannot_change_the_records() -> None:
    class Scribbler(Fixed):
        def fit(self, X: Any, y: Any) -> None:
            X[:], y[:] = 0, 1

        def predict(self, X: Any) -> Any:
            X[:] = 0
            return np.ones(len(X), dtype=int)

    data, points = Dataset(BINARY.X.copy(), BINARY.y.copy()), X_AUX.copy()
    cast_votes(Scribbler(None), data, points, _rng())
    assert (data.X == BINARY.X).all()
    assert (data.y == BINARY.y).all()
    assert (points == X_AUX).all()


@pytest.mark.parametrize("label", [-1.0, 1.0])
def test_where_there_is_one_class_a_foreign_classifier_is_not_asked(label: float) -> None:
    data = Dataset(BINARY.X, np.full(len(BINARY.y), label))
    assert cast_votes(LogisticRegression(), data, X_AUX, _rng()) == (int(label > 0),) * 20
    third = Dataset(FOUR.X, np.full(len(FOUR.y), 2.0), 4)
    assert cast_votes(named("svm"), third, X_AUX, _rng()) == (2,) * 20
    assert set(cast_votes(Linear("logistic", 0.1, 4), third, X_AUX, _rng())) <= {0, 1, 2, 3}


GOOD = np.array([-1, 1] * 10)


@pytest.mark.parametrize(
    ("votes", "message"),
    [
        (GOOD * 2, ("vote_for_no_class", "Fixed")),
        (np.zeros(20), ("vote_for_no_class", ...)),
        (GOOD + 0.5, ("vote_for_no_class", ...)),
        (np.full(20, np.nan), ("vote_for_no_class", ...)),
        (np.array(["1"] * 20), ("vote_for_no_class", ...)),
        (np.array([None] * 20), ("vote_for_no_class", ...)),
        (np.array([True] * 20), ("vote_for_no_class", ...)),
        (GOOD[:-1], ("not_one_vote_each", 20)),
        (GOOD[:, None], ("not_one_vote_each", ...)),
        (1, ("not_one_vote_each", ...)),
    ],
)
def test_votes_for_anything_else_are_refused(votes: Any, message: str) -> None:
    assert cast_votes(Fixed(GOOD), BINARY, X_AUX, _rng()) == (0, 1) * 10
    with raises(BadInput, *message):
        cast_votes(Fixed(votes), BINARY, X_AUX, _rng())


@pytest.mark.parametrize("classes", [[-1, 0, 1], ["a", "b"], [0, 1, 2]])
def test_a_classifier_of_other_classes_is_refused(classes: Any) -> None:
    with raises(BadInput, "classifier_classes_differ", "Fixed"):
        cast_votes(Fixed(GOOD, classes), BINARY, X_AUX, _rng())
    assert cast_votes(Fixed(GOOD, [1, -1]), BINARY, X_AUX, _rng())
    with raises(BadInput, "classifier_classes_differ", ...) as caught:
        cast_votes(Fixed(np.zeros(20), [0, 4]), FOUR, X_AUX, _rng())
    assert "0, 1, 2 and 3" in caught.value.hint


@pytest.mark.parametrize("method", ["fit", "predict"])
def test_an_exception_is_told_by_its_type_and_never_by_its_text(method: str) -> None:
    class Loud(Fixed):
        def fit(self, X: Any, y: Any) -> None:
            if method == "fit":
                raise ValueError(f"cannot learn from {X[0]} secret")

        def predict(self, X: Any) -> Any:
            raise KeyError("secret")

    with pytest.raises(BadInput) as caught:
        cast_votes(Loud(None), BINARY, X_AUX, _rng())
    kind = "ValueError" if method == "fit" else "KeyError"
    assert says(caught.value.message, "classifier_raised", "Loud", kind)
    assert "secret" not in "".join(traceback.format_exception(caught.value))
    assert caught.value.__context__ is None


class Picky(Fixed):
    """A classifier that fails on the records of one party."""

    def fit(self, X: Any, y: Any) -> None:
        if len(X) == len(BINARY.y):
            raise ValueError(f"{X[0]} secret")


def test_a_classifier_that_fails_on_one_s_own_records_alone_is_no_reason_to_refuse() -> None:
    """A refusal would tell others of the records; the warning tells their owner."""
    assert len(BINARY.y) != len(X_AUX)
    with pytest.warns(UserWarning) as warned:  # noqa: PT030 - its sentences are looked at below
        assert cast_votes(Picky(GOOD), BINARY, X_AUX, _rng()) == (0,) * len(X_AUX)
    assert says(str(warned[0].message), "classifier_raised", "Picky", "ValueError")
    assert says(str(warned[0].message), "nobody_learns_why")
    assert "secret" not in str(warned[0].message)


def test_scikit_learn_s_own_errors_do_not_come_through() -> None:
    with raises(BadInput, "classifier_raised", "KNeighborsClassifier", "ValueError"):
        cast_votes(named("KNeighborsClassifier(n_neighbors=5000)"), BINARY, X_AUX, _rng())


def test_an_error_of_the_programs_own_classifier_comes_through(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(erm, "_MAX_STEPS", 0)
    with raises(RunFailed, "not_precise"):
        cast_votes(Linear("logistic", 0.1, None), BINARY, X_AUX, _rng())


def test_an_untrained_linear_classifier_does_not_predict() -> None:
    with raises(ValueError, "classifier_not_fitted"):
        Linear("logistic", 0.1, None).predict(X_AUX)
