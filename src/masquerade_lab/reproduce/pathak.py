"""Pathak, Rane and Raj 2010, figure 2: local aggregation on Adult's records, for three splits among five parties.

The figure has no numbers, and its lambda = 1 is so large that the classifier without noise answers "no" to everybody.
At a smaller lambda the paper's sentences hold. The bands are those of another program of a few lines, for every point
of every curve. ``docs/reproduction/pathak-2010.md`` says which part of the figure can be met.
"""

from collections.abc import Mapping
from itertools import pairwise, product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from masquerade_lab.reproduce.bands import Report, Row, mean_and_error
from masquerade_lab.reproduce.panels import Panel, Series
from masquerade_lab.reproduce.pathak_runs import CURVES, HALF, SPLITS, K, Records, Setting, alone, joined, run
from masquerade_lab.reproduce.pathak_theorems import compared, excesses
from masquerade_lab.reproduce.tasks import RunTasks, Task
from masquerade_lab.reproduce.telling import judged, reference

__all__ = ["figure_2", "tables"]

_PARTITIONS, _CHUNK = 50, 10
_USEFUL = Setting(0.001, True, (0.05, 0.1, 0.2, 0.5, 1.0, 5.0))
_OTHERS = (
    Setting(0.01, False, (0.1, 0.5, 5.0)),
    Setting(1.0, False, (0.005, 0.01, 0.02, 0.1)),
    Setting(1.0, True, (0.005, 0.01, 0.02, 0.1)),
)
_EPS = 0.5

_W_STAR = {0.001: 0.163933, 0.01: 0.160678, 1.0: 0.236226}
"""The error of w* without noise by the other program, by lambda."""
_TRIVIAL = 1.0
"""The paper's lambda, at which w* answers no to everybody."""
_FEW = 0.0002
"""Three test records: where a score is almost 0, two programs may differ."""

_PLAIN = "A1: w*, without noise"
_SPLIT = f"A3: {_USEFUL.name}, eps = {_EPS:g}"
_FALLS = f"A4: {_USEFUL.name}: from one eps to the next"

_NONE, _INVERSE, _CHANCE = "no noise", "1/eps for eps", "a random classifier"
_MISTAKES = (HALF, "lambda for Lambda in the noise", "eta/K", "n/K for n_(1)", _INVERSE)

_OTHER = {(one.lam, one.unit): one.name for one in _OTHERS}
_UNSEEN: dict[str, frozenset[tuple[str, str]]] = {
    _SPLIT: frozenset({("10% minus 15%, eps = 0.5", "lambda for Lambda in the noise")}),
    _USEFUL.name: frozenset({("w* + eta, eps = 1", HALF)}),
    _OTHER[0.01, False]: frozenset({("w* + eta, eps = 5", HALF)}),
    _OTHER[1.0, False]: frozenset(
        product(("even, eps = 0.01", "15%, eps = 0.01", "10%, eps = 0.02"), (_NONE, HALF)),
    ),
    _OTHER[1.0, True]: frozenset(
        product(("w* + eta, eps = 0.005", "even, eps = 0.02", "10%, eps = 0.1"), (_NONE, HALF)),
    ),
}
"""By table, the quantities and the mistakes that they cannot show: too little noise, or too few draws."""

_CLEAR = (
    "The parties' classifiers are averaged without encryption. The protocol's own functions train them and draw the "
    "noise."
)
_SEEDED = "The noise comes from a seed: nothing here is a private release."
_MEANING = (
    "Numbers are error rates on the test records, averaged over random partitions and all draws, each with its mirror "
    "image; the standard error is that of the partitions' means. "
    "Lambda = 2 lambda is the coefficient of (1/2) |w|^2. Unit rows are divided by "
    "sqrt 14; raw rows are not, and the paper's theorems do not cover them."
)

_SILENT = "The paper's text states no error rate, so the drawings have no claimed curve."

_Array = NDArray[np.float64]
_Errors = dict[tuple[str, float], _Array]
"""By curve and epsilon; see :func:`run`."""
_Alone = tuple[float, float, float, int]


def figure_2(draws: int, seed: int, run_tasks: RunTasks, data: Path | None) -> Report:
    """Return figure 2's tables.

    Parameters
    ----------
    draws : int
        How many draws of the noise, and their mirror images, for each of fifty partitions.
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
            (source, one, _MISTAKES if one == _USEFUL else (HALF,), tuple(chunk), draws, seed),
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
        (error, positive, wrong, _), trivial = quiet[setting], setting.lam == _TRIVIAL
        band = _about_w_star(setting)
        rows.append(Row(_PLAIN, f"{setting.name}: error", error, None, *band))
        mistake = f"{setting.name}, lambda for Lambda"
        if trivial:
            rows.append(Row(_PLAIN, mistake, wrong, note="not seen here: this too says no to everybody"))
            rows.append(Row(_PLAIN, f"{setting.name}: answers yes", positive, None, 0.0, 0.0))
        else:
            rows.append(Row(_PLAIN, mistake, wrong, None, *band, broken=True))
    return rows


def _about_w_star(setting: Setting) -> tuple[float, float]:
    return round(_W_STAR[setting.lam] - _FEW, 6), round(_W_STAR[setting.lam] + _FEW, 6)


def _told(
    table: str, setting: Setting, name: str, values: _Array, mistakes: Mapping[str, _Array], note: str = ""
) -> list[Row]:
    """Return a quantity's row with its band, and a row for each mistake."""
    hidden = {mistake for of, mistake in _UNSEEN.get(table, ()) if of == name}
    return judged(
        table,
        name,
        values,
        reference("pathak-2010 2", f"{setting.name}, {name}"),
        {mistake: draws for mistake, draws in mistakes.items() if mistake not in hidden},
        unseen={mistake: draws for mistake, draws in mistakes.items() if mistake in hidden},
        note=note,
    )


def _variants(errors: _Errors, curve: str, eps: float) -> dict[str, _Array]:
    """Return a curve's mistakes at an epsilon, as far as they were run."""
    run = {mistake: errors.get((f"{curve}: {mistake}", eps)) for mistake in _MISTAKES}
    return {_NONE: errors[curve, np.inf]} | {mistake: found for mistake, found in run.items() if found is not None}


def _split_rows(errors: _Errors) -> list[Row]:
    rows = []
    for curve in CURVES:
        mistakes = _variants(errors, curve, _EPS)
        del mistakes[_INVERSE]
        other = "even" if curve not in SPLITS else "w* + eta"
        mistakes |= {f"{other} in its place": errors[other, _EPS], _CHANCE: np.full_like(errors[curve, _EPS], 0.5)}
        rows += _told(_SPLIT, _USEFUL, f"{curve}, eps = {_EPS:g}", errors[curve, _EPS], mistakes)
    for below, above in pairwise(CURVES):
        low, high = ({"": errors[curve, _EPS]} | _variants(errors, curve, _EPS) for curve in (below, above))
        mistakes = {
            mistake: high[mistake] - low.get(mistake, low[""]) for mistake in high if mistake not in ("", _INVERSE)
        }
        rows += _told(_SPLIT, _USEFUL, f"{above} minus {below}, eps = {_EPS:g}", high[""] - low[""], mistakes)
    return rows


def _falling_rows(errors: _Errors) -> list[Row]:
    rows = []
    for curve in CURVES:
        quiet, inverse = errors[curve, np.inf], f"{curve}: {_INVERSE}"
        for low, high in pairwise(_USEFUL.epsilons):
            mistakes = {_NONE: quiet - quiet, _INVERSE: errors[inverse, low] - errors[inverse, high]}
            found = errors[curve, low] - errors[curve, high]
            rows += _told(_FALLS, _USEFUL, f"{curve}, eps = {low:g} minus {high:g}", found, mistakes)
    return rows


def _curve_rows(setting: Setting, errors: _Errors) -> list[Row]:
    rows = []
    for curve in CURVES:
        for eps in setting.epsilons:
            name = f"{curve}, eps = {eps:g}"
            found = mean_and_error(errors[curve, eps])
            if (setting, eps) == (_USEFUL, _EPS):
                rows.append(Row(setting.name, name, *found, note="its band: A3"))
            elif setting.lam == _TRIVIAL and reference("pathak-2010 2", f"{setting.name}, {name}") is None:
                said = "noise cannot be seen here: without it the error is the same"
                rows.append(Row(setting.name, name, *found, *_about_w_star(setting), note=said))
            else:
                mistakes = _variants(errors, curve, eps)
                kept = {mistake: mistakes[mistake] for mistake in (_NONE, HALF)}
                rows += _told(setting.name, setting, name, errors[curve, eps], kept)
        if curve in SPLITS:
            rows.append(Row(setting.name, f"{curve}, no noise", *mean_and_error(errors[curve, np.inf])))
    return rows
