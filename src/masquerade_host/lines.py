"""Lines of a log or of JSON: an event and its fields go through some steps, and the last one makes a line of them."""

import threading
from collections.abc import Callable
from typing import Any, Protocol

__all__ = ["Dropped", "Fields", "File", "Lines"]

Fields = dict[str, Any]
"""An event's fields; its name is the field ``event``."""


class File(Protocol):
    """What lines are written to."""

    def write(self, line: str, /) -> object:
        """Add a line, with its end."""

    def flush(self) -> object:
        """Let others see it."""


class Dropped(Exception):
    """An event has no line."""


class Lines:
    """Writes one line for each event.

    Parameters
    ----------
    file : text file
    render : callable
        The last step, which makes a line of the fields.
    steps : callable
        Each returns the fields for the next one.
    """

    def __init__(self, file: File, render: Callable[[Fields], str], *steps: Callable[[Fields], Fields]) -> None:
        self._file, self._render, self._steps = file, render, steps
        self._lock = threading.Lock()

    def __call__(self, event: str, /, **fields: Any) -> None:
        """Write the line of an event, unless a step drops it."""
        found: Fields = {**fields, "event": event}
        try:
            for step in self._steps:
                found = step(found)
            line = self._render(found)
        except Dropped:
            return
        with self._lock:
            self._file.write(f"{line}\n")
            self._file.flush()
