"""Records from a CSV or Parquet file, as a study describes them.

A file is read block by block. Only a block with a fault is read cell by cell. From then on reading goes on for the sake
of the error alone, which says all faults of the file. It names columns and places. Errors end in logs, so they never
show a cell or the number of records. Records of one class are read like all others: whether a party takes part must not
tell what its records say.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from masquerade_core.data.blocks import Block, Source, source_of
from masquerade_core.data.faults import Faults
from masquerade_core.data.groups import row_groups
from masquerade_core.data.labels import Labels
from masquerade_core.data.queries import data_at
from masquerade_core.data.records import Records
from masquerade_core.data.schema import Dataset, Encoder, Repaired
from masquerade_core.data.sources import read_cells
from masquerade_core.data.streamed import Room, Streamed
from masquerade_core.data.tables import TextTable, no_records, note_broken
from masquerade_core.errors import BadInput, RefusedLocally
from masquerade_core.study import Study

__all__ = [
    "POINTS",
    "Loader",
    "Reading",
    "check_cells",
    "check_size",
    "load_csv",
    "load_grouped",
    "load_records",
    "records_of",
    "row_groups",
    "stream_csv",
]


def load_csv(path: Path | str, study: Study, *, need_label: bool = True) -> Dataset:
    """Read one party's records and their labels.

    Parameters
    ----------
    path : path
        A CSV or Parquet file. Columns beyond the study's are ignored; their order is free.
    study : Study
        It gives the features, their bounds and levels, the label and the fewest records.
    need_label : bool
        False for a public test set, which may have any number of records.

    Raises
    ------
    BadInput
        The file cannot be used as it is.
    RefusedLocally
        There are fewer records than the study's ``min_records``, or more than it allows.
    """
    labels = Labels(study)
    X, repaired = _read(path, Encoder.from_study(study), labels)
    dataset = Dataset(X, labels.finish(), study.classes, repaired + Repaired(filled=labels.filled))
    if need_label:
        check_size(len(dataset.y), study, data_at(path).name)
    return dataset


def stream_csv(path: Path | str, study: Study, folder: Path | str) -> Streamed:
    """Read one party's records and their labels into a scratch file in a folder; they are those of :func:`load_csv`.

    Raises
    ------
    BadInput
        The file cannot be used as it is; nothing can be written to the folder, or its disk is full.
    RefusedLocally
        There are fewer records than the study's ``min_records``, or more than it allows.
    """
    labels = Labels(study)
    with Room(folder) as room:
        _, repaired = _read(path, Encoder.from_study(study), labels, room)
        y = labels.numbers()
        check_size(len(y), study, data_at(path).name)
        return room.records(y, study.classes, repaired + Repaired(filled=labels.filled))


def load_records(path: Path | str, encoder: Encoder) -> NDArray[np.float64]:
    """Read records without labels, and return the encoded matrix of shape (n, d).

    Raises
    ------
    BadInput
        The file cannot be used as it is.
    """
    return _read(path, encoder, None)[0]


def load_grouped(path: Path | str, study: Study, column: str) -> dict[str, Dataset]:
    """Read one file with all parties' records, for a simulation: a data set for each value of ``column``.

    Returns
    -------
    dict of str to Dataset
        In the order in which the values first appear.

    Raises
    ------
    BadInput
        The file cannot be used as it is.
    RefusedLocally
        A group has fewer records than the study's ``min_records``, or more than it allows.
    """
    encoder = Encoder.from_study(study)
    wanted = tuple(dict.fromkeys((*encoder.columns, study.label.name, column)))
    table = read_cells(path, wanted, fills=encoder.out_of_bounds == "clamp", keys=(column,))
    groups = row_groups(table, column)
    X, labels, faults = np.empty((len(table.numbers), encoder.d)), Labels(study), Faults(table.source, table.unit)
    encoder.encode_into(X, table.columns, table.places(faults.source), faults)
    labels.take(table, faults)
    labels.note(faults)
    faults.check()
    y = labels.finish()
    datasets = {}
    for value, rows in groups.items():
        source = f"{table.source}, where {column} is {value!r}"
        dataset = Dataset(X[rows], y[rows], study.classes)
        check_size(len(dataset.y), study, source)
        datasets[value] = dataset
    return datasets


def records_of(
    path: Path | str, encoder: Encoder, labels: Labels | None, *, fills: bool, small: bool = False
) -> Source:
    """Return the columns that records are made of, block by block; ``fills`` and ``small`` as in :func:`source_of`."""
    numbers = [f.name for f in encoder.features if f.levels is None]
    others = [f.name for f in encoder.features if f.levels is not None]
    return source_of(path, numbers, others + ([labels.name] if labels else []), fills=fills, small=small)


def _read(
    path: Path | str, encoder: Encoder, labels: Labels | None, room: Room | None = None
) -> tuple[NDArray[np.float64], Repaired]:
    """Return all records of a file. Memory holds their matrix, if there is no room for it on a disk, and one block."""
    source = records_of(path, encoder, labels, fills=encoder.out_of_bounds == "clamp", small=room is not None)
    faults = Faults(source.name, source.unit, signs=list(source.signs))
    if any(sign.final for sign in source.signs):
        faults.check()
    # The system gives memory only to the rows that are written.
    if room is None:
        X = np.empty((source.about, encoder.d), encoder.dtype)
    else:
        X = room.matrix(source.most, encoder.d, encoder.dtype)
    reading = Reading(encoder, labels, faults, X)
    for block in source.blocks:
        if room is not None:
            room.filled(reading.n)
        if not reading.takes_whole(block):
            reading.take_cells(block)
    if room is not None:
        room.filled(reading.n)
    if labels is not None:
        labels.note(faults)
    faults.check()
    if not reading.n:
        raise no_records(source.name)
    return reading.X[: reading.n], reading.repaired


@dataclass
class Reading:
    """The records of a file, or of a part of it, while they are read.

    Parameters
    ----------
    encoder : Encoder
    labels : Labels or None
    faults : Faults
    X : ndarray, shape (some, d)
        Room for records.
    n : int
        How many records were taken.
    repaired : Repaired
    """

    encoder: Encoder
    labels: Labels | None
    faults: Faults
    X: NDArray[np.float64]
    n: int = 0
    repaired: Repaired = field(default_factory=Repaired)

    def takes_whole(self, block: Block) -> bool:
        """Take a block column by column; returns whether that could be done, and nothing in it is faulty."""
        if (found := block.columns()) is None:
            return False
        if self.faults.unit == "line":
            self._make_room(len(found[self.encoder.columns[0]]))
        whole = self.encoder.encode_whole(self.X[self.n :], found)
        if whole is None or not (self.labels is None or self.labels.take_whole(found)):
            return False
        self.n, self.repaired = self.n + whole[0], self.repaired + whole[1]
        self.faults.records += whole[0]
        return True

    def take_cells(self, block: Block) -> None:
        """Take a block cell by cell, and note its faults."""
        for found in block.tables():
            note_broken(found, self.faults, refused=True)
            table = found.whole()
            end = self.n + len(table.numbers)
            self._make_room(len(table.numbers))
            places = table.places(self.faults.source)
            self.repaired += self.encoder.encode_into(self.X[self.n : end], table.columns, places, self.faults)
            if self.labels is not None:
                self.labels.take(table, self.faults)
            self.n = end

    def _make_room(self, more: int) -> None:
        """Copy the records into a larger matrix, if this one has no room for some more."""
        if self.n + more > len(self.X):
            larger = np.empty((2 * (self.n + more), self.X.shape[1]), self.X.dtype)
            larger[: self.n] = self.X[: self.n]
            self.X = larger


def check_cells(table: TextTable, study: Study) -> None:
    """Check that a study refuses no cell of a table in the columns of its features.

    Raises
    ------
    BadInput
        It refuses some; the error says all of them, and shows none.
    """
    encoder, faults = Encoder.from_study(study), Faults(table.source, table.unit)
    encoder.encode_into(np.empty((len(table.numbers), encoder.d)), table.columns, table.places(faults.source), faults)
    faults.check()


def check_size(n: int, study: Study, source: str, party: str = "") -> None:
    """Check that one party's records are neither too few nor too many for a study.

    A party that refuses because of its size tells of its size alone, and never of what a record says.

    Parameters
    ----------
    n : int
        The number of the records.
    study : Study
    source : str
        Names the records in the error; how many there are is secret, and is not said.
    party : str
        The party's name, where it is known: it may have a largest number of its own.

    Raises
    ------
    RefusedLocally
        There are fewer records than the study's ``min_records``, or more than its ``max_records``.
    """
    floor = study.study.min_records
    if n < floor:
        raise RefusedLocally(
            f"{source} has fewer records than the study's min_records, {floor}",
            "take part with more records, or ask the coordinator for a study with a smaller min_records",
        )
    most = study.most_of(party) if party else study.max_records
    if n > most:
        raise RefusedLocally(
            f"{source} has more than {most:,} records, the most that a party may have in this study",
            "take part with fewer records, or ask the coordinator for a study with a larger max_records",
        )


# --- What a protocol needs --------------------------------------------------------


@dataclass(frozen=True)
class Loader:
    """How a protocol reads records, and what it makes of them.

    Parameters
    ----------
    one : callable
        (path, study) -> one party's records.
    grouped : callable
        (path, study, column) -> all parties' records by name, from one file in which ``column`` has the names.
    check : callable
        (records, study, source, party): raises BadInput or RefusedLocally for records that do not fit the study;
        ``source`` names them. ``party`` is their owner's name, and may be left out.
    streamed : callable or None
        (path, study, folder) -> one party's records, read into a scratch file in a folder.
    grid_of : callable or None
        (study) -> the bins in which records are counted, where that is all that a protocol needs of them.
    """

    one: Callable[[Path | str, Study], Any]
    grouped: Callable[[Path | str, Study, str], dict[str, Any]]
    check: Callable[..., None]
    streamed: Callable[[Path | str, Study, Path | str], Any] | None = None
    grid_of: Callable[[Study], Any] | None = None


def _check_points(data: Any, study: Study, source: str, party: str = "") -> None:
    """Refuse records that a party's own process would refuse, or could not have loaded."""
    if not isinstance(data, Records):
        raise BadInput(
            f"{source} are no encoded records, but {study.study.protocol} learns from those",
            "load the records with load_split or load_named, which read them as the study's protocol needs them",
        )
    if (found := data.d) != study.d:
        raise BadInput(
            f"{source}: each record has {found} coordinates, but the study's records have {study.d}",
            "encode the records with Encoder.from_study(study), or load them with load_split or load_named",
        )
    if data.classes != study.classes:
        raise BadInput(
            f"{source}: the labels are of {data.classes or 'two unnamed'} classes, but the study's are of "
            f"{study.classes or 'two unnamed'}",
            "make the Dataset with classes=study.classes",
        )
    check_size(data.n, study, source, party)


POINTS = Loader(load_csv, load_grouped, _check_points, stream_csv)
"""Records as vectors in the unit ball, with labels: what a classifier is learned from."""
