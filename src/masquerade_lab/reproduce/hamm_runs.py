"""Hamm, Cao and Belkin's aggregators without encryption: all parties' classifiers in one process, and the noise.

Nothing here is a protocol: one process sees all records. The minimisers are those of the protocols and baselines, and
the noise comes from the same sampler on the same grid.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.special import lambertw

from masquerade_core.errors import BadInput
from masquerade_core.learning.softmax import fit_softmax, one_hot, predict_classes, softmax_objective
from masquerade_core.privacy.samplers.l2_laplace import l2_laplace
from masquerade_core.rng import SimulationRng
from masquerade_lab.originals import har
from masquerade_lab.reproduce.engine.report import Measured, Row, Series, measured
from masquerade_lab.reproduce.hamm_points import PRIVATE, Drawn, Point, Pool, mistaken
from masquerade_protocols.voting.theorems import lemma_6_softmax

__all__ = [
    "CLASSES",
    "INVERSE",
    "KINDS",
    "Trial",
    "accuracies",
    "aggregate",
    "compared",
    "crossed",
    "crossing",
    "crossing_row",
    "curve",
    "curves",
    "draw_noise",
    "draw_norms",
    "excesses",
    "principal_components",
    "published_sensitivity",
    "radius",
    "sensitivity",
    "shuffled",
    "tight_sensitivity",
    "trial_of_har",
]

CLASSES = 6
KINDS = ("published", "tight", "exp")
"""Sizes of the noise: published; the smaller of the published one and the diameter; with a norm that is too small."""

_UNIT = Fraction(1 << 32)  # grid units per unit of a weight
_Array = NDArray[np.float64]
_Classes = NDArray[np.intp]


def principal_components(X_train: _Array, X_test: _Array, d: int, *, of: _Array | None = None) -> tuple[_Array, _Array]:
    """Project both parts on the training part's d leading right singular vectors, not centred, and clip the rows.

    The directions depend on all training records, and no theorem of the paper accounts for that. They are those of the
    records ``of`` instead, if these are given.

    Returns
    -------
    X_train, X_test
        Of shapes (n, d) and (m, d), each row of norm at most 1.
    """
    base = X_train if of is None else of
    _, vectors = np.linalg.eigh(base.T @ base)
    leading = vectors[:, : -d - 1 : -1]
    projected = (X @ leading for X in (X_train, X_test))
    train, test = (X / np.maximum(1.0, np.linalg.norm(X, axis=1))[:, None] for X in projected)
    return train, test


def shuffled(seed: str, n: int) -> _Classes:
    """Return 0 to n - 1 in random order."""
    rng = SimulationRng(seed, "order")
    return np.argsort(np.array([rng.bits(63) for _ in range(n)]))


# --- The classifiers ----------------------------------------------------------------


@dataclass(frozen=True)
class Trial:
    """One dealing of the training records, without noise.

    Parameters
    ----------
    W : mapping of str to ndarray, shape (C, d)
        "batch", "vote", "soft" and "avg".
    own : ndarray, shape (M, C, d)
        The parties' own classifiers; "indiv" is their mean accuracy.
    """

    W: Mapping[str, _Array]
    own: _Array


def aggregate(X: _Array, y: _Classes, classes: int, Lambda: float, parts: NDArray[np.intp], aux: _Classes) -> Trial:
    """Train the parties' classifiers and every aggregate of them.

    Parameters
    ----------
    X : ndarray, shape (n, d)
    y : ndarray, shape (n,)
        Class indices.
    classes : int
        The paper's K.
    Lambda : float
        The paper's lambda, for local and global classifiers alike.
    parts : ndarray, shape (M, n_j)
        Which records each party has.
    aux : ndarray, shape (N,)
        Which records are the auxiliary points; their labels are not used.

    References
    ----------
    Hamm, Cao, Belkin 2016, Algorithms 1 and 2, section 6 and Appendix B. Of equal counts, the first class wins.
    """
    own = np.array([fit_softmax(X[part], y[part], Lambda, classes=classes) for part in parts])
    points = X[aux]
    votes = np.array([predict_classes(points, W) for W in own])
    alpha = np.stack([(votes == k).mean(axis=0) for k in range(classes)], axis=1)
    everybody = parts.ravel()
    W = {
        "batch": fit_softmax(X[everybody], y[everybody], Lambda, classes=classes),
        "vote": fit_softmax(points, one_hot(alpha.argmax(axis=1), classes), Lambda),
        "soft": fit_softmax(points, alpha, Lambda),
        "avg": own.mean(axis=0),
    }
    return Trial(W, own)


def accuracies(X: _Array, y: _Classes, W: _Array, noise: _Array) -> _Array:
    """Return the test accuracy of W + eta for each eta; noise has shape (R, C d), the result (R,)."""
    shifted = (W.ravel() + noise).reshape(-1, *W.shape)
    return np.array([np.mean(predict_classes(X, one) == y) for one in shifted])


# --- Sensitivities ------------------------------------------------------------------


def published_sensitivity(method: str, M: int, Lambda: float) -> float:
    """Return how far one party may move the released parameters, as the paper bounds it for softmax.

    References
    ----------
    Hamm, Cao, Belkin 2016, equations (53) and (60) and the last sentence of Appendix B.4.
    """
    root = math.sqrt(2)
    return {"vote": root / Lambda, "soft": root / (M * Lambda), "avg": 2 * root / (M * Lambda)}[method]


def radius(classes: int, Lambda: float) -> float:
    """Return R = sqrt(W((C - 1)/e) / lambda), which no minimiser's norm exceeds; W is Lambert's function.

    At a minimiser w the gradient is 0, and its product with w gives lambda ||w||^2 = mean_i sum_k (t_ik - P_ik) s_ik,
    with scores s_ik = w_k.x_i and targets t_i. The right side is linear in t_i, so it is largest for one sure class y:
    s_y - sum_k P_k s_k = sum_{l != y} P_l m_l with margins m_l = s_y - s_l = log(P_y / P_l). That is (1 - P_y) log P_y
    - sum_{l != y} P_l log P_l, and for a given P_y the entropy is largest where all other P_l are equal. What is left
    is (C - 1) m / (exp(m) + C - 1). Its derivative vanishes where (m - 1) exp(m - 1) = (C - 1)/e, that is at m = 1 +
    W((C - 1)/e), and its value there is m - 1. For six classes R = .9025 / sqrt(lambda).
    """
    return math.sqrt(lambertw((classes - 1) / math.e).real / Lambda)


def tight_sensitivity(method: str, M: int, Lambda: float, classes: int) -> float:
    """Return the smaller of the published bound and the diameter 2R of all minimisers, by M for an average.

    The diameter needs no condition on how the targets change. It is far below sqrt(2)/lambda for a small lambda.
    """
    diameter = 2 * radius(classes, Lambda) / (M if method == "avg" else 1)
    return min(published_sensitivity(method, M, Lambda), diameter)


def sensitivity(method: str, kind: str, M: int, Lambda: float) -> float:
    """Return Delta for HAR's classes: the tight one, or else the published one."""
    if kind == "tight":
        return tight_sensitivity(method, M, Lambda, CLASSES)
    return published_sensitivity(method, M, Lambda)


# --- Noise --------------------------------------------------------------------------


def draw_noise(seed: str, scale: float, dimension: int, count: int) -> _Array:
    """Draw eta with density proportional to exp(-||eta||_2 / scale), from the protocols' sampler.

    Parameters
    ----------
    scale : float
        Delta/eps, greater than 0.

    Returns
    -------
    ndarray, shape (count, dimension)
        Multiples of 2^-32; floating point rounds large ones.
    """
    rng, beta = SimulationRng(seed, "eta"), 1 / Fraction(scale)
    drawn = np.array([l2_laplace(rng, beta, dimension, _UNIT) for _ in range(count)], dtype=np.float64)
    return drawn / float(_UNIT)


def draw_norms(seed: str, scale: float, count: int) -> _Array:
    """Draw from the exponential distribution of mean ``scale``, which is right for a norm in one dimension alone."""
    return np.abs(draw_noise(f"{seed} norm", scale, 1, count)[:, 0])


# --- One trial of figure 2 ------------------------------------------------------------


def curves() -> Iterator[tuple[str, str]]:
    """Yield each method and kind of noise but the tight one of soft, which equals its published one."""
    for kind in KINDS:
        yield from ((method, kind) for method in PRIVATE if (method, kind) != ("soft", "tight"))


@lru_cache(maxsize=1)
def _har(data: Path, features: int, d: int, needed: int) -> tuple[_Array, _Classes, _Array, _Classes]:
    """Return HAR's training and test records, with classes from 0 and principal components for features."""
    X, y, X_test, y_test = har(data)
    if len(y) < needed or X.shape[1] < features:
        raise BadInput(
            f"the training part in {data} has {len(y)} records of {X.shape[1]} features; at least {needed} of "
            f"{features} are needed",
            "use UCI HAR's own files, with all their records and features",
        )
    X, X_test = principal_components(X[:, :features], X_test[:, :features], d)
    return X, y.astype(np.intp) - 1, X_test, y_test.astype(np.intp) - 1


def trial_of_har(
    data: Path,
    label: str,
    Lambda: float,
    shape: tuple[int, int, int],
    features: int,
    d: int,
    inverses: Sequence[float],
    draws: int,
    pool: int,
    points: Sequence[Point],
) -> dict[str, _Array]:
    """Deal HAR's training records and compute all accuracies of figure 2, without and with noise.

    Parameters
    ----------
    data : path
        The directory with UCI HAR.
    label : str
        It gives the order in which records are dealt, and the noise.
    Lambda : float
    shape : (int, int, int)
        How many parties there are, how many records each has, and how many auxiliary points there are.
    features, d : int
        How many of the first features are used, and how many principal components of them.
    inverses : sequence of float
        The values of 1/eps.
    draws, pool : int
        How many draws of the noise for each curve and 1/eps, and how many different ones there are.
    points : sequence of Point
        Where broken programs are run too.

    Returns
    -------
    by method, one accuracy; by "method kind 1/eps" and by "POINT: MISTAKE", one for each draw; and, at Delta/eps = 1,
    the "norms" of the noise and the "wrong norms" of a sampler that forgets the dimension
    """
    parties, each, auxiliary = shape
    X, y, X_test, y_test = _har(data, features, d, parties * each + auxiliary)
    order = shuffled(label, len(y))
    parts = order[: parties * each].reshape(parties, each)
    aux = order[parts.size : parts.size + auxiliary]
    trial = aggregate(X, y, CLASSES, Lambda, parts, aux)

    still = np.zeros((1, CLASSES * d))
    found = {name: accuracies(X_test, y_test, W, still) for name, W in trial.W.items()}
    own = accuracies(X_test, y_test, np.zeros((CLASSES, d)), trial.own.reshape(parties, -1))
    found["indiv"] = own.mean(keepdims=True)

    eta = draw_noise(label, 1.0, CLASSES * d, pool)  # at Delta/eps = 1
    noise = Pool(eta, draw_norms(label, 1.0, pool))
    found |= {"norms": noise.norms, "wrong norms": noise.wrong}

    def score(method: str, _: int, scale: float, drawn: Drawn) -> _Array:
        moved = scale * drawn.stretch[:, None] * eta[drawn.which]
        return accuracies(X_test, y_test, trial.W[method], moved)

    for method, kind in curves():
        for inverse in inverses:
            scale = sensitivity(method, kind, parties, Lambda) * inverse
            found[f"{method} {kind} {inverse:g}"] = score(method, parties, scale, noise.take(draws, kind))
    found |= mistaken(points, lambda method, kind, M: sensitivity(method, kind, M, Lambda), noise, draws, score)
    votes = np.array([predict_classes(X[aux], W) for W in trial.own])
    alpha = np.stack([(votes == k).mean(axis=0) for k in range(CLASSES)], axis=1)
    moves = eta[np.arange(draws) % pool] * published_sensitivity("soft", parties, Lambda) * INVERSE
    return found | excesses(trial.W["soft"], X[aux], alpha, Lambda, moves)


# --- Curves ---------------------------------------------------------------------------


def curve(found: Mapping[str, _Array], name: str, inverses: Sequence[float], shown: str) -> Series:
    """Return the accuracies of "name 1/eps" over 1/eps as a curve, with the standard errors of the trials' means."""
    return Series.of(shown, tuple(inverses), [found[f"{name} {inverse:g}"] for inverse in inverses])


def crossing(series: Series, level: float) -> float:
    """Return where a curve first falls below a level, between its points on a logarithmic scale.

    A curve that is never below gives its last point, and one that always is its first.
    """
    below = [y < level for y in series.y]
    if not any(below) or below[0]:
        return float(series.x[0] if below[0] else series.x[-1])
    i = below.index(True)
    high, low = series.y[i - 1], series.y[i]
    left, right = math.log10(series.x[i - 1]), math.log10(series.x[i])
    return float(10 ** (left + (right - left) * (high - level) / (high - low)))


def crossed(
    found: Mapping[str, _Array], name: str, inverses: Sequence[float], levels: _Array
) -> tuple[float, float | None]:
    """Return where the mean curve of "name 1/eps" falls below the mean of the trials' levels, and its standard error.

    The error is the jackknife's: the place is computed again without each trial in turn. It counts the draws of the
    noise and how the records were dealt. A curve that is below at no point or at all points has no place, and none.

    Parameters
    ----------
    levels : ndarray, shape (trials,)
        The level of each trial.
    """
    trials = len(levels)

    def place(kept: NDArray[np.intp]) -> float:
        means = [float(found[f"{name} {inverse:g}"][kept].mean()) for inverse in inverses]
        return crossing(Series(name, tuple(inverses), means), float(levels[kept].mean()))

    whole = np.arange(trials)
    value = place(whole)
    if value in {inverses[0], inverses[-1]}:
        return value, None
    without = np.array([place(np.delete(whole, number)) for number in range(trials)])
    return value, float(math.sqrt((trials - 1) * without.var()))


def crossing_row(
    table: str,
    name: str,
    found: Mapping[str, _Array],
    key: str,
    inverses: Sequence[float],
    levels: _Array,
    note: str = "",
) -> Row:
    """Return the row of a place that :func:`crossed` finds; where there is none, the note says why."""
    value, error = crossed(found, key, inverses, levels)
    if error is None:
        note = f"{'below' if value == inverses[0] else 'above'} at every point{f'; {note}' if note else ''}"
    return Row(table, name, value, error, note=note)


# --- The theorems, measured -----------------------------------------------------------

INVERSE = 0.01
"""1/eps: the largest at which soft still answers half the records rightly."""


def excesses(W: _Array, points: _Array, alpha: _Array, Lambda: float, noise: _Array) -> dict[str, _Array]:
    """Return what noise adds to the risk of W, its minimiser, on the auxiliary points; and what zeros add.

    Parameters
    ----------
    W : ndarray, shape (C, d)
    points : ndarray, shape (N, d)
    alpha : ndarray, shape (N, C)
        The parts of the votes.
    Lambda : float
    noise : ndarray, shape (R, C d)
    """
    least = softmax_objective(W, points, alpha, Lambda)
    moved = [W + eta.reshape(W.shape) for eta in noise]
    risks = [softmax_objective(one, points, alpha, Lambda) - least for one in (*moved, np.zeros_like(W))]
    return {"lemma 6": np.array(risks[:-1]), "lemma 6, zeros": np.array(risks[-1:])}


def compared(results: Sequence[dict[str, _Array]], M: int, classes: int, d: int, Lambda: float) -> list[Measured]:
    """Return the bound beside what was measured in all trials."""
    noisy, zeros = (np.array([result[name] for result in results]) for name in ("lemma 6", "lemma 6, zeros"))
    bound = lemma_6_softmax(M, classes, d, Lambda, 1 / INVERSE)
    return [
        measured(f"Lemma 6, soft, 1/eps = {INVERSE:g}", bound, noisy),
        measured("none: the model of zeros", float(np.log(classes)), zeros),
    ]
