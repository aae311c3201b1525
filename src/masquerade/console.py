"""Printing for people, on stderr or into a report: every string is shown letter by letter.

Rich reads ``[bold]`` as a style and ``:a:`` as an emoji in every plain string that it prints. Our strings contain
names, levels and paths that users chose. So this console never interprets a plain string; a style needs a ``Text``.
"""

from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

__all__ = ["literal_console", "progress_bar", "words_bar"]


def literal_console(**options: Any) -> Console:
    """Return a console that shows plain strings as they are; ``options`` are those of Rich's ``Console``."""
    return Console(**{"stderr": "file" not in options, "highlight": False, **options, "markup": False, "emoji": False})


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
