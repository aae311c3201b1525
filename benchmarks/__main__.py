"""``python -m benchmarks [PART ...] [--short] [--json FILE] [--rounds N] [--plots]``: exit 1 if a limit is missed.

Votes of very many parties have no limit and take up to 20 minutes: ``python -m benchmarks.votes [K ...]``.
"""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from benchmarks.masked import measure_masks, measure_masks_wall
from benchmarks.measure import Bench
from benchmarks.plot import GROWTH, plot_growth
from benchmarks.report import print_report, write_json
from benchmarks.rounds import measure_growth, measure_rounds, measure_wall

PARTS: dict[str, Callable[[Bench, Callable[[str], None]], None]] = {
    "local-aggregation": lambda bench, tell: bench.run(tell),
    "rounds": lambda bench, tell: measure_rounds(bench, tell, bench.rounds),
    "wall": lambda bench, tell: measure_wall(bench, tell, bench.rounds),
    "masks": lambda bench, tell: measure_masks(bench, tell, bench.rounds),
    "masks-wall": lambda bench, tell: measure_masks_wall(bench, tell, bench.rounds),
    "growth": measure_growth,
}
SHORT = ("rounds", "masks")
SLACK = 4.0  # of a limit of time: Python beside GMP differs by this much between processors, and between busy hours


def main() -> int:
    """Measure, print the tables, and compare them with the limits."""
    parser = argparse.ArgumentParser(
        prog="benchmarks",
        description="Measure the cost of the protocols, in units of one phe encryption.",
        epilog="A benchmark of its own measures votes of very many parties: python -m benchmarks.votes [K ...]",
    )
    parser.add_argument(
        "parts", nargs="*", metavar="PART", help=f"what to measure: {', '.join(PARTS)} (default: everything)"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all samples to this file")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="samples of every figure (default: 3)")
    parser.add_argument(
        "--short",
        action="store_true",
        help=f"one sample of {', '.join(SHORT)}; limits of time are {SLACK:g} times as wide",
    )
    parser.add_argument("--plots", action="store_true", help=f"draw {GROWTH} anew (measures growth)")
    arguments = parser.parse_args()
    if arguments.rounds < 1:
        parser.error(f"--rounds is {arguments.rounds}; at least 1 is needed")
    if unknown := [part for part in arguments.parts if part not in PARTS]:
        parser.error(f"there is no part {unknown[0]!r}; there are {', '.join(PARTS)}")
    parts = arguments.parts or list(SHORT if arguments.short else PARTS)
    if arguments.plots and "growth" not in parts:
        parts = [*parts, "growth"]

    bench = Bench(1 if arguments.short else arguments.rounds)
    progress = Console(stderr=True)
    for part, measure in PARTS.items():
        if part in parts:
            measure(bench, lambda what: progress.print(what, style="dim"))
    kept = print_report(bench, Console(), SLACK if arguments.short else 1.0)
    if arguments.json is not None:
        write_json(bench, arguments.json)
    if arguments.plots:
        plot_growth(bench, GROWTH)
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
