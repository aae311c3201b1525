"""``dp-gd`` on the simulated data of Rajkumar and Agarwal 2012 and on breast cancer, beside the papers' protocols.

No paper prints these figures. The bars come from an independent implementation in floating point, on other data sets
that were drawn in the same way. ``docs/reproduction/dp-gd.md`` has the tables.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from masquerade.datasets import Records, breast_cancer, random_split, unit_ball
from masquerade.draft import Draft, throwaway_key
from masquerade_core.data.schema import Dataset, Encoder
from masquerade_core.learning.erm import error_rate, fit
from masquerade_core.privacy.accounting import epsilon_of
from masquerade_core.privacy.noise.gaussian_rounds import SharedNoise, rounds_noise
from masquerade_core.simulation_rng import SimulationRng
from masquerade_core.study import Feature, Study
from masquerade_lab.reproduce.engine.report import Panel, Report, Row, Series, mean_and_error
from masquerade_lab.reproduce.engine.tasks import RunTasks, Task, gathered
from masquerade_lab.reproduce.rajkumar import Split, aggregates, descend, draw_eta, draw_rho
from masquerade_lab.reproduce.rajkumar import study_of as paper_study
from masquerade_protocols.blocks.noise_shares import draw_noise_share
from masquerade_protocols.dp_gd import roles as dp_gd
from masquerade_protocols.psgd.schedule import psgd

__all__ = ["clipped_descent", "figure_1", "panels"]

_SETS = 60
_PSGD_SETS = 20  # a draw of PSGD's noise is a thousand vectors
_CANCER_DRAWS = 4
_D = 10
_N = 1000
_LAMBDA = 0.1
_OUR_LAMBDA = 0.02
_STEPS = {"rounds": 10, "clip": 0.25, "learning_rate": 4.0}
_PLAIN = {"rounds": 20, "clip": 0.5, "learning_rate": 4.0}
_DELTAS = (0.05, 1e-5)
_BARS = {0.1: 0.051, 0.2: 0.046, 1.0: 0.040}
_SD = {0.1: 7.095, 0.2: 5.260, 1.0: 2.107}
_CANCER_STEPS = {"T = 10, C = 0.25": _STEPS, "T = 20, C = 0.5": _PLAIN}
_PARTIES = (5, 10, 15)
_PSGD_ROUNDS = 300

_NOISE = "Noise on a sum: 2 C sqrt(T)/mu, delta = 0.05"
_ERROR = "Error, delta = 0.05"
_LARGE_LAMBDA = f"Error, delta = 0.05, K = 5, Lambda = {_LAMBDA}: a step takes four tenths off the classifier"
_USUAL = "Error, K = 5, with more rounds and a longer clip: T = 20, C = 0.5"
_SMALL_DELTA = "Error, delta = 1e-05, K = 5"
_COLLUDERS = "Error, delta = 0.05, noise enough against K - 1 parties with Charlie"
_BESIDE = "Beside it, at the same epsilon and delta = 0.05, K = 5"
_BROKEN = "Broken variants must miss"
_MAJORITY, _FREE = "always the more frequent answer", "no privacy"
_CANCER = "569 records of breast cancer, K = 5"

_CLEAR = (
    "Rounds are computed without encryption: with the protocol's clipped sums and steps, and with noise from its "
    "sampler, in a share for each party. The tests show that rounds under encryption equal these to 1e-6."
)
_SEEDED = "The noise comes from a seed and the records from a generator: nothing here is a private release."
_CHOSEN = (
    "K is the number of parties, T the number of rounds, and the clip C the longest gradient of a record. Unless a "
    "table says otherwise, T = 10 and C = 0.25, for which the bands were made. Steps are plain ones of 4, and Lambda = "
    "0.02. A new study has other rules, which follow from public numbers (docs/protocols/dp-gd.md). The other "
    "protocols have Lambda = 0.1, as in rajkumar-2012, which makes their noise smaller. T = 20 and C = 0.5 were "
    "tried on these records of breast cancer before they were chosen."
)

_Array = NDArray[np.float64]
_Errors = dict[str, _Array]
"""By a figure's name, the error rate of each data set and draw, shape (S, R)."""


@cache
def _study(
    epsilon: float, delta: float, K: int, colluders: int = 0, Lambda: float = _OUR_LAMBDA, *, usual: bool = False
) -> Study:
    """Return a study of ``dp-gd`` on ten coordinates, with the bars' rounds and clip or the ``usual`` ones."""
    draft = replace(_draft(epsilon, delta, K, colluders), parameters=_PLAIN if usual else _STEPS)
    features = [Feature(name=f"x{i}", min=-1.0, max=1.0) for i in range(1, _D + 1)]
    return _parsed(replace(draft, features=features, regularization=Lambda, intercept=False))


def _draft(epsilon: float, delta: float, K: int, colluders: int = 0) -> Draft:
    return Draft(
        parties=[(f"party-{k}", throwaway_key()) for k in range(1, K + 1)],
        curator_key=throwaway_key(),
        protocol="dp-gd",
        epsilon=epsilon,
        delta=delta,
        colluders=colluders,
    )


def _parsed(draft: Draft) -> Study:
    return Study.parse(draft.to_toml(), "this table's settings", in_memory=True)


def clipped_descent(records: Dataset, study: Study, noise: SharedNoise | None, seed: str) -> _Array:
    """Run ``dp-gd`` once on everybody's records; shape (d,).

    Parameters
    ----------
    records : Dataset
        Everybody's records, since only sums over all parties enter a round.
    study : Study
    noise : SharedNoise or None
        No noise if None.
    seed : str
        It gives the shares of all parties.
    """
    descent, rounds = dp_gd.Descent(study, len(records.y)), dp_gd.rounds_of(study)
    total = np.zeros((rounds, study.d), dtype=object)
    if noise is not None:
        shares = [draw_noise_share(SimulationRng(seed, f"share {k}"), noise, study.d) for k in range(study.K)]
        total = np.array(shares, dtype=object).sum(axis=0)
    for x in total:
        gradient = descent.gradient(records)
        descent.step(tuple(int(g + v) for g, v in zip(gradient, x, strict=True)))
    return descent.iterate


def figure_1(draws: int, seed: int, run_tasks: RunTasks, _data: Path | None = None) -> Report:
    """Return the tables.

    Parameters
    ----------
    draws : int
        How many draws of the noise, for each of 60 data sets; ten times as many on breast cancer, and one of PSGD.
    seed : int
    run_tasks : callable
        It runs a task for each data set, and for each number on breast cancer.
    """
    sets = [
        Task(f"data set {number}", _set_errors, (number, draws, seed), 2.0 if number < _PSGD_SETS else 1.0)
        for number in range(_SETS)
    ]
    cancer = [
        Task(
            f"breast cancer, {steps}, eps = {eps}, delta = {delta:g}", _cancer_errors, (steps, delta, eps, draws, seed)
        )
        for steps in _CANCER_STEPS
        for delta, eps in product(_DELTAS, _BARS)
    ]
    found = run_tasks([*sets, *cancer, Task("breast cancer, no noise", _cancer_plain, ())])
    errors = gathered(found[: len(sets)])
    settings = {"data_sets": _SETS, "records": _N, "d": _D, "draws": draws, "lambda": _OUR_LAMBDA, "seed": seed}
    last = tuple(_cancer_rows(found[-1], found[len(sets) : -1]))
    rows = (*_noise_rows(), *_error_rows(errors), *_beside_rows(errors), *_broken_rows(errors), *last)
    return Report("dp-gd", "1", (_CLEAR, _SEEDED, _CHOSEN), settings, rows, panels(errors, last, _CANCER))


def _set_errors(number: int, draws: int, seed: int) -> dict[str, list[float]]:
    """Return all errors on one data set, by name."""
    records, test = unit_ball(number, _N, _D, seed=seed)
    label = f"dp-gd {seed} {number}"
    found = _ours(records, label, draws) | _others(records, label, draws, (seed, number))
    if number < _PSGD_SETS:
        found |= _psgd(records, label)
    return {name: [error_rate(test.X, test.y, w) for w in classifiers] for name, classifiers in found.items()}


# --- The classifiers, for one data set ----------------------------------------------


def _ours(records: Dataset, label: str, draws: int) -> dict[str, list[_Array]]:
    wanted = {f"{eps} {K}": _study(eps, 0.05, K) for eps in _BARS for K in _PARTIES}
    wanted |= {f"{eps} 1e-05": _study(eps, 1e-5, 5) for eps in _BARS}
    wanted |= {f"{eps} {K} collude": _study(eps, 0.05, K, K - 1) for eps in _BARS for K in (5, 15)}
    wanted |= {f"{eps} {delta:g} usual": _study(eps, delta, 5, usual=True) for eps in _BARS for delta in _DELTAS}
    wanted |= {f"{eps} large": _study(eps, 0.05, 5, Lambda=_LAMBDA) for eps in _BARS}
    found = {"no noise": [clipped_descent(records, _study(1.0, 0.05, 5), None, "")]}
    for name, study in wanted.items():
        noise = dp_gd.noise_of(study)
        found[name] = [clipped_descent(records, study, noise, f"{label} {name} {draw}") for draw in range(draws)]
    return found


def _others(records: Dataset, label: str, draws: int, seed: tuple[int, int]) -> dict[str, list[_Array]]:
    """No privacy, and local aggregation as published, on records dealt at random."""
    found = {f"no privacy, Lambda = {x}": [fit(records.X, records.y, x)] for x in (_LAMBDA, _OUR_LAMBDA)}
    for eps in _BARS:
        splits = [Split(random_split(5, _N, *seed, 5, draw), eps, "laplace") for draw in range(draws)]
        found[f"la {eps}"] = [aggregates(records, split, _LAMBDA, label, 1)[0] for split in splits]
    return found


def _psgd(records: Dataset, label: str) -> dict[str, list[_Array]]:
    """PSGD with the sigma* that its proof needs, K = 5."""
    found = {}
    for eps in _BARS:
        study = paper_study(eps, _LAMBDA)
        schedule = psgd(study, _N)
        eta = draw_eta(f"{label} {eps}", schedule.sigma, 1)
        rho = draw_rho(f"{label} {eps}", schedule, _PSGD_ROUNDS, 1, (5,))[:, 0]
        (w,) = descend(records, study, schedule, (eta + rho).__getitem__, (_PSGD_ROUNDS,))
        found[f"psgd {eps}"] = list(w)
    return found


# --- The tables -----------------------------------------------------------------------


def _noise_rows() -> list[Row]:
    return [_sd_row(_NOISE, f"eps = {eps}", dp_gd.noise_of(_study(eps, 0.05, 5)), eps) for eps in _SD]


def _sd_row(table: str, name: str, noise: SharedNoise, eps: float, *, broken: bool = False, note: str = "") -> Row:
    value = float(noise.sigma) / 2**dp_gd.FRACTION_BITS
    return Row(table, name, value, None, round(_SD[eps] - 5e-4, 4), round(_SD[eps] + 5e-4, 4), broken, note)


def _error_rows(errors: _Errors) -> list[Row]:
    rows = [
        Row(_ERROR, f"eps = {eps}, K = {K}", *mean_and_error(errors[f"{eps} {K}"]), high=bar)
        for eps, bar in _BARS.items()
        for K in _PARTIES
    ]
    rows += [Row(_LARGE_LAMBDA, f"eps = {eps}", *mean_and_error(errors[f"{eps} large"])) for eps in _BARS]
    rows += [
        Row(_USUAL, f"eps = {eps}, delta = {delta:g}", *mean_and_error(errors[f"{eps} {delta:g} usual"]))
        for delta in _DELTAS
        for eps in _BARS
    ]
    rows += [Row(_SMALL_DELTA, f"eps = {eps}", *mean_and_error(errors[f"{eps} 1e-05"])) for eps in _BARS]
    rows += [
        Row(_COLLUDERS, f"eps = {eps}, K = {K}", *mean_and_error(errors[f"{eps} {K} collude"]))
        for eps in _BARS
        for K in (5, 15)
    ]
    return rows


def _beside_rows(errors: _Errors) -> list[Row]:
    names = [name for name in errors if name.startswith("no privacy")]
    rows = [Row(_BESIDE, name, *mean_and_error(errors[name])) for name in names]
    rows.append(Row(_BESIDE, "dp-gd's steps without noise", *mean_and_error(errors["no noise"])))
    for eps in _BARS:
        on = f"on {_PSGD_SETS} of the data sets"
        rows.append(Row(_BESIDE, f"PSGD, eps = {eps}", *mean_and_error(errors[f"psgd {eps}"]), note=on))
        rows.append(Row(_BESIDE, f"local aggregation, eps = {eps}", *mean_and_error(errors[f"la {eps}"])))
    return rows


def _broken_rows(errors: _Errors) -> list[Row]:
    """Half the sensitivity makes errors smaller, so only the noise itself shows it; whole noises make them larger."""
    rows = []
    for eps in _BARS:
        halved = rounds_noise(
            clip=Fraction(1, 8),
            d=_D,
            rounds=10,
            epsilon=eps,
            delta=0.05,
            honest=5,
            fraction_bits=dp_gd.FRACTION_BITS,
        )
        true = f"its epsilon is {epsilon_of(2 * halved.mu(5), 0.05):.2f}"
        rows.append(_sd_row(_BROKEN, f"sensitivity C, eps = {eps}", halved, eps, broken=True, note=true))
    for eps, bar in _BARS.items():
        values = mean_and_error(errors[f"{eps} 15 collude"])  # the distribution is the same
        rows.append(Row(_BROKEN, f"all noise from each of 15, eps = {eps}", *values, high=bar, broken=True))
    return rows


@cache
def _cancer_records() -> tuple[Dataset, Dataset]:
    """Return all parties' records, and those for testing."""
    cohort = breast_cancer(5)
    encoder, value = Encoder.from_study(_cancer_study(1.0, 0.05, _STEPS)), cohort.label.positive or ""
    parts = [_encoded(records, encoder, value) for records in cohort.parties.values()]
    pooled = Dataset(np.vstack([part.X for part in parts]), np.concatenate([part.y for part in parts]))
    return pooled, _encoded(cohort.test, encoder, value)


def _cancer_study(eps: float, delta: float, parameters: dict[str, float]) -> Study:
    cohort = breast_cancer(5)
    draft = replace(_draft(eps, delta, 5), features=cohort.features, label=cohort.label, parameters=parameters)
    return _parsed(replace(draft, regularization=cohort.regularization, intercept=True))


def _cancer_plain() -> dict[str, float]:
    """Return the errors without noise, by name."""
    pooled, test = _cancer_records()
    found = {
        _MAJORITY: float(min(np.mean(test.y > 0), np.mean(test.y < 0))),
        _FREE: error_rate(test.X, test.y, fit(pooled.X, pooled.y, breast_cancer(5).regularization)),
    }
    for steps, parameters in _CANCER_STEPS.items():
        still = clipped_descent(pooled, _cancer_study(1.0, 0.05, parameters), None, "")
        found[f"{steps}, no noise"] = error_rate(test.X, test.y, still)
    return found


def _cancer_errors(steps: str, delta: float, eps: float, draws: int, seed: int) -> list[float]:
    """Return the error of each draw."""
    pooled, test = _cancer_records()
    study, label = _cancer_study(eps, delta, _CANCER_STEPS[steps]), f"dp-gd cancer {seed} {steps} {eps} {delta}"
    noise = dp_gd.noise_of(study)
    found = [clipped_descent(pooled, study, noise, f"{label} {draw}") for draw in range(draws * _CANCER_DRAWS)]
    return [error_rate(test.X, test.y, w) for w in found]


def _cancer_rows(plain: Mapping[str, float], errors: Sequence[list[float]]) -> list[Row]:
    """Return one split with many draws of the noise: the standard error counts the draws alone."""
    rows, left = [Row(_CANCER, name, plain[name]) for name in (_MAJORITY, _FREE)], iter(errors)
    for steps in _CANCER_STEPS:
        rows.append(Row(_CANCER, f"{steps}, no noise", plain[f"{steps}, no noise"]))
        for delta, eps in product(_DELTAS, _BARS):
            values = np.array(next(left))[:, None]
            rows.append(Row(_CANCER, f"{steps}, eps = {eps}, delta = {delta:g}", *mean_and_error(values)))
    return rows


def _encoded(records: Records, encoder: Encoder, positive: str) -> Dataset:
    columns = dict(zip(records.columns, zip(*records.rows, strict=True), strict=True))
    labels = np.array(columns[records.columns[-1]])
    return Dataset(encoder.encode(columns), np.where(labels == positive, 1.0, -1.0))


# --- The panels -----------------------------------------------------------------------

_CURVES = {
    "dp-gd, delta = 0.05": "{} 5",
    "dp-gd, T = 20, C = 0.5": "{} 0.05 usual",
    "dp-gd, delta = 1e-05": "{} 1e-05",
    "local aggregation": "la {}",
    "PSGD": "psgd {}",
}
"""By the name of a curve, the name of its errors."""


def panels(errors: _Errors, cancer: Sequence[Row], title: str) -> list[Panel]:
    """Draw errors against epsilon.

    Parameters
    ----------
    errors : mapping of str to ndarray
        The errors on simulated records, by name.
    cancer : sequence of Row
        Those on breast cancer.
    title : str
        What breast cancer's panel is called.
    """
    epsilons = [name.removeprefix("psgd ") for name in errors if name.startswith("psgd ")]
    simulated = [
        _series(name, ((float(e), *mean_and_error(errors[of.format(e)])) for e in epsilons if of.format(e) in errors))
        for name, of in _CURVES.items()
    ]
    free = [name for name in errors if name.startswith("no privacy")][-1]
    curves: dict[str, list[tuple[float, float, float]]] = {}
    for row in cancer:
        steps, middle, rest = row.name.partition(", eps = ")
        epsilon, _, delta = rest.partition(", ")
        if middle:
            curves.setdefault(f"{steps}, {delta}", []).append((float(epsilon), row.value, row.error or 0.0))
    levels = tuple((row.name, row.value) for row in cancer[:2])
    return [
        Panel(
            "simulated records, K = 5",
            "epsilon",
            "error rate",
            simulated,
            "log",
            reference=(("no privacy", mean_and_error(errors[free])[0]),),
        ),
        Panel(title, "epsilon", "error rate", [_series(*each) for each in curves.items()], "log", reference=levels),
    ]


def _series(name: str, points: Iterable[tuple[float, float, float]]) -> Series:
    x, y, error = zip(*points, strict=True)
    return Series(name, x, y, error)
