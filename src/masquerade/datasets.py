"""Data to try the program with: made-up patients, 569 real records that scikit-learn bundles, a paper's simulation.

No other module draws numbers with numpy's generator. Its seed is fixed, so every machine has the same records, and two
demonstrations differ by their noise alone.
"""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from masquerade_core.data.schema import Dataset
from masquerade_core.errors import BadInput
from masquerade_core.study import Feature, Label
from masquerade_protocols import Protocol

__all__ = [
    "Cohort",
    "Records",
    "breast_cancer",
    "deal",
    "party_names",
    "random_split",
    "returning",
    "shares",
    "shuffled",
    "simulated",
    "simulated_for",
    "suited",
    "unit_ball",
]

SEED = 2010

_Array = NDArray[np.float64]


@dataclass(frozen=True, repr=False)
class Records:
    """Rows of a CSV file; the label is the last cell."""

    columns: tuple[str, ...]
    rows: Sequence[Sequence[str]]

    def to_csv(self) -> str:
        """Return the file's text."""
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows((self.columns, *self.rows))
        return text.getvalue()


@dataclass(frozen=True, repr=False)
class Cohort:
    """All parties' records, a public test set, and what a study says about them.

    Parameters
    ----------
    parties : dict of str to Records
    test : Records
        The public test set, of nobody's secret records.
    features, label
        With public bounds.
    min_records : int
        Public.
    regularization : float
        A Lambda, the weight of the penalty on the weights, that suits these data and the papers' noise. It was chosen
        once, by hand.
    intercept : bool
    origin : str
        The origin of the records, in a few words.
    simulated : bool
        Whether the records are of no real person.
    auxiliary : Records or None
        Public records without labels, for a protocol that learns from them.
    notes : tuple of str
        What was done to the records, in sentences without a full stop.
    stated : bool
        Whether ``regularization`` stands in a study, so that every protocol takes it.
    differ : bool
        Whether the records were made up such that no two parties have the same kind. A demonstration then says how good
        the best party would be if all had the same kind.
    """

    parties: dict[str, Records]
    test: Records
    features: tuple[Feature, ...]
    label: Label
    min_records: int
    regularization: float
    intercept: bool
    origin: str
    simulated: bool = False
    auxiliary: Records | None = None
    notes: tuple[str, ...] = ()
    stated: bool = False
    differ: bool = False

    def regularization_for(self, protocol: Protocol) -> float | None:
        """Return the Lambda of a study of these records; None where the protocol has one of its own."""
        return None if protocol.regularization is not None and not self.stated else self.regularization

    def with_auxiliary(self, most: int = 1_000) -> "Cohort":
        """Return this cohort with half of its test set, at most ``most`` records, as auxiliary ones without labels."""
        count = min(most, len(self.test.rows) // 2)
        without = Records(self.test.columns[:-1], [row[:-1] for row in self.test.rows[:count]])
        return replace(self, auxiliary=without, test=Records(self.test.columns, self.test.rows[count:]))


def party_names(K: int, kind: str = "hospital") -> tuple[str, ...]:
    """Return ``hospital-a``, ``hospital-b``, ...; with more than 26 hospitals, numbers for letters."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    if len(letters) >= K:
        return tuple(f"{kind}-{letter}" for letter in letters[:K])
    return tuple(f"{kind}-{j:0{len(str(K))}}" for j in range(1, K + 1))


def shares(n: int, K: int, smallest: float) -> list[int]:
    """Split ``n`` records into K sizes that decrease evenly; the last is ``smallest`` times the first."""
    weights = np.linspace(1.0, smallest, K)
    ends = np.rint(np.cumsum(weights) / weights.sum() * n).astype(int)
    return [int(size) for size in np.diff(ends, prepend=0)]


def shuffled(n: int) -> list[int]:
    """Return 0 ... n-1 in an order that looks random and is always the same."""
    return [int(i) for i in np.random.default_rng(SEED).permutation(n)]


_DIMENSIONS = 10
_BOUND = 4.0
_CLASS_DISTANCE = 1.5
_CLOSE = 0.5
"""The same where coefficients are asked for: of classes as far apart as above, hardly a coefficient can be told."""
_PECULIARITY = 0.6
_SIMULATED_TEST = 5_000


def simulated(K: int = 5, n: int | None = None, *, distance: float = _CLASS_DISTANCE) -> Cohort:
    """Draw two classes of patients in 10 dimensions, unevenly spread over K hospitals.

    Each hospital's patients differ from the others' in their own way. So a classifier trained at one hospital is worse
    on all patients than one trained at all hospitals.

    Parameters
    ----------
    K : int
        The number of hospitals.
    n : int, optional
        The number of records; by default 20,000 for up to five hospitals, and 4,000 for each hospital of more.
    distance : float
        How far the mean of each class lies from the middle between both, in standard deviations.
    """
    generator = np.random.default_rng(SEED)
    sizes = shares(max(20_000, 4_000 * K) if n is None else n, K, smallest=0.23)
    common = _direction(generator, distance)
    own = np.array([_direction(generator, _PECULIARITY) for _ in range(K)])
    own -= own.mean(axis=0)
    names = party_names(K)
    columns = (*(f"x{i}" for i in range(1, _DIMENSIONS + 1)), "ill")
    parties = {
        name: Records(columns, _patients(generator, size, common + shift))
        for name, size, shift in zip(names, sizes, own, strict=True)
    }
    test = [row for shift in own for row in _patients(generator, -(-_SIMULATED_TEST // K), common + shift)]
    return Cohort(
        parties=parties,
        test=Records(columns, test[:_SIMULATED_TEST]),
        features=tuple(Feature(name=name, min=-_BOUND, max=_BOUND) for name in columns[:-1]),
        label=Label(name="ill", positive="yes"),
        min_records=min(500, *sizes),
        regularization=0.05,
        intercept=False,
        origin=f"{sum(sizes):,} simulated records",
        simulated=True,
    )


def _direction(generator: np.random.Generator, length: float) -> _Array:
    v = generator.normal(size=_DIMENSIONS)
    return v * (length / np.linalg.norm(v))


def _patients(generator: np.random.Generator, n: int, mean: _Array) -> list[list[str]]:
    ill = generator.random(n) < 0.5  # noqa: PLR2004
    X = np.clip(generator.normal(size=(n, _DIMENSIONS)) + np.where(ill, 1, -1)[:, None] * mean, -_BOUND, _BOUND)
    words = _in_thousandths(X)
    return [[*x, "yes" if y else "no"] for x, y in zip(words, ill.tolist(), strict=True)]


def _in_thousandths(X: _Array) -> list[list[str]]:
    """Return numbers with three decimals, as ``f"{x:.3f}"`` writes them, which takes ten times as long.

    That rounds the number itself. A product with 1000 can fall on the other side of a half, so such numbers are few.
    """
    scaled = np.abs(X) * 1000
    places = np.rint(scaled).astype(int)
    digits = [f"{place / 1000:.3f}" for place in range(int(places.max(initial=0)) + 1)]
    signed = np.array([*digits, *("-" + text for text in digits)], dtype=object)
    words = signed[places + len(digits) * np.signbit(X)]
    close = np.abs(scaled % 1 - 0.5) < 1e-6  # noqa: PLR2004
    words[close] = [f"{x:.3f}" for x in X[close].tolist()]
    found: list[list[str]] = words.tolist()
    return found


_STAYS: dict[str, tuple[float, float, int]] = {
    "age": (18, 100, 1),
    "albumin": (20, 50, -1),
    "days in hospital": (1, 31, 1),
    "haemoglobin": (60, 180, -1),
    "medicines": (0, 20, 1),
    "oxygen": (80, 100, -1),
    "earlier stays": (0, 10, 1),
    "sodium": (120, 150, -1),
    "creatinine": (40, 400, 1),
    "walking distance": (0, 700, -1),
}
"""Bounds of the columns, and whether a larger value makes a return more or less likely."""

_DIFFER = (
    "Each hospital sees one kind of patients: in 4 of the 10 columns they are nearly alike. So it cannot learn alone "
    "what these columns tell"
)
_ALL_OF_ONE_KIND = (
    "Joining helps such sites. The same records could be dealt out such that all hospitals see the same kind. Then it "
    "helps less, or not at all: a line at the end has a hospital's error in that case"
)
_FIRST, _LAST = 1.2, 0.8  # how much the first and the last column count, beside each other
_STEEP = 6.0
_ALIKE = 4
_CENTRE, _SPREAD = 0.6, 0.1  # of a hospital's patients in such a column, where the bounds are -1 and 1
_OF_ONE_HOSPITAL, _FEWEST_STAYS = 300, 1_500


def returning(K: int = 5, *, seed: int = SEED) -> Cohort:
    """Make up patients of K hospitals, and who of them comes back within a month.

    One rule says everywhere how likely a return is. But in 4 of the 10 columns a hospital's own patients are nearly
    alike: it sees only the old, or only those who take few medicines. Such a column looks the same in those who come
    back and in those who do not, so the hospital cannot learn how much it counts. All hospitals together can. The test
    set has as many patients of every hospital.

    Parameters
    ----------
    K : int
        The number of hospitals. They have 300 records each on average, and 1,500 together at least.
    seed : int
        Another seed makes other patients up.
    """
    generator = np.random.default_rng(seed)
    low, high, sign = (np.array(values, dtype=np.float64) for values in zip(*_STAYS.values(), strict=True))
    weights = sign * np.linspace(_FIRST, _LAST, len(sign))
    weights *= _STEEP / np.linalg.norm(weights)
    sizes = shares(max(_OF_ONE_HOSPITAL * K, _FEWEST_STAYS), K, smallest=0.6)

    def patients(hospital: int, n: int) -> list[list[str]]:
        X = generator.uniform(-1, 1, size=(n, len(sign)))
        for k in range(_ALIKE):
            end = _CENTRE if (hospital + k) % 2 == 0 else -_CENTRE
            X[:, (_ALIKE * hospital + k) % len(sign)] = np.clip(end + _SPREAD * generator.normal(size=n), -1, 1)
        back = generator.random(n) < 1 / (1 + np.exp(-X @ weights))
        cells = np.rint(low + (X + 1) / 2 * (high - low)).astype(int)
        return [[*map(str, row), "yes" if y else "no"] for row, y in zip(cells.tolist(), back.tolist(), strict=True)]

    columns = (*_STAYS, "back")
    own = {
        name: Records(columns, patients(j, n)) for j, (name, n) in enumerate(zip(party_names(K), sizes, strict=True))
    }
    test = [row for hospital in range(K) for row in patients(hospital, -(-_SIMULATED_TEST // K))]
    return Cohort(
        parties=own,
        test=Records(columns, test),
        features=tuple(Feature(name=name, min=bounds[0], max=bounds[1]) for name, bounds in _STAYS.items()),
        label=Label(name="back", positive="yes"),
        min_records=100,
        regularization=0.01,
        intercept=True,
        origin=f"{sum(sizes):,} made-up records",
        simulated=True,
        notes=(
            "The records are made up. Their story: which patients are back in hospital within a month?",
            _DIFFER,
            _ALL_OF_ONE_KIND,
        ),
        differ=True,
    )


_WDBC_BOUNDS: dict[str, tuple[tuple[float, float], tuple[float, float], tuple[float, float]]] = {
    "radius": ((5.0, 30.0), (0.0, 3.0), (5.0, 40.0)),
    "texture": ((5.0, 40.0), (0.0, 5.0), (10.0, 50.0)),
    "perimeter": ((40.0, 200.0), (0.0, 25.0), (50.0, 260.0)),
    "area": ((100.0, 2600.0), (0.0, 600.0), (100.0, 4500.0)),
    "smoothness": ((0.05, 0.17), (0.0, 0.04), (0.05, 0.25)),
    "compactness": ((0.0, 0.4), (0.0, 0.15), (0.0, 1.2)),
    "concavity": ((0.0, 0.5), (0.0, 0.4), (0.0, 1.3)),
    "concave points": ((0.0, 0.25), (0.0, 0.06), (0.0, 0.3)),
    "symmetry": ((0.1, 0.35), (0.0, 0.1), (0.1, 0.7)),
    "fractal dimension": ((0.04, 0.1), (0.0, 0.03), (0.05, 0.25)),
}
"""Bounds of mean, standard error and worst value: generous round numbers, as a domain expert would name them. None of
them is taken from the records."""


def breast_cancer(K: int = 5) -> Cohort:
    """Return the Wisconsin diagnostic records (569), one fifth as a public test set, the rest over K hospitals.

    Raises
    ------
    BadInput
        K hospitals would have too few records each.

    References
    ----------
    Street, Wolberg and Mangasarian 1993; bundled with scikit-learn.
    """
    from sklearn.datasets import load_breast_cancer

    bunch = load_breast_cancer()
    features = []
    for name in map(str, bunch.feature_names):
        kind = 1 if name.endswith(" error") else 2 if name.startswith("worst ") else 0
        stem = name.removesuffix(" error").removeprefix("worst ").removeprefix("mean ")
        low, high = _WDBC_BOUNDS[stem][kind]
        features.append(Feature(name=name, min=low, max=high))
    columns = (*(f.name for f in features), "diagnosis")
    words = [str(bunch.target_names[t]) for t in bunch.target]
    rows = [[*map(repr, x), word] for x, word in zip(bunch.data.tolist(), words, strict=True)]
    rows = [rows[i] for i in shuffled(len(rows))]
    held_out = len(rows) // 5
    sizes = shares(len(rows) - held_out, K, smallest=0.6)
    fewest = 20
    if min(sizes) < fewest:
        raise BadInput(
            f"{len(rows)} records are too few for {K} parties: the smallest would have {min(sizes)}, and "
            f"at least {fewest} are needed",
            "ask for fewer parties with --parties",
        )
    ends = np.cumsum([held_out, *sizes])
    return Cohort(
        parties={
            name: Records(columns, rows[start:end])
            for name, start, end in zip(party_names(K), ends[:-1], ends[1:], strict=True)
        },
        test=Records(columns, rows[:held_out]),
        features=tuple(features),
        label=Label(name="diagnosis", positive="malignant"),
        min_records=fewest,
        regularization=0.01,
        intercept=True,
        origin=f"{len(rows)} real records (Wisconsin breast cancer)",
    )


_USUAL, _MANY, _RECORDS_OF_MANY = 5, 200, 10_000


def suited(protocol: Protocol, K: int | None = None) -> Cohort:
    """Return the data that show a protocol best, for K parties.

    These are made-up records of hospitals that differ where some hundreds are enough, and thousands of simulated
    records elsewhere. If K is None there are 5 parties; or 200 small ones, where the noise hides all that a party has.
    """
    if K is None and protocol.protects_parties:
        return simulated(_MANY, _RECORDS_OF_MANY)
    K = _USUAL if K is None else K
    return returning(K) if protocol.learns_from_hundreds else simulated_for(protocol, K)


def simulated_for(protocol: Protocol, K: int) -> Cohort:
    """Return simulated records: classes that overlap more where the protocol releases coefficients."""
    return simulated(K, distance=_CLOSE if protocol.coefficients else _CLASS_DISTANCE)


UNIT_BALL_SEED = 2012


def unit_ball(number: int, n: int = 1000, d: int = 10, *, seed: int = UNIT_BALL_SEED) -> tuple[Dataset, Dataset]:
    """Draw n training and 1,000 test records from the interior of the unit ball, labelled by a random hyperplane.

    Parameters
    ----------
    number : int
        The number of the paper's data set: 0, 1, ...
    seed : int
        Another seed gives other data sets.

    References
    ----------
    Rajkumar and Agarwal 2012, section 6, 1: n = 1,000 and d = 10, five data sets.
    """
    generator = np.random.default_rng((seed, number))
    w = generator.normal(size=d)

    def records(count: int) -> Dataset:
        X = generator.normal(size=(count, d))
        X *= (generator.random(count) ** (1 / d) / np.linalg.norm(X, axis=1))[:, None]
        return Dataset(X, np.where(X @ w > 0, 1.0, -1.0))

    return records(n), records(1000)


def deal(records: Dataset, parts: Sequence[float]) -> tuple[Dataset, ...]:
    """Cut records into consecutive parts. ``parts`` holds each part's fraction, the paper's data split vector."""
    return tuple(Dataset(records.X[a:b], records.y[a:b]) for a, b in pairwise(_ends(parts, len(records.y))))


def _ends(parts: Sequence[float], n: int) -> list[int]:
    return [int(end) for end in np.rint(np.cumsum([0.0, *parts]) * n)]


def random_split(K: int, n: int, *seed: int) -> tuple[float, ...]:
    """Draw a data split vector uniformly from the simplex, such that each of K parties gets at least one of n records.

    References
    ----------
    Rajkumar and Agarwal 2012, section 6, 1a.
    """
    generator = np.random.default_rng(seed)
    while True:
        parts = tuple(float(part) for part in generator.dirichlet(np.ones(K)))
        if all(a < b for a, b in pairwise(_ends(parts, n))):
            return parts
