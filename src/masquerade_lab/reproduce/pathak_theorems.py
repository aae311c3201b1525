"""Pathak's theorems on Adult's records at the paper's own lambda: excess risks that are measured, beside the bounds.

The paper says that it verifies its bound by an experiment; its figure shows error rates only. Here the bounds
themselves are computed, for lambda = 1, unit rows and eps = .1. ``masquerade_protocols.local_aggregation.theorems`` has
the formulas, and says how each was read.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from masquerade_core.learning.losses import LOGISTIC, logistic_loss
from masquerade_core.learning.theorems import zeros_excess
from masquerade_core.rng import SimulationRng
from masquerade_lab.reproduce.measured import Measured, measured
from masquerade_lab.reproduce.pathak_runs import K, Records, Setting, averages, noise, sizes, stored, w_star
from masquerade_protocols.local_aggregation import theorems

__all__ = ["EPSILON", "PUBLISHED", "compared", "excesses"]

PUBLISHED = Setting(1.0, True, ())
"""The paper's lambda, and rows in the unit ball, which the theorems ask for."""

EPSILON = 0.1

_EVEN, _UNEVEN = "even", "10%"
_ZEROS = "none: the model of zeros"

_Array = NDArray[np.float64]


def excesses(source: Records | Path, numbers: Sequence[int], draws: int, seed: int) -> dict[str, list[list[float]]]:
    """Return what the theorems bound, as it is measured on these random partitions.

    Parameters
    ----------
    source : Records or path
        Rows as in the file, or the directory that holds the files.
    numbers : sequence of int
        Which random partitions.
    draws : int
        Draws of the noise for each of them.

    Returns
    -------
    dict of str to list
        For each quantity, a list for each partition: |w^ - w*| as "distance", J(w^) - J(w*) as "quiet", J(w^s) - J(w*)
        as "noisy", the same on test records as "fresh"; each of a split. "central" is J(w* + eta) - J(w*) with the
        noise of a party that has all records. "zeros" is J(0) - J(w*), and "shape" the records' own.
    """
    records = (source if isinstance(source, Records) else stored(source)).scaled(unit=PUBLISHED.unit)
    (n, d), Lambda = records.X.shape, PUBLISHED.strong_convexity
    best = w_star(records, PUBLISHED)
    found: dict[str, list[list[float]]] = {}

    def add(name: str, values: _Array) -> None:
        found.setdefault(name, []).append(values.tolist())

    def excess(w: _Array, X: _Array, y: _Array) -> _Array:
        return _risks(w, X, y) - _risks(best[:, None], X, y)

    for number in numbers:
        label = f"pathak-2010 {seed} {number}"
        averaged = averages(records, Lambda, label)
        for split in (_EVEN, _UNEVEN):
            w, rng = averaged[split][:, None], SimulationRng(label, f"theorems {split}")
            etas = [noise(rng, split, n, EPSILON, Lambda, d) for _ in range(draws)]
            noisy = w + np.transpose(etas)
            add(f"distance {split}", np.linalg.norm(w - best[:, None], axis=0))
            add(f"quiet {split}", excess(w, records.X, records.y))
            add(f"noisy {split}", excess(noisy, records.X, records.y))
            add(f"fresh {split}", excess(noisy, records.X_test, records.y_test))
        rng = SimulationRng(label, "theorems w*")
        etas = [noise(rng, "w* + eta", n, EPSILON, Lambda, d) for _ in range(draws)]
        add("central", excess(best[:, None] + np.transpose(etas), records.X, records.y))
        add("zeros", excess(np.zeros((d, 1)), records.X, records.y))
        add("shape", np.array([n, d], dtype=float))
    return found


def _risks(w: _Array, X: _Array, y: _Array) -> _Array:
    """Return J of each column of w, shape (R,)."""
    losses = logistic_loss((X @ w) * y[:, None])
    return np.asarray(losses.mean(axis=0) + PUBLISHED.lam * (w**2).sum(axis=0))


def compared(parts: Sequence[dict[str, list[list[float]]]]) -> list[Measured]:
    """Return each theorem's bound beside what was measured.

    Parameters
    ----------
    parts : sequence of dict
        Of :func:`excesses`, for partitions that are all different.
    """
    found = {name: np.array([values for part in parts for values in part[name]]) for name in parts[0]}
    (n, d), lam = found["shape"][0].astype(int).tolist(), PUBLISHED.lam
    made: list[Measured] = []
    for split in (_EVEN, _UNEVEN):
        least = min(sizes(n, split))
        bounds = {
            ("Theorem 4.2", "distance"): theorems.theorem_4_2(K, least, lam),
            ("(3)", "quiet"): theorems.inequality_3(K, least, lam),
            ("Theorem 4.3", "noisy"): theorems.theorem_4_3(K, least, lam, d, EPSILON),
            ("Theorem 4.4", "fresh"): theorems.theorem_4_4(K, least, n, lam, d, EPSILON),
        }
        for (theorem, quantity), bound in bounds.items():
            made.append(measured(f"{theorem}, {split}", bound, found[f"{quantity} {split}"]))
    made.append(measured("(4), one party", theorems.inequality_4(n, lam, d, EPSILON), found["central"]))
    return [*made, measured(_ZEROS, zeros_excess(LOGISTIC, PUBLISHED.strong_convexity), found["zeros"])]
