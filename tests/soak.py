"""More schedules of faults than CI has time for: ``python -m tests.soak SECONDS [FIRST_SEED]``.

It goes on for as long as it is told, with other seeds each time, and prints how to see a failure again.
"""

import sys
import time
from collections import Counter

from tests.faulty import CHECKS, PLAYS


def soak(seconds: float, first: int) -> int:
    """Run schedules until the time is over; return how many failed."""
    end, seed = time.monotonic() + seconds, first
    done: Counter[str] = Counter()
    failed = 0
    while time.monotonic() < end:
        for play in PLAYS:
            for check in CHECKS:
                try:
                    CHECKS[check](play, seed)
                except Exception as error:  # noqa: BLE001 - it is told, and the soak goes on
                    failed += 1
                    sys.stdout.write(f"FAILED {check} {play} {seed}: {type(error).__name__}: {error}\n")
                done[f"{check} {play}"] += 1
        seed += 1
    sys.stdout.write(f"{sum(done.values())} schedules, seeds {first} to {seed - 1}, {failed} failed\n")
    return failed


if __name__ == "__main__":
    sys.exit(1 if soak(float(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else int(time.time())) else 0)
