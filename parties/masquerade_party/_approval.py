"""A person approves a study before anything is sent: what leaves, who must not collude, what it costs."""

import sys
import textwrap
from collections.abc import Sequence

from masquerade_core.errors import RefusedLocally
from masquerade_core.study import Study
from masquerade_protocols import Explanation

__all__ = ["ask", "code_in_words", "confirm", "in_words"]

_WIDTH = 88
_GROUP = 4  # digits of a fingerprint that stand together


def ask(words: str) -> None:
    """Show a study in plain words on stderr, and ask for approval.

    Raises
    ------
    RefusedLocally
        The answer was not yes, or nobody can be asked.
    """
    if not sys.stdin.isatty():
        raise RefusedLocally(
            "nobody can be asked to approve this study: standard input is not a terminal",
            "approve it beforehand with 'masquerade approve STUDY', and start with --approved",
        )
    sys.stderr.write(words)
    sys.stderr.write("\nTake part? Type yes to agree: ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() != "yes":
        raise RefusedLocally("you did not approve this study, so nothing was sent", "type yes to take part")


def confirm(study: Study, typed: str) -> None:
    """Take a fingerprint that somebody typed for a yes to the study that has this fingerprint.

    Raises
    ------
    RefusedLocally
        It is the fingerprint of another study, or only a part of this one's.
    """
    digits = "".join(typed.replace("-", " ").replace(":", " ").split()).lower()
    if digits == study.fingerprint().replace(" ", ""):
        return
    shown = " ".join(digits[i : i + _GROUP] for i in range(0, min(len(digits), 40), _GROUP)) or "empty"
    raise RefusedLocally(
        f"the fingerprint that was typed is {shown}, but this study has another one",
        "read the study with 'masquerade study show', which ends with its fingerprint, and give all of its 32 digits",
    )


def code_in_words(study: Study, code: str) -> tuple[str, ...]:
    """Return whose code a protocol is that is not this program's, as paragraphs; none for this program's own."""
    if not code:
        return ()
    words = (
        f"The protocol {study.study.protocol} is not part of this program. It is code of {code}. It can do all that "
        "your process may do. Compare this line with the others'."
    )
    return (words,)


def in_words(
    study: Study,
    me: str,
    explanation: Explanation,
    budget: Sequence[str] = (),
    beside: Sequence[str] = (),
    *,
    code: str = "",
) -> str:
    """Return a study in plain words, for the person who decides whether ``me`` takes part.

    Parameters
    ----------
    study : Study
    me : str
        The party.
    explanation : Explanation
        Of the study's protocol.
    budget : sequence of str
        What the study takes from the site's privacy budget, as paragraphs.
    beside : sequence of str
        What it shows together with other studies of this site, as paragraphs.
    code : str
        Which code the protocol is, where it is not this program's.
    """
    others = ", ".join(name for name in study.names if name != me)
    parts = [f"The study {study.study.name!r} ({study.study.protocol}), for {me}, together with {others}.\n"]
    for title, points in (
        ("What leaves this machine", explanation.leaves),
        ("Who must not work together", explanation.collusion),
        ("What it costs", explanation.cost),
        ("What it takes from your budget", budget),
        ("What it shows beside your other studies", beside),
        ("Whose code it runs", code_in_words(study, code)),
    ):
        if points:
            parts.append(f"\n{title}\n")
        parts.extend(
            textwrap.fill(point, _WIDTH, initial_indent="  - ", subsequent_indent="    ") + "\n" for point in points
        )
    parts.append(f"\nThe study's fingerprint: {study.fingerprint()}\n")
    return "".join(parts)
