"""Pathak, Rane and Raj 2010, figure 2: local aggregation on Adult's records, for three splits among five parties.

The figure has no numbers, and its lambda = 1 is so large that the classifier without noise answers "no" to everybody.
The bands come from an independent implementation in floating point at a smaller lambda, where the paper's sentences
hold. ``docs/reproduction/pathak-2010.md`` says which part of the figure can be met.
"""

from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from masquerade_lab.reproduce.bands import Report, Row, mean_and_error
from masquerade_lab.reproduce.panels import Panel, Series
from masquerade_lab.reproduce.pathak_runs import BROKEN, CURVES, SPLITS, K, Records, Setting, alone, joined, run
from masquerade_lab.reproduce.pathak_theorems import compared, excesses
from masquerade_lab.reproduce.tasks import RunTasks, Task

__all__ = ["figure_2", "tables"]

_PARTITIONS, _CHUNK = 50, 10
_USEFUL = Setting(0.001, True, (0.05, 0.1, 0.2, 0.5, 1.0, 5.0))
_OTHERS = (
    Setting(0.01, False, (0.1, 0.5, 5.0)),
    Setting(1.0, False, (0.005, 0.01, 0.02, 0.1)),
    Setting(1.0, True, (0.005, 0.01, 0.02, 0.1)),
)
_EPS = 0.5

_TRIVIAL = (0.23623, 0.0002)
_CENTRAL = {0.001: (0.1639, 0.001), 0.01: (0.1607, 0.001)}
_BANDS = {"w* + eta": (0.165, 0.003), "even": (0.198, 0.008), "15%": (0.218, 0.011), "10%": (0.26, 0.018)}
"""In rising order."""

_PLAIN = "A1: w*, without noise"
_SPLIT = f"A3: {_USEFUL.name}, eps = {_EPS:g}"
_FALLS = f"A4: {_USEFUL.name}: the largest step up along eps, less two standard errors"
_ALLOWED = 2.0

_CLEAR = (
    "The parties' classifiers are averaged without encryption. The protocol's own functions train them and draw the "
    "noise."
)
_SEEDED = "The noise comes from a seed: nothing here is a private release."
_MEANING = (
    "Numbers are error rates on the test records, averaged over random partitions and all draws; the standard error "
    "is that of the partitions' means. Lambda = 2 lambda is the coefficient of (1/2) |w|^2. Unit rows are divided by "
    "sqrt 14; raw rows are not, and the paper's theorems do not cover them."
)

_SILENT = "The paper's text states no error rate, so the drawings have no claimed curve."

_Array = NDArray[np.float64]
_Errors = dict[tuple[str, float], _Array]
_Alone = tuple[float, float, float, int]


def figure_2(draws: int, seed: int, run_tasks: RunTasks, data: Path | None) -> Report:
    """Return figure 2's tables.

    Parameters
    ----------
    draws : int
        How many draws of the noise, for each of fifty partitions.
    seed : int
    run_tasks : callable
        What runs the tasks.
    data : path
        The directory that holds a9a and a9a.t; the current one by default.

    Raises
    ------
    BadInput
        The files are not there, or are not these.
    """
    return tables(data or Path(), draws, seed, run_tasks)


def tables(source: Records | Path, draws: int, seed: int, run_tasks: RunTasks) -> Report:
    """Return figure 2's tables for these records, or for those in this directory."""
    settings = (_USEFUL, *_OTHERS)
    plain = [Task(f"{one.name}: w*", alone, (source, one)) for one in settings]
    chunks = [range(_PARTITIONS)[i : i + _CHUNK] for i in range(0, _PARTITIONS, _CHUNK)]
    noisy = [
        Task(
            f"{one.name}: partitions {chunk[0]} to {chunk[-1]}",
            run,
            (source, one, CURVES | BROKEN if one == _USEFUL else CURVES, tuple(chunk), draws, seed),
            5.0,
        )
        for one in settings
        for chunk in chunks
    ]
    bounded = [
        Task(f"theorems: partitions {c[0]} to {c[-1]}", excesses, (source, tuple(c), draws, seed)) for c in chunks
    ]
    results = run_tasks([*plain, *noisy, *bounded])
    quiet: dict[Setting, _Alone] = dict(zip(settings, results, strict=False))
    after = results[len(settings) :]
    found = {one: joined(after[i * len(chunks) : (i + 1) * len(chunks)]) for i, one in enumerate(settings)}
    useful = found[_USEFUL]
    rows = [*_plain_rows(quiet), *_split_rows(useful), *_falling_rows(useful)]
    rows += [row for one in settings for row in _curve_rows(one, found[one])]
    return Report(
        "pathak-2010",
        "2",
        (_CLEAR, _SEEDED, _MEANING, _SILENT),
        {"records": quiet[_USEFUL][3], "K": K, "partitions": _PARTITIONS, "draws": draws, "seed": seed},
        rows,
        [_panel(one, found[one], quiet[one][0]) for one in settings],
        compared(results[-len(chunks) :]),
    )


def _panel(setting: Setting, errors: _Errors, quiet: float) -> Panel:
    """Return the paper's axes: test error over epsilon."""

    def curve(name: str) -> Series:
        pairs = [mean_and_error(errors[name, eps]) for eps in setting.epsilons]
        return Series(name, setting.epsilons, [mean for mean, _ in pairs], [error for _, error in pairs])

    return Panel(
        setting.name,
        "epsilon",
        "error rate on test records",
        [curve(name) for name in CURVES],
        x_scale="log",
        reference=(("w*, without noise", quiet),),
    )


def _plain_rows(quiet: dict[Setting, _Alone]) -> list[Row]:
    rows = []
    for setting in (*_OTHERS[1:], _USEFUL, _OTHERS[0]):
        (error, positive, wrong, _), trivial = quiet[setting], setting.lam not in _CENTRAL
        band = _band(*(_TRIVIAL if trivial else _CENTRAL[setting.lam]))
        rows.append(Row(_PLAIN, f"{setting.name}: error", error, None, *band))
        if trivial:
            rows.append(Row(_PLAIN, f"{setting.name}: answers yes", positive, None, 0.0, 0.0))
        else:
            rows.append(Row(_PLAIN, f"{setting.name}, lambda for Lambda", wrong, None, *band, broken=True))
    return rows


def _band(middle: float, half: float) -> tuple[float, float]:
    return round(middle - half, 5), round(middle + half, 5)


def _split_rows(errors: _Errors) -> list[Row]:
    rows = [Row(_SPLIT, name, *mean_and_error(errors[name, _EPS]), *_band(*band)) for name, band in _BANDS.items()]
    differences = [
        (*mean_and_error(errors[above, _EPS] - errors[below, _EPS]), f"{above} minus {below}")
        for below, above in pairwise(_BANDS)
    ]
    value, error, which = min(differences)
    rows.append(Row(_SPLIT, "smallest step", value, error, 0.0, note=which))
    for name, of in (("eta/K", "even"), ("n/K for n_(1)", "10%")):
        found = mean_and_error(errors[name, _EPS])
        rows.append(Row(_SPLIT, f"{of}, {name}", *found, *_band(*_BANDS[of]), broken=True))
    return rows


def _falling_rows(errors: _Errors) -> list[Row]:
    rows = [_falling(name, errors, broken=False) for name in CURVES]
    return [*rows, _falling("1/eps for eps", errors, broken=True)]


def _falling(name: str, errors: _Errors, *, broken: bool) -> Row:
    steps = []
    for smaller, larger in pairwise(_USEFUL.epsilons):
        up, error = mean_and_error(errors[name, larger] - errors[name, smaller])
        steps.append((up - _ALLOWED * error, f"{up:+.4f} (error {error:.4f}) from eps = {smaller:g} to {larger:g}"))
    value, note = max(steps)
    return Row(_FALLS, name, value, None, None, 0.0, broken, note)


def _curve_rows(setting: Setting, errors: _Errors) -> list[Row]:
    rows = []
    for name in CURVES:
        rows += [
            Row(setting.name, f"{name}, eps = {eps:g}", *mean_and_error(errors[name, eps])) for eps in setting.epsilons
        ]
        if name in SPLITS:
            rows.append(Row(setting.name, f"{name}, no noise", *mean_and_error(errors[name, np.inf])))
    return rows
