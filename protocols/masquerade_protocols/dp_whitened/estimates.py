"""What follows from opened sums alone: the centre, the whitened coordinates, the steps, and the classifier.

Everybody computes it, and Charlie's result is the one that counts: each function returns numbers that he rounds to a
grid and sends (:mod:`masquerade_protocols.dp_whitened.points`). Nothing here looks at records. So all of it may depend
on the sums as it likes, and on the noise: ``sd`` is the standard deviation of the noise that is there.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import log, sqrt
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from masquerade_protocols.dp_whitened.public import Plan

__all__ = ["Centre", "Point", "classifier", "first_centre", "second_centre", "step", "whitened"]

_Floats = NDArray[np.float64]

_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(15)  # Gauss-Hermite: means over a standard normal variable
_LEAST_RADIUS = 2.0**-10  # of R, so that nothing is divided by zero where all records are equal
_LEAST_EDGE = 1e-6  # of E: the entries of A stay below 1,200
_LEAST_GAP = 2.0**-20  # between the two largest eigenvalues, where the largest is treated in a way of its own
_LEAST_CURVATURE = 0.03  # of w


@dataclass(frozen=True)
class Centre:
    """Where the records lie: m, and the radius R around it.

    Parameters
    ----------
    m : ndarray, shape (d,)
    R : float
        Greater than 0.
    yb : float
        The mean of the labels, shrunk; between -0.9 and 0.9.
    centred : bool
        Whether the classifier has an offset of its own. Otherwise m = 0, R = 1 and yb = 0.
    """

    m: _Floats
    R: float
    yb: float
    centred: bool

    def numbers(self) -> _Floats:
        """Return what the others must know: m, R and yb, shape (d + 2,)."""
        return np.concatenate([self.m, [self.R, self.yb]])

    @classmethod
    def of(cls, numbers: _Floats) -> Self:
        """Read what :meth:`numbers` returns."""
        return cls(numbers[:-2], float(numbers[-2]), float(numbers[-1]), centred=True)

    def normalized(self, u: _Floats) -> _Floats:
        """Return z = cut(u - m, R)/R for each row u."""
        z = (u - self.m) / self.R
        norms = np.sqrt((z * z).sum(axis=1))
        rows: _Floats = z / np.maximum(norms, 1.0)[:, None]
        return rows


@dataclass(frozen=True)
class Point:
    """The whitened coordinates, and the classifier in them at which gradients are taken.

    Parameters
    ----------
    A : ndarray, shape (d, d)
        Symmetric: x = A z, cut to length L.
    L, K : float
        L is the longest x. sqrt(K) is how much better than other directions the noisy sums tell the classifier's length
        and its offset.
    th : ndarray, shape (d,)
    b0 : float
    centred : bool
        Whether the offset b0 is learned; otherwise it is 0.
    unsure : bool
        Whether another machine may find another point: two eigenvalues that the rule treats differently are nearly
        equal.
    """

    A: _Floats
    L: float
    K: float
    th: _Floats
    b0: float
    centred: bool
    unsure: bool = False

    def numbers(self) -> _Floats:
        """Return what the others must know: A's upper triangle by rows, L, K, th and b0."""
        return np.concatenate([self.A[np.triu(np.ones_like(self.A, dtype=bool))], [self.L, self.K], self.classifier()])

    def classifier(self) -> _Floats:
        """Return th and b0, shape (d + 1,)."""
        return np.append(self.th, self.b0)

    @classmethod
    def of(cls, numbers: _Floats, d: int, *, centred: bool) -> Self:
        """Read what :meth:`numbers` returns."""
        A, upper = np.zeros((d, d)), np.triu(np.ones((d, d), dtype=bool))
        A[upper] = numbers[: d * (d + 1) // 2]
        A = A + np.triu(A, 1).T
        (L, K), th = numbers[-d - 3 : -d - 1], numbers[-d - 1 : -1]
        return cls(A, float(L), float(K), th, float(numbers[-1]), centred)

    def at(self, classifier: _Floats) -> Self:
        """Return the same coordinates with another classifier, as :meth:`classifier` returns it."""
        return replace(self, th=classifier[:-1], b0=float(classifier[-1]))

    sigmoid = staticmethod(expit)

    @property
    def C(self) -> float:  # noqa: N802
        """The longest contribution of a record to a gradient."""
        return 0.35 * sqrt(self.L**2 + (1 + self.centred) * self.K)

    @property
    def e(self) -> _Floats:
        """th/|th|, or 0 where th is 0."""
        length = float(np.sqrt(self.th @ self.th))
        return self.th / length if length > 0 else self.th


def _clip(x: float, low: float, high: float) -> float:
    return min(high, max(low, x))


# --- A. The centre ------------------------------------------------------------------


def first_centre(plan: Plan, opened: _Floats) -> Centre:
    """Step A1: m, yb and R from the noisy sum of (u, y/2), in units of 1/N; ``opened`` has shape (d + 1,)."""
    t = plan.noise_sd(plan.first_mean)
    m, yb, D = opened[:-1], 2 * opened[-1], plan.study.d * t * t
    n = float(m @ m)
    k = max(0.0, 1 - D / n) if n > 0 else 0.0  # James and Stein
    R = min(1.0, sqrt(max(0.0, 1 - max(0.0, n - D)) + k * D))  # the mean of |u - m|^2 is at most 1 - |mean of u|^2
    yb = _clip(yb * 0.25 / (0.25 + (2 * t) ** 2), -0.9, 0.9)
    return Centre(k * m, max(R, _LEAST_RADIUS), yb, centred=True)


def second_centre(plan: Plan, first: Centre, opened: _Floats) -> Centre:
    """Step A2: a better m and R from the noisy sum of cut(u - m, R)/R; ``opened`` has shape (d,)."""
    t = first.R * plan.noise_sd(plan.second_mean)
    m, D = first.m + first.R * opened, plan.study.d * t * t
    R = min(first.R, sqrt(max(0.0, 1 - max(0.0, float(m @ m) - D)) + D))
    return Centre(m, max(R, _LEAST_RADIUS), first.yb, centred=True)


# --- B and C. Second moments, ridge, a first classifier ---------------------------------


def _cleaned(l0: _Floats, E: float) -> _Floats:
    """Return eigenvalues without the noise's: continuous, though an eigenvalue may lie near the edge E of the noise."""
    weight = np.clip(2 - l0 / E, 0, 1)
    pool = max(0.0, float((weight * np.minimum(l0, E)).sum() / max(weight.sum(), 1e-12)))
    above = np.maximum(l0, E)
    cleaned: _Floats = np.maximum(np.sqrt(above**2 - E * E), pool)
    return cleaned


def whitened(plan: Plan, centre: Centre, opened: _Floats) -> Point:
    """Steps B and C: from the noisy second moments, in units of B^2 and 1/N, to A and a first classifier."""
    d, sd = plan.study.d, plan.noise_sd(plan.moments(centred=centre.centred) ** 2)
    G, b, ym = _parts(plan, centre, opened, sd)
    sb = sd * (1 + abs(centre.yb))
    E = max(sd * sqrt(2 * d), _LEAST_EDGE)
    l0, V = np.linalg.eigh(G)
    l = _cleaned(l0, E)  # noqa: E741  the note's letter
    f = 1 / (l + (1 + centre.centred) * (E + sb * sqrt(d)))
    g = V.T @ b
    c = f * g
    inner = np.ones(d, dtype=bool)
    inner[-1] = centre.centred  # without centring, the largest eigenvalue's direction is the mean
    num = float((c * g - f * sb**2)[inner].sum())
    den = float((l * c**2)[inner].sum()) + 1e-12
    al = _clip(num / den, 1, 3)  # undoes the shrinkage
    c[inner] *= al
    if not centre.centred:
        c[-1] = g[-1] / max(l[-1], E)
        ym = _clip(c[-1] * sqrt(l[-1]), -0.9, 0.9)
    v = 1 - ym**2
    R2 = _clip(al * (2 * num - al * den) / v, 0, 0.85)
    c = c / (v / 2 * (1 - R2))  # to the scale of log-odds
    b0 = 0.0
    if centre.centred:
        p = (1 + ym) / 2
        b0 = log(p / (1 - p)) - (1 - 2 * p) / 2 * R2 / (v / 4 * (1 - R2))  # linear discriminant analysis
    root = np.sqrt(l + 0.75 * E)
    r = float((l / root**2).sum())
    unsure = not centre.centred and d > 1 and bool(l0[-1] - l0[-2] <= _LEAST_GAP * abs(l0[-1]))
    return Point((V / root) @ V.T, 1.4 * sqrt(r), max(1.0, r / 8), V @ (root * c), b0, centre.centred, unsure)


def _parts(plan: Plan, centre: Centre, opened: _Floats, sd: float) -> tuple[_Floats, _Floats, float]:
    """Return G, b and ym of the opened numbers."""
    d = plan.study.d
    pairs = d * (d - 1) // 2
    G = np.zeros((d, d))
    G[np.triu(np.ones((d, d), dtype=bool), 1)] = opened[:pairs]
    G += G.T + np.diag(opened[pairs : pairs + d])
    b = opened[pairs + d : pairs + 2 * d] * (1 + abs(centre.yb))
    if not centre.centred:
        return G, b, 0.0
    sy = sd * sqrt(8)
    return G, b, _clip(opened[-1] * sqrt(8) * 0.25 / (0.25 + sy**2), -0.95, 0.95)


# --- D. Steps -----------------------------------------------------------------------


def step(plan: Plan, point: Point, opened: _Floats) -> _Floats:
    """Step D: from the noisy sum of gradients, in units of C and 1/N, to the next classifier, shape (d + 1,)."""
    d, T = plan.study.d, plan.rounds
    E = max(plan.noise_sd(plan.moments(centred=point.centred) ** 2) * sqrt(2 * d), _LEAST_EDGE)
    A2 = point.A @ point.A
    r = max(0.0, d - 0.75 * E * float(np.trace(A2)))
    spread = sqrt(max(0.0, float(point.th @ point.th - 0.75 * E * (point.th @ A2 @ point.th))))
    p = expit(point.b0 + spread * _NODES)
    w = max(_LEAST_CURVATURE, float(_WEIGHTS @ (p * (1 - p)) / _WEIGHTS.sum()))
    nu = (point.C * plan.noise_sd(plan.gradient) / w) ** 2 / (T / 2)
    V0 = 0.5 / max(1.0, r)
    gain, gain1 = V0 / (V0 + nu), 1 / (1 + nu / point.K)
    e, sums = point.e, point.C * opened
    gx, h = sums[:d], sums[d] / sqrt(point.K)
    along = float(e @ gx)
    both = (point.K * h + along) / (point.K + 1)
    th = point.th - (gain * (gx - along * e) + gain1 * both * e) / w
    b0 = point.b0
    if point.centred:
        b0 = _clip(b0 - gain1 * sums[d + 1] / sqrt(point.K) / w, -6, 6)
    return np.append(th, b0)


def classifier(centre: Centre, point: Point, iterates: Sequence[_Floats]) -> _Floats:
    """Return the released classifier, shape (d + 1,): the weights on u, and the offset.

    It is the mean of the last T/2 iterates, or the first classifier where there are no gradients.
    """
    last = np.mean(iterates[-(len(iterates) // 2) :], axis=0) if iterates else point.classifier()
    w = point.A @ last[:-1] / centre.R
    return np.append(w, last[-1] - centre.m @ w)
