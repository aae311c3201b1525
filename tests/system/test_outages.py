"""Real processes whose network is cut in the middle of a run: they reconnect, and the run completes."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from masquerade.cli import run as command
from masquerade_core.study import CHARLIE
from tests.cutting import CuttingRelay
from tests.host_helpers import free_port
from tests.processes import Machines


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[Machines]:
    """A study of three parties with a deadline of a minute."""
    machines = Machines.new(tmp_path, deadline=60.0)
    yield machines
    machines.close()


def _completes(machines: Machines, outages: tuple[float, ...]) -> list[str]:
    """Run the study through a relay that is cut once for each of these times, and return p1's events."""
    port = free_port()
    with CuttingRelay(port) as relay:
        study = machines.write_study(changes={machines.study.address: f"tcp://127.0.0.1:{relay.port}"})
        listen = ("--listen", f"tcp://127.0.0.1:{port}")
        processes = {CHARLIE: machines.start(CHARLIE, *listen, study=study)}
        processes |= {name: machines.start(name, study=study) for name in machines.study.names}
        processes["p1"].wait_for("joined")
        for seconds in outages:
            relay.cut()
            time.sleep(seconds)
            relay.mend()
            time.sleep(0.5)
        ended = {name: process.end() for name, process in processes.items()}
        assert relay.passed >= 3 * (1 + bool(outages))
    assert {name: end.code for name, end in ended.items()} == dict.fromkeys(processes, 0), ended
    models = [json.loads((machines.out(name) / "model.json").read_text()) for name in processes]
    assert all(model == models[0] for model in models)
    assert command(["verify", *(str(machines.out(name)) for name in processes)]) == 0
    return [event["event"] for event in ended["p1"].events]


@pytest.mark.parametrize("outages", [(4.0,), (0.2, 0.0, 0.4, 0.1, 0.0, 0.3)], ids=["one long", "many short"])
def test_a_run_whose_network_is_cut_completes(machines: Machines, outages: tuple[float, ...]) -> None:
    assert "cut_off" in _completes(machines, outages)


def test_without_a_cut_nobody_speaks_of_one(machines: Machines) -> None:
    assert "cut_off" not in _completes(machines, ())
