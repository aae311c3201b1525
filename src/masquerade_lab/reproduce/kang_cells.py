"""The tasks of Kang's figures: descents on some partitions of one data set, and how good their averages are.

Each task reads its data set from a folder, and draws its partitions and normals from streams that its arguments name.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from masquerade_core.data.schema import Dataset
from masquerade_core.learning.erm import fit
from masquerade_core.rng import SimulationRng
from masquerade_lab.reproduce.kang_data import LARGE, SMALL
from masquerade_lab.reproduce.kang_runs import (
    Setting,
    Split,
    Together,
    accuracies,
    local_descents,
    losses,
    party_sizes,
    random_sizes,
    sigma,
)

__all__ = ["BEST", "LOSS", "SHARE", "Cells", "central", "joined", "over_epsilon", "over_u", "stored"]

_Array = NDArray[np.float64]
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
