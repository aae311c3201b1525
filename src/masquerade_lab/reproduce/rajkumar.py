"""Rajkumar and Agarwal 2012, figures 1 and 2: PSGD and GOP against local aggregation, simulated and on breast cancer.

The figures have no numbers, and the text does not give lambda, T, the steps and the noise of local aggregation. The
bands are those of another program of a few lines; for figure 1 it ran on other data sets that were drawn in the same
way. ``docs/reproduction/rajkumar-2012.md`` compares them with what the paper published.

At the paper's epsilons every private classifier of figure 2, on 569 records of breast cancer, errs more often than the
rule that gives everybody the more frequent label. GOP and PSGD are a little better than a random classifier there, and
local aggregation hardly is. So that figure says next to nothing about the methods. The page says what a useful curve
would need.

Nothing here is a protocol: one process sees all records, without encryption. The arithmetic of a round is the
protocol's own: the same sums of gradients, the same steps, and the same noise on the same grid. Many runs are computed
at once, as columns of a matrix.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache
from itertools import combinations, pairwise, product
from pathlib import Path
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
from masquerade_core.privacy.noise.objective_perturbation import compute_slack, noise_sigma, sigma_share, sigma_star
from masquerade_core.privacy.noise.output_perturbation import paper_beta, paper_scale
from masquerade_core.privacy.samplers.discrete_laplace import discrete_laplace
from masquerade_core.privacy.samplers.l2_laplace import l2_laplace
from masquerade_core.privacy.samplers.rounded_gaussian import gaussian
from masquerade_core.rng import Rng
from masquerade_core.simulation_rng import SimulationRng
from masquerade_core.study import Feature, Study
from masquerade_lab.baselines.gop import gop_minimiser, gop_noise
from masquerade_lab.reproduce.engine.judging import judged, reference
from masquerade_lab.reproduce.engine.report import Measured, Panel, Report, Row, Series, mean_and_error, measured
from masquerade_lab.reproduce.engine.tasks import RunTasks, Task, gathered
from masquerade_protocols.blocks import objective_theorems as theorems
from masquerade_protocols.local_aggregation.public import FRACTION_BITS as AGGREGATION_BITS
from masquerade_protocols.psgd.schedule import FRACTION_BITS as GRADIENT_BITS
from masquerade_protocols.psgd.schedule import Schedule, psgd

__all__ = [
    "DELTA",
    "FIGURE_1",
    "FIGURE_2",
    "FOLDS",
    "D",
    "FigurePlan",
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
    "figure_1",
    "figure_2",
    "gradient",
    "load",
    "output_noise",
    "printed_root",
    "study_of",
    "tau_of",
]

D = 10
DELTA = 0.05
FOLDS = 5
_SHARES = 30  # divided evenly among 5, 10 or 15 parties, so that all K have the same sum of eta

_Array = NDArray[np.float64]
_UNIT = Fraction(1 << GRADIENT_BITS)

_Errors = dict[str, _Array]
"""By a quantity's name, the error rate on the test records of each draw; of all data sets, it has shape (S, R).

Each draw of noise is followed, after all others, by its mirror image, which has the same law: all laws here are
symmetric. A classifier that is noise alone errs on exactly half together with its mirror image, so pairs of them
scatter a tenth as much as single draws.
"""

Source = Literal["simulated", "breast cancer"]
"""Figure 1's records, or figure 2's."""

# --- Data -----------------------------------------------------------------------------


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


# --- Runs: the noise ------------------------------------------------------------------


def printed_root(d: int, epsilon: float | Fraction, delta: float) -> float:
    """Return the only positive sigma of Procedure 3 as printed: Pr(U <= (sigma eps~ - 2)^2 / (4 sigma^2)) = 1 - delta.

    With q^2 the quantile, sigma eps~ - 2 = -2 q sigma, so sigma = 2/(eps~ + 2q): hardly any noise. For the intended
    equation, and for what follows from it, see :func:`masquerade_core.privacy.noise.objective_perturbation.sigma_star`.
    """
    return 2 / (float(epsilon) + 2 * math.sqrt(float(chdtri(d, delta))))


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


# --- Runs: PSGD ----------------------------------------------------------------------


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


# --- Runs: local aggregation ----------------------------------------------------------


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


# --- Runs: one data set, many draws ---------------------------------------------------


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


# --- Runs: the theorems, measured -----------------------------------------------------

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


# --- The figures as data --------------------------------------------------------------

_PAPER = (0.1, 0.2)
"""The epsilons of the paper's panels, left and right."""
_LOW, _EPS = _PAPER
_ALL = (*_PAPER, 1.0)
_CURVE = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
_PARTIES = (5, 10, 15)
_AGGREGATION_DRAWS = 5  # times as many as for the others, since a draw costs next to nothing

_SKEW_2, _SKEW_3 = (0.1, 0.2, 0.2, 0.25, 0.25), (0.01, 0.29, 0.2, 0.25, 0.25)
_EVEN = "even, K = 5"
_DIGITS = 0.005
_MAJORITY_BAND = (0.372, 0.374)

# Figure 1's tables.
_SIGMA = "B1: sigma* at d = 10, delta = 0.05"
_GOP = "B2: GOP"
_PSGD = "B3: PSGD at eps = {}"
_BESIDE = "B3: PSGD minus GOP under the same sum of eta, eps = {}"
_RHO = "B3: what the noise rho alone adds to the error without privacy, eps = 0.2"
_LA = "B4: local aggregation, density exp(-n_(1) lambda eps/2 |x|_2), eps = 1"
_RANDOM = "Local aggregation minus PSGD, eps = {}, records dealt at random"
_OPEN = "What the paper leaves open, eps = 0.2: lambda and T"
_NOISE = {
    "la": "Local aggregation at eps = {} with Pathak's noise",
    "la / K": "The same at eps = {}, noise divided by K: the average's own sensitivity",
}

_NONE, _HALF, _CHANCE, _ROOT = (
    "no noise",
    "half of the noise",
    "a random classifier",
    "sigma* from the printed equation",
)
_MEAN_SIZE = "N/K for n_(1)"
_PSGD_MISTAKES = {
    "no sqrt K": "eta^k of variance sigma*^2, not sigma*^2/K",
    "no eta": "no eta",
    "fresh eta": "a fresh eta in every round",
    "printed root": _ROOT,
    "no rho": "no rho",
}

# Figure 2's tables.
_MAJORITY = "The rule that gives everybody the more frequent label"
_AT = "Errors at eps = {}"
_AGGREGATION = "Errors of local aggregation at eps = {}"
_DIVIDED = "Local aggregation, noise / K, the average's own sensitivity"
_LAMBDAS = "What the paper leaves open: lambda"

_KS = tuple(f"K = {K}" for K in _PARTIES)
_PAIRS = tuple(f"K = {b} minus {a}" for a, b in combinations(_PARTIES, 2))
_OTHER_NOISE = tuple(f"local aggregation, {mistake}" for mistake in (_HALF, "noise / K", _MEAN_SIZE))


@dataclass(frozen=True)
class FigurePlan:
    """The records, the methods' settings and the words of one figure.

    Parameters
    ----------
    figure : str
    source : Source
        Where the records are from.
    unit : str
        The name of one data set, as tasks and settings have it.
    sets : int
        How many data sets or folds.
    Lambda : float
    other_lambdas : tuple of float
        GOP is run with these too.
    epsilons : tuple of float
        Of PSGD and of the panels; rising.
    rounds : tuple of int
        The values of T, rising. Only the last is in the panels.
    broken : tuple of float
        The epsilons at which PSGD has all of its broken variants, and every T.
    splits : mapping of str to tuple of float
        How large the parties are, by name.
    skews : tuple of str
        The splits that the panels have, for skew vectors 1, 2 and 3.
    gop, printed : (str, tuple of float)
        For GOP with noise of its own, and with the printed equation's sigma*: a result's name, which gives the noise,
        and the epsilons.
    notes : tuple of str
    parties : tuple of int
        The values of K, rising.
    unseen : mapping of str to set of (str, str)
        By table, the quantities and the mistakes that they cannot show: too little noise, or too few draws.
    """

    figure: str
    source: Source
    unit: str
    sets: int
    Lambda: float
    other_lambdas: tuple[float, ...]
    epsilons: tuple[float, ...]
    rounds: tuple[int, ...]
    broken: tuple[float, ...]
    splits: Mapping[str, tuple[float, ...]]
    skews: tuple[str, str, str]
    gop: tuple[str, tuple[float, ...]]
    printed: tuple[str, tuple[float, ...]]
    notes: tuple[str, ...]
    parties: tuple[int, ...] = _PARTIES
    unseen: Mapping[str, frozenset[tuple[str, str]]] = field(default_factory=dict)

    @property
    def dealt(self) -> dict[str, str]:
        """The names of local aggregation's splits in rows, by their names in results; the random ones come first."""
        return {f"random {K}": f"random, K = {K}" for K in self.parties} | {name: name for name in self.splits}

    def psgd(self, eps: float, K: int, variant: str = "psgd") -> str:
        """Return the name of PSGD's result after the last round."""
        return f"{variant} {eps} {K} {self.rounds[-1]}"

    @property
    def quiet(self) -> str:
        """The name of the result without privacy."""
        return f"no privacy, {self.Lambda}"


FIGURE_1 = FigurePlan(
    figure="1",
    source="simulated",
    unit="data set",
    sets=5,
    Lambda=0.1,
    other_lambdas=(0.01, 0.001),
    epsilons=_PAPER,
    rounds=(10, 100, 300),
    broken=(_EPS,),
    splits={_EVEN: (1 / 5,) * 5, "skew 2": _SKEW_2, "even, K = 15": (1 / 15,) * 15, "skew 3": _SKEW_3},
    skews=(_EVEN, "skew 2", "skew 3"),
    gop=("gop lambda = {Lambda}", (_EPS,)),
    printed=("gop, printed root, {eps}", _PAPER),
    notes=(
        (
            "Rounds are computed without encryption, many draws at a time. Sums of gradients, steps, the minimiser and "
            "the samplers of the noise are those of the protocols. The tests show that rounds under encryption equal "
            "these to 1e-6."
        ),
        "The noise comes from a seed and the records from a generator: nothing here is a private release.",
        (
            "Numbers are error rates on 1,000 test records, averaged over five data sets and all draws, each with its "
            "mirror image; the standard error is that of the data sets' means. Every K has the same sum of eta, and "
            "the same rho for the parties that it shares with a larger K."
        ),
    ),
    unseen={
        _PSGD.format(_EPS): frozenset(product(_KS, ["no rho"])),
        _BESIDE.format(_LOW): frozenset(product(_PAIRS, [_NONE, _HALF])),
        _BESIDE.format(_EPS): frozenset((*product(_KS, ["no rho"]), *product(_PAIRS, [_NONE, _HALF, "no rho"]))),
        _LA: frozenset({("skew 2 minus even, K = 5", _HALF)}),
        **{
            _RANDOM.format(eps): frozenset(((_KS[0], _OTHER_NOISE[0]), *product(_KS[1:], _OTHER_NOISE)))
            for eps in _PAPER
        },
        _OPEN: frozenset({("PSGD minus GOP, K = 5, T = 100", "T = 300")}),
    },
)
"""Objective perturbation against local aggregation on the paper's simulated data."""

FIGURE_2 = FigurePlan(
    figure="2",
    source="breast cancer",
    unit="fold",
    sets=FOLDS,
    Lambda=0.01,  # the demonstration's own for these records
    other_lambdas=(0.1, 0.001),
    epsilons=_ALL,
    rounds=(300,),
    broken=(),
    splits={"skew 1": (1 / 5,) * 5, "skew 2": _SKEW_2, "skew 3": _SKEW_3},
    skews=("skew 1", "skew 2", "skew 3"),
    gop=("gop {eps}, {Lambda}", _CURVE),
    printed=("printed {eps}", _CURVE),
    notes=(
        (
            "The records are scikit-learn's copy of the Wisconsin diagnostic set: 569 records of 30 columns, 357 of "
            "them with the more frequent label. Five folds: each fifth is the test set once. Each column goes from "
            "public bounds to [-1, 1], and each row is clipped to norm 1. There is no bias."
        ),
        (
            "Everything is computed without encryption. The noise comes from a seed and from the protocols' samplers: "
            "nothing here is a private release."
        ),
        (
            "Every method is run with each draw of the noise and with its mirror image. The folds are always the same, "
            "so a standard error counts the noise alone. The bands are those of another program of a few lines."
        ),
        (
            "A useful curve at eps = .1 and .2 would need noise as small as the printed equation's sigma*, which is "
            "not private, or many more records than 455: the noise's part in the objective falls as 1/(N eps)."
        ),
    ),
)
"""The same methods on 569 records of breast cancer: a null result."""


def figure_1(draws: int, seed: int, run_tasks: RunTasks, _data: Path | None = None) -> Report:
    """Return figure 1's tables and panels.

    Parameters
    ----------
    draws : int
        How many draws of the noise, for each of five data sets; five times as many for local aggregation.
    seed : int
    run_tasks : callable
    """
    plan, errors = FIGURE_1, _found(FIGURE_1, draws, seed, run_tasks)
    rows = (
        *_sigma_rows(plan),
        *_central_rows(plan, errors),
        *_gradient_rows(plan, errors),
        *_aggregation_rows(plan, errors),
        *_open_rows(plan, errors),
    )
    arguments = (draws, plan.Lambda, _EPS, plan.parties[0], plan.rounds[-1])
    bounded = [
        Task(f"{plan.unit} {number}, theorems", excesses, (seed, number, *arguments), 4.0)
        for number in range(plan.sets)
    ]
    bounds = compared(run_tasks(bounded), plan.Lambda, _EPS, plan.parties[0])
    return _report(plan, draws, seed, rows, _panels(plan, errors), bounds)


def figure_2(draws: int, seed: int, run_tasks: RunTasks, _data: Path | None = None) -> Report:
    """Return figure 2's tables and panels.

    Parameters
    ----------
    draws : int
        How many draws of the noise, for each of five folds; five times as many for local aggregation.
    seed : int
        It gives the noise. The folds are always the same.
    run_tasks : callable
    """
    plan, errors = FIGURE_2, _found(FIGURE_2, draws, seed, run_tasks)
    errors["majority"] = np.array([[_majority_error(number)] for number in range(plan.sets)])
    panels = (*_panels(plan, errors), _panel_by_epsilon(plan, errors))
    return _report(plan, draws, seed, tuple(_null_rows(plan, errors)), panels)


def _found(plan: FigurePlan, draws: int, seed: int, run_tasks: RunTasks) -> _Errors:
    """Run all methods on all data sets, and return their errors, of shape (S, R)."""
    (gop, gop_at), (printed, printed_at) = plan.gop, plan.printed
    lambdas = (plan.Lambda, *plan.other_lambdas)
    wanted = {gop.format(eps=eps, Lambda=Lambda): (eps, Lambda) for Lambda in lambdas for eps in gop_at}
    printed_roots = {printed.format(eps=eps): (eps, plan.Lambda) for eps in printed_at}
    tasks = []
    for number in range(plan.sets):
        name, where = f"{plan.unit} {number}", (plan.source, seed, number, draws)
        for eps in plan.epsilons:
            broken = eps in plan.broken
            rest = (plan.Lambda, eps, plan.parties, plan.rounds if broken else plan.rounds[-1:], broken)
            tasks.append(Task(f"{name}, PSGD, eps = {eps}", gradient, (*where, *rest), 10.0 + broken))
        dealt = (draws * _AGGREGATION_DRAWS, plan.Lambda, _ALL, plan.splits, plan.parties)
        tasks.append(Task(f"{name}, local aggregation", aggregated, (*where, *dealt), 3.0))
        tasks.append(Task(f"{name}, GOP", central, (*where, wanted, printed_roots), 1.5))
    return gathered(run_tasks(tasks))


def _report(
    plan: FigurePlan,
    draws: int,
    seed: int,
    rows: Sequence[Row],
    panels: Sequence[Panel],
    bounds: Sequence[Measured] = (),
) -> Report:
    N, d = load(plan.source, seed, 0)[0].X.shape
    settings = {
        f"{plan.unit}s".replace(" ", "_"): plan.sets,
        "records": N,
        "d": d,
        "draws": draws,
        "local_aggregation_draws": draws * _AGGREGATION_DRAWS,
        "lambda": plan.Lambda,
        "delta": DELTA,
        "rounds": plan.rounds[-1],
        "seed": seed,
    }
    return Report("rajkumar-2012", plan.figure, plan.notes, settings, rows, panels, bounds)


# --- Figure 1's tables ----------------------------------------------------------------


def _sigma_rows(plan: FigurePlan) -> list[Row]:
    rows, N = [], len(load(plan.source, 0, 0)[0].y)
    for eps, without, with_slack in ((0.1, 85.81, 90.30), (0.2, 43.02, 44.11)):
        slack = compute_slack(eps, plan.Lambda, N, LOGISTIC.c)
        for epsilon, sought, note in (
            (Fraction(str(eps)), without, "without computeSlack"),
            (slack.epsilon, with_slack, f"eps~ = {float(slack.epsilon):.4f}"),
        ):
            value = float(noise_sigma(D, epsilon, DELTA))
            rows.append(Row(_SIGMA, f"eps = {eps}", value, None, *_digits(sought), note=note))
        root = printed_root(D, slack.epsilon, DELTA)
        rows.append(Row(_SIGMA, f"eps = {eps}: {_ROOT}", root, None, *_digits(with_slack), broken=True))
    return rows


def _digits(sought: float) -> tuple[float, float]:
    return round(sought - _DIGITS, 4), round(sought + _DIGITS, 4)


def _told(
    plan: FigurePlan, table: str, name: str, of: str, values: _Array, mistakes: Mapping[str, _Array]
) -> list[Row]:
    """Return a quantity's row with its band, and a row for each mistake."""
    hidden = {mistake for quantity, mistake in plan.unseen.get(table, ()) if quantity == name}
    expected = reference(f"rajkumar-2012 {plan.figure}", of)
    return judged(table, name, values, expected, mistakes, hidden=hidden)


def _central_rows(plan: FigurePlan, errors: _Errors) -> list[Row]:
    rows = []
    for eps in plan.epsilons:
        gop = errors[f"gop, same eta, {eps}"]
        mistakes = {
            _NONE: errors[plan.quiet],
            _HALF: errors[f"half gop, same eta, {eps}"],
            _ROOT: errors[f"gop, printed root, {eps}"],
            "local aggregation in its place": errors[f"la {eps} {_EVEN}"],
            _CHANCE: np.full_like(gop, 0.5),
        }
        rows += _told(plan, _GOP, f"eps = {eps}", f"GOP, eps = {eps}", gop, mistakes)
    return rows


def _gradient_rows(plan: FigurePlan, errors: _Errors) -> list[Row]:
    last = plan.rounds[-1]
    rows, quiet = [], errors[plan.quiet]
    for eps in plan.epsilons:
        gop = errors[f"gop, same eta, {eps}"]
        of = {K: errors[plan.psgd(eps, K)] for K in plan.parties}
        wrong = {K: {_NONE: quiet, _HALF: errors[plan.psgd(eps, K, "half psgd")]} for K in plan.parties}
        for variant, mistake in _PSGD_MISTAKES.items():
            for K in plan.parties:
                if plan.psgd(eps, K, variant) in errors:
                    wrong[K][mistake] = errors[plan.psgd(eps, K, variant)]
        for K in plan.parties:
            others = {
                "local aggregation in its place": errors[f"la {eps} random {K}"],
                _CHANCE: np.full_like(gop, 0.5),
            }
            name = f"PSGD, K = {K}, T = {last}, eps = {eps}"
            rows += _told(plan, _PSGD.format(eps), f"K = {K}", name, of[K], wrong[K] | others)
        for K in plan.parties:
            mistakes = {mistake: values - gop for mistake, values in wrong[K].items()}
            name = f"PSGD minus GOP, K = {K}, T = {last}, eps = {eps}"
            rows += _told(plan, _BESIDE.format(eps), f"K = {K}", name, of[K] - gop, mistakes)
        for a, b in combinations(plan.parties, 2):
            mistakes = {mistake: wrong[b][mistake] - wrong[a][mistake] for mistake in wrong[a]}
            name = f"PSGD, K = {b} minus {a}, eps = {eps}"
            rows += _told(plan, _BESIDE.format(eps), f"K = {b} minus {a}", name, of[b] - of[a], mistakes)
    for K in plan.parties:
        added = {part: errors[plan.psgd(_EPS, K, part)] - quiet for part in ("no eta", "half of rho")}
        mistakes = {"no rho": 0 * quiet, "half of rho": added["half of rho"]}
        name = f"rho alone, K = {K}, T = {last}, eps = {_EPS}"
        rows += _told(plan, _RHO, f"K = {K}", name, added["no eta"], mistakes)
    return rows


def _aggregation(errors: _Errors, split: str, eps: float) -> dict[str, _Array]:
    """Return local aggregation with Pathak's noise on a split, as "", and its mistakes."""
    key = f"la {eps} {split}"
    found = {"": errors[key], _NONE: errors[f"quiet la {split}"], _HALF: errors[f"half {key}"]}
    found["noise / K"] = errors[f"la / K {eps} {split}"]
    if not split.startswith("even"):
        found[_MEAN_SIZE] = errors[f"n/K {key}"]
    return found


def _aggregation_rows(plan: FigurePlan, errors: _Errors) -> list[Row]:
    rows, at = [], {split: _aggregation(errors, split, 1.0) for split in plan.splits}
    for split, variants in at.items():
        mistakes = {mistake: values for mistake, values in variants.items() if mistake}
        if split == _EVEN:
            mistakes["Laplace noise per coordinate"] = errors["la, laplace"]
        mistakes[_CHANCE] = np.full_like(variants[""], 0.5)
        rows += _told(plan, _LA, split, f"LA, {split}, eps = 1.0", variants[""], mistakes)
    for below, above in pairwise(plan.splits):
        low, high = at[below], at[above]
        mistakes = {mistake: values - low.get(mistake, low[""]) for mistake, values in high.items() if mistake}
        name = f"{above} minus {below}"
        rows += _told(plan, _LA, name, f"LA, {name}, eps = 1.0", high[""] - low[""], mistakes)
    for eps in plan.epsilons:
        for K in plan.parties:
            variants, psgd = _aggregation(errors, f"random {K}", eps), errors[plan.psgd(eps, K)]
            of_sets = {mistake: each.mean(axis=1, keepdims=True) for mistake, each in variants.items() if mistake}
            mistakes = {f"local aggregation, {mistake}": each - psgd for mistake, each in of_sets.items()}
            mistakes["PSGD, no noise"] = variants[""] - errors[plan.quiet]
            mistakes["PSGD, half of the noise"] = variants[""] - errors[plan.psgd(eps, K, "half psgd")]
            difference = variants[""] - psgd
            rows += _told(
                plan, _RANDOM.format(eps), f"K = {K}", f"LA minus PSGD, K = {K}, eps = {eps}", difference, mistakes
            )
    return rows


def _open_rows(plan: FigurePlan, errors: _Errors) -> list[Row]:
    gop, quiet = errors[f"gop, same eta, {_EPS}"], errors[plan.quiet]
    rows = _told(
        plan, _OPEN, "no privacy", "no privacy", quiet, {_CHANCE: np.full_like(quiet, 0.5), "GOP in its place": gop}
    )
    for Lambda in plan.other_lambdas:
        mistakes = {_NONE: errors[f"no privacy, {Lambda}"], f"lambda = {plan.Lambda}": gop}
        name = f"GOP, lambda = {Lambda}"
        rows += _told(plan, _OPEN, name, f"{name}, eps = {_EPS}", errors[plan.gop[0].format(Lambda=Lambda)], mistakes)
    for T in plan.rounds[:-1]:
        name, found = f"PSGD minus GOP, K = 5, T = {T}", errors[f"psgd {_EPS} 5 {T}"] - gop
        mistakes = {_NONE: quiet - gop, f"T = {plan.rounds[-1]}": errors[plan.psgd(_EPS, 5)] - gop}
        rows += _told(plan, _OPEN, name, f"{name}, eps = {_EPS}", found, mistakes)
    for eps in plan.epsilons[::-1]:
        for key, table in _NOISE.items():
            for split, shown in plan.dealt.items():
                name, values = f"{key.replace('la', 'LA')}, {shown}, eps = {eps}", errors[f"{key} {eps} {split}"]
                mistakes = {_NONE: errors[f"quiet la {split}"], _HALF: errors[f"half {key} {eps} {split}"]}
                other, of = ("noise / K", "la / K") if key == "la" else ("noise not divided", "la")
                mistakes |= {other: errors[f"{of} {eps} {split}"], _CHANCE: np.full_like(values, 0.5)}
                rows += _told(plan, table.format(eps), shown, name, values, mistakes)
    return rows


# --- Figure 2's tables ----------------------------------------------------------------


def _majority_error(number: int) -> float:
    """Return the error of the training records' more frequent label on a fold's test records."""
    records, test = load("breast cancer", 0, number)
    everybody = np.ones((len(test.y), 1))
    return error_rate(everybody, test.y, np.array([1.0 if records.y.mean() > 0 else -1.0]))


def _null_rows(plan: FigurePlan, errors: _Errors) -> Iterator[Row]:
    yield Row(_MAJORITY, "its error", float(errors["majority"].mean()), None, *_MAJORITY_BAND)
    for eps in plan.epsilons:
        yield from _banded(plan, errors, eps)
    shown = {
        (_AGGREGATION.format(eps), name): f"la {eps} {split}"
        for eps in plan.epsilons
        for split, name in plan.dealt.items()
    }
    shown |= {
        (_DIVIDED, f"eps = {eps}, {name}"): f"la / K {eps} {split}"
        for eps in plan.epsilons
        for split, name in plan.dealt.items()
    }
    for Lambda in (plan.Lambda, *plan.other_lambdas):
        shown[_LAMBDAS, f"no privacy, lambda = {Lambda}"] = f"no privacy, {Lambda}"
        for eps in plan.epsilons:
            shown[_LAMBDAS, f"GOP, lambda = {Lambda}, eps = {eps}"] = plan.gop[0].format(eps=eps, Lambda=Lambda)
    for (table, name), key in shown.items():
        yield Row(table, name, *mean_and_error(errors[key]))


def _banded(plan: FigurePlan, errors: _Errors, eps: float) -> Iterator[Row]:
    """Yield GOP and PSGD at an epsilon, beside what broken programs give."""
    keys = {"GOP": f"gop, same eta, {eps}"} | {f"PSGD, K = {K}": plan.psgd(eps, K) for K in plan.parties}
    quiet, majority = (float(errors[name].mean()) for name in (plan.quiet, "majority"))
    for name, key in keys.items():
        values = _pairs(errors[key])
        broken = {
            _NONE: np.full_like(values, quiet),
            _HALF: _pairs(errors[f"half {key}"]),
            _CHANCE: np.full_like(values, 0.5),
            "the more frequent label": np.full_like(values, majority),
        }
        if name == "GOP" and eps in _PAPER:
            broken["sigma* of the printed equation"] = _pairs(errors[plan.printed[0].format(eps=eps)])
        yield from _told(plan, _AT.format(eps), name, f"{name}, eps = {eps}", values, broken)


def _pairs(errors: _Array) -> _Array:
    """Return the mean over the folds, which are fixed, and over each draw and its mirror image; shape (draws, 1)."""
    return np.asarray(errors.reshape(len(errors), 2, -1).mean(axis=(0, 1))[:, None])


# --- Pictures -------------------------------------------------------------------------

_Y_LABEL = "test error"


def _panels(plan: FigurePlan, errors: _Errors) -> tuple[Panel, ...]:
    """Return the paper's panels: K above, the skew below, each for one epsilon after the other."""
    levels = (("majority", float(errors["majority"].mean())),) if "majority" in errors else ()
    above = tuple(
        Panel(f"Number of parties, eps = {eps}", "K", _Y_LABEL, _curves(plan, errors, eps, by_K=True), reference=levels)
        for eps in plan.epsilons
    )
    below = tuple(
        Panel(
            f"Relative sizes, K = 5, eps = {eps}",
            "skew vector",
            _Y_LABEL,
            _curves(plan, errors, eps, by_K=False),
            reference=levels,
        )
        for eps in plan.epsilons
    )
    return above + below


def _curves(plan: FigurePlan, errors: _Errors, eps: float, *, by_K: bool) -> tuple[Series, ...]:
    """Return the four curves of a panel. Neither GOP nor PSGD sees how uneven the parties are."""
    xs = plan.parties if by_K else (1, 2, 3)
    splits = [f"random {K}" for K in plan.parties] if by_K else plan.skews
    keys = {
        "GOP": [f"gop, same eta, {eps}"] * len(xs),
        "PSGD": [plan.psgd(eps, x if by_K else plan.parties[0]) for x in xs],
        "local aggregation": [f"la {eps} {split}" for split in splits],
        "local aggregation, noise / K": [f"la / K {eps} {split}" for split in splits],
    }
    return tuple(Series.of(shown, xs, [errors[key] for key in wanted]) for shown, wanted in keys.items())


def _panel_by_epsilon(plan: FigurePlan, errors: _Errors) -> Panel:
    """Return GOP by epsilon, with the noise that is private and with the printed equation's."""
    (gop, at), (printed, _) = plan.gop, plan.printed
    curves = (
        Series.of("GOP", at, [errors[gop.format(eps=eps, Lambda=plan.Lambda)] for eps in at]),
        Series.of("GOP, printed sigma*: not private", at, [errors[printed.format(eps=eps)] for eps in at]),
    )
    levels = (("majority", float(errors["majority"].mean())),)
    return Panel("GOP by epsilon", "eps", _Y_LABEL, curves, x_scale="log", reference=levels)
