"""Local aggregation on Adult's records as the paper splits them, without encryption, with the protocol's noise.

Nothing here is a protocol: one process sees all records, and the noise comes from a seed.
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, lru_cache
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from masquerade_core.crypto.shares import random_permutation
from masquerade_core.learning.erm import error_rate, fit, predict_labels
from masquerade_core.privacy.noise.output_perturbation import paper_scale
from masquerade_core.privacy.samplers.discrete_laplace import discrete_laplace
from masquerade_core.rng import Rng, SimulationRng
from masquerade_lab.originals import a9a
from masquerade_protocols.local_aggregation.public import FRACTION_BITS

__all__ = [
    "CURVES",
    "HALF",
    "SPLITS",
    "Errors",
    "K",
    "Records",
    "Setting",
    "alone",
    "averages",
    "joined",
    "mistaken",
    "noise",
    "run",
    "sizes",
    "stored",
    "w_star",
]

K = 5
EVERYBODY = "w*"
SPLITS = {"even": None, "15%": Fraction(15, 100), "10%": Fraction(10, 100)}
"""The smallest party's fraction of all records; None where all parties have as many."""

_ROW_NORM = math.sqrt(14)  # Adult has 14 attributes, and a record at most one 1 for each

_Array = NDArray[np.float64]
Errors = list[tuple[str, float, _Array]]
"""Curve, epsilon, and test errors of shape (partitions, draws)."""


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

    def errors(self, w: _Array) -> _Array:
        """Return the error rates of classifiers that are columns; shape (R,)."""
        return np.asarray((predict_labels(self.X_test, w) != self.y_test[:, None]).mean(axis=0))


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


CURVES = {"w* + eta": EVERYBODY} | {split: split for split in SPLITS}
"""The classifier of each curve: that of all records, or a split's average. As for the noise, all records count as one
party's."""

HALF = "half of the noise"


def mistaken(curve: str, n: int, epsilon: float) -> dict[str, float]:
    """Return the noise of programs with a known mistake, as a multiple of a curve's own noise.

    Each mistake is in the noise's scale alone, and the law is the same.
    """
    found = {HALF: 0.5, "lambda for Lambda in the noise": 2.0, "1/eps for eps": epsilon**2}
    if curve in SPLITS:
        found["eta/K"] = 1 / K
    if SPLITS.get(curve) is not None:
        found["n/K for n_(1)"] = min(sizes(n, curve)) / (n // K)
    return found


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


def noise(rng: Rng, curve: str, n: int, epsilon: float, Lambda: float, d: int) -> _Array:
    """Draw a curve's eta, of scale 2/(n_(1) epsilon lambda) for each coordinate.

    As in the protocol, P times eta is drawn at once for P parties, on the grid of 2^-F.
    """
    P, size = (1, n) if CURVES[curve] == EVERYBODY else (K, min(sizes(n, curve)))
    unit = Fraction(P << FRACTION_BITS)
    drawn = discrete_laplace(rng, unit * paper_scale(size, epsilon, Lambda), d)
    return np.array(drawn, dtype=np.float64) / float(unit)


@lru_cache(maxsize=1)
def stored(directory: Path) -> Records:
    """Read a9a and a9a.t, and keep them for the next task of this process."""
    return Records(*a9a(directory))


def run(
    source: Records | Path, setting: Setting, mistakes: Sequence[str], numbers: Sequence[int], draws: int, seed: int
) -> Errors:
    """Return the test errors of every curve at every epsilon, and of every split's average without noise.

    Parameters
    ----------
    source : Records or path
        Rows as in the file, or the directory that holds the files.
    mistakes : sequence of str
        Which of :func:`mistaken` to compute too. Their curves are named "CURVE: MISTAKE".
    numbers : sequence of int
        Which random partitions. Each has its own streams.
    draws : int
        Draws of the noise for each of them. Each draw is followed, after all others, by its mirror image, which has the
        same law: the two together scatter less than two draws.

    Returns
    -------
    list of (str, float, ndarray)
        Curve, epsilon, and errors of shape (partitions, 2 draws). Epsilon is inf where there is no noise, for which one
        classifier suffices.
    """
    records = (source if isinstance(source, Records) else stored(source)).scaled(unit=setting.unit)
    n, d = records.X.shape
    central = w_star(records, setting)
    collected: defaultdict[tuple[str, float], list[list[float]]] = defaultdict(list)
    for number in numbers:
        label = f"pathak-2010 {seed} {number}"
        w = averages(records, setting.strong_convexity, label) | {EVERYBODY: central}
        for name, trained in CURVES.items():
            collected[name, math.inf].append([records.error(w[trained])])
            rng = SimulationRng(label, f"{setting.name} {name}")
            for epsilon in setting.epsilons:
                drawn = [noise(rng, name, n, epsilon, setting.strong_convexity, d) for _ in range(draws)]
                etas = np.transpose([*drawn, *(-eta for eta in drawn)])
                known = mistaken(name, n, epsilon)
                scales = {name: 1.0} | {
                    f"{name}: {mistake}": known[mistake] for mistake in mistakes if mistake in known
                }
                noisy = np.hstack([w[trained][:, None] + scale * etas for scale in scales.values()])
                found = np.split(records.errors(noisy), len(scales))
                for one, values in zip(scales, found, strict=True):
                    collected[one, epsilon].append(values.tolist())
    return [(name, epsilon, np.array(values)) for (name, epsilon), values in collected.items()]


def alone(source: Records | Path, setting: Setting) -> tuple[float, float, float, int]:
    """Return what w* does without noise.

    Returns
    -------
    tuple
        Its error; how many test records it answers with yes; the error of a wrong one, which takes the paper's lambda
        for Lambda; and the number of training records.
    """
    records = (source if isinstance(source, Records) else stored(source)).scaled(unit=setting.unit)
    w = w_star(records, setting)
    positive = float(np.sum(predict_labels(records.X_test, w) > 0))
    return records.error(w), positive, records.error(fit(records.X, records.y, setting.lam)), len(records.y)


def joined(found: Sequence[Errors]) -> dict[tuple[str, float], _Array]:
    """Return the partitions of several tasks together, by curve and epsilon."""
    values: defaultdict[tuple[str, float], list[_Array]] = defaultdict(list)
    for errors in found:
        for name, epsilon, each in errors:
            values[name, epsilon].append(each)
    return {key: np.concatenate(arrays) for key, arrays in values.items()}
