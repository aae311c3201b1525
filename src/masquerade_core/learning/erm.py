"""Regularised empirical risk minimisation: the exact minimiser of a mean loss, with or without a perturbation.

Bounds on sensitivity are bounds for the minimiser itself. A classifier at which the gradient has norm gamma lies within
gamma / Lambda of the minimiser, and privacy statements take that into account. So ``TOLERANCE`` is small, and no
classifier is returned that misses it.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from math import inf, log

import numpy as np
from numpy.typing import NDArray

from masquerade_core.data.records import Records, cached_rows
from masquerade_core.errors import BadInput, LocalProtocolError, RunFailed
from masquerade_core.lazy_scipy import minimize
from masquerade_core.learning.losses import Loss, loss_of, objective_gradient

__all__ = [
    "LEAST_REGULARIZATION",
    "TOLERANCE",
    "Sums",
    "approach",
    "check_regularization",
    "error_rate",
    "fit",
    "fit_records",
    "gradient_norm",
    "not_precise",
    "predict_labels",
]

LEAST_REGULARIZATION = 1e-10
"""From this Lambda on, :func:`fit` finds the minimiser for all records, however they lie; below 1e-13 it may not."""

TOLERANCE = 1e-9
"""The largest norm of the gradient at a classifier that may be used."""

_FEW = 48  # up to so many coordinates, Newton's steps alone take less time than L-BFGS and they do
_PART = 8  # d/8 steps of L-BFGS take about as long as a matrix of second derivatives
_GOAL = TOLERANCE / 2  # of L-BFGS: what follows adds rounding errors
_MEMORY = 20  # earlier steps from which L-BFGS guesses the second derivatives
_MAX_STEPS = 200
_ARMIJO = 1e-4
_ROUNDING = 1e-14  # where J is about 1, smaller differences of J are rounding errors
_SMALLEST_STEP = 2.0**-40
_SUM_SLACK = 1e-9
_LARGEST_LINEAR = (
    1e5  # beyond it, rounding errors of the gradient reach a tenth of TOLERANCE, and an absurd w would pass
)

_Array = NDArray[np.float64]


def fit(
    X: _Array,
    y: _Array,
    Lambda: float,
    loss: str | Loss = "logistic",
    *,
    linear: _Array | None = None,
    extra: float = 0.0,
    weights: _Array | None = None,
) -> _Array:
    """Minimise J(w) = (1/n) sum phi(y w.x) + (Lambda/2) ||w||^2, perturbed by linear.w + (extra/2) ||w||^2.

    With weights, the mean is (1/n) sum weights_i phi(y_i w.x_i). Where there are many coordinates, L-BFGS comes near
    (:func:`approach`). If its gradients fall slowly, it goes on in coordinates in which J is nearly round. Newton's
    method with backtracking takes the steps that are left, often none. J is strongly convex, so the minimiser is
    unique. The gradient is checked at the point that is returned, whichever steps led there.

    Parameters
    ----------
    X : ndarray, shape (n, d)
        Records with ||x||_2 <= 1.
    y : ndarray, shape (n,)
        Labels, -1 or +1.
    Lambda : float
        Strength of the regularisation, > 0: twice Pathak's lambda, and equal to Rajkumar and Agarwal's lambda.
    loss : str or Loss
        phi, or its name.
    linear : ndarray, shape (d,), optional
        eta/N of objective perturbation.
    extra : float
        Delta of objective perturbation, >= 0.
    weights : ndarray, shape (n,), optional
        One per record, >= 0; they add up to n.

    Returns
    -------
    ndarray, shape (d,)
        A point where the gradient's norm is at most ``TOLERANCE``.

    Raises
    ------
    RunFailed
        Floating point does not reach the tolerance, since Lambda is too small for these records or the noise too large.

    References
    ----------
    Pathak, Rane, Raj 2010, equation (2), with Lambda = 2 lambda. Rajkumar and Agarwal 2012, Algorithm 4.
    Hamm, Cao, Belkin 2016, equation (19), for weights.
    """
    if not (Lambda > 0 and extra >= 0):
        raise LocalProtocolError("Lambda must be greater than 0, and extra at least 0, for a unique minimiser")
    _check_weights(weights, len(y))
    if linear is not None and not np.linalg.norm(linear) <= _LARGEST_LINEAR:
        raise RunFailed(
            "the noise is so large, compared with the records, that floating point cannot find the minimiser",
            "choose a larger epsilon, or take part with more records",
        )
    return _newton(lambda f: f(X, y), Sums(np.zeros(X.shape[1]), loss_of(loss), len(y), weights), Lambda, linear, extra)


def fit_records(records: Records, Lambda: float, loss: str | Loss = "logistic") -> _Array:
    """Minimise J(w) over records wherever they lie, as :func:`fit` does over a matrix.

    Each step takes two passes over the records or more. A block's sums are added in the order of the blocks, so the
    same records give the same bits in memory and on a disk; and for up to 65,536 of them those of :func:`fit`.

    Raises
    ------
    RunFailed
        Floating point does not reach the tolerance, since Lambda is too small for these records.
    """
    if not Lambda > 0:
        raise LocalProtocolError("Lambda must be greater than 0 for a unique minimiser")
    return _newton(records.added, Sums(np.zeros(records.d), loss_of(loss), records.n), Lambda, None, 0.0)


@dataclass(frozen=True, eq=False)
class Sums:
    """One block's contribution to a step of Newton's method, at w.

    Parameters
    ----------
    w : ndarray, shape (d,)
    loss : Loss
    n : int
        The number of all records.
    weights : ndarray, shape (n,), optional
        Those of all records, where there is one block.
    second : bool
        Whether it is the sum of second derivatives, over n; otherwise the sum of losses, and that of gradients.
    """

    w: _Array
    loss: Loss
    n: int
    weights: _Array | None = None
    second: bool = False

    def __call__(self, X: _Array, y: _Array) -> _Array:
        """Return the sums of one block: shape (d, d), or (1 + d,)."""
        d = X.shape[1]
        if self.second:
            hessian = np.zeros((d, d))
            for some in cached_rows(X, least=d):
                rows = X[some]
                curvature = self._loss_of(some).curvature(y[some] * (rows @ self.w)) / self.n
                if self.loss.convex:  # a matrix times itself takes half the time
                    rows = rows * np.sqrt(curvature)[:, None]
                    hessian += rows.T @ rows
                else:
                    hessian += (rows.T * curvature) @ rows
            return hessian
        sums, moved = np.zeros(1 + d), self.w.any()  # a fit begins at 0
        for some in cached_rows(X):
            rows, signs, loss = X[some], y[some], self._loss_of(some)
            margins = signs * (rows @ self.w) if moved else np.zeros(len(rows))
            sums[0] += loss.value(margins).sum()
            sums[1:] += rows.T @ (loss.derivative(margins) * signs)
        return sums

    def _loss_of(self, rows: slice) -> Loss:
        return self.loss if self.weights is None else _weighted(self.loss, self.weights[rows])


def _newton(added: Callable[[Sums], _Array], start: Sums, Lambda: float, linear: _Array | None, extra: float) -> _Array:
    """Return the minimiser. ``added`` returns the sums over all records; the rest is as in :func:`fit`."""

    def first_order(w: _Array) -> tuple[float, _Array]:
        sums = added(replace(start, w=w))
        value = float(sums[0] / start.n + 0.5 * (Lambda + extra) * (w @ w))
        gradient: _Array = sums[1:] / start.n + (Lambda + extra) * w
        return (value, gradient) if linear is None else (value + float(linear @ w), gradient + linear)

    def second_order(w: _Array) -> _Array:
        hessian = added(replace(start, w=w, second=True))
        hessian[np.diag_indices_from(hessian)] += Lambda + extra
        return hessian

    d = len(start.w)
    w, (value, gradient) = start.w, first_order(start.w)
    if d > _FEW:
        # Of records of length 1, no matter where they lie, the second derivatives are so large on average.
        curvature = Lambda + extra + 1 / (4 * d)
        w, value, gradient = approach(first_order, (w, value, gradient), d // _PART, curvature)
        if np.linalg.norm(gradient) > TOLERANCE:
            with suppress(np.linalg.LinAlgError):  # rounding errors leave no root; Newton's method goes on
                along = np.linalg.inv(np.linalg.cholesky(second_order(w))).T
                w, value, gradient = approach(first_order, (w, value, gradient), d // _PART, 1.0, along)
    for _ in range(_MAX_STEPS):
        if np.linalg.norm(gradient) <= TOLERANCE:
            return w
        direction = np.linalg.solve(second_order(w), -gradient)
        slope = float(gradient @ direction)
        rounding = _ROUNDING * max(1.0, abs(value))
        step = 1.0
        while True:
            new, new_gradient = first_order(w + step * direction)
            if new <= value + _ARMIJO * step * slope + rounding or step / 2 < _SMALLEST_STEP:
                break
            step /= 2
        w, value, gradient = w + step * direction, new, new_gradient
    raise not_precise(Lambda)


def approach(
    first_order: Callable[[_Array], tuple[float, _Array]],
    start: tuple[_Array, float, _Array],
    steps: int,
    curvature: float,
    along: _Array | None = None,
) -> tuple[_Array, float, _Array]:
    """Return w, the value there and the gradient, whose norm is below ``TOLERANCE`` if L-BFGS comes so near.

    Nothing rests on it: the caller checks the gradient, and goes on by Newton's method.

    Parameters
    ----------
    first_order : callable
        w -> (value, gradient) of a strongly convex function.
    start : (ndarray, float, ndarray), shapes (d,) and (d,)
        A point, the value there and the gradient.
    steps : int
        After so many, L-BFGS goes on only where as many more will do, if the gradient falls as it fell so far.
    curvature : float
        The second derivative along the gradient, about. The first step is as long as Newton's method would make it.
    along : ndarray, shape (d, d), optional
        L-BFGS then looks for v in w = start + along v, and ``curvature`` is that by v. Few steps do if the second
        derivatives by v are near to 1.
    """
    origin, norms, best = start[0], [float(np.linalg.norm(start[2]))], [start]

    def by_v(gradient: _Array) -> _Array:
        return gradient if along is None else gradient @ along

    scale = float(np.linalg.norm(by_v(start[2]))) / curvature  # SciPy's first step has the length 1

    def watched(v: _Array) -> tuple[float, _Array]:
        if not v.any():
            return start[1], scale * by_v(start[2])
        w = origin + scale * (v if along is None else along @ v)
        value, gradient = first_order(w)
        norms.append(float(np.linalg.norm(gradient)))
        if value <= best[0][1] or norms[-1] <= _GOAL:
            best[:] = [(w, value, gradient)]
        if norms[-1] <= _GOAL or (len(norms) > steps and _left(norms) > steps):
            raise _Enough
        return value, scale * by_v(gradient)

    options = {"maxiter": 2 * steps, "gtol": 0.0, "ftol": 0.0, "maxcor": _MEMORY}
    with np.errstate(all="ignore"), suppress(_Enough):
        minimize(watched, np.zeros_like(origin), jac=True, method="L-BFGS-B", options=options)
    return best[0]


class _Enough(Exception):
    """No error: it ends L-BFGS."""


def _left(norms: list[float]) -> float:
    """Return how many steps are left to ``_GOAL``, if each divides the gradient's norm by as much as those so far."""
    first, last = norms[0], norms[-1]
    return len(norms) * log(last / _GOAL) / log(first / last) if last < first else inf


def not_precise(Lambda: float) -> RunFailed:
    """Return the error for a classifier that floating point does not find closely enough for the privacy bounds."""
    return RunFailed(
        f"the classifier cannot be computed precisely enough: its gradient norm did not fall to {TOLERANCE:g}, which "
        "the privacy bounds need",
        f"the study's regularization, {Lambda:g}, is too small for floating point: choose a larger one",
    )


def _check_weights(weights: _Array | None, n: int) -> None:
    if weights is None:
        return
    if weights.shape != (n,) or not ((weights >= 0).all() and abs(weights.sum() - n) <= _SUM_SLACK * n):
        raise LocalProtocolError("the weights must be one for each record, none of them negative, with a mean of 1")


def _weighted(phi: Loss, weights: _Array) -> Loss:
    """Return weights_i phi(m_i) as a loss of the margins of these records."""
    return replace(
        phi,
        value=lambda m: weights * phi.value(m),
        derivative=lambda m: weights * phi.derivative(m),
        curvature=lambda m: weights * phi.curvature(m),
    )


def check_regularization(Lambda: float) -> None:
    """Refuse a Lambda with which it would depend on the records whether the minimiser can be found.

    A party that trains and fails would tell others of its records, so the study's public number decides beforehand.

    Raises
    ------
    BadInput
        Lambda is less than ``LEAST_REGULARIZATION``.
    """
    if Lambda < LEAST_REGULARIZATION:
        raise BadInput(
            f"[model] regularization is {Lambda:g}, but must be at least {LEAST_REGULARIZATION:g}: with less, floating "
            "point finds a party's classifier for some records and not for others",
            "choose a larger regularization",
        )


def gradient_norm(
    w: _Array,
    X: _Array,
    y: _Array,
    Lambda: float,
    loss: str | Loss = "logistic",
    *,
    linear: _Array | None = None,
    extra: float = 0.0,
    weights: _Array | None = None,
) -> float:
    """Return the norm of the gradient, at w, of the function that :func:`fit` minimises.

    Divided by Lambda + extra, it bounds the distance of w from the minimiser.
    """
    _check_weights(weights, len(y))
    phi = loss_of(loss) if weights is None else _weighted(loss_of(loss), weights)
    gradient = objective_gradient(w, X, y, Lambda, phi, linear=linear, extra=extra)
    return float(np.linalg.norm(gradient))


def predict_labels(X: _Array, w: _Array) -> _Array:
    """Return the labels that w predicts: -1 where sigma(w.x) <= 1/2, else +1 (Pathak, section 3.3); shape (n,)."""
    return np.where(X @ w > 0, 1.0, -1.0)


def error_rate(X: _Array, y: _Array, w: _Array) -> float:
    """Return the fraction of records that ``w`` labels wrongly."""
    return float(np.mean(predict_labels(X, w) != y))
