"""``python -m benchmarks.flaky [K ...]``: what double masks cost where sites come and go.

A ``dp-gd`` run with d = 50 at the metered in-memory table, as in :mod:`benchmarks.sites`. A tenth of the parties may
side with Charlie, and a tenth may fall silent. Of these, half are lost in the middle of the second round: one half of
them before they contribute, and the others after that, before they reveal their shares. The run must go on, and
everybody who is left must end with the same model. Times are CPU times, in units of E, one encryption of phe at 2048
bits in the same run.

By default K is 200 and 1,000, which take some five minutes.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean, median

from rich.console import Console
from rich.table import Table

from benchmarks.measure import Yardstick
from benchmarks.meter import BOXES, COUNTED, FRAMES, GRADIENTS, MeteredTable
from benchmarks.sites import crowd_records, crowd_study
from masquerade_core.study import CHARLIE, Study
from masquerade_core.study.dropouts import Dropouts
from masquerade_core.table import Silence
from masquerade_core.thresholds import Thresholds
from masquerade_protocols.blocks.double_sets import thresholds_of
from masquerade_protocols.dp_gd import roles as dp_gd
from masquerade_protocols.in_memory import run_in_memory

__all__ = ["Costs", "flaky_study", "measure"]

ROUNDS = 3

_BITS = 2048
_TENTH = 10
_WORK = tuple(step for step in COUNTED if step != GRADIENTS)


@dataclass(frozen=True)
class Costs:
    """CPU seconds and bytes of one run.

    Attributes
    ----------
    lost, ended : int
        How many parties fell silent, and how many ended with one and the same model.
    party_setup, charlie_setup : float
        CPU seconds until the rounds begin, the sum of the sizes included.
    party_round, charlie_round, messages : float
        CPU seconds in a round; ``messages`` is what of Charlie's signatures, frames and the codec take.
    sent, received : float
        Bytes of frames of a party in a round.
    e : float
        One encryption, for the unit.
    """

    K: int
    sizes: Thresholds
    lost: int
    ended: int
    party_setup: float
    charlie_setup: float
    party_round: float
    charlie_round: float
    messages: float
    sent: float
    received: float
    e: float


def flaky_study(K: int, rounds: int = ROUNDS) -> Study:
    """Return a study of K parties whose sums are made under double masks."""
    study = crowd_study(K, rounds=rounds)
    dropouts = Dropouts(min_survivors=K - K // _TENTH, method="double-masks", patience_seconds=30.0)
    privacy = study.privacy.model_copy(update={"colluders": K // _TENTH})
    return study.model_copy(update={"dropouts": dropouts, "privacy": privacy})


def measure(K: int, rounds: int = ROUNDS) -> Costs:
    """Run ``dp-gd`` with K parties, lose a twentieth of them, and return what it cost."""
    yardstick = Yardstick(_BITS)
    yardstick.take()
    study = flaky_study(K, rounds)
    lost = study.names[1 : 1 + K // (2 * _TENTH)]
    # The first sum is that of the sizes, so a round is one message later than its number says.
    silent = {name: Silence("DoublyMasked" if i % 2 else "Revealed", 2) for i, name in enumerate(lost)}
    table = MeteredTable(study.names, study=study, silent=silent)
    results = run_in_memory(dp_gd, study, dict.fromkeys(study.names, crowd_records(study)), table=table)
    stayed = [name for name in study.names[1:] if name not in silent]
    models = [results[name] for name in stayed]
    sums = rounds + 1
    sent, received = Counter[str](), Counter[str]()
    for passed in table.passed:
        if passed.type in {"DoublyMasked", "Vouched", "Revealed"}:
            sent[passed.source] += passed.length
        if passed.type in {"Asked", "Opening", "Summed"}:
            received[passed.to] += passed.length

    def in_rounds(who: Sequence[str], steps: Sequence[str] = _WORK) -> float:
        return (table.meter.total(who, steps) - table.meter.total_before("rounds", who, steps)) / rounds

    def before(who: Sequence[str]) -> float:
        return table.meter.total_before("rounds", who, _WORK)

    return Costs(
        K=K,
        sizes=thresholds_of(study),
        lost=len(lost),
        ended=sum(model == results[CHARLIE] for model in models),
        party_setup=before(stayed) / len(stayed),
        charlie_setup=before((CHARLIE,)),
        party_round=in_rounds(stayed) / len(stayed),
        charlie_round=in_rounds((CHARLIE,)),
        messages=in_rounds((CHARLIE,), (BOXES, FRAMES)),
        sent=mean(sent[name] for name in stayed) / sums,
        received=mean(received[name] for name in stayed) / sums,
        e=median(yardstick.samples + yardstick.take()),
    )


def main() -> int:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(prog="benchmarks.flaky", description="Measure sums under double masks.")
    parser.add_argument("parties", nargs="*", type=int, metavar="K", default=[200, 1000])
    parser.add_argument("--rounds", type=int, default=ROUNDS, metavar="T", help=f"rounds of a run (default: {ROUNDS})")
    arguments = parser.parse_args()
    found = [measure(K, arguments.rounds) for K in arguments.parties]
    shown = Table(
        "K", "k, t", "lost", "party, round", "sent", "received", "Charlie, round", "of it messages", "set-ups"
    )
    for c in found:
        shown.add_row(
            f"{c.K:,}",
            f"{c.sizes.neighbours}, {c.sizes.threshold}",
            f"{c.lost}, {c.ended} of the others end alike",
            f"{1e3 * c.party_round:.1f} ms = {c.party_round / c.e:.2f} E",
            f"{c.sent / 1e3:.1f} kB",
            f"{c.received / 1e3:.1f} kB",
            f"{c.charlie_round:.2f} s = {c.charlie_round / c.K / c.e:.3f} E a party",
            f"{c.messages:.2f} s",
            f"{1e3 * c.party_setup:.0f} ms, {c.charlie_setup:.1f} s",
        )
    Console(width=170).print(shown)
    return 0 if all(c.ended == c.K - 1 - c.lost for c in found) else 1


if __name__ == "__main__":
    sys.exit(main())
