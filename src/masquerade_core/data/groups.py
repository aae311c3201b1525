"""One table with the records of several parties, for a simulation."""

from pathlib import Path

from masquerade_core.data.files import TextTable
from masquerade_core.data.noting import faults_in_table
from masquerade_core.data.records import check_size
from masquerade_core.data.schema import Columns, Covariates, Dataset, Encoder, labels_of, numeric
from masquerade_core.data.sources import read_cells
from masquerade_core.errors import BadInput
from masquerade_core.study import Coding, Study

__all__ = ["load_grouped", "row_groups"]


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


def load_grouped(path: Path | str, study: Study, column: str, coding: Coding = "one-hot") -> dict[str, Dataset]:
    """Read one file with all parties' records, for a simulation: a data set for each value of ``column``.

    ``coding`` is what the records become.

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
    encoder = Encoder.from_study(study, coding)
    wanted = tuple(dict.fromkeys((*encoder.columns, study.label.name, column)))
    table = read_cells(path, wanted, fills=encoder.out_of_bounds == "clamp", keys=(column,))
    groups = row_groups(table, column)
    X, labels = encoder.matrix(len(table.numbers)), labels_of(study)
    whole = Columns(table.columns, numeric(encoder, labels), encoder.out_of_bounds == "clamp")
    _, _, unfit = encoder.encode_into(X, whole)
    labels.take(whole[labels.name])
    if len(unfit) or labels.refused:
        raise faults_in_table(table, encoder, study)
    y = labels.finish()
    datasets = {}
    for value, rows in groups.items():
        source = f"{table.source}, where {column} is {value!r}"
        made = Covariates if coding == "treatment" else Dataset
        dataset = made(X[rows], y[rows], study.classes)
        check_size(len(dataset.y), study, source)
        datasets[value] = dataset
    return datasets
