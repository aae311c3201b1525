"""Parties whose disks forget what was not synced: a power cut at any step, with real journals and real ledgers.

A *disk* is the state folder of one party. It knows two states of every file: what a program reads now, and what
outlives a power cut. The second one changes where a program asks for it: with ``fsync`` of a file, with ``fsync`` of a
folder for the names in it, and at the end of a transaction of SQLite as far as its ``PRAGMA synchronous`` asks for it.

A *step* is a moment before one of these, before a file is written, renamed or removed, and before a frame leaves. A
party can lose its power at every step. It is then started again on what its disk still has. A file system may also have
written more than it was asked for. So a cut may keep some of the files as they were.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import msgpack
import pytest

from masquerade_core.crypto.boxes import SIGNATURE_BYTES
from masquerade_core.errors import MasqueradeError
from masquerade_core.privacy.accounting import Total, cost_of
from masquerade_core.rng import SystemRng
from masquerade_core.seat import Effect, Release, Seat, Send
from masquerade_core.simulation_rng import SimulationRng
from masquerade_core.study import CHARLIE
from masquerade_host.process.driver import Stand, resume
from masquerade_host.process.progress import quiet
from masquerade_host.session.charlie import CharlieSession
from masquerade_host.session.party import PartySession
from masquerade_host.store import chained_table
from masquerade_host.store.journal import FINISHED, Journal, ReplayLog, SqliteJournal
from masquerade_host.store.ledger import Ledger
from masquerade_host.store.state import StateFolder
from masquerade_host.transport.dialer import Answer
from masquerade_party._site import LedgerAttempt
from tests.host_helpers import VERSION
from tests.restarts import Group, KilledError, Role, Site

__all__ = ["Cut", "Disk", "Outage", "PoweredGroup", "PoweredSite", "steps_are_watched"]

_LOG_BYTES = 24 * 4120  # of a log of SQLite: a short one, which is copied often here

Cut = Callable[[str], bool]
"""Says by a file's name whether a cut keeps what nobody asked the disk to keep."""


# --- A disk ---------------------------------------------------------------------------


@dataclass(eq=False)
class _Blob:
    """The bytes of one file that outlive a power cut."""

    data: bytes = b""


class Disk:
    """One party's state folder.

    Parameters
    ----------
    root : Path
        The disk has all that is in it.
    step : callable
        Is called at every step, with what happens.
    """

    def __init__(self, root: Path, step: Callable[[str], None]) -> None:
        self.root, self.step = root, step
        self.prefix = f"{root}/"
        self._blobs: dict[int, _Blob] = {}
        self._names: dict[Path, _Blob | None] = {root: None}  # None for a folder
        self._seen: dict[Path, bytes | None] = {}
        self.waits = 0  # how often a program has waited for it
        for path in root.rglob("*"):
            self._names[path] = None if path.is_dir() else _Blob(path.read_bytes())
            if blob := self._names[path]:
                self._blobs[path.stat().st_ino] = blob

    def sync(self, path: Path) -> None:
        """Keep a file's bytes, or the names in a folder, as they are now."""
        self.waits += 1
        if path.is_dir():
            for gone in [name for name in self._names if name.parent == path and not name.exists()]:
                del self._names[gone]
            for found in path.iterdir():
                self._names[found] = None if found.is_dir() else self._blob(found)
        elif path.exists():
            self._blob(path).data = path.read_bytes()

    def _blob(self, path: Path) -> _Blob:
        return self._blobs.setdefault(path.stat().st_ino, _Blob())

    def forget(self) -> None:
        """Forget the files that are gone: a new one may get the number of an old one."""
        found = {path.stat().st_ino for path in self.root.rglob("*")}
        self._blobs = {number: blob for number, blob in self._blobs.items() if number in found}

    def ran(self, database: Path, synchronous: int) -> None:
        """Note what SQLite has asked the disk for in a statement: the log at each commit, or only before it copies."""
        log = database.with_name(f"{database.name}-wal")
        copied, logged = self._changed(database), self._changed(log)
        if (copied and synchronous) or (logged and synchronous == len(_LEVELS) - 1):
            self.sync(log)
            if log.exists():
                self._names[log] = self._blob(log)  # SQLite syncs the folder of a log that it has made
        if copied and synchronous:
            self.sync(database)

    def _changed(self, path: Path) -> bool:
        now = path.read_bytes() if path.exists() else None  # the time of a file is too coarse
        before, self._seen[path] = self._seen.get(path), now
        return now != before

    def after(self, cut: Cut, root: Path, *, ledger: bool = False) -> None:
        """Write to another folder what this one has after a power cut, or of that the ledger alone."""
        names = {path: None if blob is None else blob.data for path, blob in self._names.items()}
        names = {path: data for path, data in names.items() if data is None or not cut(path.name)}
        for path in self.root.rglob("*"):
            if cut(path.name) and path.is_file():
                names[path] = path.read_bytes()
                names.update(dict.fromkeys(path.relative_to(self.root).parents and path.parents, None))
        kept: set[Path] = set()
        for path, data in sorted(names.items(), key=lambda row: str(row[0])):
            if path.name.endswith("-shm"):  # SQLite makes that one anew
                continue
            if ledger and path != self.root and (data is None or path.parent != self.root):
                continue
            if path != self.root and path.parent not in kept:
                continue  # its folder is lost
            kept.add(path)
            copy = Path(f"{root}/{str(path)[len(self.prefix) :]}")
            if data is None:
                copy.mkdir(mode=0o700, exist_ok=True, parents=True)
            else:
                copy.write_bytes(data)
                copy.chmod(0o600)

    def lasting(self) -> frozenset[tuple[Path, bytes | None]]:
        """Return what is there after a power cut, if nothing stays that was not synced."""
        return frozenset((path, None if blob is None else blob.data) for path, blob in self._names.items())


_LEVELS = ("OFF", "NORMAL", "FULL")
"""Of ``PRAGMA synchronous``: SQLite syncs never, before it copies its log into the database, or at each commit."""


class _Disks:
    """Finds the disk of a path; there is none for files of nobody."""

    def __init__(self) -> None:
        self.all: list[Disk] = []
        self.open: dict[int, Path] = {}

    def of(self, path: object) -> Disk | None:
        found = f"{path}/"
        return next((disk for disk in self.all if found.startswith(disk.prefix)), None)


_DISKS = _Disks()


class _Watched(sqlite3.Connection):
    """A connection whose transactions the disk sees. It waits for no real disk, whatever the program asks for."""

    path = Path()
    synchronous = "FULL"  # as SQLite has it by default

    def execute(self, sql: str, *arguments: Any) -> sqlite3.Cursor:
        if sql.startswith("PRAGMA synchronous = "):
            self.synchronous = sql.rpartition(" ")[2]
            assert self.synchronous in _LEVELS
            return super().execute("PRAGMA synchronous = OFF")
        return self._seen(sql, lambda: super(_Watched, self).execute(sql, *arguments))

    def executescript(self, sql: str) -> sqlite3.Cursor:
        return self._seen("COMMIT", lambda: super(_Watched, self).executescript(sql))

    def _seen(self, sql: str, run: Callable[[], sqlite3.Cursor]) -> sqlite3.Cursor:
        disk = _DISKS.of(self.path)
        if disk is None:
            return run()
        if sql == "COMMIT":
            disk.step(f"commit {self.path.name}")
        cursor = run()
        if not self.in_transaction:  # else nothing is in the files yet
            disk.ran(self.path, _LEVELS.index(self.synchronous))
        return cursor

    def close(self) -> None:
        disk = _DISKS.of(self.path)
        super().close()
        if disk is not None:
            disk.ran(self.path, 2)
            disk.forget()


@contextmanager
def steps_are_watched() -> Iterator[None]:
    """Let the disks see what programs do with files."""
    system = {name: getattr(os, name) for name in ("open", "fsync", "pwrite", "rename", "replace", "unlink")}
    connect = sqlite3.connect

    def opened(path: Any, *arguments: Any, **options: Any) -> int:
        file: int = system["open"](path, *arguments, **options)
        _DISKS.open.pop(file, None)
        if _DISKS.of(path) is not None:
            _DISKS.open[file] = Path(path)
        return file

    def on_file(name: str, after: Callable[[Disk, Path], None]) -> Callable[..., Any]:
        def act(file: Any, *arguments: Any, **options: Any) -> Any:
            path = _DISKS.open.get(file) if isinstance(file, int) else Path(file)
            disk = _DISKS.of(path)
            if disk is None or path is None:
                return system[name](file, *arguments, **options)
            disk.step(f"{name} {path.name}")
            result = None if name == "fsync" else system[name](file, *arguments, **options)
            after(disk, path)
            return result

        return act

    def connected(path: Any, **options: Any) -> sqlite3.Connection:
        database = connect(path, factory=_Watched, **options)
        assert isinstance(database, _Watched)
        database.path = Path(path)
        sqlite3.Connection.execute(database, "PRAGMA synchronous = OFF")
        return database

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "open", opened)
        patch.setattr(os, "fsync", on_file("fsync", Disk.sync))
        patch.setattr(os, "pwrite", on_file("pwrite", lambda _disk, _path: None))
        for name in ("rename", "replace"):
            patch.setattr(os, name, on_file(name, lambda disk, _path: disk.forget()))
        patch.setattr(os, "unlink", on_file("unlink", lambda disk, _path: disk.forget()))
        patch.setattr(sqlite3, "connect", connected)
        patch.setattr(chained_table, "_BYTES", _LOG_BYTES)
        _DISKS.all.clear()
        yield
        _DISKS.all.clear()


# --- A party's machine ----------------------------------------------------------------


@dataclass
class Outage:
    """When a party loses its power, and what its disk then keeps."""

    at: int
    cut: Cut = lambda _name: False
    all: bool = False  # the other parties lose theirs, too


@dataclass
class _Seen:
    """The world's knowledge of one party: the contents of each frame, the costs of what left, and the use of noise."""

    sent: dict[tuple[Any, ...], set[bytes]] = field(default_factory=lambda: defaultdict(set))
    left: dict[bytes, dict[str, Release]] = field(default_factory=lambda: defaultdict(dict))
    noise: dict[tuple[str, bytes, Any], set[tuple[Any, ...]]] = field(default_factory=lambda: defaultdict(set))


class _WatchedLog(ReplayLog):
    """Steps that also tell what was drawn."""

    def __init__(self, kept: Journal) -> None:
        super().__init__(kept)
        self.drawn_so_far: dict[str, bytes] = {}

    def note(self, kind: str, peer: str = "", label: str = "", data: bytes = b"") -> None:
        super().note(kind, peer, label, data)
        if kind == "once":
            self.drawn_so_far[label] = data

    def drawn(self, label: str) -> bytes | None:
        data = super().drawn(label)
        if data is not None:
            self.drawn_so_far[label] = data
        return data


class _Costs:
    """A role that passes everything on, and says what each of its messages releases."""

    def __init__(self, role: Role) -> None:
        self._role = role
        self._due: list[Release] = []
        self.messages: list[list[Release]] = []
        self.close = role.close

    def send(self, answer: Any) -> Effect:
        effect = self._role.send(answer)
        if isinstance(effect, Release):
            self._due.append(effect)
        elif isinstance(effect, Send):
            due, self._due = self._due, []
            self.messages.append(due)
        return effect


class PoweredSite(Site):
    """A party's machine, with a disk; Charlie's is as in :mod:`tests.restarts`."""

    group: PoweredGroup

    def __init__(self, group: Group, name: str, role: Callable[[Seat], Role]) -> None:
        super().__init__(group, name, role)
        self.steps: list[str] = []
        self.waits: list[int] = []  # how often it had waited for its disk, before each frame
        self.left = 0  # frames
        self.lasting: list[object] | None = None  # at each step: what outlives a power cut, and when that was
        self.outage: Outage | None = None
        self.seen = _Seen()
        self.ended = False
        self.copy_at: int = -1
        self.copy: Path | None = None
        self.durable = name != CHARLIE
        if self.durable:
            self._use(self.group.folder / name / "0", self.group.prepared)

    def _use(self, root: Path, source: Path) -> None:
        """Go on with a copy of a folder, all of which the disk has."""
        if source != root:
            shutil.copytree(source, root)
        self.disk = Disk(root, self.moment)
        _DISKS.all.append(self.disk)

    def moment(self, what: str) -> None:
        """Lose the power here, if this is the step."""
        super().moment(what)
        self.left += what == "sent"
        if not self.durable or what == "sent":
            return
        self.steps.append(what)
        if self.lasting is not None:
            self.lasting.append((self.disk.lasting(), self.left, self.group.clock.now))
        if what == "send":
            self.waits.append(self.disk.waits)
        if len(self.steps) == self.copy_at:
            self.copy = self.group.folder / f"{self.name}-copy"
            self.disk.after(lambda _name: True, self.copy)
        if self.outage is not None and len(self.steps) == self.outage.at:
            others = [site for site in self.group.sites.values() if site.durable and site is not self]
            for site in (self, *(others if self.outage.all else ())):
                site.lose_power(self.outage.cut)
            for site in others if self.outage.all else ():
                site.kill()
            raise KilledError

    def lose_power(self, cut: Cut, found: Path | None = None) -> None:
        """Nothing happens on this machine any more; the next process finds what the disk has, or another folder."""
        before = self.disk
        self.check()
        _DISKS.all.remove(before)
        root = before.root.with_name(str(int(before.root.name) + 1))
        if found is None:
            before.after(cut, root)
        self._use(root, found or root)
        self.lives = False
        for name in ("ledger", "kept", "role"):  # nothing of it reaches the new folder
            if each := getattr(self, name, None):
                each.close()

    def put_back_copy(self) -> None:
        """Go on with the copy of the folder, as somebody who restores a backup."""
        assert self.copy is not None
        self.lose_power(lambda _name: True, self.copy)
        self.kill()
        self.seen.left.clear()  # a whole older folder does not know what was paid for since

    # --- What left ------------------------------------------------------------

    def pay(self, data: bytes) -> None:
        """Note what leaves, with what its message releases by the role's own word."""
        version, run, _source, _to, kind, number, type_, body = msgpack.unpackb(data[SIGNATURE_BYTES:])
        if not self.durable or kind not in {"message", "sealed"}:
            return
        where = (version, run, kind, number)
        self.seen.sent[where].add(data)
        place = sorted(n for v, r, _, n in self.seen.sent if (v, r) == (version, run)).index(number)
        for release in self.costs.messages[place]:
            self.seen.left[run][release.label] = release
            steps = self.session.steps
            assert isinstance(steps, _WatchedLog)
            for label, drawn in steps.drawn_so_far.items():
                if "noise" in label:
                    self.seen.noise[label, drawn, release.label].add((run, type_, body))

    def check(self) -> None:
        """No noise at two points, no unpaid release: in the ledger as it is after a power cut at this moment."""
        assert [where for where, contents in self.seen.sent.items() if len(contents) > 1] == []
        assert [label for (label, *_), points in self.seen.noise.items() if len(points) > 1] == []
        root = self.group.folder / f"{self.name}-checked"
        shutil.rmtree(root, ignore_errors=True)
        self.disk.after(lambda _name: False, root, ledger=True)
        try:
            with closing(Ledger.open(StateFolder(root))) as ledger, ledger.writing() as (books, _):
                found = books.reservations[self.group.world.study.digest().hex(), self.name]
        except MasqueradeError as error:
            raise AssertionError("the ledger is lost") from error
        left = [release for labels in self.seen.left.values() for release in labels.values()]
        owed = sum((Total.of(cost_of(r.epsilon, r.delta, r.mu, r.slack)) for r in left), start=Total())
        assert owed.mu2 <= found.taken.mu2, "a release left that nobody paid for"
        assert owed.at_most(found.whole).epsilon <= found.taken.epsilon  # together they cost no more than the target

    # --- A process ------------------------------------------------------------

    def start(self) -> None:
        if not self.durable:
            super().start()
            return
        self.starts += 1
        self.lives, self.error, self.parts, self.ended = True, None, False, False
        self.rng = SimulationRng(int.from_bytes(f"{self.name} {self.starts}".encode()))
        self._guarded(self._boot)

    def _boot(self) -> None:
        study, root = self.group.world.study, self.disk.root
        self.session = self.group.session(self)
        self.costs = _Costs(self.make_role(Seat(self.name, study.names)))
        self.role = cast("Role", self.costs)
        self.stand = Stand()
        self.kept = SqliteJournal(root / "runs" / self.name, bytes(32))
        self.ledger = Ledger.open(StateFolder(root))
        self.attempt = LedgerAttempt(
            self.ledger, study, self.name, self.group.fingerprint, (1, 2), quiet, resumed=self.kept.joined
        )
        self.attempt.__enter__()
        self.attempt.released = self.session.releases
        self.parts = bool(self.kept.run)
        self.session.steps = _WatchedLog(self.kept)
        self.session.steps.begin(self.session.program, b"")
        self.session.open()
        self.stand = resume(self.role, self.session)
        self.parts = False
        if self.session.steps.passed:
            self.session.resumed(SystemRng().bytes(16))
        self._finish()

    def observe(self, event: str, /, **fields: str | float) -> None:
        """Let the ledger count the attempt when everybody has joined."""
        self.attempt.observe(event, **fields)

    def debit(self, run: bytes, releases: Any) -> None:
        self.attempt.debit(run, releases)

    def labels(self, run: bytes) -> frozenset[str]:
        return self.attempt.labels(run)

    def _guarded(self, work: Callable[[], None]) -> None:
        super()._guarded(work)
        if self.durable and self.lives and self.error is not None and not self.parts:
            self._end(self.error)

    def _finish(self) -> None:
        super()._finish()
        if self.durable and self.session.closed and self.stand.returned:
            self._end(None)

    def _end(self, error: MasqueradeError | None) -> None:
        """End the attempt as a party's process does."""
        if self.ended:
            return
        self.ended = True
        try:
            self.attempt.__exit__(None if error is None else type(error), error, None)
            self.kept.end(FINISHED if error is None else type(error).__name__, self.session.run)
        except KilledError:
            self.kill()
            return
        self.ledger.close()
        self.kept.close()


class PoweredGroup(Group):
    """Charlie and parties whose machines have disks.

    Parameters
    ----------
    folder : Path
        For all disks.
    prepared : Path
        A state folder with a ledger in which the study is reserved for every party.
    fingerprint : bytes
        Of the records for which it is.
    """

    site = PoweredSite
    sites: dict[str, PoweredSite]  # type: ignore[assignment]

    def __init__(
        self, world: Any, roles: Mapping[str, Callable[[Seat], Role]], folder: Path, prepared: Path, fingerprint: bytes
    ) -> None:
        self.folder, self.prepared, self.fingerprint = folder, prepared, fingerprint
        _DISKS.all.clear()
        super().__init__(world, dict(roles))

    def session(self, site: Site) -> PartySession | CharlieSession:
        if site.name == CHARLIE:
            return super().session(site)
        assert isinstance(site, PoweredSite)
        return PartySession(
            site.name,
            self.world.study,
            self.world.keys[site.name],
            lambda: self._link(site),
            lambda: Answer.CHARLIE,
            version=VERSION,
            clock=self.clock,
            observe=site.observe,
            debits=site,
            program=site.program,
        )

    def ends(self) -> dict[str, str]:
        """Return how each party ended: the name of its error, or "" for a result."""
        return {
            name: "" if site.error is None else type(site.error).__name__
            for name, site in self.sites.items()
            if name != CHARLIE
        }
