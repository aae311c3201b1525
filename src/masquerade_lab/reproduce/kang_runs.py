"""Noisy local descents without encryption, for all parties, learning rates and draws of the noise at once.

Nothing here is a protocol: one process sees all records. The descent is the protocol's own, in floating point: it
starts at theta_0 = 0 and takes T full gradients. A figure needs some 10^8 normal numbers, for which the protocol's
sampler would be too slow. Box and Muller's method makes them from a seed's bits, in floating point.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from masquerade_core.crypto.shares import random_permutation
from masquerade_core.data.schema import Dataset
from masquerade_core.errors import BadInput
from masquerade_core.learning.erm import fit
from masquerade_core.learning.losses import LOGISTIC, logistic_loss
from masquerade_core.learning.theorems import smoothness, zeros_excess
from masquerade_core.rng import Rng, SimulationRng
from masquerade_lab.reproduce.engine.draws import normals
from masquerade_lab.reproduce.engine.report import Measured, Panel, Series, measured
from masquerade_lab.reproduce.kang_data import LARGE, SMALL
from masquerade_protocols.blocks.descent_theorems import inequality_11

__all__ = [
    "BEST",
    "EPSILON",
    "ETAS",
    "LAMBDA",
    "LEAST_PART",
    "LOSS",
    "METHODS",
    "OPTIMISTIC",
    "SEEDED",
    "SHARE",
    "SHOWN",
    "Cells",
    "Found",
    "Setting",
    "Split",
    "Together",
    "accuracies",
    "central",
    "compared",
    "excesses",
    "folders",
    "joined",
    "local_descents",
    "losses",
    "over_epsilon",
    "over_u",
    "panels",
    "party_sizes",
    "random_sizes",
    "sigma",
    "stored",
]

# --- Descents of parties and of everybody ---------------------------------------------

ETAS = (0.01, 0.05, 0.1, 0.5, 1.0)
"""The learning rates that the paper chooses from."""

_TRAINING = 0.8
LEAST_PART = 4  # the smallest random part has at least a quarter of an even share
_ALIKE = 1.3  # parties whose sizes differ by no more than this factor are stacked
_CHUNK = 2048  # rows of one party that are multiplied at once

_Array = NDArray[np.float64]
_Floats = NDArray[np.floating]


@dataclass(frozen=True)
class Setting:
    """The values that all cells of a figure share.

    Parameters
    ----------
    m : int
        Parties, in two groups of equal number.
    epsilon, delta, c : float
        Constants of the noise, equation (3), with G = 1.
    rounds : int
        T.
    """

    m: int = 16
    epsilon: float = 0.05
    delta: float = 1e-3
    c: float = 1.0
    rounds: int = 1000


@dataclass(frozen=True)
class Split:
    """A random partition of the records: four fifths for training, in random order, and the rest for testing.

    Parameters
    ----------
    Z : ndarray, shape (n, d)
        Training records times their labels.
    test : Dataset
    """

    Z: _Array
    test: Dataset

    @classmethod
    def of(cls, records: Dataset, rng: Rng) -> "Split":
        """Draw a partition."""
        order = np.array(random_permutation(rng, len(records.y)))
        n = round(_TRAINING * len(order))
        test = Dataset.from_unit_ball(records.X[order[n:]], records.y[order[n:]])
        return cls(records.X[order[:n]] * records.y[order[:n], None], test)


def sigma(setting: Setting, n: float) -> float:
    """Return equation (3)'s sigma for n records."""
    return math.sqrt(setting.c * setting.rounds * math.log(1 / setting.delta)) / (n * setting.epsilon)


def party_sizes(n: int, m: int, u: float) -> NDArray[np.int64]:
    """Return the sizes of m parties, which add up to n: half of them have u times as many records as the others."""
    half = m // 2
    small = round(n / (half * (1 + u)))
    large = [len(part) for part in np.array_split(np.arange(n - half * small), m - half)]
    return np.array([small] * half + large)


def random_sizes(n: int, m: int, rng: Rng) -> NDArray[np.int64]:
    """Return random sizes of m parties, rising, which add up to n.

    Each has a quarter of an even share. The rest is cut at m - 1 random places.
    """
    least = n // (LEAST_PART * m)
    rest = n - m * least
    cuts = sorted(rng.below(rest + 1) for _ in range(m - 1))
    return np.sort(np.diff([0, *cuts, rest]) + least)


@dataclass(frozen=True)
class Together:
    """A descent of all parties at one theta, with one noise a round.

    Parameters
    ----------
    sds : ndarray, shape (Q,)
        Standard deviations of Q noises.
    rng : Rng
        Where its normals come from.
    by_size : bool
        Whether the gradient is the mean over all records; if not, the plain average of the parties' means.
    """

    sds: _Array
    rng: Rng
    by_size: bool = False


def local_descents(
    parts: Sequence[_Array],
    sds: _Array,
    rounds: int,
    draws: int,
    rng: Rng,
    together: Sequence[Together] = (),
    *,
    single: bool = False,
) -> tuple[_Floats, list[_Floats]]:
    """Descend on every party's objective: without noise and with each noise, at each learning rate.

    Descents of all parties together go along, since the records are read once a round for all of them.

    Parameters
    ----------
    parts : sequence of ndarray, shape (n_j, d)
        Records times their labels.
    sds : ndarray, shape (Q, m)
        Standard deviations of Q noises at each party. All noises and all learning rates share their normals.
    rounds : int
        T.
    draws : int
        How many draws of the normals.
    together : sequence of Together
    single : bool
        Whether to compute in single precision, which is faster. The normals are the same ones, rounded.

    Returns
    -------
    ndarray, shape (m, d, etas, 1 + Q draws)
        theta_T; the first column is without noise.
    list of ndarray, shape (d, etas, 1 + Q draws)
        The same of each descent together.

    References
    ----------
    Jayaraman, Wang, Evans and Gu 2018, "Distributed Learning without Distress", gradient perturbation: a descent
    together, not by size. Kang et al. give its noise in their table 1: that of m n_(1) records.
    """
    m, d = len(parts), parts[0].shape[1]
    kind = np.float32 if single else np.float64
    sizes = np.array([len(part) for part in parts])
    noises = [_Noise(rng, sds, (m, d), draws, kind)]
    noises += [_Noise(one.rng, one.sds[:, None], (1, d), draws, kind) for one in together]
    weights = [np.full(m, 1 / sizes.sum()) if one.by_size else 1 / (m * sizes) for one in together]
    ends = np.cumsum([0, *(len(ETAS) * noise.columns for noise in noises)])
    theta = np.zeros((m, d, ends[-1]), dtype=kind)
    each = [theta[:, :, start:end] for start, end in pairwise(ends)]
    etas = np.array(ETAS, dtype=kind)[:, None]
    blocks = _blocks(parts, kind)
    for _ in range(rounds):
        sums = np.zeros_like(theta)
        for block in blocks:
            sums[block.at] += block.sums(theta[block.at])
        means = [sums[:, :, : ends[1]] / sizes[:, None, None].astype(kind)]
        for share, start, end in zip(weights, ends[1:], ends[2:], strict=False):
            means.append(np.tensordot(share.astype(kind), sums[:, :, start:end], 1)[None])
        for at, mean, noise in zip(each, means, noises, strict=True):
            gradient = mean.reshape(len(mean), d, len(ETAS), noise.columns)
            noise.add(gradient)
            gradient *= etas
            np.subtract(at, gradient.reshape(mean.shape), out=at)
    shaped = [at.reshape(m, d, len(ETAS), noise.columns) for at, noise in zip(each, noises, strict=True)]
    return shaped[0], [values[0] for values in shaped[1:]]


@dataclass(frozen=True, repr=False)
class _Noise:
    """The noise of one descent's gradients: none in the first column, and then each noise with each draw.

    Parameters
    ----------
    sds : ndarray, shape (Q, parties)
    shape : (parties, d)
    """

    rng: Rng
    sds: _Array
    shape: tuple[int, int]
    draws: int
    kind: type[np.floating]

    @property
    def columns(self) -> int:
        return 1 + len(self.sds) * self.draws

    def add(self, gradient: _Floats) -> None:
        """Add a round's noise to gradients of shape (parties, d, etas, columns)."""
        if self.draws:
            z = normals(self.rng, math.prod(self.shape) * self.draws).reshape(*self.shape, self.draws)
            scaled = z[:, :, None, :] * self.sds.T[:, None, :, None]
            gradient[..., 1:] += scaled.reshape(*self.shape, 1, -1).astype(self.kind)


@dataclass(frozen=True, repr=False)
class _Block:
    """Records of some neighbouring parties.

    Parameters
    ----------
    at : slice
        Which parties.
    Z : ndarray, shape (parties, rows, d)
        Filled up with rows of zeros, which have no gradient.
    counts : ndarray, shape (parties, rows, 1)
        How often each record occurs, times -1.
    """

    at: slice
    Z: _Floats
    counts: _Floats

    def sums(self, theta: _Floats) -> _Floats:
        """Return the sums of the logistic loss's gradients at each column of theta, shape (parties, d, columns)."""
        slopes = self.Z @ theta
        with np.errstate(over="ignore"):  # an infinite e^m gives a slope of 0
            np.exp(slopes, out=slopes)
        slopes += 1
        np.divide(self.counts, slopes, out=slopes)
        return np.asarray(self.Z.transpose(0, 2, 1) @ slopes)


def _blocks(parts: Sequence[_Array], kind: type[np.floating]) -> list[_Block]:
    """Take each different record once, with its count; stack neighbours of about one size, cut long parties."""
    found, counts = [], []
    for part in parts:
        different, times = np.unique(part.astype(kind), axis=0, return_counts=True)
        found.append(different)
        counts.append(-times.astype(kind)[:, None])
    blocks, start, sizes = [], 0, [len(Z) for Z in found]
    while start < len(parts):
        end = start + 1
        while end < len(parts) and _alike(sizes[start : end + 1]):
            end += 1
        Z, count = _stacked(found[start:end]), _stacked(counts[start:end])
        for row in range(0, Z.shape[1], _CHUNK):
            rows = slice(row, row + _CHUNK)
            blocks.append(_Block(slice(start, end), Z[:, rows], count[:, rows]))
        start = end
    return blocks


def _stacked(parts: Sequence[_Floats]) -> _Floats:
    Z = np.zeros((len(parts), max(len(part) for part in parts), parts[0].shape[1]), dtype=parts[0].dtype)
    for row, part in zip(Z, parts, strict=True):
        row[: len(part)] = part
    return Z


def _alike(sizes: Sequence[int]) -> bool:
    return max(sizes) <= _ALIKE * min(sizes) and sum(sizes) <= 4 * _CHUNK


def accuracies(theta: _Floats, test: Dataset) -> _Array:
    """Return the fraction of test records with the right label; (etas, draws, d) -> (etas, draws)."""
    right = (np.einsum("ij,ekj->eki", test.X, theta) > 0) == (test.y > 0)
    return np.asarray(right.mean(axis=2))


def losses(theta: _Floats, Z: _Array) -> _Array:
    """Return the mean logistic loss on records times labels; (etas, draws, d) -> (etas, draws)."""
    each = theta.reshape(-1, theta.shape[-1])
    return np.array([np.logaddexp(0, -(Z @ one)).mean() for one in each]).reshape(theta.shape[:2])


# --- Cells: a method at one point of a figure -----------------------------------------

Cells = dict[str, _Array]
"""By name: a row for each partition. ``LOSS`` begins the names of training losses; the others are test accuracies."""

LOSS, BEST, SHARE = "loss ", "the least loss", "the more frequent label"
_OPTIMAL = 1e-6  # Lambda of the best classifier without privacy: as good as none, but the minimiser exists


@lru_cache(maxsize=1)
def stored(name: str, folder: Path) -> Dataset:
    """Read a data set, and keep it for the next task of this process."""
    _, read = (SMALL | LARGE)[name]
    return read(folder)


def joined(found: Sequence[Cells]) -> Cells:
    """Return all partitions of several tasks together."""
    return {name: np.concatenate([one[name] for one in found]) for name in found[0]}


def over_u(
    records: Dataset | tuple[str, Path],
    setting: Setting,
    us: tuple[int, ...],
    numbers: tuple[int, ...],
    draws: int,
    seed: str,
    *,
    alone: bool = True,
    half: bool = False,
    single: bool = False,
) -> Cells:
    """Descend for some partitions and some u; a partition's order and normals are the same for every u.

    Parameters
    ----------
    records : Dataset or (str, path)
        Themselves, or the name and the folder of a data set.
    draws : int
        How many draws of the noise; with 0 there is no noise.
    alone : bool
        Whether to descend on all records together too, with the first u. That does not depend on u.
    half : bool
        Whether to descend with half of the noise too: "W half" and the like.
    single : bool
        Whether to compute in single precision.

    Returns
    -------
    dict of ndarray
        "METHOD, u = U", shape (partitions, etas, draws). "squares METHOD, u = U", shape (partitions,): the mean square
        by which noise of n records changes a coordinate of an average at the first learning rate.
    """
    data = records if isinstance(records, Dataset) else stored(*records)
    return joined([_one_u(data, setting, us, number, draws, seed, alone, half, single) for number in numbers])


def _one_u(
    records: Dataset,
    setting: Setting,
    us: tuple[int, ...],
    number: int,
    draws: int,
    seed: str,
    alone: bool,
    half: bool,
    single: bool,
) -> Cells:
    found: Cells = {SHARE: _share(records)}
    for u in us:
        rng = SimulationRng(seed, f"partition {number}")
        split = Split.of(records, rng)
        n, sizes = len(split.Z), party_sizes(len(split.Z), setting.m, u)
        at = [np.full(setting.m, float(n)), np.full(setting.m, float(setting.m * sizes.min())), sizes.astype(float)]
        sds = np.array([[sigma(setting, k) for k in row] for row in at])
        parts, times = np.split(split.Z, np.cumsum(sizes)[:-1]), np.array([1.0, 0.5] if half else [1.0])
        together = [Together(sds[1, 0] * times, SimulationRng(seed, f"partition {number}, u = {u}, gathered"))]
        if alone and u == us[0]:
            own = SimulationRng(seed, f"partition {number}, together")
            together.append(Together(sds[0, 0] * times, own, by_size=True))
        local = np.concatenate([sds, sds[:1] / 2]) if half else sds
        theta, common = local_descents(parts, local, setting.rounds, draws, rng, together, single=single)
        weighted, plain = _averaged(theta, sizes)
        halves = {"W half": 3} if half else {}
        _note(found, split, f", u = {u}", weighted, {"W": 0, "W own": 2} | halves, draws)
        _note(found, split, f", u = {u}", plain, {"U": 0, "U min": 1}, draws)
        for method, columns in zip("JC", common, strict=False):
            _note(
                found,
                split,
                f", u = {u}",
                _columns(columns),
                {method: 0} | ({f"{method} half": 1} if half else {}),
                draws,
            )
        if draws:
            for method, average in (("W", weighted), ("U", plain)):
                moved = average[0, 1 : 1 + draws] - average[0, :1]
                found[f"squares {method}, u = {u}"] = np.array([np.mean(moved**2)])
        if alone and u == us[0]:
            found[BEST] = _least(split)
    return found


def over_epsilon(
    name: str,
    folder: Path,
    setting: Setting,
    epsilons: tuple[float, ...],
    numbers: tuple[int, ...],
    draws: int,
    seed: str,
    own: bool,
) -> Cells:
    """Descend at parties of random sizes, for some partitions and every epsilon, in single precision.

    Parameters
    ----------
    setting : Setting
        Its epsilon does not count.
    own : bool
        Whether to descend with the noise of n_j records too, and with noise of n records wider by the root of m.

    Returns
    -------
    dict of ndarray
        "METHOD none" and "METHOD, eps = EPS", shape (partitions, etas, draws).
    """
    records = stored(name, folder)
    found = []
    for number in numbers:
        split = Split.of(records, SimulationRng(seed, f"partition {number}"))
        rng = SimulationRng(seed, f"partition {number}, m = {setting.m}")
        n, sizes = len(split.Z), random_sizes(len(split.Z), setting.m, rng)
        at = [np.full(setting.m, float(n)), np.full(setting.m, float(setting.m * sizes.min()))]
        if own:
            at += [sizes.astype(float), at[0] / np.sqrt(setting.m)]
        each = [replace(setting, epsilon=epsilon) for epsilon in epsilons]
        sds = np.array([[sigma(one, k) for k in row] for one in each for row in at])
        parts = np.split(split.Z, np.cumsum(sizes)[:-1])
        few = Together(sds[1 :: len(at), 0], SimulationRng(seed, f"partition {number}, m = {setting.m}, gathered"))
        theta, (common,) = local_descents(parts, sds, setting.rounds, draws, rng, [few], single=True)
        weighted, plain, J = *_averaged(theta, sizes), _columns(common)
        cell: Cells = {}
        for i, epsilon in enumerate(epsilons):
            first, after = i * len(at), f", eps = {epsilon:g}"
            more = {"W own": first + 2, "W wide": first + 3} if own else {}
            _note(cell, split, after, weighted, {"W": first} | more, draws)
            _note(cell, split, after, plain, {"U": first, "U min": first + 1}, draws)
            _note(cell, split, after, J, {"J": i}, draws)
        found.append(cell)
    return joined(found)


def central(
    name: str,
    folder: Path,
    setting: Setting,
    epsilons: tuple[float, ...],
    numbers: tuple[int, ...],
    draws: int,
    seed: str,
) -> Cells:
    """Descend on all training records together: "C none" and "C, eps = EPS"; and the best classifier's loss."""
    records = stored(name, folder)
    found = []
    for number in numbers:
        split = Split.of(records, SimulationRng(seed, f"partition {number}"))
        rng = SimulationRng(seed, f"partition {number}, together")
        sds = np.array([[sigma(replace(setting, epsilon=epsilon), len(split.Z))] for epsilon in epsilons])
        theta, _ = local_descents([split.Z], sds, setting.rounds, draws, rng, single=True)
        columns = _columns(theta[0])
        cell: Cells = {SHARE: _share(records), BEST: _least(split)}
        for i, epsilon in enumerate(epsilons):
            _note(cell, split, f", eps = {epsilon:g}", columns, {"C": i}, draws)
        found.append(cell)
    return joined(found)


def _note(
    found: Cells, split: Split, after: str, columns: NDArray[np.floating], noises: dict[str, int], draws: int
) -> None:
    """Note accuracy and loss of a method with each of its noises, and without."""
    for method, which in noises.items():
        named = {f"{method} none": columns[:, :1]} if which == 0 else {}
        if draws:
            named[method] = columns[:, 1 + which * draws : 1 + (which + 1) * draws]
        for name, theta in named.items():
            found[name + after] = accuracies(theta, split.test)[None]
            found[LOSS + name + after] = losses(theta, split.Z)[None]


def _averaged(
    theta: NDArray[np.floating], sizes: NDArray[np.int64]
) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
    """Return the average by size, and the plain one, shape (etas, columns, d)."""
    return _columns(np.einsum("j,jdec->dec", sizes / sizes.sum(), theta)), _columns(theta.mean(axis=0))


def _columns(theta: NDArray[np.floating]) -> NDArray[np.floating]:
    """(d, etas, columns) -> (etas, columns, d)."""
    return theta.transpose(1, 2, 0)


def _least(split: Split) -> _Array:
    """Return the training loss of the best classifier without privacy."""
    w = fit(split.Z, np.ones(len(split.Z)), _OPTIMAL)
    return np.array([np.logaddexp(0, -(split.Z @ w)).mean()])


def _share(records: Dataset) -> _Array:
    positive = float((records.y > 0).mean())
    return np.array([max(positive, 1 - positive)])


# --- What was found, and what is drawn of it ------------------------------------------

METHODS = (
    "There are m parties with n records together; n_j of them are party j's, and n_(1) the smallest party's. W: local "
    "descents with the noise of n records, averaged by size. J: gradient perturbation as in Jayaraman et al., the "
    "paper's comparator: in each round the plain average of the parties' mean gradients at one theta, with one noise "
    "of m n_(1) records. C: one descent on all records with the noise of n records. U: W's descents, plain average. "
    "U min: the same with the noise of m n_(1) records, which is no method of either paper. W own: W with the noise "
    "of n_j records."
)
OPTIMISTIC = (
    "The learning rates are 0.01, 0.05, 0.1, 0.5 and 1. For each data set, method and point, the one counts that is "
    "best on the test records. That flatters all methods alike, and the choice is not private. A gap is the loss on "
    "the training records, less that of the best classifier without privacy; its rate is the one with the least gap."
)
SEEDED = (
    "The descent is the protocol's, in floating point. The normals come from a seed and not from the protocol's "
    "sampler; all rates and values of {shared} share them, and so do W and U. Nothing here is a private release."
)
SHOWN = {
    "W": "W, the paper's",
    "J": "J, compared",
    "C": "C, central",
    "U": "U, plain average",
    "U min": "U min",
    "W own": "W own",
}
"""The methods, and what the curves are called."""

_AXES = {"u": "u: the large parties' records over the small ones'", "eps": "epsilon"}

Methods = Sequence[str]


def folders(data: Path | None, *, needed: Sequence[str]) -> tuple[dict[str, Path], list[str]]:
    """Return the folders of the data sets that are there, and a note on those that are not.

    Raises
    ------
    BadInput
        None of the needed ones is there.
    """
    root, named = data or Path(), {name: folder for name, (folder, _) in (SMALL | LARGE).items()}
    there = {name: root / folder for name, folder in named.items() if (root / folder).is_dir()}
    if not set(there) & set(needed):
        raise BadInput(
            f"{root} has neither a folder {' nor a folder '.join(named[name] for name in needed)}; one is needed",
            "give --data DIRECTORY, where DIRECTORY holds at least one of these folders",
        )
    absent = [f"{name} (no folder {folder})" for name, folder in named.items() if name not in there]
    return there, [f"Left out, with its rows: {', '.join(absent)}."] if absent else []


@dataclass(frozen=True)
class Found:
    """The results of one data set's tasks.

    Parameters
    ----------
    cells : dict
        Accuracies and losses by "METHOD, AXIS = POINT", shape (partitions, etas, draws).
    axis : str
        "u" or "eps".
    """

    cells: Cells
    axis: str

    def at(self, method: str, point: float) -> _Array:
        """Return the accuracies, shape (partitions, etas, draws)."""
        return self.cells[f"{method}, {self.axis} = {point:g}"]

    def best(self, method: str, point: float) -> _Array:
        """Return the accuracies at the best learning rate, shape (partitions, draws)."""
        return _at_rate(self.at(method, point), np.argmax)

    def gap(self, method: str, point: float) -> _Array:
        """Return the training losses at the best learning rate less the least possible one, of the same shape."""
        return _at_rate(self.at(LOSS + method, point), np.argmin) - self.cells[BEST][:, None]

    @property
    def share(self) -> float:
        """The accuracy of always giving the more frequent label."""
        return float(self.cells[SHARE][0])


def _at_rate(values: _Array, best: Any) -> _Array:
    by_rate = np.ascontiguousarray(np.moveaxis(values, 1, 0))
    return np.asarray(by_rate[int(best(by_rate.mean(axis=(1, 2))))])


def panels(
    figures: tuple[int, int],
    setting: str,
    found: dict[str, Found],
    points: Mapping[str, Sequence[float]],
    methods: Methods,
) -> list[Panel]:
    """Return a panel of accuracies for each data set, and then one of gaps.

    Parameters
    ----------
    figures : tuple of int
        The paper's two figures.
    setting : str
        What the titles say of both.
    found, points : dict
        By data set: what was found, and where. C does not depend on u.
    methods : sequence of str
    """
    accuracy, gap = figures
    shown = []
    for name, one in found.items():
        quiet = float(one.best("W none", points[name][0]).mean())
        curves = [_curve(one, method, points[name], one.best) for method in methods]
        levels = (("the more frequent label", one.share), ("W without noise", quiet))
        title, label = f"Figure {accuracy}: {name}, {setting}", _AXES[one.axis]
        shown.append(Panel(title, label, "accuracy on test records", curves, reference=levels))
    for name, one in found.items():
        curves = [_curve(one, method, points[name], one.gap) for method in methods]
        title, label = f"Figure {gap}: {name}, {setting}", _AXES[one.axis]
        shown.append(Panel(title, label, "optimal gap on training records", curves, y_scale="log"))
    return shown


def _curve(found: Found, method: str, points: Sequence[float], values: Callable[[str, float], _Array]) -> Series:
    fixed = method == "C" and found.axis == "u"
    draws = [values(method, points[0] if fixed else point) for point in points]
    return Series.of(SHOWN.get(method, method), tuple(points), draws)


# --- The theorems, measured -----------------------------------------------------------

LAMBDA = 0.1
"""Of the penalty (Lambda/2) |theta|^2."""

EPSILON = 0.25
"""The largest of figure 1: with less, the bound says even less."""


def excesses(
    name: str, folder: Path, setting: Setting, numbers: Sequence[int], draws: int, seed: str
) -> dict[str, list[list[float]]]:
    """Return the excess risk of noisy descents on some partitions of a data set.

    Returns
    -------
    dict of str to list
        A list for each partition: "C", one descent on all training records, and "W", the average of the parties' by
        size, both for each draw; "start", L(0) - L*; "shape", the training records and columns.
    """
    records = stored(name, folder)
    found: dict[str, list[list[float]]] = {"C": [], "W": [], "start": [], "shape": []}
    for number in numbers:
        split = Split.of(records, SimulationRng(seed, f"partition {number}"))
        rng = SimulationRng(seed, f"partition {number}, theorems")
        n, d = split.Z.shape
        sizes = random_sizes(n, setting.m, rng)
        sd, T = sigma(replace(setting, epsilon=EPSILON), n), setting.rounds
        parts = np.split(split.Z, np.cumsum(sizes)[:-1])
        each = [_descended(Z, sd, T, draws, rng) for Z in parts]
        least = _risks(fit(split.Z, np.ones(n), LAMBDA)[:, None], split.Z)
        found["C"].append((_risks(_descended(split.Z, sd, T, draws, rng), split.Z) - least).tolist())
        found["W"].append((_risks(np.average(each, axis=0, weights=sizes), split.Z) - least).tolist())
        found["start"].append((_risks(np.zeros((d, 1)), split.Z) - least).tolist())
        found["shape"].append([float(n), float(d)])
    return found


def _descended(Z: _Array, sd: float, rounds: int, draws: int, rng: Rng) -> _Array:
    """Descend with steps of 1/L on records times labels; shape (d, draws)."""
    theta = np.zeros((Z.shape[1], draws))
    for _ in range(rounds):
        noise = sd * normals(rng, theta.size).reshape(theta.shape)
        gradient = Z.T @ LOGISTIC.derivative(Z @ theta) / len(Z) + LAMBDA * theta
        theta = theta - (gradient + noise) / smoothness(LOGISTIC, LAMBDA)
    return theta


def _risks(theta: _Array, Z: _Array) -> _Array:
    return np.asarray(logistic_loss(Z @ theta).mean(axis=0) + LAMBDA / 2 * (theta**2).sum(axis=0))


def compared(name: str, parts: Sequence[dict[str, list[list[float]]]], setting: Setting) -> list[Measured]:
    """Return the bound beside what was measured on one data set."""
    found = {key: np.array([values for part in parts for values in part[key]]) for key in parts[0]}
    n, d = found["shape"][0].astype(int).tolist()
    sd, L = sigma(replace(setting, epsilon=EPSILON), n), smoothness(LOGISTIC, LAMBDA)
    bound = inequality_11(float(found["start"].max()), setting.rounds, d, sd, LAMBDA, L)
    return [
        measured(f"{name}: (11), one descent, C", bound, found["C"]),
        measured(f"{name}: (11), the average, W", bound, found["W"]),
        measured(f"{name}: none, the model of zeros", zeros_excess(LOGISTIC, LAMBDA), found["start"]),
    ]
