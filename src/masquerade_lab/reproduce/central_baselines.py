"""Private learning with all records in one place: three methods with which ours is compared.

Each of them promises the same (epsilon, delta) for the released classifier, if one record is replaced. None of them is
a protocol: one person has to hold all records. The noise is floating point and comes from a seed, so nothing here is a
private release.

References
----------
Iyengar, Near, Song, Thakkar, Thakurta and Wang 2019, "Towards Practical Differentially Private Convex Optimization":
approximate minima perturbation (AMP). Redberg, Koskela and Wang 2023, arXiv 2401.00583: objective perturbation, with an
accounting that does not grow with the dimension. Wang 2018, arXiv 1803.02596: AdaSSP.
"""

from functools import cache
from math import exp, expm1, log, log1p, pi, sqrt

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve, cholesky, solve_triangular
from scipy.optimize import brentq, minimize
from scipy.special import expit, ndtr

from masquerade_core.data.schema import Dataset
from masquerade_core.rng import Rng

__all__ = ["Logistic", "adassp", "amp", "normals", "objective_perturbation", "objective_sigma", "penalties"]

_Array = NDArray[np.float64]

_CURVATURE = 0.25  # the largest second derivative of the logistic loss
_LEAST_SIGMA, _LARGEST_SIGMA = 1e-3, 1e9
_FAILURE = 0.05  # AdaSSP's rho: how likely its ridge is too small
_PENALTY_STEPS = 5


def normals(rng: Rng, count: int) -> _Array:
    """Return independent standard normals; of uniforms in (0, 1] on a grid of 2^-53."""
    pairs = (count + 1) // 2
    bits = np.frombuffer(rng.bytes(16 * pairs), dtype="<u8").reshape(2, pairs)
    u, v = ((bits >> np.uint64(11)) + np.uint64(1)) * 2.0**-53
    radius, turn = np.sqrt(-2 * np.log(u)), 2 * np.pi * v
    return np.concatenate([radius * np.cos(turn), radius * np.sin(turn)])[:count]


class Logistic:
    """Logistic regression on some records, for many penalties and many draws of the noise.

    Parameters
    ----------
    records : Dataset
    """

    def __init__(self, records: Dataset) -> None:
        self.records = records
        self._Z = records.X * records.y[:, None]
        self.gram = self._Z.T @ self._Z

    def fit(self, penalty: float, linear: _Array | None = None) -> _Array:
        """Minimise sum log(1 + exp(-y u.w)) + (penalty/2) |w|^2 + linear.w; shape (d,).

        The search goes on in coordinates in which the largest possible curvature is the same in all directions.
        """
        n, d = self._Z.shape
        shift = np.zeros(d) if linear is None else linear
        root = cholesky(_CURVATURE * self.gram + penalty * np.eye(d)) / sqrt(n)

        def objective(v: _Array) -> tuple[float, _Array]:
            w = solve_triangular(root, v)
            margins = self._Z @ w
            value = np.logaddexp(0, -margins).sum() + penalty / 2 * (w @ w) + shift @ w
            gradient = -(expit(-margins) @ self._Z) + penalty * w + shift
            return float(value) / n, solve_triangular(root, gradient, trans="T") / n

        options = {"maxiter": 1000, "ftol": 1e-13, "gtol": 1e-7}
        found = minimize(objective, np.zeros(d), jac=True, method="L-BFGS-B", options=options)
        return np.asarray(solve_triangular(root, found.x))


# --- Approximate minima perturbation ---------------------------------------------------


def amp(logistic: Logistic, epsilon: float, delta: float, rng: Rng) -> _Array:
    """Return AMP's classifier with its authors' split of epsilon, which leaves nothing to choose.

    It is the exact minimiser, for which AMP spends nothing on a noisy output. That flatters AMP.

    References
    ----------
    Iyengar et al. 2019, Algorithm 1 with L = 1, r = 2 and beta = 1/4, and the split of its authors' program.
    """
    part = max(min(0.88671 + 0.0186607 / epsilon**0.372906, 0.99), 1 - 1 / epsilon + 0.001)
    for_noise = part * epsilon
    penalty = 2 * _CURVATURE / (epsilon - for_noise)
    sigma = 2 * (1 + sqrt(2 * log(1 / delta))) / for_noise
    return logistic.fit(penalty, sigma * normals(rng, len(logistic.gram)))


# --- Objective perturbation ------------------------------------------------------------


def objective_perturbation(logistic: Logistic, penalty: float, epsilon: float, delta: float, rng: Rng) -> _Array:
    """Return the minimiser of a randomly tilted objective, with the noise of :func:`objective_sigma`."""
    sigma = objective_sigma(penalty, epsilon, delta)
    return logistic.fit(penalty, sigma * normals(rng, len(logistic.gram)))


def penalties(epsilon: float) -> tuple[float, ...]:
    """Return the penalties to choose from: the least one leaves half of epsilon for the noise."""
    least = _CURVATURE / expm1(epsilon / 2)
    return tuple(least * 4.0**k for k in range(_PENALTY_STEPS))


def objective_sigma(penalty: float, epsilon: float, delta: float) -> float:
    """Return the least noise with which a tilted objective keeps (epsilon, delta), in any dimension.

    A replaced record changes the gradient by v, of length 2 at most, and v lies in the plane of the two records. So the
    privacy loss is at most s + 2 R/sigma + 2/sigma^2, where R is the length of a standard normal vector in a plane and
    s = log(1 + 1/(4 penalty)) is paid for the determinants.
    """
    return _sigma(epsilon - log1p(_CURVATURE / penalty), delta)


@cache
def _sigma(epsilon: float, delta: float) -> float:
    found = brentq(lambda x: _plane_delta(epsilon, exp(x)) - delta, log(_LEAST_SIGMA), log(_LARGEST_SIGMA), xtol=1e-10)
    return exp(found)


def _plane_delta(epsilon: float, sigma: float) -> float:
    """Return the mean of max(0, 1 - exp(epsilon - a R - a^2/2)) for a = 2/sigma and R with density r exp(-r^2/2)."""
    a = 2 / sigma
    t = max(0.0, epsilon / a - a / 2)
    return exp(-t * t / 2) - exp(epsilon) * (exp(-((t + a) ** 2) / 2) - a * sqrt(2 * pi) * float(ndtr(-t - a)))


# --- AdaSSP -------------------------------------------------------------------------


def adassp(logistic: Logistic, epsilon: float, delta: float, rng: Rng) -> _Array:
    """Return a ridge regression of the labels, from noisy second moments, with a ridge that follows from them.

    References
    ----------
    Wang 2018, Algorithm 2, for records and labels of length 1.
    """
    gram, d = logistic.gram, len(logistic.gram)
    part, confidence = epsilon / 3, log(6 / delta)
    scale = sqrt(confidence) / part
    upper = np.zeros((d, d))
    upper[np.triu_indices(d)] = normals(rng, d * (d + 1) // 2)
    noise = upper + np.triu(upper, 1).T
    least = float(np.linalg.eigvalsh(gram)[0])
    least = max(0.0, least + scale * float(normals(rng, 1)[0]) - confidence / part)
    ridge = max(0.0, sqrt(d * confidence * log(2 * d * d / _FAILURE)) / part - least)
    vector = logistic.records.y @ logistic.records.X + scale * normals(rng, d)
    matrix = gram + scale * noise + ridge * np.eye(d)
    try:
        return np.asarray(cho_solve((cholesky(matrix), False), vector))
    except np.linalg.LinAlgError:  # not positive: as likely as the ridge is too small
        return np.asarray(np.linalg.lstsq(matrix, vector, rcond=None)[0])
