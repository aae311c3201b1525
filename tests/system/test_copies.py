"""A copy of a party's state folder, started on a second machine in the middle of a run: nobody is accused."""

from __future__ import annotations

import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from masquerade_core.study import CHARLIE
from tests.processes import Machines, Participant


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[Machines]:
    found = Machines.new(tmp_path, K=3, deadline=60.0)
    yield found
    found.close()


def in_the_middle(machines: Machines) -> dict[str, Participant]:
    """Start a run that stands still after everybody has joined, since p2's process is stopped."""
    running = machines.start_all()
    running["p2"].wait_for("joined")
    running["p2"].kill(signal.SIGSTOP)
    for name in ("p1", "p3", CHARLIE):
        running[name].wait_for("joined")
    return running


def settle(state: Path) -> None:
    """Wait until nothing was written for a second: p1 has then sent all that it can send without p2."""
    before: list[int] = []
    while before != (now := sorted(file.stat().st_mtime_ns for file in state.rglob("*"))):
        before = now
        time.sleep(1.0)


def second_machine(machines: Machines, first: Participant) -> Participant:
    """Copy p1's state folder while its process stands still, and start p1 with the copy."""
    copy = machines.folder / "second" / "state"
    settle(machines.state("p1"))
    first.kill(signal.SIGSTOP)  # a copy of files that change between one and the next is damaged, and no copy
    shutil.copytree(machines.state("p1"), copy)
    return machines.start("p1", "--state", str(copy), "--out", str(machines.folder / "second" / "run"), approved=False)


def copied(participant: Participant) -> None:
    """It ends because its state folder was copied, which accuses nobody."""
    ended = participant.end()
    assert (ended.code, ended.error["copied"]) == (1, "p1"), ended
    assert not {"peer", "suspects", "accused", "waited_for"} & ended.error.keys()


def test_a_second_machine_is_sent_away_while_the_first_one_answers(machines: Machines) -> None:
    running = in_the_middle(machines)
    second = second_machine(machines, running["p1"])
    running["p1"].kill(signal.SIGCONT)
    copied(second)
    running["p2"].kill(signal.SIGCONT)
    assert {name: participant.end().code for name, participant in running.items()} == dict.fromkeys(running, 0)


def test_a_second_machine_goes_on_where_the_first_one_does_not_answer(machines: Machines) -> None:
    running = in_the_middle(machines)
    first = running.pop("p1")
    running["second p1"] = second_machine(machines, first)
    running[CHARLIE].wait_for("unseated", party="p1")
    first.kill(signal.SIGCONT)
    copied(first)
    running["p2"].kill(signal.SIGCONT)
    assert {name: participant.end().code for name, participant in running.items()} == dict.fromkeys(running, 0)
