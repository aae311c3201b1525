"""Processes that are killed at random moments and started again by the same command: the run goes on.

CI kills 60 times. ``make soak`` does the same with more seeds: ``KILL_RUNS`` says with how many, and ``KILL_SEED`` with
which to begin. How many kills a run meets before it is over depends on the machine. So where a run is over too soon,
another one begins.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections import Counter
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from masquerade.cli import run as command
from masquerade_core.study import CHARLIE
from masquerade_host.store.ledger import Ledger
from masquerade_host.store.state import StateFolder
from tests.processes import Machines

RUNS, FIRST = int(os.environ.get("KILL_RUNS", "4")), int(os.environ.get("KILL_SEED", "0"))
KILLS, ROUNDS = 15, 300
_DEADLINE = 240.0  # seconds: a party that is killed again and again on a busy machine is silent for long

DESCENT = {
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


def _kill_and_restart(machines: Machines, draw: np.random.Generator, kills: int) -> list[str]:
    """Run one study, kill up to so many times, and check how it ended; return who was killed."""
    machines.write_study(changes=DESCENT)
    running = machines.start_all()
    running["p1"].wait_for("joined")
    fired: list[str] = []
    over: set[str] = set()  # who died after everything was done
    while len(fired) < kills:
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
    return fired


@pytest.mark.parametrize("seed", range(FIRST, FIRST + RUNS))
def test_a_run_completes_whoever_is_killed_whenever(
    tmp_path: Path, seed: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """Four seeds make 60 kills. Who dies is started again at once, by the same command."""
    draw = np.random.default_rng(seed)
    fired: list[list[str]] = []
    while (left := KILLS - sum(map(len, fired))) > 0:
        assert len(fired) < KILLS, "the runs are over before anybody is killed"
        with closing(Machines.new(tmp_path / str(len(fired)), K=3, deadline=_DEADLINE)) as machines:
            fired.append(_kill_and_restart(machines, draw, left))
    with capsys.disabled():
        sys.stdout.write(f"\nseed {seed}: kills in {len(fired)} runs: {[dict(Counter(each)) for each in fired]}\n")
