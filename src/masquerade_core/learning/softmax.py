"""Softmax regression: the exact minimiser for several classes, as :mod:`masquerade_core.learning.erm` finds it for two.

W has one row w_k for each class, and the class of a record x is the one with the largest w_k.x. A target is a class, or
a probability of each class. With probabilities, the votes of several classifiers become a risk (Hamm, Cao, Belkin 2016,
Appendix B).
"""

import numpy as np
from numpy.typing import NDArray

from masquerade_core.errors import LocalProtocolError
from masquerade_core.lazy_scipy import logsumexp, softmax
from masquerade_core.learning.erm import TOLERANCE, approach, not_precise

__all__ = [
    "class_error_rate",
    "fit_softmax",
    "one_hot",
    "predict_classes",
    "softmax_gradient",
    "softmax_objective",
    "softmax_probabilities",
]

_FEW = 64  # up to so many unknowns, Newton's steps alone take less time than L-BFGS and they do
_MAX_QUICK_STEPS = 300  # of L-BFGS
_MAX_STEPS = 200
_ARMIJO = 1e-4
_ROUNDING = 1e-14  # where R is about 1, smaller differences of R are rounding errors
_SMALLEST_STEP = 2.0**-40
_DENSE = 512  # up to this many unknowns the Hessian is factored; for more, conjugate gradients cost less
_MAX_PRODUCTS = (
    5000  # Hessian-vector products in a step, at most; a step ends far earlier unless Lambda is absurdly small
)
_SUM_SLACK = 1e-9

_Array = NDArray[np.float64]
_Targets = NDArray[np.float64] | NDArray[np.integer]


def one_hot(y: _Targets, classes: int) -> _Array:
    """Return class indices as probabilities: 1 for each record's class and 0 for all others; shape (N, classes).

    Parameters
    ----------
    y : ndarray, shape (N,)
        Class indices 0 to classes - 1, as integers or as floats.

    Raises
    ------
    LocalProtocolError
        A number is not the index of a class, so the data set was not checked before.
    """
    index = y.astype(np.intp)
    if classes < 2 or (index != y).any() or (index < 0).any() or (index >= classes).any():  # noqa: PLR2004  a choice
        raise LocalProtocolError(
            f"the labels must be whole numbers from 0 to {classes - 1}, and there must be at least two classes"
        )
    targets = np.zeros((len(index), classes))
    targets[np.arange(len(index)), index] = 1.0
    return targets


def softmax_objective(W: _Array, X: _Array, targets: _Array, Lambda: float) -> float:
    """Return R(W) = (1/N) sum_i [log sum_l exp(w_l.x_i) - sum_k t_ik w_k.x_i] + (Lambda/2) ||W||_F^2.

    Hamm, Cao, Belkin 2016, equation (55).
    """
    scores = X @ W.T
    return float((logsumexp(scores, axis=1) - (targets * scores).sum(axis=1)).mean() + 0.5 * Lambda * (W * W).sum())


def softmax_gradient(W: _Array, X: _Array, targets: _Array, Lambda: float) -> _Array:
    """Return the gradient of :func:`softmax_objective` at W, shape (C, d); equation (56) of the paper."""
    gradient: _Array = (softmax_probabilities(X, W) - targets).T @ X / len(X) + Lambda * W
    return gradient


def fit_softmax(X: _Array, targets: _Targets, Lambda: float, *, classes: int | None = None) -> _Array:
    """Minimise R(W), the regularised softmax risk of :func:`softmax_objective`.

    The method is that of :func:`masquerade_core.learning.erm.fit`. R is strongly convex, so
    the minimiser is unique. The rows of the minimiser add up to 0 and lie in the span of the records. If there are
    fewer than d records, Newton's method works in that span.

    Parameters
    ----------
    X : ndarray, shape (N, d)
        Records with ||x||_2 <= 1.
    targets : ndarray, shape (N, C) or (N,)
        Probabilities of the classes, >= 0, with sum 1 in each row; or class indices from 0 to ``classes`` - 1.
    Lambda : float
        Strength of the regularisation, > 0; the paper's lambda.
    classes : int, optional
        C >= 2; needed if the targets are indices.

    Returns
    -------
    ndarray, shape (C, d)
        A point where the gradient's norm is at most ``erm.TOLERANCE``.

    Raises
    ------
    RunFailed
        Floating point does not reach the tolerance, since Lambda is too small for these records.
    LocalProtocolError
        The targets are not probabilities, or Lambda is not greater than 0.

    References
    ----------
    Hamm, Cao, Belkin 2016, equations (41) for indices and (55) for probabilities.
    """
    if not (Lambda > 0 and len(X)):
        raise LocalProtocolError(
            f"nothing is minimised with Lambda = {Lambda}: it must be greater than 0, and there must be records"
        )
    if targets.ndim == 1:
        if classes is None:
            raise LocalProtocolError("class indices do not say how many classes there are; the caller must")
        T = one_hot(targets, classes)
    else:
        T = targets.astype(np.float64)
    if T.shape[0] != len(X) or not ((T >= 0).all() and (np.abs(T.sum(axis=1) - 1) <= _SUM_SLACK).all()):
        raise LocalProtocolError("each record needs a probability of each class, with sum 1")
    if len(X) < X.shape[1]:
        # X = L Q with orthonormal rows in Q, and W = V Q. So scores are V L'; V is as long as W, but has N columns.
        Q, R = np.linalg.qr(X.T)
        W: _Array = _newton(np.ascontiguousarray(R.T), T, Lambda) @ Q.T
    else:
        W = _newton(X, T, Lambda)
    if not np.linalg.norm(softmax_gradient(W, X, T, Lambda)) <= TOLERANCE:
        raise not_precise(Lambda)
    return W


def _newton(X: _Array, T: _Array, Lambda: float) -> _Array:
    """Return the minimiser, or the last point that was reached; the caller checks the gradient there."""
    W: _Array = np.zeros((T.shape[1], X.shape[1]))

    def first_order(w: _Array) -> tuple[float, _Array]:
        W = w.reshape(T.shape[1], -1)
        scores = X @ W.T
        scores -= scores.max(axis=1, keepdims=True)
        P = np.exp(scores)
        total = P.sum(axis=1, keepdims=True)
        value = (np.log(total).sum() - (T * scores).sum()) / len(X) + 0.5 * Lambda * (w @ w)
        return float(value), ((P / total - T).T @ X / len(X) + Lambda * W).ravel()

    if W.size > _FEW:
        w = W.ravel()
        curvature = Lambda + (1 - 1 / len(W)) / w.size  # of records of length 1, on average
        W = approach(first_order, (w, *first_order(w)), _MAX_QUICK_STEPS, curvature)[0].reshape(W.shape)
    value = softmax_objective(W, X, T, Lambda)
    for _ in range(_MAX_STEPS):
        P = softmax_probabilities(X, W)
        gradient = (P - T).T @ X / len(X) + Lambda * W
        if (
            np.linalg.norm(gradient) <= TOLERANCE / 2
        ):  # the other half pays for rounding errors on the way back to d dimensions
            break
        direction = _direction(X, P, Lambda, gradient)
        slope = float((gradient * direction).sum())
        rounding = _ROUNDING * max(1.0, abs(value))
        step = 1.0
        while True:
            new = softmax_objective(W + step * direction, X, T, Lambda)
            if new <= value + _ARMIJO * step * slope + rounding or step / 2 < _SMALLEST_STEP:
                break
            step /= 2
        W, value = W + step * direction, new
    return W


def _direction(X: _Array, P: _Array, Lambda: float, gradient: _Array) -> _Array:
    """Return -H^-1 gradient, H = (1/N) sum_i (diag(p_i) - p_i p_i') (x) x_i x_i' + Lambda I."""
    return _factored(X, P, Lambda, gradient) if gradient.size <= _DENSE else _conjugate(X, P, Lambda, gradient)


def _factored(X: _Array, P: _Array, Lambda: float, gradient: _Array) -> _Array:
    (C, d), N = gradient.shape, len(X)
    spread = (P[:, :, None] * X[:, None, :]).reshape(N, C * d)
    hessian = spread.T @ spread / -N
    for k in range(C):
        block = slice(k * d, (k + 1) * d)
        hessian[block, block] += spread[:, block].T @ X / N
    hessian[np.diag_indices_from(hessian)] += Lambda
    direction = np.linalg.solve(hessian, -gradient.ravel()).reshape(C, d)
    return np.asarray(direction, dtype=np.float64)


def _conjugate(X: _Array, P: _Array, Lambda: float, gradient: _Array) -> _Array:
    """Use conjugate gradients, preconditioned by the diagonal, as precisely as Newton's method needs here."""
    N = len(X)

    def product(V: _Array) -> _Array:
        A = P * (X @ V.T)
        A -= P * A.sum(axis=1, keepdims=True)
        result: _Array = A.T @ X / N + Lambda * V
        return result

    diagonal = (P * (1 - P)).T @ (X * X) / N + Lambda
    norm = float(np.linalg.norm(gradient))
    enough = min(0.1, norm**0.5) * norm
    V: _Array = np.zeros(gradient.shape)
    residual: _Array = -gradient
    scaled = residual / diagonal
    search, size = scaled, float((residual * scaled).sum())
    for _ in range(_MAX_PRODUCTS):
        image = product(search)
        length = size / float((search * image).sum())
        V = V + length * search
        residual = residual - length * image
        if np.linalg.norm(residual) <= enough:
            break
        scaled = residual / diagonal
        size, previous = float((residual * scaled).sum()), size
        search = scaled + size / previous * search
    return V


def softmax_probabilities(X: _Array, W: _Array) -> _Array:
    """Return P_k(x) = exp(w_k.x) / sum_l exp(w_l.x), without overflow for any finite score; shape (N, C)."""
    return np.asarray(softmax(X @ W.T, axis=1), dtype=np.float64)


def predict_classes(X: _Array, W: _Array) -> NDArray[np.intp]:
    """Return each record's class, the index k of the largest computed w_k.x; shape (N,).

    Of equal ones it is the first. Rounding decides between scores that are equal in exact arithmetic only, as those of
    two classes that the training set does not have. Another machine may round otherwise.
    """
    return np.asarray(np.argmax(X @ W.T, axis=1), dtype=np.intp)


def class_error_rate(X: _Array, y: _Targets, W: _Array) -> float:
    """Return the fraction of records that ``W`` assigns to a wrong class."""
    return float(np.mean(predict_classes(X, W) != y))
