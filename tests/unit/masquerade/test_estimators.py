"""Estimators: a fit is a simulation of a study, and nothing else."""

from __future__ import annotations

import json
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import masquerade
from masquerade.cli.study import show
from masquerade.estimators import (
    DPGLM,
    GOP,
    PSGD,
    Average,
    Batch,
    CentralDP,
    DPGradientDescent,
    DPWhitened,
    Individual,
    LocalAggregation,
    Pooled,
    PrivacyLeakWarning,
    SimulatedClassifier,
    SoftEnsemble,
    VoteEnsemble,
    WeightedDP,
)
from masquerade.estimators import records as reading
from masquerade.simulation import WATERMARK, load_split, simulate
from masquerade_core.data.pooling import pool
from masquerade_core.data.schema import MISSING_LEVEL, Encoder
from masquerade_core.simulation_rng import SimulationRng
from masquerade_core.study import Study
from masquerade_core.study_files import load_study
from masquerade_lab.baselines.gop import gop
from masquerade_protocols import entry_named, statement_of
from tests.ledger_helpers import RECORDS, budget
from tests.messages import raises, says, sentence
from tests.unit.masquerade.test_estimators_checks import ESTIMATORS

BOUNDS = {"age": (0.0, 100.0), "dose": (-1.0, 1.0)}
LEVELS = {"ward": ["east", "north", "west"]}


def _frame(n: int = 120, seed: int = 3) -> tuple[pd.DataFrame, pd.Series[Any], list[str]]:
    """Return records with numbers, categories and truth values, labels, and the label of each record's owner."""
    draw = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": draw.integers(20, 90, n),
            "dose": draw.uniform(-1.0, 1.0, n),
            "ward": draw.choice(LEVELS["ward"], n),
            "smokes": draw.random(n) < 0.4,
        }
    )
    score = frame["age"] / 50 - 1 + frame["dose"] + frame["smokes"] - 0.4
    y = pd.Series(np.where(score + draw.normal(0, 0.2, n) > 0, "yes", "no"), name="outcome")
    return frame, y, [f"site-{'abc'[j % 3]}" for j in range(n)]


def _numbers(n: int = 300, d: int = 3, seed: int = 1) -> tuple[Any, Any]:
    draw = np.random.default_rng(seed)
    X = draw.uniform(-1.0, 1.0, (n, d))
    return X, (X[:, 0] - 0.5 * X[:, 1] + draw.normal(0, 0.1, n) > 0).astype(int)


def _public(estimator: SimulatedClassifier, **more: Any) -> SimulatedClassifier:
    """Return the estimator with public bounds and levels for the frame above, so that it does not warn."""
    settings = estimator.get_params(deep=False) | {"bounds": BOUNDS, "levels": LEVELS, "random_state": 5, **more}
    return type(estimator)(**settings)


@cache
def _fit(estimator: SimulatedClassifier) -> SimulatedClassifier:
    """Fit it to the frame above, once for all tests."""
    X, y, parties = _frame()
    return _public(estimator).fit(X, y, parties=parties)


def _by_name(estimator: SimulatedClassifier) -> str:
    return type(estimator).__name__


# --- A fit is a simulation -------------------------------------------------------


@pytest.mark.parametrize("estimator", [*ESTIMATORS, LocalAggregation(calibration="paper", key_bits=512)], ids=_by_name)
def test_the_study_of_a_fit_simulated_from_a_file_gives_the_same_weights(
    estimator: SimulatedClassifier, tmp_path: Path
) -> None:
    X, y, parties = _frame()
    fitted = _fit(estimator)
    X.assign(outcome=y, site=parties).to_parquet(tmp_path / "records.parquet")
    fitted.to_study(tmp_path / "study.toml")
    study, auxiliary = load_study(tmp_path / "study.toml", in_memory=True)
    data = load_split(tmp_path / "records.parquet", study, "site")
    simulation = simulate(study, data, seed=5, auxiliary=auxiliary)
    assert simulation.model.weights == tuple(fitted.weights_.ravel())
    other = simulate(study, data, seed=6, auxiliary=auxiliary)
    tells_nothing = isinstance(estimator, DPGLM)  # of so few records, without a noisy sum
    assert (other.model.weights == simulation.model.weights) == (not fitted._noisy or tells_nothing)


@pytest.mark.filterwarnings("ignore::masquerade.estimators.SearchCostWarning")
def test_cross_val_score_is_what_simulations_of_the_folds_give() -> None:
    X, y = _numbers()
    parties = np.array([f"site-{j % 4}" for j in range(len(y))])
    folds = StratifiedKFold(3)
    estimator = DPGradientDescent(bounds=(-1, 1), epsilon=2.0, min_records=40, random_state=11)
    scores = cross_val_score(estimator, X, y, cv=folds, params={"parties": parties})
    study = Study.parse(clone(estimator).fit(X, y, parties=parties).to_study(), in_memory=True)
    encoder = masquerade_encoder(study)
    expected = []
    for train, test in folds.split(X, y):
        data = {
            name: masquerade.Dataset(encoder(X[own]), np.where(y[own] == 1, 1.0, -1.0))
            for name in study.names
            for own in [train[parties[train] == name]]
        }
        tests = masquerade.Dataset(encoder(X[test]), np.where(y[test] == 1, 1.0, -1.0))
        expected.append(1 - simulate(study, data, seed=11, test=tests).result["metrics"]["test_error"])
    assert scores.tolist() == pytest.approx(expected, abs=1e-15)
    assert len(set(expected)) > 1


def masquerade_encoder(study: Study) -> Any:
    encoder = Encoder.from_study(study)
    return lambda X: encoder.encode(dict(zip(encoder.columns, X.T, strict=True)))


def test_gop_is_the_baseline_under_the_same_seed() -> None:
    X, y, parties = _frame()
    fitted = _public(GOP()).fit(X, y, parties=parties)
    data = _datasets(fitted, X, y)
    expected = gop(fitted.study_, pool(fitted.study_, data), SimulationRng(5, "gop"))
    assert fitted.weights_[0].tolist() == expected.tolist()


def _datasets(fitted: SimulatedClassifier, X: pd.DataFrame, y: Any) -> dict[str, Any]:
    study = fitted.study_
    columns = {name: X[name].to_numpy() for name in X.columns}
    Z, target = Encoder.from_study(study).encode(columns), np.where(y == fitted.classes_[1], 1.0, -1.0)
    return {
        name: masquerade.Dataset(Z[rows], target[rows]) for name in study.names for rows in [fitted.parties_ == name]
    }


# --- Against scikit-learn's own logistic regression --------------------------------

# The largest epsilon that the proofs' small noise allows beside delta = 1e-6 is 74.2.
LAMBDA = 0.1


def _logistic(X: Any, y: Any) -> Any:
    """Return scikit-learn's weights for the objective that a study with Lambda = 0.1 has."""
    oracle = LogisticRegression(C=1 / (len(y) * LAMBDA), fit_intercept=False, tol=1e-10, max_iter=5000)
    return oracle.fit(X, y).coef_[0]


@pytest.mark.parametrize(
    ("estimator", "tolerance"),
    [
        (Pooled(), 1e-6),
        (Batch(), 1e-6),
        (GOP(epsilon=1e6, calibration="paper"), 1e-3),
        (CentralDP(epsilon=74, rounds=400, learning_rate=2.0), 0.05),
        (PSGD(epsilon=1e3, calibration="paper", rounds=100), 0.05),
        (DPGradientDescent(epsilon=74, rounds=60, clip=1.0, learning_rate=4.0), 0.05),
    ],
    ids=lambda value: _by_name(value) if isinstance(value, SimulatedClassifier) else "",
)
def test_at_a_huge_epsilon_a_classifier_of_all_records_is_scikit_learns(
    estimator: SimulatedClassifier, tolerance: float
) -> None:
    X, y, parties = _frame(1500)
    fitted = _public(estimator, regularization=LAMBDA).fit(X, y, parties=parties)
    together = pool(fitted.study_, _datasets(fitted, X, y))
    expected = _logistic(together.X, together.y)
    assert fitted.weights_[0] == pytest.approx(expected, abs=tolerance)
    assert np.abs(expected).max() > 10 * tolerance


@pytest.mark.parametrize(
    ("estimator", "tolerance"),
    [
        (LocalAggregation(epsilon=74, key_bits=512), 8.5e-3),  # five times the sd of the noise on a weight
        (WeightedDP(epsilon=74, rounds=400, learning_rate=2.0), 0.05),
        (Average(epsilon=1e6), 1e-3),
    ],
    ids=lambda value: _by_name(value) if isinstance(value, SimulatedClassifier) else "",
)
def test_at_a_huge_epsilon_a_mean_of_classifiers_is_that_of_scikit_learns(
    estimator: SimulatedClassifier, tolerance: float
) -> None:
    X, y, parties = _frame(1500)
    fitted = _public(estimator, regularization=LAMBDA).fit(X, y, parties=parties)
    expected = np.mean([_logistic(own.X, own.y) for own in _datasets(fitted, X, y).values()], axis=0)
    assert fitted.weights_[0] == pytest.approx(expected, abs=tolerance)
    assert np.abs(expected).max() > 10 * tolerance


def test_at_a_huge_epsilon_votes_are_those_of_scikit_learns_classifiers() -> None:
    X, y, parties = _frame(1500)
    public, _, _ = _frame(200, seed=8)
    estimator = VoteEnsemble(epsilon=1e6, calibration="paper", auxiliary=public)
    fitted = _public(estimator, regularization=LAMBDA).fit(X, y, parties=parties)
    points = Encoder.from_study(fitted.study_).encode({name: public[name].to_numpy() for name in public.columns})
    local = [_logistic(own.X, own.y) for own in _datasets(fitted, X, y).values()]
    majority = np.sign(sum(np.sign(points @ w) for w in local))
    assert fitted.weights_[0] == pytest.approx(_logistic(points, majority), abs=5e-3)


def test_at_a_huge_epsilon_whitening_does_as_well_as_logistic_regression() -> None:
    X, y, parties = _frame(1500)
    fitted = _public(DPWhitened(epsilon=74)).fit(X, y, parties=parties)
    together = pool(fitted.study_, _datasets(fitted, X, y))
    best = LogisticRegression(C=1e4, max_iter=5000).fit(together.X, together.y).score(together.X, together.y)
    assert fitted.score(X, y) > best - 0.01 > 0.9


# --- In the columns' units ----------------------------------------------------------


@pytest.mark.parametrize("estimator", [Pooled(), Pooled(intercept=False), DPWhitened(), GOP(epsilon=9)], ids=_by_name)
def test_coefficients_in_the_columns_units_give_the_scores(estimator: SimulatedClassifier) -> None:
    X, y, parties = _frame()
    fitted = _public(estimator).fit(X, y, parties=parties)
    cells = {"age": X["age"], "dose": X["dose"]}
    cells |= {f"ward={level}": X["ward"] == level for level in LEVELS["ward"]}
    cells |= {f"smokes={level}": X["smokes"].astype(str).str.lower() == level for level in ("false", "true")}
    assert fitted.coef_names_ == list(cells)
    scores = pd.DataFrame(cells).to_numpy(dtype=float) @ fitted.coef_.T + fitted.intercept_
    # age and dose lie between -1 and 1, a ward and an answer are 1, and so is the constant.
    squares = ((X["age"] - 50) / 50) ** 2 + X["dose"] ** 2 + 2 + fitted.intercept
    offset = np.array(fitted.simulation_.model.offset or (0.0,))
    expected = scores / np.sqrt(squares.to_numpy())[:, None] + offset
    assert expected[:, 0] == pytest.approx(fitted.decision_function(X), abs=1e-12)
    assert fitted.coef_.shape == (1, 7)
    assert fitted.intercept_.shape == (1,)


def test_each_class_has_coefficients_for_each_column() -> None:
    X, y = _numbers(600)
    three = np.array(["low", "middle", "high"])[y + (X[:, 0] > 0.5)]
    fitted = Pooled(bounds=(-4, 2)).fit(X, three)
    scores = X @ fitted.coef_.T + fitted.intercept_
    assert (fitted.coef_.shape, fitted.intercept_.shape) == ((3, fitted.n_features_in_), (3,))
    assert fitted.classes_[scores.argmax(axis=1)].tolist() == fitted.predict(X).tolist()


def test_coefficients_of_short_records_are_scikit_learns() -> None:
    X, y = _numbers(400)
    short = X / 2  # no record is longer than 1, so that none is divided by its length
    ours = Pooled(bounds=(-1, 1), intercept=False).fit(short, y)
    Lambda = ours.study_.model.regularization
    theirs = LogisticRegression(C=1 / (len(y) * Lambda), fit_intercept=False, tol=1e-10, max_iter=5000).fit(short, y)
    assert ours.coef_ == pytest.approx(theirs.coef_, rel=1e-4)
    assert ours.intercept_.tolist() == [0.0]


# --- Columns, owners and labels ----------------------------------------------------


def test_columns_in_another_order_are_refused_as_scikit_learn_does() -> None:
    X, y, _ = _frame()
    fitted = _public(Pooled()).fit(X, y)
    with pytest.raises(ValueError, match="feature names should match"):
        fitted.predict(X[["dose", "age", "ward", "smokes"]])


def test_columns_of_nullable_numbers_and_of_categories_are_read() -> None:
    X, y, parties = _frame()
    typed = X.assign(age=X["age"].astype("Int64"), ward=X["ward"].astype("category"))
    assert _weights(typed, y, parties) == _weights(X, y, parties)
    typed.loc[3, "age"] = pd.NA
    with pytest.raises(ValueError, match="contains NaN"):
        _weights(typed, y, parties)


def _weights(X: Any, y: Any, parties: Any) -> Any:
    return _public(Pooled()).fit(X, y, parties=parties).weights_.tolist()


def test_a_column_of_text_alone_is_read_as_one_with_a_missing_cell_is() -> None:
    text = ["b", "", "a b", " ", "1.0"]
    alone, beside = (reading._cells("x", np.array(cells, dtype=object)) for cells in (text, [*text, None]))
    assert [*alone, MISSING_LEVEL] == beside == ["b", MISSING_LEVEL, "a b", " ", "1.0", MISSING_LEVEL]


def test_a_table_of_pyarrow_gives_the_model_of_the_frame() -> None:
    X, y, parties = _frame()
    table = pa.Table.from_pandas(X, preserve_index=False)
    coded = table.set_column(2, "ward", table["ward"].dictionary_encode())
    frame = _public(Pooled()).fit(X, y, parties=parties)
    for records in (table, coded):
        fitted = _public(Pooled()).fit(records, pa.array(list(y)), parties=pa.array(parties))
        assert fitted.weights_.tolist() == frame.weights_.tolist()
        assert fitted.predict(records).tolist() == frame.predict(X).tolist()
        assert list(fitted.feature_names_in_) == list(X.columns)
    with pytest.raises(ValueError, match="feature names should match"):
        frame.predict(table.select(["dose", "age", "ward", "smokes"]))
    missing = table.set_column(0, "age", pa.array([None, *X["age"].tolist()[1:]]))
    with pytest.raises(ValueError, match="contains NaN"):
        frame.predict(missing)


def test_weights_of_records_are_refused_with_the_reason() -> None:
    X, y = _numbers(60)
    with raises(ValueError, "weights_of_records"):
        Pooled(bounds=(-1, 1)).fit(X, y, sample_weight=np.ones(60))
    Pooled(bounds=(-1, 1)).fit(X, y, sample_weight=None)
    with pytest.raises(TypeError, match="unexpected keyword argument 'weights'"):
        Pooled(bounds=(-1, 1)).fit(X, y, weights=np.ones(60))


def test_an_unknown_level_counts_as_the_missing_one_and_with_refuse_it_is_an_error() -> None:
    X, y, _ = _frame()
    levels = {"ward": [*LEVELS["ward"], "?"]}
    other, missing = X.assign(ward="south"), X.assign(ward=None)
    fitted = Pooled(bounds=BOUNDS, levels=levels).fit(X, y)
    assert fitted.decision_function(other).tolist() == fitted.decision_function(missing).tolist()
    some = X.assign(ward=X["ward"].where(X["ward"] != "west"))  # pandas has NaN for missing text
    with pytest.warns(PrivacyLeakWarning) as warned:
        read_off = Pooled(bounds=BOUNDS).fit(some, y)
    assert says(str(warned[0].message), "read_from_records", sentence("what_was_read", "levels", "'ward'"))
    assert read_off.study_.features[2].levels == ("?", "east", "north")
    strict = Pooled(bounds=BOUNDS, levels=levels, out_of_bounds="refuse").fit(X, y)
    with raises(ValueError, "unknown_level"):
        strict.predict(other)


def test_a_number_may_be_a_category() -> None:
    X, y = _numbers()
    X[:, 2] = np.round(X[:, 2])
    fitted = Pooled(bounds={"x0": (-1, 1), "x1": (-1, 1)}, levels={"x2": [-1, 0, 1]}).fit(X, y)
    assert fitted.study_.coordinates[2:5] == ("x2=-1.0", "x2=0.0", "x2=1.0")
    assert 0.0 not in fitted.weights_[0, 2:5]
    whole = np.round(X[:5] * 0).astype(int)
    assert fitted.predict(whole).tolist() == fitted.predict(whole.astype(float)).tolist()


@pytest.mark.parametrize("values", [(0, 1), (0.0, 1.0), (False, True), ("no", "yes")])
def test_labels_read_back_from_a_file_are_the_same_labels(values: tuple[Any, Any], tmp_path: Path) -> None:
    X, y = _numbers(60)
    labels, parties = np.array(values)[y], np.array(["a", "b"])[np.arange(60) % 2]
    fitted = Pooled(bounds=(-1, 1)).fit(X, labels, parties=parties)
    frame = pd.DataFrame(X, columns=["x0", "x1", "x2"]).assign(label=labels, site=parties)
    frame.to_parquet(tmp_path / "records.parquet")
    data = load_split(tmp_path / "records.parquet", fitted.study_, "site")
    assert simulate(fitted.study_, data).model.weights == tuple(fitted.weights_[0])


def test_a_date_is_refused_by_name() -> None:
    X, y, _ = _frame()
    with raises(ValueError, "dates_not_read", "'seen'"):
        _public(Pooled()).fit(X.assign(seen=pd.Timestamp("2020-01-01")), y)


@pytest.mark.parametrize("form", [sparse.csr_matrix, sparse.csc_array, sparse.coo_array])
def test_sparse_records_give_the_model_of_dense_ones(form: Any) -> None:
    X, y = _numbers()
    X[np.abs(X) < 0.5] = 0.0
    dense, thin = (Pooled(bounds=(-1, 1), random_state=1).fit(records, y) for records in (X, form(X)))
    assert thin.weights_.tolist() == dense.weights_.tolist()
    assert thin.predict(form(X)).tolist() == dense.predict(X).tolist()


def test_sparse_records_that_would_fill_the_memory_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = _numbers(100)
    monkeypatch.setattr(reading, "MOST_CELLS", 299)
    with raises(ValueError, "sparse_too_large", 100, 3, 300):
        Pooled(bounds=(-1, 1)).fit(sparse.csr_matrix(X), y)


def test_labels_of_owners_become_names_that_a_study_allows() -> None:
    X, y = _numbers(40)
    labels = np.array(["St. Anna", "st-anna", "charlie", "42"] * 10)
    fitted = Pooled(bounds=(-1, 1)).fit(X, y, parties=labels)
    assert fitted.party_labels_ == {"42": "42", "st-anna-2": "St. Anna", "charlie-2": "charlie", "st-anna": "st-anna"}
    assert [fitted.party_labels_[name] for name in fitted.parties_] == labels.tolist()


def test_records_are_dealt_evenly_and_by_the_seed() -> None:
    X, y = _numbers(101)
    fits = [Pooled(bounds=(-1, 1), random_state=seed).fit(X, y, n_parties=4) for seed in (1, 1, 2)]
    first, again, other = (fit.parties_.tolist() for fit in fits)
    assert sorted(np.unique(first, return_counts=True)[1]) == [25, 25, 25, 26]
    assert first == again
    assert first != other
    assert first[:8] != sorted(first[:8])


def test_several_classes_are_learned_where_the_protocol_can() -> None:
    X, y = _numbers(600)
    three = np.array(["low", "middle", "high"])[y + (X[:, 0] > 0.5)]
    for kind in (DPWhitened, Individual):
        fitted = kind(bounds=(-1, 1), epsilon=10.0, random_state=1).fit(X, three)
        probabilities = fitted.predict_proba(X)
        assert probabilities.sum(axis=1) == pytest.approx(1.0)
        assert fitted.score(X, three) > 0.75
        assert fitted.study_.label.classes == ("high", "low", "middle")
    with raises(ValueError, "only_binary"):
        DPGradientDescent(bounds=(-1, 1)).fit(X, three)


def test_only_the_logistic_loss_has_probabilities() -> None:
    X, y = _numbers()
    assert hasattr(Pooled(), "predict_proba")
    hinge = Pooled(loss="smoothed-hinge", bounds=(-1, 1)).fit(X, y)
    assert not hasattr(hinge, "predict_proba")
    assert hinge.score(X, y) > 0.9


def test_logarithms_of_probabilities_are_finite_where_the_probabilities_are_rounded_to_zero() -> None:
    X, y = _numbers(600)
    three = np.array(["low", "middle", "high"])[y + (X[:, 0] > 0.5)]
    for labels in (y, three):
        fitted = Pooled(bounds=(-1, 1)).fit(X, labels)
        assert np.exp(fitted.predict_log_proba(X)) == pytest.approx(fitted.predict_proba(X), abs=1e-12)
        fitted.simulation_.model.__dict__["weights"] = tuple(1e4 * fitted.weights_.ravel())
        assert (fitted.predict_proba(X) == 0).any()
        assert np.isfinite(fitted.predict_log_proba(X)).all()
    assert not hasattr(Pooled(loss="smoothed-hinge"), "predict_log_proba")


def test_each_party_may_vote_with_any_classifier() -> None:
    X, y = _numbers(400)
    ring = (np.linalg.norm(X[:, :2], axis=1) > 0.75).astype(int)
    settings: dict[str, Any] = {"bounds": (-1, 1), "epsilon": 20.0, "random_state": 1, "n_parties": 3}
    tree, linear = (SoftEnsemble(local_classifier=local, **settings).fit(X, ring) for local in ("tree", None))
    assert tree.weights_.tolist() != linear.weights_.tolist()
    assert clone(SoftEnsemble(local_classifier=LogisticRegression(C=3.0))).get_params()["local_classifier__C"] == 3.0
    del y


# --- Bounds, and what leaks --------------------------------------------------------


def test_bounds_that_are_read_off_the_records_are_said_loudly() -> None:
    X, y, _ = _frame()
    bounds, levels = sentence("what_was_read", "bounds", "'age', 'dose'"), sentence("what_was_read", "levels", "'ward'")
    with pytest.warns(PrivacyLeakWarning) as warned:
        fitted = Pooled().fit(X, y)
    assert says(str(warned[0].message), "read_from_records", f"{bounds} and {levels}")
    age = fitted.study_.features[0]
    assert (age.min, age.max) == (X["age"].min(), X["age"].max())
    assert says(fitted.to_study(), "read_off_records", bounds)
    with pytest.warns(PrivacyLeakWarning) as warned:
        Pooled(bounds=BOUNDS).fit(X, y)
    assert str(warned[0].message).startswith(sentence("read_from_records", levels))


def test_public_bounds_are_no_leak_and_may_be_given_in_three_forms() -> None:
    X, y = _numbers()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        forms: list[Any] = [(-1, 1), ([-1, -1, -1], [1, 1, 1]), {"x0": (-1, 1), "x1": (-1, 1), "x2": (-1, 1)}]
        fits = [Pooled(bounds=bounds, random_state=1).fit(X, y).weights_.tolist() for bounds in forms]
    assert fits[0] == fits[1] == fits[2]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"bounds": 3}, ("bounds_neither",)),
        ({"bounds": (1, 0)}, ("min_not_smaller", "1.0", "0.0")),
        ({"bounds": ([0, 0], [1, 1])}, ("bounds_of_other_length", 3)),
        ({"bounds": {"x9": (0, 1)}}, ("unknown_columns", "bounds", "'x9'", "'x0', 'x1', 'x2'")),
        ({"levels": {"x9": ["a"]}}, ("unknown_columns", "levels", "'x9'", ...)),
        ({"epsilon": -1.0}, ("key_out_of_range", "[privacy] epsilon", "-1.0", "greater than", 0)),
        ({"epsilon": "1"}, ("setting_no_number", "epsilon", "'1'")),
        ({"epsilon": float("inf")}, ("setting_not_finite", "epsilon", "inf")),
        ({"epsilon": float("inf")}, ("noise_none_wanted",)),
        ({"regularization": float("nan")}, ("setting_not_finite", "regularization", "nan")),
        ({"calibration": "paper"}, ("no_such_calibration", "'paper'", "dp-gd")),
        ({"n_parties": 1}, ("one_party_alone", "dp-gd")),
        ({"n_parties": 0}, ("parties_not_counted", 0)),
        ({"n_parties": 200}, ("samples_too_few", 300, 200)),
        ({"min_records": 61}, ("fewer_than_min_records", ..., 61)),
        ({"rounds": 0}, ("key_out_of_range", "[protocol] rounds", 0, "at least", 1)),
        ({"colluders": 5}, ("nobody_honest", 5, 4)),
    ],
)
def test_a_setting_that_cannot_be_is_a_value_error_with_a_sentence(
    settings: dict[str, Any], said: tuple[Any, ...]
) -> None:
    X, y = _numbers()
    with raises(ValueError, *said):
        DPGradientDescent(**{"bounds": (-1, 1), "random_state": 1, **settings}).fit(X, y)


def test_parties_must_be_one_label_for_each_record() -> None:
    X, y = _numbers(40)
    with raises(ValueError, "label_for_each_record", (3,), 40):
        Pooled(bounds=(-1, 1)).fit(X, y, parties=["a", "b", "c"])
    with raises(ValueError, "fewer_than_min_records", "the data of b", 2) as caught:
        Pooled(bounds=(-1, 1)).fit(X, y, parties=["a"] * 39 + ["b"])
    assert says(str(caught.value), "take_part_with_more")


# --- What is said of a fit ----------------------------------------------------------


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=_by_name)
def test_the_statement_is_that_of_the_study(estimator: SimulatedClassifier) -> None:
    fitted = _fit(estimator)
    study = Study.parse(fitted.to_study(), in_memory=True)
    assert fitted.statement_ == [claim.to_json() for claim in statement_of(study)]
    assert bool(fitted.statement_) == fitted._noisy


@pytest.mark.parametrize("estimator", [e for e in ESTIMATORS if not entry_named(e._protocol).baseline], ids=_by_name)
def test_a_party_can_read_the_study(estimator: SimulatedClassifier, tmp_path: Path) -> None:
    if isinstance(estimator, LocalAggregation):
        estimator = clone(estimator).set_params(key_bits=2048)  # shorter keys are for simulations alone
    fitted = _fit(estimator)
    fitted.to_study(tmp_path / "study.toml")
    outcome = show(tmp_path / "study.toml", state=tmp_path)
    assert outcome.data["n_parties"] == 3
    assert fitted.study_.for_network() == fitted.study_
    with raises(ValueError, "study_cannot_be_written", ..., "File exists"):
        fitted.to_study(tmp_path / "study.toml")


@pytest.mark.parametrize("estimator", [e for e in ESTIMATORS if not entry_named(e._protocol).baseline], ids=_by_name)
def test_the_debits_are_those_of_a_real_ledger(estimator: SimulatedClassifier, tmp_path: Path) -> None:
    fitted = _fit(estimator)
    own = fitted.ledger_["site-b"]
    ledger = budget(tmp_path, 2.0, fitted.study_.privacy.delta)
    study, records = fitted.study_, ledger.fingerprint(RECORDS)
    spends = entry_named(estimator._protocol).spends(study)
    ledger.reserve(study, "site-b", population="default", fingerprint=records, approved_by="steward", spends=spends)
    number = ledger.start_attempt(study, "site-b", records)
    ledger.debit(study.digest().hex(), "site-b", number, bytes(16), own.releases)
    ledger.finish(study, "site-b")
    assert own.epsilon == ledger.account("default").spent
    assert (own.epsilon > 0) == (not isinstance(estimator, DPGLM))  # that tells nothing of so few records
    assert own.delta == study.privacy.delta
    ledger.close()


def test_a_baseline_costs_its_target_and_one_without_noise_costs_everything() -> None:
    X, y = _numbers()
    noisy, bare = (kind(bounds=(-1, 1), epsilon=0.5).fit(X, y).ledger_ for kind in (GOP, Pooled))
    assert {(own.epsilon, own.delta) for own in noisy.values()} == {(0.5, 1e-6)}
    assert {(own.epsilon, own.delta) for own in bare.values()} == {(float("inf"), 1.0)}


def test_a_fit_is_marked_as_a_simulation_wherever_it_shows(tmp_path: Path) -> None:
    X, y = _numbers()
    fitted = DPGradientDescent(bounds=(-1, 1), random_state=1).fit(X, y)
    assert repr(fitted) == f"DPGradientDescent(bounds=(-1, 1), random_state=1)  # {WATERMARK}"
    assert fitted.to_study().startswith(f"# {WATERMARK}.\n")
    assert fitted.watermark_ == WATERMARK
    fitted.save(tmp_path / "run")
    for file in ("model.json", "result.json"):
        assert json.loads((tmp_path / "run" / file).read_text())["watermark"] == WATERMARK


def test_a_saved_model_predicts_what_the_estimator_does(tmp_path: Path) -> None:
    X, y, parties = _frame()
    fitted = _public(DPWhitened(epsilon=5.0)).fit(X, y, parties=parties)
    fitted.save(tmp_path / "run")
    found = masquerade.predict(tmp_path / "run" / "model.json", X)
    assert np.where(found.labels > 0, "yes", "no").tolist() == fitted.predict(X).tolist()
    assert found.probabilities == pytest.approx(fitted.predict_proba(X)[:, 1], abs=1e-12)


def test_without_a_random_state_the_noise_is_the_systems() -> None:
    X, y = _numbers()
    parties = np.arange(len(y)) % 3
    drawn = [DPGradientDescent(bounds=(-1, 1)).fit(X, y, parties=parties).weights_.tolist() for _ in range(2)]
    assert drawn[0] != drawn[1]
    state = [np.random.RandomState(3), np.random.RandomState(3)]
    seeded = [DPGradientDescent(bounds=(-1, 1), random_state=one).fit(X, y).weights_.tolist() for one in state]
    assert seeded[0] == seeded[1]


def test_a_pipeline_passes_the_owners_on() -> None:
    X, y = _numbers()
    parties = np.array(["north", "south"])[np.arange(len(y)) % 2]
    piped = make_pipeline(FunctionTransformer(lambda Z: Z / 2), DPWhitened(bounds=(-0.5, 0.5), random_state=1))
    piped.fit(X, y, dpwhitened__parties=parties)
    assert piped[-1].study_.names == ("north", "south")
    direct = DPWhitened(bounds=(-0.5, 0.5), random_state=1).fit(X / 2, y, parties=parties)
    assert piped.predict(X).tolist() == direct.predict(X / 2).tolist()
