"""A party's process is killed in the middle of a run that may lose parties: the others end it, with a model."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from masquerade_core.study import CHARLIE
from tests.processes import Machines

_CHANGES = {
    'lead = "p1"\n': "",
    "key_bits = 2048\n": "",
    'sum = "paillier"': 'sum = "masks"',
    '"paper"': '"proven"',
    'protocol = "local-aggregation"': 'protocol = "dp-gd"',
    "delta = 0.0": "delta = 1e-05",
    "[protocol]\n": "[protocol]\nrounds = 600\nclip = 0.5\nlearning_rate = 1.0\n\n",
    "[label]": "[dropouts]\nmin_survivors = 2\nretries = 2\npatience_seconds = 3.0\n\n[label]",
}


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[Machines]:
    """Three parties, of which one may be lost."""
    machines = Machines.new(tmp_path)
    machines.write_study(changes=_CHANGES)
    yield machines
    machines.close()


def test_a_run_goes_on_without_a_party_that_is_killed(machines: Machines) -> None:
    processes = machines.start_all()
    processes[CHARLIE].wait_for("progress", total=600)
    processes.pop("p3").kill()
    ended = {name: process.end() for name, process in processes.items()}
    assert {name: end.code for name, end in ended.items()} == {"p1": 0, "p2": 0, CHARLIE: 0}, ended
    lost = [event for event in ended[CHARLIE].events if event["event"] == "lost"]
    assert [event["party"] for event in lost] == ["p3"]
    models = [json.loads((machines.out(name) / "model.json").read_text())["weights"] for name in processes]
    assert models[0] == models[1] == models[2]
    assert not machines.out("p3").exists() or not (machines.out("p3") / "model.json").exists()


def test_a_run_under_double_masks_goes_on_without_a_party_that_is_killed(tmp_path: Path) -> None:
    """Four parties are all neighbours, and any two of a party's three open one of its masks."""
    machines = Machines.new(tmp_path, K=4)
    section = '[dropouts]\nmethod = "double-masks"\nmin_survivors = 3\npatience_seconds = 3.0\n\n[label]'
    rounds = _CHANGES["[protocol]\n"].replace("600", "200")
    machines.write_study(changes={**_CHANGES, "[protocol]\n": rounds, "[label]": section})
    try:
        processes = machines.start_all()
        processes[CHARLIE].wait_for("progress", total=200)
        processes.pop("p2").kill()
        ended = {name: process.end() for name, process in processes.items()}
        assert {end.code for end in ended.values()} == {0}, ended
        lost = [event for event in ended[CHARLIE].events if event["event"] == "lost"]
        assert [event["party"] for event in lost] == ["p2"]
        models = [json.loads((machines.out(name) / "model.json").read_text())["weights"] for name in processes]
        assert len(models) == 4
        assert all(model == models[0] for model in models)
    finally:
        machines.close()
