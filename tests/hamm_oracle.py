"""Hamm, Cao and Belkin's methods in a few lines of numpy, with its own random numbers: an oracle for figures 2 to 4.

``python -m tests.hamm_oracle DATA [FIGURE...]`` prints the lines of ``references.csv`` that these figures are held
against. Only the encoding of the records and the settings are the figures' own.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize, minimize_scalar
from scipy.special import expit, softmax

from masquerade_lab.originals import har
from masquerade_lab.reproduce import PAPERS, hamm
from masquerade_lab.reproduce.hamm import BinaryRecords, FigurePlan, Point, connections, stand_in

_Array = NDArray[np.float64]
_Indices = NDArray[np.intp]

LAMBDA = 1e-4
SETS = {"2": 30, "3": 20, "4": 30}


# --- Noise and its size -------------------------------------------------------------------------------


def sensitivity(method: str, kind: str, M: int, classes: int) -> float:
    """Return Theorem 1's and 3's Delta, or that of Appendix B; or, if "tight", no more than the minimisers' diameter.

    2R is the diameter: lambda R^2 is the most that a record can pull at a minimiser, (C - 1) m/(exp(m) + C - 1).
    """
    each = 2.0 if classes == 2 else np.sqrt(2) * (2 if method == "avg" else 1)
    parties = 1 if method == "vote" else M
    published = each / LAMBDA / parties
    pull = -minimize_scalar(lambda m: -(classes - 1) * m / (np.exp(m) + classes - 1), (0.5, 2.0)).fun
    diameter = 2 * np.sqrt(pull / LAMBDA) / (M if method == "avg" else 1)
    return float(published if kind == "published" else min(published, diameter))


def noise(rng: np.random.Generator, draws: int, d: int, scale: float) -> _Array:
    """Draw from the density exp(-|eta|/scale): a direction, and a length that is Gamma(d) times the scale."""
    u = rng.standard_normal((draws, d))
    return np.asarray(u / np.linalg.norm(u, axis=1, keepdims=True) * rng.gamma(d, scale, (draws, 1)))


# --- Six classes: figure 2 ------------------------------------------------------------------------------


def softmax_fit(X: _Array, T: _Array) -> _Array:
    """Minimise the mean cross-entropy with targets T, of shape (n, C), + lambda/2 |W|^2; W has the shape (C, d)."""

    def objective(flat: _Array) -> tuple[float, _Array]:
        W = flat.reshape(T.shape[1], -1)
        S = X @ W.T
        top = S.max(axis=1, keepdims=True)
        value = np.mean(top[:, 0] + np.log(np.exp(S - top).sum(axis=1)) - (T * S).sum(axis=1))
        gradient = (softmax(S, axis=1) - T).T @ X / len(X) + LAMBDA * W
        return float(value + LAMBDA / 2 * flat @ flat), gradient.ravel()

    options = {"gtol": 1e-7, "ftol": 0, "maxiter": 100_000, "maxfun": 100_000, "maxcor": 30}
    found = minimize(objective, np.zeros(T.shape[1] * X.shape[1]), jac=True, method="L-BFGS-B", options=options)
    return np.asarray(found.x.reshape(T.shape[1], -1))


def parties_softmax_fit(X: _Array, T: _Array) -> _Array:
    """Minimise the same for many parties, X of shape (M, n, d), by Newton's steps for the factors c, with W = c'X."""
    M, n, C = T.shape
    K, c = X @ X.transpose(0, 2, 1), np.zeros_like(T)
    for _ in range(60):
        p = softmax(K @ c, axis=2)
        curvature = p[:, :, :, None] * (np.eye(C) - p[:, :, None, :]) / n
        jacobian = np.einsum("mikl,mij->mikjl", curvature, K).reshape(M, n * C, n * C) + LAMBDA * np.eye(n * C)
        residual = LAMBDA * c + (p - T) / n
        step = np.linalg.solve(jacobian, residual.reshape(M, n * C, 1)).reshape(c.shape)
        c = c - step
        if np.abs(step).max() < 1e-7 * np.abs(c).max():
            break
    return np.asarray(np.einsum("mik,mij->mkj", c, X))


def projected(X: _Array, others: Iterable[_Array], d: int) -> list[_Array]:
    """Return others along the d leading right singular vectors of X, with rows no longer than 1."""
    rows = np.linalg.svd(X, full_matrices=False)[2][:d]
    raw = [Z @ rows.T for Z in others]
    return [Z / np.maximum(1, np.linalg.norm(Z, axis=1, keepdims=True)) for Z in raw]


def six_classes(X: _Array, y: _Indices, parts: _Indices, aux: _Indices) -> tuple[dict[str, _Array], _Array]:
    """Return batch, vote, soft and avg, and the parties' own classifiers."""
    sure = np.eye(6)
    some = [parts[start : start + 100] for start in range(0, len(parts), 100)]
    own = np.concatenate([parties_softmax_fit(X[one], sure[y[one]]) for one in some])
    alpha = sure[np.argmax(own @ X[aux].T, axis=1)].mean(axis=0)
    return {
        "batch": softmax_fit(X[parts.ravel()], sure[y[parts.ravel()]]),
        "vote": softmax_fit(X[aux], sure[alpha.argmax(axis=1)]),
        "soft": softmax_fit(X[aux], alpha),
        "avg": own.mean(axis=0),
    }, own


# --- Two classes: figures 3 and 4 ------------------------------------------------------------------------


def parties_fit(X: _Array, y: _Array) -> _Array:
    """Minimise the mean logistic loss + lambda/2 |w|^2 for many parties by Newton's steps for c, with w = X'c."""
    n = y.shape[1]
    K, c = X @ X.transpose(0, 2, 1), np.zeros_like(y)
    for _ in range(60):
        p = expit(-y * np.einsum("mij,mj->mi", K, c))
        residual = LAMBDA * c - y * p / n
        jacobian = LAMBDA * np.eye(n) + (p * (1 - p))[:, :, None] * K / n
        step = np.linalg.solve(jacobian, residual[:, :, None])[:, :, 0]
        c = c - step
        if np.abs(step).max() < 1e-6 * np.abs(c).max():
            break
    return np.asarray(np.einsum("mij,mi->mj", X, c))


def logistic_fit(X: _Array, up: _Array, down: _Array) -> _Array:
    """Minimise the mean logistic loss of up positive and down negative copies of each record + lambda/2 |w|^2."""
    n, w = (up + down).sum(), np.zeros(X.shape[1])
    for _ in range(60):
        p = expit(X @ w)
        gradient = X.T @ ((up + down) * p - up) / n + LAMBDA * w
        step = np.linalg.solve((X.T * ((up + down) * p * (1 - p) / n)) @ X + LAMBDA * np.eye(len(w)), gradient)
        w = w - step
        if np.abs(step).max() < 1e-9 * max(1, np.abs(w).max()):
            break
    return w


def two_classes(
    records: BinaryRecords, parts: _Indices, aux: _Indices, sizes: tuple[int, ...]
) -> tuple[dict[str, _Array], _Array]:
    """Return "M METHOD" for the first M parties, for each M, and the parties' own classifiers."""
    own = np.concatenate([parties_fit(records.X[some], records.y[some]) for some in np.array_split(parts, 50)])
    different, counted = np.unique(aux, return_counts=True)
    times = counted.astype(float)
    points = records.X[different]
    found: dict[str, _Array] = {}
    counts, start = np.zeros(len(points)), 0
    for M in sizes:
        for some in np.array_split(own[start:M], 10):
            counts = counts + (points @ some.T > 0).sum(axis=1)
        start, alpha = M, counts / M
        seen = np.bincount(parts[:M].ravel(), minlength=len(records.y)).astype(float)
        good = records.y > 0
        found |= {
            f"{M} batch": logistic_fit(records.X[seen > 0], (seen * good)[seen > 0], (seen * ~good)[seen > 0]),
            f"{M} vote": logistic_fit(points, times * (alpha >= 0.5), times * (alpha < 0.5)),
            f"{M} soft": logistic_fit(points, times * alpha, times * (1 - alpha)),
            f"{M} avg": own[:M].mean(axis=0),
        }
    return found, own


# --- The figures ------------------------------------------------------------------------------------------


def _under_noise(
    points: Iterable[Point],
    W: Mapping[str, _Array],
    classes: int,
    draws: int,
    d: int,
    rng: np.random.Generator,
    score: Callable[[_Array, _Array], float],
) -> dict[str, float]:
    found = {}
    for point in points:
        scale = sensitivity(point.method, point.kind, point.M, classes) * point.inverse
        found[point.key] = score(W[f"{point.M} {point.method}"], noise(rng, draws, d, scale))
    return found


def one_set_of_2(data: tuple[_Array, _Indices, _Array, _Indices], number: int, draws: int) -> dict[str, float]:
    """Deal HAR's records to 1,000 parties; accuracies without noise, two differences, and the points under noise."""
    X, y, X_test, y_test = data
    rng = np.random.default_rng([2, number])
    order = rng.permutation(len(y))
    W, own = six_classes(X, y, order[:6000].reshape(1000, 6), order[6000:7000])

    def score(w: _Array, eta: _Array) -> float:
        moved = w + eta.reshape(-1, *w.shape)
        return float(np.mean([(np.argmax(X_test @ one.T, axis=1) == y_test).mean() for one in moved]))

    W = {f"1000 {name}": w for name, w in W.items()}
    found = {name: score(w, np.zeros((1, w.size))) for name, w in W.items()}
    found["indiv"] = float((np.argmax(own @ X_test.T, axis=1) == y_test).mean())
    differences = (("vote", "soft"), ("soft", "avg"))
    found |= {f"{a} minus {b}": found[f"1000 {a}"] - found[f"1000 {b}"] for a, b in differences}
    return found | _under_noise(hamm.FIGURE_2.points, W, 6, draws, 300, rng, score)


def one_set_of_3_or_4(records: BinaryRecords, plan: FigurePlan, number: int, draws: int) -> dict[str, float]:
    """Deal the records to 5,000, 10,000 and 20,000 parties; accuracies without noise, and the points under noise."""
    each, auxiliary, d, sizes = plan.each, plan.auxiliary, plan.d, plan.sizes
    rng = np.random.default_rng([each, number])
    order = rng.permutation(records.train)
    parts = order[: sizes[-1] * each].reshape(-1, each)
    W, own = two_classes(records, parts, order[parts.size : parts.size + auxiliary], sizes)

    def score(w: _Array, eta: _Array) -> float:
        right = (records.X_test @ (w + eta[:, : len(w)]).T > 0) == (records.y_test > 0)[:, None]
        return float((records.share @ right).mean())

    found = {name: score(w, np.zeros((1, d))) for name, w in W.items()}
    found["indiv"] = float(np.mean([score(w, np.zeros((1, d))) for w in own[:400]]))
    return found | _under_noise(plan.points, W, 2, draws, d, rng, score)


def _printed(figure: str, sets: Iterable[dict[str, float]]) -> None:
    found = list(sets)
    for name in found[0]:
        values = np.array([one[name] for one in found])
        error = values.std(ddof=1) / np.sqrt(len(values))
        sys.stdout.write(f'hamm-2016 {figure},"{name}",{values.mean():.8f},{error:.8f},{len(values)}\n')
    sys.stdout.flush()


def figure(name: str, data: Path) -> None:
    """Print a figure's references."""
    draws = PAPERS["hamm-2016"][name].draws
    if name == "2":
        X, y, X_test, y_test = har(data / "uci-har-time265")
        X, X_test = projected(X[:, :265], (X[:, :265], X_test[:, :265]), 50)
        known = X, y.astype(np.intp) - 1, X_test, y_test.astype(np.intp) - 1
        _printed(name, (one_set_of_2(known, number, draws) for number in range(SETS[name])))
        return
    records = connections(data / "kddcup99") if name == "3" else stand_in(50, (196_000, 200_000))
    plan = hamm.FIGURE_3 if name == "3" else hamm.FIGURE_4
    _printed(name, (one_set_of_3_or_4(records, plan, number, draws) for number in range(SETS[name])))


if __name__ == "__main__":
    for number in sys.argv[2:] or ("2", "3", "4"):
        figure(number, Path(sys.argv[1]))
