"""Hamm, Cao and Belkin's aggregators without encryption: all parties' classifiers in one process, and the noise.

Nothing here is a protocol: one process sees all records. The minimisers are those of the protocols and baselines, and
the noise comes from the same sampler on the same grid.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from scipy.special import lambertw

from masquerade_core.learning.softmax import fit_softmax, one_hot, predict_classes
from masquerade_core.privacy.samplers.l2_laplace import l2_laplace
from masquerade_core.rng import SimulationRng

__all__ = [
    "Trial",
    "accuracies",
    "aggregate",
    "draw_noise",
    "draw_norms",
    "principal_components",
    "published_sensitivity",
    "radius",
    "shuffled",
    "tight_sensitivity",
]

_UNIT = Fraction(1 << 32)  # grid units per unit of a weight
_Array = NDArray[np.float64]
_Classes = NDArray[np.intp]


def principal_components(X_train: _Array, X_test: _Array, d: int) -> tuple[_Array, _Array]:
    """Project both parts on the training part's d leading right singular vectors, not centred, and clip the rows.

    The directions depend on all training records, and no theorem of the paper accounts for that.

    Returns
    -------
    X_train, X_test
        Of shapes (n, d) and (m, d), each row of norm at most 1.
    """
    _, vectors = np.linalg.eigh(X_train.T @ X_train)
    leading = vectors[:, : -d - 1 : -1]
    projected = (X @ leading for X in (X_train, X_test))
    train, test = (X / np.maximum(1.0, np.linalg.norm(X, axis=1))[:, None] for X in projected)
    return train, test


def shuffled(seed: str, n: int) -> _Classes:
    """Return 0 to n - 1 in random order."""
    rng = SimulationRng(seed, "order")
    return np.argsort(np.array([rng.bits(63) for _ in range(n)]))


# --- The classifiers ----------------------------------------------------------------


@dataclass(frozen=True)
class Trial:
    """One dealing of the training records, without noise.

    Parameters
    ----------
    W : mapping of str to ndarray, shape (C, d)
        "batch", "vote", "soft" and "avg".
    own : ndarray, shape (M, C, d)
        The parties' own classifiers; "indiv" is their mean accuracy.
    """

    W: Mapping[str, _Array]
    own: _Array


def aggregate(X: _Array, y: _Classes, classes: int, Lambda: float, parts: NDArray[np.intp], aux: _Classes) -> Trial:
    """Train the parties' classifiers and every aggregate of them.

    Parameters
    ----------
    X : ndarray, shape (n, d)
    y : ndarray, shape (n,)
        Class indices.
    classes : int
        The paper's K.
    Lambda : float
        The paper's lambda, for local and global classifiers alike.
    parts : ndarray, shape (M, n_j)
        Which records each party has.
    aux : ndarray, shape (N,)
        Which records are the auxiliary points; their labels are not used.

    References
    ----------
    Hamm, Cao, Belkin 2016, Algorithms 1 and 2, section 6 and Appendix B. Of equal counts, the first class wins.
    """
    own = np.array([fit_softmax(X[part], y[part], Lambda, classes=classes) for part in parts])
    points = X[aux]
    votes = np.array([predict_classes(points, W) for W in own])
    alpha = np.stack([(votes == k).mean(axis=0) for k in range(classes)], axis=1)
    everybody = parts.ravel()
    W = {
        "batch": fit_softmax(X[everybody], y[everybody], Lambda, classes=classes),
        "vote": fit_softmax(points, one_hot(alpha.argmax(axis=1), classes), Lambda),
        "soft": fit_softmax(points, alpha, Lambda),
        "avg": own.mean(axis=0),
    }
    return Trial(W, own)


def accuracies(X: _Array, y: _Classes, W: _Array, noise: _Array) -> _Array:
    """Return the test accuracy of W + eta for each eta; noise has shape (R, C d), the result (R,)."""
    shifted = (W.ravel() + noise).reshape(-1, *W.shape)
    return np.array([np.mean(predict_classes(X, one) == y) for one in shifted])


# --- Sensitivities ------------------------------------------------------------------


def published_sensitivity(method: str, M: int, Lambda: float) -> float:
    """Return how far one party may move the released parameters, as the paper bounds it for softmax.

    References
    ----------
    Hamm, Cao, Belkin 2016, equations (53) and (60) and the last sentence of Appendix B.4.
    """
    root = math.sqrt(2)
    return {"vote": root / Lambda, "soft": root / (M * Lambda), "avg": 2 * root / (M * Lambda)}[method]


def radius(classes: int, Lambda: float) -> float:
    """Return R = sqrt(W((C - 1)/e) / lambda), which no minimiser's norm exceeds; W is Lambert's function.

    At a minimiser w the gradient is 0, and its product with w gives lambda ||w||^2 = mean_i sum_k (t_ik - P_ik) s_ik,
    with scores s_ik = w_k.x_i and targets t_i. The right side is linear in t_i, so it is largest for one sure class y:
    s_y - sum_k P_k s_k = sum_{l != y} P_l m_l with margins m_l = s_y - s_l = log(P_y / P_l). That is (1 - P_y) log P_y
    - sum_{l != y} P_l log P_l, and for a given P_y the entropy is largest where all other P_l are equal. What is left
    is (C - 1) m / (exp(m) + C - 1). Its derivative vanishes where (m - 1) exp(m - 1) = (C - 1)/e, that is at m = 1 +
    W((C - 1)/e), and its value there is m - 1. For six classes R = .9025 / sqrt(lambda).
    """
    return math.sqrt(lambertw((classes - 1) / math.e).real / Lambda)


def tight_sensitivity(method: str, M: int, Lambda: float, classes: int) -> float:
    """Return the smaller of the published bound and the diameter 2R of all minimisers, by M for an average.

    The diameter needs no condition on how the targets change. It is far below sqrt(2)/lambda for a small lambda.
    """
    diameter = 2 * radius(classes, Lambda) / (M if method == "avg" else 1)
    return min(published_sensitivity(method, M, Lambda), diameter)


# --- Noise --------------------------------------------------------------------------


def draw_noise(seed: str, scale: float, dimension: int, count: int) -> _Array:
    """Draw eta with density proportional to exp(-||eta||_2 / scale), from the protocols' sampler.

    Parameters
    ----------
    scale : float
        Delta/eps, greater than 0.

    Returns
    -------
    ndarray, shape (count, dimension)
        Multiples of 2^-32; floating point rounds large ones.
    """
    rng, beta = SimulationRng(seed, "eta"), 1 / Fraction(scale)
    drawn = np.array([l2_laplace(rng, beta, dimension, _UNIT) for _ in range(count)], dtype=np.float64)
    return drawn / float(_UNIT)


def draw_norms(seed: str, scale: float, count: int) -> _Array:
    """Draw from the exponential distribution of mean ``scale``, which is right for a norm in one dimension alone."""
    return np.abs(draw_noise(f"{seed} norm", scale, 1, count)[:, 0])
