"""Bixler, section 4: descent on noisy examples against plain descent, on 5000 simulated records.

The section has no figure and no table, and does not give the model, its dimension, the step and the noise. With the
settings here plain descent needs about 3000 iterations, as the paper reports. The bands are computed from the draws of
another program of a few lines with these settings. ``docs/reproduction/bixler.md`` compares both with the paper.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, ndtri

from masquerade_core.learning.input_noise import epochs_of, fresh_accesses, kept_accesses
from masquerade_core.simulation_rng import SimulationRng
from masquerade_lab.reproduce.engine.judging import Reference, judged, reference
from masquerade_lab.reproduce.engine.report import Panel, Report, Row, Series
from masquerade_lab.reproduce.engine.tasks import RunTasks, Task

__all__ = [
    "CAP",
    "CHECKPOINTS",
    "STEP",
    "Column",
    "D",
    "Descents",
    "Kind",
    "N",
    "Sample",
    "beside",
    "descend",
    "draw_sample",
    "fresh_noise",
    "kept_noise",
    "section_4",
]

# --- Runs -----------------------------------------------------------------------------

D = 10
N = 5000
STEP = 0.02
TOLERANCE = 1e-5
CAP = 12_000
CHECKPOINTS = tuple(range(500, 5001, 500))

Kind = Literal["fresh", "kept", "scalar", "half-line"]

_Array = NDArray[np.float64]
_Index = NDArray[np.intp]


def _normals(rng: SimulationRng, *shape: int) -> _Array:
    """Return standard normals, each from 53 bits of the seed's stream."""
    return np.asarray(ndtri(_uniforms(rng, *shape)), dtype=np.float64)


def _uniforms(rng: SimulationRng, *shape: int) -> _Array:
    words = np.frombuffer(rng.bytes(8 * int(np.prod(shape))), dtype="<u8")
    return np.asarray(((words >> 11) + 0.5) / 2**53, dtype=np.float64).reshape(shape)


@dataclass(frozen=True)
class Sample:
    """The records and the starting points that all columns of a run share.

    Parameters
    ----------
    X, y : ndarray, shape (R, N, d) and (R, N)
        x ~ N(0, I), and labels sign(u.x); each run has its own direction u.
    start : ndarray, shape (R, d)
        w_0, uniform in [-1, 1]^d.
    """

    X: _Array
    y: _Array
    start: _Array


def draw_sample(seed: int, runs: int) -> Sample:
    """Draw the data sets and starting points of some runs; more runs leave the first ones as they are."""
    X, y, start = np.empty((runs, N, D)), np.empty((runs, N)), np.empty((runs, D))
    for r in range(runs):
        rng = SimulationRng(seed, f"bixler {r}")
        X[r] = _normals(rng, N, D)
        y[r] = np.where(X[r] @ _normals(rng, D) > 0, 1.0, -1.0)
        start[r] = 2 * _uniforms(rng, D) - 1
    return Sample(X, y, start)


@dataclass(frozen=True)
class Column:
    """One noise: its standard deviation, 1/alpha, and how it is drawn.

    "fresh": n ~ N(0, I/alpha^2) at every access. "kept": once for each record. "scalar": one number for all
    coordinates. "half-line": n >= 0 in every coordinate, and one sign R for all.
    """

    sd: float
    kind: Kind = "fresh"


@dataclass(frozen=True)
class Descents:
    """The results of C columns in each of R runs.

    Parameters
    ----------
    iterations : ndarray, shape (C, R)
        Updates until a gradient was shorter than 1e-5; ``CAP`` where none was.
    weights : ndarray, shape (10, C, R, d)
        At the checkpoints, whether a run had stopped before or not.
    losses : ndarray, shape (10, C, R)
        The mean logistic loss on the data without noise, there.
    """

    iterations: _Array
    weights: _Array
    losses: _Array


def descend(
    sample: Sample, columns: Sequence[Column] | None, seed: str, *, kept: bool = False, step: float = STEP
) -> Descents:
    """Run equation (8) with examples drawn uniformly, in the same order for all columns of a run.

    Parameters
    ----------
    columns : sequence of Column or None
        None: one column, of plain descent.
    seed : str
        Of order and noise.
    kept : bool
        Whether noise that records keep is drawn, even if no column needs it. The noise after it is then the same as
        that beside such columns.
    step : float
    """
    R, C = len(sample.start), 1 if columns is None else len(columns)
    runs, rng, order = np.arange(R), SimulationRng(seed, "noise"), SimulationRng(seed, "order")
    noise = None if columns is None else _noise(columns, rng, R, kept=kept)
    w = np.repeat(sample.start[None], C, axis=0)
    iterations, weights, losses = np.full((C, R), float(CAP)), [], []
    for t in range(1, CAP + 1):
        i = (_uniforms(order, R) * N).astype(np.intp)
        x, y = sample.X[runs, i], sample.y[runs, i]
        noisy = x[None] if noise is None else x + noise(i)
        margins = y * np.einsum("crd,crd->cr", noisy, w)
        gradient = -(expit(-margins) * y)[..., None] * noisy
        iterations[(iterations == CAP) & (np.linalg.norm(gradient, axis=-1) < TOLERANCE)] = t
        w = w - step * gradient
        if t in CHECKPOINTS:
            weights.append(w)
            losses.append(_loss(sample, w))
        if t >= CHECKPOINTS[-1] and (iterations < CAP).all():
            break
    return Descents(iterations, np.array(weights), np.array(losses))


def beside(found: Sequence[tuple[_Array, _Array, _Array]]) -> Descents:
    """Return the columns of several descents on one sample together."""
    iterations, weights, losses = zip(*found, strict=True)
    return Descents(np.concatenate(iterations), np.concatenate(weights, axis=1), np.concatenate(losses, axis=1))


def _noise(columns: Sequence[Column], rng: SimulationRng, R: int, *, kept: bool = False) -> Callable[[_Index], _Array]:
    """Return what draws the noise on the records ``i`` of all runs, shape (C, R, d); columns share their normals."""
    runs = np.arange(R)
    asked = kept or any(c.kind == "kept" for c in columns)
    each = np.array([_normals(rng, N, D) for _ in range(R)]) if asked else None

    def draw(i: _Index) -> _Array:
        drawn = _normals(rng, R, D + 1)
        fresh, sign = drawn[:, :D], np.sign(drawn[:, D:])
        by_kind = {"fresh": fresh, "scalar": np.repeat(fresh[:, :1], D, axis=1), "half-line": np.abs(fresh) * sign}
        if each is not None:
            by_kind["kept"] = each[runs, i]
        return np.array([c.sd * by_kind[c.kind] for c in columns])

    return draw


def _loss(sample: Sample, w: _Array) -> _Array:
    return np.array(
        [
            np.logaddexp(0.0, -sample.y[r] * (w[:, r] @ sample.X[r].T)).mean(axis=1)  # (C, N)
            for r in range(len(sample.start))
        ]
    ).T


# --- How often a record is used -------------------------------------------------------

_ALPHA = 10
_RECORDS = 1000
_BATCH = 100
_SETS = 2


def _accessed(seed: int, epochs: int, *, once: bool) -> _Array:
    """Return the noise of every access, shape (epochs, records, d): labels carry the records' numbers."""
    rng = SimulationRng(seed, f"bixler accesses, once = {once}")
    X = np.full((_RECORDS, D), 1 / 8)  # on the grid, and in the unit ball
    numbers = np.arange(_RECORDS, dtype=np.float64)
    door = kept_accesses if once else fresh_accesses
    batches = epochs_of(rng, _RECORDS, epochs, _BATCH)
    noise, met = np.empty((epochs, _RECORDS, D)), np.zeros(_RECORDS, dtype=np.intp)
    for x, number in door(rng, X, numbers, batches, Fraction(_ALPHA), "gaussian"):
        i = number.astype(np.intp)
        noise[met[i], i] = x - X[i]
        met[i] += 1
    return noise


def fresh_noise(seed: int, epochs: int) -> dict[str, _Array]:
    """Return what E4 asks of noise that is new at every access, and what it would be for broken samplers.

    Returns
    -------
    dict of ndarray, shape (sets,)
        A set is half of the epochs.
    """
    noise = _accessed(seed, epochs, once=False)
    sets = np.split(noise, _SETS)
    variances = np.array([one.reshape(-1, D).var(axis=0) * _ALPHA**2 for one in sets])
    scalar = [np.repeat(one[..., :1], D, axis=-1) for one in sets]
    one_sign = [np.abs(one) * np.sign(one[..., :1]) for one in sets]
    return {
        "low": variances.min(axis=1),
        "high": variances.max(axis=1),
        "coordinates": _each(_apart, sets),
        "accesses": _each(_pairs, sets),
        "scalar": _each(_apart, scalar),
        "one sign": _each(_apart, one_sign),
        "difference": _each(_difference, sets),
    }


def kept_noise(seed: int) -> dict[str, _Array]:
    """Return how two accesses of noise that a record keeps differ, and how they are correlated.

    Returns
    -------
    dict of ndarray, shape (sets,)
        A set is half of the records.
    """
    sets = np.split(_accessed(seed, 2, once=True), _SETS, axis=1)
    return {"difference": _each(_difference, sets), "accesses": _each(_pairs, sets)}


def _each(of: Callable[[_Array], float], sets: Sequence[_Array]) -> _Array:
    return np.array([of(one) for one in sets])


def _difference(noise: _Array) -> float:
    """Return the largest difference between the first two accesses of a record."""
    return float(np.abs(noise[0] - noise[1]).max())


def _apart(noise: _Array) -> float:
    """Return the largest correlation of two coordinates, without its sign."""
    correlations = np.asarray(np.corrcoef(noise.reshape(-1, D).T))
    return float(np.abs(correlations[~np.eye(D, dtype=bool)]).max())


def _pairs(noise: _Array) -> float:
    """Return the correlation of two successive accesses of one record, over all coordinates."""
    return float(np.corrcoef(noise[::2].ravel(), noise[1::2].ravel())[0, 1])


# --- Figures --------------------------------------------------------------------------

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
"""The mistakes that a band cannot show, by alpha; another band catches each of them."""

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
    return judged(table, name, values, _expected(quantity), mistakes, hidden=hidden, note=note)


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
