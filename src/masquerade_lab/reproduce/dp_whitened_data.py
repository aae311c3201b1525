"""The public data sets on which ``dp-whitened`` is measured, encoded as a study encodes them: in the unit ball.

A number goes from public bounds to [-1, 1], a level becomes a 0/1 coordinate, a constant stands last, and each row is
divided by its length where that is above 1. The bounds are round numbers that nobody took from the records. The levels
are those of the public files.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import log1p
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from masquerade.datasets import breast_cancer
from masquerade_core.crypto.shares import random_permutation
from masquerade_core.data.schema import Dataset, Encoder
from masquerade_core.rng import SimulationRng
from masquerade_lab._original_files import Original, read_table
from masquerade_lab.originals import KDDCUP_COLUMNS, Table, a9a, adult, breast_cancer_original, credit_card, har

__all__ = ["BENCHMARKS", "Benchmark", "Split", "sampled"]

_Array = NDArray[np.float64]
_Bounds = dict[str, tuple[float, float]]

_TESTED = 5  # one record in five
_KDD_TRAINING, _KDD_TEST = 45_000, 20_000
_HAR_TIME_DOMAIN = 265  # the first of HAR's 561 features
_SITTING, _STANDING = 4, 5

_ADULT: _Bounds = {
    "age": (17, 90),
    "fnlwgt": (0, 1_500_000),
    "education-num": (1, 16),
    "capital-gain": (0, 100_000),
    "capital-loss": (0, 5_000),
    "hours-per-week": (0, 100),
}
_BANK: _Bounds = {
    "age": (18, 100),
    "balance": (-10_000, 110_000),
    "day": (1, 31),
    "campaign": (1, 65),
    "pdays": (-1, 900),
    "previous": (0, 300),
}
_CREDIT: _Bounds = {"Time": (0, 172_800), "Amount": (0, 26_000), **{f"V{i}": (-20, 20) for i in range(1, 29)}}

_KDD_LEVELS = ("protocol_type", "service", "flag")
_KDD_LOGARITHMS = {"duration": 60_000.0, "src_bytes": 1.4e9, "dst_bytes": 1.4e9}
_KDD_COUNTS = {"count": 511.0, "srv_count": 511.0}
_BYTE, _HUNDRED = 255, 100

_KDD_FILE = Original(
    "KDD Cup 1999, its 10 % training file",
    ("kddcup.data_10_percent",),
    "https://kdd.ics.uci.edu/databases/kddcup99/kddcup99.html",
)
_BANK_FILE = Original("UCI Bank Marketing, the older file", ("bank-full.csv",), "https://doi.org/10.24432/C5K306")
_BANK_WORDS = """
    age job marital education default balance housing loan contact day month duration campaign pdays previous poutcome y
"""


@dataclass(frozen=True, repr=False)
class Split:
    """Records with an official or otherwise fixed test set, or records to split at random.

    Parameters
    ----------
    train : Dataset
    test : Dataset or None
        None where a fifth of ``train`` is drawn for testing, each time anew.
    """

    train: Dataset
    test: Dataset | None = None

    def draw(self, label: str) -> tuple[Dataset, Dataset]:
        """Return training and test records; ``label`` decides how records are split at random."""
        if self.test is not None:
            return self.train, self.test
        n = len(self.train.y)
        return sampled(self.train, label, n - n // _TESTED, n)


def sampled(records: Dataset, label: str, train: int, end: int) -> tuple[Dataset, Dataset]:
    """Return so many records at random, and those that follow in the random order, up to number ``end``."""
    order = np.array(random_permutation(SimulationRng(label, "split"), len(records.y)))
    first, second = order[:train], order[train:end]
    return Dataset(records.X[first], records.y[first]), Dataset(records.X[second], records.y[second])


@dataclass(frozen=True)
class Benchmark:
    """One data set.

    Parameters
    ----------
    title : str
    folder : str
        In the directory with all data; empty where the records come with scikit-learn.
    read : callable
        From the folder's path to the records.
    delta : float
    """

    title: str
    folder: str
    read: Callable[[Path], Split]
    delta: float


# --- Encoding -----------------------------------------------------------------------


def _ball(X: _Array) -> _Array:
    X = np.hstack([X, np.ones((len(X), 1))])
    X /= np.maximum(1.0, np.sqrt((X * X).sum(axis=1)))[:, None]
    return X


def _bounded(values: _Array, low: float, high: float) -> _Array:
    return np.asarray(2 * (np.clip(values, low, high) - low) / (high - low) - 1)[:, None]


def _levels(cells: Sequence[str]) -> _Array:
    levels, which = np.unique(np.array(cells), return_inverse=True)
    return np.asarray(np.eye(len(levels))[which])


def _encoded(table: Table, label: str, positive: str, bounds: _Bounds, left_out: tuple[str, ...] = ()) -> Dataset:
    """Encode the columns with bounds as numbers, and all others by their levels."""
    blocks = []
    for name in table.columns:
        if name == label or name in left_out:
            continue
        cells = table.column(name)
        blocks.append(_bounded(np.array(cells, dtype=float), *bounds[name]) if name in bounds else _levels(cells))
    y = np.where(np.array(table.column(label)) == positive, 1.0, -1.0)
    return Dataset(_ball(np.hstack(blocks)), y)


# --- The sets -----------------------------------------------------------------------


def _adult(folder: Path) -> Split:
    train, test = adult(folder)
    together = _encoded(Table(train.columns, [*train.rows, *test.rows]), "income", ">50K", _ADULT)
    n = len(train.rows)
    return Split(Dataset(together.X[:n], together.y[:n]), Dataset(together.X[n:], together.y[n:]))


def _a9a(folder: Path) -> Split:
    X, y, X_test, y_test = a9a(folder)
    return Split(Dataset(_ball(X), y), Dataset(_ball(X_test), y_test))


def _kdd(folder: Path) -> Split:
    """Read the distinct rows of the 10 % file, attacks against normal connections, and draw a fixed split of them."""
    path = _KDD_FILE.find(folder, _KDD_FILE.files[0])
    rows = read_table(path, KDDCUP_COLUMNS, label_stop=True).rows
    table = Table(KDDCUP_COLUMNS, sorted(set(map(tuple, rows))))
    blocks = []
    for name in table.columns[:-1]:
        cells = table.column(name)
        if name in _KDD_LEVELS:
            blocks.append(_levels(cells))
            continue
        values = np.array(cells, dtype=float)
        if name in _KDD_LOGARITHMS:
            blocks.append(_bounded(np.log1p(values), 0, log1p(_KDD_LOGARITHMS[name])))
        else:
            blocks.append(_bounded(values, 0, _KDD_COUNTS.get(name, _round_above(float(values.max())))))
    y = np.where(np.array(table.column("label")) == "normal", -1.0, 1.0)
    records = Dataset(_ball(np.hstack(blocks)), y)
    return Split(*sampled(records, "KDD Cup 1999", _KDD_TRAINING, _KDD_TRAINING + _KDD_TEST))


def _round_above(largest: float) -> float:
    """Return the round bound of a count or a rate: 1, 255, or a power of ten."""
    if largest <= 1:
        return 1.0
    return float(_BYTE) if _HUNDRED < largest <= _BYTE else float(10.0 ** np.ceil(np.log10(largest)))


def _har(folder: Path) -> Split:
    """Read sitting against standing, by the features in the time domain."""
    X, y, X_test, y_test = har(folder)

    def two(X: _Array, y: _Array) -> Dataset:
        chosen = np.isin(y, (_SITTING, _STANDING))
        return Dataset(_ball(X[chosen, :_HAR_TIME_DOMAIN]), np.where(y[chosen] == _SITTING, 1.0, -1.0))

    return Split(two(X, y), two(X_test, y_test))


def _credit(folder: Path) -> Split:
    """Read payments, half of them frauds; each component has bounds of -20 and 20."""
    found = sorted(folder.glob("creditcard_balanced_unscaled.csv*"))
    return Split(_encoded(credit_card(found[0] if found else folder), "Class", "1", _CREDIT))


def _breast_cancer_original(folder: Path) -> Split:
    """Read the 683 records whose nine grades are all known."""
    table = breast_cancer_original(folder)
    whole = Table(table.columns, [row for row in table.rows if "?" not in row])
    grades: _Bounds = dict.fromkeys(table.columns[1:-1], (1, 10))
    return Split(_encoded(whole, "class", "4", grades, left_out=("id",)))


def _bank(folder: Path) -> Split:
    """Read calls without their length, which is known only with the outcome."""
    path = _BANK_FILE.find(folder, "bank-full.csv")
    table = read_table(path, tuple(_BANK_WORDS.split()), heading=True, delimiter=";")
    return Split(_encoded(table, "y", "yes", _BANK, left_out=("duration",)))


def _wdbc(_folder: Path) -> Split:
    """Read the 569 diagnostic records that scikit-learn bundles, with the demonstration's bounds."""
    cohort = breast_cancer(2)
    rows = [row for part in (cohort.test, *cohort.parties.values()) for row in part.rows]
    columns = dict(zip(cohort.test.columns, zip(*rows, strict=True), strict=True))
    X = Encoder(cohort.features, intercept=True).encode(columns)
    return Split(Dataset(X, np.where(np.array(columns[cohort.label.name]) == cohort.label.positive, 1.0, -1.0)))


BENCHMARKS = (
    Benchmark("Adult", "adult", _adult, 1e-6),
    Benchmark("a9a", "a9a", _a9a, 1e-6),
    Benchmark("KDD", "kddcup99", _kdd, 1e-6),
    Benchmark("WDBC", "", _wdbc, 1e-5),
    Benchmark("Breast cancer original", "breast-cancer-wisconsin", _breast_cancer_original, 1e-5),
    Benchmark("Credit card", "creditcard-balanced946", _credit, 1e-5),
    Benchmark("HAR", "uci-har-time265", _har, 1e-5),
    Benchmark("Bank", "bank-marketing", _bank, 1e-6),
)
"""All data sets, in the order of the tables."""
