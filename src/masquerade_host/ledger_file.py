"""The ledger's files: a list of entries that only grows, and a copy that shows if an older list was put back.

``ledger.sqlite`` holds the entries. Nothing in it is ever changed or removed; triggers see to it. Each entry has a
*chain*: a hash, under the ledger's key, of the entry and of the chain before it. ``ledger.lines`` holds one line for
each entry. At the end of a transaction its entries are in both files, and the first one is on the disk. The second one
is too, unless the transaction was a *quick* one. Then a power cut may take the last lines. The next transaction finds
them missing and writes them again from the first file, which alone says what was spent.

So the second file lacks at most the debits at the end, and one entry of another kind after them: that of a process that
died before it wrote the line. If it lacks more, it lost what it had, and nobody can tell whether the first file is an
older copy.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import secrets
import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from masquerade_core.errors import BudgetExceeded, Damaged, OlderCopy, RefusedLocally, RunFailed
from masquerade_core.words import counted
from masquerade_host.damage import damaged, is_damage
from masquerade_host.log_space import LOG_PAGES, grow
from masquerade_host.state import StateFolder

__all__ = ["Entry", "LedgerFile"]

_SCHEMA = """
CREATE TABLE entries (n INTEGER PRIMARY KEY, chain BLOB NOT NULL, body TEXT NOT NULL) STRICT;
CREATE TRIGGER no_update BEFORE UPDATE ON entries BEGIN SELECT RAISE(ABORT, 'the ledger only grows'); END;
CREATE TRIGGER no_delete BEFORE DELETE ON entries BEGIN SELECT RAISE(ABORT, 'the ledger only grows'); END;
"""
_KEY_BYTES = 32
_WAIT = 30.0  # seconds that one process waits while another writes
_START = bytes(32)
_QUICK = "debit"  # the kind of entry that quick transactions write
_PUT_BACK = (
    "put back the newest copy that you have of the whole state folder, and take no part in studies that are open; what "
    "was spent since counts, though this machine does not know it"
)


@dataclass(frozen=True)
class Entry:
    """One fact: its number from 1, what kind of fact it is, when it was written (UTC), and its fields."""

    n: int
    kind: str
    at: str
    fields: Mapping[str, Any]


class LedgerFile:
    """The two files and the key of a state folder's ledger.

    Parameters
    ----------
    folder : StateFolder

    Raises
    ------
    BudgetExceeded
        There is no ledger: then there is no budget.
    """

    def __init__(self, folder: StateFolder) -> None:
        self._path, self._lines = folder.ledger, _lines_of(folder)
        if not self._path.exists():
            raise BudgetExceeded(
                f"{folder.root} has no ledger of a privacy budget, and without one nothing may be spent",
                "give this machine a budget once: masquerade budget init --epsilon 10 --delta 1e-5",
            )
        self.key = _read_key(folder.ledger_key)
        with _told(self._path):
            self._db = sqlite3.connect(self._path, timeout=_WAIT, isolation_level=None)
            self._db.execute("PRAGMA synchronous = FULL")
        self.forget()

    @classmethod
    def make(cls, folder: StateFolder) -> "LedgerFile":
        """Make an empty ledger where there is none.

        Raises
        ------
        RefusedLocally
            Its second file is there and has entries.
        """
        folder.made()
        with _told(folder.ledger):
            if (lines := _lines_of(folder)).exists() and lines.stat().st_size:
                raise RefusedLocally(
                    f"{folder.ledger} is missing, but {lines} has its entries",
                    "put the ledger back; if it is lost for good, 'masquerade budget recover' makes it from that file",
                )
            if not folder.ledger_key.exists():
                _create(folder.ledger_key, secrets.token_bytes(_KEY_BYTES))
            if not lines.exists():
                _create(lines, b"")
            _make_empty(folder.ledger)
        return cls(folder)

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def forget(self) -> None:
        """Read everything anew at the next transaction, as after one that failed."""
        self._count, self._chain = 0, _START
        self._unwritten: list[tuple[bytes, str]] = []  # chains and bodies of entries that the second file may not have
        self._offset = 0  # how far the second file was compared with the first
        self._same = 0, _START  # so many entries of it were compared, and the chain of the last one
        self._synced = True  # whether the disk has all that this process wrote to the second file

    def make_room(self) -> None:
        """Prepare for many transactions: the log of the first file gets its length now (:mod:`.log_space`)."""
        with _told(self._path):
            self._db.execute(f"PRAGMA wal_autocheckpoint = {LOG_PAGES}")
            self._db.execute("BEGIN IMMEDIATE")  # nobody else writes to the log meanwhile
            grow(self._path.with_name(f"{self._path.name}-wal"))
            self._db.execute("ROLLBACK")

    @contextlib.contextmanager
    def transaction(self, *, quick: bool = False) -> Iterator[list[Entry]]:
        """Hold the ledger for this process alone; yields the entries that are new since the last transaction.

        Parameters
        ----------
        quick : bool
            Do not wait until the disk has the second file as well.

        Raises
        ------
        OlderCopy
            The two files contradict each other: one of them is an older copy.
        Damaged
            One of them is damaged.
        RunFailed
            The file cannot be read or written. What was appended may be there or not.
        """
        with _told(self._path):
            self._db.execute("BEGIN IMMEDIATE")
        try:
            with self._both():
                with _told(self._path):
                    new = self._read()
                    self._compare()
                    if self._unwritten:  # before anything is added: else it might lack entries of two transactions
                        self._mirror()
                yield new
                with _told(self._path):
                    self._db.execute("COMMIT")
                    self._mirror(sync=not quick)
        except BaseException:
            with contextlib.suppress(sqlite3.Error):
                self._db.rollback()
            self.forget()
            raise

    @contextlib.contextmanager
    def _both(self) -> Iterator[None]:
        """Hold the second file as well: it is written after the commit, when another process may hold the first."""
        with _told(self._path):
            if not self._lines.exists():
                raise OlderCopy(
                    f"{self._lines} is missing, so nobody can tell whether {self._path.name} is an older copy",
                    "put it back; if it is lost for good, 'masquerade budget recover' writes it anew from the ledger",
                )
            file = os.open(self._lines, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield
        finally:
            os.close(file)

    def append(self, kind: str, fields: Mapping[str, Any]) -> Entry:
        """Add an entry in the transaction under way."""
        at = datetime.now(UTC).isoformat(timespec="seconds")
        body = json.dumps({"kind": kind, "at": at, **fields}, ensure_ascii=False, sort_keys=True)
        with _told(self._path):
            self._insert(body)
        return Entry(self._count, kind, at, fields)

    def _insert(self, body: str) -> None:
        chain = self._next(self._chain, self._count + 1, body)
        self._db.execute("INSERT INTO entries VALUES (?, ?, ?)", (self._count + 1, chain, body))
        self._step(chain, body)

    def _next(self, before: bytes, n: int, body: str) -> bytes:
        data = before + n.to_bytes(8, "big") + body.encode()
        return hashlib.blake2b(data, digest_size=32, key=self.key, person=b"masq ledger").digest()

    def _step(self, chain: bytes, body: str) -> None:
        self._count, self._chain = self._count + 1, chain
        self._unwritten.append((chain, body))

    def _read(self) -> list[Entry]:
        new = []
        rows = self._db.execute("SELECT n, chain, body FROM entries WHERE n > ? ORDER BY n", (self._count,))
        for n, chain, body in rows:
            if n != self._count + 1 or chain != self._next(self._chain, n, body):
                raise damaged(
                    self._path, f"entry {self._count + 1} is not the one that was written under this key", _PUT_BACK
                )
            self._step(chain, body)
            content = json.loads(body)
            new.append(Entry(n, content.pop("kind"), content.pop("at"), content))
        return new

    # --- The second file ------------------------------------------------------

    def _compare(self) -> None:
        """Check that the second file has no entry that the first has not; it may lack the last ones."""
        for line in _whole_lines(self._lines, self._offset):
            chain, body = self._unwritten[0] if self._unwritten else (b"", "")
            if line != _line(chain, body)[:-1]:
                raise self._contradiction(line)
            self._unwritten.pop(0)
            self._offset, self._same = self._offset + len(line) + 1, (self._same[0] + 1, chain)
        kinds = [json.loads(body)["kind"] for _, body in self._unwritten[:-1]]
        if (self._unwritten and not self._offset) or any(kind != _QUICK for kind in kinds):
            raise damaged(
                self._lines,
                f"it lacks the last {counted(len(self._unwritten), 'entry', 'entries')} of {self._path.name}, so "
                "nobody can tell whether that one is an older copy",
                "put it back; if it is lost for good, 'masquerade budget recover' writes it anew from the ledger",
            )

    def _contradiction(self, line: bytes) -> Damaged | OlderCopy:
        """Return the error for a line of the second file that is not the entry of the first."""
        n, before = self._same[0] + 1, self._same[1]
        if line != self._line_after(before, n, line):
            return damaged(
                self._lines,
                f"line {n} is not the one that was written under this key",
                f"as long as {self._path.name} is sound, 'masquerade budget recover' writes it anew",
            )
        if self._unwritten:
            return OlderCopy(
                f"{self._lines} and {self._path.name} disagree from entry {n} on: both were written here, so one of "
                "them is from another copy of this folder",
                _PUT_BACK,
            )
        return OlderCopy(
            f"{self._lines} knows of entries that {self._path.name} lacks: the ledger is an older copy, from before "
            "something was spent, or its end is damaged",
            "put back the newest copy; without one, 'masquerade budget recover' enters what the other file has",
        )

    def _line_after(self, before: bytes, n: int, line: bytes) -> bytes:
        """Return a line as it would have been written for the entry that it holds."""
        body = line.partition(b" ")[2].decode("utf-8", "replace")
        return _line(self._next(before, n, body), body)[:-1]

    def _mirror(self, *, sync: bool = True) -> None:
        """Write to the second file what it lacks; bytes of a line that was cut off by a power failure go."""
        data = b"".join(_line(chain, body) for chain, body in self._unwritten)
        if not data and (self._synced or not sync):
            return
        descriptor = os.open(self._lines, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            if data:
                file.truncate(self._offset)
                file.seek(self._offset)
                file.write(data)
                file.flush()
            if sync:
                os.fsync(file.fileno())
        self._offset, self._synced = self._offset + len(data), sync
        self._unwritten.clear()

    @classmethod
    def recover(cls, folder: StateFolder) -> int:
        """Enter what the second file alone knows, or write that file anew if it is lost; returns how many entries.

        Raises
        ------
        OlderCopy
            An entry of the second file does not follow from those of the first.
        Damaged
            The first file is damaged, or the second one is where it alone has entries.
        """
        with _told(folder.ledger):
            if not folder.ledger.exists() and _lines_of(folder).exists():
                _make_empty(folder.ledger)
        file = cls(folder)
        try:
            with _told(folder.ledger):
                file._db.execute("BEGIN IMMEDIATE")
                entered = file._enter()
                file._db.execute("COMMIT")
                file._mirror()
        finally:
            file.close()
        return entered

    def _enter(self) -> int:
        self._read()
        known = [_line(*entry)[:-1] for entry in self._unwritten]
        lines = _whole_lines(self._lines, 0) if self._lines.exists() else []
        sound = [line == due for line, due in zip(lines, known, strict=False)]
        if all(sound):
            for line in lines[len(known) :]:
                if line != self._line_after(self._chain, self._count + 1, line):
                    raise damaged(
                        self._lines, f"line {self._count + 1} is not the one that was written under this key", _PUT_BACK
                    )
                self._insert(line.partition(b" ")[2].decode())
            return max(0, len(lines) - len(known))
        at = sound.index(False)
        before = self._unwritten[at - 1][0] if at else _START
        if len(lines) > len(known) or lines[at] == self._line_after(before, at + 1, lines[at]):
            raise OlderCopy(
                f"line {at + 1} of {self._lines} does not follow from the entries of {self._path.name}", _PUT_BACK
            )
        return 0  # it is damaged, and knows nothing that the first file does not


def _lines_of(folder: StateFolder) -> Path:
    return folder.ledger.with_suffix(".lines")


def _line(chain: bytes, body: str) -> bytes:
    return f"{chain.hex()} {body}\n".encode()


def _whole_lines(path: Path, offset: int) -> list[bytes]:
    """Return the lines after an offset, up to where a power failure has cut the last one off or left zeros."""
    with path.open("rb") as file:
        file.seek(offset)
        return file.read().partition(b"\0")[0].split(b"\n")[:-1]


@contextlib.contextmanager
def _told(path: Path) -> Iterator[None]:
    """Say in a sentence why the files cannot be used."""
    try:
        yield
    except (sqlite3.Error, OSError, ValueError) as error:
        if is_damage(error, path):
            raise damaged(path, str(error), _PUT_BACK) from error
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise RunFailed(
            f"the ledger {path} cannot be read or written ({why}), so nothing more leaves this machine",
            "see whether the disk is full or read-only; what was debited before stays debited",
        ) from error


def _create(path: Path, data: bytes) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _make_empty(path: Path) -> None:
    """Make the first file, whole or not at all."""
    part = path.with_suffix(".part")
    part.unlink(missing_ok=True)
    _create(part, b"")
    with contextlib.closing(sqlite3.connect(part, isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = FULL")
        db.executescript(f"BEGIN;{_SCHEMA}COMMIT;")
    part.rename(path)
    _sync_folder(path.parent)


def _sync_folder(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _read_key(path: Path) -> bytes:
    try:
        key = path.read_bytes()
    except OSError as error:
        raise RefusedLocally(
            f"the ledger's key {path} cannot be read: {error.strerror}", "put it back; it belongs to this ledger alone"
        ) from error
    if len(key) != _KEY_BYTES:
        raise RefusedLocally(f"{path} is no ledger's key: it has {len(key)} bytes, not {_KEY_BYTES}", "put it back")
    return key
