"""Rajkumar and Agarwal's GOP and PSGD in a few lines of numpy, with its own random numbers: an oracle for figure 2.

``python -m tests.rajkumar_oracle`` prints the lines of ``references.csv``. Folds and encoding are the figure's own.
"""

from __future__ import annotations

import sys

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from scipy.stats import chi2

from masquerade_lab.reproduce.rajkumar_tasks import FOLDS, breast_cancer_fold

_Array = NDArray[np.float64]

PAIRS, ROUNDS, LAMBDA, DELTA, C = 400, 300, 0.01, 0.05, 0.25


def slack(eps: float, N: int) -> tuple[float, float]:
    """Return what is left of epsilon, and the penalty Delta that is added."""
    left = eps - 2 * np.log1p(C / (N * LAMBDA))
    return (left, 0.0) if left > 0 else (eps / 2, C / (N * np.expm1(eps / 4)) - LAMBDA)


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
    Z, d = X * y[:, None], X.shape[1]
    w = np.zeros((2 * len(etas), d))
    for t in range(ROUNDS):
        u = rng.standard_normal((K, len(etas), d))
        length = rng.gamma(d, 2 / eps, (K, len(etas), 1))
        rho = (u / np.linalg.norm(u, axis=2, keepdims=True) * length).sum(axis=0)
        noise = np.concatenate([etas + rho, -etas - rho])
        w -= ((-expit(-w @ Z.T) @ Z + noise) / len(y) + penalty * w) / (penalty * t + 1)
    return w


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


if __name__ == "__main__":
    for epsilon in (0.1, 0.2, 1.0):
        for name, values in errors(epsilon).items():
            error = values.std(ddof=1) / np.sqrt(len(values))
            sys.stdout.write(
                f'rajkumar-2012 2,"{name}, eps = {epsilon}",{values.mean():.6f},{error:.6f},{len(values)}\n'
            )
            sys.stdout.flush()
