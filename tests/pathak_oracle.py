"""Pathak's local aggregation in a few lines of numpy, with its own random numbers: an oracle for figure 2.

``python -m tests.pathak_oracle DATA`` prints the lines of ``references.csv`` that the figure is held against, and the
errors of w*, which have no noise. Only the reading of the records is the figure's own.
"""

from __future__ import annotations

import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from masquerade_lab.originals import a9a

_Array = NDArray[np.float64]
Arrays = tuple[_Array, _Array, _Array, _Array]

PARTITIONS, DRAWS = 200, 4
USEFUL, SEEN = 0.001, 2e-6
SETTINGS: dict[tuple[float, bool], tuple[float, ...]] = {
    (0.001, True): (0.05, 0.1, 0.2, 0.5, 1.0, 5.0),
    (0.01, False): (0.1, 0.5, 5.0),
    (1.0, False): (0.005, 0.01, 0.02, 0.1),
    (1.0, True): (0.005, 0.01, 0.02, 0.1),
}
SMALLEST = {"even": 0.2, "15%": 0.15, "10%": 0.1}


def trained(X: _Array, y: _Array, lam: float, w: _Array, curved: _Array | None = None) -> _Array:
    """Minimise the mean logistic loss + lambda w.w by Newton's steps from w; a given curvature is kept."""
    Z = X * y[:, None]
    for _ in range(500):
        p = expit(-Z @ w)
        step = np.linalg.solve(curvature(X, lam, w) if curved is None else curved, 2 * lam * w - Z.T @ p / len(y))
        w = w - step
        if np.abs(step).max() < 1e-8:
            return w
    raise RuntimeError("no minimum")


def curvature(X: _Array, lam: float, w: _Array) -> _Array:
    """Return the objective's second derivatives at w."""
    p = expit(X @ w)
    return np.asarray((X.T * (p * (1 - p))) @ X / len(X) + 2 * lam * np.eye(len(w)))


def wrong(X: _Array, y: _Array, w: _Array) -> _Array:
    """Return the share of records to which each column of w gives the other label; a score of 0 says -1."""
    return np.asarray(((w.T @ X.T > 0) != (y > 0)).mean(axis=-1))


def errors(
    arrays: Arrays, lam: float, unit: bool, epsilons: tuple[float, ...], partitions: int, draws: int, seed: int
) -> dict[tuple[str, float], _Array]:
    """Return errors by curve and epsilon, of shape (partitions, draws), each draw with its mirror image.

    In each partition three parties have a fifth of the records, one the smallest share, and one what is left.
    """
    X, y, X_test, y_test = arrays
    X, X_test = (X / np.sqrt(14), X_test / np.sqrt(14)) if unit else (X, X_test)
    n, d = X.shape
    best = trained(X, y, lam, np.zeros(d))
    curved = curvature(X, lam, best)
    found: dict[tuple[str, float], list[_Array]] = {}
    for number in range(partitions):
        rng = np.random.default_rng([seed, int(1000 * lam), unit, number])
        order, fifth = rng.permutation(n), n // 5
        three = [trained(X[part], y[part], lam, best, curved) for part in np.split(order[: 3 * fifth], 3)]
        centre, least = {"w* + eta": best}, {"w* + eta": n}
        for split, share in SMALLEST.items():
            least[split] = int(n * share + 1e-9)
            cut = 3 * fifth + least[split]
            two = [trained(X[order[a:b]], y[order[a:b]], lam, best, curved) for a, b in pairwise((3 * fifth, cut, n))]
            centre[split] = np.mean([*three, *two], axis=0)
        for curve, w in centre.items():
            for eps in epsilons:
                eta = rng.laplace(scale=2 / (least[curve] * eps * lam), size=(d, draws))
                both = wrong(X_test, y_test, w[:, None] + np.hstack([eta, -eta]))
                found.setdefault((curve, eps), []).append((both[:draws] + both[draws:]) / 2)
    return {key: np.array(values) for key, values in found.items()}


def quantities(
    at: dict[tuple[str, float], _Array], epsilons: tuple[float, ...], compared: float | None
) -> dict[str, _Array]:
    """Return each curve's errors, and if curves are compared, the steps from one to the next and along epsilon."""
    curves = list(dict.fromkeys(curve for curve, _ in at))
    named = {f"{curve}, eps = {eps:g}": at[curve, eps] for curve in curves for eps in epsilons}
    if compared is None:
        return named
    named |= {f"{b} minus {a}, eps = {compared:g}": at[b, compared] - at[a, compared] for a, b in pairwise(curves)}
    return named | {
        f"{curve}, eps = {low:g} minus {high:g}": at[curve, low] - at[curve, high]
        for curve in curves
        for low, high in pairwise(epsilons)
    }


def main(data: Path, seed: int = 1) -> None:
    """Print the references, but for points where the noise changes next to nothing."""
    arrays = a9a(data)
    for (lam, unit), epsilons in SETTINGS.items():
        setting = f"lambda = {lam:g}, {'unit' if unit else 'raw'} rows"
        scale = np.sqrt(14) if unit else 1.0
        w = trained(arrays[0] / scale, arrays[1], lam, np.zeros(arrays[0].shape[1]))
        sys.stderr.write(f"{setting}: w* errs on {wrong(arrays[2] / scale, arrays[3], w[:, None])[0]:.6f}\n")
        at = errors(arrays, lam, unit, epsilons, PARTITIONS, DRAWS, seed)
        for name, values in quantities(at, epsilons, 0.5 if lam == USEFUL else None).items():
            means = values.mean(axis=1)
            error = means.std(ddof=1) / np.sqrt(len(means))
            if error > SEEN:
                sys.stdout.write(f'pathak-2010 2,"{setting}, {name}",{means.mean():.8f},{error:.8f},{len(means)}\n')
        sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
