"""Sites that join by an invitation: one command and one line each, typed at a terminal, to a model that all have."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from masquerade_host.store.new_keys import make_keys
from tests.host_helpers import free_port
from tests.messages import says
from tests.terminals import Screen

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NAMES = ("site-a", "site-b", "site-c")


@dataclass
class Place:
    """A folder for the coordinator and one for each site."""

    folder: Path
    started: list[Screen] = field(default_factory=list)

    def start(self, who: str, *words: str) -> Screen:
        (self.folder / who).mkdir(exist_ok=True)
        self.started.append(Screen.of(self.folder / who, sys.executable, "-m", "masquerade", *words))
        return self.started[-1]

    def plan(self) -> None:
        (self.folder / "charlie").mkdir()
        words = ["study", "new", "--output", "plan.toml", "--name", "relapse"]
        words += ["--address", f"tcp://127.0.0.1:{free_port()}", "--feature", "age:0:120", "--feature", "marker:0:10"]
        words += ["--label", "relapse:yes", "--min-records", "100"]
        for name in NAMES:
            words += ["--party", name]
        subprocess.run(
            [sys.executable, "-m", "masquerade", *words], cwd=self.folder / "charlie", check=True, capture_output=True
        )

    def records(self, name: str, *, label: str = "yes") -> Path:
        rng = np.random.default_rng(NAMES.index(name))
        path = self.folder / f"{name}.csv"
        rows = ["age,marker,relapse"]
        for _ in range(120):
            age, marker = rng.integers(20, 90), rng.integers(10)
            rows.append(f"{age},{marker},{label if age + 8 * marker > 90 else 'no'}")
        path.write_text("\n".join(rows) + "\n")
        return path

    def invite(self) -> tuple[Screen, dict[str, str]]:
        """Open the lobby; return the coordinator's screen and the lines."""
        screen = self.start("charlie", "invite", "plan.toml")
        screen.until("lobby is open")
        lines = dict(zip(NAMES, re.findall(r"mqj1:\S+", screen.text), strict=True))
        return screen, lines

    def join(self, name: str, line: str, *words: str) -> Screen:
        return self.start(name, "join", line, "--data", str(self.records(name)), "--state", "state", *words)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    place = Place(tmp_path)
    place.plan()
    yield place
    for screen in place.started:
        screen.close()


def read(path: Path) -> Any:
    return json.loads(path.read_text())


def test_three_sites_join_with_one_command_one_line_and_three_answers(place: Place) -> None:
    host, lines = place.invite()
    sites = {name: place.join(name, lines[name]) for name in NAMES}
    codes = {name: site.until(r"code is\s+(\S+)")[1] for name, site in sites.items()}
    assert len(set(codes.values())) == 1
    heard = {"site-a": "all", "site-b": "site-a site-c", "site-c": "site-a"}
    for name, site in sites.items():
        site.type(f"{codes[name].lower()} {heard[name]}")
        if name == "site-c":  # it did not reach site-b; site-a did, and alone cannot vouch, for one may collude
            site.until("without site-b:")
            site.type("enough")
        site.until("Epsilon")
        site.type("")
        site.until("Type yes")
        site.type("yes")
    assert {name: site.end() for name, site in sites.items()} == dict.fromkeys(NAMES, 0)
    assert host.end() == 0
    models = {next((place.folder / who / "runs").glob("*/*/model.json")).read_bytes() for who in (*NAMES, "charlie")}
    assert len(models) == 1
    approvals = {name: read(next((place.folder / name / "runs").glob("*/*/approval.json"))) for name in NAMES}
    assert set(approvals["site-a"]["compared"]["heard"]) == {"site-b", "site-c"}
    assert approvals["site-a"]["compared"]["unheard"] == []
    assert approvals["site-c"]["compared"]["unheard"] == ["site-b"]
    assert says(sites["site-c"].text, "count_one_more", "site-b")
    assert not says(sites["site-a"].text, "count_one_more", ...)


def test_records_that_look_like_a_mistake_are_refused_before_anybody_is_called(place: Place) -> None:
    _, lines = place.invite()
    for name in NAMES[1:]:
        place.join(name, lines[name])
    site = place.start(
        "site-a", "join", lines["site-a"], "--data", str(place.records("site-a", label="positive")), "--state", "state"
    )
    assert site.end() == 4
    assert "code is" not in site.text


def test_a_stolen_line_is_noticed_at_both_ends(place: Place) -> None:
    host, lines = place.invite()
    thief = place.start("thief", "join", lines["site-a"], "--data", str(place.records("site-a")), "--state", "state")
    host.until("site-a is in the lobby")
    site = place.join("site-a", lines["site-a"])
    assert site.end() == 6
    assert says(site.text, "invitation_used", "site-a")
    host.until("WARNING")
    assert thief.process.poll() is None


def test_a_site_that_is_stopped_goes_on_with_the_same_code_and_so_does_the_coordinator(place: Place) -> None:
    host, lines = place.invite()
    sites = {name: place.join(name, lines[name]) for name in NAMES}
    code = sites["site-a"].until(r"code is\s+(\S+)")[1]
    sites["site-b"].until(r"code is\s+(\S+)")
    for screen in (host, sites["site-a"]):
        screen.process.kill()
        screen.process.wait()
    host, again = place.invite()
    assert again == lines
    make_keys(place.folder / "site-a" / "other.key")
    other = place.join("site-a", lines["site-a"], "--key", "other.key")  # the seat is taken still
    assert other.end() == 6
    site = place.join("site-a", lines["site-a"])
    assert site.until(r"code is\s+(\S+)")[1] == code
    site.type(f"{code[:-1]}{'0' if code[-1] != '0' else '1'} all")
    assert site.end() == 6
    assert says(site.text, "another_code", ...)
