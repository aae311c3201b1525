"""Bixler, section 4: descent on noisy examples against plain descent, on 5000 simulated records.

The section has no figure and no table, and does not give the model, its dimension, the step and the noise. With the
settings here plain descent needs about 3000 iterations, as the paper reports. The bands come from an independent
implementation with these settings. ``docs/reproduction/bixler.md`` compares both with the paper.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from masquerade_lab.reproduce.bands import Report, Row
from masquerade_lab.reproduce.bixler_accesses import fresh_noise, kept_noise
from masquerade_lab.reproduce.bixler_runs import (
    CAP,
    CHECKPOINTS,
    STEP,
    Column,
    D,
    Descents,
    Kind,
    N,
    beside,
    descend,
    draw_sample,
)
from masquerade_lab.reproduce.panels import Panel, Series
from masquerade_lab.reproduce.tasks import RunTasks, Task

__all__ = ["section_4"]

_SDS = {"inf": 0.0, "100": 0.01, "20": 0.05, "10": 0.1, "6.7": 0.15, "5": 0.2, "3.3": 0.3, "2": 0.5, "1": 1.0}
"""1/alpha by alpha, as it is shown."""
_KINDS: tuple[Kind, ...] = ("kept", "scalar", "half-line")
_KIND_ALPHAS = ("10", "5")
_CLOSE = 0.05  # "within a tolerable amount of extra iterations (5%)"
_NEAR = 0.024  # "within an average of 2.4% of one another"
_COLUMNS = 3  # noises in one task

_ITERATIONS_BAND = (0.85 * 2637, 1.15 * 2637)
_EXTRA_BANDS: dict[str, tuple[float | None, float | None]] = {"10": (-0.05, 0.05), "2": (1.0, None)}
_LOSS_BANDS = {"10": (0.011, 0.02), "5": (0.05, 0.072)}

_E4_EPOCHS = 100
_DIAGONAL = (0.97, 1.03)
_UNCORRELATED = (-0.02, 0.02)

_E1 = "E1: iterations of plain descent"
_EXTRA = "E2: extra iterations, same order"
_LOSS = "E2: loss against plain descent's, same order"
_CLAIMS = "The paper's two numbers, same order"
_KIND = "E2 does not tell samplers apart: loss, same order"
_IND = "What the paper compared, a run in another order: extra iterations"
_E3 = "E3: alpha = inf against plain descent, largest difference"
_E4 = "E4: the noise of 100,000 accesses, alpha = 10"
_BROKEN = "Broken variants must miss E4"

_CLEAR = (
    "E1 to E3 are computed without encryption, all runs at once, with noise in floating point from a seed: nothing "
    "here is a private release. E4 takes its noise from the accesses of the protocol's own training."
)
_SETTINGS = (
    f"Not in the paper: x ~ N(0, I) in {D} dimensions, labels sign(u.x), logistic loss, steps of {STEP}, at most "
    f"{CAP:,} of them. Each run has its own records, u, w_0 and order."
)
_MEANING = (
    "A run ends with the first update whose gradient is shorter than 1e-5. Extra: mean iterations divided by those of "
    "plain descent, less 1. Loss: the mean of |L' - L|/L over ten checkpoints, one every 500 updates. Capped: the "
    "fraction of runs that reach the largest number of updates. Within 5%: the fraction of pairs of runs whose "
    "iterations differ by at most 5 %."
)

_Array = NDArray[np.float64]


def section_4(draws: int, seed: int, run_tasks: RunTasks) -> Report:
    """Return section 4's tables.

    Parameters
    ----------
    draws : int
        Runs.
    seed : int
    run_tasks : callable
        What runs the tasks.
    """
    names = [*_SDS, *(f"{kind} {alpha}" for kind in _KINDS for alpha in _KIND_ALPHAS)]
    fresh = [Column(sd) for sd in _SDS.values()]
    others = [Column(_SDS[alpha], kind) for kind in _KINDS for alpha in _KIND_ALPHAS]
    order, another = f"bixler {seed}", f"bixler {seed}, another order"
    tasks = [
        Task("plain descent", _descents, (draws, seed, None, order, False)),
        Task("noise of the accesses", fresh_noise, (seed, _E4_EPOCHS), 2.0),
        Task("noise that records keep", kept_noise, (seed,), 0.2),
        *_split("the same order", [*fresh, *others], (draws, seed), order, kept=True),
        *_split("another order", fresh, (draws, seed), another, kept=False),
    ]
    first, accesses, kept, *rest = run_tasks(tasks)
    half = -(-len(names) // _COLUMNS)
    same, plain, ind = beside(rest[:half]), beside([first]), beside(rest[half:])
    return Report(
        "bixler",
        "4",
        (_CLEAR, _SETTINGS, _MEANING),
        {"runs": draws, "records": N, "d": D, "step": STEP, "seed": seed},
        (
            Row(_E1, "mean", *_mean(plain.iterations[0]), *_ITERATIONS_BAND, note="the paper: about 3000"),
            *_extra_rows(names, same, plain),
            *_loss_rows(names, same, plain),
            *_claim_rows(names, same, plain),
            *_kind_rows(names, same, plain),
            *_independent_rows(ind, plain),
            *_plain_rows(same, plain),
            *_noise_rows(accesses, kept),
            *_broken_rows(accesses, kept),
        ),
        _panels(names, same, ind, plain),
    )


def _split(title: str, columns: Sequence[Column], drawn: tuple[int, int], order: str, *, kept: bool) -> list[Task]:
    return [
        Task(f"{title}, columns from {i}", _descents, (*drawn, columns[i : i + _COLUMNS], order, kept))
        for i in range(0, len(columns), _COLUMNS)
    ]


def _descents(
    draws: int, seed: int, columns: Sequence[Column] | None, order: str, kept: bool
) -> tuple[_Array, _Array, _Array]:
    found = descend(draw_sample(seed, draws), columns, order, kept=kept)
    return found.iterations, found.weights, found.losses


# --- E1 to E3 -----------------------------------------------------------------------


def _mean(values: _Array) -> tuple[float, float | None]:
    """Return the mean of the runs, and its standard error where there are two or more runs."""
    error = float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else None
    return float(values.mean()), error


def _extra(iterations: _Array, plain: _Array) -> tuple[float, float | None]:
    """Return the ratio of means less 1, and its standard error: that of the mean of a - (a/b) b, over b."""
    ratio = iterations.mean() / plain.mean()
    _, error = _mean((iterations - ratio * plain) / plain.mean())
    return float(ratio - 1), error


def _relative(found: Descents, column: int, plain: Descents) -> _Array:
    """|L' - L|/L of each run, averaged over checkpoints; shape (R,)."""
    change = np.abs(found.losses[:, column] - plain.losses[:, 0]) / plain.losses[:, 0]
    return np.asarray(change.mean(axis=0), dtype=np.float64)


def _extra_rows(names: list[str], found: Descents, plain: Descents) -> list[Row]:
    rows = []
    for alpha in list(_SDS)[1:]:
        iterations = found.iterations[names.index(alpha)]
        capped = float((iterations == CAP).mean())
        value, error = _extra(iterations, plain.iterations[0])
        band = _EXTRA_BANDS.get(alpha, (None, None))
        note = f"capped: {capped:.0%}" if capped else ""
        rows.append(Row(_EXTRA, f"alpha = {alpha}", value, error, *band, note=note))
    return rows


def _loss_rows(names: list[str], found: Descents, plain: Descents) -> list[Row]:
    rows, losses = [], []
    for alpha in list(_SDS)[1:]:
        loss = _relative(found, names.index(alpha), plain)
        losses.append(loss)
        rows.append(Row(_LOSS, f"alpha = {alpha}", *_mean(loss), *_LOSS_BANDS.get(alpha, (None, None))))
    steps = np.diff([loss.mean() for loss in losses])
    which = list(_SDS)[1 + int(steps.argmin())]
    rows.append(Row(_LOSS, "smallest step", float(steps.min()), None, 0.0, note=f"below alpha = {which}"))
    return rows


def _claim_rows(names: list[str], found: Descents, plain: Descents) -> list[Row]:
    """Return from which alpha on the paper's two numbers hold, of those that are run."""
    extra, loss = [], []
    for alpha in reversed(list(_SDS)[1:]):
        column = names.index(alpha)
        extra.append((alpha, _extra(found.iterations[column], plain.iterations[0])[0]))
        loss.append((alpha, float(_relative(found, column, plain).mean())))
    note = "the paper does not give its alpha"
    return [
        Row(_CLAIMS, f"within {_CLOSE:.0%} more iterations: from alpha =", _from(extra, _CLOSE), note=note),
        Row(_CLAIMS, f"losses within {_NEAR:.1%}: from alpha =", _from(loss, _NEAR), note=note),
    ]


def _from(values: list[tuple[str, float]], most: float) -> float:
    """Return the least alpha from which on no value is above the most that is claimed; infinity if there is none."""
    least = float("inf")
    for alpha, value in reversed(values):
        if value > most:
            break
        least = float(alpha)
    return least


def _panels(names: list[str], same: Descents, ind: Descents, plain: Descents) -> list[Panel]:
    """Return what the section describes: iterations and losses over alpha, and losses as the descent goes on."""
    shown = list(_SDS)[1:][::-1]
    alphas = [float(alpha) for alpha in shown]
    quiet = plain.iterations[0]

    def curve(name: str, pairs: Sequence[tuple[float, float | None]]) -> Series:
        return Series(name, alphas, [value for value, _ in pairs], [error or 0.0 for _, error in pairs])

    def both(of: Callable[[Descents, int], tuple[float, float | None]]) -> list[Series]:
        order = list(_SDS)
        return [
            curve("same order", [of(same, names.index(alpha)) for alpha in shown]),
            curve("another order", [of(ind, order.index(alpha)) for alpha in shown]),
        ]

    def said(name: str, y: float, x: Sequence[float] = alphas) -> Series:
        return Series(f"the paper: {name}", x, [y] * len(x), claimed=True)

    label, counts = "alpha", [float(t) for t in CHECKPOINTS]
    losses = [Series("no noise", counts, *_means(plain.losses[:, 0]))]
    losses += [Series(f"alpha = {a}", counts, *_means(same.losses[:, names.index(a)])) for a in ("10", "5", "2")]
    return [
        Panel(
            "Iterations until the first short gradient",
            label,
            "iterations",
            [*both(lambda found, column: _mean(found.iterations[column])), said("plain descent, about 3000", 3000.0)],
            x_scale="log",
            reference=(("plain descent", float(quiet.mean())),),
        ),
        Panel(
            "Extra iterations",
            label,
            "extra, as a fraction of plain descent's",
            [*both(lambda found, column: _extra(found.iterations[column], quiet)), said("5 %", _CLOSE)],
            x_scale="log",
        ),
        Panel(
            "Loss against plain descent's",
            label,
            "relative difference of losses",
            [*both(lambda found, column: _mean(_relative(found, column, plain))), said("2.4 %", _NEAR)],
            x_scale="log",
            y_scale="log",
        ),
        Panel("Loss, same order", "updates", "mean logistic loss", losses, y_scale="log"),
    ]


def _means(values: _Array) -> tuple[list[float], list[float]]:
    """Return the means over runs and their standard errors, checkpoint by checkpoint."""
    pairs = [_mean(row) for row in values]
    return [mean for mean, _ in pairs], [error or 0.0 for _, error in pairs]


def _kind_rows(names: list[str], found: Descents, plain: Descents) -> list[Row]:
    shown = {"kept": "kept", "scalar": "scalar n", "half-line": "n >= 0, one sign"}
    rows = []
    for kind in _KINDS:
        for alpha in _KIND_ALPHAS:
            column = names.index(f"{kind} {alpha}")
            extra, _ = _extra(found.iterations[column], plain.iterations[0])
            loss = _mean(_relative(found, column, plain))
            rows.append(Row(_KIND, f"alpha = {alpha}, {shown[kind]}", *loss, note=f"extra {extra:+.1%}"))
    return rows


def _independent_rows(found: Descents, plain: Descents) -> list[Row]:
    rows = []
    for column, alpha in enumerate(_SDS):
        iterations = found.iterations[column]
        extra, error = _extra(iterations, plain.iterations[0])
        near = (np.abs(iterations / plain.iterations[0] - 1) <= _CLOSE).mean()
        note = f"loss {_relative(found, column, plain).mean():.1%}; within 5%: {near:.0%}"
        rows.append(Row(_IND, f"alpha = {alpha}", extra, error, note=note))
    return rows


def _plain_rows(found: Descents, plain: Descents) -> list[Row]:
    """Noise of alpha = inf is added like any other, all of it 0, and must change nothing."""
    infinite = list(_SDS).index("inf")
    weights = np.abs(found.weights[:, infinite] - plain.weights[:, 0]).max()
    stops = np.abs(found.iterations[infinite] - plain.iterations[0]).max()
    return [
        Row(_E3, "weights", float(weights), None, 0.0, 0.0),
        Row(_E3, "iterations", float(stops), None, 0.0, 0.0),
    ]


# --- E4 -----------------------------------------------------------------------------


def _noise_rows(fresh: dict[str, float], kept: dict[str, float]) -> list[Row]:
    return [
        Row(_E4, "smallest variance, alpha^2", fresh["low"], None, *_DIAGONAL),
        Row(_E4, "largest variance, alpha^2", fresh["high"], None, *_DIAGONAL),
        Row(_E4, "correlation of coordinates", fresh["coordinates"], None, *_UNCORRELATED),
        Row(_E4, "correlation of accesses", fresh["accesses"], None, *_UNCORRELATED),
        Row(_E4, "once = true: difference", kept["difference"], None, 0.0, 0.0),
    ]


def _broken_rows(fresh: dict[str, float], kept: dict[str, float]) -> list[Row]:
    rows = [
        (kept["accesses"], "kept: accesses"),
        (fresh["scalar"], "scalar n: coordinates"),
        (fresh["one sign"], "n >= 0, one sign: coordinates"),
    ]
    return [Row(_BROKEN, name, value, None, *_UNCORRELATED, broken=True) for value, name in rows]
