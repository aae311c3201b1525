"""A journal on disk: an SQLite database that survives power cuts, and is overwritten and deleted at the end.

What remains of an attempt is one line in ``attempts.jsonl``, which says which run it was and how it ended.
"""

import fcntl
import json
import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from masquerade_core.errors import BadInput, RunFailed
from masquerade_core.study import Study
from masquerade_host.journal import FINISHED, Entry, Journal, NoJournal
from masquerade_host.log_space import LOG_PAGES, grow
from masquerade_host.state import state_folder

__all__ = ["SqliteJournal", "journal_of"]

_FILE = "journal.sqlite"
_DOOMED = "journal.deleted"  # the rows of an ended attempt, while they are overwritten
_LINES = "attempts.jsonl"
_CHUNK = 1 << 20
_TABLE = "CREATE TABLE rows (n INTEGER PRIMARY KEY, kind TEXT, peer TEXT, label TEXT, data BLOB) STRICT"
_SETTINGS = (
    "PRAGMA locking_mode = EXCLUSIVE",
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",  # a commit returns when the disk has it
    "PRAGMA secure_delete = ON",
    "PRAGMA temp_store = MEMORY",
    f"PRAGMA wal_autocheckpoint = {LOG_PAGES}",  # the log begins anew before it would grow
)


class SqliteJournal:
    """A journal in a folder of its own, for one participant of one study.

    Opening it finds the rows of an attempt that lives, if there is one. It is locked until the process ends or closes
    it: two processes cannot take part in one attempt.

    Parameters
    ----------
    folder : Path
        Made if it is not there, for its owner alone.

    Attributes
    ----------
    attempt : int
        The number of this attempt: 1 for the first one of this participant and study.

    Raises
    ------
    BadInput
        Another process has this journal open.
    RunFailed
        The folder cannot be made, or the journal in it cannot be read or written.
    """

    kept = True

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._added: list[Entry] = []
        self._failed: RunFailed | None = None
        self.finished = b""
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise _unusable(folder, error.strerror or type(error).__name__) from error
        try:
            self._take_lock()
            self._database = self._open()
            accepted = self._database.execute("SELECT 1 FROM rows WHERE kind = 'received' LIMIT 1").fetchone()
            self.joined = accepted is not None
        except BaseException:
            os.close(self._lock)
            raise

    def __enter__(self) -> Self:
        """Return the journal."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let another process open the journal. The attempt lives, unless it was ended."""
        self.close()

    def _take_lock(self) -> None:
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise BadInput(
                f"another process here takes part in this study as the same participant: it holds {self._folder}",
                "wait until it is over, or stop it",
            ) from error

    def _open(self) -> sqlite3.Connection:
        """Open the rows of the attempt that lives, or make an empty table for the next one."""
        path = self._folder / _FILE
        try:
            doomed, log = self._folder / _DOOMED, self._folder / f"{_FILE}-wal"
            if doomed.exists() or (log.exists() and not path.exists()):
                self._note_finished()
            _destroy(doomed)
            if not path.exists():
                _destroy(log)  # else the rows of an ended attempt would come back
            ended = len(self._ends())
            database = self._connect(path)
            if not database.execute("SELECT 1 FROM sqlite_schema").fetchone():
                database.executescript(f"BEGIN; {_TABLE}; PRAGMA user_version = {ended + 1}; COMMIT")
                self._sync_folder()
            (self.attempt,) = database.execute("PRAGMA user_version").fetchone()
            grow(self._folder / f"{_FILE}-wal")
        except (sqlite3.Error, OSError, ValueError) as error:
            raise _unusable(self._folder, str(error)) from error
        self._database = database
        if self.attempt <= ended:  # an earlier process died between the line and the deletion
            self._note_finished()
            self._wipe()
            return self._open()
        return database

    def _note_finished(self) -> None:
        """Note that the last attempt finished, if it did: its process died while it deleted the rows."""
        with suppress(LookupError, TypeError, ValueError):  # no line is there, or a person has changed it
            line = json.loads(self._ends()[-1])
            if line["ended"] == FINISHED:
                self.finished = bytes.fromhex(line["run"])

    @staticmethod
    def _connect(path: Path) -> sqlite3.Connection:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        database = sqlite3.connect(path, isolation_level=None, timeout=0)
        for setting in _SETTINGS:
            database.execute(setting)
        return database

    def _sync_folder(self) -> None:
        """Make the folder's list of files outlive a power cut."""
        folder = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def entries(self) -> Iterator[Entry]:
        """Return the rows that an earlier process of this attempt committed, in order."""
        try:
            for row in self._database.execute("SELECT kind, peer, label, data FROM rows ORDER BY n"):
                yield Entry(*row)
        except sqlite3.Error as error:
            raise _unusable(self._folder, str(error)) from error

    def append(self, entry: Entry) -> None:
        """Add a row to the next transaction."""
        self._added.append(entry)

    def commit(self) -> None:
        """Write the rows added since the last commit.

        Raises
        ------
        RunFailed
            They could not be written. No row can be written after this.
        """
        if self._failed is not None:
            raise self._failed
        if not self._added:
            return
        try:
            self._write(self._added)
        except sqlite3.Error as error:
            self._failed = RunFailed(
                f"the journal of this run could not be written ({error}), so nothing more was sent",
                f"see whether the disk of {self._folder} is full or read-only, and start the run again",
            )
            raise self._failed from error
        self._added = []

    def _write(self, entries: Sequence[Entry]) -> None:
        self._database.execute("BEGIN IMMEDIATE")
        self._database.executemany(
            "INSERT INTO rows (kind, peer, label, data) VALUES (?, ?, ?, ?)",
            ((entry.kind, entry.peer, entry.label, entry.data) for entry in entries),
        )
        self._database.execute("COMMIT")

    def end(self, how: str, run: bytes = b"") -> None:
        """The attempt is over: delete every row, and keep one line that says how it ended.

        Parameters
        ----------
        how : str
            ``finished``, or the name of the error.
        run : bytes
            The run id, where it is known.

        Raises
        ------
        RunFailed
            The rows could not be deleted.
        """
        self._added = []
        self._failed = RunFailed("the attempt of this journal has ended", "start the run again")
        with suppress(OSError):  # a full disk must not keep the rows from being deleted
            self._keep_line({"attempt": self.attempt, "run": run.hex(), "ended": how})
        self._wipe()

    def _wipe(self) -> None:
        """Overwrite and delete the rows."""
        try:
            with _opened(self._folder / f"{_FILE}-wal") as log:
                self._database.close()  # deletes the log, with the last rows in it, but does not overwrite it
                with suppress(FileNotFoundError):
                    (self._folder / _FILE).rename(self._folder / _DOOMED)
                self._sync_folder()
                _overwrite(log)
            _destroy(self._folder / _DOOMED)
            _destroy(self._folder / f"{_FILE}-wal")
        except (OSError, sqlite3.Error) as error:
            raise RunFailed(
                f"the journal of a run that has ended could not be deleted: {error}",
                f"delete the files journal* in {self._folder} by hand: they contain secrets of that run",
            ) from error

    def _ends(self) -> list[bytes]:
        """Return the lines of the attempts that have ended."""
        path = self._folder / _LINES
        return path.read_bytes().splitlines() if path.exists() else []

    def _keep_line(self, line: Mapping[str, int | str]) -> None:
        path, new = self._folder / _LINES, self._folder / f"{_LINES}.new"
        lines = [*self._ends(), json.dumps(line).encode()]
        with _opened(new, os.O_CREAT | os.O_TRUNC) as file:
            os.write(file, b"\n".join(lines) + b"\n")
            os.fsync(file)
        new.rename(path)
        self._sync_folder()

    def close(self) -> None:
        """Let another process open the journal. The attempt lives, and its rows stay; an empty journal goes."""
        with suppress(sqlite3.Error, OSError):  # the attempt has ended, and its rows are deleted
            empty = not self._database.execute("SELECT 1 FROM rows LIMIT 1").fetchone()
            self._database.close()
            if empty:
                (self._folder / _FILE).unlink()
        self._database.close()
        with suppress(OSError):
            os.close(self._lock)


@contextmanager
def _opened(path: Path, flags: int = 0) -> Iterator[int]:
    """Open a file for its owner alone, and close it; -1 if it is not there and is not to be made."""
    try:
        file = os.open(path, os.O_RDWR | os.O_CLOEXEC | flags, 0o600)
    except FileNotFoundError:
        yield -1
        return
    try:
        yield file
    finally:
        os.close(file)


def _overwrite(file: int) -> None:
    """Overwrite a file with zeros. Some disks and file systems keep the old bytes elsewhere all the same."""
    if file == -1:
        return
    os.lseek(file, 0, os.SEEK_SET)
    left = os.fstat(file).st_size
    while left > 0:
        left -= os.write(file, bytes(min(left, _CHUNK)))
    os.fsync(file)


def _destroy(path: Path) -> None:
    with _opened(path) as file:
        _overwrite(file)
    path.unlink(missing_ok=True)


def journal_of(study: Study, me: str, state: Path | str | None = None, *, keep: bool = True) -> Journal:
    """Return a participant's journal of one study, in the state folder of its machine.

    Parameters
    ----------
    study : Study
    me : str
    state : path, optional
        The state folder, if it is not this machine's usual one.
    keep : bool
        ``False`` for ``--no-journal``.
    """
    return SqliteJournal(state_folder(state).made().run(study, me)) if keep else NoJournal()


def _unusable(folder: Path, why: str) -> RunFailed:
    return RunFailed(
        f"the journal in {folder} cannot be used: {why}",
        "see whether the disk is full or read-only, or give another folder with --state",
    )
