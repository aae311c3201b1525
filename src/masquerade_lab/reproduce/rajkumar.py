"""Rajkumar and Agarwal 2012, figure 1: objective perturbation against local aggregation, on their simulated data.

The figure has no numbers, and the text does not give lambda, T, the steps and the noise of local aggregation. The bands
are those of another program of a few lines, on other data sets that were drawn in the same way.
``docs/reproduction/rajkumar-2012.md`` compares them with what the paper published.
"""

from collections.abc import Mapping
from fractions import Fraction
from itertools import combinations, pairwise, product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from masquerade_core.learning.losses import LOGISTIC
from masquerade_core.privacy.noise.objective_perturbation import compute_slack, noise_sigma
from masquerade_lab.reproduce.engine.judging import judged, reference
from masquerade_lab.reproduce.engine.report import Panel, Report, Row, Series
from masquerade_lab.reproduce.engine.tasks import RunTasks, Task, gathered
from masquerade_lab.reproduce.rajkumar_runs import (
    DELTA,
    D,
    aggregated,
    central,
    compared,
    excesses,
    gradient,
    printed_root,
)

__all__ = ["figure_1"]

_SETS = 5
_N = 1000
_LAMBDA = 0.1
_OTHER_LAMBDAS = (0.01, 0.001)
_EPS = 0.2
_LOW = 0.1  # the epsilon of the figure's left panels
_EPSILONS = (_LOW, _EPS)
_PARTIES = (5, 10, 15)
_ROUNDS = (10, 100, 300)
_AGGREGATION_DRAWS = 5  # times as many as for the others, since a draw costs next to nothing

_SKEW = {2: (0.1, 0.2, 0.2, 0.25, 0.25), 3: (0.01, 0.29, 0.2, 0.25, 0.25)}
_EVEN = "even, K = 5"
_SPLITS = {
    _EVEN: (1 / 5,) * 5,
    "skew 2": _SKEW[2],
    "even, K = 15": (1 / 15,) * 15,
    "skew 3": _SKEW[3],
}
_PRINTED = {f"gop, printed root, {eps}": (eps, _LAMBDA) for eps in _EPSILONS}
_DIGITS = 0.005

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

_KS = tuple(f"K = {K}" for K in _PARTIES)
_PAIRS = tuple(f"K = {b} minus {a}" for a, b in combinations(_PARTIES, 2))
_OTHER_NOISE = tuple(f"local aggregation, {mistake}" for mistake in (_HALF, "noise / K", _MEAN_SIZE))
_UNSEEN: dict[str, frozenset[tuple[str, str]]] = {
    _PSGD.format(_EPS): frozenset(product(_KS, ["no rho"])),
    _BESIDE.format(_LOW): frozenset(product(_PAIRS, [_NONE, _HALF])),
    _BESIDE.format(_EPS): frozenset((*product(_KS, ["no rho"]), *product(_PAIRS, [_NONE, _HALF, "no rho"]))),
    _LA: frozenset({("skew 2 minus even, K = 5", _HALF)}),
    **{
        _RANDOM.format(eps): frozenset(((_KS[0], _OTHER_NOISE[0]), *product(_KS[1:], _OTHER_NOISE)))
        for eps in _EPSILONS
    },
    _OPEN: frozenset({("PSGD minus GOP, K = 5, T = 100", f"T = {_ROUNDS[-1]}")}),
}
"""By table, the quantities and the mistakes that they cannot show: too little noise, or too few draws."""

_CLEAR = (
    "Rounds are computed without encryption, many draws at a time. Sums of gradients, steps, the minimiser and the "
    "samplers of the noise are those of the protocols. The tests show that rounds under encryption equal these to 1e-6."
)
_SEEDED = "The noise comes from a seed and the records from a generator: nothing here is a private release."
_MEANING = (
    "Numbers are error rates on 1,000 test records, averaged over five data sets and all draws, each with its mirror "
    "image; the standard error is that of the data sets' means. Every K has the same sum of eta, and the same rho for "
    "the parties that it shares with a larger K."
)

_Array = NDArray[np.float64]
_Errors = dict[str, _Array]
"""By a quantity's name, the error rate of each data set and draw, shape (S, R)."""


def figure_1(draws: int, seed: int, run_tasks: RunTasks, _data: Path | None = None) -> Report:
    """Return figure 1's tables and panels.

    Parameters
    ----------
    draws : int
        How many draws of the noise, for each of five data sets; five times as many for local aggregation.
    seed : int
    run_tasks : callable
    """
    many = draws * _AGGREGATION_DRAWS
    gop = {f"gop lambda = {Lambda}": (_EPS, Lambda) for Lambda in (_LAMBDA, *_OTHER_LAMBDAS)}
    tasks = []
    for number in range(_SETS):
        for eps, rounds, broken in ((_EPS, _ROUNDS, True), (_LOW, _ROUNDS[-1:], False)):
            arguments = ("simulated", seed, number, draws, _LAMBDA, eps, _PARTIES, rounds, broken)
            tasks.append(Task(f"set {number}, PSGD, eps = {eps}", gradient, arguments, 10.0 + broken))
        aggregation = ("simulated", seed, number, draws, many, _LAMBDA, (*_EPSILONS, 1.0), _SPLITS, _PARTIES)
        tasks.append(Task(f"set {number}, local aggregation", aggregated, aggregation, 2.0))
        tasks.append(Task(f"set {number}, GOP", central, ("simulated", seed, number, draws, gop, _PRINTED)))
    errors = gathered(run_tasks(tasks))
    return Report(
        "rajkumar-2012",
        "1",
        (_CLEAR, _SEEDED, _MEANING),
        {
            "data_sets": _SETS,
            "records": _N,
            "d": D,
            "draws": draws,
            "local_aggregation_draws": many,
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
            *_open_rows(errors),
        ),
        _panels(errors),
        compared(run_tasks(_bounded(draws, seed)), _LAMBDA, _EPS, _PARTIES[0]),
    )


def _bounded(draws: int, seed: int) -> list[Task]:
    """Return the tasks that measure what the theorems bound."""
    arguments = (draws, _LAMBDA, _EPS, _PARTIES[0], _ROUNDS[-1])
    return [Task(f"set {number}, theorems", excesses, (seed, number, *arguments), 4.0) for number in range(_SETS)]


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
            rows.append(Row(_SIGMA, f"eps = {eps}", value, None, *_digits(sought), note=note))
        root = printed_root(D, slack.epsilon, DELTA)
        rows.append(Row(_SIGMA, f"eps = {eps}: {_ROOT}", root, None, *_digits(with_slack), broken=True))
    return rows


def _digits(sought: float) -> tuple[float, float]:
    return round(sought - _DIGITS, 4), round(sought + _DIGITS, 4)


def _told(table: str, name: str, of: str, values: _Array, mistakes: Mapping[str, _Array], note: str = "") -> list[Row]:
    """Return a quantity's row with its band, and a row for each mistake."""
    hidden = {mistake for quantity, mistake in _UNSEEN.get(table, ()) if quantity == name}
    return judged(
        table,
        name,
        values,
        reference("rajkumar-2012 1", of),
        {mistake: draws for mistake, draws in mistakes.items() if mistake not in hidden},
        unseen={mistake: draws for mistake, draws in mistakes.items() if mistake in hidden},
        note=note,
    )


def _central_rows(errors: _Errors) -> list[Row]:
    rows = []
    for eps in _EPSILONS:
        gop = errors[f"gop, same eta, {eps}"]
        mistakes = {
            _NONE: errors[f"no privacy, {_LAMBDA}"],
            _HALF: errors[f"half gop, same eta, {eps}"],
            _ROOT: errors[f"gop, printed root, {eps}"],
            "local aggregation in its place": errors[f"la {eps} {_EVEN}"],
            _CHANCE: np.full_like(gop, 0.5),
        }
        rows += _told(_GOP, f"eps = {eps}", f"GOP, eps = {eps}", gop, mistakes)
    return rows


def _gradient_rows(errors: _Errors) -> list[Row]:
    last = _ROUNDS[-1]
    rows, quiet = [], errors[f"no privacy, {_LAMBDA}"]
    for eps in _EPSILONS:
        gop = errors[f"gop, same eta, {eps}"]
        of = {K: errors[f"psgd {eps} {K} {last}"] for K in _PARTIES}
        wrong = {K: {_NONE: quiet, _HALF: errors[f"half psgd {eps} {K} {last}"]} for K in _PARTIES}
        for variant, mistake in _PSGD_MISTAKES.items():
            for K in _PARTIES:
                if f"{variant} {eps} {K} {last}" in errors:
                    wrong[K][mistake] = errors[f"{variant} {eps} {K} {last}"]
        for K in _PARTIES:
            others = {
                "local aggregation in its place": errors[f"la {eps} random {K}"],
                _CHANCE: np.full_like(gop, 0.5),
            }
            name = f"PSGD, K = {K}, T = {last}, eps = {eps}"
            rows += _told(_PSGD.format(eps), f"K = {K}", name, of[K], wrong[K] | others)
        for K in _PARTIES:
            mistakes = {mistake: values - gop for mistake, values in wrong[K].items()}
            name = f"PSGD minus GOP, K = {K}, T = {last}, eps = {eps}"
            rows += _told(_BESIDE.format(eps), f"K = {K}", name, of[K] - gop, mistakes)
        for a, b in combinations(_PARTIES, 2):
            mistakes = {mistake: wrong[b][mistake] - wrong[a][mistake] for mistake in wrong[a]}
            name = f"PSGD, K = {b} minus {a}, eps = {eps}"
            rows += _told(_BESIDE.format(eps), f"K = {b} minus {a}", name, of[b] - of[a], mistakes)
    for K in _PARTIES:
        added = {part: errors[f"{part} {_EPS} {K} {last}"] - quiet for part in ("no eta", "half of rho")}
        mistakes = {"no rho": 0 * quiet, "half of rho": added["half of rho"]}
        name = f"rho alone, K = {K}, T = {last}, eps = {_EPS}"
        rows += _told(_RHO, f"K = {K}", name, added["no eta"], mistakes)
    return rows


def _aggregation(errors: _Errors, split: str, eps: float) -> dict[str, _Array]:
    """Return local aggregation with Pathak's noise on a split, as "", and its mistakes."""
    key = f"la {eps} {split}"
    found = {"": errors[key], _NONE: errors[f"quiet la {split}"], _HALF: errors[f"half {key}"]}
    found["noise / K"] = errors[f"la / K {eps} {split}"]
    if not split.startswith("even"):
        found[_MEAN_SIZE] = errors[f"n/K {key}"]
    return found


def _aggregation_rows(errors: _Errors) -> list[Row]:
    rows, at = [], {split: _aggregation(errors, split, 1.0) for split in _SPLITS}
    for split, variants in at.items():
        mistakes = {mistake: values for mistake, values in variants.items() if mistake}
        if split == _EVEN:
            mistakes["Laplace noise per coordinate"] = errors["la, laplace"]
        mistakes[_CHANCE] = np.full_like(variants[""], 0.5)
        rows += _told(_LA, split, f"LA, {split}, eps = 1.0", variants[""], mistakes)
    for below, above in pairwise(_SPLITS):
        low, high = at[below], at[above]
        mistakes = {mistake: values - low.get(mistake, low[""]) for mistake, values in high.items() if mistake}
        name = f"{above} minus {below}"
        rows += _told(_LA, name, f"LA, {name}, eps = 1.0", high[""] - low[""], mistakes)
    for eps in _EPSILONS:
        for K in _PARTIES:
            variants, psgd = _aggregation(errors, f"random {K}", eps), errors[f"psgd {eps} {K} {_ROUNDS[-1]}"]
            of_sets = {mistake: each.mean(axis=1, keepdims=True) for mistake, each in variants.items() if mistake}
            mistakes = {f"local aggregation, {mistake}": each - psgd for mistake, each in of_sets.items()}
            mistakes["PSGD, no noise"] = variants[""] - errors[f"no privacy, {_LAMBDA}"]
            mistakes["PSGD, half of the noise"] = variants[""] - errors[f"half psgd {eps} {K} {_ROUNDS[-1]}"]
            difference = variants[""] - psgd
            rows += _told(_RANDOM.format(eps), f"K = {K}", f"LA minus PSGD, K = {K}, eps = {eps}", difference, mistakes)
    return rows


def _open_rows(errors: _Errors) -> list[Row]:
    gop, quiet = errors[f"gop, same eta, {_EPS}"], errors[f"no privacy, {_LAMBDA}"]
    rows = _told(_OPEN, "no privacy", "no privacy", quiet, {_CHANCE: np.full_like(quiet, 0.5), "GOP in its place": gop})
    for Lambda in _OTHER_LAMBDAS:
        mistakes = {_NONE: errors[f"no privacy, {Lambda}"], f"lambda = {_LAMBDA}": gop}
        name = f"GOP, lambda = {Lambda}"
        rows += _told(_OPEN, name, f"{name}, eps = {_EPS}", errors[f"gop lambda = {Lambda}"], mistakes)
    for T in _ROUNDS[:-1]:
        name, found = f"PSGD minus GOP, K = 5, T = {T}", errors[f"psgd {_EPS} 5 {T}"] - gop
        mistakes = {_NONE: quiet - gop, f"T = {_ROUNDS[-1]}": errors[f"psgd {_EPS} 5 {_ROUNDS[-1]}"] - gop}
        rows += _told(_OPEN, name, f"{name}, eps = {_EPS}", found, mistakes)
    for eps in _EPSILONS[::-1]:
        for key, table in _NOISE.items():
            for split in (*(f"random {K}" for K in _PARTIES), *_SPLITS):
                shown = split.replace("random ", "random, K = ")
                name, values = (
                    f"{'LA' if key == 'la' else 'LA / K'}, {shown}, eps = {eps}",
                    errors[f"{key} {eps} {split}"],
                )
                mistakes = {_NONE: errors[f"quiet la {split}"], _HALF: errors[f"half {key} {eps} {split}"]}
                other, of = ("noise / K", "la / K") if key == "la" else ("noise not divided", "la")
                mistakes |= {other: errors[f"{of} {eps} {split}"], _CHANCE: np.full_like(values, 0.5)}
                rows += _told(table.format(eps), shown, name, values, mistakes)
    return rows


# --- The panels -----------------------------------------------------------------------


def _panels(errors: _Errors) -> tuple[Panel, ...]:
    """Return the paper's four panels: K above, the skew below; eps = .1 on the left, eps = .2 on the right."""
    y_label = "test error"
    above = tuple(
        Panel(f"Number of parties, eps = {eps}", "K", y_label, _curves(errors, eps, by_K=True)) for eps in _EPSILONS
    )
    below = tuple(
        Panel(f"Relative sizes, K = 5, eps = {eps}", "skew vector", y_label, _curves(errors, eps, by_K=False))
        for eps in _EPSILONS
    )
    return above + below


def _curves(errors: _Errors, eps: float, *, by_K: bool) -> tuple[Series, ...]:
    """Return the four curves of a panel. Neither GOP nor PSGD sees how uneven the parties are."""
    xs = _PARTIES if by_K else (1, 2, 3)
    splits = [f"random {K}" for K in _PARTIES] if by_K else ["even, K = 5", "skew 2", "skew 3"]
    keys = {
        "GOP": [f"gop, same eta, {eps}"] * len(xs),
        "PSGD": [f"psgd {eps} {x if by_K else _PARTIES[0]} {_ROUNDS[-1]}" for x in xs],
        "local aggregation": [f"la {eps} {split}" for split in splits],
        "local aggregation, noise / K": [f"la / K {eps} {split}" for split in splits],
    }
    return tuple(Series.of(shown, xs, [errors[key] for key in wanted]) for shown, wanted in keys.items())
