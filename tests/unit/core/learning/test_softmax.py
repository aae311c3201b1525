"""The classifier of several classes is the minimiser, the same as another library's."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import lambertw
from sklearn.linear_model import LogisticRegression

from masquerade_core.errors import LocalProtocolError, RunFailed
from masquerade_core.learning import softmax
from masquerade_core.learning.erm import TOLERANCE, fit
from masquerade_core.learning.softmax import (
    class_error_rate,
    fit_softmax,
    one_hot,
    predict_classes,
    softmax_gradient,
    softmax_objective,
    softmax_probabilities,
)
from tests.messages import raises

_Array = NDArray[np.float64]


def _data(N: int, d: int, C: int, seed: int, noise: float = 0.3) -> tuple[_Array, NDArray[np.intp]]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, d))
    X /= np.maximum(1, np.linalg.norm(X, axis=1))[:, None]
    y = np.argmax(X @ rng.normal(size=(d, C)) + noise * rng.normal(size=(N, C)), axis=1)
    y[:C] = np.arange(C)  # each class at least once, since scikit-learn knows only the classes in its data
    return X, y


CASES = [
    (300, 2, 3, 1e-2, 0.3),
    (300, 10, 4, 1e-4, 0.0),
    (400, 10, 6, 1.0, 0.3),
    (6, 50, 6, 1e-4, 0.3),  # a party of Hamm, Cao and Belkin: fewer records than dimensions
    (40, 80, 8, 1e-3, 0.3),  # the same, with too many unknowns to factor
    (400, 60, 10, 1e-3, 0.3),  # conjugate gradients
]


@pytest.mark.parametrize(("N", "d", "C", "Lambda", "noise"), CASES)
def test_it_is_the_classifier_of_scikit_learn(N: int, d: int, C: int, Lambda: float, noise: float) -> None:
    X, y = _data(N, d, C, seed=7, noise=noise)
    W = fit_softmax(X, y, Lambda, classes=C)
    oracle = LogisticRegression(C=1 / (N * Lambda), fit_intercept=False, tol=1e-12, solver="newton-cg", max_iter=2000)
    oracle.fit(X, y)
    np.testing.assert_allclose(W, oracle.coef_, rtol=0, atol=1e-6)
    assert np.linalg.norm(softmax_gradient(W, X, one_hot(y, C), Lambda)) <= TOLERANCE
    np.testing.assert_array_equal(predict_classes(X, W), oracle.predict(X))
    np.testing.assert_allclose(softmax_probabilities(X, W), oracle.predict_proba(X), atol=1e-6)
    np.testing.assert_allclose(W.sum(axis=0), 0, atol=2 * TOLERANCE / Lambda)


def test_soft_targets_weigh_a_record_s_classes() -> None:
    """A record of target t counts as C records of weight t_k and class k, which scikit-learn can learn from."""
    X, _ = _data(200, 5, 4, seed=1)
    T = np.random.default_rng(2).dirichlet(np.full(4, 0.3), size=200)
    W = fit_softmax(X, T, 1e-3)
    oracle = LogisticRegression(C=1 / (200 * 1e-3), fit_intercept=False, tol=1e-12, solver="newton-cg", max_iter=2000)
    oracle.fit(np.repeat(X, 4, axis=0), np.tile(np.arange(4), 200), sample_weight=T.ravel())
    np.testing.assert_allclose(W, oracle.coef_, rtol=0, atol=1e-6)


def test_the_gradient_is_the_objective_s() -> None:
    X, _ = _data(40, 3, 4, seed=3)
    T = np.random.default_rng(4).dirichlet(np.ones(4), size=40)
    W = np.random.default_rng(5).normal(size=(4, 3))
    h = 1e-6
    for k in range(4):
        for a in range(3):
            E = np.zeros((4, 3))
            E[k, a] = h
            slope = (softmax_objective(W + E, X, T, 0.3) - softmax_objective(W - E, X, T, 0.3)) / (2 * h)
            assert softmax_gradient(W, X, T, 0.3)[k, a] == pytest.approx(slope, abs=1e-8)


@pytest.mark.parametrize("Lambda", [1e-4, 1e-2, 1.0])
def test_two_classes_are_the_binary_classifier_with_half_its_lambda(Lambda: float) -> None:
    """W = (-w/2, w/2), and (Lambda/2) ||W||^2 = (Lambda/4) ||w||^2."""
    X, y = _data(300, 5, 2, seed=6)
    W = fit_softmax(X, y, Lambda, classes=2)
    w = fit(X, np.where(y == 1, 1.0, -1.0), Lambda / 2)
    np.testing.assert_allclose(W, np.stack([-w / 2, w / 2]), atol=4 * TOLERANCE / Lambda)
    assert class_error_rate(X, y, W) == pytest.approx(np.mean((X @ w > 0) != y))


def test_the_norm_is_within_the_radius_that_sensitivities_assume() -> None:
    """R = sqrt(W((C - 1)/e) / lambda), .9025 / sqrt(lambda) for six classes."""
    most = float(lambertw(5 / math.e).real)
    assert np.sqrt(most) == pytest.approx(0.9025, abs=5e-5)
    for Lambda in (1e-4, 1e-2, 1.0):
        X, y = _data(60, 4, 6, seed=8, noise=0.0)
        assert np.linalg.norm(fit_softmax(X, y, Lambda, classes=6)) <= np.sqrt(most / Lambda)
    # One record reaches it: a margin m = 1 + W(5/e) above all others takes lambda m (5/6) = 1 - P = 5/(5 + e^m).
    m = 1 + most
    Lambda = 5 / (5 + np.exp(m)) * 6 / (5 * m)
    W = fit_softmax(np.eye(1, 3), np.array([2]), Lambda, classes=6)
    assert np.linalg.norm(W) == pytest.approx(np.sqrt(most / Lambda), rel=1e-8)


def test_factored_and_conjugate_steps_end_at_the_same_classifier(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = _data(300, 8, 5, seed=9)
    factored = fit_softmax(X, y, 1e-4, classes=5)
    monkeypatch.setattr(softmax, "_DENSE", 0)
    np.testing.assert_allclose(fit_softmax(X, y, 1e-4, classes=5), factored, atol=2 * TOLERANCE / 1e-4)


def test_what_cannot_be_reached_is_an_error_and_no_classifier(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = _data(100, 4, 3, seed=2, noise=0.0)
    monkeypatch.setattr(softmax, "_MAX_STEPS", 2)
    with raises(RunFailed, "not_precise"):
        fit_softmax(X, y, 1e-4, classes=3)


def test_targets_that_are_not_probabilities_are_a_bug() -> None:
    X, y = _data(20, 3, 3, seed=2)
    good = one_hot(y, 3)
    for targets in (2 * good, good - 1e-3, good[:-1], np.where(good == 1, np.nan, 0), 2 * good - good[::-1]):
        with raises(LocalProtocolError, "targets_not_probabilities"):
            fit_softmax(X, targets, 0.1)
    wrong: list[tuple[NDArray[np.float64] | NDArray[np.intp], int]] = [
        (y, 2),
        (y - 1, 3),
        (np.full(20, 0.5), 3),
        (0 * y, 1),
    ]
    for labels, classes in wrong:
        with raises(LocalProtocolError, "labels_not_indices"):
            fit_softmax(X, labels, 0.1, classes=classes)
    with raises(LocalProtocolError, "classes_not_counted"):
        fit_softmax(X, y, 0.1)
    with raises(LocalProtocolError, "softmax_lambda_zero"):
        fit_softmax(X, good, 0.0)
    with raises(LocalProtocolError, "softmax_lambda_zero"):
        fit_softmax(X[:0], good[:0], 0.1)


def test_the_first_of_equals_is_predicted_and_nothing_overflows() -> None:
    X = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])
    W = np.array([[0.0, 1.0], [0.0, 1.0], [1e4, -1e4]])
    np.testing.assert_array_equal(predict_classes(X, W), [2, 0, 0])
    assert class_error_rate(X, np.array([2.0, 1.0, 0.0]), W) == pytest.approx(1 / 3)
    with np.errstate(all="raise", under="ignore"):
        expected = np.array([[0, 0, 1], [0.5, 0.5, 0], [0.5, 0.5, 0]])
        np.testing.assert_allclose(softmax_probabilities(X, W), expected)
        assert softmax_objective(W, X, one_hot(np.array([2, 0, 2]), 3), 0.0) == pytest.approx((1e4 + 2 * np.log(2)) / 3)
