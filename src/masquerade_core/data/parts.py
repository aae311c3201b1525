"""Parts of one party's records, as a worker of a cluster reads them, holds them and adds them up.

A *part* is a run of whole blocks (:mod:`masquerade_core.data.records`). A worker reads it from the file itself: records
go through no other process, and where the worker is lost, another one reads the part again.
"""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from masquerade_core.data.blocks import records_of, source_of
from masquerade_core.data.files import Block, TextTable
from masquerade_core.data.histograms import Grid
from masquerade_core.data.loading import Reading
from masquerade_core.data.parquet import ParquetFile
from masquerade_core.data.records import ROWS, OfBlock, Repaired, are_held_back, exact_sum
from masquerade_core.data.schema import Encoder, WholeColumn, check_rows, labels_of
from masquerade_core.errors import BadInput, RunFailed
from masquerade_core.privacy.numbers import as_fraction
from masquerade_core.study import Coding, Study

__all__ = [
    "CountsOf",
    "Facts",
    "FileOfRecords",
    "Part",
    "Rows",
    "Side",
    "add_counts",
    "add_up",
    "count_part",
    "facts_of",
    "line_up",
    "partials_of",
    "read_part",
    "sum_of",
]


@dataclass(frozen=True, repr=False)
class FileOfRecords:
    """A Parquet file as it was when the records were first looked at.

    Parameters
    ----------
    path : Path
        The same on all machines.
    groups : tuple of int
        The number of records in each group of records.
    stamp : tuple of int
        The file's size, and the time of its last change.
    """

    path: Path
    groups: tuple[int, ...]
    stamp: tuple[int, int]

    @classmethod
    def at(cls, path: Path) -> Self:
        """Look at a file.

        Raises
        ------
        BadInput
            It cannot be used as it is.
        """
        groups = ParquetFile(path).groups
        found = path.stat()
        return cls(path, groups, (found.st_size, found.st_mtime_ns))

    @property
    def n(self) -> int:
        """The number of records."""
        return sum(self.groups)


@dataclass(frozen=True, repr=False)
class Rows:
    """Some records of a file, from ``start`` to before ``end``, counted from 0 in this file."""

    file: FileOfRecords
    start: int
    end: int

    def of(self, blocks: Iterator[Block]) -> Iterator[Block]:
        """Return these records among the blocks of the whole file, which are its groups of records."""
        first = 0
        for block, n in zip(blocks, self.file.groups, strict=True):
            rows = slice(max(self.start - first, 0), min(self.end - first, n))
            first += n
            if rows.start < rows.stop:
                yield Block(partial(_columns, block, rows), partial(_tables, block, rows))


def _columns(block: Block, rows: slice) -> Mapping[str, WholeColumn] | None:
    found = block.columns()
    return None if found is None else _Some(found, rows)


def _tables(block: Block, rows: slice) -> Iterator[TextTable]:
    at = 0
    for table in block.tables():
        n = len(table.numbers)
        some = slice(max(rows.start - at, 0), max(0, min(rows.stop - at, n)))
        at += n
        if some.start < some.stop:
            columns = {name: cells[some] for name, cells in table.columns.items()}
            yield replace(table, columns=columns, numbers=table.numbers[some])


class _Some(Mapping[str, WholeColumn]):
    """Some records of columns, each of which is read when it is asked for."""

    def __init__(self, whole: Mapping[str, WholeColumn], rows: slice) -> None:
        self._whole, self._rows = whole, rows

    def __getitem__(self, name: str) -> WholeColumn:
        return self._whole[name][self._rows]

    def __iter__(self) -> Iterator[str]:
        return iter(self._whole)

    def __len__(self) -> int:
        return len(self._whole)


@dataclass(frozen=True, repr=False)
class Side:
    """The records to learn from, or those held back; by default all.

    Parameters
    ----------
    share : float
        Of the records that are held back.
    held_back : bool
        Whether this side is that share.
    """

    share: float = 0.0
    held_back: bool = False

    def count(self, n: int) -> int:
        """Return how many of n records are on this side."""
        held = int(as_fraction(self.share) * n)
        return held if self.held_back else n - held

    def of(self, start: int, X: NDArray[Any], y: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the records of this side among some, of which the first has the place ``start``."""
        if not self.share:
            return X, y
        kept = are_held_back(len(y), self.share, start) == self.held_back
        return X[kept], y[kept]


@dataclass(frozen=True, repr=False)
class Facts:
    """A summary of one part, or of all of them, for the party's own process: it contains no record.

    Parameters
    ----------
    texts : frozenset of str
        The different labels of the file; none where the study clamps, which takes any label.
    repaired : Repaired
    """

    texts: frozenset[str] = frozenset()
    repaired: Repaired = field(default_factory=Repaired)

    def __add__(self, other: "Facts") -> "Facts":
        """Return what is known of two parts."""
        return Facts(self.texts | other.texts, self.repaired + other.repaired)


@dataclass(frozen=True, repr=False)
class Part:
    """Some whole blocks of records, encoded.

    Parameters
    ----------
    start : int
        The place of the first of them among all records.
    X : ndarray, shape (n, d)
    y : ndarray, shape (n,)
        Labels, in a type that takes little memory.
    facts : Facts
    """

    start: int
    X: NDArray[Any]
    y: NDArray[Any]
    facts: Facts

    def __sizeof__(self) -> int:
        """Return how many bytes the records take. A worker looks at it before it moves some to its disk."""
        return int(self.X.nbytes + self.y.nbytes)

    def blocks(self, side: Side) -> Iterator[tuple[NDArray[Any], NDArray[np.float64]]]:
        """Return the blocks of one side, in their order."""
        for first in range(0, max(1, len(self.y)), ROWS):
            X, y = side.of(self.start + first, self.X[first : first + ROWS], self.y[first : first + ROWS])
            yield X.astype(np.float64, copy=False), y.astype(np.float64)


def read_part(rows: tuple[Rows, ...], start: int, study: Study, coding: Coding = "one-hot") -> Part:
    """Read and encode a part; its records may lie in several files.

    Raises
    ------
    BadInput
        A file cannot be read here, or a cell does not fit and the study refuses such cells.
    RunFailed
        A file was changed since it was first looked at.
    """
    encoder, labels = Encoder.from_study(study, coding), labels_of(study)
    clamps, most = encoder.out_of_bounds == "clamp", sum(some.end - some.start for some in rows)
    reading = Reading(encoder, labels, np.empty((most, encoder.d), dtype=encoder.dtype))
    for some in rows:
        _check_unchanged(some.file)
        for block in some.of(records_of(some.file.path, encoder, labels, fills=clamps).blocks):
            reading.take(block)
    if reading.unfit:  # whoever asked says what is wrong, of all records
        raise BadInput("some records do not fit the study", "'masquerade data check' says which")
    check_rows(reading.X, coding)
    texts = frozenset[str]() if clamps else frozenset(labels.texts)
    return Part(start, reading.X, labels.numbers(), Facts(texts, reading.repaired + labels.repaired))


def _check_unchanged(file: FileOfRecords) -> None:
    if FileOfRecords.at(file.path) != file:
        raise RunFailed(
            f"{file.path.name} was changed since this run began, or differs on a worker of the Dask cluster",
            "give all workers the same files, leave them alone during a run, and start the run again",
        )


def facts_of(*parts: Part | Facts) -> Facts:
    """Return what is known of parts, or of several of them together."""
    return sum((part.facts if isinstance(part, Part) else part for part in parts), Facts())


def sum_of(part: Part, f: OfBlock, side: Side) -> NDArray[Any]:
    """Return the exact sum of f over a part's blocks."""
    return exact_sum(f(X, y) for X, y in part.blocks(side))


@dataclass(frozen=True, repr=False)
class CountsOf:
    """How many records have each place in histograms, and hashes of these places.

    Parameters
    ----------
    counts : tuple of int
    digests : tuple of bytes
    """

    counts: tuple[int, ...]
    digests: tuple[bytes, ...]


def count_part(rows: tuple[Rows, ...], grid: Grid) -> CountsOf:
    """Read a part and count; no record is held.

    Raises
    ------
    BadInput
        A file cannot be read here.
    RunFailed
        A file was changed since it was first looked at.
    """
    state, counts = hashlib.sha256(), np.zeros(len(grid), dtype=np.int64)
    for some in rows:
        _check_unchanged(some.file)
        for table in chain.from_iterable(
            block.tables() for block in some.of(source_of(some.file.path, (), grid.columns).blocks)
        ):
            cells = grid.place(table.columns)
            state.update(cells.places.data)
            counts += np.array(cells.counts())
    return CountsOf(tuple(counts.tolist()), (state.digest(),))


def add_counts(*parts: CountsOf) -> CountsOf:
    """Return the counts of parts that follow each other."""
    sums = tuple(map(sum, zip(*(part.counts for part in parts), strict=True)))
    return CountsOf(sums, tuple(chain.from_iterable(part.digests for part in parts)))


def partials_of(part: Part, f: OfBlock, side: Side) -> list[NDArray[Any]]:
    """Return f of each of a part's blocks."""
    return [f(X, y) for X, y in part.blocks(side)]


def add_up(*sums: NDArray[Any]) -> NDArray[Any]:
    """Return the exact sum of sums."""
    return exact_sum(iter(sums))


def line_up(*partials: list[NDArray[Any]]) -> list[NDArray[Any]]:
    """Return the partials of parts that follow each other."""
    return list(chain.from_iterable(partials))
