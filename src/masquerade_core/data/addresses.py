"""A database's address and a query behind it, as ``--data`` names them.

Such a query is one string: ``postgresql://db.example/clinic SELECT * FROM visits ORDER BY id``. What stands behind
``sqlite://`` and ``duckdb://`` is the path of a file, with ``%20`` for a blank. An address has no password in it: other
users of a machine see the command lines of all its processes. An error shows neither the query nor the user's name.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args
from urllib.parse import parse_qsl, unquote, urlsplit

from masquerade_core.errors import BadInput

__all__ = ["SPELLING", "Query", "Scheme", "query_at"]

Scheme = Literal["postgresql", "sqlite", "duckdb"]
"""The databases that can be asked."""

_SECRETS = ("password", "passwd", "secret")
SPELLING = 'write one string, as in "postgresql://db.example/clinic SELECT * FROM visits ORDER BY id"'
"""How a query is written: what to do, in an error."""


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


def query_at(word: str, place: str, text: str) -> Query:
    """Return the query of an address, by its scheme, its place and what stands behind it.

    Raises
    ------
    BadInput
        No query can be made of it; or the address has a password in it.
    """
    text = text.strip().rstrip(";").rstrip()
    scheme = _scheme(word.lower())
    if not text:
        raise BadInput(f"{scheme}:// names a database, but no query follows its address", SPELLING)
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
        raise BadInput("the database's address cannot be read", SPELLING)
    return address
