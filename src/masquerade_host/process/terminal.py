"""The view of a run for a person at a terminal."""

import contextlib
import os
import time
from collections.abc import Callable, Sequence
from typing import TextIO

from masquerade_host.process.meter import Meter, wrapped
from masquerade_host.process.progress import passed, sentence

__all__ = ["Block", "Terminal"]

_NARROW, _LOW = 80, 24  # columns and rows, where the terminal does not say how many it has


class Block:
    """Lines at the end of a terminal that are drawn anew in their place, below lines that stay.

    Parameters
    ----------
    file : text file
        The terminal.
    """

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._drawn = 0

    @property
    def size(self) -> tuple[int, int]:
        """How many columns and rows a block may have: a line that fills a row would wrap, and not be taken back."""
        try:
            found = os.get_terminal_size(self._file.fileno())
        except (OSError, ValueError):
            return _NARROW - 1, _LOW - 1
        return (found.columns or _NARROW) - 1, (found.lines or _LOW) - 1

    def say(self, text: str) -> None:
        """Write lines that stay, and take the block away."""
        self._put(f"{self._clear()}{text}\n")

    def draw(self, lines: Sequence[str]) -> None:
        """Draw the block; a line is cut that is longer than the terminal is wide."""
        columns, rows = self.size
        clear = self._clear()
        shown = [line[:columns] for line in lines[:rows]]
        self._put(clear + "\n".join(shown))
        self._drawn = len(shown)

    def close(self) -> None:
        """Take the block away."""
        self._put(self._clear())

    def _clear(self) -> str:
        drawn, self._drawn = self._drawn, 0
        return "\r\x1b[K" if drawn <= 1 else f"\r\x1b[{drawn - 1}A\x1b[J"

    def _put(self, text: str) -> None:
        """Write a text. Letters that the terminal's encoding lacks are escaped."""
        encoding = self._file.encoding or "utf-8"
        with contextlib.suppress(OSError):  # a terminal that went away ends no run
            self._file.write(text.encode(encoding, "backslashreplace").decode(encoding))
            self._file.flush()


class Terminal:
    """An observer for a person at a terminal: a sentence for each event, and below them a table that changes.

    The table says how far the run is, who is waited for, and for how long.

    Parameters
    ----------
    file : text file
        The terminal.
    clock : callable
        Seconds, monotonic.
    """

    def __init__(self, file: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._block = Block(file)
        self._meter = Meter(clock)

    def __call__(self, event: str, /, **fields: str | float) -> None:
        """Show one event."""
        self._meter.note(event, fields)
        columns, _ = self._block.size
        said = None if event == "error" else sentence(passed(event, fields))  # the command shows an error when it ends
        if said is not None:
            self._block.say("\n".join(line for part in said.split("\n") for line in wrapped(part, columns)))
        self._block.draw([] if event in ("done", "error") else self._meter.table(columns))

    def close(self) -> None:
        """Take the table away."""
        self._block.close()
