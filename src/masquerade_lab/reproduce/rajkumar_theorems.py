"""Rajkumar and Agarwal's theorems on their simulated records: excess risks that are measured, beside the bounds.

``masquerade_protocols.blocks.objective_theorems`` has the formulas, and says how each was read.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from masquerade_core.data.schema import Dataset
from masquerade_core.learning.erm import fit
from masquerade_core.learning.losses import LOGISTIC, objective
from masquerade_core.learning.theorems import zeros_excess
from masquerade_core.privacy.noise.objective_perturbation import sigma_star
from masquerade_core.rng import SimulationRng
from masquerade_lab.baselines.gop import gop_minimiser, gop_noise
from masquerade_lab.reproduce.measured import Measured, measured
from masquerade_lab.reproduce.rajkumar_runs import DELTA, descend, draw_eta, draw_rho, study_of
from masquerade_lab.reproduce.rajkumar_tasks import load
from masquerade_protocols.blocks import objective_theorems as theorems
from masquerade_protocols.psgd.schedule import psgd

__all__ = ["compared", "excesses", "tau_of"]

_Array = NDArray[np.float64]

_C = float(LOGISTIC.c)


def tau_of(N: int, d: int, epsilon: float) -> float:
    """Return Theorem 5.3's tau for N records, which is also its lambda."""
    return theorems.theorem_5_3(theorems.t_hat(d, sigma_star(d, epsilon, DELTA)), N, epsilon, _C)


def excesses(
    seed: int, number: int, draws: int, Lambda: float, epsilon: float, K: int, rounds: int
) -> dict[str, list[float]]:
    """Return what the theorems bound, as it is measured on one data set.

    Returns
    -------
    dict of str to list
        "gop" and "psgd": J(w) - J(w*) of each draw. "fresh": what ``gop`` with lambda = tau loses on test records
        against w_0, the direction of the classifier without privacy. "zeros": J(0) - J(w*). "shape": N and d.
    """
    records, test = load("simulated", seed, number)
    label, (N, d) = f"rajkumar-2012 theorems {seed} {number}", records.X.shape
    study = study_of(epsilon, Lambda, d)
    best = fit(records.X, records.y, Lambda)

    def excess(ws: Sequence[_Array] | _Array) -> list[float]:
        least = objective(best, records.X, records.y, Lambda)
        return [objective(w, records.X, records.y, Lambda) - least for w in ws]

    schedule = psgd(study, N)
    eta, rho = draw_eta(label, schedule.sigma, draws, d), draw_rho(label, schedule, rounds, draws, (K,), d)
    (iterates,) = descend(records, study, schedule, lambda t: eta + rho[t][0], (rounds,))
    return {
        "gop": excess([gop_minimiser(study, records, one) for one in eta]),
        "psgd": excess(iterates),
        "fresh": _fresh(records, test, epsilon, draws, label, best / np.linalg.norm(best)),
        "zeros": excess([np.zeros(d)]),
        "shape": [float(N), float(d)],
    }


def _fresh(records: Dataset, test: Dataset, epsilon: float, draws: int, label: str, reference: _Array) -> list[float]:
    N, d = records.X.shape
    study, rng = study_of(epsilon, round(tau_of(N, d, epsilon), 6), d), SimulationRng(label, "tau")
    found = [gop_minimiser(study, records, gop_noise(rng, study, N)) for _ in range(draws)]
    return [objective(w, test.X, test.y, 0.0) - objective(reference, test.X, test.y, 0.0) for w in found]


def compared(parts: Sequence[dict[str, list[float]]], Lambda: float, epsilon: float, K: int) -> list[Measured]:
    """Return each theorem's bound beside what was measured on all data sets."""
    found = {name: np.array([part[name] for part in parts]) for name in parts[0]}
    N, d = found["shape"][0].astype(int).tolist()
    schedule = psgd(study_of(epsilon, Lambda, d), N)
    T = theorems.t_hat(d, float(schedule.sigma))
    bound = theorems.theorem_5_1(T, N, Lambda, _C)
    return [
        measured("Theorem 5.1, GOP", bound, found["gop"]),
        measured("what is proved of it, GOP", theorems.proved_excess(T**0.5, N, Lambda), found["gop"]),
        measured(f"Theorem 5.1, PSGD, K = {K}", bound, found["psgd"]),
        measured("Theorem 5.3, GOP with lambda = tau", tau_of(N, d, epsilon), found["fresh"]),
        measured("none: the model of zeros", zeros_excess(LOGISTIC, Lambda), found["zeros"]),
    ]
