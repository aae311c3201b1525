"""Estimates from opened sums alone: where the columns lie, the whitened coordinates, the steps, and the intervals.

Everybody computes it, and Charlie's result is the one that counts: each function returns numbers that he rounds to a
grid and sends (:mod:`masquerade_protocols.blocks.adaptive_sums`). Nothing here looks at records. So all of it may
depend on the sums as it likes, and on the noise that is there.

d coefficients belong to x = (1, W z), where z = (u - m)/s is a record in standardised columns, and W whitens them: the
coordinates of x have nearly no correlation and spread 1 where the noise lets that be seen.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, sqrt
from typing import Self

import numpy as np
from numpy.typing import NDArray

from masquerade_core import same_time
from masquerade_protocols.dp_glm.public import BREADS, MEAT, RESIDUALS, SCORES, SHARE, SQUARES, Plan

__all__ = [
    "Design",
    "Fit",
    "Located",
    "Location",
    "Point",
    "Step",
    "fitted",
    "located",
    "logistic",
    "next_point",
    "opened_step",
    "spread_out",
    "whitened",
]

_Floats = NDArray[np.float64]

_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(61)  # Gauss-Hermite: means over a standard normal variable
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()
_LONGEST_MOVE = 2.5
_PILOT = 3.0  # the longest pilot: the spread of its scores
_LARGEST = 2.0**29
_TINY = 1e-12
_LEAST_RESIDUAL = 1e-4  # of the label's variance
_RARE = 1e-3  # a share of labels that is nearer to 0 or 1 counts as this one
_COMMON = 0.08  # a label's variance, or a mean curvature, from which labels are common
_NEAR = 2.0**-20  # of an eigenvalue: so near to where the rule changes, another machine may decide otherwise


def logistic(x: _Floats) -> _Floats:
    """Return 1/(1 + exp(-x)); a large -x, whose exponential no float holds, gives 0."""
    with np.errstate(over="ignore"):
        chances: _Floats = 1 / (1 + same_time.exp(-x))
    return chances


def _sent(numbers: _Floats) -> _Floats:
    """Return numbers that a message holds: where all labels are equal, or all records, a step may be of any length."""
    return np.clip(np.nan_to_num(numbers, nan=_LARGEST), -_LARGEST, _LARGEST)


def _mean_over_normal(values: _Floats) -> float:
    return float(_WEIGHTS @ values)


# --- Location ----------------------------------------------------------------------


@dataclass(frozen=True)
class Location:
    """The estimate from the first sum: the interval m - r to m + r in which the second one looks at numbers.

    Parameters
    ----------
    m, r : ndarray, shape (numbers,)
        With a linear model, the label is the last number.
    levels : ndarray, shape (levels,)
        The shares of records with each level.
    yb : float
        The share of positive labels; 0 with a linear model.
    """

    m: _Floats
    r: _Floats
    levels: _Floats
    yb: float

    def numbers(self) -> _Floats:
        """Return all of it as one vector."""
        return np.concatenate([self.m, self.r, self.levels, [self.yb]])

    @classmethod
    def of(cls, numbers: _Floats, plan: Plan) -> Self:
        """Read what :meth:`numbers` returns."""
        k = len(plan.columns.numbers) + plan.linear
        return cls(numbers[:k], numbers[k : 2 * k], numbers[2 * k : -1], float(numbers[-1]))


def located(plan: Plan, opened: _Floats) -> Location:
    """Return what the first sum tells: from means of u, of y and of u^2, in units of 1/N."""
    columns, sd = plan.columns, plan.sd("location")
    p = columns.p
    means, squares = opened[: p + 1] * sqrt(SQUARES), opened[p + 1 :]
    m = np.clip(means[_numbers(plan)], -1, 1)
    s = np.sqrt(np.maximum(squares - m * m, 0) + sd)
    yb = 0.0 if plan.linear else float(np.clip(means[p], _RARE, 1 - _RARE))
    return Location(m, np.minimum(1 + np.abs(m), 5 * s), means[list(columns.levels)], yb)


def _numbers(plan: Plan) -> list[int]:
    """Return the places of numbers among the columns and the label, which comes last."""
    return [*plan.columns.numbers, *([plan.columns.p] if plan.linear else [])]


@dataclass(frozen=True)
class Located:
    """The columns' means and spreads, shape (p,) each, and the label's; its spread is 1 where it has two values."""

    m: _Floats
    s: _Floats
    yb: float
    sy: float = 1.0

    def numbers(self) -> _Floats:
        """Return all of it as one vector."""
        return np.concatenate([self.m, self.s, [self.yb, self.sy]])

    @classmethod
    def of(cls, numbers: _Floats, plan: Plan) -> Self:
        """Read what :meth:`numbers` returns."""
        p = plan.columns.p
        return cls(numbers[:p], numbers[p : 2 * p], float(numbers[-2]), float(numbers[-1]))


def spread_out(plan: Plan, first: Location, opened: _Floats) -> Located:
    """Return the columns' means and spreads, from both sums."""
    columns, sd = plan.columns, plan.sd("spread")
    p, numbers, levels = columns.p, _numbers(plan), list(columns.levels)
    means, squares = np.split(opened, [p + plan.linear])
    means = means * sqrt(SQUARES)
    m, s = np.zeros(p + plan.linear), np.zeros(p + plan.linear)
    v = np.clip(means[numbers], -1, 1)
    m[numbers] = np.clip(first.m + first.r * v, -1, 1)
    s[numbers] = first.r * np.sqrt(np.maximum(squares - v * v, 0) + 0.5 * sd)
    ours, theirs = 1 / (sd * sd), 1 / plan.sd("location") ** 2
    share = np.clip((ours * means[levels] + theirs * first.levels) / (ours + theirs), 0, 1)
    m[levels] = share
    s[levels] = np.sqrt(np.maximum(share * (1 - share), sqrt(SQUARES) / sqrt(ours + theirs)))
    return Located(m[:p], s[:p], float(m[p]), float(s[p])) if plan.linear else Located(m, s, first.yb)


# --- Whitened coordinates ----------------------------------------------------------


@dataclass(frozen=True)
class Design:
    """The coordinates x = (1, W z), z = (u - m)/s, with W of shape (p, p), symmetric; and (y - yb)/sy of a number y."""

    m: _Floats
    s: _Floats
    W: _Floats
    yb: float = 0.0
    sy: float = 1.0

    def x(self, u: _Floats) -> _Floats:
        """Return records in these coordinates, shape (n, d)."""
        rows = np.ones((len(u), len(self.m) + 1))
        rows[:, 1:] = ((u - self.m) / self.s) @ self.W
        return rows


@dataclass(frozen=True)
class Point:
    """The coefficients theta at which a step's sum is taken, and the bounds of a record's part in it.

    Parameters
    ----------
    theta : ndarray, shape (d,)
    C, CH : float
        The longest score, and the largest part of the Hessian.
    K : float or None
        The largest residual of a linear model, in standard deviations of the label; None where it is logistic.
    unsure : bool
        Whether another machine may find another point.
    """

    theta: _Floats
    C: float
    CH: float
    K: float | None = None
    unsure: bool = False

    def numbers(self) -> _Floats:
        """Return all of it as one vector."""
        return _sent(np.append(self.theta, [self.C, self.CH, 0.0 if self.K is None else self.K]))

    @classmethod
    def of(cls, numbers: _Floats, plan: Plan) -> Self:
        """Read what :meth:`numbers` returns."""
        C, CH, K = numbers[-3:].tolist()
        return cls(numbers[:-3], C, CH, K if plan.linear else None)

    @classmethod
    def at(cls, theta: _Floats, c: float, ch: float, K: float | None = None, *, unsure: bool = False) -> Self:
        """Return the point with C = c sqrt(d) and CH = ch d times the mean curvature."""
        d = len(theta)
        return cls(theta, c * sqrt(d), ch * d * (_wbar(theta) if K is None else 1.0), K, unsure)

    @property
    def wbar(self) -> float:
        """The mean of p (1 - p), if x is normal; 1 for a linear model."""
        return _wbar(self.theta) if self.K is None else 1.0


def _spread(theta: _Floats) -> float:
    return sqrt(float(theta[1:] @ theta[1:]))


def _wbar(theta: _Floats) -> float:
    p = logistic(theta[0] + _spread(theta) * _NODES)
    return max(_mean_over_normal(p * (1 - p)), _RARE / 10)


def whitened(plan: Plan, place: Located, opened: _Floats) -> tuple[_Floats, Point]:
    """Return W, and a first point, from the noisy moments: ridge regression, brought to the scale of log-odds."""
    p, sd = plan.columns.p, plan.sd("moments")
    R2, h, yb = 2.25 * p, 3.0 if plan.linear else max(place.yb, 1 - place.yb), place.yb
    pairs = p * (p - 1) // 2
    G = _symmetric(opened[:pairs], opened[pairs : pairs + p]) * R2
    b, sb = opened[pairs + p : pairs + 2 * p] * sqrt(R2) * h, sd * sqrt(R2) * h
    E = sd * R2 * sqrt(2 * p)
    l0, V = np.linalg.eigh(G)
    l = _cleaned(l0, E)  # noqa: E741  the note's letter
    root = np.sqrt(l + 0.5 * E)
    W = (V / root) @ V.T
    g = V.T @ b
    beta = g / (l + E + sb * sqrt(p))
    if plan.linear:
        residual = float(opened[-1]) * h * h - float(beta @ g)  # a mean square
        K = 3 * sqrt(max(residual, _LEAST_RESIDUAL, sd * h * h))
        return W, Point.at(np.append(0.0, V @ (root * beta)), 1.2, 1.2**2, K)
    v = yb * (1 - yb)
    explained = min(0.7, max(0.0, float(beta @ g)) / v)
    slopes = V @ (root * beta) / (v * (1 - explained))
    length = sqrt(float(slopes @ slopes))
    # Where labels are rare, noise makes slopes much too long, and three steps hardly mend that. Its part is known.
    rare = min(1.0, max(0.0, 2 - 2 * v / _COMMON))
    noise = rare * p * (sb / v) ** 2
    kept = min(length, _PILOT)
    kept *= max(0.0, 1 - noise / max(kept * kept, _TINY))
    theta = np.append(_intercept(kept, yb), slopes * (kept / max(length, _TINY)))
    return W, Point.at(theta, 1.0, 1.6)


def _cleaned(l0: _Floats, E: float) -> _Floats:
    """Return eigenvalues without the noise's: continuous, though an eigenvalue may lie near the edge E of the noise."""
    weight = np.clip(2 - l0 / E, 0, 1)
    pool = max(0.0, float((weight * np.minimum(l0, E)).sum() / max(weight.sum(), 1e-12)))
    above = np.maximum(l0, E)
    cleaned: _Floats = np.maximum(np.sqrt(above**2 - E * E), pool)
    return cleaned


def _intercept(spread: float, yb: float) -> float:
    """Return b with E logistic(b + spread Z) = yb, Z standard normal."""
    low, high = -20.0, 20.0
    for _ in range(60):
        b = (low + high) / 2
        low, high = (b, high) if _mean_over_normal(logistic(b + spread * _NODES)) < yb else (low, b)
    return (low + high) / 2


def _symmetric(products: _Floats, diagonal: _Floats) -> _Floats:
    d = len(diagonal)
    M = np.zeros((d, d))
    M[np.triu_indices(d, 1)] = products
    return M + M.T + np.diag(diagonal)


# --- Steps -------------------------------------------------------------------------


@dataclass(frozen=True)
class Step:
    """The estimates from a step's sum, at its point.

    Parameters
    ----------
    point : Point
    step : ndarray, shape (d,)
        Newton's step from it.
    H, M : ndarray, shape (d, d)
        The Hessian, and the mean of squared scores.
    sd, sd_h, sd_m : float
        The sds of the noise on the score, on H and on M; half the variance off their diagonals.
    Hi : ndarray, shape (d, d)
        The inverse of H, without the weak directions.
    weak : ndarray, shape (d, weak)
        The directions of H that the noise hides.
    counts : ndarray
        The counts that came along, in units of 1/N.
    unsure : bool
        Whether another machine may find other weak directions.
    """

    point: Point
    step: _Floats
    H: _Floats
    M: _Floats
    sd: float
    sd_h: float
    sd_m: float
    Hi: _Floats
    weak: _Floats
    counts: _Floats
    unsure: bool

    @property
    def theta(self) -> _Floats:
        """The point's coefficients."""
        return self.point.theta

    @property
    def noise(self) -> _Floats:
        """The covariance of the noise on theta + step."""
        v, d = self.step, len(self.step)
        inner = (self.sd**2 + self.sd_h**2 / 2 * float(v @ v)) * np.eye(d) + self.sd_h**2 / 2 * np.outer(v, v)
        covariance: _Floats = self.Hi @ inner @ self.Hi
        return covariance

    @property
    def remainder(self) -> _Floats:
        """Newton's second-order remainder at this step, if x is normal; a linear model has none."""
        if self.point.K is not None:
            return np.zeros(len(self.step))
        theta, v, spread = self.theta, self.step, _spread(self.theta)
        e = theta[1:] / spread if spread > 0 else np.zeros(len(theta) - 1)
        along = float(e @ v[1:])
        across = v[1:] - along * e
        p = logistic(theta[0] + spread * _NODES)
        curve = _WEIGHTS * p * (1 - p) * (1 - 2 * p)
        q = v[0] + along * _NODES
        squares = curve * (q * q + float(across @ across))
        g = np.append(squares.sum(), (squares @ _NODES) * e + 2 * (curve @ q) * across)
        remainder: _Floats = self.Hi @ g / 2
        return remainder

    @property
    def moved(self) -> _Floats:
        """Theta after the step, which is shortened by what is noise in it."""
        squared = float(self.step @ self.step)
        part = max(0.0, 1 - float(np.trace(self.noise)) / squared) if squared > 0 else 0.0
        move = part * self.step
        length = sqrt(float(move @ move))
        theta: _Floats = self.theta + move * min(1.0, _LONGEST_MOVE / max(length, _TINY))
        return theta


def opened_step(plan: Plan, label: str, point: Point, opened: _Floats) -> Step:
    """Read the opened sum of a step, in units of 1/N."""
    d, sd = plan.d, plan.sd(label)
    pairs = d * (d - 1) // 2
    hessian, meat, g, hessian2, meat2, counts = np.split(opened, np.cumsum([pairs, pairs, d, d, d]))
    H, sd_h = _symmetric(hessian, hessian2) * point.CH, sd * point.CH
    score = point.C * (point.K or 1.0)
    unit = score**2 / sqrt(MEAT)
    M, sd_m = _symmetric(meat, meat2) * unit, sd * unit
    E = sd_h * sqrt(2 * d)
    l, V = np.linalg.eigh(H)  # noqa: E741  the note's letter
    kept = l > E
    Hi = (V[:, kept] / l[kept]) @ V[:, kept].T
    unsure = bool((np.abs(l - E) <= _NEAR * E).any())
    return Step(point, Hi @ g * score, H, M, sd * score, sd_h, sd_m, Hi, V[:, ~kept], counts, unsure)


def next_point(plan: Plan, step: Step, before: Point | None = None) -> Point:
    """Return the point of the next step.

    Parameters
    ----------
    plan : Plan
    step : Step
    before : Point or None
        The point before, whose bounds in units of sqrt(d) and of the mean curvature are kept; None after the first
        step, whose histograms choose them.
    """
    d, theta = plan.d, step.moved
    if before is not None:
        return Point.at(theta, before.C / sqrt(d), before.CH / (d * before.wbar), before.K, unsure=step.unsure)
    sd, counts, K = 2 * plan.sd("step 1"), 2 * step.counts, step.point.K
    cap = 0.2 * plan.N * plan.mu * sqrt(0.48) / (d**1.5 * sqrt(10))
    # Where labels are rare, scores tell less beside their noise. So more records may count less than 1.
    more = 1.0 if K is not None else max(1.0, _COMMON / _wbar(theta))
    c, unsure = _cut_at(counts[: len(SCORES)], SCORES, sd, more=more)
    if K is None:
        ch, _ = _cut_at(counts[len(SCORES) :], BREADS, sd)
    else:
        factor, _ = _cut_at(counts[len(SCORES) : -1], RESIDUALS, sd, least=0.005)
        ch, K = c * c, K / 3 * factor
    return Point.at(theta, c, max(1.0, min(ch, cap)), K, unsure=step.unsure or (unsure and more > 1))


def _cut_at(
    counts: _Floats, edges: Sequence[float], sd: float, least: float = 0.003, more: float = 1.0
) -> tuple[float, bool]:
    """Return the least edge that few records lie above, as far as the noise lets that be seen; else the last one.

    Also return whether the count above some edge is as large as what is few, or nearly so.
    """
    near = False
    for i, edge in enumerate(edges):
        above, few = counts[i:].sum(), more * max(least, 2 * sd) * sqrt(len(edges) - i)
        near = near or abs(above - few) <= _NEAR * few
        if above <= few:
            return edge, near
    return edges[-1], near


# --- Estimates ---------------------------------------------------------------------


@dataclass(frozen=True)
class Fit:
    """The result in standardised columns, whose coefficients are those of (1, z).

    Parameters
    ----------
    beta : ndarray, shape (d,)
    V, Vs : ndarray, shape (d, d)
        The covariance matrix of beta, and the part of it that is there without noise.
    move : ndarray, shape (d,)
        How far the last step moved each coefficient.
    last_step : float
        The length of the last step, in whitened coordinates.
    longest : float
        The length of the slopes there, the spread of the linear predictor, and two standard errors more.
    weighted_down, beyond : float
        The share of records that counted less than 1, and of residuals that were cut; 0 with a logistic model.
    weak : int
        How many directions the noise hides.
    unsure : bool
        Whether another machine may find another result.
    """

    beta: _Floats
    V: _Floats
    Vs: _Floats
    move: _Floats
    last_step: float
    longest: float
    weighted_down: float
    beyond: float
    weak: int
    unsure: bool = False

    def numbers(self, N: int) -> _Floats:
        """Return all of it as one vector, variances in units of 1/N."""
        upper = np.triu_indices(len(self.beta))
        return _sent(np.concatenate([
            self.beta, self.move, N * self.V[upper], N * self.Vs[upper],
            [self.last_step, self.longest, self.weighted_down, self.beyond, self.weak],
        ]))  # fmt: skip

    @classmethod
    def of(cls, numbers: _Floats, N: int, d: int) -> Self:
        """Read what :meth:`numbers` returns."""
        size = d * (d + 1) // 2
        beta, move, V, Vs, rest = np.split(numbers, np.cumsum([d, d, size, size]))

        def full(upper: _Floats) -> _Floats:
            M = np.zeros((d, d))
            M[np.triu_indices(d)] = upper / N
            return M + np.triu(M, 1).T

        last_step, longest, weighted_down, beyond, weak = rest.tolist()
        return cls(beta, full(V), full(Vs), move, last_step, longest, weighted_down, beyond, round(weak))


def fitted(plan: Plan, W: _Floats, second: Step, third: Step) -> Fit:
    """Return the estimates and their covariances, from the last two steps."""
    d = plan.d
    parts = [(1.0, third)]
    if not second.weak.shape[1] and not third.weak.shape[1]:
        precisions = [1 / float(np.trace(each.noise)) for each in (second, third)]
        parts = [
            (precision / sum(precisions), each) for precision, each in zip(precisions, (second, third), strict=True)
        ]
    theta = sum((share * (each.theta + each.step) for share, each in parts), np.zeros(d))
    Vn = sum((share**2 * each.noise for share, each in parts), np.zeros((d, d)))
    Vn = Vn + sum((share * 2.25 * np.outer(each.remainder, each.remainder) for share, each in parts), np.zeros((d, d)))
    H, M, sd_m = third.H, third.M, third.sd_m
    change = third.theta - second.theta
    if float(change @ change) < 0.25:  # noqa: PLR2004
        H, _ = _weighed(second.H, third.H, second.sd_h, third.sd_h)
        M, sd_m = _weighed(second.M, third.M, second.sd_m, third.sd_m)
    Hi, strong = _inverse_beside(H, third.weak)
    beyond, squared = _residuals(plan, second, third)
    strong = strong * squared
    l, V = np.linalg.eigh(M)  # noqa: E741  the note's letter
    M = (V * np.maximum(l, 0)) @ V.T
    a = 1 / (1 + (2 * sd_m * sqrt(2 * d) * d / max(squared * float(np.trace(H)), _TINY)) ** 2)
    Vs = Hi @ (a * M + (1 - a) * strong) @ Hi / plan.N
    V = Vn + Vs
    if third.point.K is not None:
        V[0, 0] += (beyond * third.point.K / 3) ** 2  # residuals that are cut on one side more than on the other
    # Selection: where longer slopes are not told, those that are told were taken for too short more often than not.
    length = max(_spread(theta), _TINY)
    along = np.append(0.0, theta[1:]) / length
    se = sqrt(max(float(along @ V @ along), _TINY))
    longest = length + 2 * se
    if not plan.linear:
        V = V + 8 * exp(min(0.0, (longest - plan.longest) / se)) * se**2 * np.outer(theta, theta) / length**2
    V = V + 25 * third.weak @ third.weak.T
    # Back to the coefficients of (1, z): beta = J theta.
    J = np.zeros((d, d))
    J[0, 0], J[1:, 1:] = 1, W
    return Fit(
        beta=J @ theta,
        V=J @ V @ J,
        Vs=J @ Vs @ J,
        move=J @ third.step,
        last_step=sqrt(float(third.step @ third.step)),
        longest=longest,
        weighted_down=float(np.clip(third.counts[0] / sqrt(SHARE), 0, 1)),
        beyond=beyond,
        weak=third.weak.shape[1],
        unsure=second.unsure or third.unsure,
    )


def _residuals(plan: Plan, second: Step, third: Step) -> tuple[float, float]:
    """Return the share of residuals that were cut, and the mean square of all, cut; 0 and 1 with a logistic model."""
    K = third.point.K
    if K is None:
        return 0.0, 1.0
    beyond = float(np.clip(third.counts[2] / sqrt(SHARE), 0, 1))
    squares, sd = _weighed(second.counts[1:2], third.counts[1:2], plan.sd("step 2"), plan.sd("step 3"))
    return beyond, K * K * max(float(squares[0]), sd) / sqrt(SHARE)


def _weighed(a: _Floats, b: _Floats, sd_a: float, sd_b: float) -> tuple[_Floats, float]:
    """Return the mean of two noisy matrices by precision, and the sd of its noise."""
    ours, theirs = 1 / sd_a**2, 1 / sd_b**2
    return (ours * a + theirs * b) / (ours + theirs), 1 / sqrt(ours + theirs)


def _inverse_beside(H: _Floats, weak: _Floats) -> tuple[_Floats, _Floats]:
    """Return the inverse of H on the directions that are not weak, and H there."""
    beside = np.eye(len(H)) - weak @ weak.T
    H = beside @ H @ beside
    l, V = np.linalg.eigh(H)  # noqa: E741  the note's letter
    kept = np.argsort(np.abs(l))[weak.shape[1] :]
    kept = kept[l[kept] > 0]
    return (V[:, kept] / l[kept]) @ V[:, kept].T, H
