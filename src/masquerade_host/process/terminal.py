"""The view of a run for a person at a terminal."""

import contextlib
import os
import time
from collections.abc import Callable
from typing import TextIO

from masquerade_host.process.meter import Meter
from masquerade_host.process.progress import Mode, Progress

__all__ = ["Terminal"]

_CLEAR = "\r\x1b[K"
_NARROW = 80  # columns, where the terminal does not say how many it has


class Terminal:
    """An observer for a person at a terminal: a sentence for each event, and below them one line that changes.

    Parameters
    ----------
    file : text file
        The terminal.
    clock : callable
        Seconds, monotonic.
    """

    def __init__(self, file: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._file = file
        self._meter = Meter(clock)
        self._sentences = Progress(Mode.TEXT, err=file)

    def __call__(self, event: str, /, **fields: str | float) -> None:
        """Show one event."""
        self._meter.note(event, fields)
        self._put(_CLEAR)
        if event != "error":  # the command shows it when it ends
            self._sentences(event, **fields)
        line = self._meter.line()
        if line and event not in ("done", "error"):
            encoding = self._file.encoding or "utf-8"
            line = line.encode(encoding, "backslashreplace").decode(encoding)
            self._put(line[: self._columns() - 1])  # a line that wraps cannot be taken back

    def _columns(self) -> int:
        try:
            return os.get_terminal_size(self._file.fileno()).columns or _NARROW
        except (OSError, ValueError):
            return _NARROW

    def _put(self, text: str) -> None:
        with contextlib.suppress(OSError):  # a terminal that went away ends no run
            self._file.write(text)
            self._file.flush()

    def close(self) -> None:
        """Take the changing line away."""
        self._put(_CLEAR)
