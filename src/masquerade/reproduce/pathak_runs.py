"""Local aggregation on Adult's records as the paper splits them, without encryption, with the protocol's noise.

Nothing here is a protocol: one process sees all records, and the noise comes from a seed.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from masquerade_core.crypto.shares import random_permutation
from masquerade_core.learning.erm import error_rate, fit
from masquerade_core.privacy.noise.output_perturbation import paper_scale
from masquerade_core.privacy.samplers.discrete_laplace import discrete_laplace
from masquerade_core.rng import Rng, SimulationRng
from masquerade_protocols.local_aggregation.public import FRACTION_BITS

__all__ = [
    "BROKEN",
    "CURVES",
    "SPLITS",
    "Curve",
    "K",
    "Records",
    "Setting",
    "averages",
    "noise",
    "run",
    "sizes",
    "w_star",
]

K = 5
EVERYBODY = "w*"
SPLITS = {"even": None, "15%": Fraction(15, 100), "10%": Fraction(10, 100)}
"""The smallest party's fraction of all records; None where all parties have as many."""

_ROW_NORM = math.sqrt(14)  # Adult has 14 attributes, and a record at most one 1 for each

_Array = NDArray[np.float64]


@dataclass(frozen=True, repr=False)
class Records:
    """Training and test records with rows as in the file, 0 and 1."""

    X: _Array
    y: _Array
    X_test: _Array
    y_test: _Array

    def scaled(self, *, unit: bool) -> "Records":
        """Return rows in the unit ball, or as they are."""
        return Records(self.X / _ROW_NORM, self.y, self.X_test / _ROW_NORM, self.y_test) if unit else self

    def error(self, w: _Array) -> float:
        """Return the error rate on the test records."""
        return error_rate(self.X_test, self.y_test, w)


@dataclass(frozen=True)
class Setting:
    """What the curves of one table share.

    Parameters
    ----------
    lam : float
        The paper's lambda.
    unit : bool
        Whether rows lie in the unit ball, as the paper's theorems ask, or have norms up to sqrt 14.
    epsilons : tuple of float
        Rising.
    """

    lam: float
    unit: bool
    epsilons: tuple[float, ...]

    @property
    def strong_convexity(self) -> float:
        """Lambda, the coefficient of (1/2) ||w||^2."""
        return 2 * self.lam

    @property
    def name(self) -> str:
        """The name that the tables use."""
        return f"lambda = {self.lam:g}, {'unit' if self.unit else 'raw'} rows"


@dataclass(frozen=True)
class Curve:
    """Which classifier, and how much noise for it.

    Parameters
    ----------
    trained : str
        ``EVERYBODY`` for one classifier from all records, or the split whose classifiers are averaged.
    drawn : str
        The split whose smallest party draws the noise; for ``EVERYBODY``, all records count as one party's.
    divided : int
        The number that divides the noise after it was drawn; 1 in the paper.
    inverse : bool
        Whether the noise is drawn for 1/epsilon, which is wrong.
    """

    trained: str
    drawn: str
    divided: int = 1
    inverse: bool = False


CURVES = {"w* + eta": Curve(EVERYBODY, EVERYBODY)} | {split: Curve(split, split) for split in SPLITS}
BROKEN = {
    "eta/K": Curve("even", "even", divided=K),
    "n/K for n_(1)": Curve("10%", "even"),
    "1/eps for eps": Curve("10%", "10%", inverse=True),
}


def sizes(n: int, split: str) -> tuple[int, ...]:
    """Return how many records the five parties have: three a fifth each, one the smallest part, one the rest."""
    fifth, smallest = n // K, SPLITS[split]
    least = fifth if smallest is None else math.floor(n * smallest)
    return (fifth, fifth, fifth, least, n - 3 * fifth - least)


def w_star(records: Records, setting: Setting) -> _Array:
    """Train on everybody's records at once."""
    return fit(records.X, records.y, setting.strong_convexity)


def averages(records: Records, Lambda: float, seed: str) -> dict[str, _Array]:
    """Deal the records at random and average the parties' classifiers, for each split.

    Three parties have the same records in all splits, so the splits are compared on one partition.
    """
    n = len(records.y)
    order = np.array(random_permutation(SimulationRng(seed, "partition"), n))

    @cache
    def trained(a: int, b: int) -> _Array:
        return fit(records.X[order[a:b]], records.y[order[a:b]], Lambda)

    found = {}
    for split in SPLITS:
        ends = np.cumsum((0, *sizes(n, split))).tolist()
        found[split] = np.mean([trained(a, b) for a, b in pairwise(ends)], axis=0)
    return found


def noise(rng: Rng, curve: Curve, n: int, epsilon: float, Lambda: float, d: int) -> _Array:
    """Draw eta, of scale 2/(n_(1) epsilon lambda) for each coordinate.

    As in the protocol, P times eta is drawn at once for P parties, on the grid of 2^-F.
    """
    P, size = (1, n) if curve.drawn == EVERYBODY else (K, min(sizes(n, curve.drawn)))
    unit = Fraction(P << FRACTION_BITS)
    drawn = discrete_laplace(rng, unit * paper_scale(size, 1 / epsilon if curve.inverse else epsilon, Lambda), d)
    return np.array(drawn, dtype=np.float64) / float(unit) / curve.divided


def run(
    records: Records,
    setting: Setting,
    curves: Mapping[str, Curve],
    partitions: int,
    draws: int,
    seed: int,
    step: Callable[[], None],
) -> dict[tuple[str, float], _Array]:
    """Return the test errors of every curve at every epsilon, and of every split's average without noise.

    Parameters
    ----------
    records : Records
        Scaled as the setting says.
    partitions, draws : int
        Random partitions, and draws of the noise for each of them.
    step : callable
        Called after each partition.

    Returns
    -------
    dict of ndarray, shape (partitions, draws)
        By curve and epsilon; epsilon is inf where there is no noise, for which one draw suffices.
    """
    n, d = records.X.shape
    central = w_star(records, setting)
    collected: defaultdict[tuple[str, float], list[list[float]]] = defaultdict(list)
    for number in range(partitions):
        label = f"pathak-2010 {seed} {number}"
        w = {EVERYBODY: central} | averages(records, setting.strong_convexity, label)
        for split in SPLITS:
            collected[split, math.inf].append([records.error(w[split])])
        for name, curve in curves.items():
            rng = SimulationRng(label, f"{setting.name} {name}")
            for epsilon in setting.epsilons:
                etas = [noise(rng, curve, n, epsilon, setting.strong_convexity, d) for _ in range(draws)]
                collected[name, epsilon].append([records.error(w[curve.trained] + eta) for eta in etas])
        step()
    return {name: np.array(values) for name, values in collected.items()}
