"""The log of a run: one line for each event, with its time in UTC and its level.

A log may be kept for years and be copied to other machines. So it says nothing of the records: not even what this
process tells its owner at a terminal about the owner's own file, and not how long it trained before it joined.
"""

import os
import stat
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

from masquerade_core.errors import BadInput
from masquerade_host.process.meter import Meter
from masquerade_host.process.progress import JOINING, Fields, Level, passed, put, sentence

__all__ = ["EVERY", "Log", "LogFile"]

EVERY = 30.0
"""Seconds between two lines that say how far the run has come."""

_WARNINGS = frozenset(
    {
        *("cut_off", "left", "lost", "refused", "stranger"),
        *("turned_away", "unconfirmed", "unreachable", "unresolved", "unseated"),
    }
)
_ABOUT_RECORDS = frozenset({"one_class", "repaired", "same_answer"})
_OF_A_STAGE = frozenset({"stage", "stage_done"})  # before the join, they tell how long training took


def _level_of(event: str) -> Level:
    if event == "error":
        return Level.ERROR
    return Level.WARNING if event in _WARNINGS else Level.DEBUG if event == "traffic" else Level.INFO


class LogFile:
    """A file that lines are added to, also after a program such as logrotate has moved or emptied it.

    Parameters
    ----------
    path : path
        Made with mode 0600 if it is not there.

    Raises
    ------
    BadInput
        It cannot be written.
    """

    encoding = "utf-8"

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        try:
            self._descriptor = self._open()
        except OSError as error:
            raise BadInput(
                f"the log {self.path} cannot be written: {error.strerror}", "give another file with --log-file"
            ) from error

    def _open(self) -> int:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
        descriptor = os.open(self.path, flags, 0o600)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise OSError(0, "it is not a file")
        return descriptor

    def write(self, line: str) -> None:
        """Add a line, with its end. A file that was moved away is left, and made anew."""
        try:
            now, own = self.path.lstat(), os.fstat(self._descriptor)
            moved = (now.st_dev, now.st_ino) != (own.st_dev, own.st_ino)
        except FileNotFoundError:
            moved = True
        if moved:
            descriptor = self._open()
            os.close(self._descriptor)
            self._descriptor = descriptor
        os.write(self._descriptor, line.encode(self.encoding, "backslashreplace"))

    def flush(self) -> None:
        """Do nothing: no line waits in this process."""

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)


class Log:
    """An observer that writes a log.

    Parameters
    ----------
    file : text file or LogFile
    level : Level
        Minimum severity of the events that are written.
    clock : callable
        Seconds, monotonic.
    """

    def __init__(
        self, file: TextIO | LogFile, level: Level = Level.INFO, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._level = level
        self._clock = clock
        self._meter = Meter(clock)
        self._next = clock() + EVERY
        self._joined = False
        self._lost = 0
        self._file = file

    def __call__(self, event: str, /, **fields: str | float) -> None:
        """Write one event. A disk that is full, or a reader who has gone away, does not end the run."""
        self._meter.note(event, fields)
        self._joined |= event == "stage" and fields["name"] == JOINING
        level = _level_of(event)
        hidden = event in _ABOUT_RECORDS or (event in _OF_A_STAGE and not self._joined)
        if not hidden and self._level.shows(level):
            self._write(event, fields)
        if event in ("progress", "traffic") and self._clock() >= self._next:
            self._next = self._clock() + EVERY
            line = self._meter.line() if self._joined else "preparing"
            if line and self._level.shows(Level.INFO):
                self._write("so_far", {"message": line})

    def _write(self, event: str, fields: dict[str, str | float]) -> None:
        try:
            if self._lost:
                self._put("lines_lost", {"count": self._lost})
                self._lost = 0
            self._put(event, fields)
        except OSError:
            self._lost += 1

    def _put(self, event: str, fields: Fields) -> None:
        line = _line(passed(event, fields))
        if line is not None:
            put(self._file, f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ} {line}")


def _line(fields: Fields) -> str | None:
    """Return an event's level and sentence; None where it has none."""
    event, words = str(fields["event"]), sentence(fields)
    match event:
        case "so_far":
            level, words = Level.INFO, str(fields["message"])
        case "traffic":
            level, words = Level.DEBUG, f"{fields['messages']} messages, {fields['bytes']} bytes so far."
        case "lines_lost":
            level, words = Level.WARNING, f"Lines of this log that could not be written: {fields['count']}."
        case _:
            level = _level_of(event)
    if words is None:
        return None
    if event == "error":
        words = f"{words.removeprefix('error: ')} (exit code {fields['exit_code']}, {fields['error_code']})"
    return f"{level.upper():<7} {_on_one_line(words)}"


def _on_one_line(words: str) -> str:
    """Escape what would end a line or move a terminal's cursor: a line of a log must not look like two."""
    words = words.replace("\n", "; ")
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in words)
