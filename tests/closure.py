"""The *closure* of a participant's process: the modules of this program that it loads in a default study.

``python -m tests.closure`` plays four runs of dp-whitened between real processes, and prints what a party's process and
Charlie's load and use. The study is a new one: masks, 1,500 records in CSV files, three parties, and an evaluation. In
the four runs nothing happens; processes are killed and started again; a party sends what convicts it; and a party is
lost where the study allows it.
"""

from __future__ import annotations

import ast
import io
import json
import os
import resource
import subprocess
import sys
import time
import tokenize
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, TypeGuard

from masquerade.datasets import simulated
from masquerade.draft import Draft
from masquerade.stand_in import stand_in
from masquerade_core.study import CHARLIE
from masquerade_core.study_files import load_study
from masquerade_host.store.new_keys import make_keys
from tests.host_helpers import free_port
from tests.imports import SOURCES, module_of, modules_of
from tests.processes import Ended, Participant

__all__ = [
    "CHARLIE",
    "KINDS",
    "LISTED",
    "PARTY",
    "RUNS",
    "Closure",
    "Play",
    "closures",
    "code_lines",
    "functions_in",
    "late_imports",
    "module_named",
]

PARTY = "party"
KINDS = (PARTY, CHARLIE)
LISTED: dict[str, Any] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
"""The committed closures by kind, as sorted names of modules; and ``late``, what these import later."""

_RECORDS = 1500
_NAMES = ("p1", "p2", "p3")
_MODULES = {PARTY: "masquerade_party", CHARLIE: "masquerade_curator"}

_READY = "program.py Program.here"
"""The function that hashes the program. A process calls it last before it says hello."""
_OPENS = "driver.py run_role"
_GOES_ON = "driver.py _converse"
_ARRIVES = ("dialer.py PartySocket.arrivals", "sockets.py CharlieSocket.arrivals")
_IN_INBOX = "session.py Inbox.put"

_RECORDER = """
import os, runpy, sys, threading, time, atexit
log, module, before, roots = sys.argv[1], sys.argv[2], sys.argv[3], tuple(sys.argv[4].split(os.pathsep))
marks, arrives, put = sys.argv[5].split("|"), sys.argv[6].split("|"), sys.argv[7]
sys.argv = [module, *sys.argv[8:]]
out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
seen, kept, places, walk = set(), [], {}, [None]
def place(code):
    found = places.get(id(code))
    if found is None:
        kept.append(code)
        line = f"{code.co_filename}\\t{code.co_firstlineno}\\t{code.co_name}"
        short = os.path.basename(code.co_filename) + " " + code.co_qualname
        found = places[id(code)] = (line, short) if code.co_filename.startswith(roots) else ()
    return found
def note(frame, event, arg):
    if event != "call":
        return
    found = place(frame.f_code)
    if not found:
        return
    line, short = found
    if line not in seen:
        if short in marks:
            os.write(out, f"mark\\t{short}\\n".encode())
            seen.clear()
        seen.add(line)
        os.write(out, f"call\\t{line}\\n".encode())
    if threading.current_thread() is threading.main_thread():
        if short in arrives:
            walk[0] = [line]
        elif walk[0] is not None:
            walk[0].append(line)
            if short == put:
                names = set(walk[0])
                files = {name.partition("\\t")[0] for name in names}
                os.write(out, f"walk\\t{len(files)}\\t{len(names)}\\n".encode())
                walk[0] = None
def end():
    sys.setprofile(None)
    for name, found in list(sys.modules.items()):
        where = getattr(found, "__file__", None) or ""
        if "site-packages" in where:
            os.write(out, f"other\\t{name}\\n".encode())
atexit.register(end)
exec(before)
for name in [name for name in sys.modules if name.startswith("masquerade")]:
    where = sys.modules[name].__file__
    os.write(out, f"call\\t{where}\\t0\\t<module>\\n".encode())
threading.setprofile(note)
sys.setprofile(note)
runpy.run_module(module, run_name="__main__", alter_sys=True)
"""

_CONVICTED = """
import masquerade_core.seat as _seats
_send = _seats.Seat.send
async def _shorter(self, to, message):
    if type(message).__name__ == "Masked":
        message = message.model_copy(update={"words": message.words[:-8]})
    await _send(self, to, message)
_seats.Seat.send = _shorter
"""
"""A party signs a contribution that is too short, which convicts it."""


def module_named(path: str) -> str:
    """Return the dotted name of a module's file."""
    return next(module_of(Path(path), source) for source in SOURCES if Path(path).is_relative_to(source))


def late_imports() -> dict[str, list[str]]:
    """Return what the modules of both closures import later, by the importing module's name."""
    found = {name: sorted(modules_of(name).late) for name in {*LISTED[PARTY], *LISTED[CHARLIE]}}
    return {name: late for name, late in sorted(found.items()) if late}


@cache
def code_lines(path: str) -> int:
    """Return how many lines of a module are code: no docstring, no comment, not blank."""
    text = Path(path).read_text(encoding="utf-8")
    layout = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    code: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in layout:
            code.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if _is_text(node):
            code.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(code)


def _is_text(node: ast.AST) -> TypeGuard[ast.Expr]:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


@cache
def functions_in(path: str) -> frozenset[tuple[str, int, str]]:
    """Return the functions of a module that have a body: file, first line and name."""
    found = set()
    for node in ast.walk(ast.parse(Path(path).read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not all(map(_is_stub, node.body)):
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            found.add((path, first, node.name))
    return frozenset(found)


def _is_stub(node: ast.AST) -> bool:
    return _is_text(node) or (
        isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and node.value.value is ...
    )


@dataclass
class Closure:
    """The modules and functions that one process loaded and called, in order.

    Attributes
    ----------
    before, after : list of str
        The files of this program's modules that it loaded until it hashed its program, and afterwards.
    called : dict of str to set
        The functions that it called, by the last mark that it had passed.
    others : set of str
        Other people's modules, at its end.
    walks : list of (int, int)
        Files and functions that a frame passed, for each frame that reached the inbox.
    """

    before: list[str] = field(default_factory=list)
    after: list[str] = field(default_factory=list)
    called: dict[str, set[tuple[str, int, str]]] = field(default_factory=dict)
    others: set[str] = field(default_factory=set)
    walks: list[tuple[int, int]] = field(default_factory=list)

    @classmethod
    def read(cls, log: Path) -> Closure:
        """Read what the recorder wrote."""
        found, mark, hashed = cls(), "", False
        for line in log.read_text(encoding="utf-8").splitlines():
            kind, *rest = line.split("\t")
            if kind == "mark":
                mark = rest[0]
                hashed = hashed or mark == _READY
            elif kind == "other":
                found.others.add(rest[0])
            elif kind == "walk":
                found.walks.append((int(rest[0]), int(rest[1])))
            elif rest[2] == "<module>":
                if rest[0] not in (*found.before, *found.after):
                    (found.after if hashed else found.before).append(rest[0])
            else:
                found.called.setdefault(mark, set()).add((rest[0], int(rest[1]), rest[2]))
        return found

    @property
    def files(self) -> set[str]:
        """All files of this program's modules."""
        return {*self.before, *self.after}

    @property
    def functions(self) -> set[tuple[str, int, str]]:
        """All functions that it called."""
        return set().union(*self.called.values())

    @property
    def resumes(self) -> set[tuple[str, int, str]]:
        """The functions with which it read its journal, until it stood where an earlier process had stood."""
        return self.called.get(_OPENS, set())


class Play:
    """The machines of one run: a folder with keys, records and a state for each participant."""

    def __init__(self, folder: Path, **more: Any) -> None:
        self.folder = folder
        cohort = simulated(len(_NAMES), _RECORDS)
        keys = {name: make_keys(folder / f"{name}.key").public for name in (*_NAMES, CHARLIE)}
        settings: dict[str, Any] = {"more": {"evaluation": {"share": 0.2}}, **more}
        draft = Draft(
            parties=[(name, keys[name]) for name in _NAMES],
            curator_key=keys[CHARLIE],
            address=f"tcp://127.0.0.1:{free_port()}",
            features=cohort.features,
            label=cohort.label,
            expected_records=_RECORDS,
            deadline_seconds=60.0,
            **settings,
        )
        self.study = folder / "study.toml"
        self.study.write_text(draft.to_toml(), encoding="utf-8")
        self.logs: list[tuple[str, Path]] = []
        self._started: list[Participant] = []
        study, _ = load_study(self.study)
        for name, records in zip(_NAMES, cohort.parties.values(), strict=True):
            (folder / f"{name}.csv").write_text(records.to_csv(), encoding="utf-8")
            key, data = folder / f"{name}.key", folder / f"{name}.csv"
            stand_in(study, self.study, key, data, folder / "state" / name, "a test")

    def arguments(self, name: str) -> list[str]:
        """Return a participant's arguments."""
        words = [str(self.study), "--key", str(self.folder / f"{name}.key"), "--out", str(self.folder / "runs" / name)]
        words += ["--state", str(self.folder / "state" / name), "--progress", "json"]
        return words if name == CHARLIE else [*words, "--data", str(self.folder / f"{name}.csv"), "--approved"]

    def start(self, name: str, before: str = "") -> Participant:
        """Start a participant under the recorder; ``before`` is a statement that changes its program first."""
        kind = CHARLIE if name == CHARLIE else PARTY
        log = self.folder / f"{name}-{len(self.logs)}.log"
        if not before:  # of a program that is changed nothing is counted
            self.logs.append((kind, log))
        roots, marks = os.pathsep.join(map(str, SOURCES)), f"{_READY}|{_OPENS}|{_GOES_ON}"
        recorder = [_RECORDER, str(log), _MODULES[kind], before, roots, marks, "|".join(_ARRIVES), _IN_INBOX]
        return self._keep(Participant([sys.executable, "-c", *recorder, *self.arguments(name)], self.folder))

    def start_all(self) -> dict[str, Participant]:
        """Start all participants."""
        return {name: self.start(name) for name in (CHARLIE, *_NAMES)}

    def start_plain(self, name: str) -> Participant:
        """Start a participant without the recorder."""
        module = _MODULES[CHARLIE if name == CHARLIE else PARTY]
        return self._keep(Participant([sys.executable, "-m", module, *self.arguments(name)], self.folder))

    def _keep(self, participant: Participant) -> Participant:
        self._started.append(participant)
        return participant

    def close(self) -> None:
        """End what still runs."""
        for participant in self._started:
            if participant.popen.poll() is None:
                participant.kill()
                participant.end()


def _ends(running: Mapping[str, Participant]) -> dict[str, Ended]:
    ended = {name: participant.end() for name, participant in running.items()}
    assert {end.code for end in ended.values()} == {0}, [(name, end.code, end.stderr) for name, end in ended.items()]
    return ended


def _clean(folder: Path) -> Play:
    play = Play(folder)
    try:
        _ends(play.start_all())
    finally:
        play.close()
    return play


def _killed(folder: Path) -> Play:
    """A party dies after the join, and Charlie and another party in the rounds; each is started again."""
    play = Play(folder)
    try:
        running = play.start_all()
        for name, event in (("p1", "joined"), (CHARLIE, "progress"), ("p2", "progress")):
            running[name].wait_for(event)
            running[name].kill()
            running[name].end()
            running[name] = play.start(name)
        _ends(running)
    finally:
        play.close()
    return play


def _blamed(folder: Path) -> Play:
    play = Play(folder)
    try:
        running = {name: play.start(name) for name in (CHARLIE, "p1", "p2")}
        running["p3"] = play.start("p3", before=_CONVICTED)
        errors = {name: participant.end().error for name, participant in running.items()}
        assert errors[CHARLIE]["peer"] == "p3", errors
        assert {error.get("accused") for error in errors.values()} == {None, "p3"}, errors
    finally:
        play.close()
    return play


def _shrunken(folder: Path) -> Play:
    play = Play(folder, dropouts={"min_survivors": 2, "retries": 2, "patience_seconds": 3.0})
    try:
        running = play.start_all()
        running[CHARLIE].wait_for("progress")
        lost = running.pop("p3")
        lost.kill()
        lost.end()
        ended = _ends(running)
        assert [event["party"] for event in ended[CHARLIE].events if event["event"] == "lost"] == ["p3"]
    finally:
        play.close()
    return play


RUNS: Mapping[str, Callable[[Path], Play]] = {
    "clean": _clean,
    "killed": _killed,
    "blamed": _blamed,
    "shrunken": _shrunken,
}
"""The four runs, each played in an empty folder."""


def closures(run: str, folder: Path) -> dict[str, list[Closure]]:
    """Play a run; return what each process of a party, and each of Charlie, loaded and called."""
    found: dict[str, list[Closure]] = {kind: [] for kind in KINDS}
    for kind, log in RUNS[run](folder).logs:
        found[kind].append(Closure.read(log))
    return found


def _memory(name: str, event: str) -> float:
    """Return how many MB a participant holds that has told of an event: a party alone, or Charlie, who waits."""
    with TemporaryDirectory() as folder:
        play = Play(Path(folder))
        try:
            participant = play.start_plain(name)
            participant.wait_for(event)
            time.sleep(1.0)
            status = Path(f"/proc/{participant.popen.pid}/status").read_text(encoding="utf-8")
        finally:
            play.close()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS:")) / 1024


def _seconds(*words: str) -> float:
    """Return how many seconds of CPU a command takes, the least of five times."""
    taken = []
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [sys.executable, "-m", "masquerade", *words]
        subprocess.run(command, check=True, capture_output=True, env={**os.environ, "COLUMNS": "110"})
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        taken.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(taken)


def _figures(kind: str, played: Mapping[str, Sequence[Closure]]) -> Iterator[tuple[str, object]]:
    clean, everything = played["clean"], [closure for each in played.values() for closure in each]
    files = set().union(*(closure.files for closure in clean))
    yield "modules", len(files)
    yield "lines", sum(len(Path(path).read_text(encoding="utf-8").splitlines()) for path in files)
    yield "code lines", sum(map(code_lines, files))
    yield "modules of others", len(set().union(*(closure.others for closure in clean)))
    for run, processes in played.items():
        late = {module_named(path) for closure in processes for path in closure.after}
        yield f"loaded after the hash of the program, {run}", " ".join(sorted(late)) or "-"
    known = set().union(*(functions_in(path) for path in files))
    ran = known & set().union(*(closure.functions for closure in clean))
    yield "functions, of them called in a clean run", f"{len(known)}, {len(ran)} = {len(ran) / len(known):.0%}"
    everywhere = set().union(*(closure.files for closure in everything))
    known = set().union(*(functions_in(path) for path in everywhere))
    ran = known & set().union(*(closure.functions for closure in everything))
    yield "the same in four runs", f"{len(known)}, {len(ran)} = {len(ran) / len(known):.0%}"
    still = [path for path in files if not functions_in(path) & ran]
    yield "modules of which no function is called", len(still)
    walks = [walk for closure in clean for walk in closure.walks]
    yield "files, functions from socket to inbox", (median(w[0] for w in walks), median(w[1] for w in walks))
    resumed = [c for c in played["killed"] if any(name == "resumed" for _, _, name in c.functions)]
    visited = max((closure.resumes for closure in resumed), key=len)
    yield "files, functions of a restart", (len({path for path, _, _ in visited}), len(visited))


def write() -> None:
    """Write the committed closures anew, from a clean run."""
    with TemporaryDirectory() as folder:
        for kind, found in closures("clean", Path(folder)).items():
            LISTED[kind] = sorted({module_named(path) for closure in found for path in closure.files})
    LISTED["late"] = late_imports()
    lists = [f"{kind} = [\n" + "".join(f'  "{name}",\n' for name in LISTED[kind]) + "]\n" for kind in KINDS]
    late = [f'"{name}" = {json.dumps(several)}\n' for name, several in LISTED["late"].items()]
    head = "# What a default party and Charlie load, and what that imports later: python -m tests.closure --write\n"
    text = head + "".join(lists) + "\n[late]\n" + "".join(late)
    Path(__file__).with_suffix(".toml").write_text(text, encoding="utf-8")


def main() -> None:
    """Print all figures; ``--list`` the modules as well, each with its code lines and functions called."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # what is installed is compiled, and so it is measured
    if "--write" in sys.argv:
        write()
        return
    played: dict[str, dict[str, list[Closure]]] = {kind: {} for kind in KINDS}
    for run in RUNS:
        with TemporaryDirectory() as folder:
            for kind, found in closures(run, Path(folder)).items():
                played[kind][run] = found
    for kind in KINDS:
        print(f"\n{kind}")  # noqa: T201
        for what, figure in _figures(kind, played[kind]):
            print(f"  {what}: {figure}")  # noqa: T201
        ready = _memory("p1", "connecting") if kind == PARTY else _memory(CHARLIE, "listening")
        print(f"  MB when ready to join: {ready:.1f}")  # noqa: T201
        if "--list" in sys.argv:
            _list(played[kind])
    print()  # noqa: T201
    with TemporaryDirectory() as folder:
        key = str(Path(folder, "p1.key"))
        make_keys(Path(key))
        for words in (["--help"], ["keys", "show", key], ["party", "--help"]):
            shown = " ".join(word for word in words if word != key)
            print(f"  seconds of CPU of masquerade {shown}: {_seconds(*words):.2f}")  # noqa: T201


def _list(played: Mapping[str, Sequence[Closure]]) -> None:
    everything = [closure for each in played.values() for closure in each]
    ran = set().union(*(closure.functions for closure in everything))
    for path in sorted(set().union(*(closure.files for closure in everything)), key=module_named):
        known = functions_in(path)
        print(f"    {module_named(path):60} {code_lines(path):5} {len(known & ran):4} of {len(known):4}")  # noqa: T201


if __name__ == "__main__":
    main()
