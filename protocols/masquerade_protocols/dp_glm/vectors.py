"""A party's sums over its records: a real vector for each record, scaled, rounded to integers, and added up exactly.

Whatever the public numbers are, one record in place of another moves the real vector by at most S; products of two
different coordinates count twice, since their noise has half the variance:

=============  ======================================================================  =============================
sum            a record's vector                                                       S^2
=============  ======================================================================  =============================
location       (u, y)/sqrt(2.7), and the squares of numbers                            (4 numbers + levels + 1)/2.7
spread         the same of numbers cut to an interval, without y                       (4 numbers + levels)/2.7
moments        z z'/R^2, and (y - yb) z/(R h), for a z of length R at most             9/2
a step         w e x/C, w om x x'/CH, sqrt(.3) (w e/C)^2 x x', counts                  5 + counts
=============  ======================================================================  =============================

e = y - q is how far the label lies from its chance q, and om = q (1 - q). With a linear model the label y is a number
like the others, (y - yb)/h has its square beside it in the moments, e is the residual cut to -K and K, over K, and om
is 1 where nothing was cut, and 0 elsewhere.

"levels" counts 1 for a column with two levels, and 2 for one with more. ``docs/privacy/dp-glm.md`` derives the bounds,
and :mod:`masquerade_protocols.dp_glm.public` says what rounding adds.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from masquerade_core import same_time
from masquerade_core.data.records import Records
from masquerade_core.errors import LocalProtocolError
from masquerade_protocols.dp_glm.estimates import Design, Located, Location, Point, logistic
from masquerade_protocols.dp_glm.public import BREADS, MEAT, RESIDUALS, SCORES, SHARE, SQUARES, Columns

__all__ = ["bounded", "contribution", "location", "moments", "spread", "step"]

_ROWS = 512  # records at a time: their vectors stay in the processor's cache

_Floats = NDArray[np.float64]
_Integers = NDArray[np.int64]
Rows = Callable[[_Floats, _Floats], _Floats]
"""(u, y) -> a real vector for each record; u of shape (n, p), y of shape (n,) with labels -1 and 1, or between them."""


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
        with np.errstate(all="ignore"):
            rows = self.rows(bounded(X[part], self.columns), np.clip(y[part], -1, 1))
            rows *= self.scale
            total = np.rint(rows, out=rows).sum(axis=0)  # exact: so few integers of less than 2^38 add up in floats
            if not np.isfinite(total).all():
                # Public numbers that overflow a float leave a record without a contribution, which no bound forbids.
                rows[~np.isfinite(rows).all(axis=1)] = 0
                total = rows.sum(axis=0)
        whole: _Integers = total.astype(np.int64)
        return whole


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


def location(columns: Columns, *, linear: bool) -> Rows:
    """Return the vectors of the first sum: u and y, and the squares of all numbers."""
    return partial(_location, columns=columns, linear=linear)


def _location(u: _Floats, y: _Floats, columns: Columns, linear: bool) -> _Floats:
    v = np.column_stack([u, y if linear else (y + 1) / 2])
    numbers = [*columns.numbers, *([columns.p] if linear else [])]
    return _beside(v / sqrt(SQUARES), v[:, numbers] ** 2)


def spread(columns: Columns, at: Location, *, linear: bool) -> Rows:
    """Return the vectors of the second sum: u, with numbers as they lie in [m - r, m + r], and the squares of these."""
    return partial(_spread, columns=columns, at=at, linear=linear)


def _spread(u: _Floats, y: _Floats, columns: Columns, at: Location, linear: bool) -> _Floats:
    v = np.column_stack([u, y]) if linear else u.copy()
    numbers = [*columns.numbers, *([columns.p] if linear else [])]
    v[:, numbers] = np.clip((v[:, numbers] - at.m) / at.r, -1, 1)
    return _beside(v / sqrt(SQUARES), v[:, numbers] ** 2)


def moments(place: Located, *, linear: bool) -> Rows:
    """Return the vectors of the third sum: products j < k of z by rows, squares, and z times the centred label."""
    return partial(_moments, place=place, linear=linear)


def _moments(u: _Floats, y: _Floats, place: Located, linear: bool) -> _Floats:
    z = _cut((u - place.m) / place.s / (1.5 * sqrt(len(place.m))))
    if linear:
        c = np.clip((y - place.yb) / place.sy / 3, -1, 1)
    else:
        c = ((y + 1) / 2 - place.yb) / max(place.yb, 1 - place.yb)
    return _beside(*_matrix(z), (z, c), *([c * c] if linear else []))


def _cut(z: _Floats) -> _Floats:
    """Return each row with a length of 1 at most."""
    rows: _Floats = z / np.maximum(np.sqrt((z * z).sum(axis=1)), 1)[:, None]
    return rows


def _matrix(x: _Floats) -> tuple[_Floats, _Floats]:
    """Return the products j < k of each row by itself, by rows, and its squares."""
    columns = np.ascontiguousarray(x.T)
    products = [columns[j] * columns[j + 1 :] for j in range(len(columns))]
    return np.concatenate(products).T, x * x


def _beside(*parts: _Floats | tuple[_Floats, _Floats]) -> _Floats:
    """Return matrices, or vectors as columns, side by side; a pair has a matrix and a factor for each row.

    Each column is contiguous, so that it is added up fast.
    """
    pairs = [part if isinstance(part, tuple) else (part, None) for part in parts]
    rows = [(matrix.T if matrix.ndim > 1 else matrix[None], times) for matrix, times in pairs]
    whole, at = np.empty((sum(len(own) for own, _ in rows), rows[0][0].shape[1])), 0
    for own, times in rows:
        np.multiply(own, 1 if times is None else times, out=whole[at : at + len(own)])
        at += len(own)
    return whole.T


def step(design: Design, point: Point, number: int) -> Rows:
    """Return the vectors of step 1, 2 or 3: first the products of Hessian and squared scores, then all else."""
    return partial(_step, design=design, point=point, number=number)


def _step(u: _Floats, y: _Floats, design: Design, point: Point, number: int) -> _Floats:
    x = design.x(u)
    predicted, squares, d = x @ point.theta, (x * x).sum(axis=1), x.shape[1]
    residual = (y - design.yb) / design.sy - predicted  # of a linear model
    if point.K is None:
        p = logistic(predicted)
        om, longest = p * (1 - p), np.maximum(p, 1 - p)
        e = (y + 1) / 2 - p
        bread = om
    else:
        om, longest = np.ones(len(x)), np.ones(len(x))
        e = np.clip(residual / point.K, -1, 1)
        bread = om * (np.abs(residual) < point.K)
    w = 1 / np.maximum(1, squares**0.5 * np.maximum(longest / point.C, om * squares**0.5 / point.CH))
    q = w * e / point.C
    hessian, meat = w * bread / point.CH, sqrt(MEAT) * q * q
    if number == 1:
        counts = [_one_hot(squares**0.5 * longest / sqrt(d), SCORES) / 2]
        if point.K is None:
            counts.append(_one_hot(om * squares / (d * point.wbar), BREADS) / 2)
        else:
            counts += [_one_hot(np.abs(residual) / (point.K / 3), RESIDUALS) / 2, e[:, None] ** 2 / 2]
    else:
        counts = [sqrt(SHARE) * (w < 1)]
        if point.K is not None:
            counts.append(sqrt(SHARE) * e**2)
            counts += [sqrt(SHARE) * (bread == 0)] if number == 3 else []  # noqa: PLR2004
    products, diagonal = _matrix(x)
    return _beside(
        (products, hessian), (products, meat), (x, q), (diagonal, hessian), (diagonal, meat), *counts,
    )  # fmt: skip


def _one_hot(values: _Floats, edges: tuple[float, ...]) -> _Floats:
    """Return a 1 in the place of the last edge that a value reaches, for each of them."""
    places = same_time.places(values, np.array(edges))
    rows: _Floats = (places[:, None] == np.arange(1, len(edges) + 1)).astype(np.float64)
    return rows
