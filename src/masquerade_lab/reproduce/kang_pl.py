"""Kang, Liu and Wang, Theorem 3: a loss that is not convex, and the Polyak-Lojasiewicz condition checked numerically.

The paper has no such experiment. A function L satisfies the condition if |grad L|^2 >= 2 mu (L - L*) everywhere, for
some mu > 0 and the least value L*. Nothing proves it here: the largest such mu is computed wherever a descent was.
"""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit

from masquerade_core.learning.losses import SIGMOID
from masquerade_core.rng import SimulationRng
from masquerade_lab.reproduce.engine.draws import normals
from masquerade_lab.reproduce.engine.judging import Mean, judged, reference
from masquerade_lab.reproduce.engine.report import Panel, Report, Row, Series
from masquerade_lab.reproduce.engine.tasks import RunTasks, Task
from masquerade_lab.reproduce.kang_runs import Cells, Setting, Split, folders, joined, sigma, stored

__all__ = ["LAMBDA", "figure_pl", "setting_of"]

LAMBDA = 1e-3  # without a penalty the least value is at infinity, and no mu > 0 fits
EPSILONS = (0.25, 0.5, 1.0, 2.0)
_BANDED = (0.5, 1.0)
"""Twice such an epsilon is a point too, and has half of the noise."""
_ROUNDS, _PARTITIONS, _STARTS, _FAR = 200, 20, 20, 5.0
_SMOOTH = float(SIGMOID.c) + LAMBDA
_NEAR = 1e-9  # so near the minimum, a ratio is rounding

_SHAPE = "PL: the shape of the objective"
_GAPS = "PL: gap after T rounds, eps = {:g}"
_BOUND = "PL: Theorem 3's bound, with the mu that was found on the path"
_NOTE = (
    "The loss is the sigmoid of the margin, which is not convex, with the penalty (Lambda/2) |theta|^2. G = 1/4. BC's "
    "records, one descent on all of them: theta starts at 0 and goes T steps of 1/L along the noisy mean gradient, as "
    "Theorem 3 has it. L is the largest curvature."
)
_CHECKED = (
    "mu is the least |grad L|^2/(2 (L - L*)) over all points of all noisy descents, and over those of noiseless ones "
    "from random starts. It is a check at these points and no proof. The bands are those of another program."
)

_Array = NDArray[np.float64]


def setting_of(epsilon: float) -> Setting:
    """Return the setting, with G^2 = 1/16 in the place of c: the sigmoid's gradients are no longer than 1/4."""
    return Setting(m=1, epsilon=epsilon, c=float(SIGMOID.L) ** 2, rounds=_ROUNDS)


def _value(Z: _Array, theta: _Array) -> _Array:
    return np.asarray(expit(-Z @ theta).mean(axis=0) + LAMBDA / 2 * (theta**2).sum(axis=0))


def _gradient(Z: _Array, theta: _Array) -> _Array:
    return np.asarray(Z.T @ SIGMOID.derivative(Z @ theta) / len(Z) + LAMBDA * theta)


def _least_eigenvalue(Z: _Array, theta: _Array) -> float:
    hessian = (Z.T * SIGMOID.curvature(Z @ theta)) @ Z / len(Z) + LAMBDA * np.eye(len(theta))
    return float(np.linalg.eigvalsh(hessian)[0])


def _descend(Z: _Array, theta: _Array, sds: _Array, rng: SimulationRng | None, least: float) -> tuple[_Array, float]:
    """Return the gaps after T rounds, one for each column, and the least ratio on the way."""
    ratio = np.inf
    for _ in range(_ROUNDS):
        gap, gradient = _value(Z, theta) - least, _gradient(Z, theta)
        far = gap > _NEAR
        ratio = min(ratio, *((gradient**2).sum(axis=0)[far] / (2 * gap[far])))
        noise = 0.0 if rng is None else sds * normals(rng, theta.size).reshape(theta.shape)
        theta = theta - (gradient + noise) / _SMOOTH
    return _value(Z, theta) - least, float(ratio)


def descended(name: str, folder: Path, number: int, draws: int, seed: str) -> Cells:
    """Descend on one partition without noise and with each epsilon's.

    Returns
    -------
    dict of ndarray
        "none" and "eps = EPS", the gaps, shape (1, draws); and by name one number of shape (1,): the least ratio on
        the noisy paths and from random starts, the first gap, the least eigenvalue between theta* and -theta*, n and p.
    """
    split = Split.of(stored(name, folder), SimulationRng(seed, f"partition {number}"))
    Z, rng = split.Z, SimulationRng(seed, f"partition {number}, PL")
    start = np.zeros(Z.shape[1])
    found = minimize(
        lambda theta: float(_value(Z, theta)),
        start,
        jac=lambda theta: _gradient(Z, theta),
        options={"gtol": 1e-10, "maxiter": 10_000},
    )
    least = float(found.fun)
    sds = np.repeat([sigma(setting_of(eps), len(Z)) for eps in EPSILONS], draws)
    gaps, path = _descend(Z, np.zeros((len(start), len(sds))), sds, rng, least)
    still, _ = _descend(Z, start[:, None], np.zeros(1), None, least)
    far = _FAR * normals(rng, len(start) * _STARTS).reshape(len(start), _STARTS)
    _, starts = _descend(Z, far, np.zeros(_STARTS), None, least)
    bent = min(_least_eigenvalue(Z, share * found.x) for share in np.linspace(-1, 1, 21))
    cells = {f"eps = {eps:g}": gaps[i * draws : (i + 1) * draws][None] for i, eps in enumerate(EPSILONS)}
    numbers = {"path": path, "starts": starts, "first": float(_value(Z, start)) - least, "bent": bent}
    numbers |= {"n": float(len(Z)), "p": float(Z.shape[1])}
    return cells | {"none": still[None]} | {key: np.array([value]) for key, value in numbers.items()}


def figure_pl(draws: int, seed: int, run_tasks: RunTasks, data: Path | None) -> Report:
    """Return the tables and the panel of the loss that is not convex.

    Parameters
    ----------
    draws : int
        How many draws of the noise, for each of twenty partitions.
    seed : int
    run_tasks : callable
    data : path
        The directory with the folder of BC.

    Raises
    ------
    BadInput
        The folder is not there.
    """
    there, _ = folders(data, needed=("BC",))
    tasks = [
        Task(f"partition {number}", descended, ("BC", there["BC"], number, draws, f"{seed} BC"))
        for number in range(_PARTITIONS)
    ]
    found = joined(run_tasks(tasks))
    settings = {"Lambda": LAMBDA, "rounds": _ROUNDS, "epsilons": list(EPSILONS), "draws": draws, "seed": seed}
    return Report("kang", "pl", (_NOTE, _CHECKED), settings, [*_rows(found), *_bounds(found)], [_panel(found)])


def _rows(found: Cells) -> list[Row]:
    mu, far = float(found["path"].min()), float(found["starts"].min())
    rows = [
        Row(_SHAPE, "least eigenvalue of the Hessian", float(found["bent"].min()), note="below 0: not convex"),
        Row(_SHAPE, "mu on the noisy paths", mu, note="above 0: the condition holds there"),
        Row(_SHAPE, "mu from random starts, without noise", far, note="some are on a plateau"),
    ]
    for eps in _BANDED:
        values = found[f"eps = {eps:g}"]
        broken = {"no noise": found["none"], "half of the noise": found[f"eps = {2 * eps:g}"]}
        rows += judged(_GAPS.format(eps), "gap", values, reference("kang pl", f"gap, eps = {eps:g}"), broken)
    return rows


def _bound(found: Cells, epsilon: float) -> float:
    """Return (1 - mu/L)^T (L(theta_0) - L*) + p sigma^2/(2 mu), the last line of the theorem's proof."""
    mu, n, p = float(found["path"].min()), float(found["n"][0]), float(found["p"][0])
    noise = p * sigma(setting_of(epsilon), n) ** 2 / (2 * mu)
    return float((1 - mu / _SMOOTH) ** _ROUNDS * found["first"].mean() + noise)


def _bounds(found: Cells) -> list[Row]:
    rows = []
    for eps in EPSILONS:
        measured, bound = float(found[f"eps = {eps:g}"].mean()), _bound(found, eps)
        rows += [
            Row(_BOUND, f"eps = {eps:g}: measured", measured, Mean.of(found[f"eps = {eps:g}"]).error),
            Row(_BOUND, f"eps = {eps:g}: bound", bound, note=f"{bound / measured:.0f} times what was measured"),
        ]
    return rows


def _panel(found: Cells) -> Panel:
    each = [Mean.of(found[f"eps = {eps:g}"]) for eps in EPSILONS]
    series = (
        Series("gap after T rounds", EPSILONS, [one.mean for one in each], [one.error for one in each]),
        Series("Theorem 3", EPSILONS, [_bound(found, eps) for eps in EPSILONS], claimed=True),
    )
    level = (("no noise", float(found["none"].mean())),)
    return Panel("BC, sigmoid loss", "epsilon", "optimal gap", series, "log", "log", level)
