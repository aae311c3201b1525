"""Stochastic gradient descent that sees noisy examples only: Bixler, "Privacy-Secure Stochastic Gradient Descent".

A descent takes examples through one of two doors, and each adds noise before anything is computed with them:

* :func:`fresh_accesses`, as printed: new noise at every access. Whoever sees m noisy copies of a record averages them,
  so m accesses cost m times (l2) or sqrt(m) times (Gaussian) as much as one.
* :func:`kept_accesses`, the correction: a record is perturbed once, and its noisy copy is used again. All that follows
  is computed from that copy, so any number of epochs costs what one access does.

The paper's density (7), "rho(x) prop. to e^(-alpha^2/2)", does not depend on its argument: it is no density. Two
readings have a guarantee. "gaussian": n ~ N(0, I/alpha^2). "l2": density exp(-(alpha/2) ||n||_2), that of Song,
Chaudhuri and Sarwate 2013, to which the paper refers. The letter of equation (6), a half-line density for n and one
sign R for all coordinates, has none: then N(x) - x has no two coordinates of opposite sign, so many an output that one
record makes is impossible under another. Both laws here are symmetric, so R is in them.
"""

from collections.abc import Iterable, Iterator
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from masquerade_core.learning.gradients import gradient_sum
from masquerade_core.learning.losses import Loss
from masquerade_core.privacy.samplers.discrete_laplace import discrete_laplace
from masquerade_core.privacy.samplers.l2_laplace import l2_laplace
from masquerade_core.privacy.samplers.rounded_gaussian import gaussian
from masquerade_core.rng import Rng

__all__ = [
    "FRACTION_BITS",
    "Batch",
    "Law",
    "epochs_of",
    "fresh_accesses",
    "initial_weights",
    "kept_accesses",
    "perturb",
    "randomised_response",
    "sgd",
]

FRACTION_BITS = 28
"""F: records and noise are integers in units of 2^-F."""

_START_BITS = 53

Law = Literal["gaussian", "l2"]
"""Of the noise on an example."""

_Array = NDArray[np.float64]
_Index = NDArray[np.intp]
Batch = tuple[_Array, _Array]
"""Noisy examples X, shape (b, d), and their labels y, shape (b,)."""


# --- Noise ------------------------------------------------------------------------


def perturb(rng: Rng, X: _Array, alpha: Fraction, law: Law) -> _Array:
    """Return N(x) = x + n for every record, with its own n; equation (6).

    Parameters
    ----------
    rng : Rng
        The only source of randomness.
    X : ndarray, shape (n, d)
        Records with ||x||_2 <= 1. They are rounded to the grid of 2^-F, on which the noise lies.
    alpha : Fraction
        Greater than 0; the smaller, the more noise. "gaussian": N(0, I/alpha^2). "l2": density proportional to
        exp(-(alpha/2) ||n||_2).
    law : "gaussian" or "l2"

    Returns
    -------
    ndarray, shape (n, d)

    References
    ----------
    Bixler, equations (6) and (7). Song, Chaudhuri and Sarwate 2013, equation (2).
    """
    unit, d = Fraction(1 << FRACTION_BITS), X.shape[1]
    rows = []
    for x in X.tolist():
        noise = gaussian(rng, 1 / alpha, d, unit) if law == "gaussian" else l2_laplace(rng, alpha / 2, d, unit)
        rows.append([(round(v * 2**FRACTION_BITS) + n) / (1 << FRACTION_BITS) for v, n in zip(x, noise, strict=True)])
    return np.array(rows, dtype=np.float64).reshape(X.shape)


def randomised_response(rng: Rng, y: _Array, epsilon: Fraction) -> _Array:
    """Keep each label with probability e^epsilon/(1 + e^epsilon), exactly; else return its negative.

    A discrete Laplace integer x of scale 1/epsilon that is not negative has P(x) proportional to e^(-epsilon x), so it
    is odd with probability e^-epsilon/(1 + e^-epsilon) = 1/(1 + e^epsilon).

    Parameters
    ----------
    y : ndarray, shape (n,)
        Labels, -1 or +1.
    epsilon : Fraction
        Greater than 0: what a label loses.

    References
    ----------
    Warner 1965, "Randomized response".
    """

    def flips() -> bool:
        while True:
            (x,) = discrete_laplace(rng, 1 / epsilon, 1)
            if x >= 0:
                return x % 2 == 1

    return np.array([-label if flips() else label for label in y.tolist()], dtype=np.float64)


# --- Order ------------------------------------------------------------------------


def epochs_of(rng: Rng, n: int, epochs: int, size: int) -> Iterator[_Index]:
    """Yield the batches of ``epochs`` passes over n records, each in a random order of its own.

    So every record is seen ``epochs`` times, a public number. The paper draws each example at random from all; then a
    record could be met at every step, and noise that is fresh at each would have to be counted so.

    Parameters
    ----------
    size : int
        b, of a batch. The last of a pass may be smaller.
    """
    for _ in range(epochs):
        order = np.arange(n)
        for i in range(n - 1, 0, -1):  # Fisher and Yates
            j = rng.below(i + 1)
            order[i], order[j] = order[j], order[i]
        yield from (order[start : start + size] for start in range(0, n, size))


def fresh_accesses(
    rng: Rng, X: _Array, y: _Array, batches: Iterable[_Index], alpha: Fraction, law: Law
) -> Iterator[Batch]:
    """Yield noisy batches: new noise at every access, as equation (8) prints it."""
    for batch in batches:
        yield perturb(rng, X[batch], alpha, law), y[batch]


def kept_accesses(
    rng: Rng, X: _Array, y: _Array, batches: Iterable[_Index], alpha: Fraction, law: Law
) -> Iterator[Batch]:
    """Yield noisy batches: every record is perturbed once, before the first, and its copy kept."""
    noisy = perturb(rng, X, alpha, law)
    for batch in batches:
        yield noisy[batch], y[batch]


# --- Descent ----------------------------------------------------------------------


def initial_weights(rng: Rng, d: int) -> _Array:
    """Draw w_0 uniform in [-1, 1]^d, whatever the data; section 3."""
    return np.array([(2 * rng.bits(_START_BITS) + 1) / 2**_START_BITS - 1 for _ in range(d)])


def sgd(w: _Array, batches: Iterable[Batch], learning_rate: float, loss: str | Loss, Lambda: float = 0.0) -> _Array:
    """Return w after one step for each batch: w - t ((1/b) sum_i grad E(N(z_i), w) + Lambda w).

    Parameters
    ----------
    w : ndarray, shape (d,)
        w_0.
    batches : iterable of (ndarray, ndarray)
        Noisy examples, shape (b, d), and labels. Examples one at a time are equation (8).
    learning_rate : float
        t, the same at every step; greater than 0.
    loss : str or Loss
        phi of E(z, w) = phi(y w.x).
    Lambda : float
        Of (Lambda/2) ||w||_2^2, as in every study; 0 is the paper's objective.

    Notes
    -----
    Equation (9) has 1/b twice: before the sum, and again on each noisy example. The second is taken for a slip, since
    it would shrink examples and noise alike with the batch and for b = 1 changes nothing; there is one 1/b, outside.

    The number of steps is fixed beforehand. The paper stops where a gradient falls below 1e-5, which depends on the
    data; that rule stands in the reproduction only.

    References
    ----------
    Bixler, equations (8) and (9).
    """
    for X, y in batches:
        w = w - learning_rate * (gradient_sum(X, y, w, loss) / len(y) + Lambda * w)
    return w
