"""Records on a site's own Dask cluster: its workers read, hold and add them up; this process gets sums alone.

A part of the records is a future that this process holds, and the scheduler knows the task that made it. So where a
worker is lost, another one reads its parts again, and the sum under way is only later. Where the scheduler is lost,
this process submits everything again to the next one.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path
from typing import Any, Self

from numpy.typing import NDArray

from masquerade_core.data.addresses import Query
from masquerade_core.data.cluster import Cluster, tree
from masquerade_core.data.examining import examine
from masquerade_core.data.files import PARQUET, data_at
from masquerade_core.data.folders import open_folder
from masquerade_core.data.histograms import Counted, Grid
from masquerade_core.data.parquet import ParquetFile
from masquerade_core.data.parts import (
    CountsOf,
    Facts,
    FileOfRecords,
    Rows,
    Side,
    add_counts,
    add_up,
    count_part,
    facts_of,
    line_up,
    partials_of,
    read_part,
    sum_of,
)
from masquerade_core.data.records import ROWS, OfBlock, Records, Repaired, Whole, check_size, content_of
from masquerade_core.data.schema import Encoder, labels_of
from masquerade_core.data.tasks import Task
from masquerade_core.errors import BadInput, LocalProtocolError
from masquerade_core.study import Coding, Study

__all__ = ["DaskRecords", "count_cells"]

_PART_BYTES = 1 << 26  # of a part, encoded
_MOST_BLOCKS = 16  # of a part: as many records as pyarrow writes into a group, 2^20
_CELL = 4  # bytes of a place in a histogram
_PARTS = 64  # so many are enough to keep a site's workers busy


class _Held:
    """The parts of the records, on whatever workers there are."""

    def __init__(
        self, cluster: Cluster, tasks: Sequence[tuple[tuple[Rows, ...], int]], study: Study, coding: Coding
    ) -> None:
        self.cluster, self._tasks, self.study, self.encoder = cluster, tasks, study, Encoder.from_study(study, coding)
        self._client: Any = None
        self._futures: list[Any] = []

    def parts(self, client: Any) -> list[Any]:
        """Return the parts as futures; they are submitted where this client has none."""
        if client is not self._client:
            rows, starts = zip(*self._tasks, strict=True)
            coding = self.encoder.coding
            self._futures = client.map(Task(read_part), rows, starts, study=self.study, coding=coding, pure=False)
            self._client = client
        return self._futures

    def combined(self, of_part: Task, combine: Task, **named: Any) -> Any:
        """Return what comes of all parts: ``of_part`` of each, and neighbours combined, in the order of the parts."""

        def work(client: Any) -> Any:
            return tree(client, combine, client.map(of_part, self.parts(client), pure=False, **named))

        return self.cluster.result(work)


class DaskRecords(Records):
    """One party's records on the workers of a Dask cluster. They are secret, and so is their number.

    :meth:`read` makes them.
    """

    def __init__(self, held: _Held, n: int, repaired: Repaired, side: Side) -> None:
        self.classes, self.repaired = held.study.classes, repaired
        self._held, self._n, self._side = held, n, side
        self._dtype = held.encoder.dtype

    @classmethod
    def read(cls, cluster: Cluster, path: Path | str, study: Study, coding: Coding = "one-hot") -> Self:
        """Have the workers read and encode one party's records, and wait until they hold them.

        Parameters
        ----------
        cluster : Cluster
            It stays open as long as the records are in use.
        path : path
            A Parquet file, or a folder of them, which all workers find under this path.
        study : Study
        coding : Coding
            What the records become.

        Raises
        ------
        BadInput
            The records cannot be used as they are, here or on a worker.
        RefusedLocally
            There are fewer records than the study's ``min_records``, or more than it allows.
        RunFailed
            The cluster was lost.
        """
        encoder, labels = Encoder.from_study(study, coding), labels_of(study)
        files = _files(path, (*encoder.columns, labels.name))
        n = _count(files, path, study)
        held = _Held(cluster, _cut(files, n, encoder.d * encoder.dtype.itemsize), study, coding)
        with _told_whole(path, study):
            facts: Facts = held.combined(Task(facts_of), Task(facts_of))
            labels.texts |= facts.texts
            if labels.refused:
                raise BadInput(f"the labels {labels.name!r} do not fit the study", "'masquerade data check' says why")
            return cls(held, n, facts.repaired, Side())

    @property
    def coding(self) -> Coding:
        """Whether the records lie in the unit ball, or are the covariates of a regression."""
        return self._held.encoder.coding

    @property
    def n(self) -> int:
        """The number of records."""
        return self._side.count(self._n)

    @property
    def d(self) -> int:
        """The number of a record's coordinates."""
        return self._held.encoder.d

    def total(self, f: OfBlock) -> NDArray[Any]:
        """Return the exact sum of f over all blocks, added up by the workers in a tree."""
        total: NDArray[Any] = self._held.combined(Task(sum_of), Task(add_up), f=f, side=self._side)
        return total

    def partials(self, f: OfBlock) -> Iterator[NDArray[Any]]:
        """Return f of each block, in the order of the blocks."""
        yield from self._held.combined(Task(partials_of), Task(line_up), f=f, side=self._side)

    def content(self) -> Iterator[Any]:
        """Return what a ledger's fingerprint is made of: hashes of all blocks; of a single one, the block itself."""
        if self._side.share:
            raise LocalProtocolError("a ledger knows all records of a source, and not one side of them")
        if self.n > ROWS:
            return content_of((), (), self, self._dtype)
        (whole,) = self.partials(Whole())
        return content_of([whole[:, :-1].astype(self._dtype)], [whole[:, -1]], self, self._dtype)

    def sides(self, share: float) -> tuple[Self, Self]:
        """Return the records to learn from, and the part of this share that is held back. Both share the workers'."""
        if self._side.share:
            raise LocalProtocolError("records of which some are held back were to be split once more")
        return self._of(Side(share)), self._of(Side(share, held_back=True))

    def _of(self, side: Side) -> Self:
        return type(self)(self._held, self._n, Repaired(), side)


@contextmanager
def _told_whole(path: Path | str, study: Study) -> Iterator[None]:
    """Let an error name all faults of all records, where those of one part, or of all labels together, were found."""
    try:
        yield
    except BadInput as error:
        found = error
    else:
        return
    raise examine(path, study).refused or found  # outside of the handler: one error is enough


def count_cells(cluster: Cluster, path: Path | str, study: Study, grid: Grid) -> Counted:
    """Have the workers count one party's records in the bins of a grid; they hold no record.

    Raises
    ------
    BadInput
        The records cannot be used as they are, here or on a worker.
    RefusedLocally
        There are fewer records than the study's ``min_records``, or more than it allows.
    RunFailed
        The cluster was lost.
    """
    files = _files(path, grid.columns)
    n = _count(files, path, study)
    parts = [rows for rows, _ in _cut(files, n, _CELL * len(grid.columns))]

    def work(client: Any) -> Any:
        return tree(client, Task(add_counts), client.map(Task(count_part), parts, grid=grid, pure=False))

    found: CountsOf = cluster.result(work)
    return Counted(n, grid, found.counts, found.digests)


def _files(path: Path | str, wanted: Sequence[str]) -> list[FileOfRecords]:
    """Return the files of records in their order."""
    found = data_at(path)
    if isinstance(found, Query) or not (found.is_dir() or found.suffix.lower() in PARQUET):
        raise BadInput(
            f"{found.name} is neither a Parquet file nor a folder of them, which is all that a Dask cluster reads",
            "write the records as Parquet, or leave --dask out",
        )
    if found.is_dir():
        return [FileOfRecords.at(each.resolve()) for each in open_folder(found, wanted).files]
    ParquetFile(found).find(wanted)
    return [FileOfRecords.at(found.resolve())]


def _count(files: Sequence[FileOfRecords], path: Path | str, study: Study) -> int:
    """Return how many records there are, if they are enough and not too many."""
    n, name = sum(file.n for file in files), Path(path).name
    if not n:
        raise BadInput(f"{name} has column names but no records", "write the records into it")
    check_size(n, study, name)
    return n


def _cut(files: Sequence[FileOfRecords], n: int, width: int) -> list[tuple[tuple[Rows, ...], int]]:
    """Cut records of this width in bytes into parts of whole blocks: the rows of each, and the place of the first."""
    blocks = math.ceil(n / ROWS)
    fit = max(1, _PART_BYTES // (ROWS * width))
    size = ROWS * min(fit, _MOST_BLOCKS, math.ceil(blocks / _PARTS))
    ends = list(accumulate(file.n for file in files))
    return [(tuple(_rows(files, ends, start, min(start + size, n))), start) for start in range(0, n, size)]


def _rows(files: Sequence[FileOfRecords], ends: Sequence[int], start: int, end: int) -> Iterator[Rows]:
    for file, last in zip(files, ends, strict=True):
        first = last - file.n
        if start < last and first < end:
            yield Rows(file, max(start, first) - first, min(end, last) - first)
