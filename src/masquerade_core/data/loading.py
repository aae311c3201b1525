"""Records from a CSV or Parquet file, as a study describes them.

An error names the column and the record's place. Errors end in logs, so they never show a cell or the number of
records. Records of one class are read like all others: whether a party takes part must not tell what its records say.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from masquerade_core.data.blocks import source_of
from masquerade_core.data.columns import Levels, WholeColumn
from masquerade_core.data.groups import row_groups
from masquerade_core.data.queries import data_at
from masquerade_core.data.records import Records
from masquerade_core.data.schema import Dataset, Encoder, Repaired
from masquerade_core.data.sources import read_cells
from masquerade_core.data.streamed import Room, Streamed
from masquerade_core.data.tables import TextTable
from masquerade_core.errors import BadInput, LocalProtocolError, RefusedLocally
from masquerade_core.study import Study

__all__ = [
    "POINTS",
    "Labels",
    "Loader",
    "check_size",
    "load_csv",
    "load_grouped",
    "load_records",
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
    dataset = Dataset(X, labels.finish(data_at(path).name), study.classes, repaired + Repaired(filled=labels.filled))
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
        name = data_at(path).name
        labels.check(name)
        y = labels.numbers()
        check_size(len(y), study, name)
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
    X, labels = encoder.encode(table.columns, at=table.at), Labels(study)
    labels.take(table)
    y = labels.finish(table.source)
    datasets = {}
    for value, rows in groups.items():
        source = f"{table.source}, where {column} is {value!r}"
        dataset = Dataset(X[rows], y[rows], study.classes)
        check_size(len(dataset.y), study, source)
        datasets[value] = dataset
    return datasets


def _read(
    path: Path | str, encoder: Encoder, labels: "Labels | None", room: Room | None = None
) -> tuple[NDArray[np.float64], Repaired]:
    """Return all records of a file. Memory holds their matrix, if there is no room for it on a disk, and one block."""
    numbers = [f.name for f in encoder.features if f.levels is None]
    others = [f.name for f in encoder.features if f.levels is not None]
    source = source_of(
        path, numbers, others + ([labels.name] if labels else []), fills=encoder.out_of_bounds == "clamp"
    )
    # The system gives memory only to the rows that are written.
    shape = (source.most, encoder.d)
    X = np.empty(shape, encoder.dtype) if room is None else room.matrix(*shape, encoder.dtype)
    n, repaired = 0, Repaired()
    for block in source.blocks:
        if room is not None:
            room.filled(n)
        if (found := block.columns()) is not None:
            whole = encoder.encode_whole(X[n:], found)
            if whole is not None and (labels is None or labels.take_whole(found)):
                n, repaired = n + whole[0], repaired + whole[1]
                continue
        for table in block.tables():
            end = n + len(table.numbers)
            repaired += encoder.encode_into(X[n:end], table.columns, table.at)
            if labels is not None:
                labels.take(table)
            n = end
    if room is not None:
        room.filled(n)
    if not n:
        raise BadInput(f"{source.name} has column names and no records", "write the records into it")
    return X[:n], repaired


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


class Labels:
    """The labels of a file, block by block.

    Where the study clamps, no label makes a party refuse: what is not the positive value is the other one, and what is
    no class is the first class.
    """

    def __init__(self, study: Study) -> None:
        self.filled = 0
        """How many cells were empty, or no class."""
        self.texts = set[str]()
        """The different texts."""
        self.name = study.label.name
        self._positive, self._classes = study.label.positive, study.label.classes
        self._clamps = study.study.out_of_bounds == "clamp"
        self._kind = np.int16 if len(self._classes or ()) < 1 << 15 else np.int32  # small beside the records
        self._parts: list[NDArray[Any]] = []

    def take(self, table: TextTable) -> None:
        """Take a block's labels from its cells."""
        cells = table.columns[self.name]
        numbers = {text: i for i, text in enumerate(dict.fromkeys(cells))}
        levels = Levels(np.fromiter((numbers[cell] for cell in cells), np.intp, len(cells)), list(numbers))
        if self.take_whole({self.name: levels}):
            return
        faults = [self._is_fault(text) for text in levels.texts]
        row = next(row for row, place in enumerate(levels.places.tolist()) if faults[place])
        if self._classes is None:
            raise BadInput(f"{table.at(row)}: the label {self.name!r} is empty", "leave records without a label out")
        raise BadInput(
            f"{table.at(row)}: the label {self.name!r} is none of the study's classes",
            f"the classes are {', '.join(map(repr, self._classes))}; blanks and capitals count",
        )

    def take_whole(self, columns: Mapping[str, WholeColumn]) -> bool:
        """Take a block's labels, and return whether each of them can be used."""
        levels = columns[self.name]
        if not isinstance(levels, Levels):
            raise LocalProtocolError("a label is read as text")
        counts = np.bincount(levels.places, minlength=len(levels.texts))
        faulty = [count > 0 and self._is_fault(text) for text, count in zip(levels.texts, counts.tolist(), strict=True)]
        if any(faulty) and not self._clamps:
            return False
        self.filled += int(counts[faulty].sum())
        self.texts |= {text for text, count in zip(levels.texts, counts.tolist(), strict=True) if count}
        self._parts.append(np.array([self._number(text) for text in levels.texts], dtype=self._kind)[levels.places])
        return True

    def _is_fault(self, text: str) -> bool:
        return not text if self._classes is None else text not in self._classes

    def _number(self, text: str) -> int:
        if self._classes is None:
            return 1 if text == self._positive else -1
        return self._classes.index(text) if text in self._classes else 0

    def finish(self, source: str) -> NDArray[np.float64]:
        """Return all labels, checked as :meth:`check` does."""
        self.check(source)
        return self.numbers().astype(np.float64)

    def numbers(self) -> NDArray[Any]:
        """Return all labels that were taken, as small integers."""
        return np.concatenate(self._parts)

    def check(self, source: str) -> None:
        """Check that a label of two values has one that is not the positive one, and no third."""
        positive, others = self._positive, self.texts - {self._positive}
        if positive is not None and len(others) > 1 and not self._clamps:
            raise BadInput(
                f"{source}: the label {self.name!r} "
                + (
                    "has more than two different values"
                    if positive in self.texts or len(others) > 2  # noqa: PLR2004  a positive value and another
                    else f"is never {positive!r}, the study's positive value"
                ),
                f"one value must be {positive!r} and all others must be equal; blanks and capitals count",
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
