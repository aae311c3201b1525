"""Losses of a margin m = y w.x, and the regularised mean that the parties minimise.

J(w) = (1/n) sum_i phi(m_i) + (Lambda/2) ||w||_2^2. This form stands everywhere in the program; Pathak's equation (2)
has lambda ||w||^2, so Lambda = 2 lambda (:mod:`masquerade_core.privacy.calibration`).
"""

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

__all__ = ["logistic_curvature", "logistic_loss", "logistic_slope", "objective", "objective_gradient"]

_Array = NDArray[np.float64]


def logistic_loss(m: _Array) -> _Array:
    """phi(m) = log(1 + exp(-m)), without overflow for any finite m."""
    return np.logaddexp(0.0, -m)


def logistic_slope(m: _Array) -> _Array:
    """phi'(m) = -sigma(-m), between -1 and 0."""
    return -np.asarray(expit(-m), dtype=np.float64)


def logistic_curvature(m: _Array) -> _Array:
    """phi''(m) = sigma(m) sigma(-m), between 0 and 1/4."""
    return np.asarray(expit(m) * expit(-m), dtype=np.float64)


def objective(w: _Array, X: _Array, y: _Array, Lambda: float) -> float:
    """J(w); X has shape (n, d), y holds -1 and +1."""
    return float(logistic_loss(y * (X @ w)).mean() + 0.5 * Lambda * (w @ w))


def objective_gradient(w: _Array, X: _Array, y: _Array, Lambda: float) -> _Array:
    """The gradient of J at w, shape (d,)."""
    return X.T @ (logistic_slope(y * (X @ w)) * y) / len(y) + Lambda * w
