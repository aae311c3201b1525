"""Small pieces of English that messages and pages are put together from."""

from collections.abc import Collection

__all__ = ["counted", "listed"]


def counted(number: int, singular: str, plural: str = "", *, none: str = "no") -> str:
    """Return a number with its noun: "1 round", "20 rounds", "no rounds".

    Parameters
    ----------
    number : int
        At least 0.
    singular, plural : str
        The noun; its plural adds an s where none is given.
    none : str
        What stands in the place of 0.
    """
    noun = singular if number == 1 else plural or f"{singular}s"
    return f"{f'{number:,}' if number else none} {noun}"


def listed(names: Collection[str], last: str = "and") -> str:
    """Return names as a list in a sentence: "a", "a and b", "a, b and c"."""
    *most, final = names
    return f"{', '.join(most)} {last} {final}" if most else final
