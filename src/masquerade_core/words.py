"""Correct English for numbers and lists in messages and pages: "1 round", "20 rounds", "a, b and c"."""

from collections.abc import Collection

__all__ = ["counted", "listed"]


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
