"""Many descents on noisy examples at once, without encryption: rows are runs, columns are noises.

Nothing here is a private release: the noise is floating point from a seed. The protocol's own accesses and its sampler
are in :mod:`masquerade_core.learning.input_noise`, which the reproduction examines as it is.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, ndtri

from masquerade_core.rng import SimulationRng

__all__ = [
    "CAP",
    "CHECKPOINTS",
    "STEP",
    "Column",
    "D",
    "Descents",
    "Kind",
    "N",
    "Sample",
    "beside",
    "descend",
    "draw_sample",
]

D = 10
N = 5000
STEP = 0.02
TOLERANCE = 1e-5
CAP = 12_000
CHECKPOINTS = tuple(range(500, 5001, 500))

Kind = Literal["fresh", "kept", "scalar", "half-line"]

_Array = NDArray[np.float64]
_Index = NDArray[np.intp]


def _normals(rng: SimulationRng, *shape: int) -> _Array:
    """Return standard normals, each from 53 bits of the seed's stream."""
    return np.asarray(ndtri(_uniforms(rng, *shape)), dtype=np.float64)


def _uniforms(rng: SimulationRng, *shape: int) -> _Array:
    words = np.frombuffer(rng.bytes(8 * int(np.prod(shape))), dtype="<u8")
    return np.asarray(((words >> 11) + 0.5) / 2**53, dtype=np.float64).reshape(shape)


@dataclass(frozen=True)
class Sample:
    """The records and the starting points that all columns of a run share.

    Parameters
    ----------
    X, y : ndarray, shape (R, N, d) and (R, N)
        x ~ N(0, I), and labels sign(u.x); each run has its own direction u.
    start : ndarray, shape (R, d)
        w_0, uniform in [-1, 1]^d.
    """

    X: _Array
    y: _Array
    start: _Array


def draw_sample(seed: int, runs: int) -> Sample:
    """Draw the data sets and starting points of some runs; more runs leave the first ones as they are."""
    X, y, start = np.empty((runs, N, D)), np.empty((runs, N)), np.empty((runs, D))
    for r in range(runs):
        rng = SimulationRng(seed, f"bixler {r}")
        X[r] = _normals(rng, N, D)
        y[r] = np.where(X[r] @ _normals(rng, D) > 0, 1.0, -1.0)
        start[r] = 2 * _uniforms(rng, D) - 1
    return Sample(X, y, start)


@dataclass(frozen=True)
class Column:
    """One noise: its standard deviation, 1/alpha, and how it is drawn.

    "fresh": n ~ N(0, I/alpha^2) at every access. "kept": once for each record. "scalar": one number for all
    coordinates. "half-line": n >= 0 in every coordinate, and one sign R for all.
    """

    sd: float
    kind: Kind = "fresh"


@dataclass(frozen=True)
class Descents:
    """The results of C columns in each of R runs.

    Parameters
    ----------
    iterations : ndarray, shape (C, R)
        Updates until a gradient was shorter than 1e-5; ``CAP`` where none was.
    weights : ndarray, shape (10, C, R, d)
        At the checkpoints, whether a run had stopped before or not.
    losses : ndarray, shape (10, C, R)
        The mean logistic loss on the data without noise, there.
    """

    iterations: _Array
    weights: _Array
    losses: _Array


def descend(
    sample: Sample, columns: Sequence[Column] | None, seed: str, *, kept: bool = False, step: float = STEP
) -> Descents:
    """Run equation (8) with examples drawn uniformly, in the same order for all columns of a run.

    Parameters
    ----------
    columns : sequence of Column or None
        None: one column, of plain descent.
    seed : str
        Of order and noise.
    kept : bool
        Whether noise that records keep is drawn, even if no column needs it. The noise after it is then the same as
        that beside such columns.
    step : float
    """
    R, C = len(sample.start), 1 if columns is None else len(columns)
    runs, rng, order = np.arange(R), SimulationRng(seed, "noise"), SimulationRng(seed, "order")
    noise = None if columns is None else _noise(columns, rng, R, kept=kept)
    w = np.repeat(sample.start[None], C, axis=0)
    iterations, weights, losses = np.full((C, R), float(CAP)), [], []
    for t in range(1, CAP + 1):
        i = (_uniforms(order, R) * N).astype(np.intp)
        x, y = sample.X[runs, i], sample.y[runs, i]
        noisy = x[None] if noise is None else x + noise(i)
        margins = y * np.einsum("crd,crd->cr", noisy, w)
        gradient = -(expit(-margins) * y)[..., None] * noisy
        iterations[(iterations == CAP) & (np.linalg.norm(gradient, axis=-1) < TOLERANCE)] = t
        w = w - step * gradient
        if t in CHECKPOINTS:
            weights.append(w)
            losses.append(_loss(sample, w))
        if t >= CHECKPOINTS[-1] and (iterations < CAP).all():
            break
    return Descents(iterations, np.array(weights), np.array(losses))


def beside(found: Sequence[tuple[_Array, _Array, _Array]]) -> Descents:
    """Return the columns of several descents on one sample together."""
    iterations, weights, losses = zip(*found, strict=True)
    return Descents(np.concatenate(iterations), np.concatenate(weights, axis=1), np.concatenate(losses, axis=1))


def _noise(columns: Sequence[Column], rng: SimulationRng, R: int, *, kept: bool = False) -> Callable[[_Index], _Array]:
    """Return what draws the noise on the records ``i`` of all runs, shape (C, R, d); columns share their normals."""
    runs = np.arange(R)
    asked = kept or any(c.kind == "kept" for c in columns)
    each = np.array([_normals(rng, N, D) for _ in range(R)]) if asked else None

    def draw(i: _Index) -> _Array:
        drawn = _normals(rng, R, D + 1)
        fresh, sign = drawn[:, :D], np.sign(drawn[:, D:])
        by_kind = {"fresh": fresh, "scalar": np.repeat(fresh[:, :1], D, axis=1), "half-line": np.abs(fresh) * sign}
        if each is not None:
            by_kind["kept"] = each[runs, i]
        return np.array([c.sd * by_kind[c.kind] for c in columns])

    return draw


def _loss(sample: Sample, w: _Array) -> _Array:
    return np.array(
        [
            np.logaddexp(0.0, -sample.y[r] * (w[:, r] @ sample.X[r].T)).mean(axis=1)  # (C, N)
            for r in range(len(sample.start))
        ]
    ).T
