"""The journal: what was committed is there after any death of the process, and gone when the attempt has ended."""

import os
import resource
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from masquerade_core.errors import BadInput, Damaged, RunFailed
from masquerade_host.store.journal import Entry, Journal, ReplayLog, SqliteJournal
from tests.messages import raises, says

SECRET = b"canary-canary"
KEY = bytes(range(32))
_STATEMENTS = tuple(f"masquerade_host/store/{name}.py" for name in ("journal", "chained_table", "state"))
Work = Callable[[Callable[[int], None]], None]
"""Is called with a function that announces each step."""
STEPS = tuple(tuple(Entry("once", "", f"{step}.{row}", SECRET * (step + row)) for row in range(2)) for step in range(2))


def rows(folder: Path) -> list[Entry]:
    journal = SqliteJournal(folder, KEY)
    try:
        return list(journal.entries())
    finally:
        journal.close()


def write(folder: Path, done: Callable[[int], None] = lambda _step: None) -> SqliteJournal:
    journal = SqliteJournal(folder, KEY)
    for number, step in enumerate(STEPS):
        journal.commit(step)
        done(number + 1)
    return journal


def _announce(pipe: int, step: int) -> None:
    os.write(pipe, bytes((step,)))


def in_a_child(work: Work) -> tuple[int, int]:
    """Run this in a process of its own; return the last step that it announced, and how the process ended."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:  # it never returns to pytest
        try:
            work(lambda step: _announce(writing, step))
            os._exit(0)
        except BaseException:  # noqa: BLE001 - the parent sees the code
            os._exit(1)
    os.close(writing)
    _, status = os.waitpid(child, 0)
    with os.fdopen(reading, "rb") as pipe:
        announced = pipe.read()
    return (announced[-1] if announced else 0), status


def _before_each_statement(act: Callable[[], None], work: Work, done: Callable[[int], None]) -> None:
    """Do the work, and this before each statement of the journal, its table and its files."""

    def trace(frame: Any, event: str, _argument: object) -> Any:
        if not frame.f_code.co_filename.endswith(_STATEMENTS):
            return None
        if event == "line":
            act()
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work(done)
    finally:
        sys.settrace(before)


def statements_that_change(folder: Path, work: Work) -> list[int]:
    """Number the statements before which a kill leaves other files, or comes after another announcement, than before.

    A kill takes nothing that was written. So between two of these statements every kill leaves the same.
    """
    seen: list[tuple[int, dict[str, bytes]]] = []
    announced = [0]

    def look() -> None:
        files = sorted(folder.iterdir()) if folder.exists() else []
        seen.append((announced[0], {path.name: path.read_bytes() for path in files}))

    _before_each_statement(look, work, lambda step: announced.__setitem__(0, step))
    return [number for number, now in enumerate(seen) if number == 0 or now != seen[number - 1]]


def killed_at(statement: int, work: Work) -> tuple[int, int]:
    """Kill the process that does this work before the so-many-th statement."""
    left = [statement]

    def count() -> None:
        if not left[0]:
            os.kill(os.getpid(), signal.SIGKILL)
        left[0] -= 1

    return in_a_child(lambda done: _before_each_statement(count, work, done))


def secrets_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if SECRET in path.read_bytes())


def test_rows_come_back_in_order_and_only_the_committed_ones(tmp_path: Path) -> None:
    with write(tmp_path / "a") as journal:
        steps = ReplayLog(journal)
        while steps.due is not None:
            steps.note(steps.due.kind, steps.due.peer, steps.due.label, steps.due.data)
        steps.note("once", label="not committed")
    assert rows(tmp_path / "a") == [entry for step in STEPS for entry in step]


def test_only_the_owner_can_read_it(tmp_path: Path) -> None:
    write(tmp_path / "a").close()
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "a").iterdir()} == {0o600}


def test_a_commit_is_on_the_disk(tmp_path: Path) -> None:
    journal = write(tmp_path)
    settings = {
        name: journal._table.database.execute(f"PRAGMA {name}").fetchone()[0]
        for name in ("synchronous", "journal_mode")
    }
    assert settings == {"synchronous": 2, "journal_mode": "wal"}
    journal.close()


def test_a_commit_makes_no_file_longer(tmp_path: Path) -> None:
    """Else the disk would have to write the journal of its file system as well, for each step."""
    journal = write(tmp_path)
    log = tmp_path / "journal.sqlite-wal"
    lengths = set()
    for step in range(100):
        journal.commit([Entry("received", "p1", str(step), bytes(15_000))])
        lengths.add(log.stat().st_size)
    assert len(lengths) == 1
    journal.close()
    assert len(rows(tmp_path)) == 100 + sum(map(len, STEPS))


def test_two_processes_cannot_share_an_attempt(tmp_path: Path) -> None:
    journal = write(tmp_path)
    with raises(BadInput, "another_process_here"):
        SqliteJournal(tmp_path, KEY)
    journal.close()
    rows(tmp_path)


def test_a_kill_before_any_statement_loses_no_committed_row_and_tears_no_step(tmp_path: Path) -> None:
    def writing(folder: Path) -> Work:
        return lambda done: write(folder, done).close()

    statements = statements_that_change(tmp_path / "whole", writing(tmp_path / "whole"))
    assert len(statements) > 10
    seen = set()
    for statement in (*statements, sys.maxsize):
        folder = tmp_path / str(statement)
        announced, status = killed_at(statement, writing(folder))
        found = rows(folder)
        steps = next(n for n in range(len(STEPS) + 1) if sum(map(len, STEPS[:n])) >= len(found))
        assert found == [entry for step in STEPS[:steps] for entry in step]
        assert announced <= steps <= announced + 1
        seen.add(steps)
        assert status == (signal.SIGKILL if statement < sys.maxsize else 0)
    assert seen == {0, 1, 2}


def test_a_kill_before_any_statement_of_the_end_leaves_either_all_rows_or_none(tmp_path: Path) -> None:
    write(tmp_path / "first").close()

    def ending(folder: Path) -> Work:
        def end(done: Callable[[int], None]) -> None:
            SqliteJournal(folder, KEY).end("finished", b"run")
            done(1)

        shutil.copytree(tmp_path / "first", folder)
        return end

    statements, seen = statements_that_change(tmp_path / "whole", ending(tmp_path / "whole")), set()
    assert len(statements) > 5
    for statement in (*statements, sys.maxsize):
        folder = tmp_path / str(statement)
        ended, status = killed_at(statement, ending(folder))
        assert status == (signal.SIGKILL if statement < sys.maxsize else 0)
        journal = SqliteJournal(folder, KEY)
        found = list(journal.entries())
        assert len(found) in (0, 4)
        assert journal.attempt == (1 if found else 2)
        assert not (found and (ended or (folder / "attempts.jsonl").exists()))
        journal.close()
        if not found:
            assert not secrets_in(folder)
            assert (folder / "attempts.jsonl").read_text() == '{"attempt": 1, "run": "72756e", "ended": "finished"}\n'
        seen.add(len(found))
    assert seen == {0, 4}


def test_a_torn_end_of_the_log_gives_back_all_steps_or_is_called_damage(tmp_path: Path) -> None:
    """SQLite says nothing where the end of its log is lost. A power cut does so where a disk lies about writing."""

    def die(done: Callable[[int], None]) -> None:
        write(tmp_path / "whole", done)
        os.kill(os.getpid(), signal.SIGKILL)

    assert in_a_child(die)[0] == len(STEPS)
    log = tmp_path / "whole" / "journal.sqlite-wal"
    counts = []
    size = len(log.read_bytes().rstrip(b"\0"))  # what follows is space for later steps
    for length in (*range(0, size, 509), size, log.stat().st_size):
        torn = tmp_path / str(length)
        shutil.copytree(tmp_path / "whole", torn)
        os.truncate(torn / log.name, length)
        try:
            counts.append(len(rows(torn)))
        except Damaged as error:
            assert "is damaged" in error.message  # noqa: PT017 - of some lengths alone
            counts.append(-1)
    assert counts == sorted(counts)
    assert set(counts) == {-1, 4}


def test_a_full_disk_stops_everything(tmp_path: Path) -> None:
    def fill(done: Callable[[int], None]) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
        journal = SqliteJournal(tmp_path, KEY)
        for step in range(100):
            try:
                journal.commit([Entry("received", "p1", "", bytes(9000))])
            except RunFailed as error:
                assert says(error.message, "journal_not_written")  # noqa: PT017 - in a child
                assert error.exit_code == 1  # noqa: PT017
                with pytest.raises(RunFailed):
                    journal.commit()
                break
            done(step + 1)
        else:
            os._exit(2)

    announced, status = in_a_child(fill)
    assert status == 0
    assert announced > 5
    assert len(rows(tmp_path)) == announced


def test_a_full_disk_does_not_keep_the_rows_from_being_deleted(tmp_path: Path) -> None:
    def fill(_done: Callable[[int], None]) -> None:
        journal = write(tmp_path)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
        with raises(RunFailed, "journal_not_deleted"):
            journal.end("RunFailed")

    assert in_a_child(fill)[1] == 0
    assert rows(tmp_path) == []
    assert not secrets_in(tmp_path)


@pytest.mark.parametrize("what", ["a file", "no database"])
def test_a_folder_that_cannot_be_used_is_said(tmp_path: Path, what: str) -> None:
    folder = tmp_path / "x"
    if what == "a file":
        folder.write_text("")
    else:
        folder.mkdir()
        (folder / "journal.sqlite").write_bytes(bytes(range(256)) * 64)
    said = ("journal_unusable", ...) if what == "a file" else ("damaged_file", "journal.sqlite", ...)
    with raises(RunFailed, *said):
        rows(folder)


def test_the_end_deletes_the_rows_and_keeps_one_line(tmp_path: Path) -> None:
    for attempt in (1, 2):
        journal = write(tmp_path)
        assert journal.attempt == attempt
        assert secrets_in(tmp_path)
        journal.end("finished", bytes((attempt,)))
        with raises(RunFailed, "journal_attempt_ended"):
            journal.commit()
        journal.close()
        assert not secrets_in(tmp_path)
        assert sorted(path.name for path in tmp_path.iterdir()) == ["attempts.jsonl", "lock"]
    assert [line[-24:] for line in (tmp_path / "attempts.jsonl").read_text().splitlines()] == [
        '1", "ended": "finished"}',
        '2", "ended": "finished"}',
    ]


@pytest.mark.parametrize(("how", "run"), [("finished", b"second"), ("DeadlinePassed", b"")])
def test_a_process_that_died_before_it_deleted_the_rows_had_finished_or_not(
    tmp_path: Path, how: str, run: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next one is told which run has its result."""
    first = write(tmp_path)
    first.end("finished" if how != "finished" else "DeadlinePassed", b"first")
    first.close()
    second = write(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(SqliteJournal, "_wipe", lambda _: None)
        second.end(how, b"second")
    second.close()
    assert secrets_in(tmp_path)
    with SqliteJournal(tmp_path, KEY) as third:
        assert (third.attempt, third.finished) == (3, run)
        assert not secrets_in(tmp_path)


def test_the_rows_are_overwritten_before_they_are_deleted(tmp_path: Path) -> None:
    """A hard link keeps the file's bytes visible after its name is gone."""
    journal = write(tmp_path / "a")
    for name in ("journal.sqlite", "journal.sqlite-wal"):
        os.link(tmp_path / "a" / name, tmp_path / name)
    assert SECRET in (tmp_path / "journal.sqlite-wal").read_bytes()
    journal.end("finished")
    for name in ("journal.sqlite", "journal.sqlite-wal"):
        assert set((tmp_path / name).read_bytes()) == {0}


def test_a_log_without_its_journal_is_overwritten_and_no_row_of_it_comes_back(tmp_path: Path) -> None:
    """A process died while it deleted the rows: the journal has gone, and its log has not."""

    def die(_done: Callable[[int], None]) -> None:
        write(tmp_path / "a")
        os.kill(os.getpid(), signal.SIGKILL)

    in_a_child(die)
    log = tmp_path / "a" / "journal.sqlite-wal"
    os.link(log, tmp_path / "kept")  # its bytes stay visible after its name is gone
    (tmp_path / "a" / "journal.head").unlink()  # which goes first
    (tmp_path / "a" / "journal.sqlite").unlink()
    assert SECRET in log.read_bytes()
    assert rows(tmp_path / "a") == []
    assert not secrets_in(tmp_path / "a")
    assert set((tmp_path / "kept").read_bytes()) == {0}


def test_it_says_whether_an_earlier_process_had_joined(tmp_path: Path) -> None:
    with write(tmp_path) as journal:
        assert not journal.joined
        journal.commit([Entry("received", "charlie")])
    with SqliteJournal(tmp_path, KEY) as journal:
        assert journal.joined


def test_no_journal_keeps_nothing() -> None:
    journal = Journal()
    journal.commit([Entry("once")])
    journal.end("finished")
    assert not list(journal.entries())
