"""Sums of gradients, and the sizes of the steps along them, for gradient descent in rounds.

A round of Rajkumar and Agarwal's Algorithm 1 computes the sum of all records' gradients and takes one step along it.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from masquerade_core.data.records import cached_rows
from masquerade_core.errors import BadInput, LocalProtocolError
from masquerade_core.learning.losses import Loss, loss_of

__all__ = ["GradientSum", "StepSizes", "gradient_sum", "step_sizes"]

_Array = NDArray[np.float64]


def gradient_sum(X: _Array, y: _Array, w: _Array, loss: str | Loss = "logistic") -> _Array:
    """Return grad G_k(w) = sum_j phi'(y_j w.x_j) y_j x_j, without regularisation.

    Parameters
    ----------
    X : ndarray, shape (n, d)
        Records with ||x||_2 <= 1.
    y : ndarray, shape (n,)
        Labels, -1 or +1; shape (n, 1) for many w.
    w : ndarray, shape (d,)
        Or (d, R): then there are R sums, one for each column.
    loss : str or Loss

    Returns
    -------
    ndarray, of the shape of w
        Its norm is at most n L, where L bounds |phi'|. Replacing one record moves it by at most 2 L.

    References
    ----------
    Rajkumar and Agarwal 2012, equation (8) and Proposition 3.1.
    """
    phi, total = loss_of(loss), np.zeros(w.shape)
    for some in cached_rows(X):
        rows, signs = X[some], y[some]
        total += rows.T @ (phi.derivative(signs * (rows @ w)) * signs)
    return total


@dataclass(frozen=True, eq=False)
class GradientSum:
    """:func:`gradient_sum` of one block of records, at ``w``."""

    w: _Array
    loss: str | Loss = "logistic"

    def __call__(self, X: _Array, y: _Array) -> _Array:
        """Return the sum of one block."""
        return gradient_sum(X, y, self.w, self.loss)


@dataclass(frozen=True)
class StepSizes:
    """Step sizes z_t = a/(t0 + t)^power for t = 0, 1, ...: their sum diverges, and the sum of their squares converges.

    These are Robbins and Monro's conditions. For this form they hold if and only if a > 0 and 1/2 < power <= 1.

    Parameters
    ----------
    a, t0 : float
        Greater than 0.
    power : float
        Greater than 1/2, at most 1.

    Raises
    ------
    BadInput
        A condition does not hold; the message says which one.

    References
    ----------
    Rajkumar and Agarwal 2012, Algorithm 1, input 3; Robbins and Monro 1951.
    """

    a: float
    t0: float
    power: float = 1.0

    def __post_init__(self) -> None:
        """Check the conditions."""
        if not all(v > 0 and math.isfinite(v) for v in (self.a, self.t0)):
            raise BadInput(
                f"the steps z_t = a/(t0 + t) have a = {self.a:g} and t0 = {self.t0:g}; both must be finite and greater "
                "than 0",
                "correct the one that is not",
            )
        if not self.power <= 1:
            raise BadInput(
                f"the steps fall as t^-{self.power:g}, so their sum converges and the descent may end before the "
                "minimum",
                "choose a power of at most 1",
            )
        if not self.power > 0.5:  # noqa: PLR2004
            raise BadInput(
                f"the steps fall as t^-{self.power:g}, so the sum of their squares does not converge and the noise of "
                "the rounds never averages out",
                "choose a power greater than 0.5",
            )

    def __call__(self, t: int) -> float:
        """Return z_t, the size of the step in round t >= 0."""
        return float(self.a / (self.t0 + t) ** self.power)

    def check(self, smoothness: float) -> None:
        """Refuse a first step that is so long that the descent diverges; later steps are shorter.

        Parameters
        ----------
        smoothness : float
            c + Lambda + Delta, which bounds the second derivative of the objective in every direction, as ||x||_2 <= 1.

        Raises
        ------
        BadInput
            z_0 (c + Lambda + Delta) is not less than 2.
        """
        product = self(0) * smoothness
        if not product < 2:  # noqa: PLR2004
            raise BadInput(
                f"the first step is {self(0):.4g}, but steps of {2 / smoothness:.4g} or more diverge: a step times the "
                f"objective's largest curvature, {smoothness:.4g}, must be less than 2",
                "choose smaller steps: a smaller a or a larger t0",
            )


def step_sizes(
    c: float,
    Lambda: float,
    Delta: float = 0.0,
    *,
    a: float | None = None,
    t0: float | None = None,
    power: float = 1.0,
) -> StepSizes:
    """Return step sizes that were checked; parameters that are not given are chosen for the objective.

    By default a = 1/(Lambda + Delta), which is best for an objective of that strong convexity. By default t0 makes the
    first step 1/max(1, c + Lambda + Delta), which is at most half of the smallest step that diverges.

    Parameters
    ----------
    c : float
        Bound on the loss's second derivative.
    Lambda, Delta : float
        Strength of the regularisation, > 0, and the curvature that objective perturbation adds to it, >= 0.

    Raises
    ------
    BadInput
        The steps break a condition of :class:`StepSizes`, or diverge.
    """
    if not (Lambda > 0 and Delta >= 0 and c > 0):
        raise LocalProtocolError(
            "these steps are for strongly convex objectives: Lambda and c must be greater than 0, and Delta at least 0"
        )
    smoothness = c + Lambda + Delta
    if a is None:
        a = 1 / (Lambda + Delta)
    if t0 is None:
        t0 = (a * max(1.0, smoothness)) ** (1 / power) if a > 0 and power > 0 else 1.0
    steps = StepSizes(a, t0, power)
    steps.check(smoothness)
    return steps
