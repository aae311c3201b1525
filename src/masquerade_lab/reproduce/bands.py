"""What every reproduction returns: figures, their standard errors, and the bands in which they must lie."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from masquerade_lab.reproduce.measured import QUANTILE, Measured
from masquerade_lab.reproduce.panels import Panel

__all__ = ["POWER", "Report", "Row", "mean_and_error"]

POWER = 0.95
"""How often a broken variant must lie outside a band that was computed from draws."""


def mean_and_error(values: NDArray[np.float64]) -> tuple[float, float]:
    """Return the mean over everything, and the standard error of the data sets' means.

    Parameters
    ----------
    values : ndarray, shape (S, R)
        R draws of the noise for each of S >= 2 data sets. The standard error counts both: other data and other noise.
    """
    means = values.mean(axis=1)
    return float(means.mean()), float(means.std(ddof=1) / np.sqrt(len(means)))


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
