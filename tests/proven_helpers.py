"""Runs of local aggregation whose noise a proof needs, with small keys, and that noise worked out a second time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import optimize, stats

from masquerade_core.data.schema import Dataset
from masquerade_core.learning.erm import fit
from masquerade_core.privacy.samplers.discrete_gaussian import discrete_gaussian
from masquerade_core.rng import Rng
from masquerade_core.study import Study
from masquerade_protocols.local_aggregation import before_join
from masquerade_protocols.local_aggregation import joint_noise as jn
from masquerade_protocols.local_aggregation.public import JOINT_FRACTION_BITS
from tests.protocol_helpers import Run, make_study

SCALE_RULES = ("selected", "floor", "sizes")
SECTIONS = {"selected": 'scale = "selected"', "floor": 'scale = "floor"', "sizes": 'weights = "sizes"'}
GRID = 1 << JOINT_FRACTION_BITS

Vector = NDArray[np.float64]


def proven_study(
    K: int = 3,
    d: int = 4,
    rule: str = "selected",
    *,
    delta: float = 1e-5,
    colluders: int = 0,
    section: str | None = None,
    calibration: str = "proven",
    **kw: Any,
) -> Study:
    """A study of K parties p0 ... with calibration "proven", and one of the three scale rules."""
    text = make_study(K, d, **kw).to_toml()
    for old, new in (
        ("delta = 1e-05", f"delta = {delta}"),
        ("colluders = 0", f"colluders = {colluders}"),
        ('calibration = "paper"', f'calibration = "{calibration}"'),
        ('noise = "laplace"', SECTIONS[rule] if section is None else section),
    ):
        assert text.count(old) == 1
        text = text.replace(old, new)
    return Study.parse(text, in_memory=True)


def weights(study: Study, data: Mapping[str, Dataset]) -> list[Vector]:
    """Everybody's classifier."""
    return [np.array(fit(part.X, part.y, study.model.regularization)) for part in data.values()]


def encoded_sum(study: Study, data: Mapping[str, Dataset], rule: str = "selected") -> list[int]:
    """The sum of all classifiers on the grid, as it is before noise."""
    counts = [len(part.y) if rule == "sizes" else 1 for part in data.values()]
    rows = [jn.encode(w.tolist(), n) for w, n in zip(weights(study, data), counts, strict=True)]
    return [sum(column) for column in zip(*rows, strict=True)]


def opened_sum(r: Run) -> list[int]:
    """The opened sum, on the grid; for "sizes" read from the weights, whose 53 bits are enough for it."""
    if r.model.shares is not None:
        return list(r.total)
    n = sum(len(part.y) for part in r.data.values())
    return [round(Fraction(w) * n * GRID) for w in r.model.weights]


# --- How much noise, from closed forms and scipy alone -------------------------------------------------


def mu_by_scipy(epsilon: float, delta: float) -> float:
    """The mu at which Phi(-epsilon/mu + mu/2) - exp(epsilon) Phi(-epsilon/mu - mu/2) is delta."""

    def excess(mu: float) -> float:
        first, second = stats.norm.cdf(mu / 2 - epsilon / mu), stats.norm.cdf(-mu / 2 - epsilon / mu)
        return float(first - math.exp(epsilon) * second - delta)

    return float(optimize.brentq(excess, 1e-3, 50, xtol=1e-13))


def moved_by_scipy(n: int, Lambda: float) -> float:
    """How far one record of n moves a classifier: 2 sigma(R)/(n Lambda), or 2R if that is less; R by root searches."""
    peak = optimize.minimize_scalar(lambda m: -m / (1 + math.exp(m)), bounds=(0, 5), method="bounded")
    R = math.sqrt(-float(peak.fun) / Lambda)
    if float(peak.x) > R:
        R = float(optimize.brentq(lambda r: Lambda * r - 1 / (1 + math.exp(r)), 0, R))
    return min(2 / (1 + math.exp(-R)) / (n * Lambda), 2 * R)


def sd_by_scipy(study: Study, rule: str, n: int) -> float:
    """The standard deviation that any h shares must have together, in units of a weight (of n weights, for "sizes")."""
    counts = 1_000_000 if rule == "sizes" else 1  # times a classifier of so many records: n cancels
    moved = counts * moved_by_scipy(max(counts, n), study.model.regularization)
    return moved / mu_by_scipy(study.privacy.epsilon, study.privacy.delta)


# --- Noise that a test chooses ----------------------------------------------------------------------------


@contextmanager
def noise_times(patch: pytest.MonkeyPatch, times: Fraction) -> Iterator[None]:
    """Draw all noise with its sigma times this; 0 switches it off."""

    def scaled(rng: Rng, sigma: Fraction, size: int) -> list[int]:
        return discrete_gaussian(rng, sigma * times, size) if times else [0] * size

    with patch.context() as inner:
        inner.setattr(jn, "discrete_gaussian", scaled)
        yield


def without_classifiers(patch: pytest.MonkeyPatch) -> None:
    """Make every classifier zero, so that the opened sum is noise and nothing else."""
    zero: Callable[[Dataset, float], Vector] = lambda records, _lam: np.zeros(records.d)  # noqa: E731
    patch.setattr(before_join, "fit_records", zero)
