"""Records from a CSV or Parquet file, as a study describes them.

An error names the column and the record's place. Errors end in logs, so they never show a cell or the number of
records.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from masquerade_core.data.schema import Dataset, Encoder
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
        False for a public test set, which needs neither two classes nor ``min_records`` records.

    Raises
    ------
    BadInput
        The file cannot be used as it is.
    RefusedLocally
        There are fewer records than the study's ``min_records``.
    """
    encoder = Encoder.from_study(study)
    table = read_table(path, (*encoder.columns, study.label.name))
    dataset = _dataset(table, study, encoder, both_classes=need_label)
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
    table = read_table(path, encoder.columns)
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
        A group has fewer records than the study's ``min_records``.
    """
    encoder = Encoder.from_study(study)
    table = read_table(path, (*encoder.columns, study.label.name, column))
    groups = row_groups(table, column)
    X = encoder.encode(table.columns, at=table.at)
    y = _labels(table, study, both_classes=True)
    datasets = {}
    for value, rows in groups.items():
        source = f"{table.source}, where {column} is {value!r}"
        dataset = Dataset(X[rows], y[rows], study.classes)
        if np.unique(dataset.y).size == 1:
            raise _one_class(source, study)
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


def _dataset(table: TextTable, study: Study, encoder: Encoder, *, both_classes: bool) -> Dataset:
    X = encoder.encode(table.columns, at=table.at)
    return Dataset(X, _labels(table, study, both_classes=both_classes), study.classes)


def check_size(n: int, study: Study, source: str) -> None:
    """Check that one party's records are neither too few nor too many for a study.

    Parameters
    ----------
    n : int
        The number of the records.
    study : Study
    source : str
        Names the records in the error; how many there are is secret, and is not said.

    Raises
    ------
    RefusedLocally
        There are fewer records than the study's ``min_records``.
    BadInput
        There are more records than a study of so many parties can count.
    """
    floor = study.study.min_records
    if n < floor:
        raise RefusedLocally(
            f"{source} has fewer records than the study's min_records, {floor}",
            "take part with more records, or ask the coordinator for a study with a smaller min_records",
        )
    if n > study.max_records:
        raise BadInput(
            f"{source} has more than {study.max_records:,} records, the most that a party may have in a study of "
            f"{study.K} parties",
            "take part with fewer records",
        )


def _labels(table: TextTable, study: Study, *, both_classes: bool) -> NDArray[np.float64]:
    name, cells = study.label.name, table.columns[study.label.name]
    if "" in cells:
        raise BadInput(f"{table.at(cells.index(''))}: the label {name!r} is empty", "leave records without a label out")
    if study.label.classes is not None:
        return _class_numbers(table, name, study.label.classes)
    positive, values = study.label.positive, set(cells)
    if len(values - {positive}) > 1:
        seen = len(values) > 2  # noqa: PLR2004
        raise BadInput(
            f"{table.source}: the label {name!r} "
            + ("has more than two different values" if seen else f"is never {positive!r}, the study's positive value"),
            f"one value must be {positive!r} and all others must be equal; blanks and capitals count",
        )
    if both_classes and len(values) == 1:
        raise _one_class(table.source, study)
    return np.where(np.fromiter((cell == positive for cell in cells), dtype=bool, count=len(cells)), 1.0, -1.0)


def _class_numbers(table: TextTable, name: str, classes: Sequence[str]) -> NDArray[np.float64]:
    number = {label: float(i) for i, label in enumerate(classes)}
    for row, cell in enumerate(cells := table.columns[name]):
        if cell not in number:
            raise BadInput(
                f"{table.at(row)}: the label {name!r} is none of the study's classes",
                f"the classes are {', '.join(map(repr, classes))}; blanks and capitals count",
            )
    return np.fromiter((number[cell] for cell in cells), dtype=np.float64, count=len(cells))


def _one_class(source: str, study: Study) -> BadInput:
    known = study.label.classes
    which = f"{study.label.positive!r} and the other" if known is None else f"of {', '.join(map(repr, known))}"
    return BadInput(
        f"{source}: the label {study.label.name!r} has one class only",
        f"a classifier is learned from records of both classes, {which}"
        if known is None
        else f"a classifier is learned from records of two classes or more, {which}",
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
        (records, study, source): raises BadInput or RefusedLocally for records that do not fit the study; ``source``
        names them.
    """

    one: Callable[[Path | str, Study], Any]
    grouped: Callable[[Path | str, Study, str], dict[str, Any]]
    check: Callable[[Any, Study, str], None]


def _check_points(data: Any, study: Study, source: str) -> None:
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
    check_size(len(data.y), study, source)


POINTS = Loader(load_csv, load_grouped, _check_points)
"""Records as vectors in the unit ball, with labels: what a classifier is learned from."""
