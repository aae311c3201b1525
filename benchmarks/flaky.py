"""``python -m benchmarks.flaky [K ...]``: both ways to go on without parties, beside a run that needs everybody.

The first table is measured. It has ``dp-gd`` runs with d = 50 at the metered in-memory table, as in
:mod:`benchmarks.sites`: without ``[dropouts]``, with retries, and under double masks. A tenth of the parties, and one
at least, may side with Charlie, and as many may fall silent. The costs are those of runs in which nobody does. Then
half of those who may fall silent are lost in the second round: one half of them before they contribute, the others
after that. Everybody who is left must end with the same model. Times are CPU times; E is one encryption of phe at 2048
bits in the same run.

The second table follows from the studies: how many retries it takes that 99 of 100 runs go on, where a tenth of the
parties is lost and each loss hits a sum at random; how much more noise either way costs then; and how many parties
either way can lose at most.

By default K is 5, 20, 60, 200 and 1,000, which take some ten minutes.
"""

import argparse
import math
import sys
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from statistics import median

from rich.console import Console
from rich.table import Table

from benchmarks.measure import Yardstick
from benchmarks.meter import COUNTED, GRADIENTS, MeteredTable
from benchmarks.sites import crowd_records, crowd_study
from masquerade_core.errors import BadInput
from masquerade_core.study import CHARLIE, Study
from masquerade_core.study.sections import Dropouts
from masquerade_core.table import Silence
from masquerade_core.thresholds import thresholds
from masquerade_core.words import counted
from masquerade_protocols import entry_of
from masquerade_protocols.dp_gd import roles as dp_gd
from masquerade_protocols.in_memory import run_in_memory

__all__ = [
    "DOUBLE",
    "NONE",
    "RETRIES",
    "Costs",
    "few",
    "flaky_study",
    "measure",
    "most_lost",
    "occupied_most",
    "prices",
]

NONE, RETRIES, DOUBLE = "nobody may be lost", "retries", "double-masks"
ROUNDS = 3
STUDIES = (1, 30, 300)
"""Rounds of the ``dp-gd`` studies whose noise is compared. One round is one sum, as in ``summary``."""

SURE = Fraction(99, 100)

_BITS = 2048
_PATIENCE = 30.0  # seconds
_TENTH = 10
_WORK = tuple(step for step in COUNTED if step != GRADIENTS)
_SENT = frozenset({"Masked", "DoublyMasked", "Vouched", "Revealed"})
_GOT = frozenset({"Summed", "Outcome", "Asked", "Opening"})


@dataclass(frozen=True)
class Costs:
    """The cost of one method's runs, and the losses that one of them survived.

    Attributes
    ----------
    party_setup, charlie_setup : float
        CPU seconds until the rounds begin, the sum of the sizes included.
    party_round, charlie_round : float
        CPU seconds in a round.
    sent, received : float
        Bytes of frames of a party in a round.
    lost, ended : int
        How many parties fell silent in the second run, and how many ended with one and the same model.
    waits : int
        How often Charlie's patience ended in that run.
    e : float
        One encryption, for the unit.
    """

    K: int
    method: str
    party_setup: float
    charlie_setup: float
    party_round: float
    charlie_round: float
    sent: float
    received: float
    lost: int
    ended: int
    waits: int
    e: float


def few(K: int) -> int:
    """Return how many of K parties may side with Charlie, and how many may fall silent: a tenth, and one at least."""
    return max(1, K // _TENTH)


def flaky_study(K: int, method: str, rounds: int = ROUNDS, retries: int | None = None) -> Study:
    """Return a ``dp-gd`` study of K parties, of whom a tenth may fall silent in one of the two ways, or none."""
    study, some = crowd_study(K, rounds=rounds), few(K)
    privacy = study.privacy.model_copy(update={"colluders": some})
    dropouts = None
    if method == RETRIES:
        dropouts = Dropouts(min_survivors=K - some, retries=retries or some, patience_seconds=_PATIENCE)
    elif method == DOUBLE:
        dropouts = Dropouts(min_survivors=K - some, method="double-masks", patience_seconds=_PATIENCE)
    return study.model_copy(update={"dropouts": dropouts, "privacy": privacy})


def silences(study: Study, method: str) -> dict[str, Silence]:
    """Return who is lost in the second round: half of them before they contribute, the others after that."""
    lost = study.names[1 : 1 + math.ceil(few(study.K) / 2)]
    # The first sum is that of the sizes, so a round is one message later than its number says.
    before, after = (
        (Silence("Masked", 2), Silence("Masked", 3))
        if method == RETRIES
        else (Silence("DoublyMasked", 2), Silence("Revealed", 2))
    )
    return {name: after if i % 2 else before for i, name in enumerate(lost)}


def measure(K: int, method: str, rounds: int = ROUNDS) -> Costs:
    """Run ``dp-gd`` with K parties, once with all and once with losses, and return what it cost and survived."""
    yardstick = Yardstick(_BITS)
    yardstick.take()
    study = flaky_study(K, method, rounds)
    records = dict.fromkeys(study.names, crowd_records(study))
    table = MeteredTable(study.names, study=study)
    run_in_memory(dp_gd, study, records, table=table)
    parties, sums = study.names[1:], rounds + 1  # the roster's first party has more to do in the set-up

    def before(who: Sequence[str]) -> float:
        return table.meter.total_before("rounds", who, _WORK)

    def in_rounds(who: Sequence[str]) -> float:
        return (table.meter.total(who, _WORK) - before(who)) / rounds

    def per_round(types: frozenset[str], end: str) -> float:
        named = set(parties)
        return sum(p.length for p in table.passed if p.type in types and getattr(p, end) in named) / len(parties) / sums

    lost, ended, waits = 0, K - 1, 0
    if method != NONE:
        silent = silences(study, method)
        losing = MeteredTable(study.names, study=study, silent=silent)
        results = run_in_memory(dp_gd, study, records, table=losing)
        stayed = [name for name in parties if name not in silent]
        lost, ended = len(silent), sum(results[name] == results[CHARLIE] for name in stayed)
        waits = round(losing.now / _PATIENCE)
    return Costs(
        K=K,
        method=method,
        party_setup=before(parties) / len(parties),
        charlie_setup=before((CHARLIE,)),
        party_round=in_rounds(parties) / len(parties),
        charlie_round=in_rounds((CHARLIE,)),
        sent=per_round(_SENT, "source"),
        received=per_round(_GOT, "to"),
        lost=lost,
        ended=ended,
        waits=waits,
        e=median(yardstick.samples + yardstick.take()),
    )


def occupied_most(losses: int, sums: int, sure: Fraction = SURE) -> int:
    """Return in how many of the sums somebody is lost, at most, with this chance; each loss hits one at random."""
    chances = {0: Fraction(1)}  # of so many sums that lost somebody
    for _ in range(losses):
        after: dict[int, Fraction] = {}
        for hit, chance in chances.items():
            after[hit] = after.get(hit, Fraction(0)) + chance * Fraction(hit, sums)
            if hit < sums:
                after[hit + 1] = after.get(hit + 1, Fraction(0)) + chance * Fraction(sums - hit, sums)
        chances = after
    total = Fraction(0)
    for hit in sorted(chances):
        total += chances[hit]
        if total >= sure:
            return hit
    return sums


def prices(K: int, rounds: int) -> tuple[int, float, float | None]:
    """Return R, and the price of retries and of double masks: how much more noise than where nobody may be lost.

    The second price is None where double masks cannot lose a tenth of the parties.
    """
    some = few(K)
    retries, refused = occupied_most(some, rounds), thresholds(K, some, some) is None
    first = price_of(flaky_study(K, RETRIES, rounds, retries))
    return retries, first, None if refused else price_of(flaky_study(K, DOUBLE, rounds))


def price_of(study: Study) -> float:
    """Return how much more noise a study's ``[dropouts]`` cost."""
    return entry_of(study).dropout_price(study)


def most_lost(K: int, method: str) -> int:
    """Return how many parties a study may lose at most, where a tenth may side with Charlie."""
    some = few(K)
    if method == DOUBLE:
        return bisect_left(range(K), True, key=lambda D: thresholds(K, some, D) is None) - 1
    study = flaky_study(K, RETRIES)

    def refused(lost: int) -> bool:
        dropouts = Dropouts(min_survivors=K - lost, retries=1, patience_seconds=_PATIENCE)
        try:
            entry_of(study.model_copy(update={"dropouts": dropouts}))
        except BadInput:
            return True
        return False

    return bisect_left(range(K - max(2, some + 1) + 1), True, key=refused) - 1


def _measured(found: Sequence[Costs]) -> Table:
    names = "K", "", "party, a round", "sends, gets", "Charlie, a round", "until the rounds", "lost; end alike; waits"
    shown = Table(*names, title="dp-gd with d = 50; E is one encryption")
    for c in found:
        what = f"{c.lost}; {c.ended} of {c.K - 1 - c.lost}; {c.waits}" if c.method != NONE else "-"
        shown.add_row(
            f"{c.K:,}",
            c.method,
            f"{1e3 * c.party_round:.1f} ms = {c.party_round / c.e:.2f} E",
            f"{c.sent / 1e3:.1f}, {c.received / 1e3:.1f} kB",
            f"{1e3 * c.charlie_round:.1f} ms = {c.charlie_round / c.K / c.e:.3f} E a party",
            f"{1e3 * c.party_setup:.1f} ms, {c.charlie_setup:.2f} s",
            what,
        )
    return shown


def _priced(parties: Sequence[int]) -> Table:
    names = (f"{counted(rounds, 'round')}: R, retries, double masks" for rounds in STUDIES)
    shown = Table("K", "lost", *names, "at most lost: retries, double masks", title="how much more noise, dp-gd")
    for K in parties:
        cells = []
        for rounds in STUDIES:
            retries, first, second = prices(K, rounds)
            cells.append(
                f"{retries}, {100 * first:.0f} %, " + ("refused" if second is None else f"{100 * second:.0f} %")
            )
        shown.add_row(f"{K:,}", str(few(K)), *cells, f"{most_lost(K, RETRIES)}, {most_lost(K, DOUBLE)}")
    return shown


def main() -> int:
    """Measure, and print both tables."""
    parser = argparse.ArgumentParser(prog="benchmarks.flaky", description="Measure both ways to lose parties.")
    parser.add_argument("parties", nargs="*", type=int, metavar="K", default=[5, 20, 60, 200, 1000])
    parser.add_argument("--rounds", type=int, default=ROUNDS, metavar="T", help=f"rounds of a run (default: {ROUNDS})")
    arguments = parser.parse_args()
    found = [measure(K, method, arguments.rounds) for K in arguments.parties for method in (NONE, RETRIES, DOUBLE)]
    console = Console(width=150)
    console.print(_measured(found))
    console.print(_priced([3, 4, *arguments.parties]))
    return 0 if all(c.ended == c.K - 1 - c.lost for c in found) else 1


if __name__ == "__main__":
    sys.exit(main())
