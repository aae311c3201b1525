"""The results of every reproduction: figures with their bands, the points drawn, and bounds next to measurements."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from masquerade_core.learning.theorems import FAILURE

__all__ = [
    "POWER",
    "QUANTILE",
    "Measured",
    "Panel",
    "Report",
    "Row",
    "Series",
    "mean_and_error",
    "measured",
]

POWER = 0.95
"""How often a broken variant must lie outside a band that was computed from draws."""


QUANTILE = f"{1 - FAILURE:.0%} quantile".replace("%", " %")
"""Of the draws: a bound that holds with probability 1 - ``FAILURE`` promises that this quantile does not exceed it."""


def mean_and_error(values: NDArray[np.float64]) -> tuple[float, float]:
    """Return the mean over everything, and the standard error of the data sets' means.

    Parameters
    ----------
    values : ndarray, shape (S, R)
        R draws of the noise for each of S >= 2 data sets. The standard error counts both: other data and other noise.
    """
    means = values.mean(axis=1)
    return float(means.mean()), float(means.std(ddof=1) / np.sqrt(len(means)))


# --- Rows ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """One figure.

    Parameters
    ----------
    table, name : str
        The table to which the figure belongs, and the quantity that it measures.
    value : float
    error : float, optional
        Its standard error; None for a figure that is computed and not measured.
    low, high : float, optional
        The band, ends included; None where it is open. If both are None, the figure is shown and not checked.
    broken : bool
        Whether this is a variant known to be wrong. It must lie outside the band, or the band proves nothing.
    note : str
    power : float, optional
        The probability that this broken variant's next run lies outside the band; it must be at least ``POWER``.
    """

    table: str
    name: str
    value: float
    error: float | None = None
    low: float | None = None
    high: float | None = None
    broken: bool = False
    note: str = ""
    power: float | None = None

    @property
    def banded(self) -> bool:
        """Whether this figure is checked."""
        return self.low is not None or self.high is not None

    def inside(self, widened: float = 0.0) -> bool:
        """Return whether the figure lies in its band, widened on both sides by so many standard errors."""
        more = widened * (self.error or 0.0)
        above = self.low is None or self.value >= self.low - more
        return above and (self.high is None or self.value <= self.high + more)

    @property
    def holds(self) -> bool:
        """Whether this figure is where it must be; a broken variant outside, and not by luck."""
        if self.broken and self.power is not None and self.power < POWER:
            return False
        return not self.banded or self.inside() != self.broken

    @property
    def verdict(self) -> str:
        """The result of the check, in a word."""
        if not self.banded:
            return ""
        where = "within" if self.inside() else "outside"
        if self.broken:
            likely = "" if self.power is None else f", power {_floored(self.power)}"
            return f"{where}: {'caught' if self.holds else 'NOT CAUGHT'}{likely}"
        return where if self.holds else where.upper()

    @property
    def band(self) -> str:
        """The band in words."""
        if self.low is not None and self.high is not None:
            low, high = _short(self.low), _short(self.high)
            if low == high and self.low < self.high:  # too narrow for four digits
                low, high = f"{self.low:.3g}", f"{self.high:.3g}"
            return f"{low} to {high}"
        if self.low is not None:
            return f">= {_short(self.low)}"
        return "" if self.high is None else f"<= {_short(self.high)}"

    @property
    def shown(self) -> str:
        """The number in words."""
        return _four_digits(self.value)

    @property
    def shown_error(self) -> str:
        """The standard error in words."""
        return "" if self.error is None else _four_digits(self.error)

    def to_json(self) -> dict[str, Any]:
        """Return the fields of this figure."""
        return {
            "table": self.table,
            "name": self.name,
            "value": float(self.value),  # numpy's numbers and truth values are none of JSON's
            "standard_error": _number(self.error),
            "low": _number(self.low),
            "high": _number(self.high),
            "broken_variant": self.broken,
            "inside": bool(self.inside()) if self.banded else None,
            "holds": bool(self.holds) if self.banded else None,
            "power": _number(self.power),
            "note": self.note,
        }


def _number(x: float | None) -> float | None:
    return None if x is None else float(x)


def _four_digits(x: float) -> str:
    """Four digits behind the point; a number that would vanish so, but for the error of floats, by its power of ten."""
    return f"{x:.1e}" if 1e-12 < abs(x) < 5e-5 else f"{x:.4f}"  # noqa: PLR2004


def _floored(chance: float) -> str:
    return f"{int(chance * 1000) / 1000:.3f}"


def _short(x: float) -> str:
    return f"{x:.4f}".rstrip("0").rstrip(".")


# --- What is drawn ---------------------------------------------------------------------


@dataclass(frozen=True)
class Series:
    """One curve.

    Parameters
    ----------
    name : str
    x, y : sequence of float
    error : sequence of float, optional
        The standard error of each y.
    claimed : bool
        Whether these numbers are the paper's own words, and not computed here.
    """

    name: str
    x: Sequence[float]
    y: Sequence[float]
    error: Sequence[float] | None = None
    claimed: bool = False

    @classmethod
    def of(cls, name: str, x: Sequence[float], draws: Iterable[NDArray[np.float64]]) -> Self:
        """Return a curve of means with their standard errors; ``draws`` has an array for each x, of shape (S, R)."""
        pairs = [mean_and_error(values) for values in draws]
        return cls(name, x, [mean for mean, _ in pairs], [error for _, error in pairs])


@dataclass(frozen=True)
class Panel:
    """One pair of axes.

    Parameters
    ----------
    title, x_label, y_label : str
    series : sequence of Series
    x_scale, y_scale : str
    reference : tuple of (str, float)
        Levels to which the curves are compared, such as the error of the more frequent label; drawn as thin lines.
    """

    title: str
    x_label: str
    y_label: str
    series: Sequence[Series]
    x_scale: Literal["linear", "log"] = "linear"
    y_scale: Literal["linear", "log"] = "linear"
    reference: tuple[tuple[str, float], ...] = ()


# --- Theorems ---------------------------------------------------------------------------


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


# --- The whole ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Report:
    """The tables of one figure of one paper.

    Parameters
    ----------
    paper, figure : str
    notes : sequence of str
        How the figures were made, in sentences.
    settings : dict
        The values on which they depend.
    rows : sequence of Row
    panels : sequence of Panel
        What is drawn.
    theorems : sequence of Measured
        The paper's bounds beside what was measured.
    """

    paper: str
    figure: str
    notes: Sequence[str]
    settings: dict[str, Any]
    rows: Sequence[Row]
    panels: Sequence[Panel] = ()
    theorems: Sequence[Measured] = ()

    @property
    def checked(self) -> tuple[Row, ...]:
        """The figures with a band; a theorem's bound is the band of what was measured."""
        bounded = (
            Row("theorems", f"{one.name}: {QUANTILE}", one.quantile, None, None, one.bound) for one in self.theorems
        )
        return (*(row for row in self.rows if row.banded), *bounded)

    @property
    def failed(self) -> tuple[Row, ...]:
        """The figures that are not where they must be."""
        return tuple(row for row in self.checked if not row.holds)

    def tables(self) -> dict[str, tuple[Row, ...]]:
        """Return the figures by their tables."""
        return {name: tuple(rows) for name, rows in groupby(self.rows, lambda row: row.table)}

    def to_json(self) -> dict[str, Any]:
        """Return everything as JSON values."""
        return {
            "paper": self.paper,
            "figure": self.figure,
            "notes": list(self.notes),
            "settings": self.settings,
            "rows": [row.to_json() for row in self.rows],
            "theorems": [one.to_json() for one in self.theorems],
        }
