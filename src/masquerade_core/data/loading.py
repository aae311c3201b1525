"""Records from a CSV or Parquet file, as a study describes them.

A file is read block by block. Only a block with a fault is read cell by cell. From then on reading goes on for the sake
of the error alone, which says all faults of the file. It names columns and places. Errors end in logs, so they never
show a cell or the number of records. Records of one class are read like all others: whether a party takes part must not
tell what its records say.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from masquerade_core.data.blocks import Source, source_of
from masquerade_core.data.faults import Faults
from masquerade_core.data.labels import Labels
from masquerade_core.data.queries import data_at
from masquerade_core.data.schema import Dataset, Encoder, Repaired
from masquerade_core.data.sources import read_cells
from masquerade_core.data.tables import TextTable, no_records, note_broken
from masquerade_core.errors import BadInput, RefusedLocally
from masquerade_core.study import Study

__all__ = ["POINTS", "Loader", "check_size", "load_csv", "load_grouped", "load_records", "records_of", "row_groups"]


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


def row_groups(table: TextTable, column: str) -> dict[str, list[int]]:
    """Return the rows of each party, whose names stand in a column; in the order in which they first appear.

    Raises
    ------
    BadInput
        A record has no party.
    """
    groups: dict[str, list[int]] = {}
    for row, value in enumerate(table.columns[column]):
        groups.setdefault(value, []).append(row)
    if "" in groups:
        raise BadInput(
            f"{table.at(groups[''][0])}: the cell of column {column!r} is empty",
            "write the name of the party that owns the record",
        )
    return groups


def records_of(path: Path | str, encoder: Encoder, labels: Labels | None, *, fills: bool) -> Source:
    """Return the columns that records are made of, block by block; ``fills`` as in :func:`read_table`."""
    numbers = [f.name for f in encoder.features if f.levels is None]
    others = [f.name for f in encoder.features if f.levels is not None]
    return source_of(path, numbers, others + ([labels.name] if labels else []), fills=fills)


def _read(path: Path | str, encoder: Encoder, labels: Labels | None) -> tuple[NDArray[np.float64], Repaired]:
    """Return all records of a file. Memory holds their matrix, and beside it one block of the file."""
    source = records_of(path, encoder, labels, fills=encoder.out_of_bounds == "clamp")
    faults = Faults(source.name, source.unit, signs=list(source.signs))
    if any(sign.final for sign in source.signs):
        faults.check()
    X = np.empty((source.about, encoder.d))  # the system gives memory only to the rows that are written
    n, repaired = 0, Repaired()
    for block in source.blocks:
        if (found := block.columns()) is not None:
            if source.unit == "line":
                X = _with_room(X, n, len(found[encoder.columns[0]]))
            whole = encoder.encode_whole(X[n:], found)
            if whole is not None and (labels is None or labels.take_whole(found)):
                n, repaired = n + whole[0], repaired + whole[1]
                faults.records += whole[0]
                continue
        for table in block.tables():
            note_broken(table, faults, refused=True)
            whole_table = table.whole()
            end = n + len(whole_table.numbers)
            X = _with_room(X, n, end - n)
            repaired += encoder.encode_into(X[n:end], whole_table.columns, whole_table.places(faults.source), faults)
            if labels is not None:
                labels.take(whole_table, faults)
            n = end
    if labels is not None:
        labels.note(faults)
    faults.check()
    if not n:
        raise no_records(source.name)
    return X[:n], repaired


def _with_room(X: NDArray[np.float64], n: int, more: int) -> NDArray[np.float64]:
    """Return a matrix with the first n rows of X and room for some more; X itself, if it has the room."""
    if n + more <= len(X):
        return X
    larger = np.empty((2 * (n + more), X.shape[1]))
    larger[:n] = X[:n]
    return larger


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
    """

    one: Callable[[Path | str, Study], Any]
    grouped: Callable[[Path | str, Study, str], dict[str, Any]]
    check: Callable[..., None]


def _check_points(data: Any, study: Study, source: str, party: str = "") -> None:
    """Refuse records that a party's own process would refuse, or could not have loaded."""
    if not isinstance(data, Dataset):
        raise BadInput(
            f"{source} are no encoded records, but {study.study.protocol} learns from those",
            "load the records with load_split or load_named, which read them as the study's protocol needs them",
        )
    if (found := data.X.shape[1]) != study.d:
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
    check_size(len(data.y), study, source, party)


POINTS = Loader(load_csv, load_grouped, _check_points)
"""Records as vectors in the unit ball, with labels: what a classifier is learned from."""
