"""Hamm, Cao and Belkin 2016, figures 3 and 4: 5,000 to 20,000 parties and two classes.

Figure 3 is on KDD Cup 1999. Figure 4 is on a stand-in that is invented, unless a directory with the malicious URLs is
named. The text states no accuracy for either. ``docs/reproduction/hamm-2016.md`` says what its sentences would need.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from masquerade_core.errors import BadInput
from masquerade_lab.reproduce.bands import Report, Row, mean_and_error
from masquerade_lab.reproduce.hamm_binary_runs import METHODS, BinaryRecords, trial
from masquerade_lab.reproduce.hamm_data import connections, stand_in, urls
from masquerade_lab.reproduce.hamm_runs import KINDS, crossed, curve, curves
from masquerade_lab.reproduce.panels import Panel, Series
from masquerade_lab.reproduce.tasks import RunTasks, Task

__all__ = ["Setting", "figure_3", "figure_4"]

_LAMBDA = 1e-4
_TRIALS = 10
_POOL = 500
_SIZES = (5_000, 10_000, 20_000)
_INVERSES = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
_NEAR = 0.01  # of an accuracy: "nearly as well as"
_NORM = 0.01  # relative
_STAND_IN = (196_000, 200_000)
_DAYS = (10, 10)
_KDD_AUXILIARY = 43_000

_NORMS = "D3: mean norm of the noise, in units of d Delta/eps"
_BROKEN_NORM = "Broken: mean norm drawn from Exp(Delta/eps), in units of d Delta/eps"
_WITHOUT = "Test accuracy without noise"
_NAMES = {
    "published": "published",
    "tight": "at most the diameter",
    "exp": "norm from Exp(Delta/eps)",
}
_TITLES = {
    "published": "published noise",
    "tight": "at most the diameter",
    "exp": "norm from Exp, not private",
}
_CURVES = "Accuracy by 1/eps, M = {}: {}"
_UNTIL = "1/eps up to which a method is better than indiv"
_KEEPS = f"1/eps up to which soft keeps its accuracy without noise, but for {_NEAR}"

_CLEAR = (
    "Everything is computed without encryption. Minimisers, votes and averages are those of the protocols and "
    "baselines; the noise comes from their sampler, on their grid. A seed gives it: nothing here is a private release."
)
_MEANING = (
    "Numbers are accuracies on the test records. They are averages over the draws of the noise and over the trials, "
    "which deal the training records anew; the standard error is that of the trials' means. The first 5,000 and 10,000 "
    "of the 20,000 parties are those of smaller M. All curves of a trial take their noise from one pool of draws, each "
    "scaled by its own Delta/eps."
)
_NEEDED = (
    "At lambda = 1e-4 no classifier for records in the unit ball is longer than 52.8. A curve that holds its accuracy "
    "until 1/eps = 10, where the stated noise of soft is 10 d long at M = 20,000, would need noise whose norm does not "
    "grow with the dimension d: such as a norm drawn from Exp(Delta/eps), which is not private."
)
_KDD = (
    "Numbers and words of KDD Cup 1999 are mapped to [0, 1]; counts and amounts that span two orders of magnitude "
    "take log(1 + x) first. With a constant there are 120 features. The noise has the paper's 123 dimensions, three of "
    "which meet features that are always 0."
)
_INVENTED = (
    "THE RECORDS ARE INVENTED: a stand-in as large and as sparse as ten and ten days of malicious URLs. Its accuracies "
    "say nothing about URLs. --data DIRECTORY names the original files."
)
_URLS = "The records are days 0 to 9 and 10 to 19 of the malicious URLs, as principal components that are not centred."

_Array = NDArray[np.float64]
_Found = Mapping[str, _Array]


@dataclass(frozen=True)
class Setting:
    """What tells figures 3 and 4 apart.

    Parameters
    ----------
    figure : str
    title, short : str
        What the records are, in a few words and in one.
    each, auxiliary : int
        How many records a party has, and how many auxiliary points there are.
    dimension : int
        The noise's.
    note : str
    bands : dict of str to (float, float)
        What an independent implementation reached at the largest M, and the half width of the band. It gave no width,
        so the width is that of the same accuracy in figure 2.
    claim : str
        The 1/eps up to which the paper sees soft near batch at the largest M, in words.
    """

    figure: str
    title: str
    short: str
    each: int
    auxiliary: int
    dimension: int
    note: str
    bands: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    claim: str = ""


def figure_3(draws: int, seed: int, run_tasks: RunTasks, data: Path | None) -> Report:
    """Return figure 3's tables and panels.

    Parameters
    ----------
    draws : int
        How many draws of the noise, for each trial, curve and epsilon.
    seed : int
        It decides how the records are dealt, and gives the noise.
    run_tasks : callable
    data : path
        The directory with KDD Cup 1999, or one that holds it as ``kddcup99``.

    Raises
    ------
    BadInput
        The data are not there, or are too few.
    """
    if data is None:
        raise BadInput("this figure needs KDD Cup 1999, which does not come with this program", "give --data DIRECTORY")
    bands, claim = {"batch": (0.918, 0.01), "indiv": (0.90, 0.015)}, "the paper: about 10"
    setting = Setting("3", "KDD Cup 1999", "KDD", 22, _KDD_AUXILIARY, 123, _KDD, bands, claim)
    return _figure(setting, connection_trial, (_folder(data, "kddcup99"),), draws, seed, run_tasks)


def figure_4(draws: int, seed: int, run_tasks: RunTasks, data: Path | None = None) -> Report:
    """Return figure 4's tables and panels, on a stand-in where no data are named.

    Parameters
    ----------
    draws, seed : int
    run_tasks : callable
    data : path, optional
        The directory with the malicious URLs, or one that holds it as ``url_svmlight``.

    Raises
    ------
    BadInput
        A file is missing or is not what its name says.
    """
    setting = Setting("4", "a stand-in for malicious URLs, invented", "Stand-in", 9, 16_000, 50, _INVENTED)
    if data is None:
        return _figure(setting, stand_in_trial, (_STAND_IN,), draws, seed, run_tasks)
    setting = Setting("4", "malicious URLs", "URLs", 9, 16_000, 50, _URLS)
    return _figure(setting, url_trial, (_folder(data, "url_svmlight"), _DAYS), draws, seed, run_tasks)


def _folder(data: Path, name: str) -> Path:
    return data / name if (data / name).is_dir() else data


# --- Tasks ------------------------------------------------------------------------------


def connection_trial(folder: Path, dimension: int, *rest: Any) -> Mapping[str, _Array]:
    """Return a trial's accuracies on KDD Cup 1999."""
    return _trial(connections(folder), dimension, *rest)


def stand_in_trial(records: tuple[int, int], dimension: int, *rest: Any) -> Mapping[str, _Array]:
    """Return a trial's accuracies on the stand-in."""
    return _trial(stand_in(dimension, records), dimension, *rest)


def url_trial(folder: Path, days: tuple[int, int], dimension: int, *rest: Any) -> Mapping[str, _Array]:
    """Return a trial's accuracies on the malicious URLs."""
    return _trial(urls(folder, dimension, days), dimension, *rest)


def _trial(
    records: BinaryRecords, dimension: int, label: str, sizes: tuple[int, ...], each: int, auxiliary: int, *rest: Any
) -> Mapping[str, _Array]:
    needed, n = sizes[-1] * each + auxiliary, len(records.train)
    if n < needed:
        raise BadInput(
            f"there are {n} training records, but {sizes[-1]} parties and the auxiliary points need {needed}",
            "use the original files, with all their records",
        )
    return trial(records, label, _LAMBDA, sizes, each, auxiliary, dimension, *rest)


def _figure(
    setting: Setting,
    function: Callable[..., Mapping[str, _Array]],
    where: tuple[Any, ...],
    draws: int,
    seed: int,
    run_tasks: RunTasks,
) -> Report:
    rest = (_SIZES, setting.each, setting.auxiliary, _INVERSES, draws, _POOL)
    tasks = [
        Task(
            f"trial {number}",
            function,
            (*where, setting.dimension, f"hamm-2016 {setting.figure} {seed} {number}", *rest),
        )
        for number in range(_TRIALS)
    ]
    results = run_tasks(tasks)
    found = {name: np.array([result[name] for result in results]) for name in results[0]}
    settings = {
        "records": setting.title,
        "trials": _TRIALS,
        "parties": ", ".join(map(str, _SIZES)),
        "records_each": setting.each,
        "auxiliary": setting.auxiliary,
        "d": setting.dimension,
        "lambda": _LAMBDA,
        "draws": draws,
        "norms": _TRIALS * _POOL,
        "seed": seed,
    }
    notes = (setting.note, _CLEAR, _MEANING, _NEEDED)
    return Report("hamm-2016", setting.figure, notes, settings, tuple(_rows(setting, found)), _panels(setting, found))


# --- The tables -------------------------------------------------------------------------


def _rows(setting: Setting, found: _Found) -> Iterator[Row]:
    for M in _SIZES:
        for method in METHODS:
            band = setting.bands.get(method, ()) if _SIZES[-1] == M else ()
            yield _around(_WITHOUT, f"{method}, M = {M}", found[f"{M} {method}"], *band)
    yield _around(_WITHOUT, "indiv", found["indiv"], *setting.bands.get("indiv", ()))
    for table, name, broken in ((_NORMS, "norms", False), (_BROKEN_NORM, "wrong norms", True)):
        value, error = mean_and_error(found[name] / setting.dimension)
        yield Row(table, "norm", value, error, round(1 - _NORM, 4), round(1 + _NORM, 4), broken)
    yield from _curve_rows(setting, found)


def _around(table: str, name: str, values: _Array, middle: float | None = None, half: float = 0.0) -> Row:
    if middle is None:
        return Row(table, name, *mean_and_error(values))
    return Row(table, name, *mean_and_error(values), round(middle - half, 4), round(middle + half, 4))


def _curve_rows(setting: Setting, found: _Found) -> Iterator[Row]:
    """Yield the curves of the largest M, and where each curve ends for every M. The panels have all curves."""
    largest = _SIZES[-1]
    for method, kind in curves():
        table, series = _CURVES.format(largest, _NAMES[kind]), _curve(found, largest, method, kind)
        for x, y, spread in zip(series.x, series.y, series.error or (), strict=True):
            yield Row(table, f"{method}, 1/eps = {x:g}", y, spread)
    for M in _SIZES:
        for method, kind in curves():
            place = crossed(found, f"{M} {method} {kind}", _INVERSES, found["indiv"].mean(axis=1))
            yield Row(_UNTIL, f"M = {M}, {method}, {_NAMES[kind]}", *place)
    for M in _SIZES:
        least = found[f"{M} soft"].mean(axis=1) - _NEAR
        for kind in ("published", "exp"):
            note = setting.claim if largest == M else ""
            yield Row(
                _KEEPS, f"M = {M}, {_NAMES[kind]}", *crossed(found, f"{M} soft {kind}", _INVERSES, least), note=note
            )


def _curve(found: _Found, M: int, method: str, kind: str) -> Series:
    return curve(found, f"{M} {method} {kind}", _INVERSES, method)


# --- The panels -------------------------------------------------------------------------


def _panels(setting: Setting, found: _Found) -> tuple[Panel, ...]:
    """Return the paper's three panels, one for each M, for each kind of noise."""
    panels = []
    for kind in KINDS:
        for M in _SIZES:
            levels = {"batch": found[f"{M} batch"], "indiv": found["indiv"]}
            panels.append(
                Panel(
                    f"{setting.short}, M = {M}: {_TITLES[kind]}",
                    "1/eps",
                    "test accuracy",
                    tuple(_curve(found, M, method, own) for method, own in curves() if own == kind),
                    x_scale="log",
                    reference=tuple((name, float(values.mean())) for name, values in levels.items()),
                )
            )
    return tuple(panels)
