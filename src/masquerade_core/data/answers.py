"""A database's answer to a query, as blocks of records.

A database's own message may show a cell or an address. So no error has it in it, and none is raised inside the handler
of another.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from masquerade_core.data.columns import WholeColumn
from masquerade_core.data.texts import TextTable
from masquerade_core.errors import BadInput

__all__ = ["NAMES", "ReadBlock", "Rows", "another_number", "count_of", "guarded", "not_installed"]

ReadBlock = tuple[Callable[[], Mapping[str, WholeColumn] | None], Callable[[], Iterator[TextTable]]]
"""How some records are read: column by column, which gives None where it cannot be done; and cell by cell."""

NAMES = "the query names the columns: SELECT a, b AS c ..."
"""The hint for a missing column."""

T = TypeVar("T")


@dataclass(frozen=True, repr=False)
class Rows:
    """A query's answer.

    Parameters
    ----------
    n : int
        The number of its records.
    blocks : iterator of ReadBlock
        They can be read once.
    """

    n: int
    blocks: Iterator[ReadBlock]


def count_of(text: str) -> str:
    """Return the query that counts the records of a query; a comment at its end ends with the line."""
    return f"SELECT count(*) FROM ({text}\n) AS records"  # noqa: S608  the query is the user's own, and only reads


def guarded(read: Callable[[], T], kinds: tuple[type[Exception], ...], failure: Callable[[Exception], BadInput]) -> T:
    """Return what ``read`` returns. An error of these kinds becomes the one that ``failure`` makes of it."""
    try:
        return read()
    except kinds as error:
        failed = failure(error)
    try:
        raise failed
    finally:
        del failed  # else the error and this frame keep each other alive, and with them an open connection


def another_number(source: str) -> BadInput:
    """Return the error of a query that does not give the same records twice."""
    return BadInput(
        f"{source} gave another number of records when it ran a second time",
        "a query gives the same records whenever it runs: leave random() and files that change out of it",
    )


def not_installed(package: str, source: str) -> BadInput:
    """Return the error where a database's driver is not there."""
    return BadInput(
        f"{source} needs the package {package}, which is not installed",
        "install it with \"pip install 'masquerade[sql]'\", or save the records as CSV",
    )
