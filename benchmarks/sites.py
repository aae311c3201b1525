"""``python -m benchmarks.sites [K ...]``: what a study with many sites costs each of them, and Charlie.

A whole ``dp-gd`` run with d = 50 at the metered in-memory table: the program's own roles, all parties in one thread,
every frame signed and checked. The sums are masked, and above 65 parties each masks with 64 neighbours. Times are CPU
times, in units of E, one encryption of phe at 2048 bits in the same run.

What a network adds is not in them: no join, no sockets, no journal and no beats. All parties have the same 20 simulated
records. Each party of a real run works out everybody's place on the circle of the public coin; at the table this is
done once for all, so it is measured apart.

By default K is 100 and 1,000. 20,000 parties take some ten minutes and 2 GB of memory. Each K runs in a process of its
own, so its memory is its own.
"""

import argparse
import multiprocessing
import resource
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.measure import Yardstick
from benchmarks.meter import BOXES, COUNTED, EXCLUDED, FRAMES, GRADIENTS, TABLE, MeteredTable
from masquerade_core import neighbours
from masquerade_core.data.schema import Dataset
from masquerade_core.rng import SystemRng
from masquerade_core.study import CHARLIE, PublicKeys, Study
from masquerade_protocols.dp_gd import roles as dp_gd
from masquerade_protocols.in_memory import run_in_memory

__all__ = ["COORDINATES", "FLAT", "Costs", "crowd_records", "crowd_study", "measure"]

COORDINATES = 50
RECORDS = 20  # of each party
ROUNDS = 3

MOST_AT_CHARLIE = 0.02  # E, for a party in a round
MOST_SETUP = 60.0  # seconds at Charlie
FLAT = 1.2  # times what a party of the smallest study costs

_BITS = 2048
_CIRCLES = 9
_SAMPLES = 12  # of E, each time that every participant takes a turn
_WORK = tuple(step for step in COUNTED if step != GRADIENTS)  # a party's own records are not what is measured


@dataclass(frozen=True)
class Costs:
    """CPU seconds of one run, and memory in bytes.

    Attributes
    ----------
    party_setup, party_round : float
        Of a party, without the first one of the roster: until the rounds begin, and in a round; gradients left out.
    first_setup : float
        Of the roster's first party, which whispers the key of the check values to all others.
    charlie_setup, charlie_round : float
        Of Charlie: in all, and in a round.
    messages : float
        Of ``charlie_round``, what signatures, frames and the codec take.
    table : float
        What belongs to nobody: queues, and the keys that parties are shown.
    circle : float
        To work out everybody's place on the coin's circle, which each party of a real run does once.
    study, party : int
        The memory of the study, and of a party beside it.
    e : float
        One encryption, for the unit.
    """

    K: int
    rounds: int
    party_setup: float
    party_round: float
    first_setup: float
    charlie_setup: float
    charlie_round: float
    messages: float
    table: float
    circle: float
    study: int
    party: int
    e: float


def crowd_study(K: int, d: int = COORDINATES, rounds: int = ROUNDS) -> Study:
    """Return a study of K parties with few records each; its sums are masked."""
    rng = SystemRng()

    def key() -> str:
        return str(PublicKeys(rng.bytes(32), rng.bytes(32)))

    lines = [
        '[study]\nname = "crowd"\nprotocol = "dp-gd"\nmin_parties = 2\nout_of_bounds = "clamp"',
        f'min_records = {RECORDS}\ndeadline_seconds = 600.0\nnonce = "0123456789abcdef"',
        '[privacy]\nepsilon = 1.0\ndelta = 1e-7\ncalibration = "proven"\ncolluders = 1',
        f"[protocol]\nrounds = {rounds}\nclip = 0.5",
        '[model]\nregularization = 0.01\nintercept = false\n[crypto]\nsum = "masks"',
        f'[label]\nname = "y"\npositive = "1"\n[curator]\naddress = "tcp://127.0.0.1:5555"\nkey = "{key()}"',
        *(f'[[feature]]\nname = "x{i}"\nmin = -1.0\nmax = 1.0' for i in range(d)),
        *(f'[[party]]\nname = "site-{j}"\nkey = "{key()}"' for j in range(K)),
    ]
    return Study.parse("\n".join(lines), in_memory=True)


def crowd_records(study: Study) -> Dataset:
    """Return the records that every party has: they are simulated, and stand in memory once."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(RECORDS, study.d))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return Dataset(X, np.where(X[:, 0] > 0, 1.0, -1.0))


def _resident() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


class _TimedTable(MeteredTable):
    """A metered table that takes E again and again while it runs: a machine's speed changes within minutes."""

    def __init__(self, study: Study, yardstick: Yardstick) -> None:
        super().__init__(study.names, study=study)
        self._yardstick, self._turns, self._every = yardstick, 0, max(1, study.K // _SAMPLES)

    def _advance(self, name: str) -> bool:
        self._turns += 1
        if self._turns % self._every == 0:
            with self.meter.under("nobody", EXCLUDED):
                self._yardstick.take(1)
        return super()._advance(name)


def measure(K: int, rounds: int = ROUNDS) -> Costs:
    """Run ``dp-gd`` with K parties, and return what it cost."""
    yardstick = Yardstick(_BITS)
    empty = _resident()
    study = crowd_study(K, rounds=rounds)
    records = crowd_records(study)
    before = _resident()
    table = _TimedTable(study, yardstick)
    run_in_memory(dp_gd, study, dict.fromkeys(study.names, records), table=table)
    after, meter = _resident(), table.meter
    others = study.names[1:]

    def setup(*who: str) -> float:
        return meter.total_before("rounds", who, _WORK)

    def in_rounds(*who: str) -> float:
        return (meter.total(who, _WORK) - setup(*who)) / rounds

    messages = sum(
        meter.total((CHARLIE,), (step,)) - meter.total_before("rounds", (CHARLIE,), (step,)) for step in (BOXES, FRAMES)
    )
    return Costs(
        K=K,
        rounds=rounds,
        party_setup=setup(*others) / len(others),
        party_round=in_rounds(*others) / len(others),
        first_setup=setup(study.names[0]),
        charlie_setup=setup(CHARLIE),
        charlie_round=in_rounds(CHARLIE),
        messages=messages / rounds,
        table=meter.total(("table",), (TABLE,)),
        circle=_circle(study.names),
        study=before - empty,
        party=(after - before) // K,
        e=median(yardstick.samples),
    )


def _circle(names: Sequence[str]) -> float:
    """Return what one party spends to find its neighbours, when nobody in its process has drawn the circle."""
    taken = []
    for i in range(_CIRCLES):
        start = time.process_time()
        neighbours.neighbours_of(i.to_bytes(32, "big"), names, names[i])
        taken.append(time.process_time() - start)
    return median(taken)


def _alone(K: int, rounds: int) -> Costs:
    """Measure in a process of its own."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(measure, (K, rounds))


def main() -> int:
    """Measure, print the table, and compare it with the limits."""
    parser = argparse.ArgumentParser(prog="benchmarks.sites", description="Measure studies with many sites.")
    parser.add_argument("parties", nargs="*", type=int, metavar="K", default=[100, 1000])
    parser.add_argument("--rounds", type=int, default=ROUNDS, metavar="T", help=f"rounds of a run (default: {ROUNDS})")
    arguments = parser.parse_args()
    progress = Console(stderr=True)
    found = []
    for K in arguments.parties:
        progress.print(f"K = {K:,}", style="dim")
        found.append(_alone(K, arguments.rounds))
    Console(width=140).print(_shown(found))
    kept = all(c.charlie_round / c.K / c.e <= MOST_AT_CHARLIE and c.charlie_setup <= MOST_SETUP for c in found)
    flat = all(c.party_round / c.e <= FLAT * found[0].party_round / found[0].e for c in found)
    return 0 if kept and flat else 1


def _shown(found: Sequence[Costs]) -> Table:
    names = "K", "party, round", "party, set-up", "circle", "first party", "Charlie / K, round", "Charlie, round"
    shown = Table(*names, "Charlie, set-up", "study", "memory of a party", title="CPU times; E is one encryption")
    for c in found:
        in_e = (
            f"{seconds / c.e:.3f} E"
            for seconds in (c.party_round, c.party_setup, c.circle, c.first_setup, c.charlie_round / c.K)
        )
        memory = f"{c.study / 1e6:.1f} MB", f"{c.party / 1e3:.0f} kB"
        shown.add_row(f"{c.K:,}", *in_e, f"{c.charlie_round:.3f} s", f"{c.charlie_setup:.2f} s", *memory)
    return shown


if __name__ == "__main__":
    sys.exit(main())
