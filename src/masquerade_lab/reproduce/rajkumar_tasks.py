"""The units of work of Rajkumar and Agarwal's figures: one data set, one method, one epsilon."""

from collections.abc import Mapping, Sequence
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
    aggregates,
    descend,
    draw_eta,
    draw_fresh,
    draw_rho,
    printed_root,
    study_of,
)
from masquerade_protocols.psgd.schedule import psgd

__all__ = ["FOLDS", "Source", "aggregated", "breast_cancer_fold", "central", "gradient", "load"]

FOLDS = 5

_Array = NDArray[np.float64]
_Errors = dict[str, _Array]
"""By a quantity's name, the error rate on the test records of each draw."""

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
        found[name] = [gop_minimiser(study, records, gop_noise(rng, study, N)) for _ in range(draws)]
    for name, (eps, Lambda) in printed.items():
        etas = draw_eta(f"{label} {name}", _printed(records, eps, Lambda), draws, d)
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
    mirrored: bool = False,
) -> _Errors:
    """Compute PSGD for all K, and GOP under the same sum of eta.

    Parameters
    ----------
    source : Source
    seed, number, draws : int
    Lambda, epsilon : float
    parties, rounds : sequence of int
        The values of K and of T, rising.
    broken : bool
        Whether to add the broken variants.
    mirrored : bool
        Whether each draw of the noise is followed, after all others, by its mirror image; "half" has half of each.
        All laws here are symmetric. A classifier that is noise alone errs on exactly half together with its mirror
        image, so pairs of them scatter a tenth as much as single draws.
    """
    records, test = load(source, seed, number)
    label = f"{_label(source, seed, number)}{'' if broken else f' eps = {epsilon}'}"
    N, d = records.X.shape
    study = study_of(epsilon, Lambda, d)
    schedule = psgd(study, N)
    eta = draw_eta(label, schedule.sigma, draws, d)
    rho = draw_rho(label, schedule, rounds[-1], draws, parties, d=d)
    if mirrored:
        eta, rho, draws = np.concatenate([eta, -eta]), np.concatenate([rho, -rho], axis=2), 2 * draws
    variants = {"psgd": eta}
    fresh = np.zeros((rounds[-1], draws, d))
    if broken:
        fresh = draw_fresh(label, schedule.sigma, rounds[-1], draws)
        variants |= {
            # Distributed as the sum of K independent eta^k of variance sigma*^2.
            "no sqrt K": np.sqrt(parties)[:, None, None] * eta,
            "no eta": np.zeros_like(eta),
            "fresh eta": np.zeros_like(eta),
            "printed root": draw_eta(f"{label} printed root", _printed(records, epsilon, Lambda), draws),
        }
    shape = (len(variants), len(parties), draws, d)
    still = np.stack([np.broadcast_to(values, shape[1:]) for values in variants.values()])
    renewed = np.array([name == "fresh eta" for name in variants])[:, None, None, None]

    def noise(t: int) -> _Array:
        return np.reshape(still + rho[t] + renewed * fresh[t], (-1, d))

    found: dict[str, Sequence[_Array] | _Array] = {
        f"gop, same eta, {epsilon}": [gop_minimiser(study, records, values) for values in eta]
    }
    for T, iterates in zip(rounds, descend(records, study, schedule, noise, rounds), strict=True):
        for variant, by_K in zip(variants, iterates.reshape(shape), strict=True):
            found |= {f"{variant} {epsilon} {K} {T}": w for K, w in zip(parties, by_K, strict=True)}
    if mirrored:
        found[f"half gop, same eta, {epsilon}"] = [gop_minimiser(study, records, values / 2) for values in eta]
        (halved,) = descend(records, study, schedule, lambda t: noise(t) / 2, rounds[-1:])
        by_K = halved.reshape(len(parties), draws, d)
        found |= {f"half psgd {epsilon} {K} {rounds[-1]}": w for K, w in zip(parties, by_K, strict=True)}
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
    label = _label(source, seed, number)
    wanted = {"la, laplace": Split(next(iter(splits.values())), 1.0, "laplace")}
    for name, parts in splits.items():
        for eps in epsilons:
            wanted |= {f"la {eps} {name}": Split(parts, eps), f"la / K {eps} {name}": Split(parts, eps, divided=True)}
    found = {name: aggregates(records, split, Lambda, label, many) for name, split in wanted.items()}
    for K in parties:
        dealt = [random_split(K, len(records.y), seed, number, K, draw) for draw in range(draws)]
        for eps in epsilons:
            for name, divided in ((f"la {eps} random {K}", False), (f"la / K {eps} random {K}", True)):
                each = [Split(parts, eps, divided=divided) for parts in dealt]
                found[name] = np.array([aggregates(records, split, Lambda, label, 1)[0] for split in each])
    return _errors(test, found)
