"""A table that only grows: chained rows in an SQLite file. The journal and the ledger are one each.

*Durability.* A commit returns when the disk has it: SQLite's log, ``synchronous = FULL``, and on macOS ``F_FULLFSYNC``
as in :mod:`masquerade_host.store.state`. A *quick* commit does not wait for the disk, so a power cut may take it.

*The chain.* Rows are numbered from 1. Each has a *link*: a hash, under a key, of itself and of the link before it. So a
row that was changed, moved or taken out of the middle is found when it is read.

*The witness.* SQLite silently drops the end of a damaged log, and the chain of an older copy is sound. So each store
keeps a second file beside the table, which says how far the rows went. It is written after a commit, and so it never
has what the table lacks, unless the table lost it. What it holds is the store's own:
:mod:`masquerade_host.store.journal` and :mod:`masquerade_host.store.ledger`.

*Space for the log.* SQLite writes each transaction to a log beside the database, the file ``-wal``, and waits until the
disk has it. Where that file grows, the disk must also write the file's new length, and with it the journal of the file
system: three writes in place of one. Several processes that do so at the same time wait for each other. So the log gets
its full length once, before the run. SQLite reads a log up to the first entry that is not whole or not of this log. So
the zeros after the entries do no harm.

*Damage.* A bit of a disk may flip, and a file may be cut off. A person may also put an old copy of a file back. The
error says which file is damaged, and nobody is accused. A file that is sound but cannot be used at the moment, for
instance on a full disk, is another case. :func:`told` tells them apart.
"""

import contextlib
import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from masquerade_core.errors import Damaged, RunFailed
from masquerade_host.store.state import sync_file, sync_folder

__all__ = ["LINK_BYTES", "LOG_PAGES", "ChainedTable", "connect", "damaged", "is_damage", "told"]

LINK_BYTES = 32

LOG_PAGES = 256
"""The length of a log, in pages of SQLite. It copies a full log to its place, and begins the log anew."""

_BYTES = (LOG_PAGES + 64) * (4096 + 24)  # each page with its header; the transaction that fills the log may be long
_DURABLE = ("synchronous = FULL", "fullfsync = ON", "checkpoint_fullfsync = ON")


def connect(path: Path, *settings: str, wait: float = 0.0) -> sqlite3.Connection:
    """Open a database whose commits return when the disk has them; parameters as of :class:`ChainedTable`."""
    database = sqlite3.connect(path, timeout=wait, isolation_level=None)
    for setting in (*settings, *_DURABLE):
        database.execute(f"PRAGMA {setting}")
    return database


# --- Rows ------------------------------------------------------------------------


class ChainedTable:
    """The rows of an SQLite file.

    Parameters
    ----------
    path : Path
        The file.
    name : str
        Of the table. Its first two columns are the number of a row and its link; the others are its fields.
    link : callable
        Returns the link of a row, from the one before it, its number and its fields.
    faults : callable
        Returns the context, made by :func:`told`, that says why the file cannot be used.
    settings : sequence of str
        What SQLite is told besides, before anything is read.
    wait : float
        How many seconds a transaction waits while another process writes.

    Attributes
    ----------
    database : sqlite3.Connection
    log : Path
        The log of SQLite.
    count : int
        How many rows were read or added.
    last : bytes
        The link of the last one of them.

    Raises
    ------
    sqlite3.Error
        It cannot be used.
    """

    def __init__(
        self,
        path: Path,
        name: str,
        link: Callable[..., bytes],
        faults: Callable[[], AbstractContextManager[None]],
        *,
        settings: Sequence[str] = (),
        wait: float = 0.0,
    ) -> None:
        self.log = path.with_name(f"{path.name}-wal")
        self.count, self.last = 0, b""
        self._name, self._link, self._faults = name, link, faults
        self._quick = False
        self.database = connect(path, *settings, wait=wait)

    def make_room(self) -> None:
        """Prepare for many transactions: the log gets its full length. Without space on the disk it stays as it is."""
        self.database.execute(f"PRAGMA wal_autocheckpoint = {LOG_PAGES}")  # the log begins anew before it would grow
        self.database.execute("BEGIN IMMEDIATE")  # nobody else writes to the log meanwhile
        with contextlib.suppress(OSError):
            file = os.open(self.log, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                if (length := os.fstat(file).st_size) < _BYTES:
                    os.pwrite(file, bytes(_BYTES - length), length)
                    sync_file(file)
            finally:
                os.close(file)
        self.database.execute("ROLLBACK")

    def restart(self, start: bytes) -> None:
        """Read from the first row on; ``start`` is the link before it."""
        self.count, self.last = 0, start

    def rows(self) -> Iterator[list[Any]]:
        """Yield the fields of each row after those that were read or added.

        Raises
        ------
        Damaged
            A row is not the one that was written.
        """
        with self._faults():
            for n, link, *fields in self.database.execute(
                f"SELECT * FROM {self._name} WHERE n > ? ORDER BY n",  # noqa: S608 - a name of this program
                (self.count,),
            ):
                try:
                    due = self._link(self.last, self.count + 1, *fields)
                except (TypeError, AttributeError):  # a field of another type is none that was written
                    due = None
                if due is None or (n, link) != (self.count + 1, due):
                    raise ValueError(f"row {self.count + 1} is not the one that was written under this key")
                self.count, self.last = n, link
                yield fields

    def begin(self, *, quick: bool = False) -> None:
        """Begin a transaction, and keep all other processes from writing; ``quick``: its commit awaits no disk."""
        if quick != self._quick:
            self.database.execute(f"PRAGMA synchronous = {'NORMAL' if quick else 'FULL'}")
            self._quick = quick
        self.database.execute("BEGIN IMMEDIATE")

    def add(self, *fields: object) -> None:
        """Add a row in the transaction under way."""
        link = self._link(self.last, self.count + 1, *fields)
        places = ", ".join("?" * (2 + len(fields)))
        self.database.execute(f"INSERT INTO {self._name} VALUES ({places})", (self.count + 1, link, *fields))  # noqa: S608 - as above
        self.count, self.last = self.count + 1, link

    def commit(self) -> None:
        """End the transaction. The disk has it now, unless it is quick."""
        self.database.execute("COMMIT")

    def await_disk(self) -> None:
        """Wait until the disk has what quick transactions wrote, or a process that died before its commit returned."""
        with contextlib.suppress(FileNotFoundError), self.log.open("rb") as file:  # which SQLite never locks
            sync_file(file.fileno())
        sync_folder(self.log.parent)


# --- Damage ----------------------------------------------------------------------

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


@contextmanager
def told(path: Path, hint: str, unusable: Callable[[str], RunFailed]) -> Iterator[None]:
    """Say in a sentence why a table cannot be used.

    Parameters
    ----------
    path : Path
        Its file.
    hint : str
        What to do if it is damaged.
    unusable : callable
        Returns the error for a file that cannot be used, from the reason.

    Raises
    ------
    Damaged
        Its bytes are not those that were written.
    RunFailed
        It cannot be used for another reason, such as a full disk.
    """
    try:
        yield
    except (sqlite3.Error, OSError, ValueError) as error:
        if is_damage(error, path):
            raise damaged(path, str(error), hint) from error
        raise unusable((isinstance(error, OSError) and error.strerror) or str(error)) from error


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
    return Damaged(f"{path} is damaged: {why}. That is nobody's fault", hint)
