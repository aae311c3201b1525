"""Gradient sums and steps: equation (8), its sensitivity, and the conditions that steps must meet."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from masquerade_core.data import records
from masquerade_core.errors import BadInput, LocalProtocolError
from masquerade_core.learning.erm import fit
from masquerade_core.learning.gradients import StepSizes, gradient_sum, step_sizes
from masquerade_core.learning.losses import LOGISTIC, LOSSES, Loss, objective_gradient
from tests.messages import raises

_Array = NDArray[np.float64]

both = pytest.mark.parametrize("loss", LOSSES.values(), ids=list(LOSSES))


def _data(n: int = 300, d: int = 5, seed: int = 2) -> tuple[_Array, _Array]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    X /= np.maximum(1, np.linalg.norm(X, axis=1))[:, None]
    return X, np.where(X @ rng.normal(size=d) + 0.3 * rng.normal(size=n) > 0, 1.0, -1.0)


@both
@pytest.mark.parametrize("cells", [1, 35, 2000])
def test_the_sum_is_equation_8_and_the_parties_sums_make_the_gradient(
    loss: Loss, cells: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is the same for one, seven or all records at a time."""
    monkeypatch.setattr(records, "_CELLS", cells)
    monkeypatch.setattr(records, "_CACHED", cells)
    X, y = _data()
    w = np.array([0.5, -1.0, 2.0, 0.0, 0.25])
    slopes = [loss.derivative(np.array([yi * (xi @ w)]))[0] * yi * xi for xi, yi in zip(X, y, strict=True)]
    np.testing.assert_allclose(gradient_sum(X, y, w, loss), np.sum(slopes, axis=0), atol=1e-12)
    np.testing.assert_array_equal(gradient_sum(X, y, w, loss.name), gradient_sum(X, y, w, loss))
    many = gradient_sum(X, y[:, None], np.column_stack([w, -w]), loss)
    each = [gradient_sum(X, y, v, loss) for v in (w, -w)]
    np.testing.assert_allclose(many, np.column_stack(each), atol=1e-12)
    parts = sum(gradient_sum(X[a:b], y[a:b], w, loss) for a, b in ((0, 3), (3, 290), (290, 300)))
    # Equation (9).
    np.testing.assert_allclose(parts / len(y) + 0.1 * w, objective_gradient(w, X, y, 0.1, loss), atol=1e-14)


@pytest.mark.parametrize("loss", [loss for loss in LOSSES.values() if loss.convex], ids=lambda loss: str(loss.name))
def test_one_record_moves_the_sum_by_at_most_2_and_can_nearly(loss: Loss) -> None:
    """Proposition 3.1."""
    X, y = _data()
    moved = []
    for x, label, w in ((-X[0], y[0], 1e3 * X[0]), (X[0], -y[0], np.zeros(5)), (np.eye(5)[0], 1.0, -50 * np.eye(5)[0])):
        X2, y2 = X.copy(), y.copy()
        X2[0], y2[0] = x, label
        moved.append(np.linalg.norm(gradient_sum(X2, y2, w, loss) - gradient_sum(X, y, w, loss)))
    assert max(moved) <= 2
    u = np.eye(5)[:1]
    # On one line, two opposite labels cannot both be wrong; two records in different places can.
    a, b = np.array([[0.2, np.sqrt(0.96), 0, 0, 0]]), np.array([[0.2, -np.sqrt(0.96), 0, 0, 0]])
    w = -1e3 * u[0]
    one = np.ones(1)
    assert np.linalg.norm(gradient_sum(a, one, w, loss) - gradient_sum(b, one, w, loss)) > 1.95
    assert np.linalg.norm(gradient_sum(X, y, w, loss)) <= len(y)


def test_an_unknown_loss_is_a_bug() -> None:
    X, y = _data()
    with pytest.raises(LocalProtocolError):
        gradient_sum(X, y, np.zeros(5), "hinge")


# --- Steps -----------------------------------------------------------------------


def test_steps_fall_as_the_formula_says() -> None:
    assert [StepSizes(10, 10)(t) for t in (0, 10, 90)] == [1, 0.5, 0.1]
    assert [StepSizes(2, 4, 0.75)(t) for t in (0, 12)] == [2 / 4**0.75, 0.25]


@pytest.mark.parametrize(
    ("a", "t0", "power", "said"),
    [
        (0.0, 1.0, 1.0, ("steps_not_positive", 0, 1)),
        (-1.0, 1.0, 1.0, ("steps_not_positive", -1, 1)),
        (1.0, 0.0, 1.0, ("steps_not_positive", 1, 0)),
        (float("nan"), 1.0, 1.0, ("steps_not_positive", "nan", 1)),
        (1.0, float("inf"), 1.0, ("steps_not_positive", 1, "inf")),
        (1.0, 1.0, 1.1, ("steps_fall_too_fast", "1.1")),
        (1.0, 1.0, 0.5, ("steps_fall_too_slowly", "0.5")),
        (1.0, 1.0, 0.0, ("steps_fall_too_slowly", 0)),
        (1.0, 1.0, float("nan"), ("steps_fall_too_fast", "nan")),
    ],
)
def test_steps_that_break_a_condition_are_refused(a: float, t0: float, power: float, said: tuple[Any, ...]) -> None:
    with raises(BadInput, *said):
        StepSizes(a, t0, power)
    with raises(BadInput, *said):
        step_sizes(0.25, 0.1, a=a, t0=t0, power=power)


@pytest.mark.parametrize("power", [1.0, 0.75, 0.51])
def test_partial_sums_grow_and_those_of_squares_settle(power: float) -> None:
    z = np.array([StepSizes(1, 1, power)(t) for t in range(1 << 16)])
    blocks = [(z[1 << k : 2 << k].sum(), (z[1 << k : 2 << k] ** 2).sum()) for k in range(6, 16)]
    sums, squares = map(np.array, zip(*blocks, strict=True))
    assert (sums[1:] > 0.99 * sums[:-1]).all()
    assert (squares[1:] < 0.995 * squares[:-1]).all()


@pytest.mark.parametrize(("first", "ends"), [(1.99, True), (2.01, False)])
def test_a_first_step_of_2_over_the_curvature_is_where_descent_begins_to_diverge(first: float, ends: bool) -> None:
    """With balanced labels on one line, the curvature at w = 0 is c + Lambda, the largest possible."""
    X, y, Lambda = np.array([[1.0], [1.0]]), np.array([1.0, -1.0]), 0.1
    smoothness = float(LOGISTIC.c) + Lambda
    z, w = first / smoothness, np.array([1e-6])
    for _ in range(400):
        w = w - z * objective_gradient(w, X, y, Lambda)
    assert (abs(w[0]) < 1e-6) == ends
    steps = StepSizes(z * 100, 100)
    if ends:
        steps.check(smoothness)
    else:
        with raises(BadInput, "first_step_diverges", "5.743", "5.714"):
            steps.check(smoothness)
        with raises(BadInput, "first_step_diverges", ..., ...):
            step_sizes(0.25, 0.04, 0.06, a=z * 100, t0=100)


@both
@pytest.mark.parametrize("Lambda", [0.01, 0.1, 2.0, 50.0])
def test_the_steps_that_are_chosen_lead_to_the_minimiser(loss: Loss, Lambda: float) -> None:
    X, y = _data()
    steps = step_sizes(float(loss.c), Lambda)
    assert steps(0) == pytest.approx(min(1, 1 / (float(loss.c) + Lambda)))
    w = np.zeros(X.shape[1])
    start = np.linalg.norm(fit(X, y, Lambda, loss))
    for t in range(2000):
        w = w - steps(t) * (gradient_sum(X, y, w, loss) / len(y) + Lambda * w)
    assert np.linalg.norm(w - fit(X, y, Lambda, loss)) < 0.02 * start


def test_at_the_paper_s_settings_they_are_those_of_the_reproduction() -> None:
    """z_t = 1/((lambda + Delta) t + 1)."""
    steps = step_sizes(0.25, 0.1, 0.02)
    assert [steps(t) for t in (0, 7, 300)] == pytest.approx([1 / (0.12 * t + 1) for t in (0, 7, 300)])


def test_steps_for_an_objective_that_is_not_strongly_convex_are_a_bug() -> None:
    with pytest.raises(LocalProtocolError):
        step_sizes(0.25, 0.0)
    with pytest.raises(LocalProtocolError):
        step_sizes(0.25, 0.1, -0.1)
