"""Kang's methods in a few lines of numpy, with its own random numbers: an oracle for figures 1 and 2.

``python -m tests.kang_oracle DATA`` prints the lines of ``references.csv`` that these figures are held against. Only
the encoding of the records is the figures' own.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from masquerade_lab.reproduce.kang import SMALL

_Array = NDArray[np.float64]
Normals = Callable[[tuple[int, ...]], _Array]

ETAS = np.array([0.01, 0.05, 0.1, 0.5, 1.0])
SETS, DRAWS, T, DELTA = 20, 10, 1000, 1e-3


def sd(n: float, eps: float) -> float:
    """Return equation (3)'s sigma for n records, with c = G = 1."""
    return float(np.sqrt(T * np.log(1 / DELTA)) / (n * eps))


def weighted(parts: list[_Array], noise: float, rounds: int, draws: int, normals: Normals) -> _Array:
    """W: each party descends alone, its own noise in every step; then an average by size; (d, etas, draws)."""
    total, n = np.zeros((parts[0].shape[1], len(ETAS), draws)), sum(map(len, parts))
    for Z in parts:
        theta = np.zeros((Z.shape[1], len(ETAS), draws))
        for _ in range(rounds):
            slopes = -expit(-np.tensordot(Z, theta, 1))
            theta -= ETAS[:, None] * (np.tensordot(Z.T, slopes, 1) / len(Z) + noise * normals((Z.shape[1], 1, draws)))
        total = total + len(Z) / n * theta
    return total


def gradient_perturbation(parts: list[_Array], noise: float, rounds: int, draws: int, normals: Normals) -> _Array:
    """J, Jayaraman's: one theta for all, the plain average of the parties' mean gradients, one noise a round."""
    d, m = parts[0].shape[1], len(parts)
    theta = np.zeros((d, len(ETAS), draws))
    for _ in range(rounds):
        mean = sum(np.tensordot(Z.T, -expit(-np.tensordot(Z, theta, 1)), 1) / (m * len(Z)) for Z in parts)
        theta = theta - ETAS[:, None] * (mean + noise * normals((d, 1, draws)))
    return theta


def _cut(Z: _Array, m: int, rng: np.random.Generator) -> list[_Array]:
    """Cut at random: a quarter of an even share for each, and the rest at random places."""
    least = len(Z) // (4 * m)
    cuts = np.sort(rng.integers(0, len(Z) - m * least + 1, m - 1))
    return np.split(Z, cuts + least * np.arange(1, m))


def _uneven(Z: _Array, m: int, u: float) -> list[_Array]:
    small = round(len(Z) / (m / 2 * (1 + u)))
    rest = np.array_split(Z[m // 2 * small :], m // 2)
    return [*np.split(Z[: m // 2 * small], m // 2), *rest]


def _methods(parts: list[_Array], eps: float, normals: Normals) -> dict[str, _Array]:
    n, few = sum(map(len, parts)), len(parts) * min(map(len, parts))
    return {
        "W": weighted(parts, sd(n, eps), T, DRAWS, normals),
        "J": gradient_perturbation(parts, sd(few, eps), T, DRAWS, normals),
        "C": gradient_perturbation([np.concatenate(parts)], sd(n, eps), T, DRAWS, normals),
    }


def cells(X: _Array, y: _Array, seed: int, name: str) -> dict[str, _Array]:
    """Return accuracies by "METHOD, figure 1, eps" and "METHOD, u = U", shape (sets, draws), at the best rate."""
    found: dict[str, list[_Array]] = {}
    for number in range(SETS):
        rng = np.random.default_rng([seed, len(name), number])
        order = rng.permutation(len(y))
        n = round(0.8 * len(y))
        Z, X_test, y_test = (X * y[:, None])[order[:n]], X[order[n:]], y[order[n:]]
        cut = _cut(Z, 32, rng)
        cases = {f"eps = {eps}": (cut, eps) for eps in (0.025, 0.05)}
        cases |= {f"u = {u}": (_uneven(Z, 16, u), 0.05) for u in (1, 5)}
        for case, (parts, eps) in cases.items():
            for method, theta in _methods(parts, eps, rng.standard_normal).items():
                right = (np.tensordot(X_test, theta, 1) > 0) == (y_test > 0)[:, None, None]
                found.setdefault(f"{method}, {case}", []).append(right.mean(axis=0))
    each = {name: np.array(values) for name, values in found.items()}
    return {name: values[:, values.mean(axis=(0, 2)).argmax()] for name, values in each.items()}


def sigmoid_gaps(Z: _Array, eps: float, draws: int, normals: Normals) -> _Array:
    """Theorem 3's descent on the mean sigmoid loss + 1e-3/2 |theta|^2: L(theta_T) less the least value."""
    penalty, rounds, n = 1e-3, 200, len(Z)
    smooth = 1 / (6 * np.sqrt(3)) + penalty
    noise = 0.25 * np.sqrt(rounds * np.log(1 / DELTA)) / (n * eps)

    def step(theta: _Array, sd: float) -> _Array:
        p = expit(-Z @ theta)
        gradient = -Z.T @ (p * (1 - p)) / n + penalty * theta
        return np.asarray(theta - (gradient + (sd * normals(theta.shape) if sd else 0)) / smooth)

    def value(theta: _Array) -> _Array:
        return np.asarray(expit(-Z @ theta).mean(axis=0) + penalty / 2 * (theta**2).sum(axis=0))

    theta, best = np.zeros((Z.shape[1], draws)), np.zeros((Z.shape[1], 1))
    for _ in range(rounds):
        theta = step(theta, noise)
    for _ in range(100 * rounds):
        best = step(best, 0.0)
    return value(theta) - value(best)


def sigmoid(data: Path) -> None:
    """Print the references of the loss that is not convex."""
    folder, read = SMALL["BC"]
    records = read(data / folder)
    for eps in (0.5, 1.0):
        means = []
        for number in range(SETS):
            rng = np.random.default_rng([3, number, int(10 * eps)])
            kept = rng.permutation(len(records.y))[: round(0.8 * len(records.y))]
            Z = records.X[kept] * records.y[kept, None]
            means.append(sigmoid_gaps(Z, eps, DRAWS, rng.standard_normal).mean())
        error = np.std(means, ddof=1) / np.sqrt(SETS)
        sys.stdout.write(f'kang pl,"gap, eps = {eps:g}",{np.mean(means):.8f},{error:.8f},{SETS}\n')


def main(data: Path, seed: int = 1) -> None:
    """Print the references."""
    for name, (folder, read) in SMALL.items():
        records = read(data / folder)
        at = cells(records.X, records.y, seed, name)
        quantities = {("kang 1", m): (at[f"{m}, eps = 0.025"] + at[f"{m}, eps = 0.05"]) / 2 for m in ("W", "J", "C")}
        quantities |= {("kang 1", f"W - {m}"): quantities["kang 1", "W"] - quantities["kang 1", m] for m in ("J", "C")}
        quantities |= {("kang 2", f"{m}({u})"): at[f"{m}, u = {u}"] for m in ("W", "J") for u in (1, 5)}
        quantities |= {("kang 2", "C"): at["C, u = 1"]}
        quantities |= {("kang 2", f"{m}(1) - {m}(5)"): at[f"{m}, u = 1"] - at[f"{m}, u = 5"] for m in ("W", "J")}
        quantities |= {("kang 2", f"W({u}) - J({u})"): at[f"W, u = {u}"] - at[f"J, u = {u}"] for u in (1, 5)}
        for (figure, quantity), values in quantities.items():
            means = values.mean(axis=1)
            error = means.std(ddof=1) / np.sqrt(len(means))
            sys.stdout.write(f'{figure},"{name}, {quantity}",{means.mean():.6f},{error:.6f},{len(means)}\n')
        sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
    sigmoid(Path(sys.argv[1]))
