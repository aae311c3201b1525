"""Reading records from a CSV file: UTF-8, commas, one line of column names.

Whatever is wrong is said with column and line, and never with a cell's content or with how many records there are, for
errors end in logs. Column names of the file are shown only where they are nearly a name of the study, since the first
line of a file without headings is a record.
"""

import csv
import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import numpy as np
from numpy.typing import NDArray

from masquerade_core.data.schema import Dataset, Encoder
from masquerade_core.errors import BadInput, RefusedLocally
from masquerade_core.study import Study

__all__ = ["load_csv", "load_grouped", "load_records"]


@dataclass(frozen=True, repr=False)
class _Table:
    columns: dict[str, Sequence[str]]
    lines: Sequence[int]
    source: str


def load_csv(path: Path | str, study: Study, *, need_label: bool = True) -> Dataset:
    """Read one party's records and their labels.

    Parameters
    ----------
    path : path
        A CSV file; columns beyond the study's are ignored, the order is free.
    study : Study
        Gives features, bounds, levels, label and the fewest records.
    need_label : bool
        False for a public test set: neither two classes nor ``min_records`` records are asked of it.

    Raises
    ------
    BadInput
        The file cannot be used as it is.
    RefusedLocally
        There are fewer records than the study's ``min_records``.
    """
    encoder = Encoder.from_study(study)
    table = _read(path, (*encoder.columns, study.label.name))
    dataset = _dataset(table, study, encoder, both_classes=need_label)
    if need_label:
        _check_size(dataset, study, table.source)
    return dataset


def load_records(path: Path | str, encoder: Encoder) -> NDArray[np.float64]:
    """Read records without labels, as Dave has them; returns the encoded matrix of shape (n, d).

    Raises
    ------
    BadInput
        The file cannot be used as it is.
    """
    table = _read(path, encoder.columns)
    return encoder.encode(table.columns, lines=table.lines, source=table.source)


def load_grouped(path: Path | str, study: Study, column: str) -> dict[str, Dataset]:
    """Read one file that holds everybody's records, for a simulation: a data set for each value of ``column``.

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
    table = _read(path, (*encoder.columns, study.label.name, column))
    groups: dict[str, list[int]] = {}
    for row, value in enumerate(table.columns[column]):
        groups.setdefault(value, []).append(row)
    if "" in groups:
        raise BadInput(f"{table.source}, line {table.lines[groups[''][0]]}: column {column!r} is empty")
    X = encoder.encode(table.columns, lines=table.lines, source=table.source)
    y = _labels(table, study, both_classes=True)
    datasets = {}
    for value, rows in groups.items():
        source = f"{table.source}, where {column} is {value!r}"
        dataset = Dataset(X[rows], y[rows], study.classes)
        if np.unique(dataset.y).size == 1:
            raise _one_class(source, study)
        _check_size(dataset, study, source)
        datasets[value] = dataset
    return datasets


def _dataset(table: _Table, study: Study, encoder: Encoder, *, both_classes: bool) -> Dataset:
    X = encoder.encode(table.columns, lines=table.lines, source=table.source)
    return Dataset(X, _labels(table, study, both_classes=both_classes), study.classes)


def _check_size(dataset: Dataset, study: Study, source: str) -> None:
    n, floor = len(dataset.y), study.study.min_records
    if n < floor:
        raise RefusedLocally(
            f"{source} has fewer records than the study's min_records, {floor}",
            "take part with more records, or ask the coordinator for a study with a smaller min_records",
        )
    if n > study.max_records:
        raise BadInput(f"{source} has more records than a study of {study.K} parties can count, {study.max_records}")


def _labels(table: _Table, study: Study, *, both_classes: bool) -> NDArray[np.float64]:
    name, cells = study.label.name, table.columns[study.label.name]
    if "" in cells:
        raise BadInput(f"{table.source}, line {table.lines[cells.index('')]}: the label {name!r} is empty")
    if study.label.classes is not None:
        return _class_numbers(table, name, study.label.classes)
    positive, values = study.label.positive, set(cells)
    if len(values - {positive}) > 1:
        seen = len(values) > 2  # noqa: PLR2004
        raise BadInput(
            f"{table.source}: the label {name!r} "
            + ("has more than two different values" if seen else f"never is {positive!r}, the study's positive value"),
            f"one value must be {positive!r} and all others must be equal; blanks and capitals count",
        )
    if both_classes and len(values) == 1:
        raise _one_class(table.source, study)
    return np.where(np.fromiter((cell == positive for cell in cells), dtype=bool, count=len(cells)), 1.0, -1.0)


def _class_numbers(table: _Table, name: str, classes: Sequence[str]) -> NDArray[np.float64]:
    number = {label: float(i) for i, label in enumerate(classes)}
    for cell, line in zip(cells := table.columns[name], table.lines, strict=True):
        if cell not in number:
            raise BadInput(
                f"{table.source}, line {line}: the label {name!r} is none of the study's classes",
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


def _read(path: Path | str, wanted: Sequence[str]) -> _Table:
    path = Path(path)
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            return _parse(file, wanted, path.name)
    except FileNotFoundError as error:
        raise BadInput(f"there is no file {path}") from error
    except UnicodeDecodeError:
        raise BadInput(f"{path.name} is not UTF-8 text", "save the table as CSV in UTF-8") from None
    except OSError as error:
        raise BadInput(f"{path.name} cannot be read: {error.strerror}") from error


def _parse(file: TextIO, wanted: Sequence[str], source: str) -> _Table:
    reader = csv.reader(file, strict=True)
    rows: list[list[str]] = []
    lines: list[int] = []
    header: list[str] | None = None
    picks: dict[str, int] = {}
    try:
        for row in reader:
            if header is None:
                header = row
                picks = _find(header, wanted, source)
            elif row:  # a blank line is no record
                if len(row) != len(header):
                    raise BadInput(
                        f"{source}, line {reader.line_num}: {len(row)} columns, but {len(header)} in the first line",
                        "each record has one cell for each column; quote cells that hold a comma",
                    )
                rows.append(row)
                lines.append(reader.line_num)
    except csv.Error:
        raise BadInput(f"{source}, line {reader.line_num}: this is not CSV; a quote may be open") from None
    if header is None:
        raise BadInput(f"{source} is empty", "the first line names the columns, each further line is a record")
    if not rows:
        raise BadInput(f"{source} has column names and no records")
    cells = list(zip(*rows, strict=True))
    return _Table({name: cells[i] for name, i in picks.items()}, lines, source)


def _find(header: Sequence[str], wanted: Iterable[str], source: str) -> dict[str, int]:
    picks: dict[str, int] = {}
    for name in wanted:
        if name not in header:
            near = difflib.get_close_matches(name, header, n=1, cutoff=0.75)
            hint = f"did you mean the column {near[0]!r}?" if near else "the first line of the file names the columns"
            if len(header) == 1 and (";" in header[0] or "\t" in header[0]):
                hint = "columns are separated by commas, not by semicolons or tabs"
            raise BadInput(f"{source} has no column {name!r}", hint)
        if header.count(name) > 1:
            raise BadInput(f"{source} has the column {name!r} twice", "rename or remove one of them")
        picks[name] = header.index(name)
    return picks
