"""Sites that join by an invitation: one command and one line each, typed at a terminal, to a model that all have."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from masquerade_host.store.new_keys import make_keys
from tests.host_helpers import free_port
from tests.messages import says
from tests.terminals import Screen

if TYPE_CHECKING:
    from collections.abc import Iterator

NAMES = ("site-a", "site-b", "site-c")
USERS = {name: 65_001 + i for i, name in enumerate((*NAMES, "charlie", "thief"))}


def _as_user(user: int, *words: str, **options: Any) -> subprocess.CompletedProcess[str]:
    switch = ["setpriv", "--reuid", str(user), "--regid", str(user), "--clear-groups"]
    return subprocess.run([*switch, *words], capture_output=True, text=True, check=False, **options)


def _python_of_all() -> tuple[str, dict[str, str]] | None:
    """Return a Python of this version that other users may start, and the environment in which it has the program.

    None where not root runs the tests, or where no other user may read the program or a Python.
    """
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        return None
    paths = [path for path in sys.path if path and not path.startswith(sys.base_prefix)]
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(paths), "PYTHONDONTWRITEBYTECODE": "1"}
    version = f"import masquerade.__main__, sys; sys.exit(sys.version_info[:2] != {sys.version_info[:2]})"
    again = f"import os, sys; os.execv(sys.executable, [sys.executable, '-c', {version!r}])"  # as the user, not as root
    for python in (sys.executable, "/usr/bin/python3"):
        if _as_user(USERS["charlie"], python, "-c", again, env=env, cwd="/").returncode == 0:
            return python, env
    return None


@dataclass
class Place:
    """A folder for the coordinator and one for each site."""

    folder: Path
    apart: tuple[str, dict[str, str]] | None = None
    """A Python and an environment, where each person is another user of the system."""
    started: list[Screen] = field(default_factory=list)

    def home(self, who: str) -> Path:
        """Return the folder of a person, which nobody else may enter."""
        home = self.folder / who
        if not home.exists():
            home.mkdir(mode=0o700)
            self.give(who, home)
        return home

    def give(self, who: str, path: Path) -> None:
        """Make a file or a folder a person's own."""
        if self.apart is not None:
            os.chown(path, USERS[who], USERS[who])

    def start(self, who: str, *words: str) -> Screen:
        home, switch, python, env = self.home(who), [], sys.executable, None
        if self.apart is not None:
            python, env = self.apart[0], self.apart[1] | {"HOME": str(home)}
            switch = ["setpriv", "--reuid", str(USERS[who]), "--regid", str(USERS[who]), "--clear-groups"]
        self.started.append(Screen.of(home, *switch, python, "-m", "masquerade", *words, env=env))
        return self.started[-1]

    def plan(self) -> None:
        words = ["study", "new", "--output", "plan.toml", "--name", "relapse"]
        words += ["--address", f"tcp://127.0.0.1:{free_port()}", "--feature", "age:0:120", "--feature", "marker:0:10"]
        words += ["--label", "relapse:yes", "--min-records", "100"]
        for name in NAMES:
            words += ["--party", name]
        subprocess.run(
            [sys.executable, "-m", "masquerade", *words], cwd=self.home("charlie"), check=True, capture_output=True
        )
        self.give("charlie", self.home("charlie") / "plan.toml")

    def records(self, name: str, who: str = "") -> Path:
        rng = np.random.default_rng(NAMES.index(name))
        path = self.home(who or name) / "records.csv"
        rows = ["age,marker,relapse"]
        for _ in range(120):
            age, marker = rng.integers(20, 90), rng.integers(10)
            rows.append(f"{age},{marker},{'yes' if age + 8 * marker > 90 else 'no'}")
        path.write_text("\n".join(rows) + "\n")
        path.chmod(0o600)
        self.give(who or name, path)
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
def place() -> Iterator[Place]:
    """Return a place in which each person is another user of the system, where this system allows a test to do that."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o711)  # the folders of pytest are those of its user alone
        yield from _place(Path(folder), _python_of_all())


def _place(folder: Path, apart: tuple[str, dict[str, str]] | None) -> Iterator[Place]:
    place = Place(folder, apart)
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
    if place.apart is not None:
        for who in (*NAMES, "charlie"):
            assert {path.stat().st_uid for path in place.home(who).rglob("*")} == {USERS[who]}
            assert _as_user(USERS[who], "ls", str(place.home(who))).returncode == 0
            assert _as_user(USERS["thief"], "ls", str(place.home(who))).returncode != 0


def test_a_stolen_line_is_noticed_at_both_ends(place: Place) -> None:
    host, lines = place.invite()
    records = place.records("site-a", "thief")
    thief = place.start("thief", "join", lines["site-a"], "--data", str(records), "--state", "state")
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
    make_keys(place.home("site-a") / "other.key")
    place.give("site-a", place.home("site-a") / "other.key")
    other = place.join("site-a", lines["site-a"], "--key", "other.key")  # the seat is taken still
    assert other.end() == 6
    site = place.join("site-a", lines["site-a"])
    assert site.until(r"code is\s+(\S+)")[1] == code
    site.type(f"{code[:-1]}{'0' if code[-1] != '0' else '1'} all")
    assert site.end() == 6
    assert says(site.text, "another_code", ...)
