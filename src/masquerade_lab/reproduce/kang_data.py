"""The five public data sets of Kang, Liu and Wang in the unit ball, a constant last."""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from masquerade_core.crypto.shares import random_permutation
from masquerade_core.data.schema import Dataset
from masquerade_core.rng import SimulationRng
from masquerade_lab.encoding import labels, one_hot, unit_ball
from masquerade_lab.originals import Table, adult, bank, breast_cancer_original, credit_card, kddcup

__all__ = ["LARGE", "SMALL"]

_TEN = 10.0
_COMPONENTS = 28  # V1, V2, ...: principal components, which have no bounds
_LAST_SECOND, _LARGEST_AMOUNT = 172792.0, 25691.16  # from Kaggle's page
_KDD_RECORDS = 70_000  # as many as the paper has


def _breast_cancer(folder: Path) -> Dataset:
    """Read nine grades of 1 to 10, divided by 10, and a constant; rows are divided by sqrt 10, a missing grade is 1."""
    table = breast_cancer_original(folder)
    grades = [[1.0 if cell == "?" else float(cell) for cell in row[1:-1]] for row in table.rows]
    X = np.hstack([np.array(grades) / _TEN, np.ones((len(grades), 1))]) / np.sqrt(_TEN)
    return Dataset.from_unit_ball(X, labels(table, "class", lambda cell: cell == "4"))


def _credit(folder: Path) -> Dataset:
    """Read payments, half of them frauds: components divided by 10, time and amount by their maxima, rows clipped."""
    found = sorted(folder.glob("creditcard_balanced_unscaled.csv*"))
    table = credit_card(found[0] if found else folder)
    values = np.array([[float(cell) for cell in row[:-1]] for row in table.rows])
    scale = np.array([_LAST_SECOND, *[_TEN] * _COMPONENTS, _LARGEST_AMOUNT])
    return Dataset.from_unit_ball(unit_ball(values / scale), labels(table, "Class", lambda cell: cell == "1"))


def _adult(folder: Path) -> Dataset:
    """Read the 45222 records without a missing value, from both files."""
    train, test = adult(folder)
    whole = [row for row in (*train.rows, *test.rows) if "?" not in row]
    return one_hot(Table(train.columns, whole), "income", lambda cell: cell == ">50K")


def _bank(folder: Path) -> Dataset:
    """Read calls without their length, which is known only with the outcome, as the data set's authors advise."""
    return one_hot(bank(folder), "y", lambda cell: cell == "yes", left_out=("duration",))


def _kdd(folder: Path) -> Dataset:
    """Draw 70000 of the 494021 training records, always with the same seed."""
    train, _ = kddcup(folder)
    order = random_permutation(SimulationRng("KDD Cup 1999", "records"), len(train.rows))
    rows = [train.rows[i] for i in order[:_KDD_RECORDS]]
    return one_hot(Table(train.columns, rows), "label", lambda cell: cell != "normal")


SMALL: dict[str, tuple[str, Callable[[Path], Dataset]]] = {
    "BC": ("breast-cancer-wisconsin", _breast_cancer),
    "Credit": ("creditcard-balanced946", _credit),
}
"""By the paper's short name: the folder, and the function that reads it."""

LARGE: dict[str, tuple[str, Callable[[Path], Dataset]]] = {
    "Adult": ("adult", _adult),
    "Bank": ("bank-marketing", _bank),
    "KDD": ("kddcup99", _kdd),
}
"""The same for the sets of 40000 records and more."""
