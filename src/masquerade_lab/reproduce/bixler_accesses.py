"""The noise of the protocol's own accesses, as its training draws it: variances and correlations."""

from collections.abc import Callable, Sequence
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
_SETS = 2

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


def fresh_noise(seed: int, epochs: int) -> dict[str, _Array]:
    """Return what E4 asks of noise that is new at every access, and what it would be for broken samplers.

    Returns
    -------
    dict of ndarray, shape (sets,)
        A set is half of the epochs.
    """
    noise = _accessed(seed, epochs, once=False)
    sets = np.split(noise, _SETS)
    variances = np.array([one.reshape(-1, D).var(axis=0) * _ALPHA**2 for one in sets])
    scalar = [np.repeat(one[..., :1], D, axis=-1) for one in sets]
    one_sign = [np.abs(one) * np.sign(one[..., :1]) for one in sets]
    return {
        "low": variances.min(axis=1),
        "high": variances.max(axis=1),
        "coordinates": _each(_apart, sets),
        "accesses": _each(_pairs, sets),
        "scalar": _each(_apart, scalar),
        "one sign": _each(_apart, one_sign),
        "difference": _each(_difference, sets),
    }


def kept_noise(seed: int) -> dict[str, _Array]:
    """Return how two accesses of noise that a record keeps differ, and how they are correlated.

    Returns
    -------
    dict of ndarray, shape (sets,)
        A set is half of the records.
    """
    sets = np.split(_accessed(seed, 2, once=True), _SETS, axis=1)
    return {"difference": _each(_difference, sets), "accesses": _each(_pairs, sets)}


def _each(of: Callable[[_Array], float], sets: Sequence[_Array]) -> _Array:
    return np.array([of(one) for one in sets])


def _difference(noise: _Array) -> float:
    """Return the largest difference between the first two accesses of a record."""
    return float(np.abs(noise[0] - noise[1]).max())


def _apart(noise: _Array) -> float:
    """Return the largest correlation of two coordinates, without its sign."""
    correlations = np.asarray(np.corrcoef(noise.reshape(-1, D).T))
    return float(np.abs(correlations[~np.eye(D, dtype=bool)]).max())


def _pairs(noise: _Array) -> float:
    """Return the correlation of two successive accesses of one record, over all coordinates."""
    return float(np.corrcoef(noise[::2].ravel(), noise[1::2].ravel())[0, 1])
