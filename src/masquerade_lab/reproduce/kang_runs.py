"""Noisy local descents without encryption, for all parties, learning rates and draws of the noise at once.

Nothing here is a protocol: one process sees all records. The descent is the protocol's own, in floating point: it
starts at theta_0 = 0 and takes T full gradients. A figure needs some 10^8 normal numbers, for which the protocol's
sampler would be too slow. Box and Muller's method makes them from a seed's bits, in floating point.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from masquerade_core.crypto.shares import random_permutation
from masquerade_core.data.schema import Dataset
from masquerade_core.rng import Rng

__all__ = [
    "ETAS",
    "LEAST_PART",
    "Setting",
    "Split",
    "Together",
    "accuracies",
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


def normals(rng: Rng, count: int) -> _Array:
    """Return independent standard normals; of uniforms in (0, 1] on a grid of 2^-53."""
    pairs = (count + 1) // 2
    bits = np.frombuffer(rng.bytes(16 * pairs), dtype="<u8").reshape(2, pairs)
    u, v = ((bits >> np.uint64(11)) + np.uint64(1)) * 2.0**-53
    radius, turn = np.sqrt(-2 * np.log(u)), 2 * np.pi * v
    return np.concatenate([radius * np.cos(turn), radius * np.sin(turn)])[:count]


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
