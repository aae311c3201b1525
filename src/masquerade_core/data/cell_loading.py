"""How records become places in histograms: in memory, or in a scratch file, where more of them fit."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from masquerade_core.data.blocks import source_of
from masquerade_core.data.cells import Cells, Counted, Grid
from masquerade_core.data.faults import Faults
from masquerade_core.data.groups import row_groups
from masquerade_core.data.loaders import Loader
from masquerade_core.data.queries import data_at
from masquerade_core.data.records import ROWS, check_size
from masquerade_core.data.scratch import Scratch
from masquerade_core.data.sources import read_cells
from masquerade_core.data.tables import TextTable, no_records, note_broken
from masquerade_core.errors import BadInput
from masquerade_core.study import Study

__all__ = ["StreamedCells", "cells_loader", "stream_cells"]

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

    return Loader(one, grouped, check, streamed=streamed, grid_of=grid_of)


def _group(table: TextTable, column: str, value: str) -> str:
    return f"{table.source}, where {column} is {value!r}"
