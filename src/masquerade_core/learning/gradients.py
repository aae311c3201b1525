"""Sums of gradients, and the steps along them: what one round of Rajkumar and Agarwal's Algorithm 1 computes."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from masquerade_core.errors import BadInput, LocalProtocolError
from masquerade_core.learning.losses import Loss, loss_of

__all__ = ["StepSizes", "gradient_sum", "step_sizes"]

_Array = NDArray[np.float64]


def gradient_sum(X: _Array, y: _Array, w: _Array, loss: str | Loss = "logistic") -> _Array:
    """Return grad G_k(w) = sum_j phi'(y_j w.x_j) y_j x_j, without regularisation.

    Parameters
    ----------
    X : ndarray, shape (n, d)
        Records with ||x||_2 <= 1.
    y : ndarray, shape (n,)
        Labels, -1 or +1.
    w : ndarray, shape (d,)
    loss : str or Loss

    Returns
    -------
    ndarray, shape (d,)
        Of norm at most n L. One record, replaced, moves it by at most 2 L.

    References
    ----------
    Rajkumar and Agarwal 2012, equation (8) and Proposition 3.1.
    """
    return np.asarray(X.T @ (loss_of(loss).derivative(y * (X @ w)) * y), dtype=np.float64)


@dataclass(frozen=True)
class StepSizes:
    """z_t = a/(t0 + t)^power for t = 0, 1, ...: steps whose sum diverges and whose sum of squares converges.

    Robbins and Monro's conditions hold for this form if and only if a > 0 and 1/2 < power <= 1.

    Parameters
    ----------
    a, t0 : float
        Greater than 0.
    power : float
        Greater than 1/2, at most 1.

    Raises
    ------
    BadInput
        A condition does not hold; the sentence says which.

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
                "than 0"
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
        """Return z_t, t >= 0."""
        return float(self.a / (self.t0 + t) ** self.power)

    def check(self, smoothness: float) -> None:
        """Refuse a first step so long that the descent diverges.

        Parameters
        ----------
        smoothness : float
            c + Lambda + Delta, which bounds the second derivative of the objective in every direction, as ||x||_2 <= 1.

        Raises
        ------
        BadInput
            z_0 (c + Lambda + Delta) is not less than 2. Later steps are shorter.
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
    """Return checked steps; what is not given is chosen to suit the objective.

    Unless given, a = 1/(Lambda + Delta), the best for an objective as convex as that, and t0 such that the first step
    is 1/max(1, c + Lambda + Delta), half of what would diverge or less.

    Parameters
    ----------
    c : float
        Bound on the loss's second derivative.
    Lambda, Delta : float
        Regularisation, and what computeSlack adds to it.

    Raises
    ------
    BadInput
        The steps break a condition of the paper, or diverge.
    """
    if not (Lambda > 0 and Delta >= 0 and c > 0):
        raise LocalProtocolError("steps were asked for along an objective that is not strongly convex")
    smoothness = c + Lambda + Delta
    if a is None:
        a = 1 / (Lambda + Delta)
    if t0 is None:
        t0 = (a * max(1.0, smoothness)) ** (1 / power) if a > 0 and power > 0 else 1.0
    steps = StepSizes(a, t0, power)
    steps.check(smoothness)
    return steps
