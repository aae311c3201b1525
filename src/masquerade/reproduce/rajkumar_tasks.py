"""The units of work of Rajkumar and Agarwal's figure 1: one data set, one method, one epsilon."""

from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from masquerade.datasets import random_split, unit_ball
from masquerade.reproduce.rajkumar_runs import (
    DELTA,
    D,
    Split,
    aggregates,
    descend,
    draw_eta,
    draw_fresh,
    draw_rho,
    printed_root,
    study_of,
)
from masquerade_core.data.schema import Dataset
from masquerade_core.learning.erm import error_rate, fit
from masquerade_core.learning.losses import LOGISTIC
from masquerade_core.privacy.noise.objective_perturbation import compute_slack
from masquerade_core.rng import SimulationRng
from masquerade_protocols.baselines.gop import gop_minimiser, gop_noise
from masquerade_protocols.psgd.schedule import psgd

__all__ = ["LAMBDA", "N", "aggregated", "central", "gradient"]

N = 1000
LAMBDA = 0.1

_Array = NDArray[np.float64]
_Errors = dict[str, _Array]
"""By a quantity's name, the error rate on the test records of each draw."""


def _label(seed: int, number: int) -> str:
    return f"rajkumar-2012 {seed} {number}"


def _errors(test: Dataset, found: Mapping[str, Sequence[_Array] | _Array]) -> _Errors:
    return {name: np.array([error_rate(test.X, test.y, w) for w in classifiers]) for name, classifiers in found.items()}


def central(seed: int, number: int, draws: int, epsilons: Sequence[float], others: Sequence[float]) -> _Errors:
    """Compute GOP at each epsilon, and at the last one with the printed root and with other lambdas; and no privacy.

    Parameters
    ----------
    seed, number : int
        They give the data set, and with it the noise.
    draws : int
    epsilons : sequence of float
    others : sequence of float
        Other values of lambda.
    """
    records, test = unit_ball(number, N, D, seed=seed)
    label, eps = _label(seed, number), epsilons[-1]
    found: dict[str, Sequence[_Array]] = {"no privacy": [fit(records.X, records.y, LAMBDA)]}
    wanted = [(f"gop {epsilon}", epsilon, LAMBDA) for epsilon in epsilons]
    wanted += [(f"gop lambda = {Lambda}", eps, Lambda) for Lambda in others]
    for name, epsilon, Lambda in wanted:
        study, rng = study_of(epsilon, Lambda), SimulationRng(label, name)
        found[name] = [gop_minimiser(study, records, gop_noise(rng, study, N)) for _ in range(draws)]
    etas = draw_eta(f"{label} gop, printed root", _printed(eps), draws)
    found["gop, printed root"] = [gop_minimiser(study_of(eps, LAMBDA), records, eta) for eta in etas]
    return _errors(test, found)


def _printed(epsilon: float) -> Fraction:
    slack = compute_slack(epsilon, LAMBDA, N, LOGISTIC.c)
    return Fraction(printed_root(D, slack.epsilon, DELTA))


def gradient(
    seed: int,
    number: int,
    draws: int,
    epsilon: float,
    parties: Sequence[int],
    rounds: Sequence[int],
    broken: bool,
) -> _Errors:
    """Compute PSGD for all K, and GOP under the same sum of eta.

    Parameters
    ----------
    parties, rounds : sequence of int
        The values of K and of T, rising.
    broken : bool
        Whether to add the broken variants.
    """
    records, test = unit_ball(number, N, D, seed=seed)
    label = f"{_label(seed, number)}{'' if broken else f' eps = {epsilon}'}"
    study = study_of(epsilon, LAMBDA)
    schedule = psgd(study, N)
    eta = draw_eta(label, schedule.sigma, draws)
    rho = draw_rho(label, schedule, rounds[-1], draws, parties)
    fresh = draw_fresh(label, schedule.sigma, rounds[-1], draws) if broken else np.zeros((rounds[-1], draws, D))
    variants = {"psgd": eta}
    if broken:
        variants |= {
            # Distributed as the sum of K independent eta^k of variance sigma*^2.
            "no sqrt K": np.sqrt(parties)[:, None, None] * eta,
            "no eta": np.zeros_like(eta),
            "fresh eta": np.zeros_like(eta),
            "printed root": draw_eta(f"{label} printed root", _printed(epsilon), draws),
        }
    shape = (len(variants), len(parties), draws, D)
    still = np.stack([np.broadcast_to(values, shape[1:]) for values in variants.values()])
    renewed = np.array([name == "fresh eta" for name in variants])[:, None, None, None]

    def noise(t: int) -> _Array:
        return np.reshape(still + rho[t] + renewed * fresh[t], (-1, D))

    found: dict[str, Sequence[_Array] | _Array] = {
        f"gop, same eta, {epsilon}": [gop_minimiser(study, records, values) for values in eta]
    }
    for T, iterates in zip(rounds, descend(records, study, schedule, noise, rounds), strict=True):
        for variant, by_K in zip(variants, iterates.reshape(shape), strict=True):
            found |= {f"{variant} {epsilon} {K} {T}": w for K, w in zip(parties, by_K, strict=True)}
    return _errors(test, found)


def aggregated(
    seed: int,
    number: int,
    draws: int,
    many: int,
    epsilons: Sequence[float],
    splits: Mapping[str, tuple[float, ...]],
    parties: Sequence[int],
) -> _Errors:
    """Compute local aggregation at each epsilon, with both sizes of the noise, for fixed and for random splits.

    Parameters
    ----------
    draws : int
        How many random splits, with one draw of the noise for each.
    many : int
        How many draws of the noise for a fixed split.
    splits : mapping of str to tuple of float
    parties : sequence of int
        The values of K for the random splits.
    """
    records, test = unit_ball(number, N, D, seed=seed)
    label = _label(seed, number)
    wanted = {"la, laplace": Split(next(iter(splits.values())), 1.0, "laplace")}
    for name, parts in splits.items():
        wanted[f"la {name}"] = Split(parts, 1.0)
        for eps in epsilons:
            wanted |= {f"la {eps} {name}": Split(parts, eps), f"la / K {eps} {name}": Split(parts, eps, divided=True)}
    found = {name: aggregates(records, split, LAMBDA, label, many) for name, split in wanted.items()}
    for K in parties:
        dealt = [random_split(K, N, seed, number, K, draw) for draw in range(draws)]
        for eps in epsilons:
            for name, divided in ((f"la {eps} random {K}", False), (f"la / K {eps} random {K}", True)):
                each = [Split(parts, eps, divided=divided) for parts in dealt]
                found[name] = np.array([aggregates(records, split, LAMBDA, label, 1)[0] for split in each])
    return _errors(test, found)
