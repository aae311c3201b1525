"""Bixler's section 4 in a few lines of numpy, with its own random numbers: an oracle for its bands.

``python -m tests.bixler_oracle`` prints the lines of ``references.csv`` that this section is held against.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

_Array = NDArray[np.float64]

RUNS, BLOCK, ACCESSES = 400, 100, 400
D, RECORDS, STEP, SHORT, CAP = 10, 5000, 0.02, 1e-5, 12_000
CHECKPOINTS = range(500, 5001, 500)
ALPHAS = (100, 20, 10, 6.7, 5, 4, 3.3, 2, 1)
SDS = np.array([0, 0.01, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.5, 1.0])


def descents(
    X: _Array,
    y: _Array,
    w: _Array,
    sds: _Array,
    picked: Callable[[], NDArray[np.intp]],
    normals: Callable[[], _Array],
    *,
    cap: int = CAP,
    checkpoints: range = CHECKPOINTS,
) -> tuple[_Array, _Array]:
    """Descend with each noise; X is (runs, records, d), the updates are (sds, runs), the losses (times, sds, runs)."""
    runs = np.arange(len(X))
    w, stopped, losses = np.tile(w, (len(sds), 1, 1)), np.full((len(sds), len(X)), float(cap)), []
    for t in range(1, cap + 1):
        i = picked()
        x, label = X[runs, i] + sds[:, None, None] * normals(), y[runs, i]
        weight = 1 / (1 + np.exp(label * (w * x).sum(axis=2)))
        short = weight * np.sqrt((x * x).sum(axis=2)) < SHORT
        stopped = np.where(short, np.minimum(stopped, t), stopped)
        w = w + STEP * (weight * label)[:, :, None] * x
        if t in checkpoints:
            margins = np.einsum("rnd,srd->srn", X, w) * y
            losses.append(np.log1p(np.exp(-margins)).mean(axis=2))
    return stopped, np.array(losses)


def crossing(values: _Array, level: float) -> float:
    """Return the alpha at which the values, by ALPHAS, go above a level; linear in the variance of the noise."""
    squares = SDS[1:] ** 2
    first = int(np.argmax(values > level))
    part = (level - values[first - 1]) / (values[first] - values[first - 1])
    return float(1 / np.sqrt(squares[first - 1] + part * (squares[first] - squares[first - 1])))


def section(seed: int = 1) -> dict[str, _Array]:
    """Return a number for each run, by quantity; a ratio or a crossing gives jackknife's pseudo-values."""
    found = []
    for block in range(RUNS // BLOCK):
        rng = np.random.default_rng([seed, block])
        X = rng.standard_normal((BLOCK, RECORDS, D))
        y = np.sign((X * rng.standard_normal((BLOCK, 1, D))).sum(axis=2))
        start = rng.uniform(-1, 1, (BLOCK, D))
        found.append(descents(X, y, start, SDS, partial(_picked, rng), partial(_normals, rng)))
    updates = np.concatenate([one for one, _ in found], axis=1)
    losses = np.concatenate([one for _, one in found], axis=2)
    change = (np.abs(losses[:, 1:] - losses[:, :1]) / losses[:, :1]).mean(axis=0)
    quantities = {"iterations": updates[0]}
    extras = jackknife(lambda on: _extra(updates[:, on]))
    for k, alpha in enumerate(ALPHAS):
        quantities[f"extra, alpha = {alpha}"] = extras[:, k]
        quantities[f"loss, alpha = {alpha}"] = change[k]
        quantities[f"spread, alpha = {alpha}"] = np.abs(change[k] - change[k].mean())
    quantities["alpha of 5 %"] = jackknife(lambda on: crossing(_extra(updates[:, on]), 0.05))
    quantities["alpha of 2.4 %"] = jackknife(lambda on: crossing(change[:, on].mean(axis=1), 0.024))
    return quantities


def _picked(rng: np.random.Generator) -> NDArray[np.intp]:
    return rng.integers(0, RECORDS, BLOCK)


def _normals(rng: np.random.Generator) -> _Array:
    return rng.standard_normal((BLOCK, D))


def _extra(updates: _Array) -> _Array:
    return np.asarray(updates[1:].mean(axis=1) / updates[0].mean() - 1)


def jackknife(of: Callable[[NDArray[np.intp]], float | _Array], runs: int = RUNS) -> _Array:
    """Return n f - (n - 1) f_i, where f_i is without run i."""
    everything = np.arange(runs)
    whole = of(everything)
    return np.array([runs * whole - (runs - 1) * of(np.delete(everything, i)) for i in everything])


def accesses(seed: int = 2, epochs: int = 50, records: int = 1000) -> dict[str, _Array]:
    """Return what E4 measures, of sets of fifty accesses of a thousand records each, with normals of numpy's."""
    rng, found = np.random.default_rng(seed), []
    for _ in range(ACCESSES):
        n = rng.standard_normal((epochs, records, D))
        flat = n.reshape(-1, D)
        variances = flat.var(axis=0)
        apart = np.abs(np.corrcoef(flat.T) - np.eye(D)).max()
        again = np.corrcoef(n[::2].ravel(), n[1::2].ravel())[0, 1]
        found.append((variances.min(), variances.max(), apart, again))
    return dict(zip(("E4 low", "E4 high", "E4 coordinates", "E4 accesses"), np.array(found).T, strict=True))


if __name__ == "__main__":
    for name, values in (section() | accesses()).items():
        error = values.std(ddof=1) / np.sqrt(len(values))
        sys.stdout.write(f'bixler 4,"{name}",{values.mean():.8f},{error:.8f},{len(values)}\n')
