"""A process that is started again and cannot go on: its program has changed, or what it kept is damaged."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from masquerade_core.study import CHARLIE
from tests.kills.test_random_kills import DESCENT
from tests.processes import Machines
from tests.unit.host.process.test_program import copied


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[Machines]:
    found = Machines.new(tmp_path, K=3, deadline=600.0)
    found.write_study(changes=DESCENT)
    yield found
    found.close()


@pytest.mark.parametrize("changed", ["", "masquerade_protocols/dp_gd/roles.py", "masquerade_core/replaying.py"])
def test_a_party_that_is_started_again_with_a_changed_line_ends_the_run_for_all(
    machines: Machines, tmp_path: Path, changed: str
) -> None:
    """No party's process loads the second module. Nobody waits for the deadline. Without a change the copy goes on."""
    running = machines.start_all()
    running["p2"].wait_for("progress")
    running["p2"].kill()
    assert running["p2"].end().code == -9
    copy = copied(tmp_path / "copy")
    if changed:
        (copy / changed).write_text((copy / changed).read_text() + "# another line\n")
    running["p2"] = machines.start("p2", approved=False, env={"PYTHONPATH": str(copy)})
    ends = {name: participant.end() for name, participant in running.items()}
    if not changed:
        assert {end.code for end in ends.values()} == {0}
        return
    assert ends["p2"].code == 6
    assert f"{changed} has other contents" in ends["p2"].error["message"]
    assert "by the ledger, count epsilon = " in ends["p2"].error["message"]
    for name in ("p1", "p3", CHARLIE):
        assert ends[name].code == 1
        assert "the program of p2 has changed since the run began" in ends[name].error["message"]
    assert not list(tmp_path.glob("runs/*/attempt-*/evidence.json"))


@pytest.mark.parametrize(
    ("who", "kept", "code"),
    [
        ("p2", "runs/*/journal.sqlite-wal", 1),
        ("p1", "runs/*/journal.head", 1),
        ("p3", "ledger.lines", 1),
        (CHARLIE, "runs/*/journal.sqlite-wal", 1),
    ],
)
def test_a_bit_that_flips_ends_the_run_for_all_and_nobody_is_accused(
    machines: Machines, who: str, kept: str, code: int
) -> None:
    """Nobody waits for the deadline. A steward reads which file it is."""
    running = machines.start_all()
    running["p2"].wait_for("progress")
    running[who].kill()
    assert running[who].end().code == -9
    (path,) = machines.state(who).glob(kept)
    data = bytearray(path.read_bytes())
    data[len(data.rstrip(b"\0")) // 2] ^= 4
    path.write_bytes(data)
    running[who] = machines.start(who, approved=False)
    ends = {name: participant.end() for name, participant in running.items()}
    assert ends.pop(who).error["message"].count(" is damaged: ") == 1
    assert running[who].popen.returncode == code
    for end in ends.values():
        assert end.code == 1
        assert f"{who} left the run before its end: its stored record of the run is damaged" in end.error["message"]
