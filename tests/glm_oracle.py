"""``dp-glm`` a second time, for numbers and a label of two values: in floats, by other ways, in one function.

It takes the opened sums' noise as given. Of the protocol's code it uses the scales of the sums alone, so that the two
can be compared to 1e-6.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy import integrate, optimize
from scipy.special import expit
from scipy.stats import norm

from masquerade_protocols.dp_glm.public import Plan

__all__ = ["oracle"]

Array = NDArray[np.float64]

_SCORES: Array = np.array([0.8, 1, 1.25, 1.5, 1.8, 2.2, 2.7, 3.3, 4, 5])
_BREADS: Array = np.array([1.2, 1.6, 2.2, 3, 4, 6, 9, 14])


def oracle(  # noqa: PLR0915  one function, in the order of the page
    plan: Plan, X: Array, positive: Array, noise: Callable[[str, int, int], Array]
) -> tuple[Array, float]:
    """Return the weights and the offset that a run must have released, if all of its coefficients can be told.

    Parameters
    ----------
    plan : Plan
    X : ndarray, shape (N, p)
    positive : ndarray, shape (N,)
        Labels 0 and 1.
    noise : callable
        (sum, numbers, products) -> the noise on them, in units of the grid.
    """
    N, p = X.shape
    d = p + 1

    def opened(label: str, *parts: tuple[str, Array]) -> dict[str, Array]:
        """Open a sum of matrices and vectors by name: products, then a step's scores, diagonals, and other vectors."""
        kinds = dict(parts)
        matrices = [name for name in kinds if name.endswith("matrix")]
        size = kinds[matrices[0]].shape[1] if matrices else 0
        upper, diagonal = np.triu_indices(size, 1), np.arange(size)
        sent = {f"{name} off": kinds[name][:, upper[0], upper[1]] for name in matrices}
        sent |= {name: kinds[name] for name in kinds if name == "g"}
        sent |= {f"{name} on": kinds[name][:, diagonal, diagonal] for name in matrices}
        sent |= {name: kinds[name] for name in kinds if name not in {"g", *matrices}}
        rows = np.concatenate(list(sent.values()), axis=1)
        products = len(matrices) * len(upper[0])
        mean = rows.mean(axis=0) * plan.scale(label) / plan.unit(label)
        mean = mean + noise(label, rows.shape[1], products) / (N * plan.unit(label))
        ends = np.cumsum([part.shape[1] for part in sent.values()])[:-1]
        found = dict(zip(sent, np.split(mean, ends), strict=True))
        for name in matrices:
            M = np.diag(found[f"{name} on"])
            M[upper] = found[f"{name} off"]
            found[name] = np.triu(M) + np.triu(M, 1).T
        return found

    def sd(label: str) -> float:
        return float(2.0**32 * math.sqrt(plan.study.K) / (N * plan.unit(label)))

    def mean_of(f: Callable[[float], float]) -> float:
        return float(integrate.quad(lambda t: f(t) * norm.pdf(t), -12, 12, epsabs=1e-13, limit=400)[0])

    root = math.sqrt(2.7)
    # Where the columns lie.
    found = opened("location", ("u", np.column_stack([X, positive]) / root), ("squares", X**2))
    m, yb = np.clip(found["u"][:p] * root, -1, 1), float(np.clip(found["u"][p] * root, 0.001, 0.999))
    s = np.sqrt(np.maximum(found["squares"] - m**2, 0) + sd("location"))
    r = np.minimum(1 + np.abs(m), 5 * s)
    v = np.clip((X - m) / r, -1, 1)
    found = opened("spread", ("v", v / root), ("squares", v**2))
    mv = np.clip(found["v"] * root, -1, 1)
    m = np.clip(m + r * mv, -1, 1)
    s = r * np.sqrt(np.maximum(found["squares"] - mv**2, 0) + sd("spread") / 2)
    Z = (X - m) / s
    # Moments, whitening, a first theta.
    R, h = 1.5 * math.sqrt(p), max(yb, 1 - yb)
    z = Z / np.maximum(np.linalg.norm(Z, axis=1) / R, 1)[:, None] / R
    found = opened("moments", ("matrix", z[:, :, None] * z[:, None, :]), ("b", z * ((positive - yb) / h)[:, None]))
    G, b = found["matrix"] * R**2, found["b"] * R * h
    E = sd("moments") * R**2 * math.sqrt(2 * p)
    l0, V = np.linalg.eigh(G)
    weight = np.clip(2 - l0 / E, 0, 1)
    pool = max(0.0, float((weight * np.minimum(l0, E)).sum() / max(weight.sum(), 1e-12)))
    l = np.maximum(np.sqrt(np.maximum(l0**2 - E**2, 0) * (l0 > E)), pool)  # noqa: E741
    W = V @ np.diag((l + E / 2) ** -0.5) @ V.T
    beta = np.linalg.solve(V @ np.diag(l + E + sd("moments") * R * h * math.sqrt(p)) @ V.T, b)
    variance = yb * (1 - yb)
    slopes = np.linalg.solve(W, beta) / (variance * (1 - min(0.7, max(0.0, float(beta @ b)) / variance)))
    slopes = slopes * min(1.0, 3 / float(np.linalg.norm(slopes)))
    if variance < 0.08:  # rare labels: from 0.04 on down, all of the noise is taken out
        known = p * (sd("moments") * R * h / variance) ** 2 * min(1.0, (0.08 - variance) / 0.04)
        slopes = slopes * max(0.0, 1 - known / float(slopes @ slopes))
    length = float(np.linalg.norm(slopes))
    b0 = optimize.brentq(lambda c: mean_of(lambda t: float(expit(c + length * t))) - yb, -20, 20, xtol=1e-12)
    theta, x = np.append(b0, slopes), np.column_stack([np.ones(N), Z @ W])
    # Three steps.
    c, ch, steps = 1.0, 1.6, []
    for label in ("step 1", "step 2", "step 3"):
        length = float(np.linalg.norm(theta[1:]))
        wbar = mean_of(lambda t, a=theta[0], k=length: float(expit(a + k * t) * expit(-a - k * t)))  # type: ignore[misc]
        C, CH = c * math.sqrt(d), ch * d * wbar
        q = expit(x @ theta)
        om, size = q * (1 - q), np.linalg.norm(x, axis=1)
        w = np.minimum(1, np.minimum(C / (size * np.maximum(q, 1 - q)), CH / (om * size**2)))
        xx = x[:, :, None] * x[:, None, :]
        part = [
            ("H matrix", xx * (w * om / CH)[:, None, None]),
            ("M matrix", xx * (math.sqrt(0.3) * (w * (positive - q) / C) ** 2)[:, None, None]),
            ("g", x * (w * (positive - q) / C)[:, None]),
        ]
        if label == "step 1":
            part.append(("scores", _one_hot(size * np.maximum(q, 1 - q) / math.sqrt(d), _SCORES) / 2))
            part.append(("breads", _one_hot(om * size**2 / (d * wbar), _BREADS) / 2))
        else:
            part.append(("down", math.sqrt(0.05) * (w < 1)[:, None].astype(float)))
        found = opened(label, *part)
        H, sd_h = found["H matrix"] * CH, sd(label) * CH
        assert np.linalg.eigvalsh(H)[0] > sd_h * math.sqrt(2 * d), "the oracle knows no weak directions"
        step = np.linalg.solve(H, found["g"] * C)
        inner = (sd(label) * C) ** 2 * np.eye(d) + sd_h**2 / 2 * (step @ step * np.eye(d) + np.outer(step, step))
        noisy = float(np.trace(np.linalg.inv(H) @ inner @ np.linalg.inv(H)))
        steps.append((theta + step, noisy))
        move = step * max(0.0, 1 - noisy / float(step @ step))
        theta = theta + move * min(1.0, 2.5 / float(np.linalg.norm(move))) if move.any() else theta
        if label == "step 1":
            cap = 0.2 * N * plan.mu * math.sqrt(0.48) / (d**1.5 * math.sqrt(10))
            length = float(np.linalg.norm(theta[1:]))
            curvature = mean_of(lambda t, a=theta[0], k=length: float(expit(a + k * t) * expit(-a - k * t)))  # type: ignore[misc]
            c = _least(2 * found["scores"], _SCORES, 2 * sd(label), max(1.0, 0.08 / curvature))
            ch = max(1.0, min(cap, _least(2 * found["breads"], _BREADS, 2 * sd(label))))
    (second, noisy2), (third, noisy3) = steps[1:]
    estimate = (second / noisy2 + third / noisy3) / (1 / noisy2 + 1 / noisy3)
    weights = W @ estimate[1:] / s
    return weights, float(estimate[0] - m @ weights)


def _one_hot(values: Array, edges: Array) -> Array:
    ends = np.append(edges[1:], np.inf)
    return ((values[:, None] >= edges) & (values[:, None] < ends)).astype(float)


def _least(shares: Array, edges: Array, sd: float, more: float = 1.0) -> float:
    tails = shares[::-1].cumsum()[::-1]
    few = np.flatnonzero(tails <= more * max(0.003, 2 * sd) * np.sqrt(np.arange(len(edges), 0, -1)))
    return float(edges[few[0]] if len(few) else edges[-1])
