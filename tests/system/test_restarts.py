"""Processes that are killed and started again by the same command: the run goes on."""

from __future__ import annotations

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


def killed(participant: Participant) -> None:
    participant.kill()
    assert participant.end().code == -9


@pytest.mark.parametrize("event", ["connecting", "joined"])
@pytest.mark.parametrize("name", ["p1", "p3", CHARLIE])
def test_a_killed_process_goes_on_when_it_is_started_again(machines: Machines, name: str, event: str) -> None:
    running = machines.start_all()
    if name == CHARLIE and event == "connecting":
        event = "listening"
    running[name].wait_for(event)
    killed(running[name])
    running[name] = machines.start(name)
    ends = {who: participant.end() for who, participant in running.items()}
    assert {who: end.code for who, end in ends.items()} == dict.fromkeys(ends, 0), {
        w: e.stderr for w, e in ends.items()
    }
    assert len({(machines.out(who) / "model.json").read_bytes() for who in running}) == 1
    for who in running:
        (folder,) = (machines.state(who) / "runs").iterdir()
        assert sorted(path.name for path in folder.iterdir()) == ["attempts.jsonl", "lock"]
