"""What a party adds up over its records: integer vectors, and how far one replaced record moves each sum.

Every record is first cut to a public length and rounded to a vector of integers of length B at most, all by itself.
Then everything is exact: sums of integers, and of products of integers. So one record, replaced, moves

=================  ==============================================  ===================================
sum                a record's contribution                         squared length of the move, at most
=================  ==============================================  ===================================
the first mean     (u, y/2), with norm of u at most B              5 B^2
the second mean    z, of norm at most B                            4 B^2
second moments     z z' and c z, with abs(c) at most B             9/2 B^4
the same, centred  these, and B^2 y/sqrt(8)                        5 B^4
a gradient         its clipped gradient, of norm at most B         4 B^2
=================  ==============================================  ===================================

In the third and fourth line, a product of two different coordinates counts twice, since its noise has half the
variance. ``docs/privacy/dp-whitened.md`` derives the bounds.
"""

from collections.abc import Iterator
from math import isqrt, sqrt

import numpy as np
from numpy.typing import NDArray

from masquerade_core.data.schema import Dataset
from masquerade_protocols.dp_whitened.estimates import Centre, Point

__all__ = ["cut", "gradient_sum", "label_number", "mean_sum", "moments_sum", "on_grid", "shift_sum"]

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


def label_number(B: int) -> int:
    """Return B^2/sqrt(8), rounded down: what a record adds to the sum of labels beside the second moments."""
    return isqrt(B**4 // 8)


def _pieces(data: Dataset) -> Iterator[tuple[_Floats, _Floats]]:
    for start in range(0, len(data.y), _ROWS):
        yield data.X[start : start + _ROWS], data.y[start : start + _ROWS]


def mean_sum(data: Dataset, B: int) -> _Integers:
    """Return the sum of (u, y/2) over all records, shape (d + 1,)."""
    total = np.zeros(data.X.shape[1] + 1, dtype=np.int64)
    for u, y in _pieces(data):
        total[:-1] += on_grid(u, B).sum(axis=0)
        total[-1] += (B // 2) * int(y.sum())
    return total


def shift_sum(data: Dataset, centre: Centre, B: int) -> _Integers:
    """Return the sum of cut(u - m, R)/R over all records, shape (d,)."""
    total = np.zeros(data.X.shape[1], dtype=np.int64)
    for u, _ in _pieces(data):
        total += on_grid(centre.normalized(u), B).sum(axis=0)
    return total


def moments_sum(data: Dataset, centre: Centre, B: int) -> _Integers:
    """Return the sum of second moments: products j < k by rows, squares, c z, and the labels if the data are centred.

    c = B (y - yb)/(1 + |yb|), rounded. A product of floats that are integers below 2^53 is exact in any order.
    """
    d = data.X.shape[1]
    matrix, vector, labels = np.zeros((d, d), dtype=np.int64), np.zeros(d, dtype=np.int64), 0
    for u, y in _pieces(data):
        z = on_grid(centre.normalized(u), B).astype(np.float64)
        c = np.rint(B * (y - centre.yb) / (1 + abs(centre.yb)))
        np.add(matrix, z.T @ z, out=matrix, casting="unsafe")
        vector += (c @ z).astype(np.int64)
        labels += int(y.sum())
    products = matrix[np.triu(np.ones((d, d), dtype=bool), 1)]
    last = [label_number(B) * labels] if centre.centred else []
    return np.concatenate([products, matrix.diagonal(), vector, np.array(last, dtype=np.int64)])


def gradient_sum(data: Dataset, centre: Centre, point: Point, B: int) -> _Integers:
    """Return the sum of q (x, sqrt(K) x.e, sqrt(K)) over all records, each cut to length C, over C.

    x = cut(A z, L), e = th/|th|, and q = sigmoid(x.th + b0) - (y + 1)/2 is the derivative of the logistic loss. Data
    that are not centred have no last number.
    """
    total = np.zeros(len(point.th) + 1 + centre.centred, dtype=np.int64)
    for u, y in _pieces(data):
        x = cut(centre.normalized(u) @ point.A, point.L)
        q = point.sigmoid(x @ point.th + point.b0) - (y + 1) / 2
        root = sqrt(point.K)
        rest = [root * (x @ point.e), np.full(len(y), root)][: 1 + centre.centred]
        contribution = q[:, None] * np.column_stack([x, *rest])
        total += on_grid(cut(contribution, point.C) / point.C, B).sum(axis=0)
    return total
