"""Panels: what a figure draws, as numbers. Each panel has the axes of the paper's."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

__all__ = ["Panel", "Series"]


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
