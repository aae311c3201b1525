"""The user's own table as a demonstration: split by a column, one fifth held out as a public test set."""

import csv
import math
import re
import unicodedata
from collections.abc import Sequence
from pathlib import Path

from masquerade.datasets import Cohort, Records, shuffled
from masquerade_core.errors import BadInput
from masquerade_core.study import Feature, Label, Study
from masquerade_core.words import counted

__all__ = ["own_cohort"]

_MOST_LEVELS = 30
_MOST_PARTIES = 64
_LONGEST_NAME = 32
_PARQUET = (".parquet", ".pq")


def own_cohort(
    path: Path, by: str, *, label: Label | None = None, study: Study | None = None, min_records: int | None = None
) -> Cohort:
    """Read a CSV file that holds everybody's records.

    Parameters
    ----------
    path : Path
        UTF-8, commas, one line of column names.
    by : str
        The column whose values are the parties.
    label : Label, optional
        Needed if no study is given.
    study : Study, optional
        It gives the features with public bounds, the label, the regularization and ``min_records``. Without it, bounds
        and levels come from the data, which only a demonstration may do.
    min_records : int, optional
        By default the study's, or 20.

    Raises
    ------
    BadInput
        The file cannot be used as it is.
    """
    header, rows = _read(path)
    _need(header, by, path)
    label = study.label if study is not None else label
    if label is None:
        raise BadInput(
            "--label was not given: nothing says which column is to be predicted",
            "add --label COLUMN:POSITIVE, for example outcome:yes",
        )
    _need(header, label.name, path)
    if study is not None:
        features = study.features
        for feature in features:
            _need(header, feature.name, path)
    else:
        wanted = [name for name in header if name not in {by, label.name}]
        cells = dict(zip(header, zip(*rows, strict=True), strict=True))
        features = tuple(_feature(name, cells[name]) for name in wanted)
        if not features:
            raise BadInput(
                f"{path.name} has no column besides {by!r} and {label.name!r}, so there is nothing to learn from",
                "add a column, for example the patients' age",
            )
    columns = (*(f.name for f in features), label.name)
    places = [header.index(name) for name in columns]
    test, groups = _split(rows, header.index(by), places)
    names = _names(list(groups))
    return Cohort(
        parties={names[value]: Records(columns, group) for value, group in groups.items()},
        test=Records(columns, test),
        features=tuple(features),
        label=label,
        min_records=min_records or (study.study.min_records if study is not None else 20),
        regularization=study.model.regularization if study is not None else 0.05,
        intercept=study.model.intercept if study is not None else True,
        origin=f"{len(rows):,} records of {path.name}",
        stated=study is not None,
    )


def _read(path: Path) -> tuple[list[str], list[list[str]]]:
    if path.suffix.lower() in _PARQUET:
        raise BadInput(f"{path.name} is a Parquet file, but the demonstration reads CSV", "save it as CSV in UTF-8")
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = [row for row in csv.reader(file, strict=True) if row]
    except FileNotFoundError as error:
        raise BadInput(f"there is no file {path}", "check the path after --data") from error
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise BadInput(f"{path.name} cannot be read as CSV in UTF-8", "save it anew as CSV in UTF-8") from error
    if len(rows) < 2:  # noqa: PLR2004
        raise BadInput(
            f"{path.name} has column names and no records" if rows else f"{path.name} is empty",
            "the first line names the columns, each further line is a record",
        )
    header = rows[0]
    for number, row in enumerate(rows[1:], start=2):
        if len(row) != len(header):
            raise BadInput(
                f"{path.name}, record {number - 1} has {len(row)} columns, but the first line has {len(header)}",
                "correct that record",
            )
    if len(set(header)) != len(header):
        raise BadInput(f"{path.name} has two columns with the same name", "rename or remove one of them")
    return header, rows[1:]


def _need(header: Sequence[str], name: str, path: Path) -> None:
    if name not in header:
        raise BadInput(f"{path.name} has no column {name!r}", f"its columns are {', '.join(header)}")


def _feature(name: str, cells: Sequence[str]) -> Feature:
    """Take bounds, rounded outwards, or levels from a column. Only a demonstration may do that."""
    try:
        values = [float(cell) for cell in cells]
    except ValueError:
        levels = sorted(set(cells))
        if not 2 <= len(levels) <= _MOST_LEVELS or "" in levels:  # noqa: PLR2004
            raise BadInput(
                f"column {name!r} holds neither only numbers nor 2 to {_MOST_LEVELS} values that are not empty",
                "remove the column, or describe it in a study and give that with --study",
            ) from None
        return Feature(name=name, levels=tuple(levels))
    low, high = min(values), max(values)
    if not math.isfinite(high - low):
        raise BadInput(f"column {name!r} holds a value that is not finite", "leave records without a finite number out")
    unit = 10.0 ** math.floor(math.log10(high - low or abs(high) or 1.0))
    low, high = math.floor(low / unit) * unit, math.ceil(high / unit) * unit
    return Feature(name=name, min=float(f"{low:.6g}"), max=float(f"{high if high > low else low + unit:.6g}"))


def _split(
    rows: Sequence[Sequence[str]], by: int, places: Sequence[int]
) -> tuple[list[list[str]], dict[str, list[list[str]]]]:
    """Hold out every fifth record, in an order that does not depend on the file's."""
    test: list[list[str]] = []
    groups: dict[str, list[list[str]]] = {row[by]: [] for row in rows}
    if not 2 <= len(groups) <= _MOST_PARTIES:  # noqa: PLR2004
        raise BadInput(
            f"the column named by --by has {counted(len(groups), 'different value')}, one for each party, but a "
            f"demonstration has 2 to {_MOST_PARTIES} parties",
            "choose another column with --by",
        )
    for number, place in enumerate(shuffled(len(rows))):
        row = rows[place]
        kept = [row[i] for i in places]
        (test if number % 5 == 0 else groups[row[by]]).append(kept)
    return test, groups


def _names(values: Sequence[str]) -> dict[str, str]:
    """Turn the column's values into names for the roster, all different."""
    names: dict[str, str] = {}
    for value in values:
        plain = unicodedata.normalize("NFKD", value).encode("ascii", "ignore").decode()
        base = re.sub(r"[^a-z0-9]+", "-", plain.lower()).strip("-")[: _LONGEST_NAME - 3] or "party"
        if base == "charlie":
            base = "charlie-party"
        name, number = base, 2
        while name in names.values():
            name, number = f"{base}-{number}", number + 1
        names[value] = name
    return names
