"""Bands that tell a right program from a broken one: computed from draws, with the chance that they are mistaken.

A *reference* is what another, independent program of a few lines reached. A band lies around its mean. It is wide
enough that a right program leaves it at most once in a thousand runs. A broken variant is caught if it leaves the band
in at least 95 % of its runs. Where draws are too few or noise too wide for that, a row says so and checks nothing.
"""

import csv
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from math import sqrt

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from masquerade_lab.reproduce.engine.report import Row

__all__ = ["FALSE_ALARM", "Mean", "Reference", "against", "band", "judged", "power", "reference", "variants"]

FALSE_ALARM = 0.001
"""How often a right program may leave a band."""

_Array = NDArray[np.float64]


@dataclass(frozen=True)
class Mean:
    """A mean of independent sets: other data, other noise.

    Parameters
    ----------
    mean, error : float
        The mean, and its standard error.
    sets : int
        How many sets there are; at least 2.
    """

    mean: float
    error: float
    sets: int

    @classmethod
    def of(cls, values: _Array) -> "Mean":
        """Return the mean over everything, of draws of shape (sets, draws) or (sets,)."""
        means = values.reshape(len(values), -1).mean(axis=1)
        return cls(float(means.mean()), float(means.std(ddof=1) / sqrt(len(means))), len(means))


Reference = Mean
"""The values that an independent program reached."""


def band(expected: Reference, sets: int) -> tuple[float, float]:
    """Return the range that the mean of so many new sets leaves with probability ``FALSE_ALARM``, if it is right.

    Both means scatter: the reference's, with the error that it has, and the new one, with the error that a mean of
    ``sets`` such sets has. The quantile is Student's, because the reference's error is estimated from its own sets.
    """
    quantile = float(stats.t.ppf(1 - FALSE_ALARM / 2, expected.sets - 1))
    half = quantile * expected.error * sqrt(1 + expected.sets / sets)
    return expected.mean - half, expected.mean + half


def power(edges: tuple[float, float], found: Mean) -> float:
    """Return the probability that another run of this variant lies outside the band."""
    if found.error == 0:
        return float(not edges[0] <= found.mean <= edges[1])
    below, above = stats.norm.cdf((np.array(edges) - found.mean) / found.error)
    return float(below + 1 - above)


def judged(
    table: str,
    name: str,
    values: _Array,
    expected: Reference | None,
    broken: Mapping[str, _Array],
    *,
    hidden: Collection[str] = (),
    note: str = "",
) -> list[Row]:
    """Return a quantity's row with its band, and a row for each broken variant.

    Parameters
    ----------
    table, name : str
    values : ndarray, shape (sets, draws)
    expected : Reference or None
        Without one, or with a single set, nothing is checked.
    broken : dict of ndarray
        The draws of programs with a known mistake, by what is wrong with them. The band must catch each of them, but
        for the hidden ones.
    hidden : collection of str
        The mistakes that this quantity cannot show. Their rows say how seldom the band would catch them.
    note : str
    """
    if len(values) < 2:  # noqa: PLR2004 - one set has no standard error
        return [Row(table, name, float(values.mean()), note=note)]
    if expected is None:
        found = Mean.of(values)
        return [Row(table, name, found.mean, found.error, note=note)]
    return against(table, name, values, band(expected, len(values)), broken, hidden=hidden, note=note)


def against(
    table: str,
    name: str,
    values: _Array,
    edges: tuple[float, float],
    broken: Mapping[str, _Array],
    *,
    hidden: Collection[str] = (),
    note: str = "",
) -> list[Row]:
    """Return the rows of :func:`judged` for a band that is given, such as one from a law that is known exactly."""
    found = Mean.of(values)
    own = Row(table, name, found.mean, found.error, *edges, note=note)
    return [own, *variants(table, name, edges, broken, hidden=hidden)]


def variants(
    table: str,
    name: str,
    edges: tuple[float, float],
    broken: Mapping[str, _Array],
    *,
    hidden: Collection[str] = (),
) -> list[Row]:
    """Return a row for each broken variant of a quantity with this band; the arguments are those of :func:`judged`.

    The hidden ones come last.
    """
    caught, unseen = [], []
    for mistake, draws in broken.items():
        wrong, called = Mean.of(draws), f"{name}: {mistake}"
        seen = power(edges, wrong)
        if mistake in hidden:
            unseen.append(Row(table, called, wrong.mean, wrong.error, note=f"not seen here: power {seen:.2f}"))
        else:
            caught.append(Row(table, called, wrong.mean, wrong.error, *edges, True, power=seen))
    return [*caught, *unseen]


def reference(figure: str, name: str) -> Reference | None:
    """Return what the independent program reached, or None if it has not run this.

    Parameters
    ----------
    figure : str
        The paper and the figure, such as "kang 1".
    name : str
        The quantity.
    """
    return _references().get((figure, name))


@cache
def _references() -> dict[tuple[str, str], Reference]:
    text = (resources.files("masquerade_lab.reproduce") / "references.csv").read_text(encoding="utf-8")
    return {
        (row["figure"], row["name"]): Reference(float(row["mean"]), float(row["error"]), int(row["sets"]))
        for row in csv.DictReader(text.splitlines())
    }
