"""What shows that a command is still working: a bar, or a line with the present step."""

import threading
import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.status import Status
from rich.text import Text

from masquerade.console import literal_console

__all__ = ["Working", "progress_bar", "words_bar"]

_EVERY = 1.0  # seconds between two lines for a pipe


def progress_bar(*, disable: bool) -> Progress:
    """Return a bar on stderr that vanishes when it is full; a task's description is shown as it is."""
    return Progress(
        TextColumn("{task.description}", style="progress.description", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
        console=literal_console(),
        transient=True,
        disable=disable,
    )


def words_bar(console: Console) -> Progress:
    """Return a bar with words beside it, the field ``words`` of a task; it vanishes when it is full."""
    return Progress(
        TextColumn("{task.description}", style="progress.description", markup=False),
        BarColumn(),
        TextColumn("{task.fields[words]}", markup=False),
        console=console,
        transient=True,
    )


class Working:
    """Shows the present step of a command: beside a spinner on a terminal, in at most one line a second elsewhere.

    Elsewhere, a step that takes long is named again, with its seconds. It can be entered again.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._status: Status | None = None
        self._words, self._since, self._named = "", 0.0, True
        self._said = -_EVERY
        self._ended: threading.Event | None = None
        self._one_at_a_time = threading.Lock()

    def __enter__(self) -> Self:
        """Begin."""
        if self._console.is_terminal:
            self._status = Status("", console=self._console, spinner_style="cyan")
            self._status.start()
        else:
            self._ended = threading.Event()
            threading.Thread(target=self._watch, args=(self._ended,), daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Remove the spinner; say no more."""
        self._words = ""
        if self._status is not None:
            self._status.stop()
            self._status = None
        if self._ended is not None:
            self._ended.set()

    def say(self, words: str) -> None:
        """Say what is being done from now on, in a few words."""
        self._words, self._since, self._named = words, time.monotonic(), False
        if self._status is not None:
            self._status.update(Text(words, style="dim"))
        else:
            self.tick()

    def tick(self) -> None:
        """Name the step in a line, or how long it has taken, if nothing was said for a second."""
        with self._one_at_a_time:
            now = time.monotonic()
            if now < self._said + _EVERY or not self._words:
                return
            far = f": {now - self._since:.0f} s so far" if self._named else ""
            self._said, self._named = now, True
            self._console.print(f"  {self._words}{far}", soft_wrap=True)

    def _watch(self, ended: threading.Event) -> None:
        while not ended.wait(_EVERY / 10):
            self.tick()
