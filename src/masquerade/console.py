"""Printing for people, on stderr or into a report: every string is shown letter by letter.

Rich reads ``[bold]`` as a style and ``:a:`` as an emoji in every plain string that it prints. Our strings contain
names, levels and paths that users chose. So this console never interprets a plain string; a style needs a ``Text``.
"""

from typing import Any

from rich.console import Console

__all__ = ["literal_console"]


def literal_console(**options: Any) -> Console:
    """Return a console that shows plain strings as they are; ``options`` are those of Rich's ``Console``."""
    return Console(**{"stderr": "file" not in options, "highlight": False, **options, "markup": False, "emoji": False})
