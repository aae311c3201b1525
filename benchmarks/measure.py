"""The measurements: every figure in units of E, the CPU time of one ``phe`` encryption taken right before and after.

One round takes each measurement once. Rounds are repeated, and medians count. E changes with the machine's clock and
with its other load, and so does the measured work, so their ratio is steadier than either.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from statistics import median
from typing import Any, TypeVar

import numpy as np
from phe import PaillierPublicKey

from benchmarks import naive
from benchmarks.meter import MESSAGE_STEPS, STEPS, MeteredTable, ordinary
from masquerade_core.crypto import comparison
from masquerade_core.data.schema import Dataset
from masquerade_core.privacy.noise.output_perturbation import paper_scale
from masquerade_core.privacy.samplers.discrete_laplace import discrete_laplace
from masquerade_core.rng import SystemRng
from masquerade_core.study import CHARLIE, PublicKeys, Study
from masquerade_protocols.in_memory import run_in_memory
from masquerade_protocols.local_aggregation import roles as local_aggregation
from masquerade_protocols.local_aggregation.public import FRACTION_BITS

__all__ = ["MANY", "Bench", "MessageSize", "make_data", "make_study", "message_sizes"]

KEY_BITS = 2048
MANY = 50  # parties
COORDINATES = 123  # the Adult data's, as in the paper's section 5
COMPARISONS = 5  # per sample of one comparison: some 20 ms each

R = TypeVar("R")


def make_study(K: int, d: int = COORDINATES, bits: int = KEY_BITS) -> Study:
    """Return a study of K parties and d numeric features."""
    rng = SystemRng()

    def key() -> str:
        return str(PublicKeys(rng.bytes(32), rng.bytes(32)))

    lines = [
        '[study]\nname = "bench"\nprotocol = "local-aggregation"\nmin_parties = 2\nlead = "hospital-0"',
        'min_records = 100\ndeadline_seconds = 600.0\nnonce = "0123456789abcdef"',
        '[privacy]\nepsilon = 1.0\ndelta = 1e-5\ncalibration = "paper"',
        "[model]\nregularization = 0.01\nintercept = false",
        f'[crypto]\nkey_bits = {bits}\n[label]\nname = "y"\npositive = "1"',
        f'[curator]\naddress = "tcp://127.0.0.1:5555"\nkey = "{key()}"',
        *(f'[[feature]]\nname = "x{i}"\nmin = -1.0\nmax = 1.0' for i in range(d)),
        *(f'[[party]]\nname = "hospital-{j}"\nkey = "{key()}"' for j in range(K)),
    ]
    return Study.parse("\n".join(lines), in_memory=True)


def make_data(study: Study) -> dict[str, Dataset]:
    """Return a few simulated records in the unit ball, since training is not measured; no two parties have as many."""
    rng = np.random.default_rng(0)
    true = rng.normal(size=study.d)
    data = {}
    for j, name in enumerate(study.names):
        X = rng.normal(size=(100 + 7 * j % 101, study.d))
        X /= np.linalg.norm(X, axis=1, keepdims=True)
        y = np.where(X @ true > 0, 1.0, -1.0)
        y[:2] = 1.0, -1.0
        data[name] = Dataset(X, y)
    return data


def run_metered(study: Study, data: dict[str, Dataset]) -> MeteredTable:
    """Run local aggregation at a metered table."""
    table = MeteredTable(study.names)
    run_in_memory(local_aggregation, study, data, table=table)
    return table


@dataclass(frozen=True)
class MessageSize:
    """One type of message on the wire: its sender, the number of frames, and the bytes of a frame."""

    source: str
    type: str
    frames: int
    shortest: int
    longest: int


def message_sizes(table: MeteredTable, lead: str) -> list[MessageSize]:
    """Return the frames that the lead, one ordinary party and Charlie put on the wire, in the order of the run."""
    roles = {lead: "lead", ordinary(table.names, lead)[0]: "ordinary party", CHARLIE: "Charlie"}
    return [
        MessageSize(roles[who], kind, len(lengths), min(lengths), max(lengths))
        for (who, kind), lengths in table.sent.items()
        if who in roles
    ]


class Yardstick:
    """E, sampled again and again.

    Parameters
    ----------
    bits : int
        Key length.
    n : int, optional
        The modulus; a new one is drawn if it is not given.
    """

    def __init__(self, bits: int, n: int | None = None) -> None:
        self.n: int = naive.Keys.draw(bits).xi.n if n is None else n
        self._key = PaillierPublicKey(self.n)
        self.samples: list[float] = []

    def take(self, count: int = 5) -> list[float]:
        """Time ``count`` encryptions, one by one."""
        taken = []
        for _ in range(count):
            start = time.process_time()
            self._key.raw_encrypt(123456789)
            taken.append(time.process_time() - start)
        self.samples += taken
        return taken

    def around(self, work: Callable[[], R]) -> tuple[R, float]:
        """Do the work; return its result and the median of E measured right before and right after."""
        before = self.take()
        result = work()
        return result, median(before + self.take())


@dataclass
class Bench:
    """All samples, each in units of E.

    Attributes
    ----------
    values : dict of str to list of float
        Samples by figure.
    by_step : dict of str to dict
        Samples by "K=5" or "K=50", then by (role, step); the ordinary parties are averaged.
    messages : list of MessageSize
        The frames of a run with K = 5.
    facts : dict of str to str
        What was measured and where, for the report's head.
    steps_of_round : dict of (str, str) to list of float
        The steps of one round of gradient descent, by (role, step).
    messages_of_round : list of MessageSize
        The frames of one round.
    by_parties, by_length : list
        The points of the two curves of growth.
    """

    rounds: int
    values: dict[str, list[float]] = field(default_factory=dict)
    by_step: dict[str, dict[tuple[str, str], list[float]]] = field(default_factory=dict)
    messages: list[MessageSize] = field(default_factory=list)
    facts: dict[str, str] = field(default_factory=dict)
    steps_of_round: dict[tuple[str, str], list[float]] = field(default_factory=dict)
    messages_of_round: list[MessageSize] = field(default_factory=list)
    by_parties: list[Any] = field(default_factory=list)
    by_length: list[Any] = field(default_factory=list)
    yardstick: Yardstick = field(default_factory=lambda: Yardstick(KEY_BITS))

    def run(self, progress: Callable[[str], None]) -> None:
        """Take all samples, one measurement after the other, ``rounds`` times."""
        keys, rng = naive.Keys.draw(KEY_BITS), SystemRng()
        for number in range(1, self.rounds + 1):
            progress(f"round {number} of {self.rounds}: one comparison")
            self._comparison(rng)
            self._naive_comparison(rng, keys)
            progress(f"round {number} of {self.rounds}: K=5")
            self._ours(5)
            progress(f"round {number} of {self.rounds}: K=5 with plain phe")
            self._naive(rng, keys, 5)
            progress(f"round {number} of {self.rounds}: K={MANY}")
            self._ours(MANY)

    def add(self, figure: str, value: float) -> None:
        """Keep one sample of a figure."""
        self.values.setdefault(figure, []).append(value)

    def _ours(self, K: int) -> None:
        study = make_study(K)
        data = make_data(study)
        table, e = self.yardstick.around(lambda: run_metered(study, data))
        where, total = f"K={K}", table.meter.total
        messages = total(steps=MESSAGE_STEPS)
        self.add(f"{where} total", total() / e)
        self.add(f"{where} arithmetic", (total() - messages) / e)
        self.add(f"{where} messages", messages / e)
        others = ordinary(study.names, study.lead)
        roles = {"ordinary party": others, "lead": (study.lead,), "Charlie": (CHARLIE,), "table": ("table",)}
        steps = self.by_step.setdefault(where, {})
        for role, names in roles.items():
            for step in STEPS:
                seconds = total(names, (step,)) / len(names)
                steps.setdefault((role, step), []).append(seconds / e)
        self.add(f"{where} bytes", max(table.bytes_sent(name) for name in others))
        if K == 5:
            self.messages = message_sizes(table, study.lead)

    def _naive(self, rng: SystemRng, keys: naive.Keys, K: int) -> None:
        sizes = [100 + 7 * j for j in range(K)]
        scale = 1 << FRACTION_BITS
        weights = [[rng.below(4 * scale) - 2 * scale for _ in range(COORDINATES)] for _ in range(K)]
        noise = [discrete_laplace(rng, paper_scale(n, 1.0, 0.01) * Fraction(scale), COORDINATES) for n in sizes]

        def timed() -> tuple[tuple[int, ...], float]:
            start = time.process_time()
            total = naive.aggregate(rng, keys, sizes, weights, noise)
            return total, time.process_time() - start

        (total, seconds), e = self.yardstick.around(timed)
        wanted = tuple(sum(column) + K * eta for column, eta in zip(zip(*weights, strict=True), noise[0], strict=True))
        assert total == wanted, "plain phe's result differs from the result without encryption"
        self.add(f"K={K} phe", seconds / e)

    def _comparison(self, rng: SystemRng) -> None:
        key = comparison.DeciderKey(comparison.DeciderKey.draw(rng))

        def timed() -> float:
            start = time.process_time()
            for x, y in pairs:
                items, clear = comparison.evaluate(rng, key.public, key.encrypt_bits(rng, y), x, "charlie")
                negative = key.count_zeros(items, "lead") ^ clear ^ (y >> comparison.BITS)
                assert negative == (x - y) % _M >> comparison.BITS
            return (time.process_time() - start) / len(pairs)

        pairs = _pairs(rng, COMPARISONS)
        seconds, e = self.yardstick.around(timed)
        self.add("comparison", seconds / e)

    def _naive_comparison(self, rng: SystemRng, keys: naive.Keys) -> None:
        def timed() -> float:
            start = time.process_time()
            assert naive.compare(rng, keys, x, y) == bool((x - y) % _M >> comparison.BITS)
            return time.process_time() - start

        ((x, y),) = _pairs(rng, 1)
        seconds, e = self.yardstick.around(timed)
        self.add("comparison phe", seconds / e)


_M = 1 << (comparison.BITS + 1)


def _pairs(rng: SystemRng, count: int) -> Sequence[tuple[int, int]]:
    return [(rng.below(_M), rng.below(_M)) for _ in range(count)]
