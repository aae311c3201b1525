"""Hamm, Cao and Belkin's aggregators for two classes and 20,000 parties: all parties' classifiers in one process.

Nothing here is a protocol: one process sees all records. The minimisers are those of the protocols; only their
computation differs, since 20,000 small classifiers are computed side by side. Records that are equal are computed once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from masquerade_core.errors import RunFailed
from masquerade_core.learning.erm import TOLERANCE, fit
from masquerade_lab.reproduce.hamm_points import Drawn, Point, Pool, mistaken
from masquerade_lab.reproduce.hamm_runs import curves, draw_noise, draw_norms, radius, shuffled

__all__ = [
    "METHODS",
    "BinaryRecords",
    "UnderNoise",
    "accuracies",
    "binary_sensitivity",
    "classifiers",
    "fit_each",
    "trial",
    "votes",
]

METHODS = ("batch", "vote", "soft", "avg")
_INDIVIDUALS = 400  # parties whose own classifiers are tested
_AT_ONCE = 500
_BLOCK = 500  # test records whose scores fit a processor's cache
_MAX_STEPS = 100
_HALVINGS = 40
_ARMIJO = 1e-4
_ROUNDING = 1e-14

_Array = NDArray[np.float64]
_Indices = NDArray[np.intp]


@dataclass(frozen=True, repr=False)
class BinaryRecords:
    """Records of two classes, each different one once.

    Parameters
    ----------
    X : ndarray, shape (D, d)
        Different records, no longer than 1.
    y : ndarray, shape (D,)
        -1 or +1.
    train : ndarray, shape (n,)
        Which of them each training record is.
    X_test : ndarray, shape (T, d)
    y_test : ndarray, shape (T,)
    share : ndarray, shape (T,)
        The share of the test records that are like this one.
    """

    X: _Array
    y: _Array
    train: _Indices
    X_test: _Array
    y_test: _Array
    share: _Array


# --- The parties' own classifiers --------------------------------------------------------


def fit_each(X: _Array, y: _Array, Lambda: float) -> _Array:
    """Minimise (1/n) sum log(1 + exp(-y w.x)) + (Lambda/2) |w|^2 for each of M parties; shape (M, d).

    Each w is X'c for some c. Newton's step for c is -(Lambda I + D K/n)^-1 (Lambda c - y p/n), with the products K of
    the records, p the probability of the wrong label and D = p (1 - p).

    Parameters
    ----------
    X : ndarray, shape (M, n, d)
    y : ndarray, shape (M, n)

    Raises
    ------
    RunFailed
        Floating point does not reach the tolerance.
    """
    n = y.shape[1]
    K = X @ X.transpose(0, 2, 1)
    c = np.zeros_like(y)

    def product(v: _Array) -> _Array:
        return np.asarray((K @ v[:, :, None])[:, :, 0])

    def objective(v: _Array, scores: _Array) -> _Array:
        return np.asarray(np.logaddexp(0, -y * scores).mean(axis=1) + Lambda / 2 * (v * scores).sum(axis=1))

    for _ in range(_MAX_STEPS):
        scores = product(c)
        wrong = expit(-y * scores)
        residual = Lambda * c - y * wrong / n
        slope_of = product(residual)
        gradient = np.sqrt(np.maximum((residual * slope_of).sum(axis=1), 0.0))
        if (gradient <= TOLERANCE).all():
            return np.asarray((c[:, None, :] @ X)[:, 0])
        matrix = (wrong * (1 - wrong))[:, :, None] * K / n
        matrix[:, np.arange(n), np.arange(n)] += Lambda
        direction = -np.linalg.solve(matrix, residual[:, :, None])[:, :, 0]
        moved = product(direction)
        slope = (slope_of * direction).sum(axis=1)
        value = objective(c, scores)
        allowed = _ROUNDING * np.maximum(1.0, np.abs(value))
        step = np.ones(len(y))
        for _ in range(_HALVINGS):
            far = step[:, None]
            new = objective(c + far * direction, scores + far * moved)
            short = new > value + _ARMIJO * step * slope + allowed
            if not short.any():
                break
            step[short] /= 2
        c = c + step[:, None] * direction
    raise RunFailed(
        f"the parties' classifiers did not reach a gradient norm of {TOLERANCE:g}",
        "choose a larger lambda",
    )


def votes(X: _Array, W: _Array, sizes: Sequence[int]) -> dict[int, _Array]:
    """Count, for each record, how many of the first M classifiers say +1, for each M; by M, shape (len(X),)."""
    counts = np.zeros(len(X))
    found = {}
    ends = sorted({*range(_AT_ONCE, len(W), _AT_ONCE), *sizes})
    start = 0
    for end in ends:
        counts += (X @ W[start:end].T > 0).sum(axis=1)
        start = end
        if end in sizes:
            found[end] = counts.copy()
    return found


# --- The aggregates ---------------------------------------------------------------------------


def _weighted(X: _Array, y: _Array, weights: _Array, Lambda: float) -> _Array:
    kept = weights > 0
    return fit(X[kept], y[kept], Lambda, weights=weights[kept] * (kept.sum() / weights[kept].sum()))


def classifiers(
    records: BinaryRecords, parts: _Indices, aux: _Indices, Lambda: float, sizes: Sequence[int]
) -> tuple[dict[int, dict[str, _Array]], _Array]:
    """Train every aggregate for the first M parties, for each M, and the parties' own classifiers.

    Parameters
    ----------
    records : BinaryRecords
    parts : ndarray, shape (M, n_j)
        Which different record each of a party's records is.
    aux : ndarray, shape (N,)
        The same for the auxiliary points; their labels are not used.
    Lambda : float
    sizes : sequence of int
        The values of M; the largest is len(parts).

    Returns
    -------
    by M and by method, a classifier of shape (d,); and the parties' own, of shape (M, d)

    References
    ----------
    Hamm, Cao, Belkin 2016, equations (6), (8), (12) and (19). Of equally many votes, +1 wins.
    """
    own = np.concatenate(
        [
            fit_each(records.X[some], records.y[some], Lambda)
            for some in (parts[i : i + _AT_ONCE] for i in range(0, len(parts), _AT_ONCE))
        ]
    )
    different, times = np.unique(aux, return_counts=True)
    points = records.X[different]
    twice, labels = np.vstack([points, points]), np.repeat((1.0, -1.0), len(points))
    found = {}
    for M, counts in votes(points, own, sizes).items():
        seen, how_often = np.unique(parts[:M], return_counts=True)
        alpha = counts / M
        won = np.where(counts >= M / 2, 1.0, -1.0)
        found[M] = {
            "batch": _weighted(records.X[seen], records.y[seen], how_often.astype(np.float64), Lambda),
            "vote": _weighted(points, won, times.astype(np.float64), Lambda),
            "soft": _weighted(twice, labels, np.concatenate([times * alpha, times * (1 - alpha)]), Lambda),
            "avg": own[:M].mean(axis=0),
        }
    return found, own


def accuracies(records: BinaryRecords, W: _Array) -> _Array:
    """Return the test accuracy of each row of W; shape (len(W),)."""
    right = (records.X_test @ W.T > 0) == (records.y_test > 0)[:, None]
    return np.asarray(records.share @ right, dtype=np.float64)


class UnderNoise:
    """Accuracies under noise, a block of test records at a time, so that noise meets a record once for all questions.

    Parameters
    ----------
    records : BinaryRecords
    eta : ndarray, shape (pool, d)
        The noise at Delta/eps = 1, of the records' dimension at least.
    """

    def __init__(self, records: BinaryRecords, eta: _Array) -> None:
        self._records, self._eta = records, eta[:, : records.X_test.shape[1]]
        self._asked: list[tuple[_Array, _Array, _Indices, _Array]] = []

    def ask(self, w: _Array, scale: float, drawn: Drawn) -> _Array:
        """Return an array for the accuracies of w under these draws, times the scale; ``answer`` fills it."""
        accuracy = np.zeros(len(drawn.which))
        self._asked.append((w, scale * drawn.stretch, drawn.which, accuracy))
        return accuracy

    def answer(self) -> None:
        """Compute everything that was asked for."""
        records = self._records
        for start in range(0, len(records.y_test), _BLOCK):
            rows = slice(start, start + _BLOCK)
            X, good, share = records.X_test[rows], records.y_test[rows] > 0, records.share[rows]
            met = self._eta @ X.T
            for w, scales, which, accuracy in self._asked:
                accuracy[:] += ((scales[:, None] * met[which] + X @ w > 0) == good) @ share


def binary_sensitivity(method: str, kind: str, M: int, Lambda: float) -> float:
    """Return how far one party may move the released classifier: as published, or at most the diameter 2R.

    References
    ----------
    Hamm, Cao, Belkin 2016, Theorems 1 and 3. For ``avg``, one party's classifier moves by at most 2/Lambda.
    """
    published = 2 / Lambda / (1 if method == "vote" else M)
    if kind != "tight":
        return published
    return min(published, 2 * radius(2, Lambda) / (M if method == "avg" else 1))


# --- One trial ------------------------------------------------------------------------------------


def trial(
    records: BinaryRecords,
    label: str,
    Lambda: float,
    sizes: Sequence[int],
    each: int,
    auxiliary: int,
    dimension: int,
    inverses: Sequence[float],
    draws: int,
    pool: int,
    points: Sequence[Point],
) -> Mapping[str, _Array]:
    """Deal the training records and compute all accuracies, without and with noise.

    Parameters
    ----------
    records : BinaryRecords
    label : str
        It gives the order in which records are dealt, and the noise.
    Lambda : float
    sizes : sequence of int
        The values of M.
    each, auxiliary : int
        How many records a party has, and how many auxiliary points there are.
    dimension : int
        The noise's; at least that of the records. What is beyond them meets features that are always 0.
    inverses : sequence of float
        The values of 1/eps.
    draws, pool : int
        How many draws of the noise for each curve and 1/eps, and how many different ones there are.
    points : sequence of Point
        Where broken programs are run too.

    Returns
    -------
    by "M method", one accuracy; by "M method kind 1/eps" and by "POINT: MISTAKE", one for each draw; and the norms of
    the noise
    """
    order = records.train[shuffled(label, len(records.train))]
    parts = order[: max(sizes) * each].reshape(max(sizes), each)
    aux = order[parts.size : parts.size + auxiliary]
    found, own = classifiers(records, parts, aux, Lambda, sizes)
    result: dict[str, _Array] = {}
    for M, by_method in found.items():
        for method, w in by_method.items():
            result[f"{M} {method}"] = accuracies(records, w[None])
    result["indiv"] = accuracies(records, own[:_INDIVIDUALS]).mean(keepdims=True)

    noise = Pool(draw_noise(label, 1.0, dimension, pool), draw_norms(label, 1.0, pool))  # at Delta/eps = 1
    result |= {"norms": noise.norms, "wrong norms": noise.wrong}
    tested = UnderNoise(records, noise.eta)

    def score(method: str, M: int, scale: float, drawn: Drawn) -> _Array:
        return tested.ask(found[M][method], scale, drawn)

    def sensitivity(method: str, kind: str, M: int) -> float:
        return binary_sensitivity(method, kind, M, Lambda)

    for M in found:
        for method, kind in curves():
            for inverse in inverses:
                scale = sensitivity(method, kind, M) * inverse
                result[f"{M} {method} {kind} {inverse:g}"] = score(method, M, scale, noise.take(draws, kind))
    result |= mistaken(points, sensitivity, noise, draws, score)
    tested.answer()
    return result
