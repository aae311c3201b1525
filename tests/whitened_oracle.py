"""``dp-whitened`` a second time: in floats, in the coordinates of the eigenvectors, output by output, in one function.

It takes the opened sums' noise as given, in units of one number's standard deviation. Nothing of the protocol's code is
used but the lengths B and the records' rounding to them, so that the two can be compared to 1e-6.
"""

from __future__ import annotations

from collections.abc import Callable
from math import exp, log, sqrt

import numpy as np
from numpy.typing import NDArray

from masquerade_protocols.dp_whitened.public import Plan

__all__ = ["oracle"]

_Floats = NDArray[np.float64]
Noise = Callable[[str, int], _Floats]
"""(label, length) -> the noise of that sum, each number divided by SIGMA sqrt(K)."""

_Z, _W = np.polynomial.hermite_e.hermegauss(15)


def _shorten(v: _Floats, longest: float) -> _Floats:
    return np.array([row * min(1.0, longest / max(float(np.linalg.norm(row)), 1e-300)) for row in v])


def _integers(v: _Floats, B: int) -> _Floats:
    return np.round(_shorten(v * B, max(0.0, (B - sqrt(v.shape[1]) / 2) * (1 - 2.0**-30))))


def _between(x: float, low: float, high: float) -> float:
    return float(max(low, min(high, x)))


def _shrink(mean: float, sd: float, limit: float) -> float:
    return _between(mean / (1 + 4 * sd * sd), -limit, limit)


def oracle(  # noqa: C901, PLR0912, PLR0915  one function, to be read from top to bottom
    plan: Plan, U: _Floats, Y: _Floats, noise: Noise
) -> tuple[_Floats, _Floats]:
    """Return weights (outputs, d) and offsets (outputs,); ``Y`` has a column of -1 and +1 for each output."""
    N, d, m, s = len(U), U.shape[1], Y.shape[1], float(plan.strength)
    unit = plan.noise_sd(1) * N  # of one number, with all shares

    def sd(B: float) -> float:
        return unit / (N * B)

    two = m == 1
    kappa = 0.5 if two else sqrt(0.125)
    centre, R, yb, centred, second = np.zeros(d), 1.0, np.zeros(m), False, None
    if s > 10:
        B = plan.first_mean
        t = sd(B)
        word = B // 2 if two else int(sqrt(B * B / 8))
        sums = np.append(_integers(U, B).sum(0), word * Y.sum(0)) / (N * B) + t * noise("first mean", d + m)
        D, n = d * t * t, float(sums[:d] @ sums[:d])
        k = max(0.0, 1 - D / n)
        guess = k * sums[:d]
        radius = max(2.0**-10, min(1.0, sqrt(max(0.0, 1 - max(0.0, n - D)) + k * D)))
        means = np.array([_shrink(v / kappa, t / kappa, 0.9) for v in sums[d:]])
        B = plan.second_mean
        t = sd(B)
        if radius < 0.85 or s > 80:
            z = _integers(_shorten((U - guess) / radius, 1.0), B).sum(0) / (N * B) + t * noise("second mean", d)
            centre, centred, yb = guess + radius * z, True, means
            D = d * (radius * t) ** 2
            R = max(2.0**-10, min(radius, sqrt(max(0.0, 1 - max(0.0, float(centre @ centre) - D)) + D)))
        else:
            rows = np.array([np.outer(y, u).ravel() for u, y in zip(U, Y, strict=True)]) / sqrt(m)
            found = _integers(rows, B).sum(0) / (N * B) + t * noise("labels", d * m)
            second = sqrt(m) * found.reshape(m, d), sqrt(m) * t
    # Second moments.
    B = plan.moments(centred=centred)
    t = sd(B * B)
    h = max(float(np.linalg.norm(y - yb)) for y in ([[1.0], [-1.0]] if two else 2 * np.eye(m) - 1))
    z = _integers(_shorten((U - centre) / R, 1.0), B)
    c = _integers((Y - yb) / h, B)
    pairs = [(j, k) for j in range(d) for k in range(j + 1, d)]
    drawn = noise("second moments", len(pairs) + d + d * m + m * centred) * t
    G = np.zeros((d, d))
    for (j, k), x in zip(pairs, drawn, strict=False):
        G[j, k] = G[k, j] = x
    G += np.diag(drawn[len(pairs) : len(pairs) + d]) + z.T @ z / (N * B * B)
    b = c.T @ z / (N * B * B) + drawn[len(pairs) + d : len(pairs) + d + d * m].reshape(m, d)
    b, sb = h * b, h * t
    if second is not None:
        a1, a2 = 1 / sb**2, 1 / second[1] ** 2
        b, sb = (a1 * b + a2 * second[0]) / (a1 + a2), (a1 + a2) ** -0.5
    # Ridge, output by output, along eigenvectors.
    E = max(t * sqrt(2 * d), 1e-6)
    raw, V = np.linalg.eigh(G)
    near = [min(1.0, max(0.0, 2 - v / E)) for v in raw]
    pool = max(0.0, sum(w * min(v, E) for w, v in zip(near, raw, strict=True)) / max(sum(near), 1e-12))
    lam = np.array([max(pool, sqrt(max(v, E) ** 2 - E * E)) for v in raw])
    q = min(2.0, max(1.0, s / 40)) * (1.0 if centred else 0.5)
    f = 1 / (lam + q * (E + sb * sqrt(d)))
    inside = range(d) if centred else range(d - 1)
    lp = lam + 0.75 * E
    r = float((lam / lp).sum())
    L, K = 1.4 * sqrt(r), max(1.0, r / 8)
    th, b0 = np.zeros((m, d)), np.zeros(m)
    for o in range(m):
        g = V.T @ b[o]
        w = f * g
        num = sum(f[i] * (g[i] ** 2 - sb**2) for i in inside)
        slack = sb * sqrt(sum(w[i] ** 2 for i in inside))
        den = sum(lam[i] * w[i] ** 2 for i in inside) + 1e-12
        al = _between((num - (slack if centred else 0)) / den, 1.0, 3.0)
        w[: len(inside)] *= al
        if centred:
            size = kappa / sqrt(2)
            last = drawn[len(drawn) - m + o] + int(sqrt((B**4 / 4 if two else B**4 / 8) / 2)) * Y[:, o].sum() / (
                N * B * B
            )
            ym = _shrink(last / size, t / size, 0.95)
        else:
            w[-1] = g[-1] / max(lam[-1], E)
            ym = _between(w[-1] * sqrt(lam[-1]), -0.9, 0.9)
        v = 1 - ym * ym
        R2 = _between(al * (2 * (num - 2 * slack) - al * den) / v, 0.0, _between(s / 80, 0.6, 0.85))
        th[o] = np.sqrt(lp) * w / (v / 2 * (1 - R2))
        if centred:
            b0[o] = log((1 + ym) / (1 - ym)) + ym / 2 * R2 / (v / 4 * (1 - R2))
    # Gradients, in the coordinates of the eigenvectors.
    B, T = plan.gradient, plan.rounds
    x = _shorten((_shorten((U - centre) / R, 1.0) @ V) / np.sqrt(lp), L)
    C = 0.35 * sqrt(L * L + (2 if centred else 1) * K)
    share, ends = lam / lp, []
    for turn in range(T):
        scores = x @ th.T + b0
        top = scores.max(1, keepdims=True)
        chance = 1 / (1 + np.exp(-scores)) if two else np.exp(scores - top) / np.exp(scores - top).sum(1, keepdims=True)
        wrong = chance - (Y + 1) / 2
        e = np.array([row / np.linalg.norm(row) if np.linalg.norm(row) > 0 else row for row in th])
        # The protocol's coordinates are turned by V: the sums there are V times these.
        full = [
            np.concatenate([np.outer(w, V @ p).ravel(), sqrt(K) * w * (e @ p), *([sqrt(K) * w] if centred else [])])
            for w, p in zip(wrong, x, strict=True)
        ]
        opened = _integers(_shorten(np.array(full), C) / C, B).sum(0) / (N * B)
        opened = C * (opened + sd(B) * noise(f"gradient {turn}", len(opened)))
        new_th, new_b0 = th.copy(), b0.copy()
        for o in range(m):
            spread = sqrt(float((share * th[o] ** 2).sum()))
            likely = [1 / (1 + exp(-(b0[o] + spread * node))) for node in _Z]
            curve = max(0.03, sum(w * p * (1 - p) for w, p in zip(_W, likely, strict=True)) / _W.sum())
            nu = (C * sd(B) / curve) ** 2 / T
            if s >= 200:
                gain, gain1 = (v0 / (v0 + 2 * x) for v0, x in ((0.5 / max(1.0, r), nu), (1.0, nu / K)))
            else:
                V0 = s / 20 / max(1.0, r)
                gain, gain1 = (1 - (x / (v0 + x)) ** (4 / (3 * T)) for v0, x in ((V0, nu), (1.0, nu / K)))
            g = V.T @ opened[o * d : (o + 1) * d]
            along = float(e[o] @ g)
            both = (sqrt(K) * opened[m * d + o] + along) / (K + 1)
            new_th[o] = th[o] - (gain * (g - along * e[o]) + gain1 * both * e[o]) / curve
            if centred:
                new_b0[o] = _between(b0[o] - gain1 * opened[m * d + m + o] / sqrt(K) / curve, -6.0, 6.0)
        th, b0 = new_th, new_b0
        ends.append((th, b0))
    th, b0 = (np.mean([end[i] for end in ends[-(T // 2) :]], axis=0) for i in (0, 1))
    weights = np.array([V @ (row / np.sqrt(lp)) / R for row in th])
    return weights, b0 - weights @ centre
