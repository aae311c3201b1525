"""``dp-whitened`` on public data sets, beside central methods that see all records in one place.

No paper prints these figures. The bands come from an independent implementation in floating point.
``docs/reproduction/dp-whitened.md`` has the tables.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from math import hypot, sqrt
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from masquerade.draft import Draft, throwaway_key
from masquerade.reproduce.bands import Report, Row, mean_and_error
from masquerade.reproduce.central_baselines import Logistic, adassp, amp, objective_perturbation, penalties
from masquerade.reproduce.dp_whitened_data import BENCHMARKS, Benchmark, Split
from masquerade_core.data.schema import Dataset
from masquerade_core.errors import BadInput, LocalProtocolError
from masquerade_core.model import Model
from masquerade_core.privacy.accounting.gaussian_dp import mu_of
from masquerade_core.rng import SimulationRng
from masquerade_core.study import CHARLIE, Feature, Study
from masquerade_core.table import Table
from masquerade_protocols.dp_whitened import roles
from masquerade_protocols.dp_whitened.points import rounded
from masquerade_protocols.dp_whitened.public import Plan
from masquerade_protocols.in_memory import run_in_memory

__all__ = ["Found", "draw_shares", "figure_1", "learn_in_clear", "measure", "study_of"]

_EPSILONS = (0.1, 0.2, 0.5, 1.0, 3.0)
_K = 5
_LARGE, _CENTRAL_DRAWS = 20_000, 5  # a central method on a large set takes as long as ten runs of ours
_FREE_PENALTIES = (0.01, 0.1, 1.0, 10.0)
_ROLES_EPSILON = 1.0
_SMALL_KEYS = 512
_PROMISED = 40  # the s from which a threshold is promised
_MAJORITY_SLACK, _CENTRAL_SLACK = 0.01, 0.003
_SAME = 1e-6

_BANDS: dict[str, dict[float, tuple[float | None, float | None]]] = {
    "Adult": {0.1: (0.170, 0.872), 0.2: (0.164, 0.882), 0.5: (0.159, 0.890), 1.0: (0.157, 0.894), 3.0: (0.155, 0.898)},
    "a9a": {0.1: (0.165, None), 0.2: (0.160, None), 0.5: (0.156, None), 1.0: (0.155, None), 3.0: (0.154, None)},
    "KDD": {0.1: (0.034, None), 0.2: (0.027, None), 0.5: (0.021, None), 1.0: (0.019, None), 3.0: (0.019, None)},
    "WDBC": {0.2: (None, 0.93), 0.5: (None, 0.98), 1.0: (0.060, None), 3.0: (0.050, None)},
    "Breast cancer original": {
        0.1: (0.15, None),
        0.2: (0.09, None),
        0.5: (0.075, None),
        1.0: (0.050, None),
        3.0: (0.048, None),
    },
    "Credit card": {0.2: (0.19, None), 0.5: (0.14, None), 1.0: (0.12, None), 3.0: (0.085, None)},
    "HAR": {0.5: (0.23, None), 1.0: (0.185, None), 3.0: (0.13, None)},
    "Bank": {
        0.1: (None, 0.70),
        0.2: (None, 0.715),
        0.5: (0.111, 0.737),
        1.0: (0.110, 0.745),
        3.0: (0.110, 0.75),
    },
}
"""By data set and epsilon: the largest mean error, and the smallest mean AUC."""

_TWO_SIDED = ("Adult", 0.1, 0.163)
"""Where a smaller error would mean too little noise."""

_OURS, _AMP, _OBJECTIVE, _ADASSP = "dp-whitened", "AMP", "objective perturbation", "AdaSSP"
_FREE, _MAJORITY, _HALF = "no privacy", "majority", "half the noise"

_CLEAR = (
    "Sums are computed without encryption: from the protocol's own integer vectors, with the shares of noise of five "
    "parties from its sampler, and with everything that follows from them on its grid. One run for each data set goes "
    "through the real roles too, with keys of 512 bits, in memory; it must give the same classifier."
)
_SEEDED = "The noise comes from a seed and one draw serves all epsilons: nothing here is a private release."
_MEANING = (
    "Error is the fraction of test records with a wrong answer. AUC is the probability that a positive record has a "
    "higher score than a negative one. s = N mu/sqrt(d) says how much there is to go by, beside the noise. Adult, a9a, "
    "KDD and HAR have one split, and the standard error counts the noise; the others have a new split of 80 to 20 for "
    "each draw, and the standard error counts both."
)
_CENTRAL = (
    "AMP, objective perturbation and AdaSSP are central: one person has all records. Objective perturbation has the "
    "best of five penalties, and logistic regression without privacy the best of four, both chosen on the test "
    f"records, which flatters them. On sets of more than {_LARGE:,} records they have {_CENTRAL_DRAWS} draws at most."
)

_Array = NDArray[np.float64]
_Integers = NDArray[np.int64]


@cache
def study_of(d: int, epsilon: float, delta: float) -> Study:
    """Return a study of five parties and d coordinates, one of which may be a constant."""
    draft = Draft(
        parties=[(f"party-{k}", throwaway_key()) for k in range(1, _K + 1)],
        curator_key=throwaway_key(),
        protocol="dp-whitened",
        epsilon=epsilon,
        delta=delta,
        min_records=20,
        features=[Feature(name=f"x{i}", min=-1.0, max=1.0) for i in range(1, d + 1)],
        intercept=False,
        key_bits=_SMALL_KEYS,
    )
    return Study.parse(draft.to_toml(), "this table's settings", in_memory=True)


# --- A run in the clear ----------------------------------------------------------------


def draw_shares(label: str, d: int) -> _Integers:
    """Return the sum of all parties' shares of noise, in the order in which the sums use it up."""
    shares = [roles.draw_noise(rng, d) for rng in _rngs(label).values()]
    return np.sum([np.frombuffer(share, dtype="<i8") for share in shares], axis=0)


def _rngs(label: str) -> dict[str, SimulationRng]:
    return {f"party-{k}": SimulationRng(label, f"party {k}") for k in range(1, _K + 1)}


class _InTheClear:
    """Somebody who has all records and all shares of noise: nobody has to agree."""

    def __init__(self, plan: Plan, data: Dataset, noise: _Integers) -> None:
        self._plan, self._data = plan, data
        self._products, self._others = np.split(noise, [plan.study.d * (plan.study.d - 1) // 2])

    async def stage(self, name: str) -> None:
        """Say nothing."""

    async def progress(self, done: int, total: int) -> None:
        """Say nothing."""

    async def total(
        self, _label: str, length: int, unit: int, own: Callable[[Dataset], _Integers], products: int = 0
    ) -> _Array:
        """Return the noisy mean."""
        noise, self._others = np.split(self._others, [length - products])
        opened = own(self._data) + np.concatenate([self._products[:products], noise])
        return np.asarray(opened / (float(unit) * self._plan.N))

    async def agree(self, own: _Array, *, unsure: bool = False) -> _Array:
        """Go on from one's own numbers, on the grid on which Charlie sends them."""
        del unsure
        return np.frombuffer(rounded(own), dtype="<i8") / 2.0**32


def learn_in_clear(study: Study, data: Dataset, noise: _Integers) -> Model:
    """Run the protocol's steps on everybody's records, with the noise that :func:`draw_shares` returns."""
    plan = Plan(study, len(data.y))
    steps = roles.learn(_InTheClear(plan, data, noise), plan)
    try:
        steps.send(None)
    except StopIteration as end:
        model: Model = end.value
        return model
    raise LocalProtocolError("somebody who has all records waited for somebody else")


def _through_roles(study: Study, data: Dataset, label: str) -> Model:
    """Run the real roles in memory, on records dealt to five parties, with the same shares of noise."""
    parts = np.array_split(np.arange(len(data.y)), _K)
    dealt = {name: Dataset(data.X[part], data.y[part]) for name, part in zip(study.names, parts, strict=True)}
    model: Model = run_in_memory(roles, study, dealt, table=Table(study.names, _rngs(label)))[CHARLIE]
    return model


# --- One data set -----------------------------------------------------------------------


@dataclass
class Found:
    """What was measured on one data set: by method and epsilon, the error and the AUC of each draw."""

    benchmark: Benchmark
    N: int = 0
    d: int = 0
    by: defaultdict[tuple[str, float], list[tuple[float, float]]] = field(default_factory=lambda: defaultdict(list))
    apart: float = 0.0

    def note(self, method: str, epsilon: float, test: Dataset, w: Sequence[float] | _Array, offset: float = 0) -> None:
        """Add one classifier's error and AUC on test records."""
        scores = test.X @ np.asarray(w) + offset
        ranks, positive = rankdata(scores), test.y > 0
        pairs = positive.sum() * (~positive).sum()
        above = ranks[positive].sum() - positive.sum() * (positive.sum() + 1) / 2
        self.by[method, epsilon].append((float(np.mean((scores > 0) != positive)), float(above / pairs)))

    def error(self, method: str, epsilon: float) -> tuple[float, float | None]:
        """Return the mean error and its standard error, None after a single draw."""
        return self._mean(method, epsilon, 0)

    def auc(self, method: str, epsilon: float) -> tuple[float, float | None]:
        """Return the mean AUC and its standard error, None after a single draw."""
        return self._mean(method, epsilon, 1)

    def _mean(self, method: str, epsilon: float, which: int) -> tuple[float, float | None]:
        values = np.array(self.by[method, epsilon])[:, [which]]
        return mean_and_error(values) if len(values) > 1 else (float(values[0, 0]), None)

    def best(self, method: str, epsilon: float) -> str:
        """Return the name of the method's best variant."""
        names = [name for name, at in self.by if at == epsilon and name.startswith(method)]
        return min(names, key=lambda name: self.error(name, epsilon)[0])

    def strength(self, epsilon: float) -> float:
        """Return s."""
        return self.N * mu_of(epsilon, self.benchmark.delta) / sqrt(self.d)


def measure(
    benchmark: Benchmark, records: Split, draws: int, seed: int, advance: Callable[[], None] = lambda: None
) -> Found:
    """Learn from one data set, so many times at each epsilon."""
    found = Found(benchmark)
    logistic: Logistic | None = None
    for number in range(draws):
        label = f"dp-whitened {seed} {benchmark.title} {number}"
        train, test = records.draw(label)
        found.N, found.d = train.X.shape
        if number == 0:
            found.apart = _apart(train, benchmark.delta, label)
        _ours(found, train, test, label)
        if number < _CENTRAL_DRAWS or found.N <= _LARGE:
            if logistic is None or records.test is None:
                logistic = Logistic(train)
                _without_noise(found, logistic, test)
            _central(found, logistic, test, label)
        advance()
    return found


def _ours(found: Found, train: Dataset, test: Dataset, label: str) -> None:
    noise = draw_shares(label, found.d)
    variants = [(_OURS, epsilon, noise) for epsilon in _EPSILONS]
    if found.benchmark.title == _TWO_SIDED[0]:
        variants.append((_HALF, _TWO_SIDED[1], noise // 2))
    for method, epsilon, used in variants:
        model = learn_in_clear(study_of(found.d, epsilon, found.benchmark.delta), train, used)
        found.note(method, epsilon, test, model.weights, model.offset[0])


def _apart(train: Dataset, delta: float, label: str) -> float:
    """Return by how much the real roles' classifier differs from that in the clear, beside its length."""
    study = study_of(train.X.shape[1], _ROLES_EPSILON, delta)
    clear, real = learn_in_clear(study, train, draw_shares(label, study.d)), _through_roles(study, train, label)
    a, b = (np.array(model.weights + model.offset) for model in (clear, real))
    return float(np.linalg.norm(a - b) / np.linalg.norm(a))


def _without_noise(found: Found, logistic: Logistic, test: Dataset) -> None:
    answer = 1.0 if logistic.records.y.sum() > 0 else -1.0
    found.note(_MAJORITY, 0, test, np.zeros(found.d), answer)
    for penalty in _FREE_PENALTIES:
        found.note(f"{_FREE} {penalty:g}", 0, test, logistic.fit(penalty))


def _central(found: Found, logistic: Logistic, test: Dataset, label: str) -> None:
    delta = found.benchmark.delta
    for epsilon in _EPSILONS:
        at = f"{label} {epsilon}"
        found.note(_AMP, epsilon, test, amp(logistic, epsilon, delta, SimulationRng(at, _AMP)))
        found.note(_ADASSP, epsilon, test, adassp(logistic, epsilon, delta, SimulationRng(at, _ADASSP)))
        for k, penalty in enumerate(penalties(epsilon)):
            w = objective_perturbation(logistic, penalty, epsilon, delta, SimulationRng(at, f"{_OBJECTIVE} {k}"))
            found.note(f"{_OBJECTIVE} {k}", epsilon, test, w)


# --- The tables -----------------------------------------------------------------------


def figure_1(draws: int, seed: int, progress: Callable[[int, int], None], data: Path | None) -> Report:
    """Return the tables for the data sets whose folders are there.

    Parameters
    ----------
    draws : int
        How many draws of the noise for each data set; where it has no fixed split, each has a split of its own.
    seed : int
    progress : callable
        (done, of).
    data : path
        The directory that holds the folders; the current one by default.

    Raises
    ------
    BadInput
        None of the folders is there, or a file is not what its name says.
    """
    root = data or Path()
    there = [one for one in BENCHMARKS if not one.folder or (root / one.folder).is_dir()]
    if not any(one.folder for one in there):
        raise BadInput(
            f"{root} has none of the folders {', '.join(one.folder for one in BENCHMARKS if one.folder)}",
            "give --data DIRECTORY, where DIRECTORY holds at least one of these folders",
        )
    absent = [f"{one.title} (no folder {one.folder})" for one in BENCHMARKS if one not in there]
    notes = [_CLEAR, _SEEDED, _MEANING, _CENTRAL]
    notes += [f"Left out, since {root} does not have it: {', '.join(absent)}."] if absent else []
    done = 0

    def advance() -> None:
        nonlocal done
        done += 1
        progress(done, draws * len(there))

    # One set at a time: the large ones take some tens of megabytes each.
    found = [measure(one, one.read(root / one.folder), draws, seed, advance) for one in there]
    rows = [row for one in found for row in (*_own_rows(one), *_beside_rows(one), *_promised_rows(one))]
    settings = {"draws": draws, "K": _K, "seed": seed, "data_sets": len(there)}
    return Report("dp-whitened", "1", notes, settings, [*rows, *_role_rows(found), *_broken_rows(found)])


def _heading(found: Found) -> str:
    return f"{found.benchmark.title}, N = {found.N:,}, d = {found.d}, delta = {found.benchmark.delta:g}"


def _own_rows(found: Found) -> list[Row]:
    bands = _BANDS[found.benchmark.title]
    errors, aucs = [], []
    for epsilon in _EPSILONS:
        high, low = bands.get(epsilon, (None, None))
        least = _TWO_SIDED[2] if (found.benchmark.title, epsilon) == _TWO_SIDED[:2] else None
        name, note = f"eps = {epsilon}", f"s = {found.strength(epsilon):.1f}"
        errors.append(Row(f"{_heading(found)}: error", name, *found.error(_OURS, epsilon), least, high, note=note))
        aucs.append(Row(f"{_heading(found)}: AUC", name, *found.auc(_OURS, epsilon), low))
    return [*errors, *aucs]


def _beside_rows(found: Found) -> list[Row]:
    table = f"{found.benchmark.title}, beside it"
    rows = []
    for name, method in ((_MAJORITY, _MAJORITY), (_FREE, found.best(_FREE, 0))):
        rows.append(Row(table, name, *found.error(method, 0), note=f"AUC {found.auc(method, 0)[0]:.3f}"))
    for method in (_AMP, _OBJECTIVE, _ADASSP):
        for epsilon in _EPSILONS:
            best = found.best(method, epsilon)
            note = f"AUC {found.auc(best, epsilon)[0]:.3f}"
            rows.append(Row(table, f"{method}, eps = {epsilon}", *found.error(best, epsilon), note=note))
    return rows


def _promised_rows(found: Found) -> list[Row]:
    """Where s says that there is enough to go by, ours is no worse than the majority's rule and central methods."""
    rows = []
    for epsilon in _EPSILONS:
        if found.strength(epsilon) < _PROMISED:
            continue
        value, error = found.error(_OURS, epsilon)
        for method, at, slack in (
            (_MAJORITY, 0, _MAJORITY_SLACK),
            (_AMP, epsilon, _CENTRAL_SLACK),
            (_OBJECTIVE, epsilon, _CENTRAL_SLACK),
        ):
            other, other_error = found.error(found.best(method, at), at)
            both = hypot(error or 0, other_error or 0) or None
            name = f"eps = {epsilon}, less {method}"
            rows.append(Row(f"{found.benchmark.title}, compared, s >= 40", name, value - other, both, high=slack))
    return rows


def _role_rows(found: Sequence[Found]) -> list[Row]:
    table = f"Through the real roles, eps = {_ROLES_EPSILON}: how far the classifier is from that in the clear"
    return [Row(table, one.benchmark.title, one.apart, high=_SAME) for one in found]


def _broken_rows(found: Sequence[Found]) -> list[Row]:
    title, epsilon, low = _TWO_SIDED
    table = "Broken variants must miss"
    return [
        Row(table, f"{title}, eps = {epsilon}, {_HALF}", *one.error(_HALF, epsilon), low, one_high(title, epsilon), True)
        for one in found
        if one.benchmark.title == title
    ]


def one_high(title: str, epsilon: float) -> float | None:
    """Return the upper end of a band of errors."""
    return _BANDS[title][epsilon][0]
