"""Noisy local descents without encryption, for all parties, learning rates and draws of the noise at once.

Nothing here is a protocol: one process sees all records. The descent is the protocol's own, in floating point: it
starts at theta_0 = 0 and takes T full gradients. A figure needs some 10^8 normal numbers, for which the protocol's
sampler would be too slow. Box and Muller's method makes them from a seed's bits, in floating point.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from masquerade_core.crypto.shares import random_permutation
from masquerade_core.data.schema import Dataset
from masquerade_core.learning.losses import LOGISTIC
from masquerade_core.rng import Rng

__all__ = [
    "ETAS",
    "NOISES",
    "Cell",
    "Setting",
    "accuracies",
    "deviation",
    "local_descents",
    "partition",
    "party_sizes",
    "sigma",
]

ETAS = (0.01, 0.05, 0.1, 0.5, 1.0)
"""The learning rates that the paper chooses from."""

NOISES = ("n", "m n_min", "n_j")
"""The number of records for which the noise of a local descent is sized."""

_TRAINING = 0.8

_Array = NDArray[np.float64]


@dataclass(frozen=True)
class Setting:
    """What all cells of a figure share.

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
class Cell:
    """One partition of the records: classifiers by noise, learning rate and draw.

    Parameters
    ----------
    weighted, plain : mapping of str to ndarray, shape (etas, draws, d)
        The average by size, and the plain one, by ``NOISES`` and "none" (one draw).
    central : mapping, the same
        One descent on all records, by "n" and "none".
    """

    weighted: dict[str, _Array]
    plain: dict[str, _Array]
    central: dict[str, _Array]
    test: Dataset


def sigma(setting: Setting, n: float) -> float:
    """Return equation (3)'s sigma for n records."""
    return math.sqrt(setting.c * setting.rounds * math.log(1 / setting.delta)) / (n * setting.epsilon)


def party_sizes(n: int, m: int, u: float) -> NDArray[np.int64]:
    """Return the sizes of m parties, which add up to n: half of them have u times as many records as the others."""
    half = m // 2
    small = round(n / (half * (1 + u)))
    large = [len(part) for part in np.array_split(np.arange(n - half * small), m - half)]
    return np.array([small] * half + large)


def partition(records: Dataset, setting: Setting, u: float, draws: int, rng: Rng, *, central: bool) -> Cell:
    """Deal the records out at random, four fifths for training, and descend on each party's part.

    Parameters
    ----------
    draws : int
        How many draws of the noise; with 0 there is no noise.
    central : bool
        Whether to descend on all records together too. That does not depend on u.
    """
    order = np.array(random_permutation(rng, len(records.y)))
    n = round(_TRAINING * len(order))
    test = Dataset.from_unit_ball(records.X[order[n:]], records.y[order[n:]])
    Z = records.X[order[:n]] * records.y[order[:n], None]
    sizes = party_sizes(n, setting.m, u)
    at = {
        "n": np.full(setting.m, float(n)),
        "m n_min": np.full(setting.m, float(setting.m * sizes.min())),
        "n_j": sizes.astype(np.float64),
    }
    sds = np.array([[sigma(setting, k) for k in at[noise]] for noise in NOISES])
    theta = local_descents(np.split(Z, np.cumsum(sizes)[:-1]), sds, setting.rounds, draws, rng)
    alone = {}
    if central:
        together = local_descents([Z], np.array([[sigma(setting, n)]]), setting.rounds, draws, rng)
        alone = _named(together[0], draws, NOISES[:1])
    return Cell(
        _named(np.einsum("j,jdec->dec", sizes / n, theta), draws), _named(theta.mean(axis=0), draws), alone, test
    )


def _named(theta: _Array, draws: int, noises: Sequence[str] = NOISES) -> dict[str, _Array]:
    """(d, etas, 1 + noises x draws) -> (etas, draws, d) by noise."""
    columns = theta.transpose(1, 2, 0)
    named = {"none": columns[:, :1]}
    if draws:
        named |= {name: columns[:, 1 + i * draws : 1 + (i + 1) * draws] for i, name in enumerate(noises)}
    return named


def local_descents(parts: Sequence[_Array], sds: _Array, rounds: int, draws: int, rng: Rng) -> _Array:
    """Descend on every party's objective: without noise and with each noise, at each learning rate.

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

    Returns
    -------
    ndarray, shape (m, d, etas, 1 + Q draws)
        theta_T; the first column is without noise.
    """
    d, columns = parts[0].shape[1], 1 + len(sds) * draws
    etas = np.array(ETAS)[:, None]
    theta = np.zeros((len(parts), d, len(ETAS), columns))
    groups = _groups(parts)
    noise = np.zeros((len(parts), d, 1, columns))
    for _ in range(rounds):
        if draws:
            z = _normals(rng, len(parts) * d * draws).reshape(len(parts), d, draws)
            scaled = z[:, :, None, :] * sds.T[:, None, :, None]
            noise[..., 1:] = scaled.reshape(len(parts), d, 1, -1)
        for group, Z, n in groups:
            margins = Z @ theta[group].reshape(len(Z), d, -1)
            gradient = Z.transpose(0, 2, 1) @ LOGISTIC.derivative(margins) / n
            theta[group] -= etas * (gradient.reshape(len(Z), d, len(ETAS), columns) + noise[group])
    return theta


def _normals(rng: Rng, count: int) -> _Array:
    """Return independent standard normals; of uniforms in (0, 1] on a grid of 2^-53."""
    pairs = (count + 1) // 2
    bits = np.frombuffer(rng.bytes(16 * pairs), dtype="<u8").reshape(2, pairs)
    u, v = ((bits >> np.uint64(11)) + np.uint64(1)) * 2.0**-53
    radius, turn = np.sqrt(-2 * np.log(u)), 2 * np.pi * v
    return np.concatenate([radius * np.cos(turn), radius * np.sin(turn)])[:count]


def _groups(parts: Sequence[_Array]) -> list[tuple[slice, _Array, _Array]]:
    """Stack neighbours of about the same size, filled up with rows of zeros, which have no gradient."""
    sizes = [len(part) for part in parts]
    ends = [j for j in range(1, len(parts)) if abs(sizes[j] - sizes[j - 1]) > 1]
    groups = []
    for start, end in zip([0, *ends], [*ends, len(parts)], strict=True):
        Z = np.zeros((end - start, max(sizes[start:end]), parts[0].shape[1]))
        for row, part in zip(Z, parts[start:end], strict=True):
            row[: len(part)] = part
        groups.append((slice(start, end), Z, np.array(sizes[start:end])[:, None, None].astype(np.float64)))
    return groups


def accuracies(theta: _Array, test: Dataset) -> _Array:
    """Return the fraction of test records with the right label; (etas, draws, d) -> (etas, draws)."""
    right = (np.einsum("ij,ekj->eki", test.X, theta) > 0) == (test.y > 0)
    return np.asarray(right.mean(axis=2))


def deviation(averages: dict[str, _Array], eta: int) -> float:
    """Return how much noise of n records changes a coordinate of an average, as a root mean square."""
    return float(np.sqrt(np.mean((averages["n"][eta] - averages["none"][eta]) ** 2)))
