"""Regularised empirical risk minimisation: one party's local classifier, to an exact minimiser.

Every sensitivity bound is a bound for the minimiser itself. A classifier whose gradient has norm gamma lies within
gamma / Lambda of it, and the privacy statement counts that; hence the small ``TOLERANCE`` and the refusal to return
anything that misses it.
"""

import numpy as np
from numpy.typing import NDArray

from masquerade_core.errors import LocalProtocolError, RunFailed
from masquerade_core.learning.losses import logistic_curvature, objective, objective_gradient

__all__ = ["TOLERANCE", "error_rate", "fit", "gradient_norm", "predict_labels"]

TOLERANCE = 1e-9
"""The largest gradient norm of a classifier that may be used."""

_MAX_STEPS = 200
_ARMIJO = 1e-4
_ROUNDING = 1e-14  # J is about 1: below this, differences of J are noise
_SMALLEST_STEP = 2.0**-40

_Array = NDArray[np.float64]


def fit(X: _Array, y: _Array, Lambda: float, loss: str = "logistic") -> _Array:
    """Minimise J(w) = (1/n) sum log(1 + exp(-y w.x)) + (Lambda/2) ||w||^2.

    Newton's method with backtracking: J is strongly convex, so the minimiser is unique and the result does not depend
    on the way there.

    Parameters
    ----------
    X : ndarray, shape (n, d)
        Records with ||x||_2 <= 1.
    y : ndarray, shape (n,)
        Labels, -1 or +1.
    Lambda : float
        Strong convexity, > 0: twice Pathak's lambda.
    loss : str
        "logistic", the only one.

    Returns
    -------
    ndarray, shape (d,)
        A point where the gradient's norm is at most ``TOLERANCE``.

    Raises
    ------
    RunFailed
        Floating point does not reach the tolerance: Lambda is too small for these records.

    References
    ----------
    Pathak, Rane, Raj 2010, equation (2), with Lambda = 2 lambda.
    """
    if loss != "logistic" or not Lambda > 0:
        raise LocalProtocolError(f"there is no {loss!r} loss with Lambda = {Lambda}: a study cannot ask for it")
    w = np.zeros(X.shape[1])
    value = objective(w, X, y, Lambda)
    for _ in range(_MAX_STEPS):
        gradient = objective_gradient(w, X, y, Lambda)
        if np.linalg.norm(gradient) <= TOLERANCE:
            return w
        weights = logistic_curvature(y * (X @ w)) / len(y)
        hessian = (X.T * weights) @ X
        hessian[np.diag_indices_from(hessian)] += Lambda
        direction = np.linalg.solve(hessian, -gradient)
        slope = float(gradient @ direction)
        step = 1.0
        while (new := objective(w + step * direction, X, y, Lambda)) > value + _ARMIJO * step * slope + _ROUNDING:
            step /= 2
            if step < _SMALLEST_STEP:
                break
        w, value = w + step * direction, new
    raise RunFailed(
        f"the local classifier did not reach a gradient norm of {TOLERANCE:g}, which the privacy bounds need",
        f"the study's regularization, {Lambda:g}, is too small for floating point; choose a larger one",
    )


def gradient_norm(w: _Array, X: _Array, y: _Array, Lambda: float) -> float:
    """||grad J(w)||_2: how far from exact a minimiser is; it lies within this over Lambda."""
    return float(np.linalg.norm(objective_gradient(w, X, y, Lambda)))


def predict_labels(X: _Array, w: _Array) -> _Array:
    """Label records as Dave does: -1 where sigma(w.x) <= 1/2, else +1 (Pathak, section 3.3); shape (n,)."""
    return np.where(X @ w > 0, 1.0, -1.0)


def error_rate(X: _Array, y: _Array, w: _Array) -> float:
    """The fraction of records that ``w`` labels wrongly."""
    return float(np.mean(predict_labels(X, w) != y))
