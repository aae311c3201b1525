"""Turn a public data set's original files into the tables that its example study describes.

    python examples/prepare.py NAME [DIRECTORY] [--out DIRECTORY]

DIRECTORY holds the original files, plain, .xz or .gz. Written are NAME.csv, everybody's records with a column 'party',
test.csv, and auxiliary.csv where the study learns from auxiliary records; by default beside the study.
"""

import argparse
import csv
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from masquerade.datasets import breast_cancer, shares, shuffled
from masquerade_core.errors import BadInput, MasqueradeError
from masquerade_core.study import Study
from masquerade_core.study_files import read_study_text
from masquerade_lab import originals
from masquerade_lab.originals import Table

HERE = Path(__file__).parent
PARTY = "party"

# The smallest party has this part of the largest one's records; a fifth of a set without a test set of its own is held
# out; of very large sets this many records are taken.
_SMALLEST = 0.6
_HELD_OUT = 5
_MOST = 70_000
_MOST_TESTS = 20_000
_AUXILIARY = 1_000

_HAR_FEATURES = 265
_ACTIVITIES = ("WALKING", "WALKING_UPSTAIRS", "WALKING_DOWNSTAIRS", "SITTING", "STANDING", "LAYING")


@dataclass(frozen=True)
class Prepared:
    """The records and the files that are made of the original ones.

    Parameters
    ----------
    train : Table
        To be dealt out to the parties, in this order.
    test : Table
    auxiliary : Table or None
        Public records; what else stands in it, such as the label, is not written.
    """

    train: Table
    test: Table
    auxiliary: Table | None = None


def adult(directory: Path, _: Study) -> Prepared:
    """UCI Adult, without the records in which something is missing."""
    train, test = originals.adult(directory)
    return Prepared(_mixed(_complete(train)), _complete(test))


def a9a(directory: Path, study: Study) -> Prepared:
    """LIBSVM's a9a."""
    X, y, X_test, y_test = originals.a9a(directory)
    columns = (*(f.name for f in study.features), study.label.name)

    def table(X: NDArray[np.float64], y: NDArray[np.float64]) -> Table:
        rows = [[*("1" if x else "0" for x in row), f"{label:+.0f}"] for row, label in zip(X, y, strict=True)]
        return Table(columns, rows)

    return Prepared(_mixed(table(X, y)), table(X_test, y_test))


def bank(directory: Path, _: Study) -> Prepared:
    """UCI Bank Marketing, out of the order of its dates."""
    return _hold_out(originals.bank(directory))


def kdd(directory: Path, study: Study) -> Prepared:
    """KDD Cup 1999: 70,000 of the training records and 20,000 of the test records; every attack is one class."""

    def sample(table: Table, most: int) -> Table:
        taken = _mixed(table, most)
        attack = str(study.label.positive)
        return Table(table.columns, [[*row[:-1], row[-1] if row[-1] == "normal" else attack] for row in taken.rows])

    train, test = originals.kddcup(directory)
    return Prepared(sample(train, _MOST), sample(test, _MOST_TESTS))


def breast_cancer_original(directory: Path, _: Study) -> Prepared:
    """UCI Breast Cancer Wisconsin (Original), without the records in which something is missing."""
    return _hold_out(_complete(originals.breast_cancer_original(directory)))


def credit_card(directory: Path, _: Study) -> Prepared:
    """Kaggle's card payments: all frauds, and as many of the others."""
    table = originals.credit_card(directory)
    label = table.columns.index("Class")
    frauds = [row for row in table.rows if row[label] == "1"]
    others = [row for row in table.rows if row[label] != "1"]
    kept = [others[i] for i in shuffled(len(others))[: len(frauds)]]
    return _hold_out(Table(table.columns, [*frauds, *kept]))


def har(directory: Path, study: Study) -> Prepared:
    """UCI HAR: the first 265 features, those of the time domain; a part of the test set, without labels, is public."""
    X, y, X_test, y_test = originals.har(directory)
    columns = (*(f.name for f in study.features), study.label.name)

    def table(X: NDArray[np.float64], y: NDArray[np.float64]) -> Table:
        # In single precision, so that the original text and copies in single precision give the same table.
        cells = X[:, :_HAR_FEATURES].astype(np.float32)
        return Table(columns, [[*map(str, row), _ACTIVITIES[int(c) - 1]] for row, c in zip(cells, y, strict=True)])

    tests = _mixed(table(X_test, y_test))
    count = min(_AUXILIARY, len(tests.rows) // 2)
    # Not mixed: records stand person by person, so that each party has some persons of its own.
    return Prepared(table(X, y), Table(columns, tests.rows[count:]), Table(columns, tests.rows[:count]))


def breast_cancer_wdbc(_directory: Path, study: Study) -> Prepared:
    """UCI Breast Cancer Wisconsin (Diagnostic), which scikit-learn brings along."""
    cohort = breast_cancer(study.K)
    rows = [row for records in cohort.parties.values() for row in records.rows]
    return Prepared(Table(cohort.test.columns, rows), Table(cohort.test.columns, cohort.test.rows))


SETS: dict[str, Callable[[Path, Study], Prepared]] = {
    "adult": adult,
    "a9a": a9a,
    "bank": bank,
    "kdd": kdd,
    "har": har,
    "breast-cancer-original": breast_cancer_original,
    "breast-cancer-wdbc": breast_cancer_wdbc,
    "credit-card": credit_card,
}


def prepare(name: str, directory: Path, out: Path) -> list[Path]:
    """Write an example's tables and return their paths.

    Raises
    ------
    BadInput
        An original file is missing or is not what its name says.
    """
    study = Study.parse(read_study_text(HERE / name / "study.toml"))
    made = SETS[name](directory, study)
    features = [f.name for f in study.features]
    columns = [*features, study.label.name]
    ends = [0, *accumulate(shares(len(made.train.rows), study.K, _SMALLEST))]
    owners = [party for party, (a, b) in zip(study.names, pairwise(ends), strict=True) for _ in range(a, b)]
    records = [[*row, owner] for row, owner in zip(_select(made.train, columns), owners, strict=True)]
    out.mkdir(parents=True, exist_ok=True)
    written = [
        _write(out / f"{name}.csv", [*columns, PARTY], records),
        _write(out / "test.csv", columns, _select(made.test, columns)),
    ]
    if made.auxiliary is not None:
        written.append(_write(out / "auxiliary.csv", features, _select(made.auxiliary, features)))
    return written


def _complete(table: Table) -> Table:
    return Table(table.columns, [row for row in table.rows if "?" not in row])


def _mixed(table: Table, most: int | None = None) -> Table:
    """Put the records into an order that is always the same and looks random, and take the first ``most``."""
    return Table(table.columns, [table.rows[i] for i in shuffled(len(table.rows))[:most]])


def _hold_out(table: Table) -> Prepared:
    rows = _mixed(table).rows
    count = len(rows) // _HELD_OUT
    return Prepared(Table(table.columns, rows[count:]), Table(table.columns, rows[:count]))


def _select(table: Table, columns: Sequence[str]) -> list[list[str]]:
    places = [table.columns.index(name) for name in columns]
    return [[row[i] for i in places] for row in table.rows]


def _write(path: Path, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([columns, *rows])
    return path


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line says and return an exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=SETS)
    parser.add_argument("directory", type=Path, nargs="?", help="where the original files are")
    parser.add_argument("--out", type=Path, help="where to write; by default beside the study")
    chosen = parser.parse_args(arguments)
    try:
        if chosen.directory is None and chosen.name != "breast-cancer-wdbc":
            raise BadInput("where are the original files?", f"see {HERE / chosen.name / 'README.md'}")
        for path in prepare(chosen.name, chosen.directory or HERE, chosen.out or HERE / chosen.name):
            print(path)
    except MasqueradeError as error:
        print(f"{error.message}\n{error.hint}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
