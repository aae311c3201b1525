"""Rajkumar and Agarwal 2012, figure 2: the methods of figure 1 on 569 records of breast cancer.

At the paper's epsilons every private classifier errs more often than the rule that gives everybody the more frequent
label. GOP and PSGD are a little better than a random classifier there, and local aggregation hardly is. So the figure
says next to nothing about the methods. ``docs/reproduction/rajkumar-2012.md`` says what a useful
curve would need.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from masquerade_core.learning.erm import error_rate
from masquerade_lab.reproduce.engine.judging import judged, reference
from masquerade_lab.reproduce.engine.report import Panel, Report, Row, Series, mean_and_error
from masquerade_lab.reproduce.engine.tasks import RunTasks, Task, gathered
from masquerade_lab.reproduce.rajkumar_runs import DELTA, FOLDS, aggregated, central, gradient, load

__all__ = ["figure_2"]

_LAMBDA = 0.01  # the demonstration's own for these records
_OTHER_LAMBDAS = (0.1, 0.001)
_PAPER = (0.1, 0.2)
_EPSILONS = (*_PAPER, 1.0)
_CURVE = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
_PARTIES = (5, 10, 15)
_ROUNDS = 300
_AGGREGATION_DRAWS = 5  # times as many as for the others

_SPLITS = {
    "skew 1": (0.2, 0.2, 0.2, 0.2, 0.2),
    "skew 2": (0.1, 0.2, 0.2, 0.25, 0.25),
    "skew 3": (0.01, 0.29, 0.2, 0.25, 0.25),
}

_MAJORITY_BAND = (0.372, 0.374)

_MAJORITY = "The rule that gives everybody the more frequent label"
_AT = "Errors at eps = {}"
_AGGREGATION = "Errors of local aggregation at eps = {}"
_DIVIDED = "Local aggregation, noise / K, the average's own sensitivity"
_LAMBDAS = "What the paper leaves open: lambda"

_CLEAR = (
    "The records are scikit-learn's copy of the Wisconsin diagnostic set: 569 records of 30 columns, 357 of them with "
    "the more frequent label. Five folds: each fifth is the test set once. Each column goes from public bounds to "
    "[-1, 1], and each row is clipped to norm 1. There is no bias."
)
_SEEDED = (
    "Everything is computed without encryption. The noise comes from a seed and from the protocols' samplers: nothing "
    "here is a private release."
)
_MIRRORED = (
    "Every method is run with each draw of the noise and with its mirror image. The folds are always the same, so a "
    "standard error counts the noise alone. The bands are those of another program of a few lines."
)
_NEEDED = (
    "A useful curve at eps = .1 and .2 would need noise as small as the printed equation's sigma*, which is not "
    "private, or many more records than 455: the noise's part in the objective falls as 1/(N eps)."
)

_Array = NDArray[np.float64]
_Errors = dict[str, _Array]


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
    many = draws * _AGGREGATION_DRAWS
    gop = {f"gop {eps}, {Lambda}": (eps, Lambda) for Lambda in (_LAMBDA, *_OTHER_LAMBDAS) for eps in _CURVE}
    printed = {f"printed {eps}": (eps, _LAMBDA) for eps in _CURVE}
    tasks = []
    for number in range(FOLDS):
        where = ("breast cancer", seed, number, draws)
        tasks += [
            Task(
                f"fold {number}, PSGD, eps = {eps}",
                gradient,
                (*where, _LAMBDA, eps, _PARTIES, (_ROUNDS,), False),
                10.0,
            )
            for eps in _EPSILONS
        ]
        tasks.append(
            Task(
                f"fold {number}, local aggregation",
                aggregated,
                (*where, many, _LAMBDA, _EPSILONS, _SPLITS, _PARTIES),
                4.0,
            )
        )
        tasks.append(Task(f"fold {number}, GOP", central, (*where, gop, printed), 2.0))
    errors = gathered(run_tasks(tasks))
    errors["majority"] = np.array([[_majority_error(number)] for number in range(FOLDS)])
    records, _ = load("breast cancer", 0, 0)
    return Report(
        "rajkumar-2012",
        "2",
        (_CLEAR, _SEEDED, _MIRRORED, _NEEDED),
        {
            "folds": FOLDS,
            "records": len(records.y),
            "d": records.X.shape[1],
            "draws": draws,
            "local_aggregation_draws": many,
            "lambda": _LAMBDA,
            "delta": DELTA,
            "rounds": _ROUNDS,
            "seed": seed,
        },
        tuple(_rows(errors)),
        _panels(errors),
    )


def _majority_error(number: int) -> float:
    """Return the error of the training records' more frequent label on a fold's test records."""
    records, test = load("breast cancer", 0, number)
    everybody = np.ones((len(test.y), 1))
    return error_rate(everybody, test.y, np.array([1.0 if records.y.mean() > 0 else -1.0]))


# --- The tables -----------------------------------------------------------------------


def _aggregations(eps: float) -> dict[str, str]:
    """Return the keys of local aggregation at an epsilon, by what a row calls them."""
    keys = {f"random, K = {K}": f"la {eps} random {K}" for K in _PARTIES}
    return keys | {name: f"la {eps} {name}" for name in _SPLITS}


def _rows(errors: _Errors) -> Iterator[Row]:
    yield Row(_MAJORITY, "its error", float(errors["majority"].mean()), None, *_MAJORITY_BAND)
    for eps in _EPSILONS:
        yield from _banded(errors, eps)
    yield from _open_rows(errors)


def _banded(errors: _Errors, eps: float) -> Iterator[Row]:
    """Yield GOP and PSGD at an epsilon, beside what broken programs give."""
    keys = {"GOP": f"gop, same eta, {eps}"} | {f"PSGD, K = {K}": f"psgd {eps} {K} {_ROUNDS}" for K in _PARTIES}
    quiet, majority = (float(errors[name].mean()) for name in (f"no privacy, {_LAMBDA}", "majority"))
    for name, key in keys.items():
        values = _pairs(errors[key])
        broken = {
            "no noise": np.full_like(values, quiet),
            "half of the noise": _pairs(errors[f"half {key}"]),
            "a random classifier": np.full_like(values, 0.5),
            "the more frequent label": np.full_like(values, majority),
        }
        if name == "GOP" and eps in _PAPER:
            broken["sigma* of the printed equation"] = _pairs(errors[f"printed {eps}"])
        yield from judged(_AT.format(eps), name, values, reference("rajkumar-2012 2", f"{name}, eps = {eps}"), broken)


def _pairs(errors: _Array) -> _Array:
    """Return the mean over the folds, which are fixed, and over each draw and its mirror image; shape (draws, 1)."""
    return np.asarray(errors.reshape(len(errors), 2, -1).mean(axis=(0, 1))[:, None])


def _open_rows(errors: _Errors) -> Iterator[Row]:
    for eps in _EPSILONS:
        for name, key in _aggregations(eps).items():
            yield _row(errors, _AGGREGATION.format(eps), name, key)
    for eps in _EPSILONS:
        for split in (*(f"random {K}" for K in _PARTIES), *_SPLITS):
            shown = split.replace("random ", "random, K = ")
            yield _row(errors, _DIVIDED, f"eps = {eps}, {shown}", f"la / K {eps} {split}")
    for Lambda in (_LAMBDA, *_OTHER_LAMBDAS):
        yield _row(errors, _LAMBDAS, f"no privacy, lambda = {Lambda}", f"no privacy, {Lambda}")
        for eps in _EPSILONS:
            yield _row(errors, _LAMBDAS, f"GOP, lambda = {Lambda}, eps = {eps}", f"gop {eps}, {Lambda}")


def _row(errors: _Errors, table: str, name: str, key: str) -> Row:
    return Row(table, name, *mean_and_error(errors[key]))


# --- The panels -----------------------------------------------------------------------


def _panels(errors: _Errors) -> tuple[Panel, ...]:
    """Return the paper's four panels, the same two at eps = 1, and GOP by epsilon."""
    reference = (("majority", float(errors["majority"].mean())),)
    y_label = "test error"
    above, below = [], []
    for eps in _EPSILONS:
        central_keys = [f"gop, same eta, {eps}"] * len(_PARTIES)
        curves = {
            "GOP": central_keys,
            "PSGD": [f"psgd {eps} {K} {_ROUNDS}" for K in _PARTIES],
            "local aggregation": [f"la {eps} random {K}" for K in _PARTIES],
            "local aggregation, noise / K": [f"la / K {eps} random {K}" for K in _PARTIES],
        }
        series = tuple(_series(errors, name, _PARTIES, keys) for name, keys in curves.items())
        above.append(Panel(f"Number of parties, eps = {eps}", "K", y_label, series, reference=reference))
        curves |= {
            "PSGD": [f"psgd {eps} {_PARTIES[0]} {_ROUNDS}"] * len(_SPLITS),
            "local aggregation": [f"la {eps} {name}" for name in _SPLITS],
            "local aggregation, noise / K": [f"la / K {eps} {name}" for name in _SPLITS],
        }
        series = tuple(_series(errors, name, (1, 2, 3), keys) for name, keys in curves.items())
        below.append(Panel(f"Relative sizes, K = 5, eps = {eps}", "skew vector", y_label, series, reference=reference))
    gop = (
        _series(errors, "GOP", _CURVE, [f"gop {eps}, {_LAMBDA}" for eps in _CURVE]),
        _series(errors, "GOP, printed sigma*: not private", _CURVE, [f"printed {eps}" for eps in _CURVE]),
    )
    by_epsilon = Panel("GOP by epsilon", "eps", y_label, gop, x_scale="log", reference=reference)
    return (*above, *below, by_epsilon)


def _series(errors: _Errors, name: str, x: tuple[float, ...], keys: list[str]) -> Series:
    return Series.of(name, x, [errors[key] for key in keys])
