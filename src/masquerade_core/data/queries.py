"""The meaning of ``--data``: a file, a folder of Parquet files, or a database's address and a query behind it.

Such a query is one string: ``postgresql://db.example/clinic SELECT * FROM visits ORDER BY id``. What stands behind
``sqlite://`` and ``duckdb://`` is the path of a file, with ``%20`` for a blank. An address has no password in it: other
users of a machine see the command lines of all its processes. An error shows neither the query nor the user's name.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args
from urllib.parse import parse_qsl, unquote, urlsplit

from masquerade_core.errors import BadInput

__all__ = ["Data", "Query", "Scheme", "data_at"]

Scheme = Literal["postgresql", "sqlite", "duckdb"]
"""The databases that can be asked."""

_ADDRESS = re.compile(r"\s*([A-Za-z][A-Za-z0-9+.-]*)://(\S*)\s*(.*)", re.DOTALL)
_MANGLED = re.compile(r"(postgres(ql)?|sqlite|duckdb):/")
_SECRETS = ("password", "passwd", "secret")
_SPELLING = 'write one string, as in "postgresql://db.example/clinic SELECT * FROM visits ORDER BY id"'


@dataclass(frozen=True, repr=False)
class Query:
    """A query to a database, whose answer has a record in each row.

    Parameters
    ----------
    scheme : str
        The database's kind.
    place : str
        The address of a PostgreSQL server, or the absolute path of a file. It is empty for DuckDB without a file.
    text : str
        The query in SQL.
    """

    scheme: Scheme
    place: str
    text: str

    @property
    def name(self) -> str:
        """The query's name for an error. It shows neither the query, nor the user, nor a setting."""
        if self.scheme != "postgresql":
            return f"the query of {Path(self.place).name or 'DuckDB'}"
        parts = urlsplit(self.place)
        return f"the query of {self.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"<Query: {self.name}>"


Data = Path | Query
"""Where records are: a file, a folder or a query. Each of them has a ``name`` for errors."""


def data_at(given: Path | str | Query) -> Data:
    """Return what a person means with ``--data``: the one place where the string is read.

    Raises
    ------
    BadInput
        It is a database's address, but no query can be made of it; or the address has a password in it.
    """
    if isinstance(given, Query):
        return given
    found = _ADDRESS.fullmatch(given) if isinstance(given, str) else None
    if found is None:
        if _MANGLED.match(str(given)):
            raise BadInput("a database's address was given as the path of a file", _SPELLING)
        return Path(given)
    word, place, text = found[1].lower(), found[2], found[3].strip().rstrip(";").rstrip()
    scheme = _scheme(word)
    if not text:
        raise BadInput(f"{scheme}:// names a database, but no query stands behind its address", _SPELLING)
    if scheme == "postgresql":
        return Query(scheme, _without_password(place), text)
    if scheme == "sqlite" and not place:
        raise BadInput("sqlite:// names no file", 'write its path, as in "sqlite:///srv/data/clinic.db SELECT ..."')
    return Query(scheme, str(Path(unquote(place)).resolve()) if place else "", text)


def _scheme(word: str) -> Scheme:
    for scheme in get_args(Scheme):
        if scheme == ("postgresql" if word == "postgres" else word):
            known: Scheme = scheme
            return known
    raise BadInput(
        f"records are not read from {word}://",
        "give a CSV or Parquet file, a folder of Parquet files, or a query to postgresql://, sqlite:// or duckdb://",
    )


def _without_password(place: str) -> str:
    """Return a server's whole address, if no part of it is secret. A wrongly written password is found as well."""
    user, at, _ = place.rpartition("@")
    settings = [key.lower() for key, _ in parse_qsl(place.partition("?")[2], keep_blank_values=True)]
    if (at and ":" in user) or any(secret in key for key in settings for secret in _SECRETS):
        raise BadInput(
            "the database's address has a password in it, which other users of this machine could read",
            "leave it out; set PGPASSWORD, or name a file of passwords with PGPASSFILE",
        )
    address = f"postgresql://{place}"
    try:
        urlsplit(address)
    except ValueError:
        address = ""
    if not address:  # outside the handler: the original error shows the address
        raise BadInput("the database's address cannot be read", _SPELLING)
    return address
