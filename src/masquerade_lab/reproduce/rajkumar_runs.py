"""PSGD and local aggregation without encryption, many draws at a time, with the noise that the protocols draw.

Nothing here is a protocol: one process sees all records. The arithmetic of a round is the protocol's own: the same sums
of gradients, the same steps, and the same noise on the same grid. Many runs are computed at once, as columns of a
matrix.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtri

from masquerade.datasets import breast_cancer, deal, random_split, unit_ball
from masquerade.draft import Draft, throwaway_key
from masquerade_core.data.schema import Dataset, Encoder
from masquerade_core.learning.erm import error_rate, fit
from masquerade_core.learning.gradients import gradient_sum, step_sizes
from masquerade_core.learning.losses import LOGISTIC, loss_of, objective
from masquerade_core.learning.theorems import zeros_excess
from masquerade_core.privacy.noise.objective_perturbation import compute_slack, sigma_share, sigma_star
from masquerade_core.privacy.noise.output_perturbation import paper_beta, paper_scale
from masquerade_core.privacy.samplers.discrete_laplace import discrete_laplace
from masquerade_core.privacy.samplers.l2_laplace import l2_laplace
from masquerade_core.privacy.samplers.rounded_gaussian import gaussian
from masquerade_core.rng import Rng, SimulationRng
from masquerade_core.study import Feature, Study
from masquerade_lab.baselines.gop import gop_minimiser, gop_noise
from masquerade_lab.reproduce.engine.report import Measured, measured
from masquerade_lab.reproduce.engine.tasks import gathered
from masquerade_protocols.blocks import objective_theorems as theorems
from masquerade_protocols.local_aggregation.public import FRACTION_BITS as AGGREGATION_BITS
from masquerade_protocols.psgd.schedule import FRACTION_BITS as GRADIENT_BITS
from masquerade_protocols.psgd.schedule import Schedule, psgd

__all__ = [
    "DELTA",
    "FOLDS",
    "D",
    "Source",
    "Split",
    "aggregated",
    "aggregates",
    "average",
    "breast_cancer_fold",
    "central",
    "compared",
    "descend",
    "draw_eta",
    "draw_fresh",
    "draw_rho",
    "excesses",
    "gradient",
    "load",
    "output_noise",
    "printed_root",
    "study_of",
    "tau_of",
]

D = 10
DELTA = 0.05
_SHARES = 30  # divided evenly among 5, 10 or 15 parties, so that all K have the same sum of eta

_Array = NDArray[np.float64]
_UNIT = Fraction(1 << GRADIENT_BITS)


@cache
def study_of(epsilon: float, Lambda: float, d: int = D) -> Study:
    """Return a study with the paper's settings; K is not among them."""
    names = [f"party-{k}" for k in range(1, 6)]
    draft = Draft(
        parties=[(name, throwaway_key()) for name in names],
        curator_key=throwaway_key(),
        protocol="psgd",
        features=[Feature(name=f"x{i}", min=-1.0, max=1.0) for i in range(1, d + 1)],
        epsilon=epsilon,
        delta=DELTA,
        calibration="paper",
        regularization=Lambda,
        intercept=False,
    )
    return Study.parse(draft.to_toml(), "the paper's settings", in_memory=True)


def printed_root(d: int, epsilon: float | Fraction, delta: float) -> float:
    """Return the only positive sigma of Procedure 3 as printed: Pr(U <= (sigma eps~ - 2)^2 / (4 sigma^2)) = 1 - delta.

    With q^2 the quantile, sigma eps~ - 2 = -2 q sigma, so sigma = 2/(eps~ + 2q): hardly any noise. For the intended
    equation, and for what follows from it, see :func:`masquerade_core.privacy.noise.objective_perturbation.sigma_star`.
    """
    return 2 / (float(epsilon) + 2 * math.sqrt(float(chdtri(d, delta))))


# --- Noise ------------------------------------------------------------------------


def draw_eta(seed: str, sigma: Fraction, draws: int, d: int = D) -> _Array:
    """Draw sum_k eta^k, which is the same for 5, 10 and 15 parties; shape (draws, d).

    Thirty shares of variance sigma^2/30 a coordinate are dealt evenly, so each of K parties has an eta^k of variance
    sigma^2/K.
    """
    rng, share = SimulationRng(seed, "eta"), sigma_share(sigma, _SHARES)
    drawn = np.array([gaussian(rng, share, _SHARES * d, _UNIT) for _ in range(draws)], dtype=np.float64)
    return _ungrid(drawn.reshape(draws, _SHARES, d).sum(axis=1))


def draw_fresh(seed: str, sigma: Fraction, rounds: int, draws: int) -> _Array:
    """Draw a new sum_k eta^k for each round, which is wrong; shape (rounds, draws, d). K makes no difference."""
    rng = SimulationRng(seed, "fresh eta")
    drawn = gaussian(rng, sigma, rounds * draws * D, _UNIT)
    return _ungrid(np.array(drawn, dtype=np.float64).reshape(rounds, draws, D))


def draw_rho(
    seed: str,
    schedule: Schedule,
    rounds: int,
    draws: int,
    parties: Sequence[int],
    d: int = D,
) -> _Array:
    """Draw rho_t^k for every party, round and draw, and add up those of the first K; shape (rounds, K's, draws, d).

    Parameters
    ----------
    parties : sequence of int
        The values of K, rising.
    """
    sums = np.empty((rounds, len(parties), draws, d))
    for draw in range(draws):
        rngs = [SimulationRng(seed, f"rho {draw} {k}") for k in range(parties[-1])]
        for t in range(rounds):
            beta = schedule.beta(t)
            rho = np.array([l2_laplace(rng, beta, d, _UNIT) for rng in rngs], dtype=np.float64)
            sums[t, :, draw] = np.cumsum(rho, axis=0)[[K - 1 for K in parties]]
    return _ungrid(sums)


def _ungrid(noise: _Array) -> _Array:
    return np.asarray(noise / 2**GRADIENT_BITS, dtype=np.float64)


# --- PSGD -------------------------------------------------------------------------


def descend(
    records: Dataset,
    study: Study,
    schedule: Schedule,
    noise: Callable[[int], _Array],
    after: Sequence[int],
) -> tuple[_Array, ...]:
    """Run Algorithm 1 once for each row of noise.

    Parameters
    ----------
    records : Dataset
        Everybody's records, since only sums over all parties enter a round.
    noise : callable
        t -> sum_k (rho_t^k + eta^k), shape (R, d).
    after : sequence of int
        Numbers of rounds, rising.

    Returns
    -------
    tuple of ndarray, shape (R, d)
        The iterates after these rounds.
    """
    X, y, N = records.X, records.y[:, None], len(records.y)
    loss, Lambda = loss_of(study.model.loss), study.model.regularization
    curvature = Lambda + float(schedule.Delta)
    z = step_sizes(float(loss.c), Lambda, float(schedule.Delta))
    w = np.zeros_like(noise(0).T)
    iterates = []
    for t in range(after[-1]):
        w = w - z(t) * ((gradient_sum(X, y, w, loss) + noise(t).T) / N + curvature * w)
        if t + 1 in after:
            iterates.append(w.T)
    return tuple(iterates)


# --- Local aggregation --------------------------------------------------------------


@dataclass(frozen=True)
class Split:
    """How the records are dealt, and what noise is added to the average.

    Parameters
    ----------
    parts : tuple of float
        Fractions of all records.
    epsilon : float
    law : "l2" or "laplace"
        Density exp(-beta ||eta||_2), or independent Laplace noise per coordinate.
    divided : bool
        Whether the noise is divided by K, as the average's own sensitivity allows. Neither paper does so.
    """

    parts: tuple[float, ...]
    epsilon: float
    law: Literal["l2", "laplace"] = "l2"
    divided: bool = False


def average(records: Dataset, parts: Sequence[float], Lambda: float) -> _Array:
    """Average the parties' classifiers; shape (d,)."""
    return np.asarray(np.mean([fit(part.X, part.y, Lambda) for part in deal(records, parts)], axis=0))


def output_noise(records: Dataset, split: Split, Lambda: float, seed: str, draws: int) -> _Array:
    """Draw the smallest party's noise; shape (draws, d)."""
    rng, d = SimulationRng(seed, repr(split)), records.X.shape[1]
    smallest = min(len(part.y) for part in deal(records, split.parts))
    noise = np.array([_output_noise(rng, split, smallest, Lambda, d) for _ in range(draws)], dtype=np.float64)
    return np.asarray(noise / 2**AGGREGATION_BITS / (len(split.parts) if split.divided else 1), dtype=np.float64)


def aggregates(records: Dataset, split: Split, Lambda: float, seed: str, draws: int) -> _Array:
    """Average the parties' classifiers and add the smallest party's noise; shape (draws, d)."""
    noise = output_noise(records, split, Lambda, seed, draws)
    return np.asarray(average(records, split.parts, Lambda) + noise, dtype=np.float64)


def _output_noise(rng: Rng, split: Split, n: int, Lambda: float, d: int) -> list[int]:
    unit = Fraction(1 << AGGREGATION_BITS)
    if split.law == "laplace":
        return discrete_laplace(rng, unit * paper_scale(n, split.epsilon, Lambda), d)
    return l2_laplace(rng, paper_beta(n, split.epsilon, Lambda), d, unit)


# --- Tasks: one data set, many draws --------------------------------------------------

FOLDS = 5

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


# --- The theorems, measured -----------------------------------------------------------

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
    found = gathered(parts)
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
