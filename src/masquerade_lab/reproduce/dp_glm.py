"""``dp-glm`` on made-up records whose coefficients are known: how often an interval covers them, and how wide it is.

No paper prints these figures. Coverage has the bands that the protocol promises, and widths were measured before by an
independent implementation in floating point. ``docs/reproduction/dp-glm.md`` has the tables.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from math import sqrt
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from masquerade.datasets import breast_cancer
from masquerade.draft import Draft, throwaway_key
from masquerade_core.coefficients import Coefficient
from masquerade_core.data.schema import Covariates, Dataset, Encoder
from masquerade_core.simulation_rng import SimulationRng
from masquerade_core.study import Feature, Label, Study
from masquerade_lab.originals import Table, adult_below
from masquerade_lab.reproduce.engine.report import Panel, Report, Row, Series
from masquerade_lab.reproduce.engine.tasks import RunTasks, Task
from masquerade_protocols.blocks.adaptive_sums import draw_noise, rounded
from masquerade_protocols.blocks.clear_sums import finished
from masquerade_protocols.dp_glm import roles, vectors
from masquerade_protocols.dp_glm.estimates import Design, Point, Step, logistic, next_point
from masquerade_protocols.dp_glm.public import Plan

__all__ = [
    "CELLS",
    "GRID",
    "SHORT",
    "Cell",
    "Square",
    "breast_cancer_records",
    "census_records",
    "covered",
    "figure_1",
    "figure_2",
    "figure_3",
    "fitted_by_squares",
    "fitted_freely",
    "learn_in_clear",
    "records_of",
    "study_of",
]

PARTIES = 5
COLLUDERS = 1
_CHUNK = 10  # runs of a task

_Array = NDArray[np.float64]


@dataclass(frozen=True)
class Cell:
    """One setting that is run many times.

    Parameters
    ----------
    name : str
    N : int
    epsilon, delta : float
    intercept : float
        The true intercept; -3.95 makes 2.7 % of labels positive.
    ratio : float or None
        How many times wider than without noise an interval was before, at as much noise; None where nothing is told.
    mistake : str
        What is done wrong; empty where nothing is.
    weights : float or None
        The bound c of the last two steps, where it is not chosen from histograms.
    errors : str
        The errors of a linear model: "normal", "t" with four degrees of freedom, or "exponential"; empty for a logistic
        one.
    """

    name: str
    N: int
    epsilon: float = 1.0
    delta: float = 1e-6
    intercept: float = -0.5
    ratio: float | None = None
    mistake: str = ""
    weights: float | None = None
    errors: str = ""

    @property
    def study(self) -> Study:
        """Its study."""
        return study_of(self.epsilon, self.delta, linear=bool(self.errors))


def _beside_colluders(ratio: float) -> float:
    """Return a ratio that was measured with all of mu^2 as it is with h/K of it."""
    return sqrt(1 + (ratio**2 - 1) * PARTIES / (PARTIES - COLLUDERS))


CUT = "scores are cut, and not weighted"

CELLS = (
    Cell("N = 30,000, epsilon = 1", 30_000, ratio=_beside_colluders(1.24)),
    Cell("N = 10,000, epsilon = 1", 10_000, ratio=_beside_colluders(1.52)),
    Cell("N = 30,000, epsilon = .3", 30_000, epsilon=0.3, ratio=_beside_colluders(2.20)),
    Cell("N = 30,000, 2.7 % positive", 30_000, intercept=-3.95, ratio=_beside_colluders(3.20)),
    Cell("N = 3,000, epsilon = .3", 3_000, epsilon=0.3, delta=1e-5),
    Cell("N = 1,000, epsilon = 1", 1_000, delta=1e-5),
    Cell("linear, N = 30,000, epsilon = 1", 30_000, ratio=_beside_colluders(1.67), errors="normal"),
    Cell("linear, N = 30,000, errors of t4", 30_000, ratio=_beside_colluders(1.92), errors="t"),
    Cell("linear, N = 30,000, exponential errors", 30_000, ratio=_beside_colluders(2.07), errors="exponential"),
    Cell("linear, N = 10,000, epsilon = 1", 10_000, ratio=_beside_colluders(2.16), errors="normal"),
    Cell("linear, N = 30,000, epsilon = .3", 30_000, epsilon=0.3, ratio=_beside_colluders(3.40), errors="normal"),
    Cell("linear, N = 1,000, epsilon = 1", 1_000, delta=1e-5, errors="normal"),
)

SHORT = (
    Cell("N = 30,000, c = .35, weights", 30_000, weights=0.35),
    Cell("N = 30,000, c = .35, cut scores", 30_000, weights=0.35, mistake=CUT),
)
"""Both have the same bound on a record's score, which is less than nearly every score, and the same noise."""

# --- The design ------------------------------------------------------------------

_BOUNDS = np.array([4.0, 4.0, 10.0, 10.0, 4.0])
_BOUND = 10.0  # of the label of a linear model
_BETA = np.array([0.5, -0.4, 0.3, 0.0, 0.2, 0.8, -0.5, 0.4, -0.3])
FEATURES = (
    *(Feature(name=f"x{i}", min=-bound, max=bound) for i, bound in enumerate(_BOUNDS.tolist(), 1)),
    Feature(name="rare", levels=("no", "yes")),
    Feature(name="common", levels=("no", "yes")),
    Feature(name="kind", levels=("a", "b", "c")),
)
"""Ten coefficients: five correlated normals of sd 1, two of them with bounds that are much too wide; a level of 5 % of
records, one of 30 %, and a column of three levels."""


def records_of(cell: Cell, *seed: int) -> Dataset:
    """Draw records of a cell."""
    rng = np.random.default_rng(seed)  # noqa: TID251  it draws records, and releases nothing
    places = np.arange(len(_BOUNDS))
    root = np.linalg.cholesky(0.3 ** np.abs(places[:, None] - places))
    normals = np.clip(rng.standard_normal((cell.N, len(places))) @ root.T, -_BOUNDS, _BOUNDS)
    kind = rng.choice(3, cell.N, p=[0.5, 0.3, 0.2])
    levels = [rng.random(cell.N) < 0.05, rng.random(cell.N) < 0.3, kind == 1, kind == 2]  # noqa: PLR2004
    own = np.column_stack([normals, *levels]).astype(np.float64)
    predictor = cell.intercept + own @ _BETA
    if cell.errors:
        if cell.errors == "normal":
            errors = rng.standard_normal(cell.N)
        else:
            errors = rng.standard_t(4, cell.N) if cell.errors == "t" else rng.standard_exponential(cell.N) - 1
        y = np.clip(predictor + errors, -_BOUND, _BOUND) / _BOUND
    else:
        y = np.where(rng.random(cell.N) < logistic(predictor), 1.0, -1.0)
    own[:, : len(places)] /= _BOUNDS
    return Covariates(own, y)


@cache
def study_of(epsilon: float, delta: float, features: tuple[Feature, ...] = FEATURES, *, linear: bool = False) -> Study:
    """Return a study of five parties, one of which may side with Charlie."""
    draft = Draft(
        parties=[(f"party-{k}", throwaway_key()) for k in range(1, PARTIES + 1)],
        curator_key=throwaway_key(),
        protocol="dp-glm",
        epsilon=epsilon,
        delta=delta,
        colluders=COLLUDERS,
        min_records=2,
        features=list(features),
        key_bits=512,
    )
    study = Study.parse(draft.to_toml(), "this table's settings", in_memory=True)
    if not linear:
        return study
    label = Label(name=study.label.name, min=-_BOUND, max=_BOUND)
    return study.model_copy(update={"label": label, "protocol": {"family": "linear"}})


@cache
def breast_cancer_records() -> tuple[tuple[Feature, ...], Dataset]:
    """Return the columns and all 569 records of the Wisconsin diagnostic data, which scikit-learn bundles."""
    cohort = breast_cancer(PARTIES)
    rows = np.array([row for part in (cohort.test, *cohort.parties.values()) for row in part.rows])
    own = rows[:, :-1].astype(float)
    low, high = (np.array([float(getattr(f, end) or 0) for f in cohort.features]) for end in ("min", "max"))
    y = np.where(rows[:, -1] == cohort.label.positive, 1.0, -1.0)
    return cohort.features, Covariates(np.clip((2 * own - low - high) / (high - low), -1, 1), y)


# --- A run -----------------------------------------------------------------------


class _InTheClear:
    """Somebody who has all records and all shares of noise: nobody has to agree."""

    def __init__(self, plan: Plan, data: Dataset, label: str, *, cut: bool) -> None:
        self._plan, self._data, self._label, self._cut = plan, data, label, cut
        self._noise: tuple[NDArray[np.int64], ...] | None = None  # where no sum is opened, none is drawn

    async def stage(self, name: str) -> None:
        """Say nothing."""

    async def progress(self, done: int, total: int) -> None:
        """Say nothing."""

    async def total(self, label: str, length: int, unit: int, own: Any, products: int = 0) -> _Array:
        """Return the noisy mean."""
        if self._cut and label.startswith("step"):
            own = partial(own, rows=partial(_cut_scores, **own.keywords["rows"].keywords))
        of_products, of_others = self._drawn() if self._noise is None else self._noise
        noise = np.concatenate([of_products[:products], of_others[: length - products]])
        self._noise = of_products[products:], of_others[length - products :]
        return np.asarray((own(self._data) + noise) / (float(unit) * self._plan.N))

    def _drawn(self) -> tuple[NDArray[np.int64], ...]:
        """Draw the noise of all sums, that of products first."""
        rngs = [SimulationRng(self._label, f"party {k}") for k in range(1, PARTIES + 1)]
        shares = [np.frombuffer(draw_noise(rng, self._plan.numbers_drawn), dtype="<i8") for rng in rngs]
        return tuple(np.split(np.sum(shares, axis=0), [self._plan.numbers_drawn[0]]))

    async def agree(self, own: _Array, *, unsure: bool = False) -> _Array:
        """Go on from one's own numbers, on the grid on which Charlie sends them."""
        del unsure
        return np.frombuffer(rounded(own), dtype="<i8") / 2.0**32

    async def agree_on_many(self, length: int, own: Callable[[], tuple[_Array, bool]]) -> _Array:
        """Go on from one's own numbers, as :meth:`agree` does."""
        del length
        return await self.agree(own()[0])


def learn_in_clear(study: Study, data: Dataset, label: str, *, cut: bool = False) -> tuple[Coefficient, ...]:
    """Run the steps on everybody's records, with shares of noise that follow from a label; ``cut`` is a mistake."""
    plan = Plan(study, data.n)
    found = finished(roles.learn(_InTheClear(plan, data, label, cut=cut), plan)).coefficients
    return found.rows if found is not None else ()


def fitted_freely(data: Dataset, halves: _Array, middles: _Array | float = 0.0) -> tuple[_Array, _Array]:
    """Return coefficients and standard errors of the logistic fit without noise, in own units; each of shape (d,).

    A column's own numbers are ``middles`` + ``halves`` times its covariates.
    """
    A, y = np.column_stack([np.ones(data.n), middles + data.X * halves]), (data.y + 1) / 2
    theta, H = np.zeros(A.shape[1]), np.eye(A.shape[1])
    for _ in range(25):
        p = logistic(A @ theta)
        H = (A * (p * (1 - p))[:, None]).T @ A
        theta = theta + np.linalg.solve(H, A.T @ (y - p))
    return theta, np.sqrt(np.diag(np.linalg.inv(H)))


def fitted_by_squares(data: Dataset, halves: _Array) -> tuple[_Array, _Array]:
    """Return the same of least squares."""
    A, y = np.column_stack([np.ones(data.n), data.X * halves]), data.y * _BOUND
    inverse = np.linalg.inv(A.T @ A)
    theta = inverse @ (A.T @ y)
    residuals = y - A @ theta
    return theta, np.sqrt(np.diag(inverse) * (residuals @ residuals) / (data.n - A.shape[1]))


def _cut_scores(u: _Array, y: _Array, design: Design, point: Point, number: int) -> _Array:
    """Return a step's vectors with scores cut to C in place of weights: what is cut depends on the label."""
    rows = vectors.step(design, point, number)(u, y)
    x = design.x(u)
    d, p = x.shape[1], logistic(x @ point.theta)
    scores = ((y + 1) / 2 - p)[:, None] * x / point.C
    scores /= np.maximum(1, np.sqrt((scores * scores).sum(axis=1)))[:, None]
    om = p * (1 - p)
    parts = om / np.maximum(point.CH, om * (x * x).sum(axis=1))
    first, second = np.triu_indices(d, 1)
    pairs = len(first)
    rows[:, :pairs] = x[:, first] * x[:, second] * parts[:, None]
    rows[:, 2 * pairs : 2 * pairs + d] = scores
    rows[:, 2 * pairs + d : 2 * pairs + 2 * d] = x * x * parts[:, None]
    return rows


def _bounded_by(c: float) -> Callable[..., Point]:
    """Return the choice of the next point with another bound on a record's score: c sqrt(d)."""

    def chosen(plan: Plan, step: Step, before: Point | None = None) -> Point:
        point = next_point(plan, step, before)
        return Point(point.theta, c * sqrt(plan.d), point.CH, unsure=point.unsure)

    return chosen


def _coverage(cell: Cell, first: int, runs: int, seed: int) -> dict[str, list[list[float]]]:
    """Return for each run and coefficient whether it was told, whether it was covered, and its width ratio."""
    truth = np.append(cell.intercept, _BETA)
    halves = np.append(_BOUNDS, np.ones(len(_BETA) - len(_BOUNDS)))
    study = cell.study
    told, hit, ratios = [], [], []
    choose = next_point if cell.weights is None else _bounded_by(cell.weights)
    with patch.object(roles, "next_point", choose):
        for run in range(first, first + runs):
            data = records_of(cell, seed, run, cell.N)
            rows = learn_in_clear(study, data, f"dp-glm {seed} {cell.name} {run}", cut=bool(cell.mistake))
            _, free = (fitted_by_squares if cell.errors else fitted_freely)(data, halves)
            told.append([float(row.told) for row in rows])
            hit.append([float(_covers(row, true)) for row, true in zip(rows, truth, strict=True)])
            ratios.append(_ratios(rows, free))
    return {"told": told, "covered": hit, "ratios": ratios}


def _told_of_breast_cancer(epsilon: float, runs: int, seed: int) -> list[float]:
    """Return for each run what part of all coefficients is told; each draws half of the records, with replacement."""
    features, data = breast_cancer_records()
    study = study_of(epsilon, 1e-5, features)
    told = []
    for run in range(runs):
        rng = np.random.default_rng([seed, run])  # noqa: TID251  as above
        drawn = rng.integers(data.n, size=data.n // 2)
        rows = learn_in_clear(study, Covariates(data.X[drawn], data.y[drawn]), f"dp-glm {seed} cancer {epsilon} {run}")
        told.append(float(np.mean([row.told for row in rows])))
    return told


def _ratios(rows: Sequence[Coefficient], free: _Array) -> list[float]:
    return [np.nan if row.se is None else row.se / se for row, se in zip(rows, free.tolist(), strict=True)]


def _covers(row: Coefficient, true: float) -> bool:
    return row.low is not None and row.high is not None and row.low <= true <= row.high


# --- The tables ------------------------------------------------------------------

_TOLD = "Told, % of all coefficients"
_COVERED = "Coverage of what is told, %"
_LOWEST = "Coverage of the coefficient with the least, %"
_WIDTH = "Width of an interval beside that of the fit without noise, median"
_CANCER = (1.0, 3.0)
"""Each epsilon at which the records of breast cancer are run."""
_RARE = -3.0  # an intercept below this one: fewer are told
_GRID = "Coverage of what is told, %, by strength s, number of coefficients d, and spread of the linear predictor"
_GRID_TOLD = "Told, % of all coefficients, by the same"

_CLEAR = (
    "Sums are computed without encryption, by the protocol's own functions, with shares of integer noise from its "
    "sampler. The tests show that a run of the roles equals this."
)
_SEEDED = "The noise and the records come from a seed: nothing here is a private release."
_BANDS = (
    "An interval of 95 % is promised to cover 93 to 98.5 % of the coefficients that are told. No coefficient may be "
    "covered in fewer than 88 % of the runs in which it is told. A width ratio lies within 10 % of what an independent "
    "implementation reached, after the colluder's share of mu^2."
)


def figure_1(draws: int, seed: int, run_tasks: RunTasks, _data: Path | None = None) -> Report:
    """Return the tables on one design at several N, epsilon, and shares of positives.

    Parameters
    ----------
    draws : int
        How many runs of each setting, each with records and noise of its own.
    seed : int
    run_tasks : callable
        It runs a task for every ten runs.
    """
    found = _found((*CELLS, *SHORT), _coverage, draws, seed, run_tasks)
    names = {epsilon: f"WDBC, 284 records, epsilon = {epsilon:g}" for epsilon in _CANCER}
    tasks = [Task(name, _told_of_breast_cancer, (epsilon, draws, seed), 0.1) for epsilon, name in names.items()]
    cancer = [
        Row(_TOLD, name, 100 * float(np.mean(told)), None, None, 0.0)
        for name, told in zip(names.values(), run_tasks(tasks), strict=True)
    ]
    made = [row for make in (_covered_rows, _lowest_rows, _width_rows) for row in make(found)]
    rows = [*_told_rows(found), *cancer, *made]
    settings = {"draws": draws, "seed": seed, "parties": PARTIES, "colluders": COLLUDERS}
    return Report("dp-glm", "1", (_CLEAR, _SEEDED, _BANDS), settings, rows, [_panel(found)])


def _found(
    cells: Sequence[Any], run: Callable[..., dict[str, Any]], draws: int, seed: int, run_tasks: RunTasks
) -> dict[Any, dict[str, _Array]]:
    """Return by cell, then by quantity, a row for each run."""
    starts = range(0, draws, _CHUNK)
    tasks = [
        Task(f"{cell.name}, from {first}", run, (cell, first, min(_CHUNK, draws - first), seed), cell.N / 1e4)
        for cell in cells
        for first in starts
    ]
    results = iter(run_tasks(tasks))
    chunks = {cell: [next(results) for _ in starts] for cell in cells}
    return {
        cell: {name: np.vstack([np.asarray(part[name], dtype=float) for part in parts]) for name in parts[0]}
        for cell, parts in chunks.items()
    }


def covered(found: dict[str, _Array]) -> tuple[float, float]:
    """Return the coverage among told coefficients in percent, and its standard error, clustered by run."""
    told, hit = found["told"].sum(axis=1), found["covered"].sum(axis=1)
    if not told.any():
        return 0.0, 0.0
    share = float(hit.sum() / told.sum())
    return 100 * share, 100 * float(np.sqrt(((hit - share * told) ** 2).sum()) / told.sum())


def _told_rows(found: dict[Cell, dict[str, _Array]]) -> list[Row]:
    rows = []
    for cell in CELLS:
        told = found[cell]["told"]
        value = 100 * float(told.mean())
        nothing = cell.ratio is None
        least = 90.0 if cell.intercept < _RARE else 95.0
        rows.append(Row(_TOLD, cell.name, value, None, None if nothing else least, 0.0 if nothing else None))
    return rows


def _covered_rows(found: dict[Cell, dict[str, _Array]]) -> list[Row]:
    return [
        Row(
            _COVERED,
            cell.name,
            *covered(found[cell]),
            low=93.0,
            high=98.5,
            broken=bool(cell.mistake),
            note=cell.mistake,
        )
        for cell in (*CELLS, *SHORT)
        if cell.ratio is not None or cell.weights is not None
    ]


def _lowest_rows(found: dict[Cell, dict[str, _Array]]) -> list[Row]:
    rows = []
    for cell in (*CELLS, *SHORT):
        if cell.ratio is not None or cell.weights is not None:
            told, hit = found[cell]["told"].sum(axis=0), found[cell]["covered"].sum(axis=0)
            lowest = 100 * float((hit / np.maximum(told, 1)).min())
            rows.append(Row(_LOWEST, cell.name, lowest, low=88.0, broken=bool(cell.mistake), note=cell.mistake))
    return rows


def _width_rows(found: dict[Cell, dict[str, _Array]]) -> list[Row]:
    rows = []
    for cell in CELLS:
        if cell.ratio is not None:
            value, due = float(np.nanmedian(found[cell]["ratios"])), cell.ratio
            rows.append(Row(_WIDTH, cell.name, value, None, 0.9 * due, 1.1 * due, note=f"before: {due:.2f}"))
    return rows


def _panel(found: dict[Cell, dict[str, _Array]]) -> Panel:
    """Draw each coefficient's coverage against the width that privacy costs."""
    series = []
    for cell in CELLS:
        if cell.ratio is not None:
            told, hit = found[cell]["told"].sum(axis=0), found[cell]["covered"].sum(axis=0)
            share = hit / np.maximum(told, 1)
            width = np.nanmedian(found[cell]["ratios"], axis=0)
            error = np.sqrt(share * (1 - share) / np.maximum(told, 1))
            series.append(Series(cell.name, tuple(width), tuple(share), tuple(error)))
    return Panel(
        "ten coefficients", "width beside the fit without noise", "covered", series, reference=(("promised", 0.95),)
    )


# --- The grid --------------------------------------------------------------------


@dataclass(frozen=True)
class Square:
    """One cell of the grid: d coefficients of independent normals, and a linear predictor of a known spread.

    Parameters
    ----------
    s, d : int
        The strength, and the number of coefficients, the intercept among them.
    spread : float
        The standard deviation of the linear predictor.
    """

    s: int
    d: int
    spread: float

    @property
    def name(self) -> str:
        """Its row's name."""
        return f"s = {self.s:,}, d = {self.d}, spread {self.spread:g}"

    @property
    def study(self) -> Study:
        """Its study, at epsilon = 1 and delta = 1e-6."""
        return study_of(1.0, 1e-6, tuple(Feature(name=f"x{i}", min=-4.0, max=4.0) for i in range(1, self.d)))

    @property
    def N(self) -> int:  # noqa: N802  the papers' letter
        """The fewest records of this strength."""
        return int(np.ceil(self.s * sqrt(self.d) / Plan(self.study, 1).mu))


GRID = tuple(
    Square(s, d, spread) for s in (250, 500, 1000, 2500) for d in (5, 10, 20) for spread in (0.5, 1.0, 2.0, 2.8, 3.4)
)
_SURE = (1000, 2.0)
"""From this strength on, and up to this spread, at least 95 % must be told."""


def figure_2(draws: int, seed: int, run_tasks: RunTasks, _data: Path | None = None) -> Report:
    """Return the coverage by strength, number of coefficients and spread of the linear predictor; as ``figure_1``."""
    found = _found(GRID, _square, draws, seed, run_tasks)
    covers, tells = [], []
    for square in GRID:
        told = 100 * float(found[square]["told"].mean())
        value, error = covered(found[square])
        sure = square.s >= _SURE[0] and square.spread <= _SURE[1]
        tells.append(Row(_GRID_TOLD, square.name, told, None, 95.0 if sure else None))
        if found[square]["told"].any():
            note = f"upper limit {value + 2.576 * error:.1f}"
            covers.append(Row(_GRID, square.name, value, error, low=92.0 - 2.576 * error, note=note))
        else:
            covers.append(Row(_GRID, square.name, 0.0, note="nothing is told"))
    settings = {"draws": draws, "seed": seed, "parties": PARTIES, "colluders": COLLUDERS}
    return Report("dp-glm", "2", (_CLEAR, _SEEDED), settings, (*covers, *tells))


def _square(square: Square, first: int, runs: int, seed: int) -> dict[str, list[list[float]]]:
    """Return for each run and coefficient whether it was told, and whether it was covered."""
    told, hit, study, N = [], [], square.study, square.N
    for run in range(first, first + runs):
        place = [seed, run, square.s, square.d, round(100 * square.spread)]
        rng = np.random.default_rng(place)  # noqa: TID251  as above
        direction = rng.standard_normal(square.d - 1)
        truth = np.append(-0.3, square.spread * direction / np.sqrt(direction @ direction))
        own = np.clip(rng.standard_normal((N, square.d - 1)), -4, 4)
        y = np.where(rng.random(N) < logistic(truth[0] + own @ truth[1:]), 1.0, -1.0)
        rows = learn_in_clear(study, Covariates(own / 4, y), f"dp-glm {seed} {square.name} {run}")
        told.append([float(row.told) for row in rows])
        hit.append([float(_covers(row, true)) for row, true in zip(rows, truth, strict=True)])
    return {"told": told, "covered": hit}


# --- Census records --------------------------------------------------------------

_NUMBERS = {"age": (17, 90), "education-num": (1, 16), "hours-per-week": (0, 100)}
_CENSUS = (
    *(Feature(name=name, min=low, max=high) for name, (low, high) in _NUMBERS.items()),
    Feature(name="sex", levels=("Female", "Male")),
    Feature(name="married", levels=("no", "yes")),
    Feature(name="race", levels=("other", "White")),
)
"""Seven coefficients, the intercept among them."""
_MARRIED = "Married-civ-spouse"
_CENSUS_EPSILONS = (1.0, 0.3)


@dataclass(frozen=True)
class _Census:
    """Census records at one epsilon."""

    epsilon: float
    covariates: Dataset
    N: int

    @property
    def name(self) -> str:
        return f"epsilon = {self.epsilon:g}"

    def __hash__(self) -> int:
        return hash(self.epsilon)


def figure_3(draws: int, seed: int, run_tasks: RunTasks, data: Path | None = None) -> Report:
    """Return the coverage on UCI Adult: the truth is the fit on all records, and a run draws half, with replacement.

    Parameters
    ----------
    data : path
        The directory that holds the folder ``adult``, or Adult's files themselves. The others are as for ``figure_1``.

    Raises
    ------
    BadInput
        A file is missing or is not what its name says.
    """
    train, test = adult_below(data)
    records = census_records(Table(train.columns, [*train.rows, *test.rows]))
    cells = [_Census(epsilon, records, records.n // 2) for epsilon in _CENSUS_EPSILONS]
    found = _found(cells, _census, draws, seed, run_tasks)
    rows = []
    for cell in cells:
        told, hit = (found[cell][name] for name in ("told", "covered"))
        lowest = 100 * float((hit.sum(axis=0) / np.maximum(told.sum(axis=0), 1)).min())
        rows += [
            Row(_TOLD, cell.name, 100 * float(told.mean()), None, 95.0),
            Row(_COVERED, cell.name, *covered(found[cell]), low=93.0, high=98.5),
            Row(_LOWEST, cell.name, lowest, low=88.0),
        ]
        if told.any():
            rows.append(Row(_WIDTH, cell.name, float(np.nanmedian(found[cell]["ratios"]))))
    rows.sort(key=lambda row: (_TOLD, _COVERED, _LOWEST, _WIDTH).index(row.table))
    settings = {"draws": draws, "seed": seed, "parties": PARTIES, "colluders": COLLUDERS, "records": records.n}
    return Report("dp-glm", "3", (_CLEAR, _SEEDED, _CENSUS_TRUTH), settings, rows)


_CENSUS_TRUTH = (
    "The truth is the fit on all records. Each run draws half as many of them, with replacement. A true coefficient "
    "of the model is not known: what is covered is what the same fit gives without noise, on everybody."
)


def census_records(table: Table) -> Dataset:
    """Return Adult's records as covariates: three numbers, sex, whether married, whether White; and the income."""
    columns = {name: table.column(name) for name in ("sex", *_NUMBERS)}
    columns["married"] = ["yes" if status == _MARRIED else "no" for status in table.column("marital-status")]
    columns["race"] = ["White" if race == "White" else "other" for race in table.column("race")]
    encoder = Encoder.from_study(study_of(1.0, 1e-6, _CENSUS), "treatment")
    y = np.where(np.array(table.column("income")) == ">50K", 1.0, -1.0)
    return Covariates(encoder.encode(columns), y)


def _census(cell: _Census, first: int, runs: int, seed: int) -> dict[str, list[list[float]]]:
    """Return for each run and coefficient whether it was told, whether it was covered, and its width ratio."""
    study, data = study_of(cell.epsilon, 1e-6, _CENSUS), cell.covariates
    bounds = np.array([*_NUMBERS.values(), *[(-1, 1)] * (len(_CENSUS) - len(_NUMBERS))], dtype=np.float64)
    halves, middles = (bounds[:, 1] - bounds[:, 0]) / 2, bounds.sum(axis=1) / 2
    truth, _ = fitted_freely(data, halves, middles)
    told, hit, ratios = [], [], []
    for run in range(first, first + runs):
        rng = np.random.default_rng([seed, run])  # noqa: TID251  as above
        drawn = rng.integers(data.n, size=cell.N)
        half = Covariates(data.X[drawn], data.y[drawn])
        rows = learn_in_clear(study, half, f"dp-glm {seed} census {cell.epsilon} {run}")
        told.append([float(row.told) for row in rows])
        hit.append([float(_covers(row, true)) for row, true in zip(rows, truth.tolist(), strict=True)])
        ratios.append(_ratios(rows, fitted_freely(half, halves, middles)[1]))
    return {"told": told, "covered": hit, "ratios": ratios}
