"""The properties of losses that the theorems need, and the minimiser of a perturbed objective."""

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize

from masquerade_core.errors import BadInput, LocalProtocolError, RunFailed
from masquerade_core.learning.erm import TOLERANCE, fit, gradient_norm
from masquerade_core.learning.losses import (
    HALF_WIDTH,
    LOGISTIC,
    LOSSES,
    SIGMOID,
    SMOOTHED_HINGE,
    Loss,
    loss_of,
    objective,
    objective_gradient,
    require_convex,
)
from masquerade_core.study import Model
from tests.messages import raises

_Array = NDArray[np.float64]

CONVEX = {name: loss for name, loss in LOSSES.items() if loss.convex}
every = pytest.mark.parametrize("loss", LOSSES.values(), ids=list(LOSSES))
both = pytest.mark.parametrize("loss", CONVEX.values(), ids=list(CONVEX))
FINE = np.linspace(-3, 5, 8001)


def _data(n: int = 400, d: int = 6, seed: int = 1) -> tuple[_Array, _Array]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    X /= np.maximum(1, np.linalg.norm(X, axis=1))[:, None]
    return X, np.where(X @ rng.normal(size=d) + 0.3 * rng.normal(size=n) > 0, 1.0, -1.0)


@every
def test_derivative_and_curvature_are_derivatives(loss: Loss) -> None:
    h = 1e-5
    slopes = (loss.value(FINE + h) - loss.value(FINE - h)) / (2 * h)
    np.testing.assert_allclose(slopes, loss.derivative(FINE), atol=1e-8)
    curvatures = (loss.derivative(FINE + h) - loss.derivative(FINE - h)) / (2 * h)
    np.testing.assert_allclose(curvatures, loss.curvature(FINE), atol=1e-4)


@both
def test_the_theorem_s_conditions_hold_with_the_stated_constants_and_with_none_smaller(loss: Loss) -> None:
    """Theorem 4.1: convex, twice differentiable, |phi'| <= 1, phi'' <= c."""
    wide = np.linspace(-40, 40, 160_001)
    slopes, curvatures = loss.derivative(wide), loss.curvature(wide)
    assert (curvatures >= 0).all()
    assert np.abs(slopes).max() <= float(loss.L) == 1
    assert np.abs(slopes).max() > 0.999
    assert curvatures.max() <= float(loss.c) * (1 + 1e-15)
    assert curvatures.max() > 0.999 * float(loss.c)
    # phi' lies in [-1, 0], so the loss never grows with the margin.
    assert slopes.max() <= 0
    # phi'' has no jump, so phi is twice differentiable. Huber's smoothing has jumps of 1/(2h) at two points.
    assert np.abs(np.diff(loss.curvature(FINE))).max() < 0.01


def test_the_sigmoid_s_bounds_hold_and_are_sharp_and_it_is_not_convex() -> None:
    wide = np.linspace(-40, 40, 160_001)
    slopes, curvatures = np.abs(SIGMOID.derivative(wide)), np.abs(SIGMOID.curvature(wide))
    assert 0.25 * (1 - 1e-6) < slopes.max() <= float(SIGMOID.L) == 0.25
    peak = float(1 / (6 * np.sqrt(3)))  # where sigma(m) - sigma(-m) = tanh(m/2) is 1/sqrt 3
    np.testing.assert_allclose(SIGMOID.curvature(2 * np.arctanh(np.array([-1.0, 1.0]) / np.sqrt(3))), [-peak, peak])
    assert curvatures.max() <= peak < float(SIGMOID.c) < peak * (1 + 1e-6)
    assert 108 * SIGMOID.c**2 > 1  # that is c > 1/(6 sqrt 3), in integers
    assert SIGMOID.curvature(wide).min() < -0.999 * peak
    assert not SIGMOID.convex
    np.testing.assert_allclose(SIGMOID.value(np.array([-1e3, 0.0, 1e3])), [1.0, 0.5, 0.0], atol=1e-15)


@pytest.mark.parametrize(
    ("loss", "Lambda", "said"),
    [
        ("sigmoid", 0.1, ("loss_not_convex", "sigmoid")),
        ("logistic", 0.0, ("regularization_needed", 0)),
        ("sigmoid", 0.0, ("loss_not_convex", ...)),
    ],
)
def test_an_objective_without_a_unique_minimiser_is_refused(loss: str, Lambda: float, said: str) -> None:
    with raises(BadInput, *said):
        require_convex(Model.model_validate({"loss": loss, "regularization": Lambda}))


@both
def test_a_convex_and_regularised_objective_is_accepted(loss: Loss) -> None:
    require_convex(Model.model_validate({"loss": loss.name, "regularization": 1e-9}))


def test_the_smoothed_hinge_is_the_hinge_outside_a_strip() -> None:
    h = float(HALF_WIDTH)
    m = np.array([-1e6, -3.0, 1 - h, 1 + h, 7.0, 1e6])
    np.testing.assert_allclose(SMOOTHED_HINGE.value(m), np.maximum(0, 1 - m), atol=1e-15)
    np.testing.assert_array_equal(SMOOTHED_HINGE.derivative(m), [-1, -1, -1, 0, 0, 0])
    np.testing.assert_array_equal(SMOOTHED_HINGE.curvature(m), [0, 0, 0, 0, 0, 0])
    inside = np.linspace(1 - h, 1 + h, 101)[1:-1]
    above = SMOOTHED_HINGE.value(inside) - np.maximum(0, 1 - inside)
    assert (above > 0).all()
    assert above.max() == pytest.approx(3 * h / 16)
    # Chaudhuri, Monteleoni and Sarwate's polynomial, as they print it.
    t = 1 - inside
    printed = -(t**4) / (16 * h**3) + 3 * t**2 / (8 * h) + t / 2 + 3 * h / 16
    np.testing.assert_allclose(SMOOTHED_HINGE.value(inside), printed, atol=1e-15)
    assert SMOOTHED_HINGE.c == 3 / (4 * HALF_WIDTH)


def test_a_loss_has_a_name() -> None:
    assert loss_of("logistic") is LOGISTIC
    assert loss_of(SMOOTHED_HINGE) is loss_of("smoothed-hinge")
    with raises(LocalProtocolError, "loss_unknown", "'hinge'"):
        loss_of("hinge")


@both
@pytest.mark.parametrize("noise", [0.0, 0.05, 1.0])
@pytest.mark.parametrize(("Lambda", "extra"), [(0.1, 0.0), (1e-3, 0.02), (2.0, 0.5)])
def test_the_perturbed_minimiser_is_another_library_s(loss: Loss, noise: float, Lambda: float, extra: float) -> None:
    X, y = _data()
    b = noise * np.random.default_rng(3).normal(size=(X.shape[1],))
    w = fit(X, y, Lambda, loss, linear=b, extra=extra)
    assert gradient_norm(w, X, y, Lambda, loss, linear=b, extra=extra) <= TOLERANCE

    def paper(v: _Array) -> float:
        return float(loss.value(y * (X @ v)).mean() + 0.5 * Lambda * v @ v + b @ v + 0.5 * extra * v @ v)

    w0 = w + 0.1 * np.random.default_rng(4).normal(size=len(w))
    oracle = minimize(paper, w0, method="BFGS", options={"gtol": 1e-8})
    np.testing.assert_allclose(w, oracle.x, atol=1e-5 * max(1.0, float(np.linalg.norm(w))))
    assert paper(w) <= oracle.fun + 1e-12 * max(1.0, abs(oracle.fun))


@both
def test_the_gradient_at_the_minimiser_is_minus_the_noise(loss: Loss) -> None:
    """The proof of objective perturbation uses this: eta = -N (grad J(w) + Delta w)."""
    X, y = _data()
    eta = 40 * np.random.default_rng(5).normal(size=(X.shape[1],))
    w = fit(X, y, 0.05, loss, linear=eta / len(y), extra=0.01)
    np.testing.assert_allclose(-len(y) * (objective_gradient(w, X, y, 0.05, loss) + 0.01 * w), eta, atol=1e-6)


@every
def test_the_gradient_is_the_objective_s(loss: Loss) -> None:
    X, y = _data(50, 4)
    w, b, h = np.array([0.3, -1.0, 2.0, 0.0]), np.array([1.0, 0.0, -0.5, 3.0]), 1e-6

    def value(v: _Array) -> float:
        return objective(v, X, y, 0.3, loss, linear=b, extra=0.2)

    slopes = [(value(w + h * e) - value(w - h * e)) / (2 * h) for e in np.eye(4)]
    np.testing.assert_allclose(objective_gradient(w, X, y, 0.3, loss, linear=b, extra=0.2), slopes, atol=1e-8)


def test_a_perturbation_of_zero_changes_no_bit() -> None:
    X, y = _data()
    np.testing.assert_array_equal(fit(X, y, 0.1), fit(X, y, 0.1, LOGISTIC, linear=np.zeros(6), extra=0.0))
    assert not np.array_equal(fit(X, y, 0.1), fit(X, y, 0.1, SMOOTHED_HINGE))


def test_noise_beyond_floating_point_is_an_error() -> None:
    X, y = _data()
    for size in (1e6, 1e12, np.inf, np.nan):
        with raises(RunFailed, "noise_beyond_floats"):
            fit(X, y, 1e-3, linear=np.full(6, size))
    b = np.full(6, 4e4)
    assert gradient_norm(fit(X, y, 1e-3, linear=b), X, y, 1e-3, linear=b) <= TOLERANCE


def test_a_negative_curvature_is_a_bug() -> None:
    X, y = _data()
    with pytest.raises(LocalProtocolError):
        fit(X, y, 0.1, extra=-0.05)
