"""The noise of the protocol's own accesses, as its training draws it: variances and correlations."""

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from masquerade_core.learning.input_noise import epochs_of, fresh_accesses, kept_accesses
from masquerade_core.rng import SimulationRng
from masquerade_lab.reproduce.bixler_runs import D

__all__ = ["fresh_noise", "kept_noise"]

_ALPHA = 10
_RECORDS = 1000
_BATCH = 100

_Array = NDArray[np.float64]


def _accessed(seed: int, epochs: int, *, once: bool) -> _Array:
    """Return the noise of every access, shape (epochs, records, d): labels carry the records' numbers."""
    rng = SimulationRng(seed, f"bixler accesses, once = {once}")
    X = np.full((_RECORDS, D), 1 / 8)  # on the grid, and in the unit ball
    numbers = np.arange(_RECORDS, dtype=np.float64)
    door = kept_accesses if once else fresh_accesses
    batches = epochs_of(rng, _RECORDS, epochs, _BATCH)
    noise, met = np.empty((epochs, _RECORDS, D)), np.zeros(_RECORDS, dtype=np.intp)
    for x, number in door(rng, X, numbers, batches, Fraction(_ALPHA), "gaussian"):
        i = number.astype(np.intp)
        noise[met[i], i] = x - X[i]
        met[i] += 1
    return noise


def fresh_noise(seed: int, epochs: int) -> dict[str, float]:
    """Return what E4 asks of noise that is new at every access, and what it would be for broken samplers."""
    noise = _accessed(seed, epochs, once=False)
    low, high = _diagonal(noise)
    return {
        "low": low,
        "high": high,
        "coordinates": _off_diagonal(noise),
        "accesses": _pairs(noise),
        "scalar": _off_diagonal(np.repeat(noise[..., :1], D, axis=-1)),
        "one sign": _off_diagonal(np.abs(noise) * np.sign(noise[..., :1])),
    }


def kept_noise(seed: int) -> dict[str, float]:
    """Return how two accesses of noise that a record keeps differ, and how they are correlated."""
    noise = _accessed(seed, 2, once=True)
    return {"difference": float(np.abs(noise[0] - noise[1]).max()), "accesses": _pairs(noise)}


def _diagonal(noise: _Array) -> tuple[float, float]:
    """Return the smallest and the largest variance of a coordinate, times alpha^2."""
    variances = noise.reshape(-1, D).var(axis=0) * _ALPHA**2
    return float(variances.min()), float(variances.max())


def _off_diagonal(noise: _Array) -> float:
    """Return the largest correlation of two coordinates, with its sign."""
    correlations = np.asarray(np.corrcoef(noise.reshape(-1, D).T))[~np.eye(D, dtype=bool)]
    return float(correlations[np.abs(correlations).argmax()])


def _pairs(noise: _Array) -> float:
    """Return the correlation of two successive accesses of one record, over all coordinates."""
    return float(np.corrcoef(noise[::2].ravel(), noise[1::2].ravel())[0, 1])
