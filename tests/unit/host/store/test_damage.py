"""A bit of a disk flips: what it concerns is called damaged, or nothing changes; nobody is accused."""

from __future__ import annotations

import random
import shutil
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from functools import cache
from pathlib import Path

import pytest

from masquerade_core.errors import Damaged, MasqueradeError, OlderCopy
from masquerade_core.seat import Release
from masquerade_core.study import CHARLIE, Study
from masquerade_host.store.chained_table import damaged, is_damage
from masquerade_host.store.journal import Entry, SqliteJournal
from masquerade_host.store.ledger import Ledger
from masquerade_host.store.state import StateFolder
from tests.host_helpers import World
from tests.ledger_helpers import begun, budget, mechanism, named
from tests.messages import raises
from tests.restarts import Group
from tests.unit.host.process.test_program import check_nobody_is_accused, restarted
from tests.unit.host.session.test_rollback import charlie, party
from tests.unit.host.store.test_journal import KEY
from tests.unit.host.store.test_ledger import RUN, spend

JOURNAL = ("journal.sqlite", "journal.sqlite-wal", "journal.head")
LEDGER = ("ledger.sqlite", "ledger.sqlite-wal", "ledger.lines")
FLIPS = 170  # of each file: 1,020 in all
ROWS = [Entry("received", CHARLIE), Entry("run", data=b"r" * 16)] + [
    Entry(*(("received", CHARLIE) if i % 2 else ("once", "")), f"label {i}", random.Random(i).randbytes(i * 97 % 9000))  # noqa: S311
    for i in range(150)
]


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A journal whose process was killed: older rows are in the database, and the last ones in its log."""
    folder = tmp_path_factory.mktemp("journal")
    with SqliteJournal(folder, KEY) as living:
        for row in ROWS:
            living.commit([row])
        copy = tmp_path_factory.mktemp("killed") / "journal"
        shutil.copytree(folder, copy)
        living.end("a test is over")
    assert (copy / "journal.sqlite").stat().st_size > 100_000  # what a full log was copied to
    return copy


@cache
def the_last() -> Study:
    """The study whose run is under way; it is read once."""
    return named("the-last")


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ledger whose process was killed in the middle of a run, with a log."""
    folder = tmp_path_factory.mktemp("ledger") / "state"
    living = budget(folder, epsilon=100.0, delta=1e-3)
    for number in range(12):
        spend(living, named(f"study-{number}"), bytes((number,)) * 16)
        if number == 3:
            living._file.table.database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    begun(living, the_last())
    debits = living.debits_for(the_last(), "p1")
    for label in range(9):
        debits.debit(RUN, [mechanism(f"round {label}", 0.1, 0.0)])
    copy = tmp_path_factory.mktemp("killed") / "ledger"
    shutil.copytree(folder, copy)
    living.close()
    assert (copy / "ledger.sqlite-wal").stat().st_size > 10_000
    return copy


def flips(path: Path) -> Iterator[Callable[[], None]]:
    """Yield what flips one bit of a file: a third of them anywhere, and the others where it is not empty."""
    data = path.read_bytes()
    used = [i for i, byte in enumerate(data) if byte]
    draw = random.Random(path.name)  # noqa: S311 - it shall be the same each time
    for number in range(FLIPS):
        at, bit = draw.randrange(len(data)) if number % 3 == 0 else draw.choice(used), 1 << draw.randrange(8)

        def flip(path: Path = path, at: int = at, bit: int = bit) -> None:
            with path.open("r+b") as file:
                file.seek(at)
                byte = file.read(1)[0]
                file.seek(at)
                file.write(bytes((byte ^ bit,)))

        yield flip


def check(error: MasqueradeError | None) -> None:
    """It is called damage, and accuses nobody."""
    assert isinstance(error, (Damaged, OlderCopy))
    assert "damaged" in error.message
    assert error.grounds is None
    assert error.exit_code == (1 if isinstance(error, Damaged) else 6)


def outcomes(kept: Path, name: str, place: Path, read: Callable[[Path], object]) -> Counter[str]:
    """Flip bits of one file, each in a whole copy; count how often it changed nothing or was called damage."""
    whole, found = read(shutil.copytree(kept, place / "whole")), Counter[str]()
    folder = shutil.copytree(kept, place / "copy")
    files = {folder / path.relative_to(kept): path.read_bytes() for path in kept.rglob("*") if path.is_file()}
    for flip in flips(folder / name):
        flip()
        try:
            assert read(folder) == whole
            found["harmless"] += 1
        except (Damaged, OlderCopy) as error:
            check(error)
            found["damaged"] += 1
        mend(folder, files)
    return found


def mend(folder: Path, files: Mapping[Path, bytes]) -> None:
    """Give a folder these files again, and no others."""
    for path in folder.rglob("*"):
        if path not in files and path.is_file():
            path.unlink()
    for path, data in files.items():
        if not path.exists() or path.read_bytes() != data:
            path.write_bytes(data)
            path.chmod(0o600)


def rows_in(folder: Path) -> object:
    """Return what a process that is started again finds, and that the others can be told whatever it is."""
    journal = SqliteJournal(folder, KEY)
    try:
        assert (journal.run, journal.joined) == (b"r" * 16, True)
        return list(journal.entries())
    finally:
        journal._table.database.close()
        with suppress(MasqueradeError):
            journal.close()


def balance_in(folder: Path) -> object:
    """Return the balance of a ledger after one more entry was written, and all entries that a power cut cannot take.

    It can take debits that were debited ahead: all of the last study, but for the first two.
    """
    last, covered = the_last(), {f"round {label}" for label in range(2, 9)}
    with closing(Ledger.open(StateFolder(folder))) as found:
        found.end_attempt(last, "p1", "killed")
        entries = [
            entry.fields
            for entry in found.history()
            if not (entry.fields.get("study") == last.digest().hex() and entry.fields.get("label") in covered)
        ]
        return entries, found.account("default")


@pytest.mark.parametrize("name", JOURNAL)
def test_a_flip_in_the_journal_is_damage_or_changes_nothing(journal: Path, tmp_path: Path, name: str) -> None:
    found = outcomes(journal, name, tmp_path, rows_in)
    assert found.total() == FLIPS
    assert found["damaged"] > 0.3 * FLIPS
    assert rows_in(shutil.copytree(journal, tmp_path / "sound")) == ROWS


@pytest.mark.parametrize("name", LEDGER)
def test_a_flip_in_the_ledger_is_damage_or_changes_nothing(ledger: Path, tmp_path: Path, name: str) -> None:
    found = outcomes(ledger, name, tmp_path, balance_in)
    assert found.total() == FLIPS
    assert found["damaged"] > 0.3 * FLIPS


@pytest.mark.parametrize("link", ["chain", "NULL"])
@pytest.mark.parametrize("store", ["journal", "ledger"])
def test_a_field_of_another_type_is_damage_whatever_its_link(
    store: str, link: str, journal: Path, ledger: Path, tmp_path: Path
) -> None:
    """No link can be computed for it, and none that stands there may pass."""
    kept, name, last, read = {
        "journal": (journal, "rows", "data", rows_in),
        "ledger": (ledger, "entries", "body", balance_in),
    }[store]
    folder = shutil.copytree(kept, tmp_path / "copy")
    with closing(sqlite3.connect(folder / f"{store}.sqlite")) as database:
        columns = [column for _, column, *_ in database.execute(f"PRAGMA table_info({name})")]
        changed = ", ".join({"chain": link, last: "7"}.get(column, column) for column in columns)
        for statement in (
            f"ALTER TABLE {name} RENAME TO old",
            f"CREATE TABLE {name} ({', '.join(columns)})",
            f"INSERT INTO {name} SELECT * FROM old WHERE n != 3",  # noqa: S608 - names of this test
            f"INSERT INTO {name} SELECT {changed} FROM old WHERE n = 3",  # noqa: S608 - names of this test
        ):
            database.execute(statement)
        database.commit()
    with raises(Damaged, "row_changed", 3):
        read(folder)


# --- Who hears of it --------------------------------------------------------------------


@pytest.fixture(scope="module")
def world() -> World:
    return World.new(3, deadline=30.0, port=5555)


@pytest.mark.parametrize("sound", [0, 3, 12])
@pytest.mark.parametrize("who", ["p1", "p3", CHARLIE])
def test_the_others_hear_of_damage_within_five_seconds(world: World, who: str, sound: int) -> None:
    """So many rows are replayed before the one that is damaged."""

    def damage(run: Group) -> None:
        journal = run.sites[who].journal

        def entries() -> Iterator[Entry]:
            yield from journal.rows[:sound]
            raise damaged(Path("journal.sqlite"), "a bit has flipped", "start again")

        journal.entries = entries  # type: ignore[method-assign]

    run = restarted(world, who, damage)
    check(run.sites[who].error)
    check_nobody_is_accused(run, who, "its stored record of the run is damaged, which is nobody's fault")
    assert run.twice() == []


def test_an_error_of_a_full_disk_or_of_a_locked_file_is_no_damage(tmp_path: Path) -> None:
    def error(code: int) -> sqlite3.Error:
        made = sqlite3.OperationalError("some words")
        made.sqlite_errorcode = code
        return made

    path = tmp_path / "x.sqlite"
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE t (x)")
    for code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY):
        assert not is_damage(error(code), path)
    for code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR, sqlite3.SQLITE_IOERR_SHORT_READ):
        assert is_damage(error(code), path)
    assert not is_damage(OSError(28, "no space"), path)


def test_the_others_hear_of_a_ledger_that_is_damaged_in_the_middle_of_a_run(world: World) -> None:
    group = Group(world, {CHARLIE: charlie, **dict.fromkeys(world.study.names, party)})
    p1 = group.sites["p1"]
    note = p1.debit

    def debit(run: bytes, releases: Sequence[Release]) -> None:
        if p1.debited:
            raise damaged(
                Path("ledger.sqlite"), "entry 7 is not the one that was written", "see whether the disk fails"
            )
        note(run, releases)

    p1.debit = debit  # type: ignore[method-assign]
    group.run(until=lambda: p1.error is not None)
    began = group.clock.now
    group.run(turns=10)
    check(p1.error)
    check_nobody_is_accused(group, "p1", "its stored record of the run is damaged, which is nobody's fault")
    assert group.clock.now - began < 5.0


def test_a_journal_that_lost_all_its_rows_still_says_which_run_it_was(journal: Path, tmp_path: Path) -> None:
    """A bit in the first page of a young journal's log is enough. Without the run's id nobody could be told."""
    folder = shutil.copytree(journal, tmp_path / "lost")
    for name in ("journal.sqlite", "journal.sqlite-wal"):
        (folder / name).write_bytes(b"")
    with SqliteJournal(folder, KEY) as found:
        assert (found.run, found.joined) == (b"r" * 16, True)
        with raises(Damaged, "damaged_file", "journal.sqlite", "no such table: rows"):
            list(found.entries())
        found.end("Damaged", found.run)
    with SqliteJournal(folder, KEY) as found:  # the next attempt begins with nothing
        assert (found.attempt, found.run, found.joined, list(found.entries())) == (2, b"", False, [])
