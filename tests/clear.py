"""Each protocol in the clear, written down from its paper or its page: what a run must have released.

An oracle takes everybody's records, and the noise from copies of the participants' stores (:mod:`tests.stores`). Of the
protocol's code it uses the names of draws and the grids, no formula. Where a store holds more than noise, the oracle
takes the noise alone: no gradient and no classifier comes from a store.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax

from masquerade_core.study import CHARLIE
from masquerade_protocols.dp_glm.public import Plan as GlmPlan
from masquerade_protocols.dp_whitened.public import SIGMA, Plan
from masquerade_protocols.psgd import schedule as psgd_schedule
from tests.glm_oracle import oracle as glm
from tests.stores import Case, Ran
from tests.whitened_oracle import oracle as whitened

__all__ = [
    "LIPSCHITZ",
    "counts_of",
    "descent_unit",
    "gradient",
    "oracle_of",
    "quiet",
    "size_class",
    "slack",
]

Array = NDArray[np.float64]

LIPSCHITZ = {"logistic": 1.0, "smoothed-hinge": 1.0, "sigmoid": 0.25}
CURVATURE = {"logistic": 0.25, "smoothed-hinge": 1.5, "sigmoid": math.sqrt(3) / 18}
_STEPS = 100


# --- Losses and minimisers ----------------------------------------------------------------


def _slope(loss: str, m: Array) -> Array:
    """The first derivative of each loss, from its paper."""
    if loss == "logistic":
        return np.asarray(-expit(-m))
    if loss == "sigmoid":
        return np.asarray(-expit(m) * expit(-m))
    h, v = 0.5, 1 - m
    inside = v**3 / (4 * h**3) - 3 * v / (4 * h) - 0.5
    return np.where(v > h, -1.0, np.where(v < -h, 0.0, inside))


def _bend(loss: str, m: Array) -> Array:
    """The second derivative of the convex ones."""
    if loss == "logistic":
        return np.asarray(expit(m) * expit(-m))
    h = 0.5
    return np.where(np.abs(1 - m) < h, 3 * (1 - ((1 - m) / h) ** 2) / (4 * h), 0.0)


def gradient(loss: str, X: Array, y: Array, w: Array) -> Array:
    """The sum of all records' gradients."""
    return X.T @ (_slope(loss, y * (X @ w)) * y)


def minimiser(loss: str, X: Array, y: Array, Lambda: float, weights: Array | None = None) -> Array:
    """The minimiser of the mean loss with (Lambda/2)|w|^2, by Newton's steps; ``weights`` add up to the divisor."""
    weights = np.ones(len(y)) if weights is None else weights
    if X.shape[1] > len(X):  # it lies in the span of the records
        axes = np.linalg.qr(X.T)[0]
        return axes @ minimiser(loss, X @ axes, y, Lambda, weights)
    w = np.zeros(X.shape[1])
    for _ in range(_STEPS):
        m = y * (X @ w)
        slope = X.T @ (weights * _slope(loss, m) * y) / weights.sum() + Lambda * w
        bend = (X.T * (weights * _bend(loss, m))) @ X / weights.sum() + Lambda * np.eye(len(w))
        step = np.linalg.solve(bend, slope)
        length = 1.0
        while length > 2**-30 and _risk(loss, X, y, w - length * step, Lambda, weights) > _risk(
            loss, X, y, w, Lambda, weights
        ):
            length /= 2
        w = w - length * step
        if np.linalg.norm(step) < 1e-13:
            break
    return w


def _risk(loss: str, X: Array, y: Array, w: Array, Lambda: float, weights: Array) -> float:
    m = y * (X @ w)
    if loss == "logistic":
        values = np.logaddexp(0.0, -m)
    else:
        h = 0.5
        u = np.clip((1 - m) / h, -1, 1)
        values = h * (-(u**4) / 16 + 3 * u**2 / 8 + u / 2 + 3 / 16) + np.maximum(0.0, 1 - m - h)
    # A float's last digits must not stop a descent that has arrived.
    return float(np.round(weights @ values / weights.sum() + Lambda / 2 * w @ w, 14))


def softmax_minimiser(X: Array, targets: Array, Lambda: float) -> Array:
    """The minimiser of the mean cross entropy with (Lambda/2)|W|^2, class by class; shape (C, d)."""
    (n, d), C = X.shape, targets.shape[1]
    if d > n:  # it lies in the span of the records
        axes = np.linalg.qr(X.T)[0]
        return np.asarray(softmax_minimiser(X @ axes, targets, Lambda) @ axes.T)
    W = np.zeros((C, d))
    for _ in range(_STEPS):
        p = softmax(X @ W.T, axis=1)
        slope = (p - targets).T @ X / n + Lambda * W
        mixed = p[:, :, None] * (np.eye(C) - p[:, None, :])
        bend = np.einsum("nab,ni,nj->aibj", mixed, X, X, optimize=True).reshape(C * d, C * d) / n
        step = np.linalg.solve(bend + Lambda * np.eye(C * d), slope.ravel())
        W = W - step.reshape(C, d)
        if np.linalg.norm(step) < 1e-12:
            break
    return W


# --- Rajkumar and Agarwal: descents on noisy sums of gradients --------------------------------


def slack(case: Case, N: int) -> tuple[float, float]:
    """Procedure 2, computeSlack: Delta and eps~."""
    c, lam, eps = CURVATURE[case.loss], case.Lambda, case.epsilon
    left = eps - 2 * math.log(1 + c / (N * lam))
    return (0.0, left) if left > 0 else (c / (N * (math.exp(eps / 4) - 1)) - lam, eps / 2)


def _noisy_descent(ran: Ran, noise: Callable[[int], Array], rounds: int, Delta: float, unit: float) -> Array:
    """Algorithm 1, with steps z_t = a/(t0 + t), a = 1/mu and t0 = a max(1, c + mu), for mu = lambda + Delta."""
    loss, N, mu = ran.case.loss, ran.n.sum(), ran.case.Lambda + Delta
    t0 = max(1.0, CURVATURE[loss] + mu) / mu
    w = np.zeros(ran.study.d)
    for t in range(rounds):
        sums = [gradient(loss, ran.data[name].X, ran.data[name].y, w) for name in ran.names]
        total = sum(np.rint(g * unit) / unit for g in sums) + noise(t)
        w = w - 1 / mu / (t0 + t) * (total / N + mu * w)
    return w


def descent_unit(ran: Ran) -> float:
    """2^F of the grid on which a party's sum of gradients lies."""
    variant = {"noisy-gradient": psgd_schedule.noisy, "decaying-budget": psgd_schedule.decaying}
    N = int(ran.n.sum())
    chosen = variant.get(ran.case.protocol, psgd_schedule.psgd)
    return float(2 ** psgd_schedule.fraction_bits(ran.study, chosen(ran.study, N), N))


def _psgd(ran: Ran) -> Array:
    rounds, unit = ran.study.protocol["rounds"], descent_unit(ran)
    if ran.study.proven:
        drawn = ran.by_party("noise", unit).sum(axis=0)
        return _noisy_descent(ran, lambda t: drawn[t], rounds, 0.0, unit)
    rho = ran.by_party("rho", unit).sum(axis=0)
    if ran.case.protocol != "psgd":
        return _noisy_descent(ran, lambda t: rho[t], rounds, 0.0, unit)
    eta = ran.by_party("eta", unit).sum(axis=0)
    Delta, _ = slack(ran.case, int(ran.n.sum()))
    return _noisy_descent(ran, lambda t: rho[t] + eta, rounds, Delta, unit)


# --- dp-gd: the same with cut gradients, steps of one length ------------------------------------


def _dp_gd(ran: Ran) -> Array:
    """If a party leaves, its last gradient is in a sum or not: no store says it, and the model shows it."""
    T = ran.study.protocol["rounds"]
    if not ran.case.leaves:
        return _cut_descent(ran, T)
    last = max(int(label.split()[1]) for label in ran.rows(ran.names[-1]) if label.startswith("gradient "))
    assert last < T - 1, "the party that was to leave has taken part to the end"
    ends = [_cut_descent(ran, first) for first in (last, last + 1)]
    return min(ends, key=lambda w: float(np.linalg.norm(w - ran.weights)))


def _cut_descent(ran: Ran, without: int) -> Array:
    """From this round on the last party is out: that sum is made again with fresh noise, and N stays."""
    section, unit, names = ran.study.protocol, 2.0**28, ran.names
    C, eta, N = min(section["clip"], LIPSCHITZ[ran.case.loss]), section["learning_rate"], ran.n.sum()
    noise = ran.by_party("noise", unit)
    w = np.zeros(ran.study.d)
    for t in range(section["rounds"]):
        there = names if t < without else names[:-1]
        X = np.vstack([ran.data[name].X for name in there])
        y = np.concatenate([ran.data[name].y for name in there])
        own = (_slope(ran.case.loss, y * (X @ w)) * y)[:, None] * X
        own = own * np.minimum(1.0, C / np.maximum(np.linalg.norm(own, axis=1), 1e-300))[:, None]
        drawn = noise[: len(there), t if t < without else t + 1].sum(axis=0)
        w = w - eta * ((own.sum(axis=0) + drawn) / N + ran.case.Lambda * w)
    return w


# --- Pathak, Rane and Raj: the mean of local classifiers ------------------------------------------


def smallest(ran: Ran) -> int:
    """The place of the party with the fewest records; of several, the one that the tie permutation puts first.

    Its rank stands below the size in what each party has split into two shares.
    """
    sizes = [sum(ran.drawn(name, "size shares")) % 2**33 for name in ran.names]
    ranks = [size % 2 ** math.ceil(math.log2(len(sizes))) for size in sizes]
    return min(range(len(sizes)), key=lambda j: (ran.n[j], ranks[j]))


def size_class(ran: Ran) -> tuple[int, int]:
    """The smallest party's class k, and N_k, with which it begins: min_records 2^(k/4), rounded down."""
    least, floor = int(ran.n.min()), ran.case.min_records
    begins = [math.floor(floor * 2 ** (k / 4) + 1e-9) for k in range(100)]
    k = max(k for k, begin in enumerate(begins) if begin <= least)
    return k, begins[k]


def _local_aggregation(ran: Ran) -> Array:
    own = np.array([minimiser("logistic", d.X, d.y, ran.case.Lambda) for d in ran.data.values()])
    chosen, K = ran.study.protocol, len(own)
    if not ran.study.proven:  # K eta of the smallest party, over K
        return np.asarray((own.sum(axis=0) + ran.by_party("noise", 2.0**32)[smallest(ran)]) / K)
    if chosen.get("weights") == "sizes":
        return np.asarray((ran.n @ own + ran.by_party("noise", 2.0**40).sum(axis=0)) / ran.n.sum())
    label = "noise" if chosen.get("scale") == "floor" else f"noise of class {size_class(ran)[0]}"
    return np.asarray((own.sum(axis=0) + ran.by_party(label, 2.0**40).sum(axis=0)) / K)


# --- Kang, Liu and Wang: local descents, weighted by size -----------------------------------------


def _weighted(ran: Ran) -> Array:
    """With next to no noise: descents in the clear. With noise: the local classifiers that the stores hold."""
    section = ran.study.protocol
    by_size = section.get("weights", "sizes") == "sizes"
    weights = ran.n / ran.n.sum() if by_size else np.full(len(ran.n), 1 / len(ran.n))
    if not quiet(ran):
        local = ran.by_party("local descent", 2.0**28) / (ran.n[:, None] if by_size else 1.0)
        return weights @ local
    ends = []
    for data in ran.data.values():
        theta = np.zeros(ran.study.d)
        for _ in range(section["rounds"]):
            mean = gradient(ran.case.loss, data.X, data.y, theta) / len(data.y)
            theta = theta - section["learning_rate"] * (mean + ran.case.Lambda * theta)
        ends.append(theta)
    return weights @ np.array(ends)


def quiet(ran: Ran) -> bool:
    """Whether the study's noise is far below the grid, so that a descent can be computed without it."""
    return bool(ran.study.protocol.get("c", 1.0) < 1e-20)


# --- Bixler: descents on noisy copies ----------------------------------------------------------------


def _input_noise(ran: Ran) -> Array:
    """The local classifiers that the stores hold, weighted by size; no store holds the noise in them."""
    weights: Array = ran.n / ran.n.sum() @ ran.by_party("classifier", 2.0**28)
    return weights


# --- Hamm, Cao and Belkin: votes -----------------------------------------------------------------------


def _votes(ran: Ran) -> Array:
    """Local classifiers vote at the auxiliary points; one classifier learns from the votes."""
    assert ran.auxiliary is not None
    case, A, C = ran.case, ran.auxiliary.X, ran.case.classes or 2
    counts = np.zeros((len(A), C))
    for data in ran.data.values():
        if case.classes:
            W = softmax_minimiser(data.X, np.eye(C)[data.y.astype(int)], case.Lambda)
            votes = (A @ W.T).argmax(axis=1)
        else:
            votes = (A @ minimiser(case.loss, data.X, data.y, case.Lambda) >= 0).astype(int)
        counts += np.eye(C)[votes]
    if ran.study.proven:
        noise = ran.by_party("noise", 2.0**10).sum(axis=0).reshape(len(A), -1)
        if C == 2:  # one counter at each point: of the positive label, or of the class that stands first
            noisy = counts[:, [0 if case.classes else 1]] + noise
            rest = len(ran.n) - noisy
            counts = np.hstack([noisy, rest] if case.classes else [rest, noisy])
        else:
            noisy = counts + noise
            counts = noisy + (len(ran.n) - noisy.sum(axis=1, keepdims=True)) / C
        counts = np.maximum(counts, 0.0)
    alpha = counts / counts.sum(axis=1, keepdims=True)
    if case.protocol == "vote":
        winner = counts.argmax(axis=1) if case.classes else (counts[:, 1] >= counts[:, 0]).astype(int)
        alpha = np.eye(C)[winner]
    if case.classes:
        w = softmax_minimiser(A, alpha, case.Lambda).ravel()
    else:
        y = np.repeat((-1.0, 1.0), len(A))
        w = minimiser(case.loss, np.vstack([A, A]), y, case.Lambda, alpha.T.ravel())
    return w if ran.study.proven else w + np.array(ran.drawn(CHARLIE, "eta"), dtype=np.float64) / 2**40


# --- This program's own: dp-whitened and summary -------------------------------------------------------


def _whitened(ran: Ran) -> Array:
    """tests/whitened_oracle.py, with the numbers of each store in the order in which the sums take them."""
    plan, d, m = Plan(ran.study, int(ran.n.sum())), ran.study.d, ran.case.classes or 1
    drawn = ran.by_party("noise").sum(axis=0) / (SIGMA * math.sqrt(len(ran.n)))
    parts = {"products": drawn[: d * (d - 1) // 2], "others": drawn[d * (d - 1) // 2 :]}

    def take(which: str, count: int) -> Array:
        taken, parts[which] = np.split(parts[which], [count])
        return taken

    def noise(label: str, length: int) -> Array:
        pairs = d * (d - 1) // 2 if label == "second moments" else 0
        return np.concatenate([take("products", pairs), take("others", length - pairs)])

    X, y = ran.pooled
    Y = 2 * np.eye(m)[y.astype(int)] - 1 if ran.case.classes else y[:, None]
    weights, offsets = whitened(plan, X, Y, noise)
    return np.concatenate([weights.ravel(), offsets])


def _glm(ran: Ran) -> Array:
    """tests/glm_oracle.py, with the numbers of each store in the order in which the sums take them."""
    plan = GlmPlan(ran.study, int(ran.n.sum()))
    drawn = ran.by_party("noise").sum(axis=0)
    parts = dict(zip(("products", "others"), np.split(drawn, [plan.numbers_drawn[0]]), strict=True))

    def noise(_label: str, length: int, products: int) -> Array:
        taken = []
        for which, count in (("products", products), ("others", length - products)):
            first, parts[which] = np.split(parts[which], [count])
            taken.append(first)
        return np.concatenate(taken)

    X, y = ran.pooled
    weights, offset = glm(plan, X, (y + 1) / 2, noise)
    return np.append(weights, offset)


def counts_of(ran: Ran, name: str) -> Array:
    """One party's histograms, bin after bin, counted from its file: below, the cells, above, missing."""
    rows = np.genfromtxt(ran.files / f"{name}.csv", delimiter=",", skip_header=1)
    cells = ran.study.protocol["cells"]
    bins = []
    for column in rows[:, :-1].T:
        inside, _ = np.histogram(column, bins=np.linspace(-1, 1, cells + 1))
        bins += [0, *inside, 0, 0]
    positive = int((rows[:, -1] == 1).sum())
    return np.array([*bins, positive, len(rows) - positive, 0], dtype=np.float64)


_ORACLES: dict[str, Callable[[Ran], Array]] = {
    "psgd": _psgd,
    "noisy-gradient": _psgd,
    "decaying-budget": _psgd,
    "dp-gd": _dp_gd,
    "local-aggregation": _local_aggregation,
    "weighted-dp": _weighted,
    "input-noise": _input_noise,
    "vote": _votes,
    "soft": _votes,
    "dp-whitened": _whitened,
    "dp-glm": _glm,
}


def oracle_of(ran: Ran) -> Array:
    """Return the weights that this run must have released."""
    return _ORACLES[ran.case.protocol](ran)
