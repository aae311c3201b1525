"""Records from a CSV or Parquet file, as a study describes them.

An error names the column and the record's place. Errors end in logs, so they never show a cell or the number of
records. Records of one class are read like all others: whether a party takes part must not tell what its records say.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from masquerade_core.data.schema import Dataset, Encoder, Repaired
from masquerade_core.data.tables import TextTable, read_table
from masquerade_core.errors import BadInput, RefusedLocally
from masquerade_core.study import Study

__all__ = ["POINTS", "Loader", "check_size", "load_csv", "load_grouped", "load_records", "row_groups"]


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
    encoder = Encoder.from_study(study)
    table = _read(path, (*encoder.columns, study.label.name), encoder)
    X, repaired = encoder.encode_counted(table.columns, at=table.at)
    y, filled = _labels(table, study)
    dataset = Dataset(X, y, study.classes, repaired + Repaired(filled=filled))
    if need_label:
        check_size(len(dataset.y), study, table.source)
    return dataset


def load_records(path: Path | str, encoder: Encoder) -> NDArray[np.float64]:
    """Read records without labels, and return the encoded matrix of shape (n, d).

    Raises
    ------
    BadInput
        The file cannot be used as it is.
    """
    table = _read(path, encoder.columns, encoder)
    return encoder.encode(table.columns, at=table.at)


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
    table = _read(path, tuple(dict.fromkeys((*encoder.columns, study.label.name, column))), encoder)
    groups = row_groups(table, column)
    X = encoder.encode(table.columns, at=table.at)
    y, _ = _labels(table, study)
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


def _read(path: Path | str, wanted: Sequence[str], encoder: Encoder) -> TextTable:
    return read_table(path, wanted, fills=encoder.out_of_bounds == "clamp")


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


def _labels(table: TextTable, study: Study) -> tuple[NDArray[np.float64], int]:
    """Return the labels, and how many cells were filled. With "clamp" no label makes a party refuse."""
    name, cells, clamps = study.label.name, table.columns[study.label.name], study.study.out_of_bounds == "clamp"
    empty = cells.count("")
    if empty and not clamps:
        raise BadInput(f"{table.at(cells.index(''))}: the label {name!r} is empty", "leave records without a label out")
    if study.label.classes is not None:
        return _class_numbers(table, name, study.label.classes, clamps)
    positive, others = study.label.positive, set(cells) - {study.label.positive}
    if len(others) > 1 and not clamps:
        raise BadInput(
            f"{table.source}: the label {name!r} "
            + (
                "has more than two different values"
                if positive in cells or len(others) > 2  # noqa: PLR2004  a positive value and another
                else f"is never {positive!r}, the study's positive value"
            ),
            f"one value must be {positive!r} and all others must be equal; blanks and capitals count",
        )
    return np.where(np.fromiter((cell == positive for cell in cells), dtype=bool, count=len(cells)), 1.0, -1.0), empty


def _class_numbers(
    table: TextTable, name: str, classes: Sequence[str], clamps: bool
) -> tuple[NDArray[np.float64], int]:
    """Return the numbers of the classes, and how many cells were none of them and became the first class."""
    number, cells = {label: float(i) for i, label in enumerate(classes)}, table.columns[name]
    unknown = [row for row, cell in enumerate(cells) if cell not in number]
    if unknown and not clamps:
        raise BadInput(
            f"{table.at(unknown[0])}: the label {name!r} is none of the study's classes",
            f"the classes are {', '.join(map(repr, classes))}; blanks and capitals count",
        )
    y = np.fromiter((number.get(cell, 0.0) for cell in cells), dtype=np.float64, count=len(cells))
    return y, len(unknown)


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
