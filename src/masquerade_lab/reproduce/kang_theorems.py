"""Kang, Liu and Wang's inequality (11) on the small data sets: mean excess risks that are measured, beside the bound.

The figures descend without a penalty. There the objective is not strongly convex, and no mu of the Polyak-Lojasiewicz
condition is known, so the theorems say nothing of them. Here a penalty is added, and steps are 1/L as the theorems ask.
``masquerade_protocols.blocks.descent_theorems`` has the formulas, and says how each was read.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from masquerade_core.learning.erm import fit
from masquerade_core.learning.losses import LOGISTIC, logistic_loss
from masquerade_core.learning.theorems import smoothness, zeros_excess
from masquerade_core.rng import Rng, SimulationRng
from masquerade_lab.reproduce.central_baselines import normals
from masquerade_lab.reproduce.kang_cells import stored
from masquerade_lab.reproduce.kang_runs import Setting, Split, random_sizes, sigma
from masquerade_lab.reproduce.measured import Measured, measured
from masquerade_protocols.blocks.descent_theorems import inequality_11

__all__ = ["EPSILON", "LAMBDA", "compared", "excesses"]

LAMBDA = 0.1
"""Of the penalty (Lambda/2) |theta|^2."""

EPSILON = 0.25
"""The largest of figure 1: with less, the bound says even less."""

_Array = NDArray[np.float64]


def excesses(
    name: str, folder: Path, setting: Setting, numbers: Sequence[int], draws: int, seed: str
) -> dict[str, list[list[float]]]:
    """Return the excess risk of noisy descents on some partitions of a data set.

    Returns
    -------
    dict of str to list
        A list for each partition: "C", one descent on all training records, and "W", the average of the parties' by
        size, both for each draw; "start", L(0) - L*; "shape", the training records and columns.
    """
    records = stored(name, folder)
    found: dict[str, list[list[float]]] = {"C": [], "W": [], "start": [], "shape": []}
    for number in numbers:
        split = Split.of(records, SimulationRng(seed, f"partition {number}"))
        rng = SimulationRng(seed, f"partition {number}, theorems")
        n, d = split.Z.shape
        sizes = random_sizes(n, setting.m, rng)
        sd, T = sigma(replace(setting, epsilon=EPSILON), n), setting.rounds
        parts = np.split(split.Z, np.cumsum(sizes)[:-1])
        each = [_descended(Z, sd, T, draws, rng) for Z in parts]
        least = _risks(fit(split.Z, np.ones(n), LAMBDA)[:, None], split.Z)
        found["C"].append((_risks(_descended(split.Z, sd, T, draws, rng), split.Z) - least).tolist())
        found["W"].append((_risks(np.average(each, axis=0, weights=sizes), split.Z) - least).tolist())
        found["start"].append((_risks(np.zeros((d, 1)), split.Z) - least).tolist())
        found["shape"].append([float(n), float(d)])
    return found


def _descended(Z: _Array, sd: float, rounds: int, draws: int, rng: Rng) -> _Array:
    """Descend with steps of 1/L on records times labels; shape (d, draws)."""
    theta = np.zeros((Z.shape[1], draws))
    for _ in range(rounds):
        noise = sd * normals(rng, theta.size).reshape(theta.shape)
        gradient = Z.T @ LOGISTIC.derivative(Z @ theta) / len(Z) + LAMBDA * theta
        theta = theta - (gradient + noise) / smoothness(LOGISTIC, LAMBDA)
    return theta


def _risks(theta: _Array, Z: _Array) -> _Array:
    return np.asarray(logistic_loss(Z @ theta).mean(axis=0) + LAMBDA / 2 * (theta**2).sum(axis=0))


def compared(name: str, parts: Sequence[dict[str, list[list[float]]]], setting: Setting) -> list[Measured]:
    """Return the bound beside what was measured on one data set."""
    found = {key: np.array([values for part in parts for values in part[key]]) for key in parts[0]}
    n, d = found["shape"][0].astype(int).tolist()
    sd, L = sigma(replace(setting, epsilon=EPSILON), n), smoothness(LOGISTIC, LAMBDA)
    bound = inequality_11(float(found["start"].max()), setting.rounds, d, sd, LAMBDA, L)
    return [
        measured(f"{name}: (11), one descent, C", bound, found["C"]),
        measured(f"{name}: (11), the average, W", bound, found["W"]),
        measured(f"{name}: none, the model of zeros", zeros_excess(LOGISTIC, LAMBDA), found["start"]),
    ]
