"""Symmetric matrices as vectors of their upper triangles by rows, and back, without a third copy of the matrix."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

__all__ = ["SMALL", "blocks", "places", "symmetric"]

SMALL = 1024
"""A matrix with so many rows at most is worked on as a whole."""

_AT_ONCE = 256  # rows of a larger one


def blocks(d: int, size: int = 0) -> Iterator[slice]:
    """Return runs of d rows that are worked on at once: of ``size``, or of all rows where these are few."""
    size = size or (d if d <= SMALL else _AT_ONCE)
    return (slice(start, min(start + size, d)) for start in range(0, d, size))


def places(rows: slice, d: int, *, above: int = 0) -> Iterator[tuple[int, slice]]:
    """Return (row, its place in the vector) for some rows of a matrix with d of them.

    Parameters
    ----------
    rows : slice
    d : int
    above : int
        0 where a row begins with its number on the diagonal, 1 where it begins after it.
    """
    for row in range(rows.start, rows.stop):
        start = row * (2 * (d - above) - row + 1) // 2
        yield row, slice(start, start + d - above - row)


def symmetric(vector: NDArray[np.float64], d: int, diagonal: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
    """Return the matrix of a vector; of one without a diagonal, which is then given by itself."""
    matrix, above = np.empty((d, d)), int(diagonal is not None)
    for row, place in places(slice(0, d), d, above=above):
        matrix[row, row + above :] = matrix[row + above :, row] = vector[place]
    if diagonal is not None:
        np.fill_diagonal(matrix, diagonal)
    return matrix
