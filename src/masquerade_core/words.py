"""Correct English for numbers and lists in messages and pages, and what delta means, which many places say."""

import re
from collections.abc import Collection

__all__ = ["DELTA", "UNSHOWN", "counted", "listed", "printable"]

DELTA = "slack in probability: outputs may exceed the e^epsilon bound by at most delta"
"""Delta's meaning. It is not the chance that epsilon fails: that is another definition, *probabilistic* privacy."""

UNSHOWN = r"\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"
"""The characters that no name may have, for the inside of a pattern's brackets.

They control a terminal, begin a new line, or turn the direction of writing. With them a text looks like another one.
"""


def counted(number: int, singular: str, plural: str = "", *, none: str = "no") -> str:
    """Return a number with its noun: "1 round", "20 rounds", "no rounds".

    Parameters
    ----------
    number : int
        At least 0.
    singular : str
        The noun as it follows 1. It may bring a verb along: "noisy sum is".
    plural : str
        The noun as it follows any other number; if empty, the singular with an s.
    none : str
        The word in place of 0.
    """
    noun = singular if number == 1 else plural or f"{singular}s"
    return f"{f'{number:,}' if number else none} {noun}"


def listed(names: Collection[str], last: str = "and") -> str:
    """Return names as a list in a sentence: "a", "a and b", "a, b and c".

    Parameters
    ----------
    names : collection of str
        At least one.
    last : str
        The word before the last name.

    Raises
    ------
    ValueError
        There are no names.
    """
    if not names:
        raise ValueError("no names were given to list in a sentence")
    *most, final = names
    return f"{', '.join(most)} {last} {final}" if most else final


def printable(text: str) -> str:
    """Return a text as a line that a terminal shows as it is: with escapes for :data:`UNSHOWN` and half characters."""
    return re.sub(f"[{UNSHOWN}\\ud800-\\udfff]", lambda found: f"\\u{ord(found[0]):04x}", text)
