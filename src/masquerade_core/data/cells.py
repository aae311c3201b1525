"""Records as places in histograms: for each column, the number of the bin that a record's cell belongs to.

This is what a protocol needs that counts values and learns no classifier. Every cell has a place, whatever it holds. A
number below or above the public range counts as "below" or "above". A value that is none of the public levels counts as
"other". A cell that is empty, or that is no number in a column of numbers, counts as "missing". So no record makes a
party refuse: a refusal would tell others something about that record.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from math import isnan
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from masquerade_core.data.schema import MISSING_WORDS, Column
from masquerade_core.data.tables import cell_text
from masquerade_core.errors import LocalProtocolError
from masquerade_core.study import Feature, Label, Study

__all__ = ["MISSING", "Cells", "Counted", "Grid", "Histogram"]

MISSING = "?"
"""The level of missing values, where a column has it: empty cells count as it."""


@dataclass(frozen=True)
class Histogram:
    """The bins of one column. They follow from the study, so they are public.

    Parameters
    ----------
    name : str
        The column.
    edges : tuple of float
        For a column of numbers: m growing edges. They make m + 1 bins: below the first edge, between each two, and
        above the last. A number on an edge belongs to the bin above it; on the last edge, to the bin below if
        ``bounded``.
    levels : tuple of str
        For a column of levels: one bin for each, and a bin for all other values.
    bounded : bool
        Whether the first and the last edge are the ends of the public range.

    Notes
    -----
    The last bin of every histogram counts missing cells.
    """

    name: str
    edges: tuple[float, ...] = ()
    levels: tuple[str, ...] = ()
    bounded: bool = True

    @classmethod
    def of_feature(cls, feature: Feature, cells: int) -> Self:
        """Return a column's bins; a public range without edges of its own is cut into ``cells`` equal cells."""
        if feature.levels is not None:
            return cls(feature.name, levels=feature.levels)
        low, high = feature.min, feature.max
        if low is None or high is None:
            return cls(feature.name, feature.edges or (), bounded=False)
        if feature.edges is not None:
            return cls(feature.name, (low, *feature.edges, high))
        inner = (low + (high - low) * (k / cells) for k in range(1, cells))
        return cls(feature.name, (low, *inner, high))

    @classmethod
    def of_label(cls, label: Label) -> Self:
        """Return the bins of the column to predict: its classes, or its positive value; all others count as other."""
        return cls(label.name, levels=label.classes or (label.positive or "",))

    def __len__(self) -> int:
        """Return the number of bins, that of missing cells included."""
        return len(self.levels or self.edges) + 2

    @property
    def inner(self) -> int:
        """How many bins values have that fit: those within the range, or those of the levels."""
        if self.levels:
            return len(self.levels)
        return len(self.edges) - 1 if self.bounded else len(self.edges) + 1

    def places(self, cells: Column) -> NDArray[np.int32]:
        """Return the number of each cell's bin.

        Parameters
        ----------
        cells : sequence
            Text as it would stand in a CSV file, or numbers, or truth values.
        """
        texts = (cell if isinstance(cell, str) else cell_text(cell) or "" for cell in cells)
        place = self._place_of_level if self.levels else self._place_of_number
        return np.fromiter(map(place, texts), dtype=np.int32, count=len(cells))

    @cached_property
    def _numbers_of_levels(self) -> dict[str, int]:
        return {level: i for i, level in enumerate(self.levels)}

    def _place_of_level(self, text: str) -> int:
        found = self._numbers_of_levels.get(text or MISSING)
        if found is not None:
            return found
        return len(self) - (1 if text.strip().lower() in MISSING_WORDS else 2)

    def _place_of_number(self, text: str) -> int:
        try:
            value = float("nan" if "_" in text else text)
        except ValueError:
            value = float("nan")
        if isnan(value):
            return len(self) - 1
        if self.bounded and value == self.edges[-1]:
            return len(self.edges) - 1
        return bisect_right(self.edges, value)


@dataclass(frozen=True)
class Grid:
    """The histograms of a study: one for each feature, in the order of the study, and the label's last."""

    histograms: tuple[Histogram, ...]

    @classmethod
    def from_study(cls, study: Study, cells: int) -> Self:
        """Return the histograms of a study; a public range is cut into ``cells`` equal cells."""
        own = (Histogram.of_feature(feature, cells) for feature in study.features)
        return cls((*own, Histogram.of_label(study.label)))

    def __len__(self) -> int:
        """Return the number of all bins."""
        return sum(map(len, self.histograms))

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that a file must have."""
        return tuple(histogram.name for histogram in self.histograms)

    def place(self, columns: Mapping[str, Column]) -> "Cells":
        """Return records by the bins of their cells; other columns are ignored."""
        places = [histogram.places(columns[histogram.name]) for histogram in self.histograms]
        return Cells(np.stack(places, axis=1), self)

    def split(self, counts: Sequence[Any]) -> tuple[tuple[Any, ...], ...]:
        """Return the part of each histogram in a vector of all counts."""
        if len(counts) != len(self):
            raise LocalProtocolError("the counts are not those of this study's histograms")
        ends = accumulate(map(len, self.histograms), initial=0)
        return tuple(tuple(counts[start:end]) for start, end in pairwise(ends))


@dataclass(frozen=True, repr=False, eq=False)
class Cells:
    """One party's records, by the bins of their cells. They are secret, and so is their number.

    Parameters
    ----------
    places : ndarray of int32, shape (n, H)
        For each record, the number of its bin in each of H histograms.
    grid : Grid

    Raises
    ------
    LocalProtocolError
        A place is none of its histogram's bins, so it did not come from the grid.
    """

    places: NDArray[np.int32]
    grid: Grid

    def __post_init__(self) -> None:
        """Check that each record is in exactly one bin of each histogram, and freeze the array."""
        widths = np.array([len(histogram) for histogram in self.grid.histograms])
        fit = self.places.ndim == 2 and self.places.shape[1] == len(widths)  # noqa: PLR2004
        if not fit or ((self.places < 0) | (self.places >= widths)).any():
            raise LocalProtocolError("a record has not one place in each histogram of the study")
        self.places.setflags(write=False)

    def __repr__(self) -> str:
        return "<Cells: secret>"

    @property
    def n(self) -> int:
        """The number of records, which is secret."""
        return len(self.places)

    def counts(self) -> tuple[int, ...]:
        """Return how many records each bin has, one histogram after the other."""
        parts = (
            np.bincount(column, minlength=len(histogram)).tolist()
            for column, histogram in zip(self.places.T, self.grid.histograms, strict=True)
        )
        return tuple(count for part in parts for count in part)


@dataclass(frozen=True, repr=False)
class Counted:
    """One party's records, of which this process knows nothing but the counts. They are secret.

    Parameters
    ----------
    n : int
        The number of records.
    grid : Grid
    found : tuple of int
        How many records each bin has, one histogram after the other.
    digests : tuple of bytes
        By which a ledger knows the records again.
    """

    n: int
    grid: Grid
    found: tuple[int, ...]
    digests: tuple[bytes, ...]

    def __repr__(self) -> str:
        return "<Counted: secret>"

    def counts(self) -> tuple[int, ...]:
        """Return how many records each bin has, as :meth:`Cells.counts` does."""
        return self.found
