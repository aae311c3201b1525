"""How far a figure is: a bar on a terminal, lines in a log."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from masquerade.console import literal_console
from masquerade.working import words_bar
from masquerade_lab.commands.listing import in_words
from masquerade_lab.reproduce.engine.tasks import Standing

__all__ = ["told"]

_BETWEEN_LINES = 15.0  # seconds


@contextmanager
def told(name: str, *, silent: bool) -> Iterator[Callable[[Standing], None]]:
    """Give a function that shows how far the figure is."""
    console = literal_console()
    if silent:
        yield lambda _: None
    elif console.is_terminal:
        with words_bar(console) as bar:
            task = bar.add_task(name, total=None, words="")
            yield lambda standing: bar.update(
                task, completed=standing.ready, total=standing.weight, words=_words(standing)
            )
    else:
        yield _Lines(name)


class _Lines:
    """Prints a line at the beginning, at the end, and every quarter of a minute."""

    def __init__(self, name: str) -> None:
        self._name, self._last = name, float("-inf")

    def __call__(self, standing: Standing) -> None:
        now = time.monotonic()
        if standing.done == standing.tasks or now - self._last >= _BETWEEN_LINES:
            self._last = now
            literal_console().print(f"{self._name}: {_words(standing)}", soft_wrap=True)


def _words(standing: Standing) -> str:
    words = f"{standing.done} of {standing.tasks} tasks"
    if standing.kept:
        words += f", {standing.kept} kept from an earlier run"
    left = in_words(standing.seconds) if standing.done < standing.tasks else ""
    return f"{words}, about {left} left" if left else words
