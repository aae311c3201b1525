"""A theorem's bound beside what was measured of the same quantity."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from masquerade_core.learning.theorems import FAILURE

__all__ = ["QUANTILE", "Measured", "measured"]

QUANTILE = f"{1 - FAILURE:.0%} quantile".replace("%", " %")
"""Of the draws: a bound that holds with probability 1 - ``FAILURE`` promises that this quantile does not exceed it."""


@dataclass(frozen=True)
class Measured:
    """One theorem.

    Parameters
    ----------
    name : str
        The theorem, and on what it was measured.
    bound : float
        The paper's.
    mean, error : float
        Of all draws, and its standard error.
    quantile : float
        See ``QUANTILE``. Beyond the bound, it fails the figure.
    draws : int
    """

    name: str
    bound: float
    mean: float
    error: float
    quantile: float
    draws: int

    @property
    def ratio(self) -> float | None:
        """The bound over the mean; None where nothing was measured above 0."""
        return self.bound / self.mean if self.mean > 0 else None

    def to_json(self) -> dict[str, Any]:
        """Return all fields and the ratio as JSON values."""
        return {
            "theorem": self.name,
            "bound": self.bound,
            "mean": self.mean,
            "standard_error": self.error,
            "quantile": self.quantile,
            "draws": self.draws,
            "ratio": self.ratio,
        }


def measured(name: str, bound: float, values: NDArray[np.float64]) -> Measured:
    """Return a bound beside these draws, of shape (S, R): R draws for each of S >= 2 data sets or partitions."""
    means = values.mean(axis=1)
    error = float(means.std(ddof=1) / np.sqrt(len(means)))
    return Measured(name, bound, float(means.mean()), error, float(np.quantile(values, 1 - FAILURE)), values.size)
