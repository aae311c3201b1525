"""A process's outermost edge: what it says, what it keeps to itself, what it leaves on the disk."""

import io
import json
import os
import pty
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

from masquerade.cli.output import describe
from masquerade_core.errors import BadInput, DeadlinePassed, ProtocolViolation, RefusedLocally, Reported, RunFailed
from masquerade_core.seat import Release
from masquerade_core.study import CHARLIE
from masquerade_host.process.process import main
from masquerade_host.process.progress import Mode, Progress, Stats, mode_of
from masquerade_host.session.session import Session
from masquerade_host.store.results import RunDirectory, default_directory, summarize
from masquerade_party._approve import ask, in_words
from masquerade_protocols import protocol_of
from tests import ROOT
from tests.host_helpers import World
from tests.messages import raises, says, sentence

CANARY = "canary-0123456789"


def told(mode: Mode) -> tuple[Progress, io.StringIO, io.StringIO]:
    out, err = io.StringIO(), io.StringIO()
    return Progress(mode, out, err), out, err


# --- Words --------------------------------------------------------------------------


def test_programs_get_one_json_object_a_line() -> None:
    progress, out, err = told(Mode.JSON)
    progress("stage", name="keys")
    progress("connected", party="p1", joined=1, parties=3)
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    assert lines == [
        {"event": "stage", "name": "keys"},
        {"event": "connected", "party": "p1", "joined": 1, "parties": 3},
    ]
    assert err.getvalue() == ""


def test_people_get_sentences() -> None:
    progress, out, err = told(Mode.TEXT)
    progress("connected", party="p1", joined=1, parties=3)
    progress("connected", party="p1")
    progress("unresolved", address="tcp://charly:5555")
    progress("refused", party="p2", fields="privacy.epsilon")
    progress("refused", party="p2", version="2.0")
    progress("stage_done", name="keys", seconds=1.25, messages=3, bytes=100)
    progress("traffic", messages=1, bytes=2)
    assert out.getvalue() == ""
    assert err.getvalue().splitlines() == [
        "p1 is here: 1 of 3.",
        "p1 is connected.",
        "Cannot resolve the name in tcp://charly:5555; trying again until the deadline.",
        "p2 was turned away: its study differs in privacy.epsilon.",
        "p2 was turned away: its program has the wire and protocol numbers 2.0.",
        "keys: 1.2 s, 3 messages, 100 bytes.",
    ]


def test_only_fields_on_the_list_are_said() -> None:
    progress, out, _ = told(Mode.JSON)
    unlisted: Any = {"weights": CANARY, "name": [CANARY], "records": 17}
    progress("stage", **unlisted)
    progress("stage", name="x" * 5000)
    assert CANARY not in out.getvalue()
    assert "17" not in out.getvalue()
    assert len(out.getvalue()) < 1200


@pytest.mark.parametrize("mode", [Mode.JSON, Mode.TEXT])
def test_a_name_that_the_terminal_has_no_letters_for_is_escaped(mode: Mode) -> None:
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, encoding="ascii", errors="strict", write_through=True)
    progress = Progress(mode, file, file)
    progress("refused", party="p2", fields="größe")
    progress.end(BadInput("no column 'größe'"))
    words = raw.getvalue().decode()
    if mode is Mode.JSON:
        assert [json.loads(line).get("fields") for line in words.splitlines()] == ["größe", None]
    else:
        assert words.count(r"gr\xf6\xdfe") == 2


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (BadInput("no such file", "look elsewhere"), 4, ["no such file", "look elsewhere"]),
        (DeadlinePassed("late", waited_for=("p1", "p2")), 3, ["late"]),
        (ProtocolViolation("bad", peer="p1"), 8, ["bad"]),
        (Reported("bad", said_by="p3", accused=("p1",)), 1, ["bad"]),
        (ProtocolViolation("bad", suspects=("p2", "charlie")), 8, ["bad"]),
        (KeyboardInterrupt(), 1, ["you stopped this process"]),
        (ValueError(CANARY), 5, ["ValueError", "--debug"]),
        (typer.BadParameter("what is this"), 4, ["what is this", "--help"]),
    ],
)
def test_an_end_has_its_code_and_its_sentence(mode: Mode, error: BaseException, code: int, words: list[str]) -> None:
    progress, out, err = told(mode)
    assert progress.end(error) == code
    text = out.getvalue() if mode is Mode.JSON else err.getvalue()
    assert all(word in text for word in words)
    assert CANARY not in out.getvalue() + err.getvalue()
    if mode is Mode.JSON:
        line = json.loads(text)
        assert (line["event"], line["exit_code"]) == ("error", code)
        assert line.get("waited_for") == (", ".join(error.waited_for) if isinstance(error, DeadlinePassed) else None)
        assert line.get("peer", "") == getattr(error, "peer", "")
        assert line.get("said_by", "") == getattr(error, "said_by", "")
        for names in ("suspects", "accused"):
            assert line.get(names, "") == ", ".join(getattr(error, names, ()))
        grounds = getattr(error, "grounds", None)
        assert line.get("grounds") == (grounds.words if grounds else None)


def test_debug_shows_where_a_bug_is() -> None:
    progress, _, err = told(Mode.NONE)
    with pytest.raises(ValueError, match=CANARY) as caught:
        int(CANARY)
    progress.end(caught.value, debug=True)
    assert "test_edge.py" in err.getvalue()


def test_a_reader_who_goes_away_ends_no_run() -> None:
    class Gone(io.StringIO):
        def write(self, _text: str) -> int:
            raise BrokenPipeError

    progress = Progress(Mode.JSON, Gone())
    progress("stage", name="keys")
    progress("stage", name="keys")


@pytest.mark.parametrize(
    ("arguments", "mode"),
    [
        (["--progress", "json"], Mode.JSON),
        (["x", "--progress=none", "y"], Mode.NONE),
        (["--progress", "nonsense"], Mode.TEXT),
        (["--progress"], Mode.TEXT),
        ([], Mode.TEXT),
    ],
)
def test_the_mode_is_found_in_a_command_line_that_is_wrong_otherwise(arguments: list[str], mode: Mode) -> None:
    assert mode_of(arguments) is mode


def _app(action: Any) -> typer.Typer:
    app = typer.Typer(add_completion=False)

    @app.command()
    def command(number: int = 0) -> None:
        action(number)

    return app


def _raise(error: Exception) -> Any:
    def action(_number: int) -> None:
        raise error

    return action


@pytest.mark.parametrize(
    ("action", "arguments", "code"),
    [
        (lambda _n: None, [], 0),
        (lambda _n: None, ["--help"], 0),
        (lambda _n: None, ["--number", "x"], 4),
        (lambda _n: None, ["--unknown"], 4),
        (_raise(RunFailed("x")), [], 1),
        (_raise(ZeroDivisionError()), [], 5),
    ],
)
def test_the_edge_raises_nothing(
    action: Any, arguments: list[str], code: int, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("masquerade_host.process.process.harden", lambda: None)
    assert main(_app(action), arguments, "x") == code
    assert (capfd.readouterr().err != "") == (code != 0)


def test_a_process_ends_without_a_last_walk_through_everything() -> None:
    """It took a fifth of a second of each participant's, and as many share a machine in the demonstration."""
    code = (
        "import atexit, gc, typer; from masquerade_host.process.process import main\n"
        "atexit.register(lambda: print(gc.get_freeze_count()))\n"
        "app = typer.Typer()\n"
        "@app.command()\n"
        "def command() -> None: pass\n"
        "main(app, [], 'x')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=_env())
    assert int(done.stdout) > 1000


def test_a_process_leaves_no_core_dump() -> None:
    code = (
        "import ctypes, resource; from masquerade_host.process.process import harden;"
        "hard = resource.getrlimit(resource.RLIMIT_CORE)[1]; resource.setrlimit(resource.RLIMIT_CORE, (hard, hard));"
        "harden();"
        "print(resource.getrlimit(resource.RLIMIT_CORE)[0], ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=_env())
    assert done.stdout.split() == ["0", "0"]


def test_a_process_may_open_as_many_files_as_the_system_allows() -> None:
    code = (
        "import resource; from masquerade_host.process.process import harden;"
        "hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]; resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard));"
        "harden();"
        "print(resource.getrlimit(resource.RLIMIT_NOFILE)[0] == min(hard, 65536), hard)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=_env())
    assert done.stdout.startswith("True"), done.stdout


def _env() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}


# --- Approval -----------------------------------------------------------------------


def _ask(answer: bytes) -> tuple[int, str]:
    """Ask on a terminal."""
    code = (
        "from tests.host_helpers import World; from masquerade_party._approve import ask, in_words;"
        "from masquerade_protocols import protocol_of; from masquerade_core.errors import RefusedLocally\n"
        "study = World.new(3, port=5555).study\n"
        "try: ask(in_words(study, 'p1', protocol_of(study).explain(study)))\n"
        "except RefusedLocally: raise SystemExit(6)"
    )
    parent, child = pty.openpty()
    root = str(ROOT)
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdin=child, stderr=subprocess.PIPE, cwd=root, env=_env(), text=True
    )
    os.close(child)
    os.write(parent, answer)
    _, words = process.communicate(timeout=600)
    os.close(parent)
    return process.returncode, words


def test_a_data_owner_reads_the_study_in_plain_words_and_agrees() -> None:
    code, words = _ask(b"yes\n")
    assert code == 0
    for title in ("What leaves this machine", "Who must not work together", "What it costs", "with p2, p3"):
        assert title in words
    study = World.new(3, port=5555).study
    leaves = protocol_of(study).explain(study).leaves[0]
    assert "".join(leaves.split()) in "".join(words.split())


@pytest.mark.parametrize("answer", [b"no\n", b"\n", b"y\n", b"\x04"])
def test_anything_but_a_yes_is_a_no(answer: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Asked in this process, at a terminal of its own: the one above agrees in another one."""
    study = World.new(3, port=5555).study
    explanation = protocol_of(study).explain(study)
    parent, child = pty.openpty()
    with os.fdopen(parent, "wb", buffering=0) as owner, os.fdopen(child) as terminal:
        owner.write(answer)
        monkeypatch.setattr(sys, "stdin", terminal)
        with pytest.raises(RefusedLocally) as caught:
            ask(in_words(study, "p1", explanation))
    assert caught.value.hint.startswith("type yes")  # a question was put


def test_where_nobody_can_be_asked_the_answer_is_no(monkeypatch: pytest.MonkeyPatch) -> None:
    study = World.new(3, port=5555).study
    explanation = protocol_of(study).explain(study)
    monkeypatch.setattr(sys, "stdin", io.StringIO("yes\n"))
    with pytest.raises(RefusedLocally) as caught:
        ask(in_words(study, "p1", explanation))
    assert "masquerade approve" in caught.value.hint
    assert "--approved" in caught.value.hint


# --- Files --------------------------------------------------------------------------


def test_results_are_written_whole_and_readable(tmp_path: Path) -> None:
    with RunDirectory(tmp_path / "a" / "b") as run:
        run.write({"model.json": {"w": [1.5]}, "result.json": {"x": "ü"}})
    assert json.loads((tmp_path / "a" / "b" / "model.json").read_text()) == {"w": [1.5]}
    assert sorted(p.name for p in (tmp_path / "a" / "b").iterdir()) == ["model.json", "result.json"]
    before = os.umask(0o077)
    os.umask(before)
    mode = stat.S_IMODE((tmp_path / "a" / "b" / "result.json").stat().st_mode)
    assert mode == 0o644 & ~before


def test_a_failure_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(RunFailed), RunDirectory(tmp_path / "run"):
        raise RunFailed("x")
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"JSON compliant"), RunDirectory(tmp_path / "run") as run:
        run.write({"model.json": {"w": 1}, "result.json": {"x": float("nan")}})
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def full(_descriptor: int) -> None:
        calls.append(1)
        if len(calls) == 2:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with (
        raises(RunFailed, "results_cannot_be_written", ..., "No space left on device"),
        RunDirectory(tmp_path / "run") as run,
    ):
        run.write({"model.json": {"w": 1}, "result.json": {"x": 1}})
    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_breaks_between_the_two_files_leaves_neither(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename = Path.rename

    def breaks(self: Path, target: Path) -> Path:
        if target.name == "result.json":
            raise OSError(5, "Input/output error")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", breaks)
    with (
        raises(RunFailed, "results_cannot_be_written", ..., "Input/output error"),
        RunDirectory(tmp_path / "run") as run,
    ):
        run.write({"model.json": {"w": 1}, "result.json": {"x": 1}})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "error",
    [RunFailed("x"), DeadlinePassed("x"), ProtocolViolation("x", peer="p1"), ZeroDivisionError(), KeyboardInterrupt()],
)
def test_an_end_after_a_release_says_and_keeps_what_was_spent(tmp_path: Path, error: BaseException) -> None:
    session = World.new(2, port=5555).party("p1")
    session.releases.append(Release("shares", 1.0, 1e-5))
    with pytest.raises(type(error)) as caught, RunDirectory(tmp_path / "run", session):
        raise error
    told_, out, _ = told(Mode.JSON)
    told_.end(caught.value)
    words = "this party's share had already left: count epsilon = 1, delta = 1e-05 as spent"
    assert words in json.loads(out.getvalue())["message"]
    assert words in describe(caught.value).message
    assert [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.*")] == ["run/attempt-1/spent.json"]
    kept = json.loads((tmp_path / "run" / "attempt-1" / "spent.json").read_text())
    assert kept["releases"] == [{"label": "shares", "epsilon": 1.0, "delta": 1e-5}]
    assert (kept["run_id"], kept["study"], kept["participant"]) == (session.run.hex(), "toy", "p1")


def test_a_failed_attempt_leaves_its_notes_beside_the_results_of_the_next_one(tmp_path: Path) -> None:
    for number in (1, 2):
        session = World.new(2, port=5555).party("p1")
        session.releases.append(Release(f"shares {number}", 1.0, 1e-5))
        with pytest.raises(RunFailed), RunDirectory(tmp_path, session):
            raise RunFailed("x")
    with RunDirectory(tmp_path) as run:
        run.write({"model.json": {}, "result.json": {}})
    found = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.json")}
    assert found == {"model.json", "result.json", "attempt-1/spent.json", "attempt-2/spent.json"}
    kept = json.loads((tmp_path / "attempt-2" / "spent.json").read_text())
    assert [release["label"] for release in kept["releases"]] == ["shares 2"]


def test_an_end_after_a_release_on_a_full_disk_says_what_was_spent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    session = World.new(2, port=5555).party("p1")
    session.releases.append(Release("shares", 1.0, 0.0))

    def ends() -> None:
        with RunDirectory(tmp_path / "run", session) as run:
            monkeypatch.setattr(os, "fsync", full)
            run.write({"result.json": {"x": 1}})

    with pytest.raises(RunFailed) as caught:
        ends()
    assert says(describe(caught.value).message, "spent_not_written", ...)
    assert list(tmp_path.iterdir()) == []


def test_before_a_release_nothing_is_said_of_it(tmp_path: Path) -> None:
    session = World.new(2, port=5555).party("p1")
    with pytest.raises(RunFailed) as caught, RunDirectory(tmp_path / "run", session):
        raise RunFailed("x")
    assert describe(caught.value).message == "x"


def test_of_two_processes_on_one_directory_the_second_replaces_nothing(tmp_path: Path) -> None:
    path = tmp_path / "run"

    def overtaken() -> None:
        with RunDirectory(path) as second:
            with RunDirectory(path) as first:
                first.write({"result.json": {"by": "first"}})
            second.write({"model.json": {"by": "second"}, "result.json": {"by": "second"}})

    with raises(RunFailed, "results_cannot_be_written", ..., "File exists"):
        overtaken()
    assert [p.name for p in path.iterdir()] == ["result.json"]
    assert json.loads((path / "result.json").read_text()) == {"by": "first"}


_STOPPED = """
import os, pathlib, signal, sys, time, typer
from masquerade_host.process.process import main
from masquerade_host.store.results import RunDirectory
number, where = signal.Signals(int(sys.argv[1])), sys.argv[2]

def stop(*_):
    os.kill(os.getpid(), number)
    time.sleep(0.01)

def renames(self, target):
    os.rename(self, target)
    stop()

if where == "fsync":
    os.fsync = stop
if where == "rename":
    pathlib.Path.rename = renames
app = typer.Typer()

@app.command()
def command():
    if where == "loading":
        stop()
    with RunDirectory("run") as directory:
        if where == "approval":
            stop()
        directory.write({"model.json": {}, "result.json": {}})

sys.exit(main(app, [], "x"))
"""


@pytest.mark.parametrize(
    ("where", "number"),
    [
        *((where, signal.SIGTERM) for where in ("loading", "approval", "fsync", "rename")),
        *((where, signal.SIGINT) for where in ("loading", "rename")),
    ],
)
def test_a_signal_ends_a_process_in_order_wherever_it_comes(tmp_path: Path, where: str, number: signal.Signals) -> None:
    """Once the files get their names it comes too late. One handler takes both signals, and another one then."""
    command = [sys.executable, "-c", _STOPPED, str(int(number)), where]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=_env(), cwd=tmp_path)
    if where == "rename":
        assert (done.returncode, done.stderr) == (0, "")
        assert sorted(path.name for path in (tmp_path / "run").iterdir()) == ["model.json", "result.json"]
    else:
        assert (done.returncode, done.stderr) == (1, f"error: {sentence('stopped_by', number.name)}\n")
        assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("named", [0, 1, 2])
def test_a_resumed_run_that_fails_removes_what_its_dead_process_left_half_named(tmp_path: Path, named: int) -> None:
    session = World.new(2, port=5555).party("p1")
    files = ("model.json", "transcript.json", "result.json")
    for name in files[:named]:
        (tmp_path / name).write_text("{}")
    for name in files[named:]:
        (tmp_path / f".{name}.{session.run.hex()}.part").write_text("{}")
    others = tmp_path / f".result.json.{'ab' * 32}.part"  # of another run
    others.write_text("{}")
    with pytest.raises(RunFailed), RunDirectory(tmp_path, session, resumed=True):
        raise RunFailed("the program changed")
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == [others.name]


def test_files_of_others_in_the_directory_stay(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(RunFailed), RunDirectory(tmp_path):
        raise RunFailed("x")
    assert (tmp_path / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize("name", ["result.json", "model.json"])
def test_results_of_before_are_never_overwritten(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("before")
    with raises(BadInput, "results_not_overwritten", ..., ...), RunDirectory(tmp_path):
        pass
    assert (tmp_path / name).read_text() == "before"


def test_a_file_where_the_directory_should_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(BadInput), RunDirectory(path):
            pass


def test_the_default_directory_names_study_and_participant() -> None:
    world = World.new(2, port=5555)
    assert default_directory(world.study, "p1") == Path("runs") / f"toy-{world.study.digest().hex()[:8]}" / "p1"


def test_a_result_has_all_that_is_promised() -> None:
    world = World.new(3, port=5555)
    session = world.party("p2")
    session.releases.append(Release("model", 1.0, 0.0))
    result = summarize(session, [{"view": "x"}], {"test_error": 0.25})
    promised = "run_id protocol parties n_features epsilon delta calibration seconds stages messages bytes statement"
    assert set(promised.split()) <= set(result)
    assert result["run_id"] == session.run.hex()
    assert (result["participant"], result["parties"], result["n_features"]) == ("p2", 3, 1)
    assert result["metrics"] == {"test_error": 0.25}
    assert result["releases"] == [{"label": "model", "epsilon": 1.0, "delta": 0.0}]
    json.dumps(result)


def test_a_partys_result_does_not_tell_how_long_it_trained() -> None:
    world = World.new(2, port=5555)
    now = [0.0]
    results = {}
    for make in (lambda **more: world.party("p1", **more), world.charlie):
        session: Session = make(clock=lambda: now[0])
        session.stats.stage("training")
        now[0] += 1234.5
        for name in ("joining", "keys"):
            session.stats.stage(name)
            session.stats.count(10)
            now[0] += 2.125
        session.stats.end()
        results[session.me] = summarize(session, [], {})
    assert "1234" not in json.dumps(results["p1"])
    assert [stage["name"] for stage in results["p1"]["stages"]] == ["joining", "keys"]
    assert not [stage for stage in results["p1"]["stages"] if "seconds" in stage]
    assert [results[who]["seconds"] for who in ("p1", CHARLIE)] == [5.0, 1238.75]
    assert (results["p1"]["messages"], results["p1"]["bytes"]) == (2, 20)
    assert [stage["seconds"] for stage in results[CHARLIE]["stages"]] == [1234.5, 2.125, 2.125]


def test_stages_add_up() -> None:
    now = [0.0]
    events: list[tuple[str, Any]] = []

    def observe(event: str, /, **fields: str | float) -> None:
        events.append((event, fields))

    stats = Stats(lambda: now[0], observe)
    stats.stage("one")
    stats.count(10)
    stats.encrypted(0)
    now[0] = 2.0
    stats.stage("two")
    stats.count(20)
    stats.count(30)
    stats.encrypted(4)
    stats.encrypted(2)
    now[0] = 5.0
    stats.end()
    stats.end()
    assert stats.to_json() == {
        "seconds": 5.0,
        "stages": [
            {"name": "one", "seconds": 2.0, "messages": 1, "bytes": 10, "ciphertexts": 0},
            {"name": "two", "seconds": 3.0, "messages": 2, "bytes": 50, "ciphertexts": 6},
        ],
        "messages": 3,
        "bytes": 60,
        "ciphertexts": 6,
    }
    assert [event for event, _ in events] == ["stage", "stage_done", "stage", "stage_done"]
