"""Keys that were rotated while a study waits: the study names the old ones, and runs with them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from masquerade_core.study import CHARLIE
from masquerade_host.store.new_keys import rotate_keys
from tests.processes import Machines


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[Machines]:
    """A study of two parties."""
    machines = Machines.new(tmp_path, K=2)
    yield machines
    machines.close()


def test_a_study_that_waits_runs_after_a_rotation(machines: Machines) -> None:
    for name in machines.study.names:
        machines.approve(name)
    rotated = {name: rotate_keys(machines.folder / "keys" / f"{name}.key") for name in ("p1", CHARLIE)}
    running = {name: machines.start(name, approved=False) for name in (CHARLIE, *machines.study.names)}
    ends = {name: process.end() for name, process in running.items()}
    assert [end.code for end in ends.values()] == [0, 0, 0], ends
    for name, end in ends.items():
        told = [event["file"] for event in end.events if event["event"] == "kept_keys"]
        assert told == ([str(rotated[name].kept)] if name in rotated else [])
