"""A disk that is full in the middle of a run, under whole processes: the spend is said and kept."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from masquerade_core.study import CHARLIE
from masquerade_host.store.ledger import Ledger
from masquerade_host.store.state import StateFolder
from tests.processes import Machines

ROUNDS = 2000
_DESCENT = {
    'lead = "p1"\n': "",
    "key_bits = 2048\n": "",
    'sum = "paillier"': 'sum = "masks"',
    '"paper"': '"proven"',
    'protocol = "local-aggregation"': 'protocol = "dp-gd"',
    "delta = 0.0": "delta = 1e-05",
    "[protocol]\n": f"[protocol]\nrounds = {ROUNDS}\nclip = 0.5\nlearning_rate = 1.0\n\n",
}


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[Machines]:
    found = Machines.new(tmp_path, K=3)
    yield found
    found.close()


@pytest.fixture
def small_disk(machines: Machines) -> Iterator[Path]:
    """The state folder of p1, on a disk of its own with 8 MB."""
    folder = machines.state("p1")
    folder.mkdir(parents=True)
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=8m,mode=700", "tmpfs", str(folder)], check=False, capture_output=True
    )
    if mounted.returncode:
        pytest.skip("only root may mount a disk")
    yield folder
    machines.close()
    subprocess.run(["umount", str(folder)], check=True)


def _fill(path: Path) -> None:
    """Write to a file until its disk takes no more."""
    with path.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))


def test_on_a_full_disk_a_party_ends_and_the_spend_is_said_and_kept(machines: Machines, small_disk: Path) -> None:
    machines.write_study(changes=_DESCENT)
    running = machines.start_all()
    running["p1"].wait_for("progress")
    filler = small_disk / "filler"
    _fill(filler)
    ended = {name: participant.end() for name, participant in running.items()}
    error = ended["p1"].error
    assert ended["p1"].code == 1
    assert re.search(r"(journal|ledger) .*(could not|cannot) be .*written.*(full|No space)", error["message"]), error
    assert "as spent" in error["message"]
    assert "disk" in error["hint"]
    assert {ended[name].code for name in ("p2", "p3", CHARLIE)} == {1}
    spent = json.loads((machines.out("p1") / "attempt-1" / "spent.json").read_text())["releases"]
    filler.unlink()
    ledger = Ledger.open(StateFolder(small_disk))
    debits = [entry.fields["label"] for entry in ledger.history() if entry.kind == "debit"]
    ledger.close()
    rounds = [event["done"] for event in ended[CHARLIE].events if event["event"] == "progress"]
    assert len(debits) >= len(spent) >= max(rounds) >= 1
    assert os.listdir(machines.state("p1") / "runs")  # noqa: PTH208 - names, not paths
