"""Hamm, Cao and Belkin 2016, figure 2: votes of a thousand parties with six records each, on UCI HAR.

The paper gives five accuracies without noise, and two sentences about accuracies with noise. The bands come from an
independent implementation in floating point that dealt the same records in another order.
``docs/reproduction/hamm-2016.md`` compares them with the published values, and says why the half of the figure with
noise cannot be met.
"""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from masquerade_core.errors import BadInput
from masquerade_lab.reproduce.bands import Report, Row, mean_and_error
from masquerade_lab.reproduce.hamm_public import projected_publicly, public_rows
from masquerade_lab.reproduce.hamm_runs import (
    CLASSES,
    KINDS,
    crossed,
    curve,
    curves,
    published_sensitivity,
    trial_of_har,
)
from masquerade_lab.reproduce.hamm_theorems import compared
from masquerade_lab.reproduce.panels import Panel, Series
from masquerade_lab.reproduce.tasks import RunTasks, Task

__all__ = ["figure_2"]

_TRIALS = 10
_PARTIES = 1000
_RECORDS = 6
_AUXILIARY = 1000
_TIME_DOMAIN = 265  # the first of HAR's 561 features
_D = 50
_LAMBDA = 1e-4
_POOL = 1000  # draws of the noise in a trial, for the norm and for all curves
_INVERSES = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)

_WITHOUT_BANDS = {
    "batch": (0.908, 0.01, 0.90),
    "indiv": (0.476, 0.015, 0.47),
    "vote": (0.806, 0.02, 0.79),
    "soft": (0.786, 0.02, 0.76),
    "avg": (0.712, 0.04, 0.67),
}
"""The middle and the half width of the band, and the paper's accuracy."""
_ORDER_BANDS = {("vote", "soft"): (0.008, 0.035), ("soft", "avg"): (0.04, 0.11)}
_NOISE_BANDS: dict[tuple[str, str, float], tuple[float | None, float | None]] = {
    ("soft", "published", 0.001): (0.68, 0.76),
    ("soft", "published", 0.01): (0.30, 0.42),
    ("soft", "published", 0.1): (None, 0.25),
    ("avg", "tight", 0.1): (0.63, 0.73),
    ("avg", "tight", 1.0): (0.25, 0.37),
    ("vote", "published", 0.1): (None, 0.22),
}
_CLOSE = 0.05  # to the paper's own figures
_NORM = 0.01  # relative

_WITHOUT = "D1: test accuracy without noise"
_ORDER = "D1: differences within a trial"
_NORMS = "D3: mean norm of the noise, soft at 1/eps = 1, in units of C d Delta/eps"
_NOISE = "D4: test accuracy with the density exp(-eps |eta|_2 / Delta)"
_BROKEN = "Broken: the norm drawn from Exp(Delta/eps), as if there were one dimension"
_BROKEN_NORM = "Broken: mean norm drawn from Exp(Delta/eps), in units of C d Delta/eps"
_CURVES = {
    "published": "Accuracy by 1/eps, published sensitivities",
    "tight": "Accuracy by 1/eps, the smaller of the published sensitivity and the diameter",
    "exp": "Accuracy by 1/eps, published sensitivities, the norm drawn from Exp(Delta/eps)",
}
_TITLES = {
    "published": "Published sensitivities",
    "tight": "Sensitivity at most the diameter",
    "exp": "Norm from Exp(Delta/eps): not private",
}
_PAPERS_END = 1.0
_UNTIL = "1/eps up to which soft and avg are better than indiv; the paper says 1"

_CLEAR = (
    "Everything is computed without encryption. Minimisers, votes and averages are those of the protocols and "
    "baselines; the noise comes from their sampler, on their grid. A seed gives it: nothing here is a private release."
)
_UNACCOUNTED = (
    "The principal components are those of the training records, and lambda was chosen on these records. Neither the "
    "paper's epsilon nor any other epsilon here accounts for that."
)
_MEANING = (
    "Numbers are accuracies on the 2,947 test records. They are averages over the draws of the noise and over the "
    "trials, which deal the records anew; the standard error is that of the trials' means. All curves of a trial take "
    "their noise from one pool of draws, each scaled by its own Delta/eps."
)

_Array = NDArray[np.float64]
_Found = dict[str, _Array]
"""By quantity, the value of each trial and draw; shape (trials, draws)."""


def figure_2(draws: int, seed: int, run_tasks: RunTasks, data: Path | None) -> Report:
    """Return figure 2's tables and panels.

    Parameters
    ----------
    draws : int
        How many draws of the noise, for each trial, curve and epsilon.
    seed : int
        It decides how the records are dealt, and gives the noise.
    run_tasks : callable
    data : path
        The directory with UCI HAR.

    Raises
    ------
    BadInput
        The data are not there, or are too few.
    """
    if data is None:
        raise BadInput("this figure needs UCI HAR, which does not come with this program", "give --data DIRECTORY")
    shape = (_PARTIES, _RECORDS, _AUXILIARY)
    tasks = [
        Task(
            f"trial {number}",
            trial_of_har,
            (data, f"hamm-2016 {seed} {number}", _LAMBDA, shape, _TIME_DOMAIN, _D, _INVERSES, draws, _POOL),
        )
        for number in range(_TRIALS)
    ]
    results = run_tasks(tasks)
    found = {name: np.array([result[name] for result in results]) for name in results[0]}
    public = run_tasks([
        Task(
            f"trial {number}, public projection",
            projected_publicly,
            (data, f"hamm-2016 {seed} {number}", _LAMBDA, shape, _TIME_DOMAIN, _D),
        )
        for number in range(_TRIALS)
    ])  # fmt: skip
    projected = public_rows(public, results)
    rows = (*_without_rows(found), *projected, *_norm_rows(found), *_noise_rows(found), *_curve_rows(found))
    settings = {
        "trials": _TRIALS,
        "parties": _PARTIES,
        "records_each": _RECORDS,
        "auxiliary": _AUXILIARY,
        "features": _TIME_DOMAIN,
        "d": _D,
        "classes": CLASSES,
        "lambda": _LAMBDA,
        "draws": draws,
        "norms": _TRIALS * _POOL,
        "seed": seed,
    }
    bounds = compared(results, _PARTIES, CLASSES, _D, _LAMBDA)
    return Report("hamm-2016", "2", (_CLEAR, _UNACCOUNTED, _MEANING), settings, rows, _panels(found), bounds)


# --- The tables -----------------------------------------------------------------------


def _without_rows(found: _Found) -> list[Row]:
    rows = [
        Row(_WITHOUT, name, *mean_and_error(found[name]), *_band(middle, half), note=f"paper {paper:.2f}")
        for name, (middle, half, paper) in _WITHOUT_BANDS.items()
    ]
    distance, which = max((abs(row.value - _WITHOUT_BANDS[row.name][2]), row.name) for row in rows)
    rows.append(Row(_WITHOUT, "farthest from the paper", distance, high=_CLOSE, note=which))
    for (above, below), band in _ORDER_BANDS.items():
        rows.append(Row(_ORDER, f"{above} minus {below}", *mean_and_error(found[above] - found[below]), *band))
    return rows


def _band(middle: float, half: float) -> tuple[float, float]:
    return round(middle - half, 4), round(middle + half, 4)


def _norm_rows(found: _Found) -> list[Row]:
    mean = CLASSES * _D * published_sensitivity("soft", _PARTIES, _LAMBDA)
    rows = []
    for table, name, broken in ((_NORMS, "norm", False), (_BROKEN_NORM, "wrong norm", True)):
        value, error = mean_and_error(found[name])
        rows.append(
            Row(table, "norm", value / mean, error / mean, *_band(1, _NORM), broken, f"{value:.1f} for {mean:.1f}")
        )
    return rows


def _noise_rows(found: _Found) -> list[Row]:
    rows = []
    for (method, kind, inverse), band in _NOISE_BANDS.items():
        values = found[f"{method} {kind} {inverse:g}"]
        rows.append(Row(_NOISE, f"{method}, {kind}, 1/eps = {inverse:g}", *mean_and_error(values), *band))
    for (method, _, inverse), band in _NOISE_BANDS.items():
        if method == "soft":  # the bands of the others are too near to what broken noise gives
            values = found[f"{method} exp {inverse:g}"]
            rows.append(Row(_BROKEN, f"{method}, 1/eps = {inverse:g}", *mean_and_error(values), *band, broken=True))
    return rows


def _curve_rows(found: _Found) -> list[Row]:
    rows = [
        Row(_CURVES[kind], f"{method}, 1/eps = {inverse:g}", *mean_and_error(found[f"{method} {kind} {inverse:g}"]))
        for method, kind in curves()
        for inverse in _INVERSES
    ]
    rows += [
        Row(_UNTIL, f"{method}, {kind}", *crossed(found, f"{method} {kind}", _INVERSES, found["indiv"].mean(axis=1)))
        for method, kind in curves()
        if method != "vote"
    ]
    return rows


# --- The panels -----------------------------------------------------------------------


def _panels(found: _Found) -> tuple[Panel, ...]:
    """Return the paper's panel for each kind of noise. What the text states for 1/eps = 0 is drawn at the left end."""
    least = _INVERSES[0]
    ends = least, _INVERSES[-1]
    paper = {name: accuracy for name, (_, _, accuracy) in _WITHOUT_BANDS.items()}
    claims = [Series(name, (least,), (paper[name],), claimed=True) for name in ("vote", "soft", "avg")]
    claims += [Series(name, ends, (paper[name],) * 2, claimed=True) for name in ("batch", "indiv")]
    claims.append(Series("soft and avg fall to indiv", (_PAPERS_END,), (paper["indiv"],), claimed=True))
    reference = tuple((name, float(found[name].mean())) for name in ("batch", "indiv"))
    return tuple(
        Panel(
            _TITLES[kind],
            "1/eps",
            "test accuracy",
            (*(curve(found, f"{m} {k}", _INVERSES, m) for m, k in curves() if k == kind), *claims),
            x_scale="log",
            reference=reference,
        )
        for kind in KINDS
    )
