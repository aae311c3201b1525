"""The meaning of ``--data``: a file, a folder of Parquet files, or a database's address and a query behind it."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Union

from masquerade_core.errors import BadInput

if TYPE_CHECKING:
    from masquerade_core.data.addresses import Query

__all__ = ["Data", "data_at"]

_ADDRESS = re.compile(r"\s*([A-Za-z][A-Za-z0-9+.-]*)://(\S*)\s*(.*)", re.DOTALL)
_MANGLED = re.compile(r"(postgres(ql)?|sqlite|duckdb):/")

Data = Union[Path, "Query"]
"""Where records are: a file, a folder or a query. Each of them has a ``name`` for errors."""


def data_at(given: "Path | str | Query") -> Data:
    """Return what a person means with ``--data``: the one place where the string is read.

    Raises
    ------
    BadInput
        It is a database's address, but no query can be made of it; or the address has a password in it.
    """
    if not isinstance(given, Path | str):
        return given
    found = _ADDRESS.fullmatch(given) if isinstance(given, str) else None
    if found is None and not _MANGLED.match(str(given)):
        return Path(given)
    from masquerade_core.data.addresses import SPELLING, query_at

    if found is None:
        raise BadInput("a database's address was given as the path of a file", SPELLING)
    return query_at(found[1], found[2], found[3])
