"""``dp-whitened`` a second time: in floats, in the coordinates of the eigenvectors, output by output, in one function.

It takes the opened sums' noise as given, in units of one number's standard deviation. Nothing of the protocol's code is
used but the lengths B and the records' rounding to them, so that the two can be compared to 1e-6.
"""

from __future__ import annotations

from collections.abc import Callable
from math import exp, log, sqrt

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import root
from scipy.special import expit, ndtr

from masquerade_protocols.dp_whitened.public import Plan

__all__ = ["oracle"]

_Floats = NDArray[np.float64]
Noise = Callable[[str, int], _Floats]
"""(label, length) -> the noise of that sum, each number divided by SIGMA sqrt(K)."""

_Z, _W = np.polynomial.hermite_e.hermegauss(15)


def _shorten(v: _Floats, longest: float) -> _Floats:
    return np.asarray(v * np.minimum(1.0, longest / np.maximum(np.linalg.norm(v, axis=1, keepdims=True), 1e-300)))


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
    told, plenty = s * sqrt(d), s >= 200
    if s > 10:
        B = plan.first_mean
        t = sd(B)
        word = B // 2 if two else int(sqrt(B * B / 8))
        sums = np.append(_integers(U, B).sum(0), word * Y.sum(0)) / (N * B) + t * noise("first mean", d + m)
        D, n = d * t * t, float(sums[:d] @ sums[:d])
        k = max(0.0, 1 - D / n)
        guess = k * sums[:d]
        extra = 5 * float(np.linalg.norm(guess)) * t if plenty else 0.0
        radius = max(2.0**-10, min(1.0, sqrt(max(0.0, 1 - max(0.0, n - D)) + k * D + extra)))
        means = np.array([_shrink(v / kappa, t / kappa, 0.9) for v in sums[d:]])
        B = plan.second_mean
        t = sd(B)
        if radius < 0.85 or s > 80:
            drawn = t * noise("second mean", d + plenty)
            z = _integers(_shorten((U - guess) / radius, 1.0), B).sum(0) / (N * B) + drawn[:d]
            centre, centred, yb = guess + radius * z, True, means
            D = d * (radius * t) ** 2
            R = sqrt(max(0.0, 1 - max(0.0, float(centre @ centre) - D)) + D)
            if plenty:
                even = B - B % 2
                far = np.clip(np.log2(radius / np.maximum(np.linalg.norm(U - guess, axis=1), 1e-300)), 0, 6)
                scale = 6 * B / even
                g = 3 + scale * (np.round(even * (far - 3) / 6).sum() / (N * B) + drawn[d])
                inner = radius**2 * 4**-g
                measured = sqrt(max(inner - radius**2 * float(z @ z) + D, inner / 16) + D)
                a1, a2 = (radius * t * float(np.linalg.norm(centre)) / (R**2 * log(2))) ** 2, (t * scale) ** 2
                R = min(1.0, exp((a1 * log(measured) + a2 * log(R)) / (a1 + a2)))
            else:
                R = min(radius, R)
            R = max(2.0**-10, R)
        else:
            rows = (Y[:, :, None] * U[:, None, :]).reshape(N, m * d) / sqrt(m)
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
    far_out = sqrt(max(lam[-1], E))
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
            ym = _shrink(g[-1] / far_out, sb / far_out, 0.9)
        v = 1 - ym * ym
        most = _between(s / 80, 0.6, 0.85) if not two else 0.0 if plenty else min(0.5, s / 80)
        R2 = _between(al * (2 * (num - 2 * slack) - al * den) / v, 0.0, most)
        w /= v / 2 * (1 - R2)
        offset = log((1 + ym) / (1 - ym)) + ym / 2 * R2 / (v / 4 * (1 - R2))
        if centred:
            b0[o] = offset
        else:
            w[-1] = offset / far_out
        th[o] = np.sqrt(lp) * w
    # Gradients, in the coordinates of the eigenvectors.
    B, T = plan.gradient, plan.rounds
    whole = ((U - centre) / R @ V) / np.sqrt(lp)
    x = _shorten((_shorten((U - centre) / R, 1.0) @ V) / np.sqrt(lp), L)
    C = 0.35 * sqrt(L * L + (2 if centred else 1) * K)
    share, ends = lam / lp, []
    back, squares = x @ V.T, (x * x).sum(1)  # the protocol's coordinates are turned by V
    for turn in range(T):
        scores = whole @ th.T + b0
        top = scores.max(1, keepdims=True)
        chance = 1 / (1 + np.exp(-scores)) if two else np.exp(scores - top) / np.exp(scores - top).sum(1, keepdims=True)
        wrong = chance - (Y + 1) / 2
        e = np.array([row / np.linalg.norm(row) if np.linalg.norm(row) > 0 else row for row in th])
        along = x @ e.T
        full = [(wrong[:, :, None] * back[:, None, :]).reshape(N, m * d), sqrt(K) * wrong * along]
        rows = np.hstack([*full, *([sqrt(K) * wrong] if centred else [])])
        if two and plenty:
            sizes = np.sqrt(squares + K * along[:, 0] ** 2 + K * centred)
            rows *= np.minimum(1.0, C / (np.maximum(chance, 1 - chance)[:, 0] * sizes))[:, None]
        opened = _integers(_shorten(rows, C) / C, B).sum(0) / (N * B)
        opened = C * (opened + sd(B) * noise(f"gradient {turn}", len(opened)))
        new_th, new_b0 = th.copy(), b0.copy()
        for o in range(m):
            spread = sqrt(float((share * th[o] ** 2).sum()))
            likely = [1 / (1 + exp(-(b0[o] + spread * node))) for node in _Z]
            om = [1.0] * len(_Z)
            if two and plenty:
                ends_at = [
                    max(p, 1 - p) * sqrt(max(1.0, r) - 1 + (1 + K) * z * z + K) for p, z in zip(likely, _Z, strict=True)
                ]
                om = [min(1.0, C / end) for end in ends_at]
            curve = sum(w * p * (1 - p) * o_ for w, p, o_ in zip(_W, likely, om, strict=True)) / _W.sum()
            curve = max(0.03 * sum(w * o_ for w, o_ in zip(_W, om, strict=True)) / _W.sum(), curve)
            nu = (C * sd(B) / curve) ** 2 / T
            if s >= 200:
                gain, gain1 = (v0 / (v0 + 2 * x) for v0, x in ((0.5 / max(1.0, r), nu), (1.0, nu / K)))
            else:
                V0 = s / 20 / max(1.0, r)
                gain, gain1 = (1 - (x / (v0 + x)) ** (4 / (3 * T)) for v0, x in ((V0, nu), (1.0, nu / K)))
            g = V.T @ opened[o * d : (o + 1) * d]
            ahead = float(e[o] @ g)
            both = (sqrt(K) * opened[m * d + o] + ahead) / (K + 1)
            new_th[o] = th[o] - (gain * (g - ahead * e[o]) + gain1 * both * e[o]) / curve
            if centred:
                new_b0[o] = _between(b0[o] - gain1 * opened[m * d + m + o] / sqrt(K) / curve, -6.0, 6.0)
        th, b0 = new_th, new_b0
        ends.append((th, b0))
    th, b0 = (np.mean([end[i] for end in ends[-(T // 2) :]], axis=0) for i in (0, 1))
    weights = np.array([V @ (row / np.sqrt(lp)) / R for row in th])
    offsets = b0 - weights @ centre
    if told < 200:
        return weights, offsets
    # Slope and offset, from counts of log-odds at nine nodes.
    B = plan.counts
    middle = b0 if two else np.array([b0[o] - log(sum(exp(b0[j]) for j in range(m) if j != o)) for o in range(m)])
    widths = [max(2.0**-10, sqrt(float(share @ row**2)) * (1 if two else sqrt(2))) for row in th]
    nodes = [[c + w * z for z in (-4, -2, -1, -0.5, 0, 0.5, 1, 2, 4)] for c, w in zip(middle, widths, strict=True)]
    scores = U @ weights.T + offsets
    size = int(B / sqrt(m))
    counts = np.zeros((m, 2, 9))
    for o in range(m):
        others = np.exp(np.delete(scores, o, axis=1)).sum(1)
        t, at = scores[:, o] - (0 if two else np.log(others)), np.array(nodes[o])
        j = np.minimum(np.searchsorted(at[1:], t, side="right"), 7)
        part = np.floor(size * np.clip((t - at[j]) / (at[j + 1] - at[j]), 0, 1))
        for which, count in ((j, size - part), (j + 1, part)):
            np.add.at(counts[o], ((Y[:, o] < 0).astype(int), which), count)
    noisy = (counts.ravel() / B + unit / B * noise("score counts", 18 * m)).reshape(counts.shape) * sqrt(m)
    width = unit / B * sqrt(m)
    for o in range(m):
        noisy[o] += (N - noisy[o].sum()) / 18
    a, k, z2 = _calibrated(nodes, noisy, width, None)
    sure = 4 * (1 + log(m)) * max(1.0, (400 / told) ** 2)
    k = np.array([max(0.0, 1 - sure / z) * v if z > 0 else 0.0 for v, z in zip(k, z2, strict=True)])
    a = _calibrated(nodes, noisy, width, k)[0]
    return a * weights, a * offsets + k


def _calibrated(
    nodes: list[list[float]], noisy: _Floats, sd: float, k: _Floats | None
) -> tuple[float, _Floats, _Floats]:
    """Return a, k and (k/its sd)^2: the root of the weighted score equations, found by SciPy."""
    m = len(nodes)
    masses = np.diff(ndtr([-np.inf, -3, -1.5, -0.75, -0.25, 0.25, 0.75, 1.5, 3, np.inf]))
    t, hits, n = np.array(nodes), noisy[:, 0], noisy.sum(1)
    at = np.append(1.0, np.zeros(m) if k is None else k)

    def chances(v: _Floats) -> _Floats:
        return np.asarray(expit(v[0] * t + v[1:, None]))

    def gradient(v: _Floats, weight: _Floats) -> _Floats:
        wrong = weight * (hits - chances(v) * n)
        found = np.append((wrong * t).sum() - (v[0] - 1) / 0.16, wrong.sum(1) - v[1:] / 4)
        if k is not None:
            found[1:] = k - v[1:]
        return found

    weight = masses
    for _ in range(2):
        p = chances(at)
        known = masses * n.sum(1)[:, None] * p * (1 - p)
        weight = known / (sd**2 * (p * p + (1 - p) ** 2) + known)
        at = root(lambda v, weight=weight: gradient(v, weight), at, tol=1e-13).x
    c = weight * np.maximum(n, 0) * chances(at) * (1 - chances(at))
    H = np.diag(np.append((c * t * t).sum() + 1 / 0.16, c.sum(1) + 1 / 4))
    H[0, 1:] = H[1:, 0] = (c * t).sum(1)
    return float(max(at[0], 0.05)), at[1:], at[1:] ** 2 / np.diag(np.linalg.inv(H))[1:]
