"""An operator's view of a run: its progress, a log with times and levels, and nothing about records."""

import importlib
import io
import os
import re
import stat
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from masquerade_core.errors import BadInput, DeadlinePassed
from masquerade_host.process.logs import EVERY, Log, LogFile
from masquerade_host.process.meter import Meter
from masquerade_host.process.process import Reporting, main, reporting
from masquerade_host.process.progress import Level
from masquerade_host.process.terminal import Terminal
from tests.face_helpers import Shell
from tests.host_helpers import World
from tests.messages import pattern, raises, says, sentence
from tests.wired import Clock, Wired

CANARY = "canary-0123456789"
LINE = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z) (DEBUG|INFO|WARNING|ERROR) +(.*)\n")


def lines(text: str) -> list[tuple[str, str]]:
    """The level and the words of each line; every line has its form."""
    found = [LINE.fullmatch(line) for line in text.splitlines(keepends=True)]
    assert None not in found, text
    return [(line[2], line[3]) for line in found if line is not None]


def rounds(clock: Clock, observe: Any, count: int, seconds: float, total: int = 100, first: int = 1) -> None:
    for done in range(first, first + count):
        clock.now += seconds
        observe("progress", {"done": done, "total": total})


# --- How far a run has come ---------------------------------------------------------


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_the_line_has_the_round_the_rate_the_time_left_and_the_time_so_far(clock: Clock) -> None:
    meter = Meter(clock)
    assert meter.line() == ""
    meter.note("stage", {"name": "rounds"})
    assert meter.line() == "rounds, 0 s so far"
    rounds(clock, meter.note, 11, 0.5)
    assert meter.line() == "rounds, round 11 of 100, 2.0 rounds a second, about 44 s left, 6 s so far"


def test_slow_rounds_are_told_in_seconds_and_long_times_in_minutes_and_hours(clock: Clock) -> None:
    meter = Meter(clock)
    rounds(clock, meter.note, 3, 20.0)
    assert meter.line() == "round 3 of 100, 20.0 s a round, about 32 min 20 s left, 1 min 0 s so far"
    meter = Meter(clock)
    rounds(clock, meter.note, 3, 200.0)
    assert "about 5 hours 23 min left" in meter.line()
    rounds(clock, meter.note, 1, 1.0, first=100)
    assert meter.line() == "round 100 of 100, 10 min 1 s so far"


def test_the_rate_is_that_of_the_last_minute(clock: Clock) -> None:
    meter = Meter(clock)
    rounds(clock, meter.note, 20, 1.0)
    clock.now += 600  # an outage
    rounds(clock, meter.note, 61, 1.0, first=21)
    assert meter.rate == pytest.approx(1.0)
    assert meter.left == pytest.approx(19.0)


def test_another_stage_and_an_attempt_from_the_beginning_count_anew(clock: Clock) -> None:
    meter = Meter(clock)
    rounds(clock, meter.note, 20, 1.0)
    rounds(clock, meter.note, 1, 1.0)
    assert meter.rate is None
    assert "round 1 of 100" in meter.line()
    rounds(clock, meter.note, 5, 2.0, first=2)
    assert meter.rate == pytest.approx(0.5)
    meter.note("stage", {"name": "evaluation"})
    assert "round" not in meter.line()


def test_whoever_is_waited_for_is_named_after_some_seconds(clock: Clock) -> None:
    meter = Meter(clock)
    meter.note("traffic", {"messages": 1, "bytes": 2, "waited_for": "p2, p3", "seconds": 4.9})
    assert meter.line() == ""
    meter.note("traffic", {"messages": 1, "bytes": 2, "waited_for": "p2, p3", "seconds": 72.0})
    assert meter.line().endswith("waiting for p2 and p3 for 1 min 12 s")
    meter.note("traffic", {"messages": 1, "bytes": 2, "waited_for": "", "seconds": 0.0})
    assert meter.line() == ""


def test_who_has_joined_is_shown_while_parties_join(clock: Clock) -> None:
    meter = Meter(clock)
    meter.note("stage", {"name": "joining"})
    meter.note("connected", {"party": "p1", "joined": 1, "parties": 3})
    assert meter.line() == "joining, 1 of 3 parties are here, 0 s so far"
    meter.note("stage", {"name": "keys"})
    assert meter.line() == "keys, 0 s so far"


def test_a_session_tells_whom_its_role_waits_for_and_since_when() -> None:
    wired = Wired(World.new(3, port=5555))
    wired.join()
    wired.expect("charlie", "Hi", ("p1", "p2", "p3"))
    wired.pump(5, seconds=1.0)
    wired.say("p1")
    wired.pump(9, seconds=1.0)
    told = [fields for who, event, fields in wired.events if (who, event) == ("charlie", "traffic")][-1]
    assert told["waited_for"] == "p2, p3"
    assert told["seconds"] == pytest.approx(8.0, abs=2.0)


# --- The log ------------------------------------------------------------------------


def test_each_line_has_a_time_in_utc_and_a_level() -> None:
    err = io.StringIO()
    log = Log(err)
    log("connected", party="p1", joined=1, parties=3)
    log("left", party="p1")
    log("error", message="p1 was late", hint="ask p1", exit_code=3, error_code="deadline_passed")
    log("traffic", messages=1, bytes=2)
    hint_is = sentence("what_to_do")
    assert lines(err.getvalue()) == [
        ("INFO", sentence("is_here", "p1", 1, 3)),
        ("WARNING", sentence("went_away", "p1")),
        ("ERROR", f"p1 was late; {hint_is} ask p1 (exit code 3, deadline_passed)"),
    ]


def test_the_time_is_that_of_utc_wherever_the_machine_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "JST-9")
    time.tzset()
    try:
        err = io.StringIO()
        Log(err)("left", party="p1")
    finally:
        monkeypatch.undo()
        time.tzset()
    written = datetime.fromisoformat(err.getvalue().split()[0])
    assert abs((datetime.now(UTC) - written).total_seconds()) < 3600


@pytest.mark.parametrize(("level", "shown"), [("debug", 4), ("info", 3), ("warning", 2), ("error", 1)])
def test_a_level_hides_what_is_less_grave(level: str, shown: int) -> None:
    err = io.StringIO()
    log = Log(err, Level(level))
    log("traffic", messages=1, bytes=2)
    log("connected", party="p1")
    log("left", party="p1")
    log("error", message="x", hint="", exit_code=1, error_code="run_failed")
    assert len(lines(err.getvalue())) == shown


def test_a_log_tells_nothing_of_the_owner_s_records() -> None:
    err = io.StringIO()
    log = Log(err, Level.DEBUG)
    log("repaired", clamped=17, filled=23)
    log("one_class")
    log("same_answer")
    log("stage", name="joining", weights=CANARY, records=17)
    assert lines(err.getvalue()) == [("INFO", "joining ...")]


def test_a_log_does_not_say_how_long_a_party_trained(clock: Clock) -> None:
    err = io.StringIO()
    log = Log(err, clock=clock)
    log("stage", name="training")
    clock.now += EVERY
    log("traffic", messages=0, bytes=0)
    log("stage_done", name="training", seconds=30.0, messages=0, bytes=0)
    log("stage", name="joining")
    log("stage_done", name="joining", seconds=1.0, messages=3, bytes=100)
    assert [words for _, words in lines(err.getvalue())] == [
        "preparing",
        "joining ...",
        "joining: 1.0 s, 3 messages, 100 bytes.",
    ]


def test_a_line_says_every_half_minute_how_far_the_run_has_come(clock: Clock) -> None:
    err = io.StringIO()
    log = Log(err, clock=clock)
    log("stage", name="joining")
    log("stage", name="rounds")
    rounds(clock, lambda event, fields: log(event, **fields), 100, EVERY / 10)
    told = [words for _, words in lines(err.getvalue())]
    assert len(told) == 12
    assert told[3] == "rounds, round 20 of 100, 3.0 s a round, about 4 min 0 s left, 1 min 0 s so far"


def test_nothing_in_a_line_looks_like_two_lines() -> None:
    err = io.StringIO()
    Log(err)("error", message="a\nb\rc\x1b[2Kd\x85e", hint="", exit_code=1, error_code="run_failed")
    assert lines(err.getvalue()) == [("ERROR", r"a; b\rc\x1b[2Kd\x85e (exit code 1, run_failed)")]


def test_a_log_file_is_its_owner_s_alone_and_grows(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        for _ in range(2):
            file = LogFile(tmp_path / "my.log")
            Log(file)("connected", party="größe")
            file.close()
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "my.log").stat().st_mode) == 0o600
    assert [words for _, words in lines((tmp_path / "my.log").read_text("utf-8"))] == ["größe is connected."] * 2


@pytest.mark.parametrize("how", ["moved away", "removed", "emptied"])
def test_a_log_file_may_be_rotated_while_it_is_written(tmp_path: Path, how: str) -> None:
    path = tmp_path / "my.log"
    log = Log(LogFile(path))
    log("left", party="p1")
    if how == "emptied":
        os.truncate(path, 0)
    elif how == "removed":
        path.unlink()
    else:
        path.rename(tmp_path / "my.log.1")
    log("left", party="p2")
    assert [words for _, words in lines(path.read_text())] == [sentence("went_away", "p2")]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_full_disk_ends_no_run_and_the_lines_that_are_missing_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = LogFile(tmp_path / "my.log")
    log = Log(file)

    def full(_line: str) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(file, "write", full)
        log("left", party="p1")
        log("left", party="p2")
    log("left", party="p3")
    assert lines((tmp_path / "my.log").read_text()) == [
        ("WARNING", sentence("lines_not_written", 2)),
        ("WARNING", sentence("went_away", "p3")),
    ]


def test_a_log_that_cannot_be_written_is_bad_input(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    os.mkfifo(tmp_path / "fifo")
    for path in (tmp_path, tmp_path / "no" / "my.log", tmp_path / "link", tmp_path / "fifo"):
        with raises(BadInput, "log_not_written", ...):
            LogFile(path)


# --- At a terminal, and elsewhere ------------------------------------------------------


class Screen(io.StringIO):
    """A terminal."""

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        return 2


def screen(text: str) -> list[str]:
    """Return the screen's content after this text, as a terminal shows it that is wide enough."""
    lines, row, column = [""], 0, 0
    for piece in re.findall(r"\x1b\[\d*[AJK]|.", text, flags=re.DOTALL):
        if piece == "\n":
            row, column = row + 1, 0
            lines += [""] * (row == len(lines))
        elif piece == "\r":
            column = 0
        elif piece.endswith("A") and piece.startswith("\x1b"):
            row -= int(piece[2:-1])
        elif piece.startswith("\x1b"):
            lines[row] = lines[row][:column]
            del lines[row + 1 if piece.endswith("J") else len(lines) :]
        else:
            lines[row] = lines[row][:column] + piece + lines[row][column + 1 :]
            column += 1
    return lines


def test_a_terminal_has_one_changing_line_below_the_sentences(clock: Clock) -> None:
    shown = Screen()
    terminal = Terminal(shown, clock)
    terminal("connected", party="p1", joined=1, parties=3)
    rounds(clock, lambda event, fields: terminal(event, **fields), 3, 1.0)
    terminal("left", party="p1")
    assert screen(shown.getvalue()) == [
        "p1 is here: 1 of 3.",
        "p1 disconnected; Charlie waits for it.",
        "round 3 of 100, 1.0 rounds a second, about 1 min 37 s left, 3 s so far",
    ]
    terminal.close()
    assert screen(shown.getvalue())[-1] == ""


LONG = "tcp://[2001:0db8:85a3:0000:0000:8a2e:0370:7334%enp0s31f6]:65535"
LONGER = "tcp://the-coordinator-of-our-study.of-a-department.example-clinic.org:5555"


def test_the_table_says_who_is_waited_for_and_for_how_long(clock: Clock) -> None:
    shown = Screen()
    terminal = Terminal(shown, clock)

    def waits(names: str, seconds: float) -> list[str]:
        terminal("traffic", messages=1, bytes=2, waited_for=names, seconds=seconds)
        return [" ".join(line.split()) for line in screen(shown.getvalue())]

    terminal("stage", name="rounds")
    assert waits("p2, p3", 4.0)[1:] == ["rounds, 0 s so far"]
    clock.now += 10
    assert waits("p2, p3", 14.0)[1:] == ["rounds, 10 s so far", "waiting for p2 14 s", "waiting for p3 14 s"]
    clock.now += 10
    assert waits("p3, p4", 24.0)[2:] == ["waiting for p3 24 s", "waiting for p4 24 s"]
    clock.now += 60
    assert waits("p3", 6.0)[1:] == ["rounds, 1 min 20 s so far", "waiting for p3 6 s"]  # another message by now
    assert waits(", ".join(f"p{i}" for i in range(12)), 6.0)[-1] == "and for 4 others"
    assert waits("", 0.0)[1:] == ["rounds, 1 min 20 s so far"]
    terminal("left", party="p1")
    assert screen(shown.getvalue())[1:] == ["p1 disconnected; Charlie waits for it.", "rounds, 1 min 20 s so far"]


@pytest.mark.parametrize("address", [LONG, LONGER])
def test_eighty_columns_have_room_for_every_line_and_no_address_is_cut(clock: Clock, address: str) -> None:
    shown = Screen()
    terminal = Terminal(shown, clock)
    terminal("connecting", address=address)
    terminal("unreachable", address=address, left=30)
    terminal("traffic", messages=1, bytes=2, waited_for="charlie", seconds=35.0)
    lines = screen(shown.getvalue())
    assert max(map(len, lines)) < 80
    assert [line.count(address) for line in lines if address in line] == [1, 1, 1]
    assert lines[-2].split() == ["waiting", "for", "charlie", "35", "s"]


def test_on_a_narrow_terminal_no_line_of_the_table_wraps(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "get_terminal_size", lambda _number: os.terminal_size((30, 5)))
    shown = Screen()
    terminal = Terminal(shown, clock)
    terminal("connecting", address=LONGER)
    rounds(clock, lambda event, fields: terminal(event, **fields), 3, 1.0)
    for _ in range(2):
        terminal("traffic", messages=1, bytes=2, waited_for="charlie, p1, p2", seconds=35.0)
    lines = screen(shown.getvalue())
    assert max(map(len, lines)) == 29
    assert "".join(lines[:-4]).replace(" ", "") == f"ConnectingtoCharlieat{LONGER}."  # in pieces
    assert len(lines[-4:]) == 4  # as many as the terminal has room for


def test_elsewhere_stderr_is_a_log_and_the_file_gets_a_copy(tmp_path: Path) -> None:
    err = io.StringIO()
    with reporting(Reporting(tmp_path / "my.log"), err) as observe:
        observe("stage", name="joining")
    assert lines(err.getvalue()) == lines((tmp_path / "my.log").read_text()) == [("INFO", "joining ...")]


def test_at_a_terminal_the_file_alone_is_a_log(tmp_path: Path) -> None:
    err = Screen()
    with reporting(Reporting(tmp_path / "my.log", Level.WARNING), err) as observe:
        observe("stage", name="keys")
        observe("left", party="p1")
    assert screen(err.getvalue()) == ["keys ...", sentence("went_away", "p1"), ""]
    assert [level for level, _ in lines((tmp_path / "my.log").read_text())] == ["WARNING"]


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (DeadlinePassed("p1 was late", "ask p1"), "p1 was late; what to do: ask p1 (exit code 3, deadline_passed)"),
        (KeyboardInterrupt(), "you stopped this process (exit code 1, run_failed)"),
        (ValueError(CANARY), "this program has a bug: it raised a ValueError"),
    ],
)
def test_the_log_says_how_the_run_ended(tmp_path: Path, error: BaseException, words: str) -> None:
    err = io.StringIO()
    with pytest.raises(type(error)), reporting(Reporting(tmp_path / "my.log"), err):
        raise error
    ((level, said),) = lines((tmp_path / "my.log").read_text())
    assert level == "ERROR"
    assert said.startswith(words)
    assert CANARY not in said + err.getvalue()


@pytest.mark.parametrize("command", ["party", "curator"])
def test_where_stderr_is_a_log_it_tells_of_an_error_once(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("masquerade_host.process.process.harden", lambda: None)
    words = [command, tmp_path / "no.toml", "--key", "k", *(["--data", "d"] if command == "party" else [])]
    answer = Shell(capsys)(*words)
    assert (answer.code, len(re.findall(pattern("file_missing", "study"), answer.err))) == (4, 1)
    assert "(exit code 4, bad_input)" in answer.err
    shown = Shell(capsys)(*words, "--format", "json")
    assert (shown.code, len(re.findall(pattern("file_missing", "study"), shown.out))) == (
        4,
        1,
    )  # stdout has the answer, as ever


@pytest.mark.parametrize("module", ["masquerade_party", "masquerade_curator"])
def test_the_modules_have_the_options_of_the_commands_log_and_metrics(
    module: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("masquerade_host.process.process.harden", lambda: None)
    app = importlib.import_module(f"{module}.__main__").app
    monkeypatch.setattr("masquerade_host.process.process.atexit.register", lambda _: None)
    words = [tmp_path / "no.toml", "--key", "k", *(["--data", "d"] if module == "masquerade_party" else [])]
    words += ["--log-file", tmp_path / "my.log", "--log-level", "info", "--metrics", "0"]
    assert main(app, [str(word) for word in words], module) == 4
    (_, (level, said)) = lines((tmp_path / "my.log").read_text())  # the first line has the address of the metrics
    assert (level, says(said, "file_missing", "study")) == ("ERROR", True)
    assert len(re.findall(pattern("file_missing", "study"), capsys.readouterr().err)) == 1


@pytest.mark.parametrize("command", ["party", "curator"])
def test_both_processes_write_a_log(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("masquerade_host.process.process.harden", lambda: None)
    words = [command, tmp_path / "no.toml", "--key", "k", "--log-file", tmp_path / "my.log"]
    answer = Shell(capsys)(*words, *(["--data", "d"] if command == "party" else []))
    assert answer.code == 4
    ((level, said),) = lines((tmp_path / "my.log").read_text())
    assert (level, says(said, "file_missing", "study"), "(exit code 4, bad_input)" in said) == ("ERROR", True, True)
    refused = Shell(capsys)(*words[:-1], tmp_path, *(["--data", "d"] if command == "party" else []))
    assert (refused.code, says(refused.err, "log_not_written", ...)) == (4, True)
