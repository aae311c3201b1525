"""A data owner approves of a study before anything is sent: what leaves, who must not collude, what it costs."""

import sys
import textwrap
from collections.abc import Callable

from masquerade_core.errors import RefusedLocally
from masquerade_core.study import Study
from masquerade_protocols import Explanation

__all__ = ["Approve", "ask", "no_questions"]

Approve = Callable[[Study, str, Explanation], None]
"""Takes the study, this party's name and the explanation; raises RefusedLocally if the data owner says no."""

_WIDTH = 88


def no_questions(_study: Study, _me: str, _explanation: Explanation) -> None:
    """Approve without a question: the data owner started with ``--yes``."""


def ask(study: Study, me: str, explanation: Explanation) -> None:
    """Show the study in plain words on stderr, and ask for approval.

    Raises
    ------
    RefusedLocally
        The answer was not yes, or nobody can be asked.
    """
    if not sys.stdin.isatty():
        raise RefusedLocally(
            "nobody can be asked to approve of this study: standard input is not a terminal",
            "read 'masquerade study show', and start with --yes if you agree",
        )
    sys.stderr.write(_in_words(study, me, explanation))
    sys.stderr.write("\nTake part? Type yes to agree: ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() != "yes":
        raise RefusedLocally("you did not approve of this study, so nothing was sent", "type yes to take part")


def _in_words(study: Study, me: str, explanation: Explanation) -> str:
    others = ", ".join(name for name in study.names if name != me)
    parts = [f"The study {study.study.name!r} ({study.study.protocol}), for {me}, together with {others}.\n"]
    for title, points in (
        ("What leaves this machine", explanation.leaves),
        ("Who must not work together", explanation.collusion),
        ("What it costs", explanation.cost),
    ):
        parts.append(f"\n{title}\n")
        parts.extend(
            textwrap.fill(point, _WIDTH, initial_indent="  - ", subsequent_indent="    ") + "\n" for point in points
        )
    return "".join(parts)
