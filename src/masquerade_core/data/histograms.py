"""Records as places in histograms: for each column, the number of the bin that a record's cell belongs to.

This is what a protocol needs that counts values and learns no classifier. Every cell has a place, whatever it holds. A
number below or above the public range counts as "below" or "above". A value that is none of the public levels counts as
"other". A cell that is empty, or that is no number in a column of numbers, counts as "missing". So no record makes a
party refuse: a refusal would tell others something about that record.

How records become places in histograms: in memory, or in a scratch file, where more of them fit.
"""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from math import isnan
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from masquerade_core.data.blocks import source_of
from masquerade_core.data.file_faults import Faults, no_records
from masquerade_core.data.files import MISSING_WORDS, Column, TextTable, cell_text, data_at, spelled
from masquerade_core.data.groups import row_groups
from masquerade_core.data.loaders import Loader
from masquerade_core.data.noting import note_broken
from masquerade_core.data.records import ROWS, check_size
from masquerade_core.data.sources import read_cells
from masquerade_core.data.streamed import Scratch
from masquerade_core.errors import BadInput, LocalProtocolError
from masquerade_core.study import Feature, Label, Study

__all__ = ["MISSING", "Cells", "Counted", "Grid", "Histogram", "StreamedCells", "cells_loader", "stream_cells"]


# --- Cells -----------------------------------------------------------------------

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
    loose : bool
        Whether capitals, and blanks around a cell, do not count where they leave one level only.

    Notes
    -----
    The last bin of every histogram counts missing cells.
    """

    name: str
    edges: tuple[float, ...] = ()
    levels: tuple[str, ...] = ()
    bounded: bool = True
    loose: bool = False

    @classmethod
    def of_feature(cls, feature: Feature, cells: int, *, loose: bool = False) -> Self:
        """Return a column's bins; a public range without edges of its own is cut into ``cells`` equal cells."""
        if feature.levels is not None:
            return cls(feature.name, levels=feature.levels, loose=loose)
        low, high = feature.min, feature.max
        if low is None or high is None:
            return cls(feature.name, feature.edges or (), bounded=False)
        if feature.edges is not None:
            return cls(feature.name, (low, *feature.edges, high))
        inner = (low + (high - low) * (k / cells) for k in range(1, cells))
        return cls(feature.name, (low, *inner, high))

    @classmethod
    def of_label(cls, label: Label, *, loose: bool = False) -> Self:
        """Return the bins of the column to predict: its classes, or its positive value; all others count as other."""
        return cls(label.name, levels=label.classes or (label.positive or "",), loose=loose)

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
        known = self._numbers_of_levels
        found = known.get(spelled(text or MISSING, known, loose=self.loose))
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
        loose = study.study.matching == "loose"
        own = (Histogram.of_feature(feature, cells, loose=loose) for feature in study.features)
        return cls((*own, Histogram.of_label(study.label, loose=loose)))

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
        return self._counts

    @cached_property
    def _counts(self) -> tuple[int, ...]:
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


# --- Cell loading ----------------------------------------------------------------

_PLACE = np.dtype(np.int32)


class StreamedCells:
    """One party's records, by the bins of their cells, in a scratch file. They are secret, and so is their number.

    Parameters
    ----------
    scratch : Scratch
        For each record, the number of its bin in each histogram.
    n : int
        The number of records.
    grid : Grid
    """

    in_scratch = True

    def __init__(self, scratch: Scratch, n: int, grid: Grid) -> None:
        self.n, self.grid, self._scratch = n, grid, scratch

    def __repr__(self) -> str:
        return "<StreamedCells: secret>"

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of all places."""
        return self.n, len(self.grid.histograms)

    def places(self) -> Iterator[NDArray[np.int32]]:
        """Return the places block by block; the next block takes the place of the one before."""
        block = np.empty((min(ROWS, self.n), self.shape[1]), dtype=_PLACE)
        for start in range(0, self.n, ROWS):
            part = block[: self.n - start]
            self._scratch.read(start * block.strides[0], part)
            yield part

    def counts(self) -> tuple[int, ...]:
        """Return how many records each bin has, as :meth:`Cells.counts` does."""
        return self._counts

    @cached_property
    def _counts(self) -> tuple[int, ...]:
        total = np.zeros(len(self.grid), dtype=np.int64)
        for part in self.places():
            total += np.array(Cells(part.copy(), self.grid).counts(), dtype=np.int64)
        return tuple(total.tolist())


def stream_cells(path: Path | str, grid: Grid, folder: Path | str) -> StreamedCells:
    """Read one party's records into a scratch file in a folder; they are those that memory would hold.

    Raises
    ------
    BadInput
        The file cannot be used as it is; nothing can be written to the folder, or its disk is full.
    """
    source = source_of(path, (), grid.columns, fills=True)
    faults = Faults(source.name, source.unit, signs=list(source.signs))
    if any(sign.final for sign in source.signs):
        faults.check()
    width, n = len(grid.histograms) * _PLACE.itemsize, 0
    scratch = Scratch(folder, source.most * width)
    for block in source.blocks:
        for table in block.tables():
            note_broken(table, faults, refused=True)
            places = grid.place(table.columns).places
            scratch.write(n * width, places)
            n += len(places)
    faults.check()
    if not n:
        raise no_records(source.name)
    scratch.shrink(n * width)
    return StreamedCells(scratch, n, grid)


def cells_loader(grid_of: Any) -> Loader:
    """Return the loader of a protocol that counts.

    Parameters
    ----------
    grid_of : callable
        (study) -> the study's :class:`Grid`.
    """

    def one(path: Path | str, study: Study) -> Cells:
        grid: Grid = grid_of(study)
        table = read_cells(path, grid.columns, fills=True)
        cells = grid.place(table.columns)
        check_size(cells.n, study, table.source)
        return cells

    def grouped(path: Path | str, study: Study, column: str) -> dict[str, Cells]:
        grid: Grid = grid_of(study)
        table = read_cells(path, tuple(dict.fromkeys((*grid.columns, column))), fills=True, keys=(column,))
        places = grid.place(table.columns).places
        groups = {value: Cells(places[rows], grid) for value, rows in row_groups(table, column).items()}
        for value, cells in groups.items():
            check_size(cells.n, study, _group(table, column, value))
        return groups

    def streamed(path: Path | str, study: Study, folder: Path | str) -> StreamedCells:
        cells = stream_cells(path, grid_of(study), folder)
        check_size(cells.n, study, data_at(path).name)
        return cells

    def check(data: object, study: Study, source: str, party: str = "") -> None:
        if not isinstance(data, Cells | Counted | StreamedCells) or data.grid != grid_of(study):
            raise BadInput(
                f"{source} are not sorted into this study's bins, but {study.study.protocol} counts cells",
                "load the records with load_split or load_named, which read them as the study's protocol needs them",
            )
        check_size(data.n, study, source, party)
        data.counts()  # now, and not after the join: how long it takes tells whether many records lie in one bin

    return Loader(one, grouped, check, streamed=streamed, grid_of=grid_of)


def _group(table: TextTable, column: str, value: str) -> str:
    return f"{table.source}, where {column} is {value!r}"
