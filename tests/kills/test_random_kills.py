"""Processes that are killed at random moments and started again by the same command: the run goes on.

``make soak`` runs these. How many kills a run meets before it is over depends on the machine.
"""

from __future__ import annotations

import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from masquerade.cli import run as command
from masquerade_core.study import CHARLIE
from masquerade_host.ledger import Ledger
from masquerade_host.state import StateFolder
from tests.processes import Machines


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[Machines]:
    found = Machines.new(tmp_path, K=3, deadline=60.0)
    yield found
    found.close()


# --- Kills at random moments ----------------------------------------------------------

RUNS, KILLS, ROUNDS = 4, 15, 200
_DESCENT = {
    'lead = "p1"\n': "",
    "key_bits = 2048\n": "",
    'sum = "paillier"': 'sum = "masks"',
    '"paper"': '"proven"',
    'protocol = "local-aggregation"': 'protocol = "dp-gd"',
    "delta = 0.0": "delta = 1e-05",
    "[protocol]\n": f"[protocol]\nrounds = {ROUNDS}\nclip = 0.5\nlearning_rate = 1.0\n\n",
}
_REFUSED = {CHARLIE: 4}
"""How a process ends whose run is over and whose results are there; for a party 6."""


def _is_over(machines: Machines, name: str) -> bool:
    """Say whether a participant's journal says that its run has its result."""
    lines = machines.state(name).glob("runs/*/attempts.jsonl")
    return any('"finished"' in path.read_text() for path in lines)


@pytest.mark.parametrize("seed", range(RUNS))
def test_a_run_completes_whoever_is_killed_whenever(
    machines: Machines, seed: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """60 kills in all. Who dies is started again at once, by the same command."""
    draw = np.random.default_rng(seed)
    machines.write_study(changes=_DESCENT)
    running = machines.start_all()
    running["p1"].wait_for("joined")
    fired: list[str] = []
    over: set[str] = set()  # who died after everything was done
    while len(fired) < KILLS:
        time.sleep(draw.uniform(0.0, 0.8))
        name = str(draw.choice(list(running)))
        alive = {who for who, participant in running.items() if participant.popen.poll() is None}
        if not alive:
            break
        if name not in alive:
            continue
        running[name].kill()
        if running[name].end().code == -signal.SIGKILL:
            fired.append(name)
            over |= {name} if _is_over(machines, name) else set()
            running[name] = machines.start(name, approved=False)
            if name not in over and draw.integers(2):  # else the next one dies while this one starts
                running[name].wait_for("joined")
    with capsys.disabled():
        sys.stdout.write(f"\nseed {seed}: {len(fired)} kills of {KILLS}: {dict(Counter(fired))}\n")
    ends = {who: participant.end() for who, participant in running.items()}
    allowed = {who: {0, _REFUSED.get(who, 6)} if who in over else {0} for who in ends}
    wrong = {who: (end.code, end.events[-1:]) for who, end in ends.items() if end.code not in allowed[who]}
    assert not wrong, (fired, over)
    assert len({(machines.out(who) / "model.json").read_bytes() for who in running}) == 1
    for name in machines.study.names:
        ledger = Ledger.open(StateFolder(machines.state(name)))
        kinds = Counter(entry.kind for entry in ledger.history())
        ledger.close()
        assert (kinds["attempt"], kinds["finished"], kinds["ended"]) == (1, 1, 0)
    assert command(["verify", *(str(machines.out(who)) for who in running)]) == 0
    assert len(fired) == KILLS
