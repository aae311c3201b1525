"""Participants as processes: start them, read their events, and leave none running."""

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType, TracebackType
from typing import IO, Any, Self

from masquerade_core.errors import (
    BadInput,
    BudgetExceeded,
    CannotConnect,
    DeadlinePassed,
    LocalProtocolError,
    MasqueradeError,
    ProtocolViolation,
    RefusedLocally,
    RunFailed,
)

__all__ = ["Event", "Participants", "error_from"]

_KINDS = {
    kind.error_code: kind
    for kind in (
        RunFailed,
        CannotConnect,
        DeadlinePassed,
        BadInput,
        LocalProtocolError,
        RefusedLocally,
        BudgetExceeded,
        ProtocolViolation,
    )
}
_GRACE = 5.0  # seconds that a participant has to end after SIGTERM
_LAST_WORDS = 2000  # characters of its error output that are kept
_LAST_WORDS_SECONDS = 10.0  # to read them in; on a busy machine a second is too little


@dataclass(frozen=True)
class Event:
    """An event that a participant's process reported; the last one is ``exit``, with ``code`` and ``stderr``."""

    who: str
    name: str
    fields: Mapping[str, Any]


@dataclass
class _Child:
    process: subprocess.Popen[str]
    listeners: list[threading.Thread] = field(default_factory=list)
    stderr: str = ""
    """The end of its error output."""


class _Interrupts:
    """Let Ctrl-C, SIGTERM and SIGHUP end this process, but never between a process's start and its entry in a list.

    Outside the main thread, where no handlers can be set, it does nothing.
    """

    _NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def __init__(self) -> None:
        self._before: list[Any] = []
        self._held = False
        self._pending = False

    def install(self) -> None:
        """Install the handlers."""
        if threading.current_thread() is threading.main_thread():
            self._before = [signal.signal(number, self._handle) for number in self._NUMBERS]

    def restore(self) -> None:
        """Restore the handlers that were there before."""
        for number, handler in zip(self._NUMBERS, self._before, strict=False):
            signal.signal(number, handler)

    def _handle(self, _number: int, _frame: FrameType | None) -> None:
        if not self._held:
            raise KeyboardInterrupt
        self._pending = True

    @contextmanager
    def held(self) -> Iterator[None]:
        """Delay an interrupt until this block has ended."""
        self._held = True
        try:
            yield
        finally:
            self._held = False
        if self._pending:
            self._pending = False
            raise KeyboardInterrupt


class Participants:
    """Processes that end with this one.

    Each runs in a session of its own, so Ctrl-C reaches this process alone, which then ends the others in order.
    """

    def __init__(self) -> None:
        self._children: dict[str, _Child] = {}
        self._told: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._interrupts = _Interrupts()

    def __enter__(self) -> Self:
        """Install the handlers for interrupts."""
        self._interrupts.install()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End every process that still runs."""
        try:
            with self._interrupts.held():
                self.stop()
        finally:
            self._interrupts.restore()

    def start(self, who: str, module: str, arguments: Sequence[str]) -> None:
        """Start ``python -m module arguments`` as a participant's process."""
        with self._interrupts.held():
            self._start(who, module, arguments)

    def _start(self, who: str, module: str, arguments: Sequence[str]) -> None:
        process = subprocess.Popen(  # noqa: S603  our own interpreter and modules
            [sys.executable, "-m", module, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,
            # K + 1 processes share the machine: one thread each for linear algebra.
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
        )
        child = self._children[who] = _Child(process)
        # Both are there before either begins: at the process's end one of them waits for the other.
        for target, stream in ((self._overhear, process.stderr), (self._hear, process.stdout)):
            child.listeners.append(threading.Thread(target=target, args=(who, child, stream), daemon=True))
        for thread in child.listeners:
            thread.start()

    def _hear(self, who: str, child: _Child, stream: IO[str]) -> None:
        with stream:
            for line in stream:
                try:
                    fields = json.loads(line)
                    name = str(fields.pop("event"))
                except (ValueError, AttributeError, KeyError, TypeError):  # output that is no event
                    continue
                self._told.put(Event(who, name, fields))
        code = child.process.wait()
        child.listeners[0].join(_LAST_WORDS_SECONDS)
        self._told.put(Event(who, "exit", {"code": code, "stderr": child.stderr}))

    @staticmethod
    def _overhear(_who: str, child: _Child, stream: IO[str]) -> None:
        with stream:
            for line in stream:
                child.stderr = (child.stderr + line)[-_LAST_WORDS:]

    def hear(self, seconds: float) -> Event | None:
        """Return the next event, or None if there is none within so many seconds."""
        try:
            return self._told.get(timeout=seconds)
        except queue.Empty:
            return None

    @property
    def count(self) -> int:
        """How many participants were started."""
        return len(self._children)

    def running(self) -> tuple[str, ...]:
        """Return the participants that have not ended yet."""
        return tuple(who for who, child in self._children.items() if child.process.poll() is None)

    def stop(self) -> None:
        """End every process that still runs: by SIGTERM, and after some seconds by SIGKILL."""
        for who in self.running():
            self._children[who].process.terminate()
        for child in self._children.values():
            try:
                child.process.wait(_GRACE)
            except subprocess.TimeoutExpired:
                child.process.kill()
                child.process.wait()
            for thread in child.listeners:
                thread.join(1.0)


def error_from(who: str, fields: Mapping[str, Any]) -> MasqueradeError:
    """Return a participant's ``error`` event as an exception with its message, hint and exit code."""
    kind = _KINDS.get(str(fields.get("error_code")), RunFailed)
    return kind(f"{who}: {fields.get('message', 'ended without giving a reason')}", str(fields.get("hint", "")))
