"""Bixler, section 4: descent on noisy examples against plain descent, on 5000 simulated records.

The section has no figure and no table, and does not give the model, its dimension, the step and the noise. With the
settings here plain descent needs about 3000 iterations, as the paper reports. The bands are computed from the draws of
another program of a few lines with these settings. ``docs/reproduction/bixler.md`` compares both with the paper.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

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
from masquerade_lab.reproduce.telling import Reference, judged, reference

__all__ = ["section_4"]

_SDS = {
    "inf": 0.0,
    "100": 0.01,
    "20": 0.05,
    "10": 0.1,
    "6.7": 0.15,
    "5": 0.2,
    "4": 0.25,
    "3.3": 0.3,
    "2": 0.5,
    "1": 1.0,
}
"""1/alpha by alpha, as it is shown."""
_HALVES = {"10": "20", "5": "10", "3.3": "6.7", "2": "4", "1": "2"}
"""Where half of the noise is that of another alpha here."""
_KINDS: dict[Kind, str] = {"kept": "kept noise", "scalar": "scalar n", "half-line": "n >= 0, one sign"}
_KIND_ALPHAS = ("10", "5")
_CLOSE = 0.05  # "within a tolerable amount of extra iterations (5%)"
_NEAR = 0.024  # "within an average of 2.4% of one another"
_COLUMNS = 3  # noises in one task

_E4_EPOCHS = 100

_E1 = "E1: iterations of plain descent"
_EXTRA = "E2: extra iterations, same order"
_LOSS = "E2: loss against plain descent's, same order"
_SPREAD = "E2: how far a run's loss lies from the mean of all runs, same order"
_CLAIMS = "The paper's two numbers, same order: the alpha at which each is reached"
_IND = "What the paper compared, a run in another order: extra iterations"
_E3 = "E3: alpha = inf against plain descent, largest difference"
_E4 = "E4: the noise of 100,000 accesses, alpha = 10"
_NO, _HALF, _HALF_STEP = "no noise", "half of the noise", "half of the step"
_UNSEEN: dict[str, dict[str, tuple[str, ...]]] = {
    "extra": {"100": (_NO,), "20": (_NO,), "10": (_NO, _HALF), "6.7": (_NO,), "5": (_HALF,)},
    "loss": dict.fromkeys(_KIND_ALPHAS, tuple(_KINDS.values())),
    "spread": dict.fromkeys(_KIND_ALPHAS, (_KINDS["kept"],)),
}
"""What a band cannot show, by alpha; each of these mistakes is caught by another band."""

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
_Index = NDArray[np.intp]


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
        Task(f"plain descent, {_HALF_STEP}", _descents, (draws, seed, None, order, False, STEP / 2)),
        Task("noise of the accesses", fresh_noise, (seed, _E4_EPOCHS), 2.0),
        Task("noise that records keep", kept_noise, (seed,), 0.2),
        *_split("the same order", [*fresh, *others], (draws, seed), order, kept=True),
        *_split("another order", fresh, (draws, seed), another, kept=False),
    ]
    first, slow, accesses, kept, *rest = run_tasks(tasks)
    half = -(-len(names) // _COLUMNS)
    same, plain, ind = beside(rest[:half]), beside([first]), beside(rest[half:])
    return Report(
        "bixler",
        "4",
        (_CLEAR, _SETTINGS, _MEANING),
        {"runs": draws, "records": N, "d": D, "step": STEP, "seed": seed},
        (
            *judged(
                _E1,
                "mean",
                plain.iterations[0],
                _expected("iterations"),
                {_HALF_STEP: slow[0][0]},
                note="the paper: about 3000",
            ),
            *_over_alpha(_EXTRA, "extra", names, _extras(same, plain), capped=(same.iterations == CAP).mean(axis=1)),
            *_over_alpha(_LOSS, "loss", names, _relatives(same, plain)),
            *_spread_rows(names, _relatives(same, plain)),
            *_claim_rows(same, plain),
            *_independent_rows(ind, plain),
            *_plain_rows(same, plain),
            *_noise_rows(accesses, kept),
        ),
        _panels(names, same, ind, plain),
    )


def _split(title: str, columns: Sequence[Column], drawn: tuple[int, int], order: str, *, kept: bool) -> list[Task]:
    return [
        Task(f"{title}, columns from {i}", _descents, (*drawn, columns[i : i + _COLUMNS], order, kept))
        for i in range(0, len(columns), _COLUMNS)
    ]


def _descents(
    draws: int, seed: int, columns: Sequence[Column] | None, order: str, kept: bool, step: float = STEP
) -> tuple[_Array, _Array, _Array]:
    found = descend(draw_sample(seed, draws), columns, order, kept=kept, step=step)
    return found.iterations, found.weights, found.losses


# --- E1 to E3 -----------------------------------------------------------------------


def _mean(values: _Array) -> tuple[float, float | None]:
    """Return the mean of the runs, and its standard error where there are two or more runs."""
    error = float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else None
    return float(values.mean()), error


def _expected(quantity: str) -> Reference | None:
    return reference("bixler 4", quantity)


def _extra(iterations: _Array, plain: _Array) -> _Array:
    """Return a value for each run: their mean is the ratio of means less 1, and they scatter as the ratio does."""
    ratio = iterations.mean() / plain.mean()
    return np.asarray(ratio - 1 + (iterations - ratio * plain) / plain.mean())


def _extras(found: Descents, plain: Descents) -> _Array:
    """Return every column's extra iterations, shape (columns, R)."""
    return np.array([_extra(iterations, plain.iterations[0]) for iterations in found.iterations])


def _relatives(found: Descents, plain: Descents) -> _Array:
    """|L' - L|/L of every column and run, averaged over checkpoints; shape (columns, R)."""
    change = np.abs(found.losses - plain.losses) / plain.losses
    return np.asarray(change.mean(axis=0), dtype=np.float64)


def _over_alpha(
    table: str, quantity: str, names: list[str], values: _Array, capped: _Array | None = None
) -> Iterator[Row]:
    """Yield a row for each alpha, beside what less noise and broken samplers give."""
    for alpha in list(_SDS)[1:]:
        column = names.index(alpha)
        mistakes = {_NO: values[names.index("inf")]}
        if alpha in _HALVES:
            mistakes[_HALF] = values[names.index(_HALVES[alpha])]
        if alpha in _KIND_ALPHAS and quantity == "loss":
            mistakes |= {said: values[names.index(f"{kind} {alpha}")] for kind, said in _KINDS.items()}
        note = f"capped: {capped[column]:.0%}" if capped is not None and capped[column] else ""
        hidden = _UNSEEN[quantity].get(alpha, ())
        yield from _judged(
            table, f"alpha = {alpha}", f"{quantity}, alpha = {alpha}", values[column], mistakes, hidden, note
        )


def _judged(
    table: str,
    name: str,
    quantity: str,
    values: _Array,
    mistakes: Mapping[str, _Array],
    hidden: Collection[str],
    note: str = "",
) -> list[Row]:
    return judged(
        table,
        name,
        values,
        _expected(quantity),
        {mistake: found for mistake, found in mistakes.items() if mistake not in hidden},
        unseen={mistake: found for mistake, found in mistakes.items() if mistake in hidden},
        note=note,
    )


def _spread_rows(names: list[str], losses: _Array) -> Iterator[Row]:
    """Yield how far runs lie apart, which tells samplers apart whose mean losses are the right ones."""
    away = np.abs(losses - losses.mean(axis=1, keepdims=True))
    for alpha in _KIND_ALPHAS:
        mistakes = {said: away[names.index(f"{kind} {alpha}")] for kind, said in _KINDS.items()}
        quantity = f"spread, alpha = {alpha}"
        hidden = _UNSEEN["spread"].get(alpha, ())
        yield from _judged(_SPREAD, f"alpha = {alpha}", quantity, away[names.index(alpha)], mistakes, hidden)


def _claim_rows(found: Descents, plain: Descents) -> Iterator[Row]:
    """Yield the alphas at which the paper's two numbers are reached; with half of the noise, alpha is half as large."""
    columns = slice(1, len(_SDS))
    iterations, losses = found.iterations[columns], _relatives(found, plain)[columns]

    def extra(on: _Index) -> float:
        return _crossing(iterations[:, on].mean(axis=1) / plain.iterations[0, on].mean() - 1, _CLOSE)

    def loss(on: _Index) -> float:
        return _crossing(losses[:, on].mean(axis=1), _NEAR)

    note = "the paper does not give its alpha"
    for name, quantity, of in (
        ("5% more iterations", "alpha of 5 %", extra),
        ("losses apart by 2.4%", "alpha of 2.4 %", loss),
    ):
        alphas = _jackknifed(of, iterations.shape[1])
        mistakes = {_NO: 0 * alphas, _HALF: alphas / 2}
        yield from _judged(_CLAIMS, name, quantity, alphas, mistakes, (), note)


def _crossing(values: _Array, level: float) -> float:
    """Return the alpha at which values, by falling alpha, first exceed a level; 0 if none does.

    Between two alphas the values are taken to be linear in the noise's variance.
    """
    if not (values > level).any():
        return 0.0
    variances = np.array([0.0, *(sd**2 for sd in list(_SDS.values())[1:])])
    known = np.array([0.0, *values])
    above = int((known > level).argmax())
    part = (level - known[above - 1]) / (known[above] - known[above - 1])
    return float((variances[above - 1] + part * (variances[above] - variances[above - 1])) ** -0.5)


def _jackknifed(of: Callable[[_Index], float], runs: int) -> _Array:
    """Return a value for each run, R f - (R - 1) f_r: their mean is f less its bias, and they scatter as f does.

    f_r is f without run r. A single run gives f itself.
    """
    every = np.arange(runs)
    if runs == 1:
        return np.array([of(every)])
    whole = of(every)
    return np.array([runs * whole - (runs - 1) * of(np.delete(every, run)) for run in every])


def _panels(names: list[str], same: Descents, ind: Descents, plain: Descents) -> list[Panel]:
    """Return what the section describes: iterations and losses over alpha, and losses as the descent goes on."""
    shown = list(_SDS)[1:][::-1]
    alphas = [float(alpha) for alpha in shown]
    quiet = plain.iterations[0]

    def curve(name: str, values: _Array, order: list[str]) -> Series:
        pairs = [_mean(values[order.index(alpha)]) for alpha in shown]
        return Series(name, alphas, [value for value, _ in pairs], [error or 0.0 for _, error in pairs])

    def both(of: Callable[[Descents], _Array]) -> list[Series]:
        return [curve("same order", of(same), names), curve("another order", of(ind), list(_SDS))]

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
            [*both(lambda found: found.iterations), said("plain descent, about 3000", 3000.0)],
            x_scale="log",
            reference=(("plain descent", float(quiet.mean())),),
        ),
        Panel(
            "Extra iterations",
            label,
            "extra, as a fraction of plain descent's",
            [*both(lambda found: _extras(found, plain)), said("5 %", _CLOSE)],
            x_scale="log",
        ),
        Panel(
            "Loss against plain descent's",
            label,
            "relative difference of losses",
            [*both(lambda found: _relatives(found, plain)), said("2.4 %", _NEAR)],
            x_scale="log",
            y_scale="log",
        ),
        Panel("Loss, same order", "updates", "mean logistic loss", losses, y_scale="log"),
    ]


def _means(values: _Array) -> tuple[list[float], list[float]]:
    """Return the means over runs and their standard errors, checkpoint by checkpoint."""
    pairs = [_mean(row) for row in values]
    return [mean for mean, _ in pairs], [error or 0.0 for _, error in pairs]


def _independent_rows(found: Descents, plain: Descents) -> list[Row]:
    rows, losses = [], _relatives(found, plain)
    for column, alpha in enumerate(_SDS):
        iterations = found.iterations[column]
        near = (np.abs(iterations / plain.iterations[0] - 1) <= _CLOSE).mean()
        note = f"loss {losses[column].mean():.1%}; within 5%: {near:.0%}"
        rows.append(Row(_IND, f"alpha = {alpha}", *_mean(_extra(iterations, plain.iterations[0])), note=note))
    return rows


def _plain_rows(found: Descents, plain: Descents) -> list[Row]:
    """Noise of alpha = inf is added like any other, all of it 0, and must change nothing."""
    rows = []
    for alpha, broken in (("inf", False), ("100", True)):
        column, after = list(_SDS).index(alpha), ": alpha = 100" if broken else ""
        weights = np.abs(found.weights[:, column] - plain.weights[:, 0]).max()
        stops = np.abs(found.iterations[column] - plain.iterations[0]).max()
        rows.append(Row(_E3, f"weights{after}", float(weights), None, 0.0, 0.0, broken))
        rows.append(Row(_E3, f"iterations{after}", float(stops), None, 0.0, 0.0, broken))
    return rows


# --- E4 -----------------------------------------------------------------------------


def _noise_rows(fresh: dict[str, _Array], kept: dict[str, _Array]) -> list[Row]:
    """Return what the protocol's own noise must be, beside broken samplers."""
    smaller = {name: {_NO: 0 * fresh[name], _HALF: fresh[name] / 4} for name in ("low", "high")}
    quantities = {
        "low": ("smallest variance, alpha^2", smaller["low"]),
        "high": ("largest variance, alpha^2", smaller["high"]),
        "coordinates": (
            "largest correlation of two coordinates, without its sign",
            {_KINDS["scalar"]: fresh["scalar"], _KINDS["half-line"]: fresh["one sign"]},
        ),
        "accesses": ("correlation of accesses", {_KINDS["kept"]: kept["accesses"]}),
    }
    rows = []
    for key, (name, broken) in quantities.items():
        rows += judged(_E4, name, fresh[key], _expected(f"E4 {key}"), broken)
    same = "once = true: difference"
    return [
        *rows,
        Row(_E4, same, float(kept["difference"].max()), None, 0.0, 0.0),
        Row(_E4, f"{same}: noise drawn anew", float(fresh["difference"].max()), None, 0.0, 0.0, broken=True),
    ]
