"""Runs of ``dp-whitened`` and of central methods on one data set: without encryption, once through the real roles."""

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from masquerade.draft import Draft, throwaway_key
from masquerade_core.data.schema import Dataset
from masquerade_core.errors import LocalProtocolError
from masquerade_core.model import Model
from masquerade_core.privacy.accounting.gaussian_dp import epsilon_of, mu_of
from masquerade_core.rng import SimulationRng
from masquerade_core.study import CHARLIE, Feature, Study
from masquerade_core.table import Table
from masquerade_lab.reproduce.central_baselines import Logistic, adassp, amp, objective_perturbation, penalties
from masquerade_lab.reproduce.dp_whitened_data import Benchmark, Split
from masquerade_lab.reproduce.engine.report import mean_and_error
from masquerade_protocols.dp_whitened import roles
from masquerade_protocols.dp_whitened.points import rounded
from masquerade_protocols.dp_whitened.public import Plan
from masquerade_protocols.in_memory import run_in_memory

__all__ = [
    "ADASSP",
    "AMP",
    "CENTRAL_DRAWS",
    "EACH",
    "EPSILONS",
    "FREE",
    "HALVED",
    "LARGE",
    "MAJORITY",
    "OBJECTIVE",
    "OURS",
    "PARTIES",
    "ROLES_EPSILON",
    "THINNED",
    "Found",
    "Noise",
    "draw_shares",
    "halved_epsilon",
    "learn_in_clear",
    "measure",
    "measure_once",
    "study_of",
]

# --- What was measured ----------------------------------------------------------------

_Array = NDArray[np.float64]
_At = tuple[str, float, int]


@dataclass
class Noise:
    """The noise that was added to the sums of the same place in each run.

    Parameters
    ----------
    squares : float
        The sum of the noise's squares, in units of how far a replaced record moves the sum at most. Those of products
        of two coordinates count twice.
    numbers : int
        How many numbers there were.
    """

    squares: float = 0.0
    numbers: int = 0


@dataclass
class Found:
    """The measurements on one data set.

    Parameters
    ----------
    benchmark : Benchmark
    N, d : int
        Training records, and coordinates of one.
    by : dict
        By method and epsilon, for each draw: the number of the split or of the draw, the error and the AUC.
    draws : dict
        By method and epsilon, for each draw: the squares and numbers of each sum's noise in turn, as in
        :class:`Noise`.
    apart : float
        How far the classifier of the real roles was from that in the clear.
    """

    benchmark: Benchmark
    N: int = 0
    d: int = 0
    by: defaultdict[tuple[str, float], list[tuple[int, float, float]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    draws: defaultdict[tuple[str, float], list[list[tuple[float, int]]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    apart: float = 0.0

    def note(self, at: _At, test: Dataset, w: Sequence[float] | _Array, offset: float = 0) -> None:
        """Add one classifier's error and AUC on test records; ``at`` has the method, epsilon and number."""
        method, epsilon, number = at
        scores = test.X @ np.asarray(w) + offset
        ranks, positive = rankdata(scores), test.y > 0
        pairs = positive.sum() * (~positive).sum()
        above = ranks[positive].sum() - positive.sum() * (positive.sum() + 1) / 2
        self.by[method, epsilon].append((number, float(np.mean((scores > 0) != positive)), float(above / pairs)))

    def parts(self) -> dict[str, Any]:
        """Return everything but the benchmark, as a task may return it."""
        return {"N": self.N, "d": self.d, "by": dict(self.by), "draws": dict(self.draws), "apart": self.apart}

    def add(self, parts: Mapping[str, Any]) -> None:
        """Add what was measured in another draw or split."""
        self.N, self.d, self.apart = parts["N"], parts["d"], self.apart + parts["apart"]
        for at, found in parts["by"].items():
            self.by[at] += found
        for at, drawn in parts["draws"].items():
            self.draws[at] += drawn

    def error(self, method: str, epsilon: float) -> tuple[float, float | None]:
        """Return the mean error and its standard error, None after a single draw."""
        return self._mean(method, epsilon, 1)

    def auc(self, method: str, epsilon: float) -> tuple[float, float | None]:
        """Return the mean AUC and its standard error, None after a single draw."""
        return self._mean(method, epsilon, 2)

    def _mean(self, method: str, epsilon: float, which: int) -> tuple[float, float | None]:
        values = np.array(self.by[method, epsilon])
        means = np.array([values[values[:, 0] == number, which].mean() for number in np.unique(values[:, 0])])
        return mean_and_error(means[:, None]) if len(means) > 1 else (float(means[0]), None)

    def best(self, method: str, epsilon: float) -> str:
        """Return the name of the method's best variant."""
        names = [name for name, at in self.by if at == epsilon and name.startswith(method)]
        return min(names, key=lambda name: self.error(name, epsilon)[0])

    def mu_kept(self, method: str, epsilon: float) -> float:
        """Return the mu that the measured noise of all sums together keeps, over that of the privacy target."""
        sums: list[Noise] = []
        for drawn in self.draws[method, epsilon]:
            sums += [Noise() for _ in drawn[len(sums) :]]
            for one, (squares, numbers) in zip(sums, drawn, strict=False):
                one.squares += squares
                one.numbers += numbers
        squared = sum(one.numbers / one.squares for one in sums)
        return sqrt(squared) / mu_of(epsilon, self.benchmark.delta)

    def strength(self, epsilon: float) -> float:
        """Return s."""
        return self.N * mu_of(epsilon, self.benchmark.delta) / sqrt(self.d)


# --- Runs -----------------------------------------------------------------------------

EPSILONS = (0.1, 0.2, 0.5, 1.0, 3.0)
PARTIES = 5
LARGE, CENTRAL_DRAWS = 20_000, 10
"""On data sets of more than so many records, the central methods have so many draws at most."""
EACH = 3
"""Smaller sets without a fixed split have so many draws of the noise for each of their splits."""
ROLES_EPSILON = 1.0

OURS, AMP, OBJECTIVE, ADASSP = "dp-whitened", "AMP", "objective perturbation", "AdaSSP"
FREE, MAJORITY = "no privacy", "majority"
HALVED, THINNED = "every sensitivity halved", "every share of noise halved"
"""Broken variants. Of the first, everybody knows its noise; of the second, everybody takes it for whole."""

_FREE_PENALTIES = (0.01, 0.1, 1.0, 10.0)
_SMALL_KEYS = 512

_Integers = NDArray[np.int64]


@cache
def study_of(d: int, epsilon: float, delta: float) -> Study:
    """Return a study of five parties and d coordinates, one of which may be a constant."""
    draft = Draft(
        parties=[(f"party-{k}", throwaway_key()) for k in range(1, PARTIES + 1)],
        curator_key=throwaway_key(),
        protocol="dp-whitened",
        epsilon=epsilon,
        delta=delta,
        colluders=0,
        min_records=2,
        features=[Feature(name=f"x{i}", min=-1.0, max=1.0) for i in range(1, d + 1)],
        intercept=False,
        key_bits=_SMALL_KEYS,
    )
    return Study.parse(draft.to_toml(), "this table's settings", in_memory=True)


# --- A run in the clear ----------------------------------------------------------------


def draw_shares(label: str, d: int) -> _Integers:
    """Return the sum of all parties' shares of noise, in the order in which the sums use it up."""
    shares = [roles.draw_noise(rng, d) for rng in _rngs(label).values()]
    return np.asarray(np.sum([np.frombuffer(share, dtype="<i8") for share in shares], axis=0))


def _rngs(label: str) -> dict[str, SimulationRng]:
    return {f"party-{k}": SimulationRng(label, f"party {k}") for k in range(1, PARTIES + 1)}


class _InTheClear:
    """Somebody who has all records and all shares of noise: nobody has to agree."""

    def __init__(self, plan: Plan, data: Dataset, noise: _Integers, seen: list[Noise]) -> None:
        self._plan, self._data, self._seen, self._sums = plan, data, seen, 0
        self._products, self._others = np.split(noise, [plan.study.d * (plan.study.d - 1) // 2])

    async def stage(self, name: str) -> None:
        """Say nothing."""

    async def progress(self, done: int, total: int) -> None:
        """Say nothing."""

    async def total(
        self, label: str, length: int, unit: int, own: Callable[[Dataset], _Integers], products: int = 0
    ) -> _Array:
        """Return the noisy mean."""
        noise, self._others = np.split(self._others, [length - products])
        noise = np.concatenate([self._products[:products], noise])
        self._note(noise / (sqrt(_squared_move(label, length - products, self._plan.study.d)) * unit), products)
        return np.asarray((own(self._data) + noise) / (float(unit) * self._plan.N))

    def _note(self, noise: _Array, products: int) -> None:
        if len(self._seen) == self._sums:
            self._seen.append(Noise())
        at = self._seen[self._sums]
        at.squares += float(noise @ noise + noise[:products] @ noise[:products])
        at.numbers += len(noise)
        self._sums += 1

    async def agree(self, own: _Array, *, unsure: bool = False) -> _Array:
        """Go on from one's own numbers, on the grid on which Charlie sends them."""
        del unsure
        return np.frombuffer(rounded(own), dtype="<i8") / 2.0**32


def _squared_move(label: str, others: int, d: int) -> float:
    """Return how far a replaced record moves a sum, as a squared length in units of a record's contribution.

    ``others`` numbers of the sum are no product of two coordinates. The second moments have one more where data are
    centred. ``docs/privacy/dp-whitened.md`` derives these bounds.
    """
    if label == "second moments":
        return 5.0 if others > 2 * d else 4.5
    return 5.0 if label == "first mean" else 4.0


def learn_in_clear(study: Study, data: Dataset, noise: _Integers, seen: list[Noise] | None = None) -> Model:
    """Run the protocol's steps on everybody's records, with the noise that :func:`draw_shares` returns.

    Parameters
    ----------
    seen : list of Noise, optional
        For each sum in turn, the noise of earlier runs at the same N; that of this run is added.
    """
    plan = Plan(study, len(data.y))
    steps = roles.learn(_InTheClear(plan, data, noise, [] if seen is None else seen), plan)
    try:
        steps.send(None)
    except StopIteration as end:
        model: Model = end.value
        return model
    raise LocalProtocolError("somebody who has all records waited for somebody else")


def _through_roles(study: Study, data: Dataset, label: str) -> Model:
    """Run the real roles in memory, on records dealt to five parties, with the same shares of noise."""
    parts = np.array_split(np.arange(len(data.y)), PARTIES)
    dealt = {name: Dataset(data.X[part], data.y[part]) for name, part in zip(study.names, parts, strict=True)}
    model: Model = run_in_memory(roles, study, dealt, table=Table(study.names, _rngs(label)))[CHARLIE]
    return model


# --- One data set -----------------------------------------------------------------------


def measure(benchmark: Benchmark, records: Split, draws: int, seed: int, *, broken: Collection[float] = ()) -> Found:
    """Learn from one data set at each epsilon, and at ``broken`` ones by broken variants too.

    There are so many draws of the noise; or so many splits, with ``EACH`` draws where records are few.
    """
    found = Found(benchmark)
    for number in range(draws):
        found.add(measure_once(benchmark, records, number, seed, broken=broken).parts())
    return found


def measure_once(
    benchmark: Benchmark, records: Split, number: int, seed: int, *, broken: Collection[float] = ()
) -> Found:
    """Return what one draw of the noise gives, or one split."""
    found = Found(benchmark)
    label = f"dp-whitened {seed} {benchmark.title} {number}"
    train, test = records.draw(label)
    found.N, found.d = train.X.shape
    few = found.N <= LARGE
    if number == 0:
        found.apart = _apart(train, benchmark.delta, label)
    logistic = Logistic(train) if number < CENTRAL_DRAWS or few else None
    if logistic is not None and (number == 0 or records.test is None):
        _without_noise(found, logistic, test, number)
    for draw in range(EACH if few and records.test is None else 1):
        drawn = f"{label} {draw}" if draw else label
        _ours(found, train, test, (drawn, number), broken)
        if logistic is not None:
            _central(found, logistic, test, (drawn, number))
    return found


def _ours(found: Found, train: Dataset, test: Dataset, draw: tuple[str, int], broken: Collection[float]) -> None:
    label, number = draw
    noise = draw_shares(label, found.d)
    delta = found.benchmark.delta
    variants = [(OURS, epsilon, epsilon, noise) for epsilon in EPSILONS]
    variants += [(HALVED, epsilon, halved_epsilon(epsilon, delta), noise) for epsilon in broken]
    variants += [(THINNED, epsilon, epsilon, noise // 2) for epsilon in broken]
    for method, epsilon, used, shares in variants:
        seen: list[Noise] = []
        model = learn_in_clear(study_of(found.d, used, delta), train, shares, seen)
        found.draws[method, epsilon].append([(one.squares, one.numbers) for one in seen])
        found.note((method, epsilon, number), test, model.weights, model.offset[0])


def halved_epsilon(epsilon: float, delta: float) -> float:
    """Return the epsilon that is kept by half as much noise as (epsilon, delta) needs: mu is twice as large."""
    return round(epsilon_of(2 * mu_of(epsilon, delta), delta), 6)


def _apart(train: Dataset, delta: float, label: str) -> float:
    """Return by how much the real roles' classifier differs from that in the clear, beside its length."""
    study = study_of(train.X.shape[1], ROLES_EPSILON, delta)
    clear, real = learn_in_clear(study, train, draw_shares(label, study.d)), _through_roles(study, train, label)
    a, b = (np.array(model.weights + model.offset) for model in (clear, real))
    return float(np.linalg.norm(a - b) / np.linalg.norm(a))


def _without_noise(found: Found, logistic: Logistic, test: Dataset, number: int) -> None:
    answer = 1.0 if logistic.records.y.sum() > 0 else -1.0
    found.note((MAJORITY, 0, number), test, np.zeros(found.d), answer)
    for penalty in _FREE_PENALTIES:
        found.note((f"{FREE} {penalty:g}", 0, number), test, logistic.fit(penalty))


def _central(found: Found, logistic: Logistic, test: Dataset, draw: tuple[str, int]) -> None:
    label, number = draw
    delta = found.benchmark.delta
    for epsilon in EPSILONS:
        at = f"{label} {epsilon}"
        found.note((AMP, epsilon, number), test, amp(logistic, epsilon, delta, SimulationRng(at, AMP)))
        found.note((ADASSP, epsilon, number), test, adassp(logistic, epsilon, delta, SimulationRng(at, ADASSP)))
        for k, penalty in enumerate(penalties(epsilon)):
            w = objective_perturbation(logistic, penalty, epsilon, delta, SimulationRng(at, f"{OBJECTIVE} {k}"))
            found.note((f"{OBJECTIVE} {k}", epsilon, number), test, w)
