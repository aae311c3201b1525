"""Damage: what a file of this machine's state says when its bytes are not those that were written.

A bit of a disk may flip, and a file may be cut off. A person may also put an old copy of a file back. The journal and
the ledger chain their rows under a key and know how many there are, so they notice. They say which file is damaged, and
nobody is accused. A file that is sound but cannot be used at the moment, for instance on a full disk, is another case.
"""

import sqlite3
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path

from masquerade_core.errors import Damaged

__all__ = ["CHAIN_BYTES", "damaged", "is_damage", "link"]

CHAIN_BYTES = 32
_SHORT = (sqlite3.SQLITE_IOERR_SHORT_READ, sqlite3.SQLITE_IOERR_CORRUPTFS)
_OTHERWISE = frozenset(
    {
        *(sqlite3.SQLITE_FULL, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_IOERR),
        *(sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM),
    }
)
"""SQLite's messages where the disk or another process is the reason."""

_HEADER = b"SQLite format 3\0"
_VERSIONS = slice(18, 20)  # of the form in which a database may be written, and may be read; 1, or 2 with a log


def link(key: bytes, before: bytes, parts: Sequence[bytes]) -> bytes:
    """Return the link of a row in a chain: a keyed hash (32 bytes) of the link before it and of the row's parts."""
    state = blake2b(before, digest_size=CHAIN_BYTES, key=key, person=b"masq store")
    for part in parts:
        state.update(len(part).to_bytes(8, "big") + part)
    return state.digest()


def is_damage(error: Exception, path: Path) -> bool:
    """Say whether an error while a database was used means that its bytes are not those that were written.

    Parameters
    ----------
    error : Exception
        Of SQLite; or a ValueError, for contents that have another form.
    path : Path
        The database.
    """
    if not isinstance(error, sqlite3.DatabaseError) or isinstance(error, sqlite3.ProgrammingError):
        return isinstance(error, ValueError)
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT)  # Python's own: text that is not UTF-8
    if code in _SHORT:
        return True
    if code & 0xFF == sqlite3.SQLITE_READONLY:  # the header of a database may say so, too
        with path.open("rb") as file:
            header = file.read(_VERSIONS.stop)
        return not header.startswith(_HEADER) or not set(header[_VERSIONS]) <= {1, 2}
    return code & 0xFF not in _OTHERWISE


def damaged(path: Path, why: str, hint: str) -> Damaged:
    """Return the error for a file that is damaged."""
    return Damaged(f"{path} is damaged: {why}. That is nobody's misdeed", hint)
