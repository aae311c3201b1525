"""``python -m benchmarks.tree [K [G]]``: one Charlie for K sites, beside a tree with G sub-curators.

Two ``dp-gd`` runs with d = 50 at the metered in-memory table, as in :mod:`benchmarks.sites`: first with Charlie alone,
then with sub-curators that add for K / G parties each. Times are CPU times in a round, in units of E, one encryption of
phe at 2048 bits in the same run. By default K is 1,000 and G is 10.
"""

import argparse
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import mean, median

from rich.console import Console
from rich.table import Table

from benchmarks.measure import Yardstick
from benchmarks.meter import COUNTED, GRADIENTS, MeteredTable
from benchmarks.sites import ROUNDS, crowd_records, crowd_study
from masquerade_core.study import CHARLIE, Study
from masquerade_protocols.dp_gd import roles as dp_gd
from masquerade_protocols.in_memory import run_in_memory

__all__ = ["Costs", "measure"]

_BITS = 2048
_SAMPLES = 20  # of E, before a run and after it
_WORK = tuple(step for step in COUNTED if step != GRADIENTS)


@dataclass(frozen=True)
class Costs:
    """What one round costs: CPU seconds in units of E, and bytes.

    Attributes
    ----------
    party : float
        The mean of all parties.
    sub_curator : float
        The mean of all sub-curators; 0 where there are none.
    charlie : float
    reads : float
        Bytes of the frames that Charlie gets.
    """

    party: float
    sub_curator: float
    charlie: float
    reads: float


def measure(study: Study, groups: Mapping[str, tuple[str, ...]]) -> Costs:
    """Run ``dp-gd``, with sub-curators if there are groups, and return what a round cost."""
    yardstick, records = Yardstick(_BITS), crowd_records(study)
    yardstick.take(_SAMPLES)
    table = MeteredTable(study.names, study=study, groups=groups)
    run_in_memory(dp_gd, study, dict.fromkeys(study.names, records), table=table)
    yardstick.take(_SAMPLES)
    e = median(yardstick.samples)

    def in_round(name: str) -> float:
        spent = table.meter.total((name,), _WORK) - table.meter.total_before("rounds", (name,), _WORK)
        return spent / ROUNDS / e

    kind, senders = ("Added", tuple(groups)) if groups else ("Masked", study.names)
    read = sum(sum(table.sent[name, kind]) for name in senders)
    return Costs(
        party=mean(in_round(name) for name in study.names),
        sub_curator=mean(in_round(name) for name in groups) if groups else 0.0,
        charlie=in_round(CHARLIE),
        reads=read / (ROUNDS + 1),  # the sum of sizes is one more
    )


def main() -> int:
    """Measure both, and print them beside each other."""
    parser = argparse.ArgumentParser(prog="benchmarks.tree", description="Measure a tree of curators.")
    parser.add_argument("K", nargs="?", type=int, default=1000, help="parties (default: 1000)")
    parser.add_argument("G", nargs="?", type=int, default=10, help="sub-curators (default: 10)")
    arguments = parser.parse_args()
    K, G = arguments.K, arguments.G
    study, size = crowd_study(K), -(-K // G)
    groups = {f"sub-{i}": study.names[i * size : (i + 1) * size] for i in range(G)}
    shown = Table(
        "", "party", "sub-curator", "Charlie", "bytes that Charlie reads", title="a round; E is one encryption"
    )
    for title, chosen in (("one Charlie", {}), (f"{G} sub-curators", groups)):
        c = measure(study, chosen)
        below = f"{c.sub_curator:.2f} E" if chosen else "-"
        shown.add_row(f"{title}, K = {K:,}", f"{c.party:.3f} E", below, f"{c.charlie:.2f} E", f"{c.reads:,.0f}")
    Console(width=120).print(shown)
    return 0


if __name__ == "__main__":
    sys.exit(main())
