"""A party's sums over its records: integer vectors, and how far one replaced record moves each sum.

Every record is first cut to a public length and rounded to a vector of integers of length B at most, all by itself.
Then everything is exact: sums of integers, and of products of integers. So one record, replaced, moves

=================  =====================================================  ===================================
sum                a record's contribution                                squared length of the move, at most
=================  =====================================================  ===================================
the first mean     u, of length B at most, and its label, worth B         5 B^2
the second mean    z, of length B at most                                 4 B^2
labels             Y u, of length B at most                               4 B^2
second moments     z z' and c z, with z and c of length B at most         9/2 B^4
the same, centred  these, and its label, worth B^2/sqrt(2)                5 B^4
a gradient         its clipped gradient, of length B at most              4 B^2
=================  =====================================================  ===================================

In the third and fourth line, a product of two different coordinates counts twice, since its noise has half the
variance. m is the number of outputs: 1 for two classes, and one for each of several.
``docs/privacy/dp-whitened.md`` derives the bounds.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import isqrt, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from masquerade_core import same_time
from masquerade_core.data.records import Records
from masquerade_core.errors import LocalProtocolError
from masquerade_protocols.dp_whitened.estimates import Centre, Point, Scorer, blocks, places
from masquerade_protocols.dp_whitened.public import NODES, moments_length

__all__ = [
    "coded",
    "counts_sum",
    "cut",
    "gradient_sum",
    "label_unit",
    "labels_sum",
    "mean_sum",
    "moments_sum",
    "on_grid",
    "shift_sum",
]

_SHORT = 1 - 2.0**-30  # of B: floats err by less than (d + 20) 2^-53, so no vector comes out longer than B
_TINY = float(np.finfo(np.float64).tiny)  # where the length is 0, every row becomes 0
_ROWS, _FEWEST = 4096, 64  # records at a time: a copy of all contributions would be as large as all records
_CELLS = 1 << 18  # of these records together, where that many make up as many rows: there are several copies of them
_COLUMNS = 256  # of a matrix of second moments that are worked on at once
_CACHED, _PRODUCT = 1 << 16, 128  # cells that stay in a processor's cache, and records from which a product is fast
_EXACT = 1 << 53  # so far, floats have all integers

_Floats = NDArray[np.float64]
_Integers = NDArray[np.int64]


def cut(v: _Floats, longest: float) -> _Floats:
    """Return each row cut to a length: v min(1, longest/|v|)."""
    return v * _factors(v, longest)


def _factors(v: _Floats, longest: float) -> _Floats:
    norms = np.sqrt((v * v).sum(axis=1))
    factors: _Floats = longest / np.maximum(norms, max(longest, _TINY))  # the same steps, whichever rows are longer
    return factors[:, None]


def on_grid(v: _Floats, B: int) -> _Integers:
    """Return rows of length 1 at most as integers of length B at most: scaled, cut, and each coordinate rounded.

    Rounding makes a row longer by at most sqrt(d)/2, so it is first cut to that much less than B.
    """
    return _rounded(v, B).astype(np.int64)


def _rounded(v: _Floats, B: int) -> _Floats:
    longest = max(0.0, (B - sqrt(v.shape[1]) / 2) * _SHORT)
    found = v * B
    found *= _factors(found, longest)
    return np.rint(found, out=found)


def coded(y: _Floats, outputs: int) -> _Floats:
    """Return labels as rows of numbers -1 and +1: one for two classes, one for each of several, shape (n, outputs)."""
    return y[:, None] if outputs == 1 else np.where(y[:, None] == np.arange(outputs), 1.0, -1.0)


@dataclass(frozen=True, eq=False)
class _Sum:
    """The sum over one block of records; ``of(u, Y)`` is that over a few, with labels as rows of numbers -1 and +1."""

    of: Callable[[_Floats, _Floats], _Integers]
    outputs: int
    rows: int = 0  # at a time; 0 for as many as fit

    def __call__(self, X: _Floats, y: _Floats) -> _Integers:
        rows = self.rows or min(_ROWS, max(_FEWEST, _CELLS // max(1, X.shape[1])))
        total = self._from(slice(0, rows), X, y)
        for start in range(rows, len(y), rows):
            total += self._from(slice(start, start + rows), X, y)
        return total

    def _from(self, rows: slice, X: _Floats, y: _Floats) -> _Integers:
        return self.of(X[rows], coded(y[rows], self.outputs))


def _total(data: Records, of: Callable[..., _Integers], rows: int = 0, **public: Any) -> _Integers:
    """Return the sum of ``of(u, Y, **public)`` over all records."""
    total = data.total(_Sum(partial(of, **public), data.classes or 1, rows))
    if total.dtype == object:
        raise LocalProtocolError("a sum over so many records does not fit into 63 bits; the layouts allow no such sum")
    return total


def mean_sum(data: Records, B: int) -> _Integers:
    """Return the sum of (u, k Y) over all records, shape (d + m,); k is such that other labels move k Y by 1."""
    return _total(data, _means, B=B)


def _means(u: _Floats, Y: _Floats, B: int) -> _Integers:
    return np.append(on_grid(u, B).sum(axis=0), label_unit(B, Y.shape[1]) * _counted(Y))


def shift_sum(data: Records, centre: Centre, B: int, *, distance: bool = False) -> _Integers:
    """Return the sum of cut(u - m, R)/R over all records, shape (d,); with its distance, shape (d + 1,)."""
    return _total(data, _shifts, centre=centre, B=B, distance=distance)


def _shifts(u: _Floats, _Y: _Floats, centre: Centre, B: int, *, distance: bool) -> _Integers:
    found = _added(on_grid(centre.normalized(u), B))
    if distance:  # an even unit, so that numbers from -1/2 to 1/2 become integers that differ by B at most
        found = np.append(found, np.rint(2 * (B // 2) * centre.halvings(u)).astype(np.int64).sum())
    return found


def labels_sum(data: Records, B: int) -> _Integers:
    """Return the sum of Y u, one vector for each output, scaled to a length of 1 at most; shape (d m,)."""
    return _total(data, _labels, B=B)


def _labels(u: _Floats, Y: _Floats, B: int) -> _Integers:
    return _added(on_grid(_outer(Y / sqrt(Y.shape[1]), u), B))


def moments_sum(data: Records, centre: Centre, B: int) -> _Integers:
    """Return the sum of second moments: products j < k by rows, squares, c z, and the labels if the data are centred.

    c = B (Y - yb)/h, rounded, has a length of at most B: there is a vector c z for each output. z is no longer than B,
    either. So a product is an integer of B^2 at most, and any sum of 2^53/B^2 products or fewer is one of 2^53 at most.
    Floats add these exactly, in any order. B is at most 2^18, so a block of 2^16 records is one sum of floats.
    """
    return _total(data, _moments, _EXACT // B**2, centre=centre, B=B)


def _moments(u: _Floats, Y: _Floats, centre: Centre, B: int) -> _Integers:
    (n, d), m = u.shape, Y.shape[1]
    columns, crossed = [*blocks(d, _COLUMNS)], np.zeros((m, d))
    upper = [np.zeros((each.stop - each.start, d - each.start)) for each in columns]
    step = max(_PRODUCT, _CACHED // max(1, d))
    for start in range(0, n, step):
        some = slice(start, start + step)
        z = _rounded(centre.normalized(u[some]), B)
        crossed += _rounded((Y[some] - centre.yb) / centre.h, B).T @ z
        for at, each in enumerate(columns):
            upper[at] += z[:, each].T @ z[:, each.start :]
    found = np.empty(moments_length(d, m, centred=centre.centred), dtype=np.int64)
    products, squares, vectors, last = np.split(found, np.cumsum([d * (d - 1) // 2, d, d * m]))
    for each, part in zip(columns, upper, strict=True):
        for (row, place), numbers in zip(places(each, d, above=1), part, strict=True):
            own = row - each.start
            squares[row], products[place] = numbers[own], numbers[own + 1 :]
    vectors[:] = crossed.ravel()
    if centre.centred:
        last[:] = isqrt(label_unit(B**2, m) ** 2 // 2) * _counted(Y)
    return found


def gradient_sum(data: Records, centre: Centre, point: Point, B: int, *, weighted: bool = False) -> _Integers:
    """Return the sum of q (x, sqrt(K) x.e, sqrt(K)) over all records, each cut to length C, over C.

    x = cut(A z, L). For each output, e = th/|th|, and q is the derivative of the logistic loss, or of the softmax loss,
    by the score. The score is that of the record as it is, since a model meets records that nobody cuts. Data that are
    not centred have no last numbers. Shape (m d + m,) or (m d + 2 m,).

    Parameters
    ----------
    weighted : bool
        With two classes alone: whether a record is made shorter by the same factor whatever its label is, namely by
        that of the longer of its two contributions. So what is cut off does not bend the model. Otherwise each
        contribution is cut by itself.
    """
    return _total(data, _gradients, centre=centre, point=point, B=B, weighted=weighted)


def _gradients(u: _Floats, Y: _Floats, centre: Centre, point: Point, B: int, *, weighted: bool) -> _Integers:
    x = cut(centre.normalized(u) @ point.A, point.L)
    p = point.probabilities(centre.uncut(u) @ point.A @ point.th + point.b0)
    q, along, root = p - (Y + 1) / 2, x @ point.e, sqrt(point.K)
    parts = [_outer(q, x), root * q * along, root * q][: 2 + centre.centred]
    v = np.column_stack(parts) / point.C
    if weighted:
        squares = (x * x).sum(axis=1)[:, None] + point.K * (along**2 + centre.centred)
        v /= np.maximum(1.0, np.maximum(p, 1 - p) * np.sqrt(squares) / point.C)
    return _added(on_grid(v, B))


def counts_sum(data: Records, scorer: Scorer, B: int) -> _Integers:
    """Return how many records of each label lie at each node of the log-odds, times B/sqrt(m); shape (18 m,).

    A record between two nodes is shared out between them, by how near it is; beyond the nodes it lies at the last one.
    """
    return _total(data, _counts, scorer=scorer, B=B)


def _counts(u: _Floats, Y: _Floats, scorer: Scorer, B: int) -> _Integers:
    outputs, whole = Y.shape[1], isqrt(B**2 // Y.shape[1])
    counts = np.zeros((outputs, 2, NODES), dtype=np.int64)
    odds, nodes = scorer.log_odds(u), scorer.nodes
    for o in range(outputs):
        t = np.clip(odds[:, o], nodes[0, o], nodes[-1, o])
        left = same_time.places(t, nodes[1:-1, o])
        part = np.clip((t - nodes[left, o]) / (nodes[left + 1, o] - nodes[left, o]), 0, 1)
        upper, at = np.floor(whole * part).astype(np.int64), left + NODES * (Y[:, o] < 0)
        counts[o] = same_time.sums(at, 2 * NODES, whole - upper).reshape(2, NODES)
        counts[o, :, 1:] += same_time.sums(at, 2 * NODES, upper).reshape(2, NODES)[:, :-1]
    return counts.ravel()


def label_unit(B: int, outputs: int) -> int:
    """Return what a label +1 adds to a sum of labels, such that one label in place of another moves it by B at most.

    With two classes one number moves by 2 units; with several, two numbers do.
    """
    return B // 2 if outputs == 1 else isqrt(B**2 // 8)


def _counted(Y: _Floats) -> _Integers:
    counts: _Integers = Y.sum(axis=0).astype(np.int64)
    return counts


def _added(rows: _Integers) -> _Integers:
    total: _Integers = rows.sum(axis=0)
    return total


def _outer(c: _Floats, x: _Floats) -> _Floats:
    """Return for each row the products of all of c with all of x, those with the first of c first."""
    rows: _Floats = (c[:, :, None] * x[:, None, :]).reshape(len(x), c.shape[1] * x.shape[1])
    return rows
