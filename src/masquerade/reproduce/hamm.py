"""Hamm, Cao and Belkin 2016, figure 2: votes of a thousand parties with six records each, on UCI HAR.

The paper gives five accuracies without noise, and two sentences about accuracies with noise. The bands come from an
independent implementation in floating point that dealt the same records in another order.
``docs/reproduction/hamm-2016.md`` compares them with the published values, and says why the half of the figure with
noise cannot be met.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from masquerade.originals import har
from masquerade.reproduce.bands import Report, Row, mean_and_error
from masquerade.reproduce.hamm_runs import (
    Trial,
    accuracies,
    aggregate,
    draw_noise,
    draw_norms,
    principal_components,
    published_sensitivity,
    shuffled,
    tight_sensitivity,
)
from masquerade_core.errors import BadInput

__all__ = ["figure_2"]

_TRIALS = 10
_PARTIES = 1000
_RECORDS = 6
_AUXILIARY = 1000
_TIME_DOMAIN = 265  # the first of HAR's 561 features
_D = 50
_CLASSES = 6
_LAMBDA = 1e-4
_POOL = 1000  # draws of the noise in a trial, for the norm and for all curves
_INVERSES = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)

_PRIVATE = ("vote", "soft", "avg")
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
_Curve = tuple[str, str]
"""The method, and "published", "tight" or "exp"."""


@dataclass
class _Found:
    """The accuracies of each trial, and the norms of its noise."""

    without: dict[str, list[float]]
    noisy: dict[tuple[str, str, float], list[_Array]]
    norms: list[float]
    wrong_norms: list[float]


def figure_2(draws: int, seed: int, progress: Callable[[int, int], None], data: Path | None) -> Report:
    """Return figure 2's tables.

    Parameters
    ----------
    draws : int
        How many draws of the noise, for each trial, curve and epsilon.
    seed : int
        It decides how the records are dealt, and gives the noise.
    progress : callable
        (done, of).
    data : path
        The directory with UCI HAR.

    Raises
    ------
    BadInput
        The data are not there, or are too few.
    """
    X, y, X_test, y_test = _records(data)
    found = _Found({name: [] for name in _WITHOUT_BANDS}, {}, [], [])
    done = 0

    def advance() -> None:
        nonlocal done
        done += 1
        progress(done, 2 * _TRIALS)

    for number in range(_TRIALS):
        label = f"hamm-2016 {seed} {number}"
        order = shuffled(label, len(y))
        parts = order[: _PARTIES * _RECORDS].reshape(_PARTIES, _RECORDS)
        aux = order[parts.size : parts.size + _AUXILIARY]
        trial = aggregate(X, y, _CLASSES, _LAMBDA, parts, aux)
        _without_noise(found, trial, X_test, y_test)
        advance()
        _with_noise(found, trial, X_test, y_test, draws, label)
        advance()
    rows = (*_without_rows(found), *_norm_rows(found), *_noise_rows(found), *_curve_rows(found))
    settings = {
        "trials": _TRIALS,
        "parties": _PARTIES,
        "records_each": _RECORDS,
        "auxiliary": _AUXILIARY,
        "features": _TIME_DOMAIN,
        "d": _D,
        "classes": _CLASSES,
        "lambda": _LAMBDA,
        "draws": draws,
        "norms": _TRIALS * _POOL,
        "seed": seed,
    }
    return Report("hamm-2016", "2", (_CLEAR, _UNACCOUNTED, _MEANING), settings, rows)


def _records(data: Path | None) -> tuple[_Array, NDArray[np.intp], _Array, NDArray[np.intp]]:
    """Return training and test records with classes from 0."""
    if data is None:
        raise BadInput("this figure needs UCI HAR, which does not come with this program", "give --data DIRECTORY")
    X, y, X_test, y_test = har(data)
    needed = _PARTIES * _RECORDS + _AUXILIARY
    if len(y) < needed or X.shape[1] < _TIME_DOMAIN:
        raise BadInput(
            f"the training part in {data} has {len(y)} records of {X.shape[1]} features; at least {needed} of "
            f"{_TIME_DOMAIN} are needed",
            "use UCI HAR's own files, with all their records and features",
        )
    X, X_test = principal_components(X[:, :_TIME_DOMAIN], X_test[:, :_TIME_DOMAIN], _D)
    return X, y.astype(np.intp) - 1, X_test, y_test.astype(np.intp) - 1


# --- The accuracies of one trial -----------------------------------------------------


def _without_noise(found: _Found, trial: Trial, X_test: _Array, y_test: NDArray[np.intp]) -> None:
    still = np.zeros((1, _CLASSES * _D))
    for name, W in trial.W.items():
        found.without[name].append(float(accuracies(X_test, y_test, W, still)[0]))
    flat = trial.own.reshape(len(trial.own), -1)
    own = accuracies(X_test, y_test, np.zeros((_CLASSES, _D)), flat)
    found.without["indiv"].append(float(own.mean()))


def _sensitivity(method: str, kind: str) -> float:
    if kind == "tight":
        return tight_sensitivity(method, _PARTIES, _LAMBDA, _CLASSES)
    return published_sensitivity(method, _PARTIES, _LAMBDA)


def _curves() -> Iterator[_Curve]:
    """Yield all curves but the tight one of soft, which equals its published one."""
    for kind in _CURVES:
        yield from ((method, kind) for method in _PRIVATE if (method, kind) != ("soft", "tight"))


def _with_noise(found: _Found, trial: Trial, X_test: _Array, y_test: NDArray[np.intp], draws: int, label: str) -> None:
    scale = published_sensitivity("soft", _PARTIES, _LAMBDA)  # at 1/eps = 1
    eta = draw_noise(label, scale, _CLASSES * _D, _POOL)
    norms = np.linalg.norm(eta, axis=1)
    wrong = draw_norms(label, scale, _POOL)
    found.norms.append(float(norms.mean()))
    found.wrong_norms.append(float(wrong.mean()))
    pools = {"published": eta, "tight": eta, "exp": eta * (wrong / norms)[:, None]}
    start = 0
    for method, kind in _curves():
        for inverse in _INVERSES:
            chosen = np.arange(start, start + draws) % _POOL
            noise = pools[kind][chosen] * (_sensitivity(method, kind) * inverse / scale)
            values = accuracies(X_test, y_test, trial.W[method], noise)
            found.noisy.setdefault((method, kind, inverse), []).append(values)
            start += draws


# --- The tables -----------------------------------------------------------------------


def _without_rows(found: _Found) -> list[Row]:
    values = {name: np.array(means)[:, None] for name, means in found.without.items()}
    rows = [
        Row(_WITHOUT, name, *mean_and_error(values[name]), *_band(middle, half), note=f"paper {paper:.2f}")
        for name, (middle, half, paper) in _WITHOUT_BANDS.items()
    ]
    distance, which = max((abs(row.value - _WITHOUT_BANDS[row.name][2]), row.name) for row in rows)
    rows.append(Row(_WITHOUT, "farthest from the paper", distance, high=_CLOSE, note=which))
    for (above, below), band in _ORDER_BANDS.items():
        rows.append(Row(_ORDER, f"{above} minus {below}", *mean_and_error(values[above] - values[below]), *band))
    return rows


def _band(middle: float, half: float) -> tuple[float, float]:
    return round(middle - half, 4), round(middle + half, 4)


def _norm_rows(found: _Found) -> list[Row]:
    mean = _CLASSES * _D * published_sensitivity("soft", _PARTIES, _LAMBDA)
    rows = []
    for table, norms, broken in ((_NORMS, found.norms, False), (_BROKEN_NORM, found.wrong_norms, True)):
        value, error = mean_and_error(np.array(norms)[:, None])
        rows.append(
            Row(table, "norm", value / mean, error / mean, *_band(1, _NORM), broken, f"{value:.1f} for {mean:.1f}")
        )
    return rows


def _noise_rows(found: _Found) -> list[Row]:
    rows = []
    for (method, kind, inverse), band in _NOISE_BANDS.items():
        values = np.array(found.noisy[method, kind, inverse])
        rows.append(Row(_NOISE, f"{method}, {kind}, 1/eps = {inverse:g}", *mean_and_error(values), *band))
    for (method, _, inverse), band in _NOISE_BANDS.items():
        if method == "soft":  # the bands of the others are too near to what broken noise gives
            values = np.array(found.noisy[method, "exp", inverse])
            rows.append(Row(_BROKEN, f"{method}, 1/eps = {inverse:g}", *mean_and_error(values), *band, broken=True))
    return rows


def _curve_rows(found: _Found) -> list[Row]:
    rows = [
        Row(_CURVES[kind], f"{method}, 1/eps = {inverse:g}", *mean_and_error(np.array(values)))
        for (method, kind, inverse), values in found.noisy.items()
    ]
    indiv = float(np.mean(found.without["indiv"]))
    rows += [
        Row(_UNTIL, f"{method}, {kind}", _crossing(found, method, kind, indiv))
        for method, kind in _curves()
        if method != "vote"
    ]
    return rows


def _crossing(found: _Found, method: str, kind: str, level: float) -> float:
    """Return the 1/eps at which a curve falls to a level, between its points on a logarithmic scale."""
    curve = [float(np.mean(found.noisy[method, kind, inverse])) for inverse in _INVERSES]
    logs = np.log10(_INVERSES)
    return float(10 ** np.interp(-level, -np.array(curve), logs))
