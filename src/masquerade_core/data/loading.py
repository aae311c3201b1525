"""Records from a file, as a study describes them: the one door through which a protocol's records come in.

A source is read block by block (:mod:`masquerade_core.data.files`), and the encoder makes records of a block's columns
(:mod:`masquerade_core.data.schema`). Where the study refuses a file, it is read once more for the error, which says all
faults of the file (:mod:`masquerade_core.data.noting`). It names columns and places. Errors end in logs, so they never
show a cell or the number of records. Records of one class are read like all others: whether a party takes part must not
tell what its records say.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from masquerade_core.data.blocks import records_of
from masquerade_core.data.files import Block, data_at
from masquerade_core.data.records import Records, check_size, copy_rows
from masquerade_core.data.schema import (
    Columns,
    Covariates,
    Dataset,
    Encoder,
    Labels,
    Repaired,
    WholeColumn,
    labels_of,
    numeric,
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


def _read(
    path: Path | str,
    encoder: Encoder,
    labels: Labels | None,
    room: "Room | None" = None,
    most: int | None = None,
) -> tuple[NDArray[np.float64], Repaired]:
    """Return all records of a file. Memory holds their matrix, if there is no room for it on a disk, and one block.

    Where there are more than ``most``, it returns some more than that, and the caller refuses them.

    Raises
    ------
    BadInput
        The study refuses the file.
    """
    source = records_of(path, encoder, labels, fills=encoder.out_of_bounds == "clamp", small=room is not None)
    if source.signs:
        raise _refused(path, encoder, labels)
    # The system gives memory only to the rows that are written.
    X = encoder.matrix(source.about) if room is None else room.matrix(source.most, encoder.d, encoder.dtype)
    reading = Reading(encoder, labels, X, grows=source.unit == "line")
    for block in source.blocks:
        if room is not None:
            room.filled(reading.n)
        reading.take(block)
        if reading.unfit or (most is not None and reading.n > most):
            break
    if room is not None:
        room.filled(reading.n)
    if reading.unfit or not reading.n or (labels is not None and labels.refused):
        raise _refused(path, encoder, labels)
    return reading.X[: reading.n], reading.repaired


def _refused(path: Path | str, encoder: Encoder, labels: Labels | None) -> BadInput:
    from masquerade_core.data.noting import faulty_file

    return faulty_file(path, encoder, None if labels is None else labels.study)


@dataclass
class Reading:
    """The records of a file, or of a part of it, while they are read.

    Parameters
    ----------
    encoder : Encoder
    labels : Labels or None
    X : ndarray, shape (some, d)
        Room for records.
    grows : bool
        Whether there may be more.
    n : int
        How many records were taken.
    repaired : Repaired
    unfit : bool
        Whether the study refuses a record, whatever the others are; then nothing of the others is of use.
    """

    encoder: Encoder
    labels: Labels | None
    X: NDArray[np.float64]
    grows: bool = False
    n: int = 0
    repaired: Repaired = field(default_factory=Repaired)
    unfit: bool = False

    def take(self, block: Block) -> None:
        """Take a block."""
        if (columns := block.columns()) is not None:
            self._take(columns)
            return
        numbers, fills = numeric(self.encoder, self.labels), self.encoder.out_of_bounds == "clamp"
        for table in block.tables():
            self.unfit |= bool(table.broken)
            self._take(Columns(table.columns, numbers, fills))

    def _take(self, columns: Mapping[str, WholeColumn]) -> None:
        if self.grows:
            self._make_room(len(columns[self.encoder.columns[0]]))
        n, repaired, rows = self.encoder.encode_into(self.X[self.n :], columns)
        if self.labels is not None:
            self.labels.take(columns[self.labels.name])
            self.unfit |= self.labels.unfit
        self.unfit |= len(rows) > 0
        self.n, self.repaired = self.n + n, self.repaired + repaired

    def _make_room(self, more: int) -> None:
        """Copy the records into a larger matrix, if this one has no room for some more."""
        if self.n + more > len(self.X):
            larger = self.encoder.matrix(2 * (self.n + more))
            copy_rows(self.X[: self.n], larger[: self.n])
            self.X = larger


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
