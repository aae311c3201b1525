"""What was measured of ``dp-whitened`` and of central methods on one data set."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from masquerade_core.data.schema import Dataset
from masquerade_core.privacy.accounting.gaussian_dp import mu_of
from masquerade_lab.reproduce.bands import mean_and_error
from masquerade_lab.reproduce.dp_whitened_data import Benchmark

__all__ = ["Found", "Noise"]

_Array = NDArray[np.float64]
_At = tuple[str, float, int]


@dataclass
class Noise:
    """The noise that was added to the sums of the same place in each run.

    Parameters
    ----------
    squares : float
        The sum of the noise's squares, in units of how far a replaced record moves the sum at most. Those of products
        of two coordinates count twice.
    numbers : int
        How many numbers there were.
    """

    squares: float = 0.0
    numbers: int = 0


@dataclass
class Found:
    """What was measured on one data set.

    Parameters
    ----------
    benchmark : Benchmark
    N, d : int
        Training records, and coordinates of one.
    by : dict
        By method and epsilon, for each draw: the number of the split or of the draw, the error and the AUC.
    draws : dict
        By method and epsilon, for each draw: the squares and numbers of each sum's noise in turn, as in
        :class:`Noise`.
    apart : float
        How far the classifier of the real roles was from that in the clear.
    """

    benchmark: Benchmark
    N: int = 0
    d: int = 0
    by: defaultdict[tuple[str, float], list[tuple[int, float, float]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    draws: defaultdict[tuple[str, float], list[list[tuple[float, int]]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    apart: float = 0.0

    def note(self, at: _At, test: Dataset, w: Sequence[float] | _Array, offset: float = 0) -> None:
        """Add one classifier's error and AUC on test records; ``at`` has the method, epsilon and number."""
        method, epsilon, number = at
        scores = test.X @ np.asarray(w) + offset
        ranks, positive = rankdata(scores), test.y > 0
        pairs = positive.sum() * (~positive).sum()
        above = ranks[positive].sum() - positive.sum() * (positive.sum() + 1) / 2
        self.by[method, epsilon].append((number, float(np.mean((scores > 0) != positive)), float(above / pairs)))

    def parts(self) -> dict[str, Any]:
        """Return everything but the benchmark, as a task may return it."""
        return {"N": self.N, "d": self.d, "by": dict(self.by), "draws": dict(self.draws), "apart": self.apart}

    def add(self, parts: Mapping[str, Any]) -> None:
        """Add what was measured in another draw or split."""
        self.N, self.d, self.apart = parts["N"], parts["d"], self.apart + parts["apart"]
        for at, found in parts["by"].items():
            self.by[at] += found
        for at, drawn in parts["draws"].items():
            self.draws[at] += drawn

    def error(self, method: str, epsilon: float) -> tuple[float, float | None]:
        """Return the mean error and its standard error, None after a single draw."""
        return self._mean(method, epsilon, 1)

    def auc(self, method: str, epsilon: float) -> tuple[float, float | None]:
        """Return the mean AUC and its standard error, None after a single draw."""
        return self._mean(method, epsilon, 2)

    def _mean(self, method: str, epsilon: float, which: int) -> tuple[float, float | None]:
        values = np.array(self.by[method, epsilon])
        means = np.array([values[values[:, 0] == number, which].mean() for number in np.unique(values[:, 0])])
        return mean_and_error(means[:, None]) if len(means) > 1 else (float(means[0]), None)

    def best(self, method: str, epsilon: float) -> str:
        """Return the name of the method's best variant."""
        names = [name for name, at in self.by if at == epsilon and name.startswith(method)]
        return min(names, key=lambda name: self.error(name, epsilon)[0])

    def mu_kept(self, method: str, epsilon: float) -> float:
        """Return the mu that the measured noise of all sums together keeps, over that of the privacy target."""
        sums: list[Noise] = []
        for drawn in self.draws[method, epsilon]:
            sums += [Noise() for _ in drawn[len(sums) :]]
            for one, (squares, numbers) in zip(sums, drawn, strict=False):
                one.squares += squares
                one.numbers += numbers
        squared = sum(one.numbers / one.squares for one in sums)
        return sqrt(squared) / mu_of(epsilon, self.benchmark.delta)

    def strength(self, epsilon: float) -> float:
        """Return s."""
        return self.N * mu_of(epsilon, self.benchmark.delta) / sqrt(self.d)
