"""Hamm, Cao and Belkin 2016, figure 2: votes of a thousand parties with six records each, on UCI HAR.

The paper gives five accuracies without noise, and two sentences about accuracies with noise. The bands come from
another program of a few lines, which dealt the same records in another order and drew other noise.
``docs/reproduction/hamm-2016.md`` says why the half of the figure with noise cannot be met.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from masquerade_core.errors import BadInput
from masquerade_lab.reproduce.engine.judging import against, judged, reference
from masquerade_lab.reproduce.engine.report import Panel, Report, Row, Series, mean_and_error
from masquerade_lab.reproduce.engine.tasks import RunTasks, Task, gathered
from masquerade_lab.reproduce.hamm_points import EXP, HALF, NO_NOISE, Point, in_place, norm_rows, parted, point_rows
from masquerade_lab.reproduce.hamm_public import projected_publicly, public_rows
from masquerade_lab.reproduce.hamm_runs import (
    CLASSES,
    KINDS,
    compared,
    crossing_row,
    curve,
    curves,
    trial_of_har,
)

__all__ = ["POINTS", "figure_2"]

_TRIALS = 10
_PARTIES = 1000
_RECORDS = 6
_AUXILIARY = 1000
_TIME_DOMAIN = 265  # the first of HAR's 561 features
_D = 50
_LAMBDA = 1e-4
_POOL = 1000  # draws of the noise in a trial, for the norm and for all curves
_INVERSES = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)

_PAPER = {"batch": 0.90, "indiv": 0.47, "vote": 0.79, "soft": 0.76, "avg": 0.67}
"""The accuracies without noise that the text states."""
_CLOSE = 0.05  # to them
_DIFFERENCES = (("vote", "soft"), ("soft", "avg"))
POINTS = (
    *(Point("soft", "published", inverse, _PARTIES) for inverse in (0.001, 0.003, 0.01, 0.1, 1.0)),
    *(Point("avg", "published", inverse, _PARTIES) for inverse in (0.003, 1.0)),
    *(Point("avg", "tight", inverse, _PARTIES) for inverse in (0.1, 0.3, 1.0)),
    Point("vote", "tight", 0.001, _PARTIES),
    Point("vote", "published", 0.1, _PARTIES),
)
"""Where the figure has bands under noise."""
_PAPER_UNDER_NOISE = {
    ("vote", 0.1): "the paper: useless",
    ("soft", 1.0): "the paper: as good as indiv, .47",
    ("avg", 1.0): "the paper: as good as indiv, .47",
}
_SOFT, _AVG = in_place("soft"), in_place("avg")
_HIDDEN: dict[str, tuple[str, ...]] = {
    "soft": (in_place("vote"),),  # their difference within a trial shows it
    "soft, published, 1/eps = 0.001": (_AVG,),
    "soft, published, 1/eps = 0.003": (_AVG,),
    "soft, published, 1/eps = 0.01": (_AVG,),
    "soft, published, 1/eps = 0.1": (HALF, in_place("vote"), _AVG, "vote's Delta", "avg's Delta"),
    "soft, published, 1/eps = 1": (HALF, in_place("vote"), _AVG, "vote's Delta", "avg's Delta"),
    "avg, published, 1/eps = 0.003": (_SOFT,),
    "avg, published, 1/eps = 1": (HALF, in_place("vote"), _SOFT, "vote's Delta"),
    "avg, tight, 1/eps = 0.1": (NO_NOISE, HALF, EXP, _SOFT),
    "avg, tight, 1/eps = 0.3": (_SOFT,),
    "avg, tight, 1/eps = 1": (_SOFT,),
    "vote, published, 1/eps = 0.1": (HALF, _SOFT, _AVG, "the tight Delta", "avg's Delta"),
}
"""The mistakes that a band shows too seldom."""
_HIDDEN_BESIDE = {"vote": (_SOFT,), "soft": (in_place("vote"), _AVG)}
"""Those that the distance from the paper cannot show."""

_WITHOUT = "D1: test accuracy without noise"
_BESIDE = "D1: test accuracy without noise, minus the paper's"
_ORDER = "D1: differences within a trial"
_NORMS = "D3: mean norm of the noise, in units of C d Delta/eps"
_NOISE = "D4: test accuracy under noise"
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
            (data, f"hamm-2016 {seed} {number}", _LAMBDA, shape, _TIME_DOMAIN, _D, _INVERSES, draws, _POOL, POINTS),
        )
        for number in range(_TRIALS)
    ]
    results = run_tasks(tasks)
    found = gathered(results)
    public = run_tasks([
        Task(
            f"trial {number}, public projection",
            projected_publicly,
            (data, f"hamm-2016 {seed} {number}", _LAMBDA, shape, _TIME_DOMAIN, _D),
        )
        for number in range(_TRIALS)
    ])  # fmt: skip
    projected = public_rows(public, results)
    norms = norm_rows(_NORMS, found["norms"], found["wrong norms"], CLASSES * _D)
    rows = (*_without_rows(found), *projected, *norms, *_noise_rows(found), *_curve_rows(found))
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


def _without_rows(found: _Found) -> Iterator[Row]:
    for name in _PAPER:
        others = {in_place(other): found[other] for other in _PAPER if other != name}
        caught, unseen = parted(others, _HIDDEN.get(name, ()))
        yield from judged(_WITHOUT, name, found[name], reference("hamm-2016 2", name), caught, unseen=unseen)
    for name, paper in _PAPER.items():
        others = {in_place(other): found[other] - paper for other in _PAPER if other != name}
        caught, unseen = parted(others, _HIDDEN_BESIDE.get(name, ()))
        note = f"paper {paper:.2f}"
        yield from against(_BESIDE, name, found[name] - paper, (-_CLOSE, _CLOSE), caught, unseen=unseen, note=note)
    for above, below in _DIFFERENCES:
        name, values = f"{above} minus {below}", found[above] - found[below]
        broken = {f"{above} for both": np.zeros_like(values), "exchanged": -values}
        yield from judged(_ORDER, name, values, reference("hamm-2016 2", name), broken)


def _noise_rows(found: _Found) -> Iterator[Row]:
    for point in POINTS:
        right, still = found[f"{point.method} {point.kind} {point.inverse:g}"], found[point.method]
        hidden = _HIDDEN.get(point.name, ())
        note = _PAPER_UNDER_NOISE.get((point.method, point.inverse), "")
        yield from point_rows(_NOISE, "2", point, right, still, found, hidden, note)


def _curve_rows(found: _Found) -> list[Row]:
    rows = [
        Row(_CURVES[kind], f"{method}, 1/eps = {inverse:g}", *mean_and_error(found[f"{method} {kind} {inverse:g}"]))
        for method, kind in curves()
        for inverse in _INVERSES
    ]
    levels = found["indiv"].mean(axis=1)
    rows += [
        crossing_row(_UNTIL, f"{method}, {kind}", found, f"{method} {kind}", _INVERSES, levels)
        for method, kind in curves()
        if method != "vote"
    ]
    return rows


# --- The panels -----------------------------------------------------------------------


def _panels(found: _Found) -> tuple[Panel, ...]:
    """Return the paper's panel for each kind of noise. What the text states for 1/eps = 0 is drawn at the left end."""
    least = _INVERSES[0]
    ends = least, _INVERSES[-1]
    claims = [Series(name, (least,), (_PAPER[name],), claimed=True) for name in ("vote", "soft", "avg")]
    claims += [Series(name, ends, (_PAPER[name],) * 2, claimed=True) for name in ("batch", "indiv")]
    claims.append(Series("soft and avg fall to indiv", (_PAPERS_END,), (_PAPER["indiv"],), claimed=True))
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
