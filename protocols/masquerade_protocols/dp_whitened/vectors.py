"""What a party adds up over its records: integer vectors, and how far one replaced record moves each sum.

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

from collections.abc import Iterable, Iterator
from math import isqrt, sqrt

import numpy as np
from numpy.typing import NDArray

from masquerade_core.data.schema import Dataset
from masquerade_protocols.dp_whitened.estimates import Centre, Point

__all__ = [
    "coded",
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
_ROWS = 4096  # records at a time: a copy of all contributions would be as large as all records

_Floats = NDArray[np.float64]
_Integers = NDArray[np.int64]


def cut(v: _Floats, longest: float) -> _Floats:
    """Return each row cut to a length: v min(1, longest/|v|)."""
    norms = np.sqrt((v * v).sum(axis=1))
    factor = np.divide(longest, norms, out=np.ones_like(norms), where=norms > longest)
    cut_rows: _Floats = v * factor[:, None]
    return cut_rows


def on_grid(v: _Floats, B: int) -> _Integers:
    """Return rows of length 1 at most as integers of length B at most: scaled, cut, and each coordinate rounded.

    Rounding makes a row longer by at most sqrt(d)/2, so it is first cut to that much less than B.
    """
    longest = max(0.0, (B - sqrt(v.shape[1]) / 2) * _SHORT)
    return np.rint(cut(v * B, longest)).astype(np.int64)


def coded(y: _Floats, outputs: int) -> _Floats:
    """Return labels as rows of numbers -1 and +1: one for two classes, one for each of several, shape (n, outputs)."""
    return y[:, None] if outputs == 1 else np.where(y[:, None] == np.arange(outputs), 1.0, -1.0)


def _pieces(data: Dataset) -> Iterator[tuple[_Floats, _Floats]]:
    outputs = data.classes or 1
    for start in range(0, len(data.y), _ROWS):
        yield data.X[start : start + _ROWS], coded(data.y[start : start + _ROWS], outputs)


def mean_sum(data: Dataset, B: int) -> _Integers:
    """Return the sum of (u, k Y) over all records, shape (d + m,); k is such that other labels move k Y by 1."""
    means = [np.append(on_grid(u, B).sum(axis=0), label_unit(B, Y.shape[1]) * _counted(Y)) for u, Y in _pieces(data)]
    return _total(means)


def shift_sum(data: Dataset, centre: Centre, B: int) -> _Integers:
    """Return the sum of cut(u - m, R)/R over all records, shape (d,)."""
    return _total(on_grid(centre.normalized(u), B).sum(axis=0) for u, _ in _pieces(data))


def labels_sum(data: Dataset, B: int) -> _Integers:
    """Return the sum of Y u, one vector for each output, scaled to a length of 1 at most; shape (d m,)."""
    return _total(on_grid(_outer(Y / sqrt(Y.shape[1]), u), B).sum(axis=0) for u, Y in _pieces(data))


def moments_sum(data: Dataset, centre: Centre, B: int) -> _Integers:
    """Return the sum of second moments: products j < k by rows, squares, c z, and the labels if the data are centred.

    c = B (Y - yb)/h, rounded, has a length of at most B: there is a vector c z for each output. A product of floats
    that are integers below 2^53 is exact in any order.
    """
    d, m = data.X.shape[1], data.classes or 1
    matrix, vectors, labels = (np.zeros(shape, dtype=np.int64) for shape in ((d, d), (m, d), m))
    for u, Y in _pieces(data):
        z = on_grid(centre.normalized(u), B).astype(np.float64)
        c = on_grid((Y - centre.yb) / centre.h, B).astype(np.float64)
        np.add(matrix, z.T @ z, out=matrix, casting="unsafe")
        np.add(vectors, c.T @ z, out=vectors, casting="unsafe")
        labels += _counted(Y)
    products = matrix[np.triu(np.ones((d, d), dtype=bool), 1)]
    last = isqrt(label_unit(B**2, m) ** 2 // 2) * labels if centre.centred else labels[:0]
    return np.concatenate([products, matrix.diagonal(), vectors.ravel(), last])


def gradient_sum(data: Dataset, centre: Centre, point: Point, B: int) -> _Integers:
    """Return the sum of q (x, sqrt(K) x.e, sqrt(K)) over all records, each cut to length C, over C.

    x = cut(A z, L). For each output, e = th/|th|, and q is the derivative of the logistic loss, or of the softmax loss,
    by the score x.th + b0. Data that are not centred have no last numbers. Shape (m d + m,) or (m d + 2 m,).
    """

    def contributions(u: _Floats, Y: _Floats) -> _Floats:
        x = cut(centre.normalized(u) @ point.A, point.L)
        q = point.probabilities(x @ point.th + point.b0) - (Y + 1) / 2
        root = sqrt(point.K)
        parts = [_outer(q, x), root * q * (x @ point.e), root * q]
        return cut(np.column_stack(parts[: 2 + centre.centred]), point.C) / point.C

    return _total(on_grid(contributions(u, Y), B).sum(axis=0) for u, Y in _pieces(data))


def label_unit(B: int, outputs: int) -> int:
    """Return what a label +1 adds to a sum of labels, such that one label in place of another moves it by B at most.

    With two classes one number moves by 2 units; with several, two numbers do.
    """
    return B // 2 if outputs == 1 else isqrt(B**2 // 8)


def _counted(Y: _Floats) -> _Integers:
    counts: _Integers = Y.sum(axis=0).astype(np.int64)
    return counts


def _outer(c: _Floats, x: _Floats) -> _Floats:
    """Return for each row the products of all of c with all of x, those with the first of c first."""
    rows: _Floats = (c[:, :, None] * x[:, None, :]).reshape(len(x), -1)
    return rows


def _total(sums: Iterable[_Integers]) -> _Integers:
    total: _Integers = np.sum(list(sums), axis=0, dtype=np.int64)
    return total
