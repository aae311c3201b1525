"""Estimates from opened sums alone: the centre, the whitened coordinates, the steps, and the classifier.

Everybody computes it, and Charlie's result is the one that counts: each function returns numbers that he rounds to a
grid and sends (:mod:`masquerade_protocols.blocks.adaptive_sums`). Nothing here looks at records. So all of it may
depend on the sums as it likes, and on the noise: ``noise_sd`` is the standard deviation of the noise that is there.

A classifier has m *outputs*: one for two classes, with labels -1 and +1, and one for each of several classes, where +1
stands for this class and -1 for every other.

A symmetric matrix travels as a vector of its upper triangle by rows. There and back, no third copy of it is made.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import erf, log, log2, sqrt
from typing import Self

import numpy as np
from numpy.typing import NDArray

from masquerade_core import same_time
from masquerade_core.lazy_scipy import eigh
from masquerade_core.model import Published
from masquerade_protocols.dp_whitened.public import NODES, Plan, point_length

__all__ = [
    "SMALL",
    "Centre",
    "Labels",
    "Point",
    "Scorer",
    "Seen",
    "Whitened",
    "blocks",
    "class_shares",
    "classifier",
    "first_centre",
    "places",
    "recalibrated",
    "second_centre",
    "step",
    "symmetric",
    "weight_noise",
    "whitened",
]


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


_Floats = NDArray[np.float64]

_TINY = float(np.finfo(np.float64).tiny)
_LEAST_RADIUS = 2.0**-10  # of R, so that nothing is divided by zero where all records are equal
_LEAST_EDGE = 1e-6  # of E: the entries of A stay below 1,200
_LEAST_GAP = 2.0**-20  # between the two largest eigenvalues, where the largest is treated in a way of its own
_LEAST_CURVATURE = 0.03  # of w
_SHORTEST = 6  # a distance counts as R 2^-6 or more
_PLACES = np.array([-4, -2, -1, -0.5, 0, 0.5, 1, 2, 4])  # of the nodes, in sds of the score from its middle
_MASSES = np.diff([0.0, *(0.5 + 0.5 * erf(x / sqrt(2)) for x in (_PLACES[1:] + _PLACES[:-1]) / 2), 1.0])
_SLOPE_SD, _OFFSET_SD = 0.4, 2.0  # of what is thought of a and of k beforehand
_LEAST_SLOPE = 0.05
_LEAST_SPREAD = 2.0**-10  # of scores, between the nodes
_MANY_TOLD = 400  # N mu sqrt(h/K) from which an offset is believed as soon as it stands out of the noise
_TURNS = 150  # of Newton's method, which stands still after some six


@dataclass(frozen=True)
class Centre:
    """Where the records lie: m, and the radius R around it.

    Parameters
    ----------
    m : ndarray, shape (d,)
    R : float
        Greater than 0.
    yb : ndarray, shape (outputs,)
        The means of the labels, shrunk; each between -0.9 and 0.9.
    centred : bool
        Whether the classifier has offsets of its own. Otherwise m = 0, R = 1 and yb = 0.
    """

    m: _Floats
    R: float
    yb: _Floats
    centred: bool

    @classmethod
    def none(cls, d: int, outputs: int) -> Self:
        """Return the centre of data that are not centred."""
        return cls(np.zeros(d), 1.0, np.zeros(outputs), centred=False)

    def numbers(self) -> _Floats:
        """Return what the others must know: m, R and yb, shape (d + 1 + outputs,)."""
        return np.concatenate([self.m, [self.R], self.yb])

    @classmethod
    def of(cls, numbers: _Floats, d: int) -> Self:
        """Read what :meth:`numbers` returns."""
        return cls(numbers[:d], float(numbers[d]), numbers[d + 1 :], centred=True)

    @property
    def h(self) -> float:
        """The longest Y - yb of any label Y."""
        if len(self.yb) == 1:
            return 1 + abs(float(self.yb[0]))
        each = 2 * np.eye(len(self.yb)) - 1 - self.yb
        return float(np.sqrt((each * each).sum(axis=1).max()))

    def normalized(self, u: _Floats) -> _Floats:
        """Return z = cut(u - m, R)/R for each row u."""
        z = self.uncut(u)
        norms = np.sqrt((z * z).sum(axis=1))
        z /= np.maximum(norms, 1.0)[:, None]
        return z

    def uncut(self, u: _Floats) -> _Floats:
        """Return (u - m)/R for each row u."""
        rows: _Floats = u - self.m
        rows /= self.R
        return rows

    def halvings(self, u: _Floats) -> _Floats:
        """Return how often R must be halved to be |u - m|, for each row u: a number from 0 to 6, as (it - 3)/6."""
        z = self.uncut(u)
        lengths = np.clip(np.sqrt((z * z).sum(axis=1)), 2.0**-_SHORTEST, 1.0)
        numbers: _Floats = -same_time.log2(lengths) / _SHORTEST - 0.5
        return numbers


@dataclass(frozen=True)
class Labels:
    """A second estimate of the mean of Y u, and the sd of its noise; for data that are not centred.

    Parameters
    ----------
    mean : ndarray, shape (d, outputs)
    sd : float
    """

    mean: _Floats
    sd: float

    @classmethod
    def of(cls, plan: Plan, opened: _Floats) -> Self:
        """Read the opened sum of labels, in units of 1/N."""
        m = plan.study.outputs
        return cls(sqrt(m) * opened.reshape(m, -1).T, sqrt(m) * plan.noise_sd(plan.second_mean))


@dataclass(frozen=True)
class Point:
    """The whitened coordinates, and the classifier in them at which gradients are taken.

    Parameters
    ----------
    A : ndarray, shape (d, d)
        Symmetric: x = A z, cut to length L.
    L, K : float
        L is the longest x. sqrt(K) is how much better than other directions the noisy sums tell the classifier's length
        and its offsets.
    th : ndarray, shape (d, outputs)
    b0 : ndarray, shape (outputs,)
    centred : bool
        Whether the offsets b0 are learned; otherwise they are 0.
    """

    A: _Floats
    L: float
    K: float
    th: _Floats
    b0: _Floats
    centred: bool

    def classifier(self) -> _Floats:
        """Return th, a row for each coordinate, and b0, as one vector of (d + 1) outputs numbers."""
        return np.append(self.th, self.b0)

    @classmethod
    def of(cls, numbers: _Floats, d: int, *, centred: bool) -> Self:
        """Read what :meth:`Whitened.numbers` returns."""
        A, (L, K), rest = np.split(numbers, [d * (d + 1) // 2, d * (d + 1) // 2 + 2])
        both = rest.reshape(d + 1, -1).copy()  # else it would keep all numbers
        return cls(symmetric(A, d), float(L), float(K), both[:-1], both[-1], centred)

    def at(self, classifier: _Floats) -> Self:
        """Return the same coordinates with another classifier, as :meth:`classifier` returns it."""
        both = classifier.reshape(len(self.A) + 1, -1)
        return replace(self, th=both[:-1], b0=both[-1])

    def probabilities(self, scores: _Floats) -> _Floats:
        """Return the chance of +1 for each score, shape (n, outputs)."""
        chances: _Floats = _logistic(scores) if scores.shape[1] == 1 else _softmax(scores)
        return chances

    @property
    def C(self) -> float:  # noqa: N802
        """The longest contribution of a record to a gradient."""
        return 0.35 * sqrt(self.L**2 + (1 + self.centred) * self.K)

    @property
    def e(self) -> _Floats:
        """th/|th| for each output, or 0 where th is 0."""
        lengths = np.sqrt((self.th * self.th).sum(axis=0))
        directions: _Floats = np.divide(self.th, lengths, out=np.zeros_like(self.th), where=lengths > 0)
        return directions


# --- A. The centre ------------------------------------------------------------------


def _label_size(plan: Plan) -> float:
    """Return what a label +1 is worth in a sum where other labels move it by 1."""
    return 0.5 if plan.study.outputs == 1 else sqrt(1 / 8)


def _shrunk(means: _Floats, sd: float, limit: float) -> _Floats:
    """Return means of labels, pulled to 0 where noise is as large as they may be."""
    return np.clip(means * 0.25 / (0.25 + sd**2), -limit, limit)


def first_centre(plan: Plan, opened: _Floats) -> Centre:
    """Step A1: m, yb and R from the noisy sum of records and labels, in units of 1/N; shape (d + outputs,)."""
    d, t = plan.study.d, plan.noise_sd(plan.first_mean)
    m, D = opened[:d], d * t * t
    n = float(m @ m)
    k = max(0.0, 1 - D / n) if n > 0 else 0.0  # James and Stein
    squared = max(0.0, 1 - max(0.0, n - D)) + k * D  # the mean of |u - m|^2 is at most 1 - |mean of u|^2
    if plan.plenty:
        squared += 2.5 * 2 * k * sqrt(n) * t  # 2.5 standard deviations: the next sum measures a distance within R
    R = min(1.0, sqrt(squared))
    size = _label_size(plan)
    return Centre(k * m, max(R, _LEAST_RADIUS), _shrunk(opened[d:] / size, t / size, 0.9), centred=True)


def class_shares(plan: Plan, opened: _Floats) -> Published:
    """Return the share of each label as the first noisy sum shows it: (1 + mean)/2, where labels are -1 and 1."""
    size = _label_size(plan)
    shares = 0.5 + opened[plan.study.d :] / size / 2
    return Published(plan.N, tuple(shares.tolist()), plan.noise_sd(plan.first_mean) / size / 2)


def second_centre(plan: Plan, first: Centre, opened: _Floats) -> Centre:
    """Step A2: a better m and R from the noisy sum of cut(u - m, R)/R; ``opened`` has shape (d,).

    Where there is plenty to go by, it has one number more: the mean of :meth:`Centre.halvings`.
    """
    d, sd = plan.study.d, plan.noise_sd(plan.second_mean)
    t = first.R * sd
    moved = first.R * opened[:d]
    m, D = first.m + moved, d * t * t
    R = sqrt(max(0.0, 1 - max(0.0, float(m @ m) - D)) + D)
    if plan.plenty:
        R = _radius(
            first.R,
            opened[d] * _distance_scale(plan),
            float(moved @ moved) - D,
            D,
            R,
            su=sqrt(float(m @ m)) * t,
            sh=sd * _distance_scale(plan),
        )
    R = min(first.R if not plan.plenty else 1.0, R)
    return Centre(m, max(R, _LEAST_RADIUS), first.yb, centred=True)


def _distance_scale(plan: Plan) -> float:
    """Return what the mean of halvings is opened in, as halvings."""
    B = plan.second_mean
    return _SHORTEST * B / (2 * (B // 2))


def _radius(first: float, mean: float, moved: float, D: float, upper: float, *, su: float, sh: float) -> float:
    """Return R from two measures of it, each counted by its noise: both as logarithms to base 2.

    Parameters
    ----------
    first : float
        The R that the second sum was made with.
    mean : float
        The mean number of halvings, less 3.
    moved : float
        The squared distance between the two centres, without the noise's part.
    D : float
        The noise's part in a squared length.
    upper : float
        The radius by the bound 1 - |m|^2.
    su, sh : float
        The sds of the noise: of |m|^2/2, and of the mean number of halvings.
    """
    near = first**2 * 4.0 ** -(mean + 0.5 * _SHORTEST)
    lower = sqrt(max(near - moved, near / 16) + D)
    su = su / (upper**2 * log(2))
    weight = su**2 / (su**2 + sh**2)
    return float(2.0 ** (weight * log2(lower) + (1 - weight) * log2(upper)))


# --- B and C. Second moments, ridge, a first classifier ---------------------------------


def _cleaned(l0: _Floats, E: float) -> _Floats:
    """Return eigenvalues without the noise's: continuous, though an eigenvalue may lie near the edge E of the noise."""
    weight = np.clip(2 - l0 / E, 0, 1)
    pool = max(0.0, float((weight * np.minimum(l0, E)).sum() / max(weight.sum(), 1e-12)))
    above = np.maximum(l0, E)
    cleaned: _Floats = np.maximum(np.sqrt(above**2 - E * E), pool)
    return cleaned


@dataclass(frozen=True)
class Seen:
    """The estimates from second moments: eigenvalues l0, eigenvectors V, and the products b with the labels, noise sb.

    E is the edge of the noise on eigenvalues, l are those without the noise's part, and f is the ridge's 1/(l + ridge).
    """

    E: float
    l0: _Floats
    V: _Floats
    l: _Floats  # noqa: E741  the note's letter
    f: _Floats
    b: _Floats
    sb: float
    ym: _Floats

    @property
    def root(self) -> _Floats:
        """By what a coordinate along each eigenvector is divided, to be whitened."""
        roots: _Floats = np.sqrt(self.l + 0.75 * self.E)
        return roots


@dataclass(frozen=True)
class Whitened:
    """The whitening by the second moments: all of :class:`Point`, with A as eigenvectors and their divisors.

    Parameters
    ----------
    seen : Seen
    L, K, th, b0
        As :class:`Point` has them.
    unsure : bool
        Whether another machine may find other numbers: two eigenvalues that the rule treats differently are nearly
        equal.
    """

    seen: Seen
    L: float
    K: float
    th: _Floats
    b0: _Floats
    unsure: bool

    def numbers(self) -> _Floats:
        """Return what the others must know: A's upper triangle by rows, L, K, and the classifier."""
        V, root = self.seen.V, self.seen.root
        d, m = len(V), len(self.b0)
        numbers = np.empty(point_length(d, m))
        for rows in blocks(d):
            some = (V[rows] / root) @ V.T[:, rows.start :]
            for (row, place), of_row in zip(places(rows, d), some, strict=True):
                numbers[place] = of_row[row - rows.start :]
        numbers[d * (d + 1) // 2 :] = [self.L, self.K, *self.th.ravel(), *self.b0]
        return numbers


def _seen(plan: Plan, centre: Centre, opened: _Floats, labels: Labels | None) -> Seen:
    """Read the noisy second moments, and the sum of labels where there is one."""
    d, sd = plan.study.d, plan.noise_sd(plan.moments(centred=centre.centred) ** 2)
    G, b, ym = _parts(plan, centre, opened, sd)
    del opened  # the last that holds it; the matrix takes its place
    sb = sd * centre.h
    if labels is not None:
        ours, theirs = 1 / sb**2, 1 / labels.sd**2
        b, sb = (ours * b + theirs * labels.mean) / (ours + theirs), 1 / sqrt(ours + theirs)
    E = max(sd * sqrt(2 * d), _LEAST_EDGE)
    l0, V = _eigenvectors(G)
    del G
    l = _cleaned(l0, E)  # noqa: E741  the note's letter
    s = float(plan.strength)
    f = 1 / (l + min(2.0, max(1.0, s / 40)) * (1 if centre.centred else 0.5) * (E + sb * sqrt(d)))
    return Seen(E, l0, V, l, f, b, sb, ym)


def _eigenvectors(G: _Floats) -> tuple[_Floats, _Floats]:
    """Return the eigenvalues of a symmetric matrix, ascending, and its eigenvectors; a large matrix is overwritten.

    numpy takes room for four more matrices meanwhile, and scipy for one.
    """
    if len(G) <= SMALL:
        return np.linalg.eigh(G)
    values, vectors = eigh(G.T, overwrite_a=True, check_finite=False, driver="evr")
    return values, vectors


def whitened(plan: Plan, centre: Centre, opened: list[_Floats], labels: Labels | None = None) -> Whitened:
    """Steps B and C: from the noisy second moments, in units of B^2 and 1/N, to A and a first classifier.

    Parameters
    ----------
    plan : Plan
    centre : Centre
    opened : list of ndarray
        The second moments alone, which are taken out: once they are read, nobody holds them.
    labels : Labels, optional
    """
    d, s = plan.study.d, float(plan.strength)
    seen = _seen(plan, centre, opened.pop(), labels)
    E, l0, V, l = seen.E, seen.l0, seen.V, seen.l  # noqa: E741  the note's letter
    f, b, sb, ym = seen.f, seen.b, seen.sb, seen.ym
    g = V.T @ b
    c = f[:, None] * g
    inner = slice(None) if centre.centred else slice(-1)  # else the largest eigenvalue's direction is the mean
    sure = (c * g - f[:, None] * sb**2)[inner].sum(axis=0)
    size = sb * np.sqrt((c * c)[inner].sum(axis=0))  # the sd of sure
    den = (l[:, None] * c**2)[inner].sum(axis=0) + 1e-12
    al = np.clip((sure - (size if centre.centred else 0)) / den, 1, 3)  # undoes the shrinkage
    c[inner] *= al
    top = sqrt(max(l[-1], E))  # of data that are not centred: nearly all records' coordinate along the mean
    if not centre.centred:
        ym = _shrunk(g[-1] / top, sb / top, 0.9)
    v = 1 - ym**2
    # Gradients climb easily to a larger scale, but do not come down from one that is too large.
    limit = min(0.5, s / 80) if len(v) == 1 else min(0.85, max(0.6, s / 80))
    R2 = np.clip(al * (2 * (sure - 2 * size) - al * den) / v, 0, 0 if plan.weighs else limit)
    c = c / (v / 2 * (1 - R2))  # to the scale of log-odds
    p = (1 + ym) / 2
    b0 = np.log(p / (1 - p)) - (1 - 2 * p) / 2 * R2 / (v / 4 * (1 - R2))  # linear discriminant analysis
    if not centre.centred:
        c[-1], b0 = b0 / top, np.zeros(len(v))
    root = seen.root
    r = float((l / root**2).sum())
    unsure = not centre.centred and d > 1 and bool(l0[-1] - l0[-2] <= _LEAST_GAP * abs(l0[-1]))
    return Whitened(seen, 1.4 * sqrt(r), max(1.0, r / 8), V @ (root[:, None] * c), b0, unsure)


def _parts(plan: Plan, centre: Centre, opened: _Floats, sd: float) -> tuple[_Floats, _Floats, _Floats]:
    """Return G, b and ym of the opened numbers."""
    d, m = plan.study.d, plan.study.outputs
    pairs = d * (d - 1) // 2
    products, squares, vectors, last = np.split(opened, np.cumsum([pairs, d, d * m]))
    G = symmetric(products, d, squares)
    b = vectors.reshape(m, d).T * centre.h
    size = _label_size(plan) / sqrt(2)
    return G, b, _shrunk(last / size, sd / size, 0.95) if centre.centred else np.zeros(m)


# --- D. Steps -----------------------------------------------------------------------


def step(plan: Plan, point: Point, opened: _Floats) -> _Floats:
    """Step D: from the noisy sum of gradients, in units of C and 1/N, to the next classifier, as one vector."""
    d, m, T, K = plan.study.d, plan.study.outputs, plan.rounds, point.K
    r, spread = _spread(plan, point)
    w = _curvature(plan, point, r, spread)
    nu = (point.C * plan.noise_sd(plan.gradient) / w) ** 2 / T  # of all gradients together
    gain, gain1 = _gains(plan, nu, r, K)
    vectors, h, hb = np.split(point.C * opened, [d * m, d * m + m])
    gx, e = vectors.reshape(m, d).T, point.e
    along = (e * gx).sum(axis=0)
    both = (sqrt(K) * h + along) / (K + 1)
    th = point.th - (gain * (gx - along * e) + gain1 * both * e) / w
    b0 = point.b0
    if point.centred:
        b0 = np.clip(b0 - gain1 * hb / sqrt(K) / w, -6, 6)
    return np.append(th, b0)


@cache
def _quadrature() -> tuple[_Floats, _Floats]:
    """Return the nodes and weights of Gauss and Hermite, for means over a standard normal variable."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(15)
    return nodes, weights


def _curvature(plan: Plan, point: Point, r: float, spread: _Floats) -> _Floats:
    """Return the curvature w of each output's loss in whitened coordinates, for scores with a normal law."""
    nodes, weights = _quadrature()
    p = _logistic(point.b0 + np.outer(nodes, spread))
    om = np.ones_like(p)
    if plan.weighs:  # a record's weight, as in vectors.py, by how far it lies along e
        longest = np.sqrt(max(r, 1.0) - 1 + (1 + point.K) * nodes**2 + point.K)[:, None]
        om = np.minimum(1.0, point.C / (np.maximum(p, 1 - p) * longest))
    w, floor = (weights @ x / weights.sum() for x in (p * (1 - p) * om, om))
    curvature: _Floats = np.maximum(_LEAST_CURVATURE * floor, w)
    return curvature


def _spread(plan: Plan, point: Point) -> tuple[float, _Floats]:
    """Return how many directions are no noise, and the sd of the scores of each output."""
    d = plan.study.d
    E = max(plan.noise_sd(plan.moments(centred=point.centred) ** 2) * sqrt(2 * d), _LEAST_EDGE)
    r = max(0.0, d - 0.75 * E * float(np.vdot(point.A, point.A)))  # A is symmetric, so this is the trace of A^2
    twice = point.A @ (point.A @ point.th)
    return r, np.sqrt(np.maximum(0.0, (point.th * (point.th - 0.75 * E * twice)).sum(axis=0)))


def _gains(plan: Plan, nu: _Floats, r: float, K: float) -> tuple[_Floats, _Floats]:
    """Return the parts of a step that are worth its noise: of the step itself, and along e and of the offset.

    Where there is little to go by, a part is such that three quarters of the T steps together go as far as one step
    should that knows what all T sums tell.
    """
    if plan.plenty:
        V0 = 0.5 / max(1.0, r)
        return V0 / (V0 + 2 * nu), K / (K + 2 * nu)
    V0, power = float(plan.strength) / 20 / max(1.0, r), 1 / (0.75 * plan.rounds)
    return 1 - (nu / (V0 + nu)) ** power, 1 - (nu / (K + nu)) ** power


def classifier(plan: Plan, centre: Centre, point: Point, iterates: Sequence[_Floats]) -> _Floats:
    """Return the classifier, (d + 1) outputs numbers, and a grid for its scores: :class:`Scorer` reads them.

    It is the mean of the last T/2 iterates.
    """
    last = point.at(np.mean(iterates[-(len(iterates) // 2) :], axis=0))
    w = point.A @ last.th / centre.R
    middle, spread = _log_odds(last.b0[None, :])[0], _spread(plan, last)[1]
    if plan.study.outputs > 1:
        spread = spread * sqrt(2)  # of a difference
    return Scorer(w, last.b0 - centre.m @ w, middle, np.maximum(spread, _LEAST_SPREAD)).numbers()


# --- E. Slope and offset ------------------------------------------------------------


@dataclass(frozen=True)
class Scorer:
    """A classifier of records u, and a grid for its scores.

    Parameters
    ----------
    w : ndarray, shape (d, outputs)
    b : ndarray, shape (outputs,)
        A score is u.w + b.
    middle, spread : ndarray, shape (outputs,)
        The nodes lie around ``middle``, in units of ``spread``.
    """

    w: _Floats
    b: _Floats
    middle: _Floats
    spread: _Floats

    def numbers(self) -> _Floats:
        """Return what the others must know: weights on u for each output, offsets, and the grid."""
        return np.concatenate([self.w.T.ravel(), self.b, self.middle, self.spread])

    @classmethod
    def of(cls, numbers: _Floats, d: int, outputs: int) -> Self:
        """Read what :meth:`numbers` returns."""
        w, b, middle, spread = np.split(numbers, np.cumsum([d * outputs, outputs, outputs]))
        return cls(w.reshape(outputs, d).T, b, middle, np.maximum(spread, _LEAST_SPREAD))

    def log_odds(self, u: _Floats) -> _Floats:
        """Return for each row u the log-odds of each output; with one output, that is the score."""
        return _log_odds(u @ self.w + self.b)

    @property
    def nodes(self) -> _Floats:
        """The places at which log-odds are counted, shape (nodes, outputs)."""
        places: _Floats = self.middle + np.outer(_PLACES, self.spread)
        return places

    def released(self) -> _Floats:
        """Return the released classifier: for each output the weights on u; then the offsets."""
        return np.append(self.w.T, self.b)


def recalibrated(plan: Plan, scorer: Scorer, opened: _Floats) -> tuple[_Floats, float]:
    """Step E: from noisy counts, in units of B and 1/N, the released classifier (a w, a b + k) as one vector.

    The second number is the standard deviation of the noise on a, beside a.

    A record counts at the two nodes around its log-odds t, under its label. Of the records at a node, a fraction of
    1/(1 + exp(-(a t + k))) should have the label +1. a and k make the counts fit best, with their noise.
    """
    m = plan.study.outputs
    scale = plan.N * sqrt(m)
    counts, sd = opened.reshape(m, 2, NODES) * scale, plan.noise_sd(plan.counts) * scale
    counts = counts + (plan.N - counts.sum(axis=(1, 2), keepdims=True)) / (2 * NODES)
    t = scorer.nodes.T
    _, k, z2, sa = _fitted(t, counts, sd)
    sure = 4 * (1 + log(m)) * max(1.0, (_MANY_TOLD / float(plan.told)) ** 2)  # one of m offsets stands out by chance
    kept = np.maximum(0.0, 1 - sure / np.maximum(z2, _TINY))
    a, k, _, _ = _fitted(t, counts, sd, kept * k)
    return replace(scorer, w=a * scorer.w, b=a * scorer.b + k).released(), sa / a


def _fitted(t: _Floats, counts: _Floats, sd: float, k: _Floats | None = None) -> tuple[float, _Floats, _Floats, float]:
    """Fit a slope a, and offsets k unless they are given; returns a, k, (k over its sd)^2, and the noise's sd on a.

    A node's hits are the noisy number of its records with the label +1, and n that of all its records. Its weight is
    the part of the variance of (hits - p n) that is not noise: so a node counts as much as it tells. The weight takes
    n as it is for scores with a normal law: noise in the weights, too, would flatten the slope.

    Parameters
    ----------
    t : ndarray, shape (outputs, nodes)
    counts : ndarray, shape (outputs, 2, nodes)
        Of the label +1, and of the other.
    sd : float
        Of a count.
    k : ndarray, shape (outputs,), optional
    """
    hits, n = counts[:, 0], counts.sum(axis=1)
    expected = n.sum(axis=1, keepdims=True) * _MASSES
    size, free = len(t), k is None
    J = np.zeros((1 + size, *t.shape))  # of a t + k, by a and each k
    J[0] = t
    J[range(1, 1 + size), range(size)] = free
    prior = np.append(_SLOPE_SD, np.full(size, _OFFSET_SD)) ** -2.0
    middle = np.append(1.0, np.zeros(size) if k is None else k)
    found, H, p, weight = middle, np.diag(prior), np.zeros_like(t), np.zeros_like(t)
    for _ in range(2):  # with the weights of a = 1, and with those of what was found
        p = _logistic(np.tensordot(found, J, 1) + (0 if free else middle[1:, None]))
        told = expected * np.maximum(p * (1 - p), 1e-12)
        weight = told / (sd**2 * ((1 - p) ** 2 + p**2) + told + _TINY)
        turn, first = 0, {found.tobytes(): 0}
        while turn < _TURNS:
            p = _logistic(np.tensordot(found, J, 1) + (0 if free else middle[1:, None]))
            g = np.einsum("aoj,oj->a", J, weight * (hits - p * n)) - prior * (found - middle)
            curvature = weight * np.maximum(n, 0) * p * (1 - p)  # n may be below 0; then the steps are shorter
            H = np.einsum("aoj,oj,boj->ab", J, curvature, J) + np.diag(prior)
            step = np.linalg.solve(H, g)
            found = found + step / (1 + float(np.abs(np.tensordot(step, J, 1)).max()))
            turn += 1
            # Once a turn ends where one before it did, they repeat themselves: whole repetitions are left out.
            if period := turn - first.setdefault(found.tobytes(), turn):
                turn = _TURNS - (_TURNS - turn) % period
    inverse = np.linalg.inv(H)
    moved = np.tensordot(inverse[0], J, 1) * weight  # of a, by each difference of hits and expectation
    sa = float(np.sqrt((moved**2 * sd**2 * ((1 - p) ** 2 + p**2)).sum()))
    return float(max(found[0], _LEAST_SLOPE)), found[1:], found[1:] ** 2 / np.diag(inverse)[1:], sa


# --- F. The noise on the weights ----------------------------------------------------


def weight_noise(
    plan: Plan,
    centre: Centre,
    seen: Seen,
    points: Sequence[Point],
    found: tuple[Scorer, _Floats, float],
) -> _Floats:
    """Return the standard deviation of the noise on each released weight, with two classes; shape (d,).

    The noise of each sum is carried through the steps that follow it, as redraws of all noise around the opened sums
    would show it if the steps were linear. Along each eigenvector of the second moments, the noise of the first
    classifier and of each gradient shrinks from step to step: by the part of a step that goes back to where it came
    from. That part is the gain, times what the records' own spread has in that direction.

    Parameters
    ----------
    plan : Plan
    centre : Centre
    seen : Seen
        Of :func:`whitened`.
    points : sequence of Point
        Where each gradient was taken.
    found : tuple
        The classifier without slope and offset, the released numbers, and the noise on the slope beside the slope.
    """
    T, d = plan.rounds, plan.study.d
    own = np.sqrt(np.maximum(seen.l0, seen.E) ** 2 - seen.E**2) / seen.root**2  # the records' part of the spread
    # Along the eigenvectors the first classifier is root f b, on a scale that its noise is on as well.
    ridge, th = seen.root * seen.f, (seen.V.T @ points[0].th)[:, 0]
    base = ridge * (seen.V.T @ seen.b)[:, 0]
    scale = float(base @ th) / max(float(base @ base), _TINY)
    sources, mean = np.zeros((1 + T, d)), np.zeros((1 + T, d))
    sources[0] = ridge * seen.sb * scale
    for t, point in enumerate(points):
        r, spread = _spread(plan, point)
        one = point.C * plan.noise_sd(plan.gradient) / _curvature(plan, point, r, spread)
        gain, _ = _gains(plan, one**2 / T, r, point.K)
        sources *= 1 - gain * own
        sources[1 + t] = gain * one
        mean += sources / (T // 2) * (t >= T - T // 2)
    squared, A = (mean**2).sum(axis=0), points[0].A
    variances = np.concatenate([(A[rows] @ seen.V / centre.R) ** 2 @ squared for rows in blocks(d)])
    scorer, released, of_slope = found
    w = scorer.w[:, 0]
    a = float(released[:d] @ w) / max(float(w @ w), _TINY)
    noise: _Floats = np.sqrt(a * a * variances + (of_slope * released[:d]) ** 2)
    return noise


def _log_odds(scores: _Floats) -> _Floats:
    """Return the log-odds of each output against all others, of each row by itself."""
    if scores.shape[1] == 1:
        return scores
    scores = scores - scores.max(axis=1, keepdims=True)
    powers = same_time.exp(scores)
    others = np.maximum(powers.sum(axis=1, keepdims=True) - powers, _TINY)
    odds: _Floats = scores - same_time.log(others)
    return odds


def _logistic(x: _Floats) -> _Floats:
    """Return 1/(1 + exp(-x)); a large -x, whose exponential no float holds, gives 0."""
    with np.errstate(over="ignore"):
        chances: _Floats = 1 / (1 + same_time.exp(-x))
    return chances


def _softmax(scores: _Floats) -> _Floats:
    """Return the chance of each output, of each row by itself."""
    powers = same_time.exp(scores - scores.max(axis=1, keepdims=True))
    chances: _Floats = powers / powers.sum(axis=1, keepdims=True)
    return chances
