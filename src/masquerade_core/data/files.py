"""A file of records: it is opened, and its wanted columns are found by their names."""

import difflib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from masquerade_core.errors import BadInput

__all__ = ["SAVE_AS_CSV", "find_columns", "no_utf8", "opened"]

SAVE_AS_CSV = "save the table as CSV in UTF-8"
"""What to do with a file of another kind."""


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """Open a file of records.

    Raises
    ------
    BadInput
        There is none, or it cannot be read.
    """
    try:
        with path.open("rb") as file:
            yield file
    except FileNotFoundError as error:
        raise BadInput(f"there is no file {path}", "correct the path") from error
    except OSError as error:
        raise BadInput(f"{path.name} cannot be read: {error.strerror}", "check the path and who may read it") from error


def no_utf8(source: str) -> BadInput:
    """Return the error of a file that is not text."""
    return BadInput(f"{source} is not UTF-8 text", SAVE_AS_CSV)


def find_columns(header: Sequence[str], wanted: Iterable[str], source: str, otherwise: str) -> dict[str, int]:
    """Return the place of each wanted column among a file's columns.

    Raises
    ------
    BadInput
        A column is not there, or there twice. Where no name is similar, ``otherwise`` says what to do.
    """
    picks: dict[str, int] = {}
    for name in wanted:
        if name not in header:
            near = difflib.get_close_matches(name, header, n=1, cutoff=0.75)
            hint = f"did you mean the column {near[0]!r}?" if near else otherwise
            if len(header) == 1 and (";" in header[0] or "\t" in header[0]):
                hint = "columns are separated by commas, not by semicolons or tabs"
            raise BadInput(f"{source} has no column {name!r}", hint)
        if header.count(name) > 1:
            raise BadInput(f"{source} has the column {name!r} twice", "rename or remove one of them")
        picks[name] = header.index(name)
    return picks
