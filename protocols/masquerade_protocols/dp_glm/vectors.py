"""A party's sums over its records: a real vector for each record, scaled, rounded to integers, and added up exactly.

Whatever the public numbers are, one record in place of another moves the real vector by at most S; products of two
different coordinates count twice, since their noise has half the variance:

=============  ======================================================================  =============================
sum            a record's vector                                                       S^2
=============  ======================================================================  =============================
location       (u, y)/sqrt(2.7), and the squares of numbers                            (4 numbers + levels + 1)/2.7
spread         the same of numbers cut to an interval, without y                       (4 numbers + levels)/2.7
moments        z z'/R^2, and (y - yb) z/(R h), for a z of length R at most             9/2
a step         w (y - q) x/C, w om x x'/CH, sqrt(.3) (w (y - q)/C)^2 x x', counts      5 + counts
=============  ======================================================================  =============================

"levels" counts 1 for a column with two levels, and 2 for one with more. ``docs/privacy/dp-glm.md`` derives the bounds,
and :mod:`masquerade_protocols.dp_glm.public` says what rounding adds.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from masquerade_core.data.records import Records
from masquerade_core.errors import LocalProtocolError
from masquerade_protocols.dp_glm.estimates import Design, Location, Point, logistic
from masquerade_protocols.dp_glm.public import BREADS, MEAT, SCORES, SHARE, SQUARES, Columns

__all__ = ["bounded", "contribution", "location", "moments", "spread", "step"]

_ROWS = 4096  # records at a time: a copy of all vectors would be larger than all records

_Floats = NDArray[np.float64]
_Integers = NDArray[np.int64]
Rows = Callable[[_Floats, _Floats], _Floats]
"""(u, y) -> a real vector for each record; u of shape (n, p), y of shape (n,) with labels 0 and 1."""


@dataclass(frozen=True, eq=False)
class _Sum:
    """The sum over one block of records of their rounded vectors."""

    rows: Rows
    columns: Columns
    scale: float

    def __call__(self, X: _Floats, y: _Floats) -> _Integers:
        total = self._from(0, X, y)
        for start in range(_ROWS, len(y), _ROWS):
            total += self._from(start, X, y)
        return total

    def _from(self, start: int, X: _Floats, y: _Floats) -> _Integers:
        part = slice(start, start + _ROWS)
        # Public numbers that overflow a float leave a record without a contribution, which no bound forbids.
        with np.errstate(all="ignore"):
            rows = self.rows(bounded(X[part], self.columns), (np.clip(y[part], -1, 1) + 1) / 2)
        rows[~np.isfinite(rows).all(axis=1)] = 0
        total: _Integers = np.rint(rows * self.scale).astype(np.int64).sum(axis=0)
        return total


def contribution(data: Records, rows: Rows, columns: Columns, scale: float) -> _Integers:
    """Return the sum of all records' vectors, each scaled and rounded by itself."""
    total = data.total(_Sum(rows, columns, scale))
    if total.dtype == object:
        raise LocalProtocolError("a sum over so many records does not fit into 63 bits; the layouts allow no such sum")
    return total


def bounded(X: _Floats, columns: Columns) -> _Floats:
    """Return covariates within the bounds that every S rests on: numbers in [-1, 1], and of a column's levels one."""
    u = np.clip(X, -1, 1)
    for group in columns.groups:
        levels = np.maximum(u[:, group], 0)
        u[:, group] = levels / np.maximum(levels.sum(axis=1), 1)[:, None]
    return u


def location(columns: Columns) -> Rows:
    """Return the vectors of the first sum, of p + numbers + 1 numbers: u and y, and the squares."""
    return partial(_location, columns=columns)


def _location(u: _Floats, y: _Floats, columns: Columns) -> _Floats:
    return np.column_stack([np.column_stack([u, y]) / sqrt(SQUARES), u[:, columns.numbers] ** 2])


def spread(columns: Columns, at: Location) -> Rows:
    """Return the vectors of the second sum, of p + numbers numbers: u, with numbers as they lie in [m - r, m + r]."""
    return partial(_spread, columns=columns, at=at)


def _spread(u: _Floats, _y: _Floats, columns: Columns, at: Location) -> _Floats:
    v = u.copy()
    v[:, columns.numbers] = np.clip((u[:, columns.numbers] - at.m) / at.r, -1, 1)
    return np.column_stack([v / sqrt(SQUARES), v[:, columns.numbers] ** 2])


def moments(m: _Floats, s: _Floats, yb: float) -> Rows:
    """Return the vectors of the third sum: products j < k of z by rows, squares, and z times the centred label."""
    return partial(_moments, m=m, s=s, yb=yb)


def _moments(u: _Floats, y: _Floats, m: _Floats, s: _Floats, yb: float) -> _Floats:
    z = _cut((u - m) / s / (1.5 * sqrt(len(m))))
    h = max(yb, 1 - yb)
    return np.column_stack([*_matrix(z, np.ones(len(z))), z * ((y - yb) / h)[:, None]])


def _cut(z: _Floats) -> _Floats:
    """Return each row with a length of 1 at most."""
    rows: _Floats = z / np.maximum(np.sqrt((z * z).sum(axis=1)), 1)[:, None]
    return rows


def _matrix(x: _Floats, weights: _Floats) -> tuple[_Floats, _Floats]:
    """Return the products j < k of each row by itself, by rows, and its squares, times the row's weight."""
    first, second = np.triu_indices(x.shape[1], 1)
    weighted = x * weights[:, None]
    return weighted[:, first] * x[:, second], weighted * x


def step(design: Design, point: Point, *, histograms: bool) -> Rows:
    """Return the vectors of a step: first the products of Hessian and squared scores, then all else.

    Parameters
    ----------
    design : Design
    point : Point
    histograms : bool
        Whether two histograms are counted; otherwise one number counts the records that were weighted down.
    """
    return partial(_step, design=design, point=point, histograms=histograms)


def _step(u: _Floats, y: _Floats, design: Design, point: Point, histograms: bool) -> _Floats:
    x = design.x(u)
    p = logistic(x @ point.theta)
    om = p * (1 - p)
    squares = (x * x).sum(axis=1)
    score, bread = np.sqrt(squares) * np.maximum(p, 1 - p), om * squares
    w = 1 / np.maximum(1, np.maximum(score / point.C, bread / point.CH))
    q = w * (y - p) / point.C
    products, diagonal = _matrix(x, np.ones(len(x)))
    hessian, meat = w * om / point.CH, sqrt(MEAT) * q * q
    if histograms:
        d = x.shape[1]
        counts = [_one_hot(score / sqrt(d), SCORES) / 2, _one_hot(bread / (d * point.wbar), BREADS) / 2]
    else:
        counts = [sqrt(SHARE) * (w < 1)]
    return np.column_stack([
        products * hessian[:, None], products * meat[:, None],
        x * q[:, None], diagonal * hessian[:, None], diagonal * meat[:, None], *counts,
    ])  # fmt: skip


def _one_hot(values: _Floats, edges: tuple[float, ...]) -> _Floats:
    """Return a 1 in the place of the last edge that a value reaches, for each of them."""
    places = np.searchsorted(edges, values, side="right")
    rows: _Floats = (places[:, None] == np.arange(1, len(edges) + 1)).astype(np.float64)
    return rows
