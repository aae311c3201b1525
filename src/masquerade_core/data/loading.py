"""Records from a CSV or Parquet file, as a study describes them.

A file is read block by block. Only a record with a fault is read cell by cell. From then on reading goes on for the
sake of the error alone, which says all faults of the file. It names columns and places. Errors end in logs, so they
never show a cell or the number of records. Records of one class are read like all others: whether a party takes part
must not tell what its records say.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from masquerade_core.data.blocks import no_records, note_broken, source_of
from masquerade_core.data.file_faults import Faults
from masquerade_core.data.files import Block, Source, TextTable, data_at
from masquerade_core.data.records import Records, check_size, copy_rows
from masquerade_core.data.schema import (
    Covariates,
    Dataset,
    Encoder,
    Labels,
    NumberLabels,
    Repaired,
    WholeColumn,
    labels_of,
)
from masquerade_core.errors import BadInput
from masquerade_core.study import Coding, Study

if TYPE_CHECKING:
    from masquerade_core.data.streamed import Room, Streamed

__all__ = [
    "Reading",
    "check_points",
    "load_csv",
    "load_records",
    "note_some",
    "records_of",
    "stream_csv",
]


def load_csv(path: Path | str, study: Study, *, need_label: bool = True, coding: Coding = "one-hot") -> Dataset:
    """Read one party's records and their labels.

    Parameters
    ----------
    path : path
        A CSV or Parquet file. Columns beyond the study's are ignored; their order is free.
    study : Study
        It gives the features, their bounds and levels, the label and the fewest records.
    need_label : bool
        False for a public test set, which may have any number of records.
    coding : Coding
        What the records become.

    Raises
    ------
    BadInput
        The file cannot be used as it is.
    RefusedLocally
        There are fewer records than the study's ``min_records``, or more than it allows.
    """
    labels = labels_of(study)
    X, repaired = _read(path, Encoder.from_study(study, coding), labels, most=study.max_records if need_label else None)
    made = Covariates if coding == "treatment" else Dataset
    dataset = made(X, labels.finish(), study.classes, repaired + labels.repaired)
    if need_label:
        check_size(len(dataset.y), study, data_at(path).name)
    return dataset


def stream_csv(path: Path | str, study: Study, folder: Path | str, coding: Coding = "one-hot") -> "Streamed":
    """Read one party's records and their labels into a scratch file in a folder; they are those of :func:`load_csv`.

    Raises
    ------
    BadInput
        The file cannot be used as it is; nothing can be written to the folder, or its disk is full.
    RefusedLocally
        There are fewer records than the study's ``min_records``, or more than it allows.
    """
    from masquerade_core.data.streamed import Room

    labels = labels_of(study)
    with Room(folder, coding) as room:
        _, repaired = _read(path, Encoder.from_study(study, coding), labels, room, study.max_records)
        y = labels.numbers()
        check_size(len(y), study, data_at(path).name)
        return room.records(y, study.classes, repaired + labels.repaired)


def load_records(path: Path | str, encoder: Encoder) -> NDArray[np.float64]:
    """Read records without labels, and return the encoded matrix of shape (n, d).

    Raises
    ------
    BadInput
        The file cannot be used as it is.
    """
    return _read(path, encoder, None)[0]


def records_of(
    path: Path | str, encoder: Encoder, labels: Labels | None, *, fills: bool, small: bool = False
) -> Source:
    """Return the columns that records are made of, block by block; ``fills`` and ``small`` as in :func:`source_of`."""
    numbers = [f.name for f in encoder.features if f.levels is None]
    others = [f.name for f in encoder.features if f.levels is not None]
    if labels is not None:
        (numbers if isinstance(labels, NumberLabels) else others).append(labels.name)
    return source_of(path, numbers, others, fills=fills, small=small)


def _read(
    path: Path | str,
    encoder: Encoder,
    labels: Labels | None,
    room: "Room | None" = None,
    most: int | None = None,
) -> tuple[NDArray[np.float64], Repaired]:
    """Return all records of a file. Memory holds their matrix, if there is no room for it on a disk, and one block.

    Where there are more than ``most``, it returns some more than that, and the caller refuses them.
    """
    source = records_of(path, encoder, labels, fills=encoder.out_of_bounds == "clamp", small=room is not None)
    faults = Faults(source.name, source.unit, signs=list(source.signs))
    if any(sign.final for sign in source.signs):
        faults.check()
    # The system gives memory only to the rows that are written.
    X = encoder.matrix(source.about) if room is None else room.matrix(source.most, encoder.d, encoder.dtype)
    reading = Reading(encoder, labels, faults, X)
    for block in source.blocks:
        if room is not None:
            room.filled(reading.n)
        reading.take(block)
        if most is not None and reading.n > most:
            break
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

    def take(self, block: Block) -> None:
        """Take a block column by column, and its faulty records cell by cell; all records where that must be."""
        if (columns := block.columns()) is None or not self._takes_whole(block, columns):
            self._take_cells(block.tables())

    def _takes_whole(self, block: Block, columns: Mapping[str, WholeColumn]) -> bool:
        if self.faults.unit == "line":
            self._make_room(len(columns[self.encoder.columns[0]]))
        X = self.X[self.n :]
        n, repaired, rows = self.encoder.encode_whole(X, columns)
        labels = None if self.labels is None else columns[self.labels.name]
        if self.labels is not None and labels is not None:
            rows = np.union1d(rows, self.labels.rows_to_note(labels))
        if len(rows):
            if (table := block.some(rows.tolist(), n)) is None:
                return False
            note_some(X, rows, table, self.encoder, self.labels, self.faults)
        if self.labels is not None and labels is not None:
            self.labels.take_whole(labels)
        self.n, self.repaired = self.n + n, self.repaired + repaired
        self.faults.records += n - len(rows)
        return True

    def _take_cells(self, tables: Iterable[TextTable]) -> None:
        for found in tables:
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
            larger = self.encoder.matrix(2 * (self.n + more))
            copy_rows(self.X[: self.n], larger[: self.n])
            self.X = larger


def note_some(
    X: NDArray[np.float64],
    rows: NDArray[np.intp],
    table: TextTable,
    encoder: Encoder,
    labels: Labels | None,
    faults: Faults,
) -> None:
    """Encode some rows of X anew, from their cells, and note their faults and those of their labels."""
    exact = encoder.matrix(len(rows))
    encoder.encode_into(exact, table.columns, table.places(faults.source), faults)
    X[rows] = exact
    if labels is not None:
        labels.note_cells(table, faults)


def check_points(data: Any, study: Study, source: str, party: str = "", coding: Coding = "one-hot") -> None:
    """Refuse records that a party's own process would refuse, or could not have loaded."""
    if not isinstance(data, Records) or data.coding != coding:
        raise BadInput(
            f"{source} are not {_CODINGS[coding]}, which {study.study.protocol} learns from",
            "load the records with load_split or load_named, which read them as the study's protocol needs them",
        )
    wanted = study.d if coding == "one-hot" else len(study.covariates)
    if (found := data.d) != wanted:
        raise BadInput(
            f"{source}: each record has {found} coordinates, but the study's records have {wanted}",
            "encode the records with Encoder.from_study(study), or load them with load_split or load_named",
        )
    if data.classes != study.classes:
        raise BadInput(
            f"{source}: the labels are {_labels(data.classes)}, but the study's are {_labels(study.classes)}",
            "make the Dataset with classes=study.classes",
        )
    check_size(data.n, study, source, party)


_CODINGS: dict[Coding, str] = {"one-hot": "encoded records", "treatment": "covariates"}


def _labels(classes: int | None) -> str:
    return "numbers" if classes == 0 else f"of {classes or 'two unnamed'} classes"
