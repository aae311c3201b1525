"""Rajkumar and Agarwal's methods in a few lines of numpy, with its own random numbers: an oracle for both figures.

``python -m tests.rajkumar_oracle FIGURE`` prints the figure's lines of ``references.csv``. Figure 2's folds and
encoding are the figure's own. Figure 1's records are drawn here.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import combinations, pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from scipy.stats import chi2

from masquerade_lab.reproduce.rajkumar import FOLDS, breast_cancer_fold

_Array = NDArray[np.float64]

PAIRS, ROUNDS, LAMBDA, DELTA, C = 400, 300, 0.01, 0.05, 0.25


def slack(eps: float, N: int, penalty: float = LAMBDA) -> tuple[float, float]:
    """Return what is left of epsilon, and the penalty Delta that is added."""
    left = eps - 2 * np.log1p(C / (N * penalty))
    return (left, 0.0) if left > 0 else (eps / 2, C / (N * np.expm1(eps / 4)) - penalty)


def sigma(eps: float, d: int) -> float:
    """Return the root of sigma^2 eps - 2 q sigma - 2 = 0, where q^2 is the 1 - delta quantile of chi-square."""
    q = np.sqrt(chi2.ppf(1 - DELTA, d))
    return float((q + np.sqrt(q * q + 2 * eps)) / eps)


def gop(X: _Array, y: _Array, etas: _Array, penalty: float) -> _Array:
    """Minimise the mean logistic loss + penalty/2 |w|^2 + eta.w/N by Newton's steps, for each eta."""
    Z, found = X * y[:, None], []
    for eta in etas:
        w = np.zeros(X.shape[1])
        for _ in range(30):
            p = expit(-Z @ w)
            gradient = (-Z.T @ p + eta) / len(y) + penalty * w
            step = np.linalg.solve((Z.T * (p * (1 - p))) @ Z / len(y) + penalty * np.eye(len(w)), gradient)
            w = w - step
            if np.abs(step).max() < 1e-8:
                break
        found.append(w)
    return np.array(found)


def psgd(X: _Array, y: _Array, etas: _Array, K: int, eps: float, penalty: float, rng: np.random.Generator) -> _Array:
    """Descend T rounds under each eta, and under its mirror image; each rho has the density exp(-eps/2 |rho|)."""

    def noise(_: int) -> _Array:
        rho = balls(rng, (K, *etas.shape), eps / 2).sum(axis=0)
        return np.concatenate([etas + rho, -etas - rho])

    return descend(X * y[:, None], noise, penalty, (ROUNDS,))[ROUNDS]


def balls(rng: np.random.Generator, shape: tuple[int, ...], beta: float) -> _Array:
    """Draw vectors of the density exp(-beta |x|)."""
    u = rng.standard_normal(shape)
    length = rng.gamma(shape[-1], 1 / beta, (*shape[:-1], 1))
    return np.asarray(u / np.linalg.norm(u, axis=-1, keepdims=True) * length)


def descend(Z: _Array, noise: Callable[[int], _Array], penalty: float, after: tuple[int, ...]) -> dict[int, _Array]:
    """Descend under each row of noise, and return where the rows are after so many rounds."""
    w, found = np.zeros((1, Z.shape[1])), {}
    for t in range(after[-1]):
        w = w - ((noise(t) - 1 / (1 + np.exp(w @ Z.T)) @ Z) / len(Z) + penalty * w) / (penalty * t + 1)
        found[t + 1] = w
    return {t: found[t] for t in after}


def errors(eps: float, K: tuple[int, ...] = (5, 10, 15), pairs: int = PAIRS) -> dict[str, _Array]:
    """Return the errors of GOP and PSGD, each the mean of a noise and its mirror image and of all folds; (pairs,)."""
    found: dict[str, list[_Array]] = {}
    for number in range(FOLDS):
        rng = np.random.default_rng([int(1000 * eps), number])
        records, test = breast_cancer_fold(number)
        N, d = records.X.shape
        left, extra = slack(eps, N)
        etas = sigma(left, d) * rng.standard_normal((pairs, d))
        by_method = {"GOP": gop(records.X, records.y, np.concatenate([etas, -etas]), LAMBDA + extra)}
        by_method |= {f"PSGD, K = {k}": psgd(records.X, records.y, etas, k, left, LAMBDA + extra, rng) for k in K}
        for name, w in by_method.items():
            wrong = ((w @ test.X.T > 0) != (test.y > 0)).mean(axis=1)
            found.setdefault(name, []).append((wrong[:pairs] + wrong[pairs:]) / 2)
    return {name: np.mean(values, axis=0) for name, values in found.items()}


# --- Figure 1 -------------------------------------------------------------------------

SETS, DRAWS, MANY, ROUNDS_1, LAMBDA_1 = 60, 20, 100, (10, 100, 300), 0.1
PARTIES = (5, 10, 15)
SPLITS = {
    "even, K = 5": [200] * 5,
    "skew 2": [100, 200, 200, 250, 250],
    "even, K = 15": np.diff(np.rint(np.arange(16) * 1000 / 15).astype(int)).tolist(),
    "skew 3": [10, 290, 200, 250, 250],
}


def records(rng: np.random.Generator, w: _Array, n: int = 1000) -> tuple[_Array, _Array]:
    """Draw n records, uniform in the unit ball, and label them by the side of w's hyperplane."""
    u = rng.standard_normal((n, len(w)))
    X = u / np.linalg.norm(u, axis=1, keepdims=True) * rng.random((n, 1)) ** (1 / len(w))
    return X, np.sign(X @ w)


def average(X: _Array, y: _Array, sizes: list[int]) -> _Array:
    """Return the mean of the classifiers of parties that have so many records each."""
    ends, none = np.cumsum([0, *sizes]), np.zeros((1, X.shape[1]))
    return np.asarray(np.mean([gop(X[a:b], y[a:b], none, LAMBDA_1)[0] for a, b in pairwise(ends)], axis=0))


def cut(rng: np.random.Generator, K: int, n: int = 1000) -> list[int]:
    """Draw sizes of K parties from the uniform law on all fractions; each party has a record."""
    while True:
        ends = np.rint(np.cumsum(rng.dirichlet(np.ones(K))) * n).astype(int)
        sizes: list[int] = np.diff([0, *ends]).tolist()
        if min(sizes) > 0:
            return sizes


def paired(test: tuple[_Array, _Array], w: _Array) -> _Array:
    """Return the error of each noise with its mirror image's; the second half of the rows are the mirror images'."""
    wrong = ((w @ test[0].T > 0) != (test[1] > 0)).mean(axis=-1)
    return np.asarray(wrong.reshape(2, -1).mean(axis=0))


def one_set(rng: np.random.Generator, draws: int = DRAWS, many: int = MANY) -> dict[str, _Array]:
    """Return the errors of one data set, by quantity."""
    d = 10
    hyperplane = rng.standard_normal(d)
    (X, y), test = records(rng, hyperplane), records(rng, hyperplane)
    Z, N = X * y[:, None], len(y)
    found = {"no privacy": paired(test, np.repeat(gop(X, y, np.zeros((1, d)), LAMBDA_1), 2, axis=0))}

    def central(eps: float, penalty: float) -> _Array:
        left, extra = slack(eps, N, penalty)
        etas = sigma(left, d) * rng.standard_normal((draws, d))
        return paired(test, gop(X, y, np.concatenate([etas, -etas]), penalty + extra))

    for penalty in (0.01, 0.001):
        found[f"GOP, lambda = {penalty}, eps = 0.2"] = central(0.2, penalty)
    for eps in (0.1, 0.2):
        left, extra = slack(eps, N, LAMBDA_1)
        etas = sigma(left, d) * rng.standard_normal((draws, d))
        both = np.concatenate([etas, -etas])
        exact = found[f"GOP, eps = {eps}"] = paired(test, gop(X, y, both, LAMBDA_1 + extra))

        def noise(_: int, both: _Array = both, beta: float = left / 2) -> _Array:
            drawn = np.cumsum(balls(rng, (PARTIES[-1], draws, d), beta), axis=0)[[K - 1 for K in PARTIES]]
            rho = np.concatenate([drawn, -drawn], axis=1)
            return np.stack([both + rho, rho]).reshape(-1, d)

        for T, w in descend(Z, noise, LAMBDA_1 + extra, ROUNDS_1).items():
            of = w.reshape(2, len(PARTIES), 2 * draws, d)
            for K, with_eta, alone in zip(PARTIES, *of, strict=True):
                found[f"PSGD, K = {K}, T = {T}, eps = {eps}"] = psgd_error = paired(test, with_eta)
                found[f"PSGD minus GOP, K = {K}, T = {T}, eps = {eps}"] = psgd_error - exact
                found[f"rho alone, K = {K}, T = {T}, eps = {eps}"] = paired(test, alone) - found["no privacy"]
        for a, b in combinations(PARTIES, 2):
            of_b, of_a = (found[f"PSGD, K = {K}, T = {ROUNDS_1[-1]}, eps = {eps}"] for K in (b, a))
            found[f"PSGD, K = {b} minus {a}, eps = {eps}"] = of_b - of_a
    return found | aggregation(rng, (X, y), test, draws, many)


def aggregation(
    rng: np.random.Generator, own: tuple[_Array, _Array], test: tuple[_Array, _Array], draws: int, many: int
) -> dict[str, _Array]:
    """Return local aggregation's errors, with the smallest party's noise, and with a K-th of it."""
    found: dict[str, _Array] = {}

    def noisy(w: _Array, sizes: list[int], eps: float, parts: int, draws: int) -> _Array:
        eta = balls(rng, (draws, len(w)), min(sizes) * LAMBDA_1 * eps / 2) / parts
        return paired(test, w + np.concatenate([eta, -eta]))

    for name, sizes in SPLITS.items():
        w = average(*own, sizes)
        for eps in (0.1, 0.2, 1.0):
            found[f"LA, {name}, eps = {eps}"] = noisy(w, sizes, eps, 1, many)
            found[f"LA / K, {name}, eps = {eps}"] = noisy(w, sizes, eps, len(sizes), many)
    for a, b in pairwise(SPLITS):
        found[f"LA, {b} minus {a}, eps = 1.0"] = found[f"LA, {b}, eps = 1.0"] - found[f"LA, {a}, eps = 1.0"]
    for K in PARTIES:
        dealt = [cut(rng, K) for _ in range(draws)]
        averaged = [average(*own, sizes) for sizes in dealt]
        for eps in (0.1, 0.2):
            for name, parts in (("LA", 1), ("LA / K", K)):
                each = [noisy(w, sizes, eps, parts, 1) for w, sizes in zip(averaged, dealt, strict=True)]
                found[f"{name}, random, K = {K}, eps = {eps}"] = np.concatenate(each)
    return found


def simulated() -> dict[str, _Array]:
    """Return the errors of figure 1 by quantity, shape (sets, draws)."""
    found: dict[str, list[_Array]] = {}
    for number in range(SETS):
        for name, values in one_set(np.random.default_rng([1, number])).items():
            found.setdefault(name, []).append(values)
    each = {name: np.array(values) for name, values in found.items()}
    for K in PARTIES:
        for eps in (0.1, 0.2):
            psgd_errors = each[f"PSGD, K = {K}, T = {ROUNDS_1[-1]}, eps = {eps}"]
            each[f"LA minus PSGD, K = {K}, eps = {eps}"] = each[f"LA, random, K = {K}, eps = {eps}"] - psgd_errors
    return each


def figure_2() -> dict[str, _Array]:
    """Return the errors of figure 2 by quantity, shape (pairs, 1): the folds are fixed."""
    return {f"{name}, eps = {eps}": values[:, None] for eps in (0.1, 0.2, 1.0) for name, values in errors(eps).items()}


if __name__ == "__main__":
    number = sys.argv[1]
    for name, values in {"1": simulated, "2": figure_2}[number]().items():
        means = values.mean(axis=1)
        error = means.std(ddof=1) / np.sqrt(len(means))
        sys.stdout.write(f'rajkumar-2012 {number},"{name}",{means.mean():.6f},{error:.6f},{len(means)}\n')
