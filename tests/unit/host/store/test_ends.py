"""A process that is killed while it writes its results or ends its run: the same command makes everything whole."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import masquerade_curator
import masquerade_party
from masquerade_core.errors import MasqueradeError
from masquerade_core.study import CHARLIE
from masquerade_host.session import party
from masquerade_host.store import journal, results
from masquerade_host.store.journal import SqliteJournal
from masquerade_host.store.ledger import Ledger
from masquerade_host.store.state import StateFolder, write_new
from masquerade_host.store.transcript import TRANSCRIPT, hashed, read_transcript
from tests.processes import ALWAYS, PARTYS, Machines

FILES = {*ALWAYS, "model.json"}
MOMENTS = ["write 2", "rename 1", "rename 2", "rename 4", "named", "end", "wipe", "overwrite"]
"""``rename 4``: three files have their names, and the fourth is an empty one that reserves its name."""

_SERVER = multiprocessing.get_context("forkserver")
_SERVER.set_forkserver_preload([__name__])


def _die(*_arguments: Any, **_options: Any) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


def _is_part(path: Path) -> bool:
    return path.suffix == ".part"


def _halves(then: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function for the place of ``write_new``, which writes half of a file before this happens."""

    def called(path: Path, data: bytes, mode: int) -> None:
        write_new(path, data[: len(data) // 2], mode)
        then(path)
        path.unlink()
        write_new(path, data, mode)

    return called


def _full(_path: Path) -> None:
    raise OSError(28, "No space left on device")


def _dying(
    function: Callable[..., Any], number: int, of: Callable[[Any], bool] = lambda _first: True
) -> Callable[..., Any]:
    """Return the function, such that the process dies at a call: that of this number, among those with such a first."""
    calls: list[object] = []

    def counted(*arguments: Any, **options: Any) -> Any:
        calls.extend([arguments] if of(arguments[0]) else [])
        return _die() if len(calls) == number else function(*arguments, **options)

    return counted


def _die_at(moment: str) -> None:
    what, _, number = moment.partition(" ")
    match what:
        case "write":
            results.write_new = _halves(_dying(lambda _: None, int(number)))  # type: ignore[attr-defined]  # in this process
        case "rename":
            Path.rename = _dying(Path.rename, int(number), _is_part)  # type: ignore[method-assign]  # in this process
        case "unlink":
            Path.unlink = _dying(Path.unlink, int(number))  # type: ignore[method-assign]  # in this process
        case "full":
            results.write_new = _halves(_full)  # type: ignore[attr-defined]  # in this process
        case "named":
            results.sync_folder = _die  # type: ignore[attr-defined]  # in this process
        case "finish":
            Ledger.finish = _die  # type: ignore[method-assign]  # in this process
        case "end":
            SqliteJournal.end = _die  # type: ignore[method-assign]  # in this process
        case "wipe":
            SqliteJournal._wipe = _die  # type: ignore[method-assign]  # in this process
        case "overwrite":
            journal._overwrite = _dying(journal._overwrite, 1, of=lambda file: file != -1)


def _take_part(folder: Path, name: str, moment: str, journal: bool) -> None:
    """Be a participant's process, up to a moment; its exit code is that of the command."""
    party._PARTING = 0.2  # Charlie has left
    _die_at(moment)
    study, key = folder / "study.toml", folder / "keys" / f"{name}.key"
    usual: dict[str, Any] = {"out": folder / "runs" / name, "state": folder / "state" / name, "journal": journal}
    try:
        if name == CHARLIE:
            masquerade_curator.run(study, key, **usual)
        else:
            masquerade_party.run(study, folder / f"{name}.csv", key, approved=True, **usual)
    except MasqueradeError as error:
        (folder / f"{name}.error").write_text(error.message)
        os._exit(error.exit_code)
    os._exit(0)


class Processes:
    """Participants of one study, whose processes die at given moments."""

    def __init__(self, folder: Path) -> None:
        self.machines = Machines.new(folder, K=2, deadline=30.0)
        self.names = (CHARLIE, *self.machines.study.names)
        for name in self.machines.study.names:
            self.machines.approve(name)

    def start(self, name: str, moment: str = "", *, journal: bool = True) -> Any:
        process = _SERVER.Process(target=_take_part, args=(self.machines.folder, name, moment, journal))
        process.start()
        return process

    def run(self, who: str, moment: str, *, journal: bool = True) -> None:
        """Let all take part, and one of them die."""
        running = {name: self.start(name, moment if name == who else "", journal=journal) for name in self.names}
        for process in running.values():
            process.join(120)
        assert {name: p.exitcode for name, p in running.items()} == dict.fromkeys(self.names, 0) | {who: -9}

    def again(self, who: str, moment: str = "", *, journal: bool = True) -> int:
        """Start the same command again, and return how it ended."""
        process = self.start(who, moment, journal=journal)
        process.join(120)
        assert process.exitcode is not None
        return int(process.exitcode)

    def check(self, who: str) -> None:
        """Check that one participant has all, as if its process had never died."""
        out = self.machines.out(who)
        found = {path.name for path in out.iterdir()} - {"attempt-1"}  # what a full disk left room for
        assert found == {*FILES, *(PARTYS if who != CHARLIE else ())}
        result = json.loads((out / "result.json").read_text())
        transcript = read_transcript((out / TRANSCRIPT).read_text(), TRANSCRIPT)
        assert {name: hashed((out / name).read_bytes()) for name in transcript.files} == transcript.files
        assert set(transcript.files) == found - {TRANSCRIPT}
        assert result["run_id"] == transcript.run.hex()
        models = {(self.machines.out(name) / "model.json").read_bytes() for name in self.names}
        assert len(models) == 1
        kept = self.machines.state(who) / "runs"
        (folder,) = kept.iterdir()
        assert sorted(path.name for path in folder.iterdir()) == ["attempts.jsonl", "lock"]
        (line,) = (folder / "attempts.jsonl").read_text().splitlines()
        assert json.loads(line) == {"attempt": 1, "run": result["run_id"], "ended": "finished"}
        if who != CHARLIE:
            ledger = Ledger.open(StateFolder(self.machines.state(who)))
            kinds = [entry.kind for entry in ledger.history()]
            ledger.close()
            assert (kinds.count("attempt"), kinds.count("finished"), kinds.count("ended")) == (1, 1, 0)


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    yield Processes(tmp_path)
    for process in multiprocessing.active_children():
        process.kill()


@pytest.mark.parametrize("moment", [*MOMENTS, "rename 6", "finish"])
def test_a_party_that_dies_at_its_end_makes_all_whole(processes: Processes, moment: str) -> None:
    processes.run("p2", moment)
    assert processes.again("p2") == 0
    processes.check("p2")
    assert processes.again("p2") == 6  # a study that has finished never runs again


@pytest.mark.parametrize("moment", MOMENTS)
def test_charlie_who_dies_at_his_end_makes_all_whole(processes: Processes, moment: str) -> None:
    processes.run(CHARLIE, moment)
    since = time.monotonic()
    assert processes.again(CHARLIE) == 0
    assert time.monotonic() - since < 15.0  # of a deadline of 30: all parties have said that they hold everything
    processes.check(CHARLIE)
    assert processes.again(CHARLIE) == 4  # results are never overwritten


@pytest.mark.parametrize("number", range(1, 17, 3))
def test_who_dies_while_it_removes_what_the_dead_one_left_makes_all_whole(processes: Processes, number: int) -> None:
    processes.run("p1", "rename 5")
    assert processes.again("p1", f"unlink {number}") in {-9, 0}
    assert processes.again("p1") in {0, 6}
    processes.check("p1")


def test_without_a_journal_nothing_is_overwritten(processes: Processes) -> None:
    processes.run(CHARLIE, "rename 4", journal=False)
    before = {path.name: path.read_bytes() for path in processes.machines.out(CHARLIE).iterdir()}
    assert processes.again(CHARLIE, journal=False) == 4
    assert {path.name: path.read_bytes() for path in processes.machines.out(CHARLIE).iterdir()} == before


def test_whoever_has_no_room_for_the_results_gets_them_later(processes: Processes) -> None:
    running = {name: processes.start(name, "full" if name == "p1" else "") for name in processes.names}
    for process in running.values():
        process.join(120)
    assert {name: p.exitcode for name, p in running.items()} == {CHARLIE: 0, "p1": 1, "p2": 0}
    assert processes.again("p1") == 0
    processes.check("p1")
