"""Rajkumar and Agarwal 2012, figure 1: objective perturbation against local aggregation, on their simulated data.

The figure has no numbers, and the text does not give lambda, T, the steps and the noise of local aggregation. The bands
come from an independent implementation in floating point, on other data sets that were drawn in the same way.
``docs/reproduction/rajkumar-2012.md`` compares them with what the paper published.
"""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from itertools import combinations, pairwise

import numpy as np
from numpy.typing import NDArray

from masquerade.datasets import random_split, unit_ball
from masquerade.reproduce.bands import Report, Row, mean_and_error
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
from masquerade_core.privacy.noise.objective_perturbation import compute_slack, noise_sigma
from masquerade_core.rng import SimulationRng
from masquerade_protocols.baselines.gop import gop_minimiser, gop_noise
from masquerade_protocols.psgd.schedule import psgd

__all__ = ["figure_1"]

_SETS = 5
_N = 1000
_LAMBDA = 0.1
_OTHER_LAMBDAS = (0.01, 0.001)
_EPS = 0.2
_PARTIES = (5, 10, 15)
_ROUNDS = (10, 100, 300)
_AGGREGATION_DRAWS = 5  # times as many as for the others, since a draw costs next to nothing

_SKEW = {2: (0.1, 0.2, 0.2, 0.25, 0.25), 3: (0.01, 0.29, 0.2, 0.25, 0.25)}
_SPLITS = {
    "even, K = 5": (1 / 5,) * 5,
    "skew 2": _SKEW[2],
    "even, K = 15": (1 / 15,) * 15,
    "skew 3": _SKEW[3],
}
_AGGREGATION_BANDS = {
    "even, K = 5": (0.247, 0.015),
    "skew 2": (0.351, 0.02),
    "even, K = 15": (0.399, 0.02),
    "skew 3": (0.485, 0.02),
}
"""In rising order."""

_GOP_BANDS = {0.1: (0.376, 0.035), 0.2: (0.274, 0.03)}
_CLOSE = 0.012
_MARGIN = 0.15
_DIGITS = 0.005

_SIGMA = "B1: sigma* at d = 10, delta = 0.05"
_GOP = "B2: GOP"
_PSGD = "B3: PSGD minus GOP under the same sum of eta, eps = 0.2"
_LA = "B4: local aggregation, density exp(-n_(1) lambda eps/2 |x|_2), eps = 1"
_RANDOM = "Local aggregation minus PSGD, eps = 0.2, records dealt at random"
_BROKEN = "Broken variants must miss: sigma*, GOP, local aggregation"
_BROKEN_PSGD = {
    "no sqrt K": "Broken PSGD minus GOP: eta^k of variance sigma*^2, not sigma*^2/K",
    "no eta": "Broken PSGD minus GOP: no eta",
    "fresh eta": "Broken PSGD minus GOP: a fresh eta in every round",
    "printed root": "Broken PSGD minus GOP: sigma* from the printed equation",
}
_OPEN = "What the paper leaves open, eps = 0.2: lambda and T"
_NOISE = {
    "la": "Local aggregation at eps = 0.2 with Pathak's noise",
    "la / K": "The same, noise divided by K: the average's own sensitivity",
}

_CLEAR = (
    "Rounds are computed without encryption, many draws at a time. Sums of gradients, steps, the minimiser and the "
    "samplers of the noise are those of the protocols. The tests show that rounds under encryption equal these to 1e-6."
)
_SEEDED = "The noise comes from a seed and the records from a generator: nothing here is a private release."
_MEANING = (
    "Numbers are error rates on 1,000 test records, averaged over five data sets and all draws; the standard error is "
    "that of the data sets' means. Every K has the same sum of eta, and the same rho for the parties that it shares "
    "with a larger K."
)

_Array = NDArray[np.float64]
_Errors = dict[str, _Array]
"""By a figure's name, the error rate of each data set and draw, shape (S, R)."""


def figure_1(draws: int, seed: int, progress: Callable[[int, int], None]) -> Report:
    """Return figure 1's tables.

    Parameters
    ----------
    draws : int
        How many draws of the noise, for each of five data sets; five times as many for local aggregation.
    seed : int
    progress : callable
        (done, of).
    """
    collected: defaultdict[str, list[_Array]] = defaultdict(list)
    steps = _SETS * (draws + 1)
    done = 0

    def advance() -> None:
        nonlocal done
        done += 1
        progress(done, steps)

    for number in range(_SETS):
        records, test = unit_ball(number, _N, D, seed=seed)
        label = f"rajkumar-2012 {seed} {number}"
        for found in (
            _central(records, label, draws),
            _gradient(records, label, draws, advance),
            _aggregated(records, label, draws, (seed, number)),
        ):
            for name, classifiers in found.items():
                collected[name].append(np.array([error_rate(test.X, test.y, w) for w in classifiers]))
        advance()
    errors = {name: np.array(values) for name, values in collected.items()}
    return Report(
        "rajkumar-2012",
        "1",
        (_CLEAR, _SEEDED, _MEANING),
        {
            "data_sets": _SETS,
            "records": _N,
            "d": D,
            "draws": draws,
            "local_aggregation_draws": draws * _AGGREGATION_DRAWS,
            "lambda": _LAMBDA,
            "delta": DELTA,
            "rounds": _ROUNDS[-1],
            "seed": seed,
        },
        (
            *_sigma_rows(),
            *_central_rows(errors),
            *_gradient_rows(errors),
            *_aggregation_rows(errors),
            *_broken_rows(errors),
            *_open_rows(errors),
        ),
    )


# --- The classifiers, for one data set ----------------------------------------------


def _central(records: Dataset, label: str, draws: int) -> dict[str, list[_Array]]:
    """Compute GOP at both epsilons, with the printed root and with other lambdas, and one classifier without noise."""
    found = {"no privacy": [fit(records.X, records.y, _LAMBDA)]}
    wanted = [(f"gop {eps}", eps, _LAMBDA) for eps in _GOP_BANDS]
    wanted += [(f"gop lambda = {Lambda}", _EPS, Lambda) for Lambda in _OTHER_LAMBDAS]
    for name, eps, Lambda in wanted:
        study, rng = study_of(eps, Lambda), SimulationRng(label, name)
        found[name] = [gop_minimiser(study, records, gop_noise(rng, study, _N)) for _ in range(draws)]
    study = study_of(_EPS, _LAMBDA)
    etas = draw_eta(f"{label} gop, printed root", _printed(), draws)
    found["gop, printed root"] = [gop_minimiser(study, records, eta) for eta in etas]
    return found


def _printed() -> Fraction:
    slack = compute_slack(_EPS, _LAMBDA, _N, LOGISTIC.c)
    return Fraction(printed_root(D, slack.epsilon, DELTA))


def _gradient(records: Dataset, label: str, draws: int, drawn: Callable[[], None]) -> dict[str, _Array]:
    """Compute PSGD and its broken variants for all K, and GOP under the same sum of eta."""
    study = study_of(_EPS, _LAMBDA)
    schedule = psgd(study, _N)
    eta = draw_eta(label, schedule.sigma, draws)
    rho = draw_rho(label, schedule, _ROUNDS[-1], draws, _PARTIES, drawn)
    fresh = draw_fresh(label, schedule.sigma, _ROUNDS[-1], draws)
    K_wide = np.sqrt(_PARTIES)[:, None, None]
    variants = {
        "psgd": eta,
        "no sqrt K": K_wide * eta,  # distributed as the sum of K independent eta^k of variance sigma*^2
        "no eta": np.zeros_like(eta),
        "fresh eta": np.zeros_like(eta),
        "printed root": draw_eta(f"{label} printed root", _printed(), draws),
    }
    shape = (len(variants), len(_PARTIES), draws, D)
    still = np.stack([np.broadcast_to(values, shape[1:]) for values in variants.values()])
    where = list(variants).index("fresh eta")

    def noise(t: int) -> _Array:
        now = still + rho[t]
        now[where] += fresh[t]
        return np.reshape(now, (-1, D))

    found = {"gop, same eta": np.array([gop_minimiser(study, records, values) for values in eta])}
    for T, iterates in zip(_ROUNDS, descend(records, study, schedule, noise, _ROUNDS), strict=True):
        for variant, by_K in zip(variants, iterates.reshape(shape), strict=True):
            found |= {f"{variant} {K} {T}": w for K, w in zip(_PARTIES, by_K, strict=True)}
    return found


def _aggregated(records: Dataset, label: str, draws: int, seed: tuple[int, int]) -> dict[str, list[_Array]]:
    """Compute local aggregation at eps = 1 for the bands, at the paper's eps = 0.2, and with random splits."""
    many = draws * _AGGREGATION_DRAWS
    wanted: dict[str, Split] = {"la, laplace": Split(_SPLITS["even, K = 5"], 1.0, "laplace")}
    for name, parts in _SPLITS.items():
        wanted |= {
            f"la {name}": Split(parts, 1.0),
            f"la 0.2 {name}": Split(parts, _EPS),
            f"la / K 0.2 {name}": Split(parts, _EPS, divided=True),
        }
    found = {name: list(aggregates(records, split, _LAMBDA, label, many)) for name, split in wanted.items()}
    for K in _PARTIES:
        for divided in (False, True):
            name = f"la{' / K' if divided else ''} 0.2 random {K}"
            splits = [Split(random_split(K, _N, *seed, K, draw), _EPS, divided=divided) for draw in range(draws)]
            found[name] = [aggregates(records, split, _LAMBDA, label, 1)[0] for split in splits]
    return found


# --- The tables -----------------------------------------------------------------------


def _sigma_rows() -> list[Row]:
    rows = []
    for eps, without, with_slack in ((0.1, 85.81, 90.30), (0.2, 43.02, 44.11)):
        slack = compute_slack(eps, _LAMBDA, _N, LOGISTIC.c)
        for epsilon, sought, note in (
            (Fraction(str(eps)), without, "without computeSlack"),
            (slack.epsilon, with_slack, f"eps~ = {float(slack.epsilon):.4f}"),
        ):
            value = float(noise_sigma(D, epsilon, DELTA))
            rows.append(Row(_SIGMA, f"eps = {eps}", value, None, *_band(sought, _DIGITS), note=note))
    return rows


def _central_rows(errors: _Errors) -> list[Row]:
    return [_about(_GOP, f"eps = {eps}", errors[f"gop {eps}"], *_GOP_BANDS[eps]) for eps in _GOP_BANDS]


def _band(middle: float, half: float) -> tuple[float, float]:
    return round(middle - half, 4), round(middle + half, 4)


def _about(table: str, name: str, values: _Array, middle: float, half: float, *, broken: bool = False) -> Row:
    return Row(table, name, *mean_and_error(values), *_band(middle, half), broken)


def _gradient_rows(errors: _Errors) -> list[Row]:
    gop = errors["gop, same eta"]
    psgd_of = {K: errors[f"psgd {K} {_ROUNDS[-1]}"] for K in _PARTIES}
    rows = [Row(_PSGD, "GOP itself", *mean_and_error(gop))]
    rows += [_beside(_PSGD, K, values, gop) for K, values in psgd_of.items()]
    rows += [
        _about(_PSGD, f"K = {larger} minus {smaller}", psgd_of[larger] - psgd_of[smaller], 0.0, _CLOSE)
        for smaller, larger in combinations(_PARTIES, 2)
    ]
    return rows


def _beside(table: str, K: int, values: _Array, gop: _Array, *, broken: bool = False) -> Row:
    row = _about(table, f"K = {K}", values - gop, 0.0, _CLOSE, broken=broken)
    return replace(row, note=f"PSGD {values.mean():.4f}")


def _aggregation_rows(errors: _Errors) -> list[Row]:
    rows = [_about(_LA, name, errors[f"la {name}"], *band) for name, band in _AGGREGATION_BANDS.items()]
    steps = [
        (*mean_and_error(errors[f"la {above}"] - errors[f"la {below}"]), f"{above} minus {below}")
        for below, above in pairwise(_AGGREGATION_BANDS)
    ]
    value, error, which = min(steps)
    rows.append(Row(_LA, "smallest step", value, error, 0.0, note=which))
    for K in _PARTIES:
        difference = errors[f"la 0.2 random {K}"] - errors[f"psgd {K} {_ROUNDS[-1]}"]
        rows.append(Row(_RANDOM, f"K = {K}", *mean_and_error(difference), _MARGIN))
    return rows


def _broken_rows(errors: _Errors) -> list[Row]:
    slack = compute_slack(_EPS, _LAMBDA, _N, LOGISTIC.c)
    root = printed_root(D, slack.epsilon, DELTA)
    laplace = "Laplace noise per coordinate"
    rows = [
        Row(_BROKEN, "printed equation's sigma*", root, None, *_band(44.11, _DIGITS), broken=True),
        _about(_BROKEN, "GOP with it", errors["gop, printed root"], *_GOP_BANDS[_EPS], broken=True),
        _about(_BROKEN, laplace, errors["la, laplace"], *_AGGREGATION_BANDS["even, K = 5"], broken=True),
    ]
    for variant, table in _BROKEN_PSGD.items():
        for K in _PARTIES:
            values = errors[f"{variant} {K} {_ROUNDS[-1]}"]
            rows.append(_beside(table, K, values, errors["gop, same eta"], broken=True))
    return rows


def _open_rows(errors: _Errors) -> list[Row]:
    rows = [Row(_OPEN, "no privacy", *mean_and_error(errors["no privacy"]))]
    rows += [
        Row(_OPEN, f"GOP, lambda = {Lambda}", *mean_and_error(errors[f"gop lambda = {Lambda}"]))
        for Lambda in _OTHER_LAMBDAS
    ]
    gop = errors["gop, same eta"]
    rows += [
        Row(_OPEN, f"PSGD minus GOP, K = 5, T = {T}", *mean_and_error(errors[f"psgd 5 {T}"] - gop))
        for T in _ROUNDS[:-1]
    ]
    for key, table in _NOISE.items():
        for name in (*(f"random {K}" for K in _PARTIES), *_SPLITS):
            shown = name.replace("random ", "random, K = ")
            rows.append(Row(table, shown, *mean_and_error(errors[f"{key} 0.2 {name}"])))
    return rows
