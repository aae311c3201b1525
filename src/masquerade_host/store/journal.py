"""The journal: what a process needs to go on with a run after it died, on disk before anything leaves.

*Inputs.* A participant's part of a run follows from a few inputs: the frames that it accepted, the numbers that it
drew, and the decisions that a clock made. The journal holds these inputs in order, and a hash of each frame that
followed from them. A process that starts again feeds the inputs to the same program
(:mod:`masquerade_host.process.driver`). So it sends the same bytes again, and no number is drawn a second time for
another purpose.

*Steps.* The session writes each step through :class:`ReplayLog`. At first :meth:`ReplayLog.note` adds a row for it.
After a restart the journal already has rows. Then the same calls compare the step with the next row, and add nothing.
So a process that would go on in another way is found out before it sends anything.

*Commits.* The session adds rows as things happen, and commits them in one transaction before it sends or acknowledges
anything. A power cut loses what was not committed, and nobody else has seen that. The journal contains secrets, such as
keys and noise, so it is overwritten and deleted when the attempt ends. What remains of an attempt is one line in
``attempts.jsonl``, which says which run it was and how it ended.

These kinds of rows exist:

=============  ========================================================================================================
``program``    the program with which the attempt began
``begun``      a hash of the records with which it began
``run``        the run's id, once it is known
``once``       a number that the role drew, or the result of its arithmetic
``hello``      a party's hello that stands in Charlie's roster
``received``   a numbered frame that was accepted
``sent``       the hash of a numbered frame, or a party's hello, that was made for the other end of a hop
``acked``      how many frames the other end of a hop holds for certain
``lost``       Charlie goes on without a party
``patience``   a wait ended because its time was over
=============  ========================================================================================================

*The files.* The rows are a table that only grows (:mod:`masquerade_host.store.chained_table`). The key of its chain is
not in the folder. Its witness, the *head*, says how many rows there are, the last link, and which run this is. The head
is written after each commit, and nothing waits for the disk to have it. So after a power cut the head may be older than
the rows, but never newer.
"""

import hashlib
import json
import os
import sqlite3
import struct
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Self

from masquerade_core.errors import BadInput, Damaged, LocalProtocolError, MasqueradeError, RefusedLocally, RunFailed
from masquerade_core.study import Study
from masquerade_core.wire.frames import RUN_BYTES
from masquerade_core.words import counted
from masquerade_host.process.program import Program
from masquerade_host.store.chained_table import LINK_BYTES, ChainedTable, damaged, told
from masquerade_host.store.keyfiles import Keys
from masquerade_host.store.state import hold, private_folder, state_folder, sync_file, sync_folder, write_private

__all__ = [
    "FINISHED",
    "Entry",
    "Journal",
    "ReplayLog",
    "SqliteJournal",
    "digest_of",
    "journal_of",
]


# --- Journal ---------------------------------------------------------------------

FINISHED = "finished"
"""How an attempt ended that has its result."""


@dataclass(frozen=True)
class Entry:
    """One row of a journal.

    Attributes
    ----------
    kind : str
        What happened; :mod:`masquerade_host.process.driver` has the list.
    peer : str
        The participant at the other end, or ``*`` for a frame that goes to all parties.
    label : str
        Tells rows of one kind apart, such as the label of a draw.
    data : bytes
    """

    kind: str
    peer: str = ""
    label: str = ""
    data: bytes = b""


class Journal:
    """Where a session writes down what it needs after a restart.

    This one keeps nothing: it is for runs in memory, for tests, and for ``--no-journal``.

    Attributes
    ----------
    kept : bool
        Whether rows outlive the process.
    joined : bool
        Whether an earlier process of this attempt took part in a run: it had accepted a frame.
    run : bytes
        The id of the run under way, once it is known; empty before, and after the end.
    finished : bytes
        The id of a run that finished here, if the process died while it deleted the journal of that run. The deletion
        is complete now.
    """

    kept = False
    joined = False
    run = b""
    finished = b""

    def entries(self) -> Iterator[Entry]:
        """Return the rows that an earlier process of this attempt committed, in order."""
        return iter(())

    def commit(self, entries: Sequence[Entry] = ()) -> None:
        """Write these rows, in one transaction. When this returns, a power cut does not lose them.

        Raises
        ------
        RunFailed
            They could not be written. No row can be written after this.
        """

    def end(self, how: str, run: bytes = b"") -> None:
        """The attempt is over: delete every row, and keep one line that says how it ended."""

    def close(self) -> None:
        """Let another process open the journal. The attempt lives, unless it was ended."""

    def __enter__(self) -> Self:
        """Return the journal."""
        return self

    def __exit__(self, *_error: object) -> None:
        """Close it."""
        self.close()


# --- Replay log -----------------------------------------------------------------------

_DIGEST_BYTES = 32


def digest_of(frame: bytes) -> bytes:
    """Return the hash by which a journal knows a frame that was sent."""
    return hashlib.blake2b(frame, digest_size=_DIGEST_BYTES, person=b"masq sent").digest()


class ReplayLog:
    """One participant's journal, written or compared.

    Parameters
    ----------
    journal : Journal, optional
        By default nothing is kept.
    """

    def __init__(self, journal: Journal | None = None) -> None:
        self._journal = journal or Journal()
        self._rows: Iterator[Entry] = self._journal.entries()
        self._due = next(self._rows, None)
        self._noted: list[Entry] = []  # since the last commit
        self.passed = 0  # rows that were compared
        self.kept = self._journal.kept

    @property
    def due(self) -> Entry | None:
        """The row that must come next in a replay; ``None`` when this participant lives."""
        return self._due

    def note(self, kind: str, peer: str = "", label: str = "", data: bytes = b"") -> None:
        """Write down what happens; in a replay, check that it is what happened.

        Raises
        ------
        LocalProtocolError
            Something else happened then.
        """
        entry = Entry(kind, peer, label, data)
        if self._due is None:
            if self.kept:
                self._noted.append(entry)
            return
        if entry != self._due:
            raise self.changed(f"{kind} {label}".strip())
        self._advance()

    def begin(self, program: Program, records: bytes) -> None:
        """Write down with what the attempt begins; after a restart, check that it is what it began with.

        Parameters
        ----------
        program : Program
        records : bytes
            A hash of this participant's records.

        Raises
        ------
        ProgramChanged
            The program is another one.
        RefusedLocally
            The records are others.
        """
        if self._due is None:
            self.note("program", data=program.packed())
            self.note("begun", data=records)
            return
        program.check_same(Program.unpacked(self._take("program")))
        if self._take("begun") != records:
            raise RefusedLocally(
                "these records are not those with which the run began on this machine",
                "nothing more was sent, and this attempt is over; a new one needs its records unchanged until its end",
            )

    def _take(self, kind: str) -> bytes:
        """Return what the row that is due holds, which is of this kind."""
        if self._due is None or self._due.kind != kind:
            raise self.changed(kind)
        data = self._due.data
        self._advance()
        return data

    def drawn(self, label: str) -> bytes | None:
        """Return what was drawn under this label, in a replay; ``None`` when it is to be drawn now.

        Raises
        ------
        LocalProtocolError
            Something else came next then.
        """
        if self._due is None:
            return None
        if (self._due.kind, self._due.label) != ("once", label):
            raise self.changed(f"the draw {label!r}")
        data = self._due.data
        self._advance()
        return data

    def decide(self, kind: str, *, now: bool) -> bool:
        """Return ``now``, which a clock has decided, and write it down if it is true; in a replay, what was decided."""
        if self._due is not None:
            now = self._due.kind == kind
        if now:
            self.note(kind)
        return now

    def _advance(self) -> None:
        self._due = next(self._rows, None)
        self.passed += 1

    def changed(self, what: str) -> LocalProtocolError:
        """Return the error for a replay that does not do what was done then."""
        due = "the end of the run so far" if self._due is None else f"{self._due.kind} {self._due.label}".strip()
        return LocalProtocolError(
            f"what this process does now is not what it did before it was started again: step {self.passed} is now "
            f"{what}, and was {due}",
            "this attempt is over; start the next one and its restarts with the same options. If they were the same, "
            "this is a bug",
        )

    def commit(self) -> None:
        """Write to the disk what was noted.

        Raises
        ------
        RunFailed
            It could not be written. From here on nothing is kept, so that the others can still be told of the end.
        """
        try:
            self._journal.commit(self._noted)
        except MasqueradeError:
            self._journal, self._rows, self._due = Journal(), iter(()), None
            raise
        finally:
            self._noted = []


# --- On disk --------------------------------------------------------------------------

_FILE = "journal.sqlite"
_DOOMED = "journal.deleted"  # the rows of an ended attempt, while they are overwritten
_LINES = "attempts.jsonl"
_CHUNK = 1 << 20
_HEAD = "journal.head"
_NUMBERS = struct.Struct(">QQ")  # of a head: the attempt, and how many rows
_TABLE = """CREATE TABLE rows
(n INTEGER PRIMARY KEY, chain BLOB NOT NULL, kind TEXT, peer TEXT, label TEXT, data BLOB) STRICT"""
_SETTINGS = ("locking_mode = EXCLUSIVE", "journal_mode = WAL", "secure_delete = ON", "temp_store = MEMORY")
_DAMAGE = (
    "this attempt is over, and what the ledger has stays debited; see whether the disk fails, and start the run again, "
    "with everybody. If an old copy of this file was put back: never restore a journal"
)


def _link(key: bytes, before: bytes, parts: Sequence[bytes]) -> bytes:
    """Return the link of a row in the chain: a keyed hash (32 bytes) of the link before it and of the row's parts."""
    state = hashlib.blake2b(before, digest_size=LINK_BYTES, key=key, person=b"masq store")
    for part in parts:
        state.update(len(part).to_bytes(8, "big") + part)
    return state.digest()


@dataclass(frozen=True)
class _Head:
    """The contents of the second file: the number of the attempt and of its rows, the last link, and the run's id."""

    attempt: int
    count: int
    chain: bytes
    run: bytes = b""

    def packed(self, key: bytes) -> bytes:
        """Return the file's bytes, with a keyed hash of them."""
        data = _NUMBERS.pack(self.attempt, self.count) + self.chain + self.run.ljust(RUN_BYTES, b"\0")
        return data + _link(key, b"head", [data])

    @classmethod
    def unpacked(cls, data: bytes, key: bytes) -> Self | None:
        """Return the head of these bytes; None if they were not written so."""
        body, tag = data[:-LINK_BYTES], data[-LINK_BYTES:]
        if len(body) != _NUMBERS.size + LINK_BYTES + RUN_BYTES or _link(key, b"head", [body]) != tag:
            return None
        rest = body[_NUMBERS.size :]
        run = rest[LINK_BYTES:]
        attempt, count = _NUMBERS.unpack_from(body)
        return cls(attempt, count, rest[:LINK_BYTES], run if any(run) else b"")


class SqliteJournal(Journal):
    """A journal in a folder of its own, for one participant of one study.

    Opening it finds the rows of an attempt that lives, if there is one. It is locked until the process ends or closes
    it: two processes cannot take part in one attempt.

    Parameters
    ----------
    folder : Path
        Made if it is not there, for its owner alone.
    key : bytes
        32 bytes, for the links between rows.

    Attributes
    ----------
    attempt : int
        The number of this attempt: 1 for the first one of this participant and study.

    Raises
    ------
    BadInput
        Another process has this journal open.
    RunFailed
        The folder cannot be made, or the journal in it cannot be read or written. Damage is found by :meth:`entries`.
    """

    kept = True

    def __init__(self, folder: Path, key: bytes) -> None:
        self._folder, self._key = folder, key
        self._damage: Damaged | None = None
        self._faults = partial(told, folder / _FILE, _DAMAGE, partial(_unusable, folder))
        self._table = ChainedTable(Path(":memory:"), "rows", self._link_of, self._faults)  # until it is opened
        self._read = False
        self._file = -1  # the head
        self.attempt = 0
        self._failed: RunFailed | None = None
        try:
            private_folder(folder)
            self._lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise _unusable(folder, error.strerror or type(error).__name__) from error
        try:
            self._take_lock()
            try:
                self._open()
            except Damaged as error:
                self._damage = error
        except BaseException:
            os.close(self._lock)
            raise

    def _take_lock(self) -> None:
        try:
            hold(self._lock, wait=False)
        except OSError as error:
            raise BadInput(
                f"another process here takes part in this study as the same participant: it holds {self._folder}",
                "wait until it is over, or stop it",
            ) from error

    def _open(self) -> None:
        """Open the rows of the attempt that lives, or make an empty table for the next one."""
        path, log, doomed = self._folder / _FILE, self._folder / f"{_FILE}-wal", self._folder / _DOOMED
        with self._faults():
            ended = len(self._ends())
            self.attempt = ended + 1
            head = self._read_head(ended)
            lost = head is not None and head.count > 0 and not path.exists()
            if doomed.exists() or (log.exists() and not path.exists() and not lost):
                self._note_finished()
            _destroy(doomed)
            if lost:
                raise self._damaged(path, "it is missing")
            if not path.exists():
                _destroy(log)  # else the rows of an ended attempt would come back
            self._table = self._opened(path)
            if not self._found("SELECT 1 FROM sqlite_schema") and not (head and head.count):
                self._table.database.executescript(f"BEGIN; {_TABLE}; PRAGMA user_version = {ended + 1}; COMMIT")
                sync_folder(self._folder)
            (self.attempt,) = self._found("PRAGMA user_version")
            over = self.attempt <= ended and head is None  # a process died between the line and the deletion
            if not over:
                self._begin(head)
                self._table.make_room()
        if over:
            self._note_finished()
            self._wipe()
            self._open()

    def _read_head(self, ended: int) -> _Head | None:
        """Return what the second file says of an attempt that lives; one of an attempt that has ended is removed."""
        path = self._folder / _HEAD
        data = path.read_bytes() if path.exists() else b""
        if not any(data):  # a process died while it made the file
            return None
        head = _Head.unpacked(data, self._key)
        if head is None:
            with suppress(sqlite3.Error):
                self._table = self._opened(self._folder / _FILE)
                self._know_from_rows()
            raise self._damaged(path, "its bytes are not those that were written")
        self.run, self.joined = head.run, bool(head.run)
        if head.attempt <= ended:
            path.unlink()
            self.run, self.joined = b"", False
            return None
        return head

    def _know_from_rows(self) -> None:
        """Take from the rows which run this is, where the head cannot say it."""
        known = self._found("SELECT data FROM rows WHERE kind = 'run'")
        self.run, self.joined = (known[0], True) if known else (b"", False)

    def _begin(self, head: _Head | None) -> None:
        """Compare the rows with the head, or make the head of an attempt that begins."""
        path = self._folder / _FILE
        accepted = self._found("SELECT 1 FROM rows WHERE kind = 'received'")
        if head is None:
            self._know_from_rows()
            if self._found("SELECT 1 FROM rows"):
                raise self._damaged(self._folder / _HEAD, "it is missing")
            head = _Head(self.attempt, 0, self._start())
        if head.attempt != self.attempt:
            raise self._damaged(path, "it has the number of another attempt")
        (count,) = self._found("SELECT COUNT(*) FROM rows")
        self._check_count(count, head)
        self.joined = accepted is not None
        self._head = head
        self._file = os.open(self._folder / _HEAD, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        if not head.count:
            os.pwrite(self._file, head.packed(self._key), 0)
            sync_file(self._file)
            sync_folder(self._folder)

    def _start(self) -> bytes:
        return _link(self._key, b"start", [self.attempt.to_bytes(8, "big")])

    def _damaged(self, path: Path, why: str) -> Damaged:
        return damaged(path, why, _DAMAGE)

    def _note_finished(self) -> None:
        """Note that the last attempt finished, if it did: its process died while it deleted the rows."""
        with suppress(LookupError, TypeError, ValueError):  # no line is there, or a person has changed it
            line = json.loads(self._ends()[-1])
            if line["ended"] == FINISHED:
                self.finished = bytes.fromhex(line["run"])

    def _opened(self, path: Path) -> ChainedTable:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        return ChainedTable(path, "rows", self._link_of, self._faults, settings=_SETTINGS)

    def _found(self, query: str) -> Any:
        return self._table.database.execute(query).fetchone()

    def _link_of(self, before: bytes, n: int, kind: str, peer: str, label: str, data: bytes) -> bytes:
        return _link(self._key, before, [n.to_bytes(8, "big"), kind.encode(), peer.encode(), label.encode(), data])

    def entries(self) -> Iterator[Entry]:
        """Return the rows that an earlier process of this attempt committed, in order.

        Raises
        ------
        Damaged
            They are not those that were written, or not all of them.
        """
        if self._damage is not None:
            raise self._damage
        table = self._table
        table.restart(self._start())
        for fields in table.rows():
            if table.count == self._head.count and table.last != self._head.chain:
                raise self._damaged(self._folder / _FILE, "its rows are not those that its head records")
            yield Entry(*fields)
        self._check_count(table.count, self._head)
        self._read = True

    def _check_count(self, count: int, head: _Head) -> None:
        if count < head.count:
            why = f"{counted(head.count - count, 'row')} of {head.count} are missing from its end"
            raise self._damaged(self._folder / _FILE, why)

    def commit(self, entries: Sequence[Entry] = ()) -> None:
        """Write these rows, in one transaction.

        Raises
        ------
        RunFailed
            They could not be written. No row can be written after this.
        """
        if self._failed is not None:
            raise self._failed
        if not entries:
            return
        try:
            if not self._read:
                deque(self.entries(), maxlen=0)
            with told(self._folder / _FILE, _DAMAGE, self._unwritten):
                self._write(entries)
        except RunFailed as error:
            self._failed = error
            raise

    def _write(self, entries: Sequence[Entry]) -> None:
        table = self._table
        table.begin()
        for entry in entries:
            table.add(entry.kind, entry.peer, entry.label, entry.data)
            if entry.kind == "run":
                self.run = entry.data
        table.commit()
        os.pwrite(self._file, _Head(self.attempt, table.count, table.last, self.run).packed(self._key), 0)

    def _unwritten(self, why: str) -> RunFailed:
        return RunFailed(
            f"the journal of this run could not be written ({why}), so nothing more was sent",
            f"see whether the disk of {self._folder} is full or read-only, and start the run again",
        )

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
        self.run = b""
        self._failed = RunFailed("the attempt of this journal has ended", "start the run again")
        with suppress(OSError):  # a full disk must not keep the rows from being deleted
            self._keep_line({"attempt": self.attempt, "run": run.hex(), "ended": how})
        self._wipe()

    def _wipe(self) -> None:
        """Overwrite and delete the rows."""
        try:
            (self._folder / _HEAD).unlink(missing_ok=True)
            with _opened(self._folder / f"{_FILE}-wal") as log:
                self._table.database.close()  # deletes the log, with the last rows in it, but does not overwrite it
                with suppress(FileNotFoundError):
                    (self._folder / _FILE).rename(self._folder / _DOOMED)
                sync_folder(self._folder)
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
        lines = [*self._ends(), json.dumps(line).encode()]
        write_private(self._folder / _LINES, b"\n".join(lines) + b"\n")

    def close(self) -> None:
        """Let another process open the journal. The attempt lives, and its rows stay; an empty journal goes."""
        with suppress(sqlite3.Error, OSError):  # the attempt has ended, and its rows are deleted
            empty = not self._found("SELECT 1 FROM rows")
            self._table.database.close()
            if empty and self._damage is None:
                (self._folder / _FILE).unlink()
                (self._folder / _HEAD).unlink()
        self._table.database.close()
        for file in (self._file, self._lock):
            with suppress(OSError):
                os.close(file)


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    """Open a file, and close it; -1 if it is not there."""
    try:
        file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
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
    sync_file(file)


def _destroy(path: Path) -> None:
    with _opened(path) as file:
        _overwrite(file)
    path.unlink(missing_ok=True)


def journal_of(study: Study, me: str, keys: Keys, state: Path | str | None = None, *, keep: bool = True) -> Journal:
    """Return a participant's journal of one study, in the state folder of its machine.

    Parameters
    ----------
    study : Study
    me : str
    keys : Keys
        This participant's; the journal's key follows from them.
    state : path, optional
        The state folder, if it is not this machine's usual one.
    keep : bool
        ``False`` for ``--no-journal``.
    """
    if not keep:
        return Journal()
    return SqliteJournal(state_folder(state).made().run(study, me), keys.key_for(b"journal" + study.digest()))


def _unusable(folder: Path, why: str) -> RunFailed:
    return RunFailed(
        f"the journal in {folder} cannot be used: {why}",
        "see whether the disk is full or read-only, or give another folder with --state",
    )
