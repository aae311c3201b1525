"""Participants as processes on this machine: a study on disk, their files, their words, their ends."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from masquerade_core.data.examining import DoubtfulFile
from masquerade_core.errors import MasqueradeError
from masquerade_core.study import CHARLIE, Study
from masquerade_core.study_files import load_study
from masquerade_host.store.budget import give_budget
from masquerade_host.store.keyfiles import Keys
from masquerade_host.store.new_keys import make_keys
from masquerade_host.store.permissions import DEFAULT_POPULATION
from masquerade_host.store.state import StateFolder
from masquerade_party import approve
from tests.host_helpers import free_port, study_text

ALWAYS = ("result.json", "study.toml", "transcript.json")
"""The files that every finished run leaves beside what it publishes; a party's run leaves two more."""
PARTYS = ("approval.json", "ledger.json")
_MODULES = {CHARLIE: "masquerade_curator"}
_OTHER_VERSION = "from masquerade_protocols.entry import Protocol; Protocol.version = '9.9.9'"
_CHANGED = "{}; import runpy; runpy.run_module({!r}, run_name='__main__')"


@dataclass
class Ended:
    """How a process ended."""

    code: int
    events: list[dict[str, Any]]
    stderr: str

    @property
    def error(self) -> dict[str, Any]:
        """The error it told of."""
        errors = [event for event in self.events if event["event"] == "error"]
        assert len(errors) == 1, (self.events, self.stderr)
        assert errors[0]["exit_code"] == self.code
        return errors[0]


class Participant:
    """A running process; its JSON lines are read as they come."""

    def __init__(self, command: Sequence[str], cwd: Path, more: Mapping[str, str] | None = None) -> None:
        paths = os.pathsep.join(os.path.abspath(p) for p in sys.path if p)  # noqa: PTH100
        env = {**os.environ, "PYTHONPATH": paths, **(more or {})}
        self.popen = subprocess.Popen(
            command,
            cwd=cwd,
            env=env,
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.events: list[dict[str, Any]] = []
        self.lines: list[str] = []
        self._stderr: list[str] = []
        self._readers = [threading.Thread(target=self._read), threading.Thread(target=self._read_stderr)]
        for reader in self._readers:
            reader.start()

    def _read(self) -> None:
        assert self.popen.stdout is not None
        for line in self.popen.stdout:
            self.lines.append(line)
            self.events.append(json.loads(line))

    def _read_stderr(self) -> None:
        assert self.popen.stderr is not None
        self._stderr.extend(self.popen.stderr)

    def wait_for(self, event: str, seconds: float = 300.0, **fields: Any) -> dict[str, Any]:
        """Wait until it tells of an event."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for told in tuple(self.events):
                if told["event"] == event and fields.items() <= told.items():
                    return told
            if self.popen.poll() is not None:
                break
            time.sleep(0.01)
        raise AssertionError(f"no {event} {fields}: {self.events}\n{''.join(self._stderr)}")

    def end(self, seconds: float = 300.0) -> Ended:
        """Wait for its end."""
        try:
            code = self.popen.wait(seconds)
        except subprocess.TimeoutExpired:
            self.popen.kill()
            raise
        finally:
            for reader in self._readers:
                reader.join()
            for pipe in (self.popen.stdout, self.popen.stderr):
                if pipe is not None:
                    pipe.close()
        return Ended(code, self.events, "".join(self._stderr))

    def kill(self, number: int = signal.SIGKILL) -> None:
        """Send a signal."""
        self.popen.send_signal(number)


@dataclass
class Machines:
    """A folder with a study of K parties, a key file and records for each."""

    folder: Path
    study: Study
    keys: dict[str, Keys]
    started: list[Participant] = field(default_factory=list)

    @classmethod
    def new(cls, folder: Path, K: int = 3, deadline: float = 120.0) -> "Machines":
        """Make keys, the study and 60 records a party."""
        names = [f"p{j}" for j in range(1, K + 1)]
        keys = {name: make_keys(folder / "keys" / f"{name}.key") for name in (*names, CHARLIE)}
        public = {name: key.public for name, key in keys.items()}
        study = Study.parse(study_text(public, f"tcp://127.0.0.1:{free_port()}", deadline))
        machines = cls(folder, study, keys)
        machines.write_study()
        rng = np.random.default_rng(1)
        for name in (*names, "test"):
            x = rng.uniform(-1, 1, 60)
            rows = [f"{a:.6f},{int(a + 0.1 * rng.normal() > 0)}" for a in x]
            (folder / f"{name}.csv").write_text("\n".join(["x,y", *rows]) + "\n")
        return machines

    def write_study(self, name: str = "study.toml", changes: Mapping[str, str] | None = None) -> Path:
        """Write the study, with pieces of its text exchanged."""
        text = self.study.to_toml()
        for old, new in (changes or {}).items():
            assert old in text
            text = text.replace(old, new)
        path = self.folder / name
        path.write_text(text)
        return path

    def out(self, name: str) -> Path:
        """A participant's run directory."""
        return self.folder / "runs" / name

    def state(self, name: str) -> Path:
        """A participant's state folder."""
        return self.folder / "state" / name

    def approve(self, name: str, study: Path | None = None, key: Path | None = None, data: Path | None = None) -> None:
        """Stand in for a party's person: give it a budget, and say yes where the study can be approved at all."""
        folder, path = StateFolder(self.state(name)), study or self.folder / "study.toml"
        if not folder.ledger.exists():
            give_budget(folder.made(), DEFAULT_POPULATION, 10_000.0, 0.5, by="a test").close()
        mine = key or self.folder / "keys" / f"{name}.key"
        file, accept = data or self.folder / f"{name}.csv", tuple[str, ...]()
        for records in (file, file, None):  # with what looks like a mistake, and without records if they are not fit
            try:
                fingerprint = load_study(path)[0].fingerprint()
                approve(
                    path,
                    key_path=mine,
                    data_path=records,
                    state=folder.root,
                    by="a test",
                    fingerprint=fingerprint,
                    accept=accept,
                    tell=lambda _: None,
                )
            except DoubtfulFile as error:
                accept = tuple(dict.fromkeys(doubt.column for doubt in error.doubts))
            except MasqueradeError:
                accept = ()
            else:
                return

    def start(
        self,
        name: str,
        *more: str,
        study: Path | None = None,
        key: Path | None = None,
        data: Path | None = None,
        version: bool = False,
        approved: bool = True,
        env: Mapping[str, str] | None = None,
        changed: str = "",
    ) -> Participant:
        """Start a participant's process.

        ``version`` makes it another version's, ``env`` adds to its environment, and ``changed`` is a statement that
        changes its program first.
        """
        module = _MODULES.get(name, "masquerade_party")
        changed = _OTHER_VERSION if version else changed
        run = ["-c", _CHANGED.format(changed, module)] if changed else ["-m", module]
        command = [sys.executable, *run, str(study or self.folder / "study.toml")]
        command += ["--key", str(key or self.folder / "keys" / f"{name}.key"), "--out", str(self.out(name))]
        command += ["--state", str(self.state(name))]
        if name != CHARLIE:
            records = data or self.folder / f"{name}.csv"
            command += ["--data", str(records), "--approved"]
            if approved:
                self.approve(name, study, key, records)
        participant = Participant([*command, "--progress", "json", *more], self.folder, env)
        self.started.append(participant)
        return participant

    def start_all(self, *names: str) -> dict[str, Participant]:
        """Start these participants, by default all."""
        return {name: self.start(name) for name in names or (CHARLIE, *self.study.names)}

    def close(self) -> None:
        """End what still runs."""
        for participant in self.started:
            if participant.popen.poll() is None:
                participant.popen.kill()
            if participant.popen.stdout is not None and not participant.popen.stdout.closed:
                participant.end()
