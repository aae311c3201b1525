"""Makes the archive of this version from real processes: ``python -m tests.frozen``."""

from __future__ import annotations

import json
import shutil
import signal
import sys
import tarfile
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from masquerade_core.study import CHARLIE
from masquerade_host.store.budget import give_budget
from masquerade_host.store.permissions import DEFAULT_POPULATION
from masquerade_host.store.state import StateFolder
from tests.frozen import FOLDER, KNOWN, NOW
from tests.frozen.known import known_of
from tests.processes import Machines

_ROUNDS = {"done": 3, "open": 60}


def main() -> int:
    """Write the archive, and what is known of it."""
    name = NOW
    target = FOLDER / f"{name}.tar.xz"
    if target.exists():
        sys.stderr.write(f"{target.name} is there, and stays as it is\n")
        return 1
    with TemporaryDirectory() as place:
        machines = Machines.new(Path(place), K=3, deadline=600.0)
        try:
            _run(machines)
            _leave(machines)
        finally:
            machines.close()
        kept = _gather(machines, Path(place) / "kept")
        with tarfile.open(target, "w:xz") as file:
            for path in sorted(kept.iterdir()):
                file.add(path, path.name, filter=_without_owner)
        with tarfile.open(target) as file:
            file.extractall(Path(place) / "again", filter="data")
        known = json.loads(KNOWN.read_text(encoding="utf-8")) if KNOWN.exists() else {}
        known[name] = known_of(Path(place) / "again")
    KNOWN.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")
    return 0


def _study(machines: Machines, name: str) -> Path:
    changes = {
        'name = "toy"': f'name = "{name}"',
        'lead = "p1"\n': "",
        "key_bits = 2048\n": "",
        'sum = "paillier"': 'sum = "masks"',
        '"paper"': '"proven"',
        'protocol = "local-aggregation"': 'protocol = "dp-gd"',
        "delta = 0.0": "delta = 1e-06",
        "[protocol]\n": f"[protocol]\nrounds = {_ROUNDS[name]}\nclip = 0.5\nlearning_rate = 1.0\n\n",
    }
    return machines.write_study(f"{name}.toml", changes)


def _run(machines: Machines) -> None:
    """Run the first study to its end."""
    give_budget(StateFolder(machines.state("p1")).made(), DEFAULT_POPULATION, 10.0, 1e-5, by="a steward").close()
    study = _study(machines, "done")
    running = {name: machines.start(name, study=study) for name in (CHARLIE, *machines.study.names)}
    ends = {name: participant.end() for name, participant in running.items()}
    assert {end.code for end in ends.values()} == {0}, ends
    (machines.folder / "runs").rename(machines.folder / "runs-done")


def _leave(machines: Machines) -> None:
    """Kill p1 in the middle of the second study: it waits for p3, whose process stands still."""
    study = _study(machines, "open")
    running = {name: machines.start(name, study=study) for name in (CHARLIE, *machines.study.names)}
    lines = machines.state("p1") / "ledger.lines"
    while lines.read_text(encoding="utf-8").count('"kind": "debit"') < _ROUNDS["done"] + 2:
        time.sleep(0.01)
    running["p3"].kill(signal.SIGSTOP)
    time.sleep(5)
    running["p1"].kill()
    assert running["p1"].end().code == -signal.SIGKILL
    for name in (CHARLIE, "p2", "p3"):
        running[name].kill()
        running[name].end()


def _gather(machines: Machines, kept: Path) -> Path:
    shutil.copytree(machines.state("p1"), kept / "state")
    shutil.copytree(machines.folder / "runs-done", kept / "runs")
    for name in ("keys/p1.key", "p1.csv", "done.toml", "open.toml"):
        shutil.copy(machines.folder / name, kept)
    return kept


def _without_owner(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


if __name__ == "__main__":
    sys.exit(main())
