"""A site as a process, with Charlie and two other parties elsewhere: what runs, what waits, and power cuts."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from masquerade.cli import run
from masquerade_core.study import CHARLIE
from masquerade_host.store.budget import give_budget
from masquerade_host.store.ledger import Ledger
from masquerade_host.store.permissions import DEFAULT_POPULATION
from masquerade_host.store.state import StateFolder
from tests.messages import says
from tests.processes import Machines, Participant

OTHERS = ("p2", CHARLIE)


class Site:
    """The machine of p1, which serves studies; Charlie and p2 are elsewhere."""

    def __init__(self, machines: Machines) -> None:
        self.machines = machines
        self.root = machines.folder / "site"
        self.root.mkdir()
        self.state = StateFolder(machines.state("p1"))
        lines = [f'key = "{machines.folder}/keys/p1.key"', "[data.patients]", f'records = "{machines.folder}/p1.csv"']
        (self.root / "site.toml").write_text("\n".join([*lines, f'state = "{self.state.root}"', ""]))
        give_budget(self.state.made(), DEFAULT_POPULATION, 2.0, 0.5, by="a test").close()
        self.inbox = self.root / "inbox" / "patients"
        self.inbox.mkdir(parents=True)
        self._process: subprocess.Popen[bytes] | None = None
        self.log = (machines.folder / "site.log").open("ab")

    def drop(self, name: str, changes: dict[str, str], *, approved: bool) -> None:
        """Put a study into the inbox, by a rename."""
        path = self.machines.write_study(f"{name}.toml", changes)
        if approved:
            self.machines.approve("p1", path)
        path.rename(self.inbox / path.name)

    def start_others(self) -> dict[str, Participant]:
        self.elsewhere = self.machines.start_all(*OTHERS)
        return self.elsewhere

    def start(self) -> None:
        assert self._process is None
        command = [sys.executable, "-m", "masquerade", "site", "--folder", str(self.root)]
        paths = os.pathsep.join(os.path.abspath(p) for p in sys.path if p)  # noqa: PTH100
        self._process = subprocess.Popen(
            command, env={**os.environ, "PYTHONPATH": paths}, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log
        )

    def end(self, number: int) -> int:
        assert self._process is not None
        self._process.send_signal(number)
        code, self._process = self._process.wait(60), None
        return code

    def kill_party(self) -> None:
        """Kill the process of the run, wherever it is."""
        told = json.loads((self.root / "running" / "patients" / ".lock").read_text())
        os.kill(told["pid"], signal.SIGKILL)

    def status(self) -> dict[str, Any]:
        """Return what 'masquerade site status' says, as a program reads it."""
        with contextlib.redirect_stdout(io.StringIO()) as out:
            assert run(["site", "status", "--folder", str(self.root), "--format", "json"]) == 0
        found: dict[str, Any] = json.loads(out.getvalue())["data"]
        return found

    def says(self, words: str) -> int:
        """Return how often its log says this."""
        return (self.machines.folder / "site.log").read_text().count(words)

    def wait(self, until: Callable[[], bool], seconds: float = 120.0) -> None:
        """Wait for something that the folders show."""
        end = time.monotonic() + seconds
        while not until():
            if time.monotonic() > end:
                raise AssertionError((self.machines.folder / "site.log").read_text())
            time.sleep(0.02)

    def is_at(self, place: str, name: str) -> bool:
        return (self.root / place / "patients" / f"{name}.toml").exists()

    def reports(self, event: str) -> bool:
        """Say whether the process of the run has told of an event."""
        path = self.root / "running" / "patients" / ".good.events"
        return path.exists() and f'"event": "{event}"' in path.read_text()

    def close(self) -> None:
        if self._process is not None:
            self.end(signal.SIGTERM)
        self.log.close()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    machines = Machines.new(tmp_path, K=2, deadline=60.0)
    made = Site(machines)
    yield made
    made.close()
    machines.close()


def states(found: dict[str, Any]) -> dict[str, str]:
    return {study["file"]: study["state"] for study in found["studies"]}


def check_the_model(site: Site) -> None:
    """The site has the model that everybody has, byte for byte, in one attempt."""
    for name in OTHERS:
        end = site.elsewhere[name].end()
        assert end.code == 0, end.stderr
    (done,) = (study for study in site.status()["studies"] if study["state"] == "done")
    folders = [Path(done["results"]), *(site.machines.out(name) for name in OTHERS)]
    assert len({(folder / "model.json").read_bytes() for folder in folders}) == 1
    ledger = Ledger.open(site.state)
    assert [entry.kind for entry in ledger.history()].count("attempt") == 1
    ledger.close()


def test_of_three_studies_the_right_one_runs_and_the_others_say_why(site: Site) -> None:
    site.drop("good", {}, approved=True)
    site.drop("dear", {"epsilon = 1.0": "epsilon = 2.5"}, approved=False)
    site.drop("unread", {'name = "toy"': 'name = "toy-2"', "epsilon = 1.0": "epsilon = 0.5"}, approved=False)
    before = site.status()
    assert (before["serving"], set(states(before).values())) == (False, {"new"})
    site.start()
    site.wait(lambda: site.is_at("refused", "dear") and site.reports("connecting"))
    during = site.status()
    assert during["serving"]
    assert states(during) == {
        "running/patients/good.toml": "running",
        "inbox/patients/unread.toml": "waits",
        "refused/patients/dear.toml": "refused",
    }
    told = {study["file"].rpartition("/")[2]: study for study in during["studies"]}
    assert (told["dear.toml"]["exit_code"], says(told["dear.toml"]["message"], "budget_not_enough", ...)) == (7, True)
    unread = told["unread.toml"]
    assert (unread["exit_code"], says(unread["message"], "site_study_not_approved", ...)) == (6, True)
    site.start_others()
    site.wait(lambda: site.is_at("done", "good"))
    check_the_model(site)
    assert site.end(signal.SIGTERM) == 0
    after = site.status()
    assert (after["serving"], states(after)["done/patients/good.toml"]) == (False, "done")


@pytest.mark.parametrize("both", [False, True], ids=["site", "site-and-party"])
def test_a_power_cut_in_mid_run_costs_nothing(site: Site, both: bool) -> None:
    site.drop("good", {}, approved=True)
    elsewhere = site.start_others()
    site.start()
    elsewhere["p2"].wait_for("joined")
    elsewhere["p2"].kill(signal.SIGSTOP)  # the run waits for its part
    site.wait(lambda: site.reports("joined") or site.is_at("done", "good"))
    if site.is_at("done", "good"):
        pytest.skip("this machine was too busy to stop a party in time, so the run is over")
    if both:
        site.kill_party()
    assert site.end(signal.SIGKILL) == -signal.SIGKILL
    site.start()
    site.wait(lambda: site.says("good runs") + site.says("an earlier site started") == 2)
    assert site.says("good runs") == 1 + both
    elsewhere["p2"].kill(signal.SIGCONT)
    site.wait(lambda: site.is_at("done", "good"))
    check_the_model(site)
