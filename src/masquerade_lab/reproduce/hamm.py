"""Hamm, Cao and Belkin 2016, figures 2 to 4: votes of 1,000 parties on UCI HAR, and of 5,000 to 20,000 on two classes.

Figure 2 has six classes. Of it the paper gives five accuracies without noise, and two sentences about accuracies with
noise. Figure 3 is on KDD Cup 1999. Figure 4 is on a stand-in that is invented, unless a directory with the malicious
URLs is named. The text states no accuracy for either. The bands come from another program of a few lines, which dealt
the same records in another order and drew other noise. ``docs/reproduction/hamm-2016.md`` says why the half of figure
2 with noise cannot be met, and what the paper's sentences on figures 3 and 4 would need.

Nothing here is a protocol: one process sees all records, without encryption. The minimisers are those of the protocols
and baselines, and the noise comes from the same sampler on the same grid. Only for two classes the minimisers'
computation differs, since 20,000 small classifiers are computed side by side. Records that are equal are computed once.
"""

import gzip
import lzma
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse, stats
from scipy.sparse.linalg import svds
from scipy.special import expit, lambertw
from sklearn.datasets import load_svmlight_file

from masquerade_core.errors import BadInput, RunFailed
from masquerade_core.learning.erm import TOLERANCE, fit
from masquerade_core.learning.softmax import fit_softmax, one_hot, predict_classes, softmax_objective
from masquerade_core.privacy.samplers.l2_laplace import l2_laplace
from masquerade_core.simulation_rng import SimulationRng
from masquerade_lab import encoding
from masquerade_lab.originals import Table, har, kddcup
from masquerade_lab.reproduce.engine.judging import FALSE_ALARM, Reference, against, judged, reference
from masquerade_lab.reproduce.engine.report import Measured, Panel, Report, Row, Series, mean_and_error, measured
from masquerade_lab.reproduce.engine.tasks import RunTasks, Task, gathered
from masquerade_protocols.voting.theorems import lemma_6_softmax

__all__ = [
    "EXP",
    "FIGURE_2",
    "FIGURE_3",
    "FIGURE_4",
    "HALF",
    "INVERSE",
    "METHODS",
    "NO_NOISE",
    "PRIVATE",
    "PUBLIC",
    "BinaryRecords",
    "Drawn",
    "FigurePlan",
    "Point",
    "Pool",
    "Trial",
    "UnderNoise",
    "Words",
    "accuracies",
    "aggregate",
    "binary_accuracies",
    "classifiers",
    "compared",
    "connections",
    "crossed",
    "crossing",
    "crossing_row",
    "draw_noise",
    "draw_norms",
    "excesses",
    "figure_2",
    "figure_3",
    "figure_4",
    "fit_each",
    "in_place",
    "mistaken",
    "norm_rows",
    "point_rows",
    "principal_components",
    "published_sensitivity",
    "radius",
    "sensitivity",
    "shuffled",
    "stand_in",
    "urls",
    "votes",
]

METHODS = ("batch", "vote", "soft", "avg")
PRIVATE = METHODS[1:]
KINDS = ("published", "tight", "exp")
"""Sizes of the noise: published; the smaller of the published one and the diameter; with a norm that is too small."""

NO_NOISE, HALF, EXP = "no noise", "half of the noise", "norm from Exp(Delta/eps)"
_OTHER = {"published": "tight", "tight": "published"}
_SHORT = 0.95

_INDIVIDUALS = 400  # parties whose own classifiers are tested where there are two classes
_AT_ONCE = 500
_BLOCK = 500  # test records whose scores fit a processor's cache
_MAX_STEPS = 100
_HALVINGS = 40
_ARMIJO = 1e-4
_ROUNDING = 1e-14
_UNIT = Fraction(1 << 32)  # grid units per unit of a weight

_SOURCE = "http://www.sysnet.ucsd.edu/projects/url/"
_FEATURES = 3_231_961  # of the malicious URLs
_OPEN: dict[str, Any] = {".xz": lzma.open, ".gz": gzip.open}

_SLOTS, _LEVELS = 20, 50  # the stand-in's: a record has one word of each slot
_TILT = 1.0  # the largest |log| of how much more often a label has a word
_MALICIOUS = 1 / 3
_BYTES_AT_ONCE = 1 << 14

_Array = NDArray[np.float64]
_Indices = NDArray[np.intp]
_Found = Mapping[str, _Array]
"""By quantity, the values of a trial's draws; of all trials, it has shape (trials, draws)."""
Sensitivity = Callable[[str, str, int], float]
"""Delta by method, kind and M."""


class Point(NamedTuple):
    """A method, its sensitivity ("published", or "tight": at most the diameter), 1/eps, and the number of parties."""

    method: str
    kind: str
    inverse: float
    M: int

    @property
    def name(self) -> str:
        """Its name in a row."""
        return f"{self.method}, {self.kind}, 1/eps = {self.inverse:g}"

    @property
    def key(self) -> str:
        """The same with M, as the references have it."""
        return f"M = {self.M}: {self.name}"


def in_place(other: str) -> str:
    """Return the name of the mistake that takes another classifier."""
    return f"{other} in its place"


@dataclass(frozen=True)
class Words:
    """The names of a figure's tables, rows and panels. In some, {M}, {method} and {kind} stand for what differs.

    Parameters
    ----------
    without, norms, noise, until : str
        The tables of accuracies without noise, of the noise's norms, of the points, and of where curves end.
    curves, panels : mapping of str to str
        By kind of noise, a table and a panel.
    row, crossing : str
        The name of a method without noise, and of a curve that ends.
    kinds : mapping of str to str
        The kinds of noise, as ``crossing`` has them.
    """

    without: str
    norms: str
    noise: str
    until: str
    curves: Mapping[str, str]
    panels: Mapping[str, str]
    row: str
    crossing: str
    kinds: Mapping[str, str]


@dataclass(frozen=True)
class FigurePlan:
    """The records, parties and noise of one figure, its points with bands, and its words.

    Parameters
    ----------
    figure : str
    label : str
        The beginning of each trial's label, which gives the order in which records are dealt, and the noise.
    sizes : tuple of int
        The numbers of parties M, rising. The first parties of the largest are those of a smaller M.
    each, auxiliary : int
        How many records a party has, and how many auxiliary points there are.
    d : int
        The records' dimension, with that of features that are always 0.
    classes : int
    inverses : tuple of float
        The values of 1/eps.
    pool : int
        How many different draws of the noise a trial has, for the norm and for all curves.
    points : tuple of Point
        Where there are bands under noise, and broken programs are run too.
    hidden : mapping of str to sequence of str
        By a point's key or a row's name, the mistakes that its band shows too seldom.
    methods : tuple of str
        In the order of the rows without noise.
    crossing : tuple of str
        The methods whose curves have a row that says where they end.
    words : Words
    notes : tuple of str
    records : str, optional
        What the records are, in a few words.
    features : int
        How many of the records' first features are used; 0 for all.
    banded : bool
        Whether another program ran on these records too.
    said : mapping of (str, float) to str
        By a point's method and 1/eps, the paper's words.
    claims : tuple of Series
        The paper's numbers in the panels.
    claim : str
        The 1/eps up to which the paper sees soft near batch at the largest M, in words.
    trials : int
    Lambda : float
        The paper's lambda.
    """

    figure: str
    label: str
    sizes: tuple[int, ...]
    each: int
    auxiliary: int
    d: int
    classes: int
    inverses: tuple[float, ...]
    pool: int
    points: tuple[Point, ...]
    hidden: Mapping[str, Sequence[str]]
    methods: tuple[str, ...]
    crossing: tuple[str, ...]
    words: Words
    notes: tuple[str, ...]
    records: str | None = None
    features: int = 0
    banded: bool = True
    said: Mapping[tuple[str, float], str] = field(default_factory=dict)
    claims: tuple[Series, ...] = ()
    claim: str = ""
    trials: int = 10
    Lambda: float = 1e-4

    @property
    def dimension(self) -> int:
        """The number of weights, each of which gets noise. Two classes have one row of weights."""
        return self.d * (self.classes if self.classes > 2 else 1)  # noqa: PLR2004 - two classes

    @property
    def needed(self) -> int:
        """The number of training records that a trial deals."""
        return self.sizes[-1] * self.each + self.auxiliary

    def expected(self, name: str) -> Reference | None:
        """Return what the other program reached, or None if it has not run this."""
        return reference(f"hamm-2016 {self.figure}", name) if self.banded else None


# --- Data: UCI HAR ----------------------------------------------------------------------


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
    return _clipped(X_train @ leading), _clipped(X_test @ leading)


def _clipped(X: _Array) -> _Array:
    """Divide each row by its length where that is above 1."""
    return np.asarray(X / np.maximum(1.0, np.linalg.norm(X, axis=1))[:, None])


@lru_cache(maxsize=1)
def _har(data: Path, features: int, d: int, needed: int) -> tuple[_Array, _Indices, _Array, _Indices]:
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


def shuffled(seed: str, n: int) -> _Indices:
    """Return 0 to n - 1 in random order."""
    rng = SimulationRng(seed, "order")
    return np.argsort(np.array([rng.bits(63) for _ in range(n)]))


def _dealt(plan: FigurePlan, order: _Indices) -> tuple[_Indices, _Indices]:
    """Return which records each party has, of shape (M, n_j), and which are the auxiliary points."""
    parts = order[: plan.sizes[-1] * plan.each].reshape(plan.sizes[-1], plan.each)
    return parts, order[parts.size : parts.size + plan.auxiliary]


# --- Data: two classes ------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class BinaryRecords:
    """Records of two classes, each different one once.

    Parameters
    ----------
    X : ndarray, shape (D, d)
        Different records, no longer than 1.
    y : ndarray, shape (D,)
        -1 or +1.
    train : ndarray, shape (n,)
        Which of them each training record is.
    X_test : ndarray, shape (T, d)
    y_test : ndarray, shape (T,)
    share : ndarray, shape (T,)
        The share of the test records that are like this one.
    """

    X: _Array
    y: _Array
    train: _Indices
    X_test: _Array
    y_test: _Array
    share: _Array


@lru_cache(maxsize=1)
def connections(folder: Path) -> BinaryRecords:
    """Read KDD Cup 1999: +1 is an attack. Numbers, words and their bounds are taken from both files, which are public.

    Of 494,021 and 311,029 records, 145,586 and 77,291 are different.
    """
    train, test = kddcup(folder)
    index: dict[Any, int] = {}
    which = np.array([index.setdefault(row, len(index)) for row in (*train.rows, *test.rows)])
    records = encoding.one_hot(Table(train.columns, list(index)), "label", lambda cell: cell != "normal")
    n = len(train.rows)
    tested, times = np.unique(which[n:], return_counts=True)
    share = times / times.sum()
    return BinaryRecords(records.X, records.y, which[:n], records.X[tested], records.y[tested], share)


@lru_cache(maxsize=1)
def urls(folder: Path, d: int, days: tuple[int, int]) -> BinaryRecords:
    """Read the malicious URLs of so many days for training and so many later days for testing: +1 is malicious.

    Parameters
    ----------
    folder : path
        It holds Day0.svm, Day1.svm, ..., packed as .xz or .gz or not.
    d : int
        How many principal components are kept.
    days : (int, int)

    Raises
    ------
    BadInput
        A file is missing or is not what its name says.
    """
    read = [_day(folder, day) for day in range(sum(days))]
    parts = read[: days[0]], read[days[0] :]
    (X, y), (X_test, y_test) = (
        (sparse.vstack([rows for rows, _ in part], format="csr"), np.concatenate([labels for _, labels in part]))
        for part in parts
    )
    return _projected(X, y, X_test, y_test, d)


def _day(folder: Path, day: int) -> tuple[Any, _Array]:
    hint = (
        f"get the data from {_SOURCE}; the directory must hold Day0.svm to Day19.svm, unpacked or packed as .gz or .xz"
    )
    name = f"Day{day}.svm"
    found = [path for ending in ("", *_OPEN) if (path := folder / f"{name}{ending}").is_file()]
    if not found:
        raise BadInput(f"{folder} holds no file {name}, which is a part of the malicious URLs", hint)
    try:
        with _OPEN.get(found[0].suffix, open)(found[0], "rb") as file:
            X, y = load_svmlight_file(file, n_features=_FEATURES, zero_based=False)
    except (ValueError, OSError, EOFError, lzma.LZMAError) as error:
        raise BadInput(f"{found[0]} is not in SVMlight's format", hint) from error
    if not (np.abs(y) == 1).all():
        raise BadInput(f"{found[0]} has labels other than -1 and +1", hint)
    return X, y


@lru_cache(maxsize=1)
def stand_in(d: int, records: tuple[int, int]) -> BinaryRecords:
    """Invent records that are as many as the URLs, and as sparse; nothing else about them is a URL's.

    A third is malicious. Each of 20 slots holds one of 50 words; a word is as frequent as 1 over its rank, times a
    factor between 1/e and e that depends on the label. The factors and the words come from fixed seeds.

    Parameters
    ----------
    d : int
        How many principal components are kept.
    records : (int, int)
        How many there are for training and for testing.
    """
    (X, y), (X_test, y_test) = (_invented(name, n) for name, n in zip(("training", "test"), records, strict=True))
    return _projected(X, y, X_test, y_test, d)


def _invented(part: str, n: int) -> tuple[Any, _Array]:
    law, rng = SimulationRng("hamm-2016 stand-in", "law"), SimulationRng("hamm-2016 stand-in", part)
    y = np.where(_uniform(rng, n) < _MALICIOUS, 1.0, -1.0)
    words = np.empty((n, _SLOTS), dtype=np.int64)
    for slot in range(_SLOTS):
        tilt, drawn = _TILT * (2 * _uniform(law, _LEVELS) - 1), _uniform(rng, n)
        for label in (-1.0, 1.0):
            often = np.exp(label * tilt) / np.arange(1, _LEVELS + 1)
            ends = np.cumsum(often)[:-1] / often.sum()
            words[y == label, slot] = slot * _LEVELS + np.searchsorted(ends, drawn[y == label], side="right")
    starts = np.arange(0, words.size + 1, _SLOTS)
    ones = np.full(words.size, 1 / np.sqrt(_SLOTS))
    return sparse.csr_matrix((ones, words.ravel(), starts), shape=(n, _SLOTS * _LEVELS)), y


def _uniform(rng: SimulationRng, n: int) -> _Array:
    """Return numbers in [0, 1), multiples of 2^-32."""
    parts = (rng.bytes(4 * min(_BYTES_AT_ONCE, n - done)) for done in range(0, n, _BYTES_AT_ONCE))
    return np.concatenate([np.frombuffer(part, dtype="<u4") for part in parts]) / 2.0**32


def _projected(X: Any, y: _Array, X_test: Any, y_test: _Array, d: int) -> BinaryRecords:
    """Project both parts on the training part's d leading right singular vectors, not centred, and clip the rows."""
    used = np.flatnonzero(X.getnnz(axis=0))
    X, X_test = X[:, used], X_test[:, used]
    _, _, leading = svds(X, k=d, v0=np.ones(min(X.shape)))
    n, m = len(y), len(y_test)
    train, test = _clipped(X @ leading.T), _clipped(X_test @ leading.T)
    return BinaryRecords(train, y, np.arange(n), test, y_test, np.full(m, 1 / m))


# --- Runs: sensitivities and noise --------------------------------------------------------


def published_sensitivity(method: str, M: int, Lambda: float, classes: int) -> float:
    """Return how far one party may move the released parameters, as the paper bounds it.

    References
    ----------
    Hamm, Cao, Belkin 2016, Theorems 1 and 3 for two classes; for ``avg``, one party's classifier moves by at most
    2/Lambda. For more classes, equations (53) and (60) and the last sentence of Appendix B.4.
    """
    if classes == 2:  # noqa: PLR2004 - two classes
        return 2 / Lambda / (1 if method == "vote" else M)
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


def sensitivity(method: str, kind: str, M: int, Lambda: float, classes: int) -> float:
    """Return Delta: the published one; or if the kind is "tight", no more than the diameter 2R, by M for an average.

    The diameter of all minimisers needs no condition on how the targets change. It is far below sqrt(2)/lambda for a
    small lambda.
    """
    published = published_sensitivity(method, M, Lambda, classes)
    if kind != "tight":
        return published
    return min(published, 2 * radius(classes, Lambda) / (M if method == "avg" else 1))


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


class Drawn(NamedTuple):
    """Draws of the noise at Delta/eps = 1: which of the pool, and by what each is stretched."""

    which: NDArray[np.intp]
    stretch: _Array


class Pool:
    """A trial's draws of the noise at Delta/eps = 1, which are handed out in turn.

    Parameters
    ----------
    eta : ndarray, shape (pool, d)
    wrong : ndarray, shape (pool,)
        Norms from Exp(1).
    """

    def __init__(self, eta: _Array, wrong: _Array) -> None:
        self.eta, self.norms, self.wrong = eta, np.linalg.norm(eta, axis=1), wrong
        self._start = 0

    def take(self, count: int, kind: str) -> Drawn:
        """Return the next draws; their norms are the wrong ones if the kind is "exp"."""
        which = np.arange(self._start, self._start + count) % len(self.eta)
        self._start += count
        return Drawn(which, (self.wrong / self.norms)[which] if kind == "exp" else np.ones(count))


def mistaken(
    points: Iterable[Point],
    size: Sensitivity,
    pool: Pool,
    draws: int,
    score: Callable[[str, int, float, Drawn], _Array],
) -> dict[str, _Array]:
    """Return a trial's accuracies under the mistakes that no curve has, by "POINT: MISTAKE".

    Parameters
    ----------
    points : iterable of Point
    size : callable
    pool : Pool
    draws : int
    score : callable
        (method, M, scale, drawn) -> the accuracy of that method's classifier under each draw, times the scale.
    """
    found = {}
    for point in points:
        method, kind, inverse, M = point
        scale = inverse * size(method, kind, M)
        found[f"{point.key}: {HALF}"] = score(method, M, scale / 2, pool.take(draws, kind))
        found[f"{point.key}: {EXP}"] = score(method, M, scale, pool.take(draws, "exp"))
        for other in PRIVATE:
            if other == method:
                continue
            found[f"{point.key}: {in_place(other)}"] = score(other, M, scale, pool.take(draws, kind))
        for name, Delta in _exchanged(point, size).items():
            found[f"{point.key}: {name}"] = score(method, M, Delta * inverse, pool.take(draws, kind))
    return found


def _exchanged(point: Point, size: Sensitivity) -> dict[str, float]:
    """Return other sensitivities by name: the other kind's, and other methods'. Half of the noise is there already."""
    own = size(point.method, point.kind, point.M)
    others = {f"the {_OTHER[point.kind]} Delta": size(point.method, _OTHER[point.kind], point.M)}
    others |= {f"{other}'s Delta": size(other, point.kind, point.M) for other in PRIVATE}
    return {name: Delta for name, Delta in others.items() if not np.isclose(Delta / own, (0.5, 1)).any()}


# --- Runs: the aggregates of six classes --------------------------------------------------


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


def aggregate(X: _Array, y: _Indices, classes: int, Lambda: float, parts: _Indices, aux: _Indices) -> Trial:
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


def accuracies(X: _Array, y: _Indices, W: _Array, noise: _Array) -> _Array:
    """Return the test accuracy of W + eta for each eta; noise has shape (R, C d), the result (R,)."""
    shifted = (W.ravel() + noise).reshape(-1, *W.shape)
    return np.array([np.mean(predict_classes(X, one) == y) for one in shifted])


# --- Runs: the aggregates of two classes --------------------------------------------------


def fit_each(X: _Array, y: _Array, Lambda: float) -> _Array:
    """Minimise (1/n) sum log(1 + exp(-y w.x)) + (Lambda/2) |w|^2 for each of M parties; shape (M, d).

    Each w is X'c for some c. Newton's step for c is -(Lambda I + D K/n)^-1 (Lambda c - y p/n), with the products K of
    the records, p the probability of the wrong label and D = p (1 - p).

    Parameters
    ----------
    X : ndarray, shape (M, n, d)
    y : ndarray, shape (M, n)

    Raises
    ------
    RunFailed
        Floating point does not reach the tolerance.
    """
    n = y.shape[1]
    K = X @ X.transpose(0, 2, 1)
    c = np.zeros_like(y)

    def product(v: _Array) -> _Array:
        return np.asarray((K @ v[:, :, None])[:, :, 0])

    def objective(v: _Array, scores: _Array) -> _Array:
        return np.asarray(np.logaddexp(0, -y * scores).mean(axis=1) + Lambda / 2 * (v * scores).sum(axis=1))

    for _ in range(_MAX_STEPS):
        scores = product(c)
        wrong = expit(-y * scores)
        residual = Lambda * c - y * wrong / n
        slope_of = product(residual)
        gradient = np.sqrt(np.maximum((residual * slope_of).sum(axis=1), 0.0))
        if (gradient <= TOLERANCE).all():
            return np.asarray((c[:, None, :] @ X)[:, 0])
        matrix = (wrong * (1 - wrong))[:, :, None] * K / n
        matrix[:, np.arange(n), np.arange(n)] += Lambda
        direction = -np.linalg.solve(matrix, residual[:, :, None])[:, :, 0]
        moved = product(direction)
        slope = (slope_of * direction).sum(axis=1)
        value = objective(c, scores)
        allowed = _ROUNDING * np.maximum(1.0, np.abs(value))
        step = np.ones(len(y))
        for _ in range(_HALVINGS):
            far = step[:, None]
            new = objective(c + far * direction, scores + far * moved)
            short = new > value + _ARMIJO * step * slope + allowed
            if not short.any():
                break
            step[short] /= 2
        c = c + step[:, None] * direction
    raise RunFailed(
        f"the parties' classifiers did not reach a gradient norm of {TOLERANCE:g}",
        "choose a larger lambda",
    )


def votes(X: _Array, W: _Array, sizes: Sequence[int]) -> dict[int, _Array]:
    """Count, for each record, how many of the first M classifiers say +1, for each M; by M, shape (len(X),)."""
    counts = np.zeros(len(X))
    found = {}
    ends = sorted({*range(_AT_ONCE, len(W), _AT_ONCE), *sizes})
    start = 0
    for end in ends:
        counts += (X @ W[start:end].T > 0).sum(axis=1)
        start = end
        if end in sizes:
            found[end] = counts.copy()
    return found


def _weighted(X: _Array, y: _Array, weights: _Array, Lambda: float) -> _Array:
    kept = weights > 0
    return fit(X[kept], y[kept], Lambda, weights=weights[kept] * (kept.sum() / weights[kept].sum()))


def classifiers(
    records: BinaryRecords, parts: _Indices, aux: _Indices, Lambda: float, sizes: Sequence[int]
) -> tuple[dict[int, dict[str, _Array]], _Array]:
    """Train every aggregate for the first M parties, for each M, and the parties' own classifiers.

    Parameters
    ----------
    records : BinaryRecords
    parts : ndarray, shape (M, n_j)
        Which different record each of a party's records is.
    aux : ndarray, shape (N,)
        The same for the auxiliary points; their labels are not used.
    Lambda : float
    sizes : sequence of int
        The values of M; the largest is len(parts).

    Returns
    -------
    by M and by method, a classifier of shape (d,); and the parties' own, of shape (M, d)

    References
    ----------
    Hamm, Cao, Belkin 2016, equations (6), (8), (12) and (19). Of equally many votes, +1 wins.
    """
    own = np.concatenate(
        [
            fit_each(records.X[some], records.y[some], Lambda)
            for some in (parts[i : i + _AT_ONCE] for i in range(0, len(parts), _AT_ONCE))
        ]
    )
    different, times = np.unique(aux, return_counts=True)
    points = records.X[different]
    twice, labels = np.vstack([points, points]), np.repeat((1.0, -1.0), len(points))
    found = {}
    for M, counts in votes(points, own, sizes).items():
        seen, how_often = np.unique(parts[:M], return_counts=True)
        alpha = counts / M
        won = np.where(counts >= M / 2, 1.0, -1.0)
        found[M] = {
            "batch": _weighted(records.X[seen], records.y[seen], how_often.astype(np.float64), Lambda),
            "vote": _weighted(points, won, times.astype(np.float64), Lambda),
            "soft": _weighted(twice, labels, np.concatenate([times * alpha, times * (1 - alpha)]), Lambda),
            "avg": own[:M].mean(axis=0),
        }
    return found, own


def binary_accuracies(records: BinaryRecords, W: _Array) -> _Array:
    """Return the test accuracy of each row of W; shape (len(W),)."""
    right = (records.X_test @ W.T > 0) == (records.y_test > 0)[:, None]
    return np.asarray(records.share @ right, dtype=np.float64)


class UnderNoise:
    """Accuracies under noise, a block of test records at a time, so that noise meets a record once for all questions.

    Parameters
    ----------
    records : BinaryRecords
    eta : ndarray, shape (pool, d)
        The noise at Delta/eps = 1, of the records' dimension at least.
    """

    def __init__(self, records: BinaryRecords, eta: _Array) -> None:
        self._records, self._eta = records, eta[:, : records.X_test.shape[1]]
        self._asked: list[tuple[_Array, _Array, _Indices, _Array]] = []

    def ask(self, w: _Array, scale: float, drawn: Drawn) -> _Array:
        """Return an array for the accuracies of w under these draws, times the scale; ``answer`` fills it."""
        accuracy = np.zeros(len(drawn.which))
        self._asked.append((w, scale * drawn.stretch, drawn.which, accuracy))
        return accuracy

    def answer(self) -> None:
        """Compute everything that was asked for."""
        records = self._records
        for start in range(0, len(records.y_test), _BLOCK):
            rows = slice(start, start + _BLOCK)
            X, good, share = records.X_test[rows], records.y_test[rows] > 0, records.share[rows]
            met = self._eta @ X.T
            for w, scales, which, accuracy in self._asked:
                accuracy[:] += ((scales[:, None] * met[which] + X @ w > 0) == good) @ share


# --- Runs: one trial ----------------------------------------------------------------------


def curves() -> Iterator[tuple[str, str]]:
    """Yield each method and kind of noise but the tight one of soft, which equals its published one."""
    for kind in KINDS:
        yield from ((method, kind) for method in PRIVATE if (method, kind) != ("soft", "tight"))


def _under_noise(
    plan: FigurePlan, noise: Pool, draws: int, score: Callable[[str, int, float, Drawn], _Array]
) -> dict[str, _Array]:
    """Return a trial's accuracies on all curves and under all mistakes, and the norms of the noise.

    Parameters
    ----------
    plan : FigurePlan
    noise : Pool
    draws : int
        How many of its draws each curve takes for each 1/eps.
    score : callable
        As ``mistaken`` takes it.
    """

    def size(method: str, kind: str, M: int) -> float:
        return sensitivity(method, kind, M, plan.Lambda, plan.classes)

    found = {"norms": noise.norms, "wrong norms": noise.wrong}
    for M in plan.sizes:
        for method, kind in curves():
            for inverse in plan.inverses:
                scale = size(method, kind, M) * inverse
                found[f"{M} {method} {kind} {inverse:g}"] = score(method, M, scale, noise.take(draws, kind))
    return found | mistaken(plan.points, size, noise, draws, score)


def _pool(plan: FigurePlan, label: str) -> Pool:
    return Pool(draw_noise(label, 1.0, plan.dimension, plan.pool), draw_norms(label, 1.0, plan.pool))


def har_trial(plan: FigurePlan, data: Path, label: str, draws: int) -> dict[str, _Array]:
    """Deal HAR's training records and compute all accuracies of figure 2, without and with noise.

    Parameters
    ----------
    plan : FigurePlan
    data : path
        The directory with UCI HAR.
    label : str
        It gives the order in which records are dealt, and the noise.
    draws : int
        How many draws of the noise for each curve and 1/eps.

    Returns
    -------
    by "M method", one accuracy; by "M method kind 1/eps" and by "POINT: MISTAKE", one for each draw; at Delta/eps = 1,
    the "norms" of the noise and the "wrong norms" of a sampler that forgets the dimension; and what a theorem bounds
    """
    (M,), C = plan.sizes, plan.classes
    X, y, X_test, y_test = _har(data, plan.features, plan.d, plan.needed)
    parts, aux = _dealt(plan, shuffled(label, len(y)))
    trial = aggregate(X, y, C, plan.Lambda, parts, aux)

    still = np.zeros((1, plan.dimension))
    found = {f"{M} {name}": accuracies(X_test, y_test, W, still) for name, W in trial.W.items()}
    own = accuracies(X_test, y_test, np.zeros((C, plan.d)), trial.own.reshape(M, -1))
    found["indiv"] = own.mean(keepdims=True)

    noise = _pool(plan, label)

    def score(method: str, _: int, scale: float, drawn: Drawn) -> _Array:
        moved = scale * drawn.stretch[:, None] * noise.eta[drawn.which]
        return accuracies(X_test, y_test, trial.W[method], moved)

    found |= _under_noise(plan, noise, draws, score)
    voted = np.array([predict_classes(X[aux], W) for W in trial.own])
    alpha = np.stack([(voted == k).mean(axis=0) for k in range(C)], axis=1)
    Delta = published_sensitivity("soft", M, plan.Lambda, C)
    moves = noise.eta[np.arange(draws) % plan.pool] * Delta * INVERSE
    return found | excesses(trial.W["soft"], X[aux], alpha, plan.Lambda, moves)


def projected_publicly(plan: FigurePlan, data: Path, label: str) -> dict[str, _Array]:
    """Deal HAR's records as for figure 2, project them by the auxiliary ones, and return each method's accuracy.

    The paper does not say whose principal components it takes. Those of all training records depend on the parties'
    private ones, and no epsilon counts that. The auxiliary records are public, so their components cost nothing.

    Parameters
    ----------
    plan, data, label
        As in :func:`har_trial`. There is no noise.

    Returns
    -------
    by method; and by "first METHOD", with the first d columns in place of components
    """
    X, y, X_test, y_test = har(data)
    parts, aux = _dealt(plan, shuffled(label, len(y)))
    still = np.zeros((1, plan.dimension))
    found: dict[str, _Array] = {}
    for start, of in (("", X[aux, : plan.features]), ("first ", np.eye(plan.d, plan.features))):
        train, test = principal_components(X[:, : plan.features], X_test[:, : plan.features], plan.d, of=of)
        trial = aggregate(train, y.astype(np.intp) - 1, plan.classes, plan.Lambda, parts, aux)
        found |= {
            f"{start}{name}": accuracies(test, y_test.astype(np.intp) - 1, trial.W[name], still) for name in METHODS
        }
    return found


def connection_trial(plan: FigurePlan, folder: Path, label: str, draws: int) -> dict[str, _Array]:
    """Return a trial's accuracies on KDD Cup 1999."""
    return _binary_trial(plan, connections(folder), label, draws)


def stand_in_trial(plan: FigurePlan, records: tuple[int, int], label: str, draws: int) -> dict[str, _Array]:
    """Return a trial's accuracies on the stand-in."""
    return _binary_trial(plan, stand_in(plan.d, records), label, draws)


def url_trial(plan: FigurePlan, folder: Path, days: tuple[int, int], label: str, draws: int) -> dict[str, _Array]:
    """Return a trial's accuracies on the malicious URLs."""
    return _binary_trial(plan, urls(folder, plan.d, days), label, draws)


def _binary_trial(plan: FigurePlan, records: BinaryRecords, label: str, draws: int) -> dict[str, _Array]:
    """Deal the training records and compute all accuracies, without and with noise, as :func:`har_trial` does."""
    n = len(records.train)
    if n < plan.needed:
        raise BadInput(
            f"there are {n} training records, but {plan.sizes[-1]} parties and the auxiliary points need {plan.needed}",
            "use the original files, with all their records",
        )
    parts, aux = _dealt(plan, records.train[shuffled(label, n)])
    by_size, own = classifiers(records, parts, aux, plan.Lambda, plan.sizes)
    found = {
        f"{M} {method}": binary_accuracies(records, w[None])
        for M, by_method in by_size.items()
        for method, w in by_method.items()
    }
    found["indiv"] = binary_accuracies(records, own[:_INDIVIDUALS]).mean(keepdims=True)
    noise = _pool(plan, label)
    tested = UnderNoise(records, noise.eta)

    def score(method: str, M: int, scale: float, drawn: Drawn) -> _Array:
        return tested.ask(by_size[M][method], scale, drawn)

    found |= _under_noise(plan, noise, draws, score)
    tested.answer()
    return found


# --- Runs: the theorem, measured ----------------------------------------------------------

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


def compared(results: Sequence[_Found], M: int, classes: int, d: int, Lambda: float) -> list[Measured]:
    """Return the bound beside what was measured in all trials."""
    noisy, zeros = (np.array([result[name] for result in results]) for name in ("lemma 6", "lemma 6, zeros"))
    bound = lemma_6_softmax(M, classes, d, Lambda, 1 / INVERSE)
    return [
        measured(f"Lemma 6, soft, 1/eps = {INVERSE:g}", bound, noisy),
        measured("none: the model of zeros", float(np.log(classes)), zeros),
    ]


# --- The figures as data ------------------------------------------------------------------

_VOTE, _SOFT, _AVG = (in_place(method) for method in PRIVATE)
_NOISE = "D4: test accuracy under noise"
_SEEDED = (
    "Everything is computed without encryption. Minimisers, votes and averages are those of the protocols and "
    "baselines; the noise comes from their sampler, on their grid. A seed gives it: nothing here is a private release."
)

# Figure 2: what the paper states, and tables of its own.
_PAPER = {"batch": 0.90, "indiv": 0.47, "vote": 0.79, "soft": 0.76, "avg": 0.67}
"""The accuracies without noise that the text states."""
_CLOSE = 0.05  # to them
_DIFFERENCES = (("vote", "soft"), ("soft", "avg"))
_HIDDEN_BESIDE = {"vote": (_SOFT,), "soft": (_VOTE, _AVG)}
"""The mistakes that the distance from the paper cannot show."""
_PAPERS_END = 1.0
_BESIDE = "D1: test accuracy without noise, minus the paper's"
_ORDER = "D1: differences within a trial"
PUBLIC = "D2: principal components of the auxiliary records, minus those of all training records"
_CHANGED = 0.01  # our claim: so little does a public projection change
_FIRST = "the first columns in their place"

# Figures 3 and 4.
_NEAR = 0.01  # of an accuracy: "nearly as well as"
_KEEPS = f"1/eps up to which soft keeps its accuracy without noise, but for {_NEAR}"
_STAND_IN = (196_000, 200_000)
_DAYS = (10, 10)

_INVERSES_2 = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
_ENDS = (_INVERSES_2[0], _INVERSES_2[-1])

FIGURE_2 = FigurePlan(
    figure="2",
    label="hamm-2016",
    sizes=(1000,),
    each=6,
    auxiliary=1000,
    features=265,  # the time domain: the first of HAR's 561 features
    d=50,
    classes=6,
    inverses=_INVERSES_2,
    pool=1000,
    points=(
        *(Point("soft", "published", inverse, 1000) for inverse in (0.001, 0.003, 0.01, 0.1, 1.0)),
        *(Point("avg", "published", inverse, 1000) for inverse in (0.003, 1.0)),
        *(Point("avg", "tight", inverse, 1000) for inverse in (0.1, 0.3, 1.0)),
        Point("vote", "tight", 0.001, 1000),
        Point("vote", "published", 0.1, 1000),
    ),
    hidden={
        "soft": (_VOTE,),  # their difference within a trial shows it
        "M = 1000: soft, published, 1/eps = 0.001": (_AVG,),
        "M = 1000: soft, published, 1/eps = 0.003": (_AVG,),
        "M = 1000: soft, published, 1/eps = 0.01": (_AVG,),
        "M = 1000: soft, published, 1/eps = 0.1": (HALF, _VOTE, _AVG, "vote's Delta", "avg's Delta"),
        "M = 1000: soft, published, 1/eps = 1": (HALF, _VOTE, _AVG, "vote's Delta", "avg's Delta"),
        "M = 1000: avg, published, 1/eps = 0.003": (_SOFT,),
        "M = 1000: avg, published, 1/eps = 1": (HALF, _VOTE, _SOFT, "vote's Delta"),
        "M = 1000: avg, tight, 1/eps = 0.1": (NO_NOISE, HALF, EXP, _SOFT),
        "M = 1000: avg, tight, 1/eps = 0.3": (_SOFT,),
        "M = 1000: avg, tight, 1/eps = 1": (_SOFT,),
        "M = 1000: vote, published, 1/eps = 0.1": (HALF, _SOFT, _AVG, "the tight Delta", "avg's Delta"),
    },
    methods=tuple(_PAPER),
    crossing=("soft", "avg"),
    words=Words(
        without="D1: test accuracy without noise",
        norms="D3: mean norm of the noise, in units of C d Delta/eps",
        noise=_NOISE,
        until="1/eps up to which soft and avg are better than indiv; the paper says 1",
        curves={
            "published": "Accuracy by 1/eps, published sensitivities",
            "tight": "Accuracy by 1/eps, the smaller of the published sensitivity and the diameter",
            "exp": "Accuracy by 1/eps, published sensitivities, the norm drawn from Exp(Delta/eps)",
        },
        panels={
            "published": "Published sensitivities",
            "tight": "Sensitivity at most the diameter",
            "exp": "Norm from Exp(Delta/eps): not private",
        },
        row="{method}",
        crossing="{method}, {kind}",
        kinds={kind: kind for kind in KINDS},
    ),
    notes=(
        _SEEDED,
        (
            "The principal components are those of the training records, and lambda was chosen on these records. "
            "Neither the paper's epsilon nor any other epsilon here accounts for that."
        ),
        (
            "Numbers are accuracies on the 2,947 test records. They are averages over the draws of the noise and over "
            "the trials, which deal the records anew; the standard error is that of the trials' means. All curves of a "
            "trial take their noise from one pool of draws, each scaled by its own Delta/eps."
        ),
    ),
    said={
        ("vote", 0.1): "the paper: useless",
        ("soft", 1.0): "the paper: as good as indiv, .47",
        ("avg", 1.0): "the paper: as good as indiv, .47",
    },
    claims=(  # the text states the private methods' accuracies for 1/eps = 0, which is drawn at the left end
        *(Series(name, _ENDS[:1], (_PAPER[name],), claimed=True) for name in PRIVATE),
        *(Series(name, _ENDS, (_PAPER[name],) * 2, claimed=True) for name in ("batch", "indiv")),
        Series("soft and avg fall to indiv", (_PAPERS_END,), (_PAPER["indiv"],), claimed=True),
    ),
)
"""UCI HAR: a thousand parties with six records each."""


def _binary_words(short: str) -> Words:
    """Return the words of figures 3 and 4 for records with this name."""
    panels = {
        "published": "published noise",
        "tight": "at most the diameter",
        "exp": "norm from Exp, not private",
    }
    kinds = {"published": "published", "tight": "at most the diameter", "exp": EXP}
    return Words(
        without="Test accuracy without noise",
        norms="D3: mean norm of the noise, in units of d Delta/eps",
        noise=f"{_NOISE}, M = {{M}}",
        until="1/eps up to which a method is better than indiv",
        curves={kind: f"Accuracy by 1/eps, M = {{M}}: {name}" for kind, name in kinds.items()},
        panels={kind: f"{short}, M = {{M}}: {title}" for kind, title in panels.items()},
        row="{method}, M = {M}",
        crossing="M = {M}, {method}, {kind}",
        kinds=kinds,
    )


_BINARY_POINTS = (
    *(Point("soft", "published", inverse, 20_000) for inverse in (0.3, 1.0, 10.0)),
    *(Point("avg", "published", inverse, 20_000) for inverse in (0.3, 1.0)),
    Point("vote", "published", 0.001, 20_000),
    *(Point("vote", "tight", inverse, 20_000) for inverse in (0.003, 0.01)),
    Point("avg", "tight", 100.0, 20_000),
    Point("soft", "published", 0.1, 5_000),
)
_BINARY_NOTES = (
    _SEEDED,
    (
        "Numbers are accuracies on the test records. They are averages over the draws of the noise and over the "
        "trials, which deal the training records anew; the standard error is that of the trials' means. The first "
        "5,000 and 10,000 of the 20,000 parties are those of smaller M. All curves of a trial take their noise from "
        "one pool of draws, each scaled by its own Delta/eps."
    ),
    (
        "At lambda = 1e-4 no classifier for records in the unit ball is longer than 52.8. A curve that holds its "
        "accuracy until 1/eps = 10, where the stated noise of soft is 10 d long at M = 20,000, would need noise "
        "whose norm does not grow with the dimension d: such as a norm drawn from Exp(Delta/eps), which is not "
        "private."
    ),
)

FIGURE_3 = FigurePlan(
    figure="3",
    label="hamm-2016 3",
    sizes=(5_000, 10_000, 20_000),
    each=22,
    auxiliary=43_000,
    d=123,
    classes=2,
    inverses=(0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0),
    pool=500,
    points=(*_BINARY_POINTS, Point("avg", "tight", 30.0, 20_000)),
    hidden={
        "M = 20000: soft, published, 1/eps = 0.3": (_AVG,),
        "M = 20000: soft, published, 1/eps = 1": (_VOTE, _AVG),
        "M = 20000: soft, published, 1/eps = 10": (HALF, _VOTE, _AVG, "vote's Delta"),
        "M = 20000: avg, published, 1/eps = 0.3": (_VOTE, _SOFT),
        "M = 20000: avg, published, 1/eps = 1": (_VOTE, _SOFT),
        "M = 20000: vote, published, 1/eps = 0.001": (HALF, _SOFT, _AVG),
        "M = 20000: vote, tight, 1/eps = 0.003": (_SOFT, _AVG),
        "M = 20000: vote, tight, 1/eps = 0.01": (_SOFT, _AVG),
        "M = 20000: avg, tight, 1/eps = 100": (_VOTE, _SOFT),
        "M = 5000: soft, published, 1/eps = 0.1": (_VOTE, _AVG),
    },
    methods=(*METHODS, "indiv"),
    crossing=PRIVATE,
    words=_binary_words("KDD"),
    notes=(
        (
            "Numbers and words of KDD Cup 1999 are mapped to [0, 1]; counts and amounts that span two orders of "
            "magnitude take log(1 + x) first. With a constant there are 120 features. The noise has the paper's 123 "
            "dimensions, three of which meet features that are always 0."
        ),
        *_BINARY_NOTES,
    ),
    records="KDD Cup 1999",
    claim="the paper: about 10",
)
"""KDD Cup 1999: 5,000 to 20,000 parties with 22 records each."""

FIGURE_4 = replace(
    FIGURE_3,
    figure="4",
    label="hamm-2016 4",
    each=9,
    auxiliary=16_000,
    d=50,
    points=(*_BINARY_POINTS, Point("vote", "tight", 0.03, 20_000)),
    hidden={
        "M = 20000: soft, published, 1/eps = 0.3": (_AVG,),
        "M = 20000: soft, published, 1/eps = 1": (_AVG,),
        "M = 20000: soft, published, 1/eps = 10": (HALF, _VOTE, _AVG, "vote's Delta"),
        "M = 20000: avg, published, 1/eps = 0.3": (_SOFT,),
        "M = 20000: avg, published, 1/eps = 1": (_SOFT,),
        "M = 20000: vote, published, 1/eps = 0.001": (HALF, _SOFT, _AVG),
        "M = 20000: avg, tight, 1/eps = 100": (_SOFT,),
        "M = 5000: soft, published, 1/eps = 0.1": (_AVG,),
    },
    words=_binary_words("Stand-in"),
    notes=(
        (
            "THE RECORDS ARE INVENTED: a stand-in as large and as sparse as ten and ten days of malicious URLs. Its "
            "accuracies say nothing about URLs. --data DIRECTORY names the original files."
        ),
        *_BINARY_NOTES,
    ),
    records="a stand-in for malicious URLs, invented",
    claim="",
)
"""The same on a stand-in, with 9 records each."""

_URLS = "The records are days 0 to 9 and 10 to 19 of the malicious URLs, as principal components that are not centred."


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
    plan = FIGURE_2
    results = run_tasks(_tasks(plan, har_trial, (data,), draws, seed))
    public = run_tasks([
        Task(f"trial {number}, public projection", projected_publicly, (plan, data, f"{plan.label} {seed} {number}"))
        for number in range(plan.trials)
    ])  # fmt: skip
    found = gathered(results)
    rows = (
        *_without_rows(plan, found),
        *_paper_rows(plan, found),
        *_public_rows(plan, public, results),
        *_noise_rows(plan, found),
        *_curve_rows(plan, found),
    )
    bounds = compared(results, plan.sizes[-1], plan.classes, plan.d, plan.Lambda)
    return _report(plan, draws, seed, rows, _panels(plan, found), bounds)


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
    return _binary(FIGURE_3, connection_trial, (_folder(data, "kddcup99"),), draws, seed, run_tasks)


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
    if data is None:
        return _binary(FIGURE_4, stand_in_trial, (_STAND_IN,), draws, seed, run_tasks)
    words, notes = _binary_words("URLs"), (_URLS, *_BINARY_NOTES)
    plan = replace(FIGURE_4, records="malicious URLs", words=words, notes=notes, banded=False)
    return _binary(plan, url_trial, (_folder(data, "url_svmlight"), _DAYS), draws, seed, run_tasks)


def _folder(data: Path, name: str) -> Path:
    return data / name if (data / name).is_dir() else data


def _binary(
    plan: FigurePlan,
    function: Callable[..., dict[str, _Array]],
    where: tuple[Any, ...],
    draws: int,
    seed: int,
    run_tasks: RunTasks,
) -> Report:
    found = gathered(run_tasks(_tasks(plan, function, where, draws, seed)))
    rows = (
        *_without_rows(plan, found),
        *_noise_rows(plan, found),
        *_curve_rows(plan, found),
        *_kept_rows(plan, found),
    )
    return _report(plan, draws, seed, rows, _panels(plan, found))


def _tasks(
    plan: FigurePlan, function: Callable[..., dict[str, _Array]], where: tuple[Any, ...], draws: int, seed: int
) -> list[Task]:
    return [
        Task(f"trial {number}", function, (plan, *where, f"{plan.label} {seed} {number}", draws))
        for number in range(plan.trials)
    ]


def _report(
    plan: FigurePlan,
    draws: int,
    seed: int,
    rows: Sequence[Row],
    panels: Sequence[Panel],
    bounds: Sequence[Measured] = (),
) -> Report:
    several = len(plan.sizes) > 1
    settings = {
        "records": plan.records,
        "trials": plan.trials,
        "parties": ", ".join(map(str, plan.sizes)) if several else plan.sizes[0],
        "records_each": plan.each,
        "auxiliary": plan.auxiliary,
        "features": plan.features or None,
        "d": plan.d,
        "classes": None if several else plan.classes,
        "lambda": plan.Lambda,
        "draws": draws,
        "norms": plan.trials * plan.pool,
        "seed": seed,
    }
    settings = {name: value for name, value in settings.items() if value is not None}
    return Report("hamm-2016", plan.figure, plan.notes, settings, rows, panels, bounds)


# --- Tables -------------------------------------------------------------------------------


def _without_rows(plan: FigurePlan, found: _Found) -> Iterator[Row]:
    """Yield each method's row without noise, and what others give in its place.

    The largest M has bands. With fewer parties soft falls by .001 in some dealings only, which is not Student's law.
    """
    for M in plan.sizes:
        last = plan.sizes[-1] == M
        keys = {method: method if method == "indiv" else f"{M} {method}" for method in plan.methods}
        for method, key in keys.items():
            name = method if method == "indiv" else plan.words.row.format(method=method, M=M)
            if method == "indiv" and not last:
                continue
            broken = {in_place(other): found[of] for other, of in keys.items() if other != method}
            expected, hidden = plan.expected(key) if last else None, plan.hidden.get(name, ())
            yield from judged(plan.words.without, name, found[key], expected, broken, hidden=hidden)


def _paper_rows(plan: FigurePlan, found: _Found) -> Iterator[Row]:
    """Yield figure 2's distances from the paper's accuracies without noise, and those of methods within a trial."""
    of = {name: found[name if name == "indiv" else f"{plan.sizes[-1]} {name}"] for name in _PAPER}
    for name, paper in _PAPER.items():
        broken = {in_place(other): values - paper for other, values in of.items() if other != name}
        hidden, note = _HIDDEN_BESIDE.get(name, ()), f"paper {paper:.2f}"
        yield from against(_BESIDE, name, of[name] - paper, (-_CLOSE, _CLOSE), broken, hidden=hidden, note=note)
    for above, below in _DIFFERENCES:
        name, values = f"{above} minus {below}", of[above] - of[below]
        broken = {f"{above} for both": np.zeros_like(values), "exchanged": -values}
        yield from judged(_ORDER, name, values, plan.expected(name), broken)


def _public_rows(plan: FigurePlan, public: Sequence[_Found], private: Sequence[_Found]) -> Iterator[Row]:
    """Yield how much accuracy a public projection gains, within a trial; both have one value for each trial."""
    for name in METHODS:
        gained, first = (
            np.array([a[key] - b[f"{plan.sizes[-1]} {name}"] for a, b in zip(public, private, strict=True)])
            for key in (name, f"first {name}")
        )
        yield from against(PUBLIC, name, gained, (-_CHANGED, _CHANGED), {_FIRST: first})


def _noise_rows(plan: FigurePlan, found: _Found) -> Iterator[Row]:
    yield from norm_rows(plan.words.norms, found["norms"], found["wrong norms"], plan.dimension)
    for point in plan.points:
        method, kind, inverse, M = point
        right, still = found[f"{M} {method} {kind} {inverse:g}"], found[f"{M} {method}"]
        yield from point_rows(plan, point, right, still, found, plan.hidden.get(point.key, ()))


def point_rows(
    plan: FigurePlan, point: Point, right: _Array, still: _Array, found: _Found, hidden: Collection[str]
) -> list[Row]:
    """Return a point's row with its band, and a row for each mistake.

    Parameters
    ----------
    plan : FigurePlan
    point : Point
    right : ndarray, shape (trials, draws)
        The accuracies of the method.
    still : ndarray, shape (trials, 1)
        Those without noise.
    found : mapping of str to ndarray
        What ``mistaken`` returned, for all trials.
    hidden : collection of str
        The mistakes that noise hides at this point.
    """
    start = f"{point.key}: "
    broken = {NO_NOISE: still}
    broken |= {name.removeprefix(start): draws for name, draws in found.items() if name.startswith(start)}
    table, note = plan.words.noise.format(M=point.M), plan.said.get((point.method, point.inverse), "")
    return judged(table, point.name, right, plan.expected(point.key), broken, hidden=hidden, note=note)


def norm_rows(table: str, norms: _Array, wrong: _Array, d: int) -> list[Row]:
    """Return the mean norm of the noise in units of d Delta/eps, with its band, beside those of broken samplers.

    The band needs no other program: a norm is distributed as Gamma(d), and the sum of n norms as Gamma(n d).

    Parameters
    ----------
    table : str
    norms, wrong : ndarray, shape (trials, pool)
        At Delta/eps = 1, and those of a sampler that forgets the dimension.
    d : int
    """
    ends = stats.gamma.ppf((FALSE_ALARM / 2, 1 - FALSE_ALARM / 2), norms.size * d) / (norms.size * d)
    broken = {
        NO_NOISE: np.zeros_like(norms),
        HALF: norms / 2 / d,
        f"{1 - _SHORT:.0%} short".replace("%", " %"): _SHORT * norms / d,
        EXP: wrong / d,
    }
    return against(table, "norm", norms / d, (float(ends[0]), float(ends[1])), broken)


def _curve_rows(plan: FigurePlan, found: _Found) -> Iterator[Row]:
    """Yield the curves of the largest M, and where each curve ends for every M. The panels have all curves."""
    last = plan.sizes[-1]
    for method, kind in curves():
        for inverse in plan.inverses:
            values = found[f"{last} {method} {kind} {inverse:g}"]
            table = plan.words.curves[kind].format(M=last)
            yield Row(table, f"{method}, 1/eps = {inverse:g}", *mean_and_error(values))
    levels = found["indiv"].mean(axis=1)
    for M in plan.sizes:
        for method, kind in curves():
            if method in plan.crossing:
                name = plan.words.crossing.format(M=M, method=method, kind=plan.words.kinds[kind])
                key = f"{M} {method} {kind}"
                yield crossing_row(plan.words.until, name, found, key, plan.inverses, levels)


def _kept_rows(plan: FigurePlan, found: _Found) -> Iterator[Row]:
    """Yield how much noise soft bears before its accuracy falls, in figures 3 and 4."""
    for M in plan.sizes:
        least = found[f"{M} soft"].mean(axis=1) - _NEAR
        for kind in ("published", "exp"):
            name = f"M = {M}, {plan.words.kinds[kind]}"
            note = plan.claim if plan.sizes[-1] == M else ""
            yield crossing_row(_KEEPS, name, found, f"{M} soft {kind}", plan.inverses, least, note)


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


# --- Pictures -----------------------------------------------------------------------------


def _panels(plan: FigurePlan, found: _Found) -> tuple[Panel, ...]:
    """Return the paper's panels, one for each M, for each kind of noise."""
    panels = []
    for kind in KINDS:
        for M in plan.sizes:
            drawn = (
                Series.of(method, plan.inverses, [found[f"{M} {method} {kind} {x:g}"] for x in plan.inverses])
                for method, own in curves()
                if own == kind
            )
            levels = {"batch": found[f"{M} batch"], "indiv": found["indiv"]}
            panels.append(
                Panel(
                    plan.words.panels[kind].format(M=M),
                    "1/eps",
                    "test accuracy",
                    (*drawn, *plan.claims),
                    x_scale="log",
                    reference=tuple((name, float(values.mean())) for name, values in levels.items()),
                )
            )
    return tuple(panels)
