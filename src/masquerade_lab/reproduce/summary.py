"""``summary`` on Adult: whether its bounds are those of the records, and what the next study learns from its columns.

No paper prints these figures. Ranges and levels are public: round numbers of our choice, and the levels that the data
set's description lists. ``docs/protocols/summary.md`` has the figures.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from tomllib import loads
from typing import Any

import numpy as np
from numpy.typing import NDArray

from masquerade.draft import Draft, throwaway_key
from masquerade_core.counts import Levels, Numbers
from masquerade_core.data.histograms import Cells
from masquerade_core.data.schema import Dataset, Encoder
from masquerade_core.learning.erm import error_rate, fit
from masquerade_core.model import Model, error_on
from masquerade_core.simulation_rng import SimulationRng
from masquerade_core.statistics import OTHER, Statistics
from masquerade_core.study import CHARLIE, Feature, Label, Study
from masquerade_core.table import Table as Seats
from masquerade_lab.originals import Table, adult_below
from masquerade_lab.reproduce.engine.report import Panel, Report, Row, Series
from masquerade_lab.reproduce.engine.tasks import RunTasks, Task
from masquerade_protocols import DEFAULT_PROTOCOL, protocol_of
from masquerade_protocols.in_memory import run_in_memory
from masquerade_protocols.summary import public
from masquerade_protocols.summary.noiseless import noiseless

__all__ = ["figure_1"]

_PARTIES = tuple(f"office-{letter}" for letter in "abcde")
_EPSILON = 0.5
_LEARNING_EPSILON = 1.0
_LAMBDA = 1e-4
_SD = 44.13
_MISSING = "?"
_FREE = "no privacy"
_METHODS = {_FREE: _FREE, DEFAULT_PROTOCOL: f"{DEFAULT_PROTOCOL}, epsilon = {_LEARNING_EPSILON:g}"}
_LABEL = Label(name="income", positive=">50K")
_RANGES = {
    "age": (0.0, 120.0),
    "fnlwgt": (0.0, 2_000_000.0),
    "education-num": (0.0, 20.0),
    "capital-gain": (0.0, 100_000.0),
    "capital-loss": (0.0, 5_000.0),
    "hours-per-week": (0.0, 168.0),
}
"""Chosen before anybody looked at a record."""

_NOISE = "Noise on a count, epsilon = 0.5, delta = 1e-06, 15 histograms"
_BOUNDS = "Suggested bounds beside those of exact counts: 12 in each draw"
_LEVELS = "Levels in the columns that are printed"
_ERRORS = "Error on the test records: at most a point more than with all that is known in public"

_WHAT = (
    "A summary of Adult's 32,561 training records at five parties. The roles run in memory, with keys of 512 bits. "
    "Its columns, as features.toml has them, then describe the next study: numbers are moved to their bounds, and rare "
    "or missing levels become 'other'."
)
_SEEDED = "The noise comes from a seed: nothing here is a private release."
_GAPS = (
    "Two cells lie between values of education-num, which are whole numbers. So a bound that is off by one value is "
    "off by two cells."
)

_Columns = Mapping[str, Sequence[str]]


def figure_1(draws: int, seed: int, run_tasks: RunTasks, data: Path | None) -> Report:
    """Return the figures of ``draws`` summaries, and of the studies that follow from them.

    Parameters
    ----------
    draws, seed : int
    run_tasks : callable
        It runs a task for each summary, and then two for each study.
    data : path
        The directory that holds the folder ``adult``, or Adult's files themselves.

    Raises
    ------
    BadInput
        A file is missing or is not what its name says.
    """
    train, test = adult_below(data)
    return tables(train, test, draws, seed, run_tasks)


def tables(train: Table, test: Table, draws: int, seed: int, run_tasks: RunTasks) -> Report:
    """Return the figures for these records."""
    summaries = run_tasks([Task(f"summary {draw}", _summarised, (train, seed + draw)) for draw in range(draws)])
    studies = [(None, seed), *((found["toml"], seed + draw) for draw, found in enumerate(summaries))]
    learning = [
        Task(f"{method}, study {number}", _learned, (method, toml, train, test, started))
        for method in _METHODS
        for number, (toml, started) in enumerate(studies)
    ]
    errors = np.array(run_tasks(learning)).reshape(len(_METHODS), len(studies))
    rows, curves = [*_noise(summaries), *_bounds(summaries)], []
    for what, (before, *each) in zip(_METHODS.values(), errors.tolist(), strict=True):
        rows += [
            Row(_ERRORS, f"{what}, the public ranges and levels", before),
            Row(_ERRORS, f"{what}, the columns of the summary", float(np.mean(each)), high=before + 0.01),
        ]
        curves += [Series(what, range(1, draws + 1), each)]
    settings = {"epsilon": _EPSILON, "learning_epsilon": _LEARNING_EPSILON, "draws": draws, "seed": seed}
    levels = tuple(
        (f"{what}, public ranges", before)
        for what, before in zip(_METHODS.values(), errors[:, 0].tolist(), strict=True)
    )
    panel = Panel(
        "Adult, with a summary's columns", "draw of the summary's noise", "error rate", curves, reference=levels
    )
    return Report("summary", "1", [_WHAT, _SEEDED, _GAPS], settings, rows, [panel])


def _summarised(train: Table, seed: int) -> dict[str, Any]:
    """Run a summary, and return what it is compared with and the next study's columns."""
    study = _study("summary", _features(train), _EPSILON)
    grid = public.grid_of(study)
    cells = grid.place(_columns(train))
    data = {
        name: Cells(part, grid) for name, part in zip(study.names, np.array_split(cells.places, study.K), strict=True)
    }
    exact = noiseless(study, data)
    released: Statistics = run_in_memory(protocol_of(study), study, data, table=_seats(study, seed))[CHARLIE]
    distances, counts = list[float](), list[float]()
    for name, column in released.columns.items():
        if isinstance(column, Levels):
            counts += column.kept.values()
        else:
            distances += _distances(column, exact.columns[name])
    return {
        "drawn": np.array(released.noisy) - np.array(exact.noisy),
        "sd": released.sd,
        "distances": distances,
        "least": min(counts) / released.threshold,
        "toml": released.to_toml(study),
    }


def _noise(summaries: Sequence[Mapping[str, Any]]) -> list[Row]:
    """Return the standard deviation of the noise as stated, as it was drawn, and as two mistakes would have it."""
    drawn = np.array([one["drawn"] for one in summaries])
    found, stated = float(np.sqrt(np.mean(drawn**2))), summaries[0]["sd"]
    low, high = 0.95 * stated, 1.05 * stated
    return [
        Row(_NOISE, "stated", stated, low=_SD - 0.01, high=_SD + 0.01),
        Row(_NOISE, "drawn", found, low=low, high=high),
        Row(_NOISE, "a sensitivity of sqrt(H) for sqrt(2 H)", found / np.sqrt(2), broken=True, low=low, high=high),
        Row(_NOISE, "noise for one share more than there is", found * np.sqrt(4 / 5), broken=True, low=low, high=high),
    ]


def _bounds(summaries: Sequence[Mapping[str, Any]]) -> list[Row]:
    distances = [distance for one in summaries for distance in one["distances"]]
    least = min(one["least"] for one in summaries)
    return [
        Row(_BOUNDS, "within one cell", float(np.mean(np.array(distances) <= 1)), low=0.95),
        Row(_BOUNDS, "the largest distance, in cells", max(distances), high=2.0),
        Row(_LEVELS, "the smallest noisy count, beside the threshold", least, low=1.0),
    ]


def _distances(column: Numbers, other: Numbers | Levels) -> list[float]:
    """Return how many cells the two bounds are off."""
    if not isinstance(other, Numbers):
        return []
    width = column.edges[1] - column.edges[0]
    return [float(round(abs(a - b) / width)) for a, b in zip(column.bounds, other.bounds, strict=True)]


# --- Studies and records --------------------------------------------------------------------------


def _study(protocol: str, features: Sequence[Feature], epsilon: float) -> Study:
    draft = Draft(
        parties=[(name, throwaway_key()) for name in _PARTIES],
        curator_key=throwaway_key(),
        protocol=protocol,
        features=features,
        label=_LABEL,
        epsilon=epsilon,
        colluders=0,
        min_records=2,
        key_bits=512,
        regularization=_LAMBDA,
    )
    return Study.parse(draft.to_toml(), in_memory=True)


def _columns(table: Table) -> _Columns:
    return dict(zip(table.columns, zip(*table.rows, strict=True), strict=True))


def _features(table: Table) -> list[Feature]:
    """Return the public ranges and levels; the levels that the description lists are those that occur."""
    columns, features = _columns(table), []
    for name in table.columns:
        if name in _RANGES:
            features.append(Feature(name=name, min=_RANGES[name][0], max=_RANGES[name][1]))
        elif name != _LABEL.name:
            features.append(Feature(name=name, levels=tuple(sorted(set(columns[name]) - {_MISSING}))))
    return features


def _known(study: Study) -> list[Feature]:
    """Return the columns of a study that nobody summarised: all levels, and one for missing cells."""
    return [
        feature if feature.levels is None else _with_levels(feature, (*feature.levels, OTHER))
        for feature in study.features
    ]


def _suggested(toml: str) -> list[Feature]:
    """Return the columns that the statistics print; a column of levels gets a place for missing cells."""
    blocks = [Feature.model_validate(block) for block in loads(toml)["feature"]]
    return [b if b.levels is None or OTHER in b.levels else _with_levels(b, (*b.levels, OTHER)) for b in blocks]


def _with_levels(feature: Feature, levels: tuple[str, ...]) -> Feature:
    """Return a column with other levels."""
    return feature.model_copy(update={"levels": levels})


def _encoded(study: Study, table: Table) -> Dataset:
    """Move numbers to their bounds, and unknown levels to "other"; then encode as the study does."""
    columns = _columns(table)
    fitted: dict[str, Sequence[str] | NDArray[np.float64]] = {}
    for feature in study.features:
        column = columns[feature.name]
        if feature.levels is None:
            fitted[feature.name] = np.clip(np.array(column, dtype=np.float64), feature.min, feature.max)
        else:
            fitted[feature.name] = [cell if cell in feature.levels else OTHER for cell in column]
    y = np.where(np.array(columns[_LABEL.name]) == _LABEL.positive, 1.0, -1.0)
    return Dataset(Encoder.from_study(study).encode(fitted), y)


def _seats(study: Study, seed: int) -> Seats:
    return Seats(study.names, {who: SimulationRng(seed, who) for who in (*study.names, CHARLIE)})


def _learned(method: str, toml: str | None, train: Table, test: Table, seed: int) -> float:
    """Return the error of a classifier on a summary's columns, or on the known ones where there is none."""
    features = _suggested(toml) if toml is not None else _known(_study("summary", _features(train), _EPSILON))
    study = _study(DEFAULT_PROTOCOL, features, _LEARNING_EPSILON)
    records, tests = _encoded(study, train), _encoded(study, test)
    if method == _FREE:
        return error_rate(tests.X, tests.y, fit(records.X, records.y, _LAMBDA))
    parts = zip(np.array_split(records.X, study.K), np.array_split(records.y, study.K), strict=True)
    data = {name: Dataset(X.copy(), y.copy()) for name, (X, y) in zip(study.names, parts, strict=True)}
    model: Model = run_in_memory(protocol_of(study), study, data, table=_seats(study, seed))[CHARLIE]
    return error_on(model, tests)
