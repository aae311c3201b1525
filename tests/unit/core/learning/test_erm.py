"""The classifier is the minimiser of the regularised risk, the same as another library's."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from masquerade_core.data import records
from masquerade_core.errors import BadInput, LocalProtocolError, RunFailed
from masquerade_core.learning import erm
from masquerade_core.learning.erm import (
    LEAST_REGULARIZATION,
    TOLERANCE,
    Sums,
    check_regularization,
    error_rate,
    fit,
    gradient_norm,
    predict_labels,
)
from masquerade_core.learning.losses import (
    LOGISTIC,
    SIGMOID,
    SMOOTHED_HINGE,
    Loss,
    logistic_curvature,
    logistic_loss,
    logistic_slope,
    objective,
    objective_gradient,
)
from masquerade_core.learning.softmax import fit_softmax
from tests.messages import raises

_Array = NDArray[np.float64]
_FirstOrder = Callable[[_Array], tuple[float, _Array]]
_Point = tuple[_Array, float, _Array]


def _data(kind: str, n: int, d: int, seed: int) -> tuple[_Array, _Array]:
    rng = np.random.default_rng(seed)
    # "binary" is like the census data: 0/1 columns, norm sqrt(14) before clipping
    X = (rng.random((n, d)) < 14 / d).astype(float) if kind == "binary" else rng.normal(size=(n, d))
    X /= np.maximum(1, np.linalg.norm(X, axis=1))[:, None]
    score = X @ rng.normal(size=d)
    noise = {"separable": 0.0, "binary": 0.3, "noisy": 0.5}[kind]
    return X, np.where(score + noise * rng.normal(size=n) > 0, 1.0, -1.0)


@pytest.mark.parametrize(
    ("kind", "n", "d", "Lambda"),
    [
        ("noisy", 200, 1, 0.01),
        ("noisy", 2000, 10, 0.01),
        ("noisy", 2000, 10, 2.0),
        ("noisy", 20, 31, 1e-4),
        ("separable", 300, 10, 1e-2),
        ("separable", 300, 10, 1e-4),
        ("binary", 3000, 123, 1e-4),
        ("binary", 3000, 123, 2.0),
    ],
)
def test_it_is_the_classifier_of_scikit_learn(kind: str, n: int, d: int, Lambda: float) -> None:
    X, y = _data(kind, n, d, seed=7)
    w = fit(X, y, Lambda)
    oracle = LogisticRegression(
        C=1 / (n * Lambda), fit_intercept=False, tol=1e-12, solver="newton-cholesky", max_iter=1000
    )
    oracle.fit(X, y)
    np.testing.assert_allclose(w, oracle.coef_[0], rtol=0, atol=1e-6)
    assert gradient_norm(w, X, y, Lambda) <= TOLERANCE
    np.testing.assert_array_equal(predict_labels(X, w), oracle.predict(X))


def _extreme_records() -> Iterator[tuple[_Array, _Array]]:
    """Records that make a minimiser long, flat or badly conditioned."""
    rng = np.random.default_rng(0)
    for n, d in ((2, 2), (20, 2), (2, 60), (20, 10), (400, 10), (400, 60)):
        X = rng.normal(size=(n, d))
        X /= np.linalg.norm(X, axis=1, keepdims=True)
        y, split = np.where(rng.random(n) < 0.5, 1.0, -1.0), np.where(X @ rng.normal(size=d) > 0, 1.0, -1.0)
        one_wrong = split.copy()
        one_wrong[0] *= -1
        thin = 0.99 * X
        thin[:, 0] = split * 1e-6 * rng.random(n)
        rows, columns = (10.0 ** -rng.integers(0, 9, size=shape) for shape in ((n, 1), (1, d)))
        yield from ((X, labels) for labels in (y, np.ones(n), split, one_wrong))
        yield from ((np.tile(X[:1], (n, 1)), labels) for labels in (y, np.ones(n)))
        yield from ((short, split) for short in (np.zeros((n, d)), 1e-9 * X, thin, rows * X, columns * X))


def test_at_the_least_lambda_that_a_study_may_have_no_records_stop_a_party() -> None:
    for X, y in _extreme_records():
        assert gradient_norm(fit(X, y, LEAST_REGULARIZATION), X, y, LEAST_REGULARIZATION) <= TOLERANCE
    # The test can fail: at a Lambda far below, some of these records have no classifier, and others have one.
    failed = 0
    for X, y in _extreme_records():
        try:
            fit(X, y, 1e-25)
        except (RunFailed, np.linalg.LinAlgError):
            failed += 1
    assert 0 < failed < len([*_extreme_records()])


@pytest.mark.parametrize("Lambda", [1e-2, 1e-6, 1e-10])
@pytest.mark.parametrize("noise", [0.0, 1e3])
def test_where_quasi_newton_steps_come_near_or_not_the_gradient_is_within_the_tolerance(
    Lambda: float, noise: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(5)
    X = rng.standard_normal((80, 60)) / 60**0.5 / 2
    y, linear = np.sign(X[:, 0]), noise * rng.standard_normal(60)
    w = fit(X, y, Lambda, linear=linear)
    assert gradient_norm(w, X, y, Lambda, linear=linear) <= TOLERANCE

    def nowhere_near(first_order: _FirstOrder, start: _Point, *_: object) -> _Point:
        return (start[0] + 1.0, *first_order(start[0] + 1.0))

    monkeypatch.setattr(erm, "approach", nowhere_near)
    other = fit(X, y, Lambda, linear=linear)
    assert gradient_norm(other, X, y, Lambda, linear=linear) <= TOLERANCE
    assert np.linalg.norm(w - other) <= 2 * TOLERANCE / Lambda


def _counted(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Return a list to which each sum over records adds whether it is one of second derivatives."""
    made, sums = list[bool](), Sums.__call__

    def counted(own: Sums, X: _Array, y: _Array) -> _Array:
        made.append(own.second)
        return sums(own, X, y)

    monkeypatch.setattr(Sums, "__call__", counted)
    return made


@pytest.mark.parametrize(("d", "Lambda", "most"), [(60, 1e-4, 13), (100, 1e-6, 18)])
def test_the_first_step_is_about_as_long_as_newton_s(
    d: int, Lambda: float, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A step of length 1, as SciPy makes it, is far too short here: its line search takes sums to find that out."""
    rng = np.random.default_rng(d)
    X = rng.standard_normal((5000, d))
    X /= np.linalg.norm(X, axis=1)[:, None]
    y = np.where(X @ rng.standard_normal(d) + 0.1 * rng.standard_normal(5000) > 0, 1.0, -1.0)
    made = _counted(monkeypatch)
    fit(X, y, Lambda)
    assert made.count(False) <= most


def test_with_many_coordinates_no_matrix_of_second_derivatives_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would cost ten times what scikit-learn's fit does."""
    rng, made = np.random.default_rng(6), _counted(monkeypatch)
    X = rng.standard_normal((300, 100)) / 20
    y = np.where(rng.random(300) < 0.5, 1.0, -1.0)
    fit(X, y, 1e-3)
    assert not any(made)
    assert 5 < len(made) < 40
    made.clear()
    fit(X[:, :20], y, 1e-3)
    assert any(made)  # with few, Newton's steps cost less


def test_where_the_gradient_falls_slowly_one_matrix_of_second_derivatives_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """L-BFGS alone would take some 200 steps here, and Newton's method nine matrices."""
    rng, made = np.random.default_rng(8), _counted(monkeypatch)
    X = rng.standard_normal((2000, 80)) * np.logspace(0, -2, 80) / 6
    X /= np.maximum(1, np.linalg.norm(X, axis=1))[:, None]
    y = np.where(rng.random(2000) < expit(20 * X[:, :20].sum(axis=1)), 1.0, -1.0)
    w = fit(X, y, 1e-6)
    assert gradient_norm(w, X, y, 1e-6) <= TOLERANCE
    assert sum(made) == 1
    assert len(made) < 40


@pytest.mark.parametrize("loss", [LOGISTIC, SMOOTHED_HINGE, SIGMOID])
@pytest.mark.parametrize("weighted", [False, True])
def test_sums_over_a_few_records_at_a_time_are_those_over_all(
    loss: Loss, weighted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y = _data("noisy", 53, 4, seed=9)
    weights = np.random.default_rng(9).random(53) if weighted else np.ones(53)
    w = np.array([1.0, -2.0, 0.5, 3.0])
    rows = [(label * each @ w, each, label, v) for each, label, v in zip(X, y, weights, strict=True)]
    value = sum(v * loss.value(m) for m, _, _, v in rows)
    first = sum(v * loss.derivative(m) * label * each for m, each, label, v in rows)
    second = sum(v * loss.curvature(m) * np.outer(each, each) for m, each, _, v in rows)
    sums = Sums(w, loss, 53, weights if weighted else None)
    for cells in (1, 40, 1000):  # rows at a time: one, ten, all; of second derivatives at least d
        monkeypatch.setattr(records, "_CELLS", cells)
        monkeypatch.setattr(records, "_CACHED", cells)
        np.testing.assert_allclose(sums(X, y), np.append(value, first), rtol=1e-13)
        np.testing.assert_allclose(replace(sums, second=True)(X, y), second / 53, rtol=1e-12, atol=1e-16)


def test_twice_the_paper_s_lambda_and_not_once() -> None:
    """Pathak's equation (2) with lambda = .05 has its minimiser at Lambda = .1, and nowhere else."""
    X, y = _data("noisy", 500, 5, seed=1)

    def paper(w: _Array) -> float:
        return float(logistic_loss(y * (X @ w)).mean() + 0.05 * w @ w)

    w = fit(X, y, 0.1)
    assert all(paper(w) < paper(w + 1e-3 * e) for e in (*np.eye(5), *-np.eye(5)))
    assert paper(w) < paper(fit(X, y, 0.05)) - 1e-6


def test_the_norm_is_within_the_bounds_that_privacy_and_message_sizes_need() -> None:
    for Lambda in (1e-4, 0.01, 1.0, 2.0):
        X, y = _data("separable", 200, 6, seed=3)
        norm = np.linalg.norm(fit(X, y, Lambda))
        assert norm**2 <= 0.27846454276107 / Lambda  # W(1/e) / Lambda
        assert norm <= np.sqrt(2 * np.log(2) / Lambda)


def test_what_cannot_be_reached_is_an_error_and_no_classifier(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = _data("separable", 100, 4, seed=2)
    monkeypatch.setattr(erm, "_MAX_STEPS", 2)
    with raises(RunFailed, "not_precise"):
        fit(X, y, 1e-4)


def test_an_unknown_loss_is_a_bug() -> None:
    X, y = _data("noisy", 10, 2, seed=2)
    with pytest.raises(LocalProtocolError):
        fit(X, y, 0.1, loss="hinge")
    with pytest.raises(LocalProtocolError):
        fit(X, y, 0.0)


def test_slope_and_curvature_are_derivatives_and_nothing_overflows() -> None:
    m = np.linspace(-30, 30, 241)
    h = 1e-5
    np.testing.assert_allclose((logistic_loss(m + h) - logistic_loss(m - h)) / (2 * h), logistic_slope(m), atol=1e-8)
    np.testing.assert_allclose(
        (logistic_slope(m + h) - logistic_slope(m - h)) / (2 * h), logistic_curvature(m), atol=1e-8
    )
    far = np.array([-1e4, -800.0, 800.0, 1e4])
    np.testing.assert_array_equal(logistic_loss(far), [1e4, 800, 0, 0])
    np.testing.assert_array_equal(logistic_slope(far), [-1, -1, 0, 0])
    np.testing.assert_array_equal(logistic_curvature(far), [0, 0, 0, 0])


def test_the_gradient_is_the_objective_s() -> None:
    X, y = _data("noisy", 50, 4, seed=5)
    w = np.array([0.3, -1.0, 2.0, 0.0])
    h = 1e-6
    slopes = [(objective(w + h * e, X, y, 0.3) - objective(w - h * e, X, y, 0.3)) / (2 * h) for e in np.eye(4)]
    np.testing.assert_allclose(objective_gradient(w, X, y, 0.3), slopes, atol=1e-9)


def test_a_score_of_zero_is_the_negative_class() -> None:
    X = np.array([[0.0, 1.0], [1.0, 0.0], [-1.0, 0.0]])
    w = np.array([1.0, 0.0])
    np.testing.assert_array_equal(predict_labels(X, w), [-1, 1, -1])
    assert error_rate(X, np.array([1.0, 1.0, -1.0]), w) == pytest.approx(1 / 3)


@pytest.mark.parametrize("Lambda", [1.0, 0.01, 1e-4])
def test_with_weights_it_is_scikit_learn_s_with_sample_weight(Lambda: float) -> None:
    X, y = _data("noisy", 300, 6, seed=4)
    weights = np.random.default_rng(5).random(300) ** 3
    weights[:40] = 0.0
    weights *= 300 / weights.sum()
    w = fit(X, y, Lambda, weights=weights)
    oracle = LogisticRegression(C=1 / (300 * Lambda), fit_intercept=False, tol=1e-12, solver="newton-cholesky")
    oracle.fit(X, y, sample_weight=weights)
    np.testing.assert_allclose(w, oracle.coef_[0], rtol=0, atol=1e-6)
    assert gradient_norm(w, X, y, Lambda, weights=weights) <= TOLERANCE < gradient_norm(w, X, y, Lambda)
    assert np.linalg.norm(w - fit(X, y, Lambda)) > 1e-3


@pytest.mark.parametrize("loss", ["logistic", "smoothed-hinge"])
def test_a_weight_of_two_is_a_record_twice(loss: str) -> None:
    X, y = _data("noisy", 50, 3, seed=6)
    twice = fit(np.vstack([X, X[:10]]), np.concatenate([y, y[:10]]), 0.1, loss)
    weights = np.where(np.arange(50) < 10, 2.0, 1.0) * 50 / 60
    np.testing.assert_allclose(fit(X, y, 0.1, loss, weights=weights), twice, rtol=0, atol=1e-7)


@pytest.mark.parametrize(
    "weights", [np.ones(49), np.ones((50, 1)), np.full(50, 1.1), np.r_[-1.0, 3.0, np.ones(48)], np.full(50, np.nan)]
)
def test_weights_of_a_wrong_shape_sign_or_sum_are_a_bug(weights: _Array) -> None:
    X, y = _data("noisy", 50, 3, seed=6)
    with raises(LocalProtocolError, "weights_refused"):
        fit(X, y, 0.1, weights=weights)


def _odd_records(n: int, d: int, rng: np.random.Generator) -> dict[str, tuple[_Array, _Array]]:
    X = rng.normal(size=(n, d))
    X /= np.linalg.norm(X, axis=1)[:, None]
    split = np.where(X @ rng.normal(size=d) > 0, 1.0, -1.0)
    one, same = np.ones(n), np.tile(X[:1], (n, 1))
    near = same + 1e-9 * rng.normal(size=(n, d))
    return {
        "separable": (X, split),
        "one class": (X, one),
        "all equal": (same, one),
        "equal, with both labels": (same, np.resize([1.0, -1.0], n)),
        "all zero": (np.zeros((n, d)), one),
        "tiny": (1e-8 * X, split),
        "nearly equal": (near / np.maximum(1, np.linalg.norm(near, axis=1))[:, None], split),
    }


@pytest.mark.parametrize("loss", ["logistic", "smoothed-hinge"])
def test_from_the_least_regularization_on_no_records_lack_a_minimiser(loss: str) -> None:
    rng = np.random.default_rng(7)
    check_regularization(LEAST_REGULARIZATION)
    for n, d in ((2, 1), (2, 5), (30, 3), (200, 20), (50, 100)):
        for X, y in _odd_records(n, d, rng).values():
            w = fit(X, y, LEAST_REGULARIZATION, loss)
            assert gradient_norm(w, X, y, LEAST_REGULARIZATION, loss) <= TOLERANCE
    X, y = _odd_records(30, 3, rng)["nearly equal"]
    with pytest.raises(RunFailed):  # with less it does depend on the records
        fit(X, y, 1e-14, "smoothed-hinge")
    fit(np.zeros((30, 3)), y, 1e-14, "smoothed-hinge")
    with raises(BadInput, "regularization_too_small", "9e-11", "1e-10"):
        check_regularization(9e-11)


def test_softmax_too_finds_a_minimiser_for_all_records() -> None:
    rng = np.random.default_rng(8)
    for n, d in ((2, 1), (30, 3), (50, 100)):
        for X, y in _odd_records(n, d, rng).values():
            W = fit_softmax(X, (y + 1).astype(int), LEAST_REGULARIZATION, classes=3)
            assert np.isfinite(W).all()
