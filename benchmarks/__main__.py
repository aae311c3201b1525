"""``python -m benchmarks [--json FILE] [--rounds N]``: exit 1 if a limit is missed."""

import argparse
import sys
from pathlib import Path

from rich.console import Console

from benchmarks.measure import Bench
from benchmarks.report import print_report, write_json


def main() -> int:
    """Measure, print, and judge."""
    parser = argparse.ArgumentParser(prog="benchmarks", description="What local aggregation costs, in phe encryptions.")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all samples there")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="samples of every figure (default: 3)")
    arguments = parser.parse_args()
    if arguments.rounds < 1:
        parser.error(f"--rounds is {arguments.rounds}; at least 1 is needed")

    bench = Bench(arguments.rounds)
    progress = Console(stderr=True)
    bench.run(lambda what: progress.print(what, style="dim"))
    kept = print_report(bench, Console())
    if arguments.json is not None:
        write_json(bench, arguments.json)
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
