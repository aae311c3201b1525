"""Arithmetic on records, in a time that tells nothing of them.

Charlie sees when his answer reaches a party, and when the party's next contribution leaves. So what a party computes in
between must take the same time whatever its records are. Products and sums of arrays do. Four things do not by
themselves:

- *Tables.* A library computes exp, tanh and logarithms with a table. Numbers that are much alike read but a small part
  of it, and what is read first comes from a slower memory. Here all of a table is read before.
- *Searches.* A search in a sorted list is fast where the processor foresees its branches, as where all numbers lie in
  one place. Here a number is compared with all edges.
- *The largest of a few.* To look for its place in a row is fast where it always lies in the same one. Here the columns
  are compared one after the other.
- *Counts.* To add to one place again and again waits for the addition before. Here each place is counted by itself.

``test_same_time.py`` measures it.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

__all__ = ["EVERYWHERE", "counts", "exp", "first_largest", "log", "log2", "places", "sums", "tanh"]

_Floats = NDArray[np.float64]
_Integers = NDArray[np.int64]

EVERYWHERE = np.linspace(-np.log(2), np.log(2), 512)
"""Numbers for which exp reads all of its table, which has an entry for each part of a power of two."""

_OCTAVE = np.linspace(1.0, 2.0, 512)  # the tables of logarithms have an entry for each part of it
_BENDS = np.linspace(-20.0, 20.0, 512)  # beyond, tanh is -1 or 1


def exp(x: _Floats) -> _Floats:
    """Return exp(x)."""
    return _after_its_table(np.exp, EVERYWHERE, x)


def log(x: _Floats) -> _Floats:
    """Return the natural logarithm of x."""
    return _after_its_table(np.log, _OCTAVE, x)


def log2(x: _Floats) -> _Floats:
    """Return the logarithm of x to the base 2."""
    return _after_its_table(np.log2, _OCTAVE, x)


def tanh(x: _Floats) -> _Floats:
    """Return tanh(x)."""
    return _after_its_table(np.tanh, _BENDS, x)


def _after_its_table(function: Callable[[_Floats], _Floats], everywhere: _Floats, x: _Floats) -> _Floats:
    function(everywhere)
    return function(x)


def places(values: _Floats, edges: _Floats) -> _Integers:
    """Return how many edges each value reaches: its place among them, as ``searchsorted(edges, values, "right")``.

    Parameters
    ----------
    values : ndarray, shape (n,)
        Finite.
    edges : ndarray, shape (k,)
        In their order; a few.
    """
    found = np.zeros(len(values), dtype=np.int64)
    for edge in edges:
        found += values >= edge
    return found


def first_largest(rows: _Floats) -> _Integers:
    """Return the place of the largest number of each row, the first of equal ones, as ``argmax`` does.

    Parameters
    ----------
    rows : ndarray, shape (n, k)
        k is at least 1, and small.
    """
    largest, found = rows[:, 0], np.zeros(len(rows), dtype=np.int64)
    for place in range(1, rows.shape[1]):
        column = rows[:, place]
        found += (column > largest) * (place - found)
        largest = np.maximum(largest, column)
    return found


def counts(where: _Integers, size: int) -> _Integers:
    """Return how many numbers are 0, 1, ... up to ``size`` - 1, as ``bincount`` does.

    Parameters
    ----------
    where : ndarray of int, shape (n,)
        Each at least 0 and less than ``size``, which is 65,536 at most.
    size : int
    """
    small = where.astype(np.min_scalar_type(size - 1))
    return np.array([np.count_nonzero(small == place) for place in range(size)], dtype=np.int64)


def sums(where: _Integers, size: int, numbers: _Integers) -> _Integers:
    """Return the sum of the numbers at each place; the parameters before are those of :func:`counts`."""
    small = where.astype(np.min_scalar_type(size - 1))
    return np.array([(numbers * (small == place)).sum() for place in range(size)], dtype=np.int64)
