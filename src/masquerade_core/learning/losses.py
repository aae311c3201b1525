"""Losses phi of a margin m = y w.x, and the objective that is minimised: the mean loss with regularisation.

The objective is J(w) = (1/n) sum_i phi(m_i) + (Lambda/2) ||w||_2^2 everywhere in this program. Lambda is the strength
of the regularisation. Pathak's equation (2) has lambda ||w||^2 instead, so Lambda = 2 lambda. Objective perturbation
adds noise and curvature to J: + b.w + (Delta/2) ||w||_2^2, where b = eta/N.

Objective perturbation needs a loss that is convex and twice differentiable, with |phi'| <= L = 1 and phi'' <= c
(Rajkumar and Agarwal 2012, Theorem 4.1). The logistic loss and the smoothed hinge qualify. The hinge itself is not
differentiable, and Huber's smoothing of it has no second derivative at two points. So the hinge is smoothed by a
polynomial of degree four.

The sigmoid loss is bounded and smooth, but not convex. Noisy sums of clipped gradients are as private with it as with
any other loss. But its minimiser need not be unique, so :func:`require_convex` refuses it where a proof needs the
minimiser.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from masquerade_core.errors import BadInput, LocalProtocolError
from masquerade_core.lazy_scipy import expit
from masquerade_core.same_time import EVERYWHERE
from masquerade_core.study import Model
from masquerade_core.words import listed

__all__ = [
    "HALF_WIDTH",
    "LOGISTIC",
    "LOSSES",
    "SIGMOID",
    "SMOOTHED_HINGE",
    "Loss",
    "logistic_curvature",
    "logistic_loss",
    "logistic_slope",
    "loss_of",
    "objective",
    "objective_gradient",
    "require_convex",
    "sigmoid_curvature",
    "sigmoid_loss",
    "sigmoid_slope",
    "smoothed_hinge_curvature",
    "smoothed_hinge_loss",
    "smoothed_hinge_slope",
]

_Array = NDArray[np.float64]

HALF_WIDTH = Fraction(1, 2)
"""h: the smoothed hinge differs from the hinge only where |1 - m| < h. Chaudhuri et al. use 1/2 in experiments."""


def logistic_loss(m: _Array) -> _Array:
    """Return phi(m) = log(1 + exp(-m)), without overflow for any finite m."""
    value: _Array = np.log1p(np.exp(-np.abs(m))) + np.maximum(-m, 0.0)  # a seventh of the time of logaddexp
    return value


def _sigma(m: _Array) -> _Array:
    """Return sigma(m), in a time that tells nothing of m (:mod:`masquerade_core.same_time`)."""
    expit(EVERYWHERE)
    return np.asarray(expit(m), dtype=np.float64)


def logistic_slope(m: _Array) -> _Array:
    """Return phi'(m) = -sigma(-m), between -1 and 0."""
    return -_sigma(-m)


def logistic_curvature(m: _Array) -> _Array:
    """Return phi''(m) = sigma(m) sigma(-m), between 0 and 1/4."""
    return _sigma(m) * _sigma(-m)


def smoothed_hinge_loss(m: _Array) -> _Array:
    """Return phi(m) = h (-u^4/16 + 3u^2/8 + u/2 + 3/16) for |u| <= 1, 0 for u < -1 and 1 - m for u > 1; u = (1 - m)/h.

    References
    ----------
    Chaudhuri, Monteleoni and Sarwate 2011, "Differentially private empirical risk minimization", section 3.4.2.
    """
    h, u = float(HALF_WIDTH), _position(m)
    return h * (-(u**4) / 16 + 3 * u**2 / 8 + u / 2 + 3 / 16) + np.maximum(0.0, 1 - m - h)


def smoothed_hinge_slope(m: _Array) -> _Array:
    """Return phi'(m) = u^3/4 - 3u/4 - 1/2 for |u| <= 1, between -1 and 0; 0 for u < -1 and -1 for u > 1."""
    u = _position(m)
    return u * u * u / 4 - 3 * u / 4 - 0.5  # a power takes longer for some numbers than for others


def smoothed_hinge_curvature(m: _Array) -> _Array:
    """Return phi''(m) = 3 (1 - u^2)/(4h) for |u| <= 1, else 0: between 0 and 3/(4h), and continuous."""
    return 3 * (1 - _position(m) ** 2) / (4 * float(HALF_WIDTH))


def sigmoid_loss(m: _Array) -> _Array:
    """Return phi(m) = 1/(1 + exp(m)) = sigma(-m), between 0 and 1: a smooth count of wrongly labelled records."""
    return _sigma(-m)


def sigmoid_slope(m: _Array) -> _Array:
    """Return phi'(m) = -sigma(m) sigma(-m), between -1/4 and 0."""
    return -logistic_curvature(m)


def sigmoid_curvature(m: _Array) -> _Array:
    """Return phi''(m) = sigma(m) sigma(-m) (sigma(m) - sigma(-m)); it has the sign of m and |phi''| <= 1/(6 sqrt 3).

    Notes
    -----
    With u = sigma(m) - sigma(-m) in (-1, 1) and sigma(m) + sigma(-m) = 1 this is u (1 - u^2)/4, whose derivative (1 - 3
    u^2)/4 is 0 at u = +-1/sqrt 3 alone; there its size is 1/(6 sqrt 3). And 1/(6 sqrt 3) = sqrt(3)/18 < 1351/14040, the
    c of :data:`SIGMOID`, as (18 x 1351/14040)^2 = (1351/780)^2 and 1351^2 = 3 x 780^2 + 1.
    """
    return logistic_curvature(m) * (_sigma(m) - _sigma(-m))


def _position(m: _Array) -> _Array:
    """Return u = (1 - m)/h, cut off at -1 and 1."""
    return np.clip((1 - m) / float(HALF_WIDTH), -1.0, 1.0)


@dataclass(frozen=True)
class Loss:
    """A loss phi of the margin, with the properties that the theorems need.

    Parameters
    ----------
    name : str
        Its name in the ``[model]`` section of a study.
    value, derivative, curvature : callable
        phi, phi' and phi'', elementwise.
    L : Fraction
        Bound on abs(phi').
    c : Fraction
        Bound on abs(phi'').
    convex : bool
        Whether phi'' is never negative.
    """

    name: str
    value: Callable[[_Array], _Array]
    derivative: Callable[[_Array], _Array]
    curvature: Callable[[_Array], _Array]
    L: Fraction
    c: Fraction
    convex: bool = True


LOGISTIC = Loss("logistic", logistic_loss, logistic_slope, logistic_curvature, Fraction(1), Fraction(1, 4))

SMOOTHED_HINGE = Loss(
    "smoothed-hinge",
    smoothed_hinge_loss,
    smoothed_hinge_slope,
    smoothed_hinge_curvature,
    Fraction(1),
    3 / (4 * HALF_WIDTH),
)

SIGMOID = Loss(
    "sigmoid",
    sigmoid_loss,
    sigmoid_slope,
    sigmoid_curvature,
    Fraction(1, 4),
    Fraction(1351, 14040),
    convex=False,
)

LOSSES = {loss.name: loss for loss in (LOGISTIC, SMOOTHED_HINGE, SIGMOID)}
"""The losses by the names that a study gives them."""


def loss_of(loss: str | Loss) -> Loss:
    """Return the loss of this name; a :class:`Loss` is returned as it is."""
    if isinstance(loss, Loss):
        return loss
    if loss not in LOSSES:
        raise LocalProtocolError(f"there is no {loss!r} loss; the losses are {listed(list(LOSSES))}")
    return LOSSES[loss]


def require_convex(model: Model) -> None:
    """Refuse a study whose objective need not have exactly one minimiser, for protocols that need the minimiser.

    Raises
    ------
    BadInput
        The loss is not convex, or regularization is 0.
    """
    if not loss_of(model.loss).convex:
        convex = " or ".join(f'"{loss.name}"' for loss in LOSSES.values() if loss.convex)
        raise BadInput(
            f'[model] loss is "{model.loss}", which is not convex; this protocol needs a convex loss, since its proof '
            "needs exactly one classifier that minimises the objective",
            f"set loss = {convex}, or choose a protocol that allows other losses",
        )
    if not model.regularization > 0:
        raise BadInput(
            f"[model] regularization is {model.regularization:g}; this protocol needs more than 0, since its proof "
            "needs exactly one classifier that minimises the objective",
            "set regularization to more than 0, or choose a protocol that allows 0",
        )


def objective(
    w: _Array,
    X: _Array,
    y: _Array,
    Lambda: float,
    loss: Loss = LOGISTIC,
    *,
    linear: _Array | None = None,
    extra: float = 0.0,
) -> float:
    """Return J(w) + linear.w + (extra/2) ||w||^2, for X of shape (n, d) and labels y of -1 and +1."""
    value = float(loss.value(y * (X @ w)).mean() + 0.5 * (Lambda + extra) * (w @ w))
    return value if linear is None else value + float(linear @ w)


def objective_gradient(
    w: _Array,
    X: _Array,
    y: _Array,
    Lambda: float,
    loss: Loss = LOGISTIC,
    *,
    linear: _Array | None = None,
    extra: float = 0.0,
) -> _Array:
    """Return the gradient of :func:`objective` at w, shape (d,)."""
    gradient = X.T @ (loss.derivative(y * (X @ w)) * y) / len(y) + (Lambda + extra) * w
    return gradient if linear is None else gradient + linear
