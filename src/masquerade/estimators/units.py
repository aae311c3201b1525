"""A model's weights in the columns' own units, from those of the coordinates that the protocols compute with."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from masquerade_core.study import Feature

__all__ = ["in_units"]

_Array = NDArray[Any]


def in_units(weights: _Array, features: Sequence[Feature], *, intercept: bool) -> tuple[_Array, _Array]:
    """Return the coefficients and the constant of w.z, as functions of the columns' cells.

    A number x becomes the coordinate z = 2 (x - min)/(max - min) - 1; a level becomes 1, and all others 0.

    Parameters
    ----------
    weights : ndarray, shape (m, d)
        In the order of the coordinates, the constant one last.
    features : sequence of Feature
        With public bounds, levels or edges.
    intercept : bool
        Whether there is a constant coordinate.

    Returns
    -------
    coefficients : ndarray, shape (m, p)
    constants : ndarray, shape (m,)
    """
    slopes: list[float] = []
    shifts: list[float] = []
    for feature in features:
        if feature.levels is None and feature.edges is None:
            low, high = float(feature.min or 0), float(feature.max or 0)
            slopes.append(2 / (high - low))
            shifts.append(-(high + low) / (high - low))
        else:
            slopes += [1.0] * len(feature.coordinates)
            shifts += [0.0] * len(feature.coordinates)
    p = len(slopes)
    constants: _Array = weights[:, :p] @ np.array(shifts)
    return weights[:, :p] * np.array(slopes), constants + weights[:, p] if intercept else constants
