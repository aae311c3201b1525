"""Participants as processes that start at once, and that stop right before they delete what they drew.

A process of this program spends most of a short run on loading its modules. So one process loads them, and forks
whenever a participant is to start. The child runs the same command line as ``python -m masquerade_party``, with a
session, sockets, a journal and a source of randomness of its own.

The child differs in one point. When its attempt has finished, and before the journal is deleted, it sends itself
SIGSTOP. Then a test copies its state folder, and sends SIGCONT. The program has no option for that.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from masquerade_core.study import CHARLIE

__all__ = ["Forked", "Nursery"]

_SECONDS = 300.0
_MODULES = {CHARLIE: "masquerade_curator"}


@dataclass
class Forked:
    """A participant's process, a child of another one."""

    name: str
    pid: int
    files: Path

    @property
    def state(self) -> str:
        """The letter by which Linux tells a process's state: T if it is stopped, Z or nothing if it has ended."""
        try:
            return Path(f"/proc/{self.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
        except OSError:
            return ""

    @property
    def ended(self) -> bool:
        """Whether it has ended."""
        return self.state in {"", "Z", "X"}

    def until(self, states: str) -> None:
        """Wait until it is in one of these states; it must not end before."""
        end = time.monotonic() + _SECONDS
        while (state := self.state) not in states or not state:
            assert not self.ended, f"{self.name} ended: {self.said()}"
            assert time.monotonic() < end, f"{self.name} is in state {state}: {self.said()}"
            time.sleep(0.005)

    def stop(self) -> None:
        """Stop it wherever it is, and wait until it stands still."""
        os.kill(self.pid, signal.SIGSTOP)
        self.until("T")

    def go_on(self) -> None:
        """Let it go on."""
        os.kill(self.pid, signal.SIGCONT)

    def interrupt(self) -> None:
        """Interrupt it, as its owner would, and let it go on if it stands still."""
        os.kill(self.pid, signal.SIGINT)
        self.go_on()

    def kill(self) -> None:
        """Kill it if it still runs."""
        if not self.ended:
            os.kill(self.pid, signal.SIGKILL)

    def end(self) -> int:
        """Wait for its end, and return its exit code."""
        end = time.monotonic() + _SECONDS
        while not self.ended:
            assert time.monotonic() < end, f"{self.name} does not end: {self.said()}"
            time.sleep(0.005)
        code = self.files.with_suffix(".code")
        assert code.exists(), f"{self.name} was killed: {self.said()}"
        return int(code.read_text(encoding="utf-8"))

    def said(self) -> str:
        """Return what it wrote to its standard streams."""
        return "".join(path.read_text(encoding="utf-8") for path in self._streams if path.exists())

    @property
    def _streams(self) -> tuple[Path, Path]:
        return self.files.with_suffix(".out"), self.files.with_suffix(".err")


class Nursery:
    """The process that has loaded everything, and forks."""

    def __init__(self) -> None:
        paths = os.pathsep.join(os.path.abspath(p) for p in sys.path if p)  # noqa: PTH100
        env = {**os.environ, "PYTHONPATH": paths, "OPENBLAS_NUM_THREADS": "1"}
        self._parent = subprocess.Popen(
            [sys.executable, "-m", "tests.forked"],
            env=env,
            text=True,
            bufsize=1,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._children: list[Forked] = []

    def start(self, name: str, folder: Path, arguments: Sequence[str], *, stands: bool = True) -> Forked:
        """Start a participant in a folder; ``stands`` makes it stop before it deletes its journal."""
        assert self._parent.stdin is not None
        assert self._parent.stdout is not None
        files = folder / f"{name}.process"
        order = {
            "module": _MODULES.get(name, "masquerade_party"),
            "arguments": list(arguments),
            "folder": str(folder),
            "files": str(files),
            "stands": stands,
        }
        print(json.dumps(order), file=self._parent.stdin, flush=True)
        child = Forked(name, int(self._parent.stdout.readline()), files)
        self._children.append(child)
        return child

    def close(self) -> None:
        """Kill whatever still runs, and end."""
        for child in self._children:
            child.kill()
        for pipe in (self._parent.stdin, self._parent.stdout):
            if pipe is not None:
                pipe.close()
        self._parent.wait(60)


# --- In the process that forks ----------------------------------------------------------


def _serve() -> None:
    from importlib import import_module

    from masquerade_protocols.registry import PROTOCOLS

    for module in ("masquerade_curator.__main__", "masquerade_party.__main__", "masquerade_party._run"):
        import_module(module)
    for protocol in PROTOCOLS:
        _ = PROTOCOLS[protocol]
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody asks how a child ended: it writes that down itself
    for line in sys.stdin:
        order = json.loads(line)
        pid = os.fork()
        if not pid:
            _be(**order)
        sys.stdout.write(f"{pid}\n")
        sys.stdout.flush()


def _be(module: str, arguments: list[str], folder: str, files: str, *, stands: bool) -> None:
    """Be a participant's process, to the end."""
    code = 99
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.chdir(folder)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        for number, suffix in ((1, ".out"), (2, ".err")):
            os.dup2(os.open(Path(files).with_suffix(suffix), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), number)
        if stands:
            _stand_before_the_end()
        sys.argv = [module, *arguments]
        code = _main(module, arguments)
    except BaseException:  # noqa: BLE001  its end is told in the file
        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        Path(files).with_suffix(".code").write_text(str(code), encoding="utf-8")
        os._exit(0)


def _main(module: str, arguments: list[str]) -> int:
    from importlib import import_module

    from masquerade_host.process.process import main

    try:
        return int(main(import_module(f"{module}.__main__").app, arguments, module) or 0)
    except SystemExit as end:
        return int(end.code or 0)


def _stand_before_the_end() -> None:
    from masquerade_host.store.journal import FINISHED, SqliteJournal

    ends = SqliteJournal.end

    def end(self: SqliteJournal, how: str, run: bytes = b"") -> None:
        if how == FINISHED:
            os.kill(os.getpid(), signal.SIGSTOP)
        ends(self, how, run)

    SqliteJournal.end = end  # type: ignore[method-assign]


if __name__ == "__main__":
    _serve()
