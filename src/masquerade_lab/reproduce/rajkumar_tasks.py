"""The units of work of Rajkumar and Agarwal's figures: one data set, one method, one epsilon."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from masquerade.datasets import breast_cancer, random_split, unit_ball
from masquerade_core.data.schema import Dataset, Encoder
from masquerade_core.learning.erm import error_rate, fit
from masquerade_core.learning.losses import LOGISTIC
from masquerade_core.privacy.noise.objective_perturbation import compute_slack
from masquerade_core.rng import SimulationRng
from masquerade_lab.baselines.gop import gop_minimiser, gop_noise
from masquerade_lab.reproduce.rajkumar_runs import (
    DELTA,
    Split,
    average,
    descend,
    draw_eta,
    draw_fresh,
    draw_rho,
    output_noise,
    printed_root,
    study_of,
)
from masquerade_protocols.psgd.schedule import psgd

__all__ = ["FOLDS", "Source", "aggregated", "breast_cancer_fold", "central", "gradient", "load"]

FOLDS = 5

_Array = NDArray[np.float64]
_Errors = dict[str, _Array]
"""By a quantity's name, the error rate on the test records of each draw.

Each draw of noise is followed, after all others, by its mirror image, which has the same law: all laws here are
symmetric. A classifier that is noise alone errs on exactly half together with its mirror image, so pairs of them
scatter a tenth as much as single draws.
"""

Source = Literal["simulated", "breast cancer"]
"""Figure 1's records, or figure 2's."""


@cache
def load(source: Source, seed: int, number: int) -> tuple[Dataset, Dataset]:
    """Return the training and the test records of a data set or a fold. A fold does not depend on the seed."""
    return unit_ball(number, seed=seed) if source == "simulated" else breast_cancer_fold(number)


def breast_cancer_fold(number: int) -> tuple[Dataset, Dataset]:
    """Return four fifths of the 569 diagnostic records, and the fifth with this number.

    Each column goes from the demonstration's public bounds to [-1, 1], and each row is clipped to norm 1.
    """
    cohort = breast_cancer(2)
    rows = [row for part in (cohort.test, *cohort.parties.values()) for row in part.rows]
    columns = dict(zip(cohort.test.columns, zip(*rows, strict=True), strict=True))
    X = Encoder(cohort.features, intercept=False).encode(columns)
    y = np.where(np.array(columns[cohort.label.name]) == cohort.label.positive, 1.0, -1.0)
    tested = np.zeros(len(y), dtype=bool)
    tested[np.array_split(np.arange(len(y)), FOLDS)[number]] = True
    return Dataset(X[~tested], y[~tested]), Dataset(X[tested], y[tested])


def _label(source: Source, seed: int, number: int) -> str:
    return f"rajkumar-2012{'' if source == 'simulated' else f' {source}'} {seed} {number}"


def _errors(test: Dataset, found: Mapping[str, Sequence[_Array] | _Array]) -> _Errors:
    return {name: np.array([error_rate(test.X, test.y, w) for w in classifiers]) for name, classifiers in found.items()}


def _mirrored(draws: _Array, axis: int = 0) -> _Array:
    """Return each draw, and after them each one's mirror image."""
    return np.concatenate([draws, -draws], axis=axis)


def central(
    source: Source,
    seed: int,
    number: int,
    draws: int,
    wanted: Mapping[str, tuple[float, float]],
    printed: Mapping[str, tuple[float, float]],
) -> _Errors:
    """Compute GOP, and the classifier without privacy for each lambda.

    Parameters
    ----------
    source : Source
    seed, number : int
        They give the data set, and with it the noise.
    draws : int
    wanted : mapping of str to (float, float)
        By its name, an epsilon and a lambda. The name gives the noise, too.
    printed : mapping of str to (float, float)
        The same for GOP with the printed equation's sigma*.
    """
    records, test = load(source, seed, number)
    label, (N, d) = _label(source, seed, number), records.X.shape
    found: dict[str, Sequence[_Array] | _Array] = {
        f"no privacy, {Lambda}": [fit(records.X, records.y, Lambda)] for _, Lambda in wanted.values()
    }
    for name, (eps, Lambda) in wanted.items():
        study, rng = study_of(eps, Lambda, d), SimulationRng(label, name)
        etas = _mirrored(np.array([gop_noise(rng, study, N) for _ in range(draws)]))
        found[name] = [gop_minimiser(study, records, eta) for eta in etas]
    for name, (eps, Lambda) in printed.items():
        etas = _mirrored(draw_eta(f"{label} {name}", _printed(records, eps, Lambda), draws, d))
        found[name] = [gop_minimiser(study_of(eps, Lambda, d), records, eta) for eta in etas]
    return _errors(test, found)


def _printed(records: Dataset, epsilon: float, Lambda: float) -> Fraction:
    N, d = records.X.shape
    slack = compute_slack(epsilon, Lambda, N, LOGISTIC.c)
    return Fraction(printed_root(d, slack.epsilon, DELTA))


def gradient(
    source: Source,
    seed: int,
    number: int,
    draws: int,
    Lambda: float,
    epsilon: float,
    parties: Sequence[int],
    rounds: Sequence[int],
    broken: bool,
) -> _Errors:
    """Compute PSGD for all K, and GOP under the same sum of eta. "half" has half of each noise.

    Parameters
    ----------
    source : Source
    seed, number, draws : int
    Lambda, epsilon : float
    parties, rounds : sequence of int
        The values of K and of T, rising.
    broken : bool
        Whether to add the other broken variants. Of these, "no eta" and "half of rho" have rho alone.
    """
    records, test = load(source, seed, number)
    label = f"{_label(source, seed, number)}{'' if broken else f' eps = {epsilon}'}"
    N, d = records.X.shape
    study = study_of(epsilon, Lambda, d)
    schedule = psgd(study, N)
    eta = _mirrored(draw_eta(label, schedule.sigma, draws, d))
    rho = _mirrored(draw_rho(label, schedule, rounds[-1], draws, parties, d=d), axis=2)
    fresh, none = np.zeros((rounds[-1], 2 * draws, d)), np.zeros_like(eta)
    # What stays in all rounds; how much of rho, and of an eta that is new in each round, comes to it.
    variants: dict[str, tuple[_Array, float, float]] = {"psgd": (eta, 1, 0), "half psgd": (eta / 2, 0.5, 0)}
    if broken:
        fresh = _mirrored(draw_fresh(label, schedule.sigma, rounds[-1], draws), axis=1)
        root = _mirrored(draw_eta(f"{label} printed root", _printed(records, epsilon, Lambda), draws))
        variants |= {
            # Distributed as the sum of K independent eta^k of variance sigma*^2.
            "no sqrt K": (np.sqrt(parties)[:, None, None] * eta, 1, 0),
            "no eta": (none, 1, 0),
            "half of rho": (none, 0.5, 0),
            "no rho": (eta, 0, 0),
            "fresh eta": (none, 1, 1),
            "printed root": (root, 1, 0),
        }
    shape = (len(variants), len(parties), 2 * draws, d)
    still = np.stack([np.broadcast_to(values, shape[1:]) for values, _, _ in variants.values()])
    of_rho, of_fresh = (np.array([parts[i] for parts in variants.values()])[:, None, None, None] for i in (1, 2))

    def noise(t: int) -> _Array:
        return np.reshape(still + of_rho * rho[t] + of_fresh * fresh[t], (-1, d))

    found: dict[str, Sequence[_Array] | _Array] = {
        f"{part}gop, same eta, {epsilon}": [gop_minimiser(study, records, values * scale) for values in eta]
        for part, scale in (("", 1.0), ("half ", 0.5))
    }
    for T, iterates in zip(rounds, descend(records, study, schedule, noise, rounds), strict=True):
        for variant, by_K in zip(variants, iterates.reshape(shape), strict=True):
            found |= {f"{variant} {epsilon} {K} {T}": w for K, w in zip(parties, by_K, strict=True)}
    return _errors(test, found)


def aggregated(
    source: Source,
    seed: int,
    number: int,
    draws: int,
    many: int,
    Lambda: float,
    epsilons: Sequence[float],
    splits: Mapping[str, tuple[float, ...]],
    parties: Sequence[int],
) -> _Errors:
    """Compute local aggregation at each epsilon, with both sizes of the noise, for fixed and for random splits.

    "la" has the smallest party's noise, and "la / K" a K-th of it. "half" has half of either. "n/K" takes the mean size
    for the smallest. "quiet" has no noise.

    Parameters
    ----------
    source : Source
    seed, number : int
    draws : int
        How many random splits, with one draw of the noise for each.
    many : int
        How many draws of the noise for a fixed split.
    Lambda : float
    epsilons : sequence of float
    splits : mapping of str to tuple of float
    parties : sequence of int
        The values of K for the random splits.
    """
    records, test = load(source, seed, number)
    label, N = _label(source, seed, number), len(records.y)
    dealt: dict[str, list[tuple[float, ...]]] = {name: [parts] for name, parts in splits.items()}
    dealt |= {f"random {K}": [random_split(K, N, seed, number, K, draw) for draw in range(draws)] for K in parties}
    found: dict[str, Sequence[_Array] | _Array] = {}
    for name, each in dealt.items():
        quiet = np.array([average(records, parts, Lambda) for parts in each])
        found[f"quiet la {name}"] = quiet
        of_mean = np.array([[min(parts) * len(parts)] for parts in each])
        laws = {f"la {eps} {name}": Split((), eps) for eps in epsilons}
        laws |= {f"la / K {eps} {name}": Split((), eps, divided=True) for eps in epsilons}
        if name == next(iter(splits)):
            laws["la, laplace"] = Split((), 1.0, "laplace")
        for key, law in laws.items():
            drawn = [
                output_noise(records, replace(law, parts=parts), Lambda, label, many if name in splits else 1)
                for parts in each
            ]
            noise = np.concatenate(drawn)
            for part, scale in (("", 1.0), ("half ", 0.5), ("n/K ", of_mean)):
                found[f"{part}{key}"] = np.concatenate([quiet + scale * noise, quiet - scale * noise])
    return _errors(test, found)
