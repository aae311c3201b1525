"""Stochastic gradient descent on noisy examples: Bixler, "Privacy-Secure Stochastic Gradient Descent".

An *access* reads records and adds noise to them before anything is computed with them. There are two kinds:

* :func:`fresh_accesses`, as the paper prints it: new noise at every access. An adversary can average m noisy copies of
  a record. So m accesses cost m times (l2) or sqrt(m) times (Gaussian) as much privacy as one.
* :func:`kept_accesses`, the correction: noise is added to a record once, and its noisy copy is used again. Everything
  else is computed from that copy, so any number of epochs costs as much as one access.

The paper's density (7), "rho(x) prop. to e^(-alpha^2/2)", does not depend on its argument, so it is no density. Two
readings of it have a guarantee. "gaussian" is n ~ N(0, I/alpha^2). "l2" has the density exp(-(alpha/2) ||n||_2) of
Song, Chaudhuri and Sarwate 2013, whom the paper cites. Equation (6), read literally, has a density for n on the half-
line and one sign R for all coordinates. That has no guarantee: no two coordinates of N(x) - x then have opposite signs,
so one record makes many outputs that are impossible for another. Both laws here are symmetric and need no R.
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
"""The law of the noise on an example."""

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
        Greater than 0; a smaller alpha means more noise. "gaussian": N(0, I/alpha^2). "l2": density proportional to
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
    """Keep each label with a probability of exactly e^epsilon/(1 + e^epsilon), and negate it otherwise.

    Parameters
    ----------
    rng : Rng
        The only source of randomness.
    y : ndarray, shape (n,)
        Labels, -1 or +1.
    epsilon : Fraction
        Greater than 0: the privacy loss of a label.

    Notes
    -----
    A discrete Laplace integer x of scale 1/epsilon that is not negative has P(x) proportional to e^(-epsilon x). So it
    is odd with probability e^-epsilon/(1 + e^-epsilon) = 1/(1 + e^epsilon).

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

    So every record is read ``epochs`` times, a public number. The paper draws each example at random from all records.
    One record could then be read at every step, and the privacy of fresh noise would have to be counted for that case.

    Parameters
    ----------
    rng : Rng
        The only source of randomness.
    n, epochs : int
        The numbers of records and of passes.
    size : int
        b, the number of records in a batch. The last batch of a pass may be smaller.
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
    """Yield noisy batches with new noise at every access, as in equation (8)."""
    for batch in batches:
        yield perturb(rng, X[batch], alpha, law), y[batch]


def kept_accesses(
    rng: Rng, X: _Array, y: _Array, batches: Iterable[_Index], alpha: Fraction, law: Law
) -> Iterator[Batch]:
    """Yield noisy batches of copies: noise is added to every record once, before the first batch."""
    noisy = perturb(rng, X, alpha, law)
    for batch in batches:
        yield noisy[batch], y[batch]


# --- Descent ----------------------------------------------------------------------


def initial_weights(rng: Rng, d: int) -> _Array:
    """Draw w_0 uniformly from [-1, 1]^d, independently of the data (section 3)."""
    return np.array([(2 * rng.bits(_START_BITS) + 1) / 2**_START_BITS - 1 for _ in range(d)])


def sgd(w: _Array, batches: Iterable[Batch], learning_rate: float, loss: str | Loss, Lambda: float = 0.0) -> _Array:
    """Return w after one step for each batch: w - t ((1/b) sum_i grad E(N(z_i), w) + Lambda w).

    Parameters
    ----------
    w : ndarray, shape (d,)
        w_0.
    batches : iterable of (ndarray, ndarray)
        Noisy examples, shape (b, d), and labels. Batches of one example make equation (8).
    learning_rate : float
        t, the same at every step; greater than 0.
    loss : str or Loss
        phi of E(z, w) = phi(y w.x).
    Lambda : float
        The factor of (Lambda/2) ||w||_2^2, as in every study; the paper's objective has 0.

    Notes
    -----
    Equation (9) has 1/b twice: before the sum, and on each noisy example. The second one is taken for an error, since
    it would scale examples and noise down with the size of the batch, and changes nothing for b = 1. It is left out.

    The number of steps is fixed beforehand. The paper stops when a gradient falls below 1e-5, which depends on the
    data. Only the reproduction of the paper's figures has that rule.

    References
    ----------
    Bixler, equations (8) and (9).
    """
    for X, y in batches:
        w = w - learning_rate * (gradient_sum(X, y, w, loss) / len(y) + Lambda * w)
    return w
