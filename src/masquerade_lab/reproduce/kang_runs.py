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
    "LEAST_PART",
    "Setting",
    "Split",
    "accuracies",
    "gathered_descent",
    "local_descents",
    "losses",
    "normals",
    "party_sizes",
    "random_sizes",
    "sigma",
]

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


def local_descents(
    parts: Sequence[_Array],
    sds: _Array,
    rounds: int,
    draws: int,
    rng: Rng,
    *,
    single: bool = False,
    weights: Sequence[_Array] | None = None,
) -> _Floats:
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
    single : bool
        Whether to compute in single precision, four times as fast. The normals are the same ones, rounded.
    weights : sequence of ndarray, shape (n_j,), optional
        What each record's gradient counts in its party's; 1/n_j if not given.

    Returns
    -------
    ndarray, shape (m, d, etas, 1 + Q draws)
        theta_T; the first column is without noise.
    """
    d, columns = parts[0].shape[1], 1 + len(sds) * draws
    kind = np.float32 if single else np.float64
    etas = np.array(ETAS, dtype=kind)[:, None]
    theta = np.zeros((len(parts), d, len(ETAS), columns), dtype=kind)
    blocks = _groups(parts) if weights is None and not single else _counted(parts, weights, kind)
    noise = np.zeros((len(parts), d, 1, columns), dtype=kind)
    for _ in range(rounds):
        if draws:
            z = normals(rng, len(parts) * d * draws).reshape(len(parts), d, draws)
            scaled = z[:, :, None, :] * sds.T[:, None, :, None]
            noise[..., 1:] = scaled.reshape(len(parts), d, 1, -1)
        gradient = np.zeros_like(theta)
        for block in blocks:
            margins = block.Z @ theta[block.at].reshape(len(block.Z), d, -1)
            slopes = _single_slopes(margins) if single else LOGISTIC.derivative(np.asarray(margins, dtype=np.float64))
            sums = block.mean @ slopes
            added = sums if block.n is None else sums / block.n
            gradient[block.at] += added.reshape(len(block.Z), d, len(ETAS), columns)
        gradient += noise
        gradient *= etas
        theta -= gradient
    return theta


def gathered_descent(
    parts: Sequence[_Array], sds: _Array, rounds: int, draws: int, rng: Rng, *, single: bool = False
) -> _Floats:
    """Descend by gradient perturbation as Jayaraman et al. do: all parties at one theta, with one noise a round.

    In each round, every party computes the mean gradient of its own records at the common theta. The step goes along
    the plain average of these means, with one noise on it.

    Parameters
    ----------
    sds : ndarray, shape (Q,)
        Standard deviations of Q noises.

    Returns
    -------
    ndarray, shape (d, etas, 1 + Q draws)
        theta_T; the first column is without noise.

    References
    ----------
    Jayaraman, Wang, Evans and Gu 2018, "Distributed Learning without Distress", gradient perturbation. Kang et al.
    give its noise in their table 1: that of m n_(1) records.
    """
    weights = np.concatenate([np.full(len(part), 1 / (len(parts) * len(part))) for part in parts])
    together = local_descents(
        [np.concatenate(parts)], sds[:, None], rounds, draws, rng, single=single, weights=[weights]
    )
    return np.asarray(together[0])


def _single_slopes(margins: _Floats) -> _Floats:
    """Return -1/(1 + e^m) in the place of m, the slope of the logistic loss. An infinite e^m gives 0."""
    with np.errstate(over="ignore"):
        np.exp(margins, out=margins)
    margins += 1
    return np.divide(-1, margins, out=margins)


def normals(rng: Rng, count: int) -> _Array:
    """Return independent standard normals; of uniforms in (0, 1] on a grid of 2^-53."""
    pairs = (count + 1) // 2
    bits = np.frombuffer(rng.bytes(16 * pairs), dtype="<u8").reshape(2, pairs)
    u, v = ((bits >> np.uint64(11)) + np.uint64(1)) * 2.0**-53
    radius, turn = np.sqrt(-2 * np.log(u)), 2 * np.pi * v
    return np.concatenate([radius * np.cos(turn), radius * np.sin(turn)])[:count]


@dataclass(frozen=True, repr=False)
class _Block:
    """Records of some neighbouring parties: ``mean @ slopes / n`` is what they add to the gradients.

    Parameters
    ----------
    at : slice
        Which parties.
    Z, mean : ndarray, shape (parties, rows, d) and (parties, d, rows)
        Filled up with rows of zeros, which have no gradient.
    n : ndarray, optional
        What the sums are divided by.
    """

    at: slice
    Z: _Floats
    mean: _Floats
    n: _Floats | None


def _groups(parts: Sequence[_Array]) -> list[_Block]:
    """Stack neighbours of about the same size."""
    sizes = [len(part) for part in parts]
    ends = [j for j in range(1, len(parts)) if abs(sizes[j] - sizes[j - 1]) > 1]
    blocks = []
    for start, end in zip([0, *ends], [*ends, len(parts)], strict=True):
        Z = _stacked(parts[start:end])
        n = np.array(sizes[start:end])[:, None, None].astype(np.float64)
        blocks.append(_Block(slice(start, end), Z, Z.transpose(0, 2, 1), n))
    return blocks


def _stacked(parts: Sequence[_Floats]) -> _Floats:
    Z = np.zeros((len(parts), max(len(part) for part in parts), parts[0].shape[1]), dtype=parts[0].dtype)
    for row, part in zip(Z, parts, strict=True):
        row[: len(part)] = part
    return Z


def _counted(
    parts: Sequence[_Array], weights: Sequence[_Array] | None = None, kind: type[np.floating] = np.float32
) -> list[_Block]:
    """Take each different record once, with its weights' sum; stack neighbours of about one size, cut long parties."""
    found, means = [], []
    for j, part in enumerate(parts):
        Z, which, counts = np.unique(part.astype(kind), axis=0, return_inverse=True, return_counts=True)
        shares = counts / len(part) if weights is None else np.bincount(which.ravel(), weights[j], len(Z))
        found.append(Z)
        means.append(Z * shares.astype(kind)[:, None])
    blocks, start, sizes = [], 0, [len(Z) for Z in found]
    while start < len(parts):
        end = start + 1
        while end < len(parts) and _alike(sizes[start : end + 1]):
            end += 1
        Z, mean = _stacked(found[start:end]), _stacked(means[start:end]).transpose(0, 2, 1)
        for row in range(0, Z.shape[1], _CHUNK):
            rows = slice(row, row + _CHUNK)
            blocks.append(_Block(slice(start, end), Z[:, rows], mean[:, :, rows], None))
        start = end
    return blocks


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
