"""Runners of a figure's tasks: the same numbers everywhere; interrupted figures resume; files are safe."""

from __future__ import annotations

import csv
import json
import math
import os
import re
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits  # type: ignore[import-untyped]  # it ships no types

from masquerade.simulation import WATERMARK
from masquerade_core.errors import BadInput, LocalProtocolError, MasqueradeError, RunFailed
from masquerade_lab.commands.progress import told
from masquerade_lab.reproduce import PAPERS, Figure, Report, Row, reproduce
from masquerade_lab.reproduce.engine import drawing, files
from masquerade_lab.reproduce.engine.report import Panel, Series
from masquerade_lab.reproduce.engine.tasks import Kept, Runner, Standing, Task, decode, encode, one_after_another
from tests import ROOT, small_figure
from tests.dask_helpers import TWO_THREADS, scheduler_address
from tests.face_helpers import Shell
from tests.messages import raises, says, sentence

CSV, CURVES, SVG, PNG, VALUES = (f"small-1{end}" for end in (".csv", "-curves.csv", ".svg", ".png", ".json"))


@pytest.fixture
def shell(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Shell:
    monkeypatch.setitem(PAPERS, "small", {"1": small_figure.SMALL})
    monkeypatch.chdir(tmp_path)
    return Shell(capsys)


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "runs"
    folder.mkdir()
    monkeypatch.setenv(small_figure.RUNS, str(folder))
    return folder


def _ran(runs: Path) -> list[int]:
    return sorted(int(path.name.partition("-")[0]) for path in runs.iterdir())


def _tasks(draws: int = small_figure.TASKS) -> list[Task]:
    return [Task(f"set {k}", small_figure.product, (7, k)) for k in range(draws)]


# --- The same numbers everywhere ---------------------------------------------------------------


def test_two_processes_write_the_same_bytes_as_one(shell: Shell, tmp_path: Path) -> None:
    assert shell("reproduce", "small", "--out", tmp_path / "one").code == 0
    assert shell("reproduce", "small", "--out", tmp_path / "two", "--jobs", 2).code == 0
    for name in (CSV, CURVES, SVG, PNG, VALUES):
        content = (tmp_path / "one" / name).read_bytes()
        assert content
        assert content == (tmp_path / "two" / name).read_bytes()
    other = small_figure.figure(6, 8, one_after_another, None)
    assert files.numbers_csv(other) != (tmp_path / "one" / CSV).read_text()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """A scheduler and two workers, started as a user starts them."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    known, started = tmp_path / "scheduler.json", list[subprocess.Popen[bytes]]()

    def start(*words: str) -> None:
        command = [sys.executable, "-m", "dask", *words, "--no-dashboard"]
        quiet: Any = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": tmp_path}
        started.append(subprocess.Popen(command, env=environment, **quiet))

    start("scheduler", "--host", "127.0.0.1", "--port", "0", "--scheduler-file", str(known))
    for number in range(2):
        here = str(tmp_path / f"worker-{number}")
        start("worker", "--scheduler-file", str(known), "--nthreads", "1", "--no-nanny", "--local-directory", here)
    try:
        yield scheduler_address(known, started[0]), started
    finally:
        for process in started:
            process.kill()
            process.wait()


def test_a_dask_cluster_writes_the_same_bytes_and_outlives_a_worker(
    shell: Shell, tmp_path: Path, cluster: tuple[str, list[subprocess.Popen[bytes]]]
) -> None:
    address, processes = cluster
    assert shell("reproduce", "small", "--out", tmp_path / "one").code == 0
    answer = shell("reproduce", "small", "--out", tmp_path / "dask", "--dask", address)
    assert answer.code == 0, answer.err
    for name in (CSV, CURVES, SVG):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "dask" / name).read_bytes()

    runs, got = tmp_path / "cluster", list[Standing]()
    runs.mkdir()

    def tell(standing: Standing) -> None:
        got.append(standing)
        if standing.done == 1:
            processes[2].kill()  # a worker, in the middle of the work: a single one is left

    assert Runner(dask=address, tell=tell)(_fated(runs, "")) == [0, 1, 2, 3, 4]
    assert got[-1].done == 5
    ran = {int(path.name.split("-")[1]) for path in runs.iterdir()}
    assert ran <= {processes[1].pid, processes[2].pid}
    assert Runner(dask=address)(_fated(runs, "")[:1]) == [0]
    assert {int(path.name.split("-")[1]) for path in runs.glob("0-*")} <= {processes[1].pid, processes[2].pid}
    answer = shell("reproduce", "small", "--out", tmp_path / "both", "--dask", address, "--jobs", 2)
    assert (answer.code, says(answer.err, "jobs_and_dask")) == (4, True)


def test_libraries_of_linear_algebra_have_one_thread_in_a_task(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, number in TWO_THREADS.items():
        monkeypatch.setenv(name, number)  # for the processes of the second runner
    with threadpool_limits(2):
        assert set(threads()) == {2}
        for runner in (Runner(), Runner(jobs=2)):
            found = runner([Task(str(k), threads, ()) for k in range(2)])
            assert {count for one in found for count in one} == {1}


def threads() -> list[int]:
    """How many threads each library of linear algebra would use."""
    import scipy.linalg  # noqa: F401 - so that its library counts

    return [library["num_threads"] for library in threadpool_info()]


# --- A figure that was cut ------------------------------------------------------------------------


def _command(tmp_path: Path, runs: Path, *words: str, seconds: float = 0.0) -> subprocess.Popen[str]:
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path]),
        small_figure.RUNS: str(runs),
        small_figure.SLOW: str(seconds),
    }
    command = [sys.executable, "-m", "tests.small_figure", "reproduce", "small", *words]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, env=environment, cwd=tmp_path, stdout=pipe, stderr=pipe, text=True)


def test_after_a_kill_only_the_rest_is_run_and_the_bytes_are_the_same(tmp_path: Path, runs: Path) -> None:
    cut = _command(tmp_path, runs, seconds=0.5)
    kept, ends = tmp_path / "small-1" / files.TASKS, time.monotonic() + 60
    while len(list(kept.glob("*.json"))) < 2 and time.monotonic() < ends:
        time.sleep(0.02)
    cut.send_signal(signal.SIGKILL)
    cut.communicate()
    had = sorted(int(re.findall(r"set_(\d)", path.name)[0]) for path in kept.glob("*.json"))
    assert 2 <= len(had) < 6
    for path in runs.iterdir():
        path.unlink()
    again = _command(tmp_path, runs)
    _, words = again.communicate()
    assert again.returncode == 0, words
    assert says(words, "kept_from_before", len(had))
    assert _ran(runs) == [k for k in range(6) if k not in had]
    assert not kept.exists()
    whole = small_figure.figure(6, 7, one_after_another, None)
    assert (tmp_path / "small-1" / CSV).read_text() == files.numbers_csv(whole)
    assert (tmp_path / "small-1" / CURVES).read_text() == files.curves_csv(whole)


def _fated(runs: Path, fate: str) -> list[Task]:
    return [Task(f"set {k}", small_figure.fated, (str(runs), k, fate)) for k in range(5)]


def test_a_killed_process_s_task_runs_again(runs: Path) -> None:
    assert Runner(jobs=2)(_fated(runs, "dies")) == [0, 1, 2, 3, 4]
    assert _ran(runs).count(3) == 2


def test_processes_that_are_killed_again_and_again_end_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with raises(RunFailed, "processes_ended", 3, 2, 2):
        Runner(jobs=2)([Task(str(k), os._exit, (9,)) for k in range(2)])


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_task_that_fails_is_named_and_the_others_are_kept(tmp_path: Path, runs: Path, jobs: int) -> None:
    kept = Kept(tmp_path / "kept", ())
    with pytest.raises(MasqueradeError) as caught:
        Runner(jobs, kept=kept)(_fated(runs, "raises"))
    assert says(caught.value.message, "task_failed", "set 3", ...)
    assert re.search(r": ValueError at small_figure\.py:\d+$", caught.value.message)
    assert caught.value.exit_code == 5
    before = [kept.load(task) is not None for task in _fated(runs, "raises")]
    assert before[3] is False
    assert jobs > 1 or before == [True, True, True, False, False]
    with pytest.raises(BadInput) as refused:
        Runner(jobs)(_fated(runs, "refuses"))
    assert (refused.value.message, refused.value.hint) == (
        f"task set 3: {small_figure.REFUSAL[0]}",
        small_figure.REFUSAL[1],
    )


def test_what_is_kept_is_used_for_the_same_arguments_and_data_alone(tmp_path: Path) -> None:
    data, keep = tmp_path / "data", tmp_path / "kept"
    data.mkdir()
    (data / "a.csv").write_text("1")
    array = np.arange(3.0)

    def task(number: int = 1) -> Task:
        return Task("a/b", small_figure.product, (data, [array, {"x": number}]))

    Kept(keep, ("paper", 1)).save(task(), {"kept": 1.5})
    (path,) = keep.iterdir()
    assert path.name.startswith("a_b-")
    assert Kept(keep, ("paper", 1)).load(task()) == ({"kept": 1.5},)
    assert Kept(keep, ("paper", 2)).load(task()) is None
    assert Kept(keep, ("paper", 1)).load(task(2)) is None
    array[0] = 1
    assert Kept(keep, ("paper", 1)).load(task()) is None
    array[0] = 0
    (data / "a.csv").write_text("2")
    assert Kept(keep, ("paper", 1)).load(task()) is None
    (data / "a.csv").write_text("1")
    assert Kept(keep, ("paper", 1)).load(task()) == ({"kept": 1.5},)
    for damaged in (
        "",
        "{}",
        '{"key": "other", "result": 1}',
        '{"key": "a/b", "result": {"ndarray": ["|O", [1], ""]}}',
    ):
        path.write_text(damaged)
        assert Kept(keep, ("paper", 1)).load(task()) is None
    (keep / "note.txt").write_text("somebody's")
    Kept(keep, ("paper", 1)).remove()
    assert [one.name for one in keep.iterdir()] == ["note.txt"]


def test_results_come_back_to_the_last_bit_and_others_are_refused() -> None:
    value: dict[Any, Any] = {
        ("a", 0.1): np.linspace(0, 1, 7).reshape(1, 7) / 3,
        "n": (1, -(2**70), 0.1 + 0.2, math.inf, True, None, "ü", b"\xff"),
        "list": [np.float64(1 / 3), np.int64(3), np.array([True, False])],
    }
    back = decode(json.loads(json.dumps(encode(value))))
    assert repr(back) == repr({**value, "list": [1 / 3, 3, value["list"][2]]})
    assert back["a", 0.1].tobytes() == value["a", 0.1].tobytes()
    assert math.isnan(decode(json.loads(json.dumps(encode(math.nan)))))
    for wrong in (object(), {1, 2}, np.array([None])):
        with raises(TypeError, "unusable_result", ...):
            encode([wrong])


def test_two_tasks_with_one_key_are_a_bug() -> None:
    with raises(LocalProtocolError, "same_task_key"):
        Runner()([*_tasks(1), *_tasks(1)])


# --- Time left ---------------------------------------------------------------------------------------


def test_the_time_that_is_left_follows_from_the_tasks_weights(tmp_path: Path) -> None:
    times, told_of = iter([100.0, 110.0, 130.0]), list[tuple[int, float | None]]()
    kept, tasks = Kept(tmp_path, ()), [Task(str(k), abs, (-k,), weight) for k, weight in enumerate((5.0, 1.0, 3.0))]
    kept.save(tasks[0], 0)
    runner = Runner(
        kept=kept, clock=lambda: next(times), tell=lambda s: told_of.append((s.done, s.seconds)), standing=Standing()
    )
    assert runner(tasks) == [0, 1, 2]
    assert told_of == [(1, None), (2, 30.0), (3, 0.0)]


def test_a_log_has_lines(capsys: pytest.CaptureFixture[str]) -> None:
    with told("small 1", silent=False) as tell:
        tell(Standing(6, 2, 1, 9.0, 3.0, 90.0))
        tell(Standing(6, 3, 1, 9.0, 4.0, 80.0))  # too soon
        tell(Standing(6, 6, 1, 9.0, 9.0, 0.0))
    kept = sentence("kept_from_before", 1)
    assert capsys.readouterr().err.splitlines() == [
        f"small 1: 2 of 6 tasks{kept}, about 2 min left",
        f"small 1: 6 of 6 tasks{kept}",
    ]


# --- Files ----------------------------------------------------------------------------------------------


def test_the_files_hold_the_numbers_and_the_claims(shell: Shell, tmp_path: Path) -> None:
    answer = shell.json("reproduce", "small", "--draws", 3)
    folder = tmp_path / "small-1-draws-3"
    assert answer.data["files"] == [f"small-1-draws-3/{name}" for name in (CSV, CURVES, PNG, SVG, VALUES)]
    report = small_figure.figure(3, 7, one_after_another, None)
    with (folder / CSV).open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [float(row["value"]) for row in rows] == [row.value for row in report.rows]
    assert list(rows[0]) == ["table", "name", "value", "error", "low", "high", "verdict", "note"]
    assert (rows[0]["high"], rows[0]["verdict"]) == ("", "within")
    with (folder / CURVES).open(newline="") as file:
        kinds = [row["kind"] for row in csv.DictReader(file)]
    assert kinds == ["computed"] * 3 + ["claimed"] * 2 + ["level"] + ["computed"] * 3
    texts = ["".join(text.itertext()) for text in ET.parse(folder / SVG).iter("{http://www.w3.org/2000/svg}text")]  # noqa: S314 - our own file
    for expected in ("first", "second", "coordinate", "sum", "sum (claimed)", "none"):
        assert expected in texts
    assert any(WATERMARK in text for text in texts)
    assert WATERMARK.encode() in (folder / PNG).read_bytes()
    assert json.loads((folder / VALUES).read_text())["watermark"] == WATERMARK


def test_numbers_of_numpy_are_written_too(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    row = Row("t", "n", np.float64(1.5), np.float64(0.1), np.float64(1), np.float64(2))
    monkeypatch.setitem(PAPERS, "small", {"1": Figure(lambda *_: Report("small", "1", (), {}, [row]), 1, 1)})
    (found,) = shell.json("reproduce", "small").data["rows"]
    assert (found["value"], found["low"], found["inside"], found["holds"]) == (1.5, 1.0, True, True)


def test_files_of_somebody_else_are_not_overwritten(shell: Shell, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / SVG).write_text("mine")
    answer = shell("reproduce", "small", "--out", folder)
    assert (answer.code, says(answer.err, "made_by_another", ...)) == (4, True)
    assert [path.name for path in folder.iterdir()] == [SVG]
    (folder / SVG).unlink()
    (folder / "notes.txt").write_text("mine")
    assert shell("reproduce", "small", "--out", folder).code == 0
    assert shell("reproduce", "small", "--out", folder).code == 0
    assert (folder / "notes.txt").read_text() == "mine"
    assert shell("reproduce", "small", "--out", folder, "--seed", 8).code == 4
    assert shell("reproduce", "small", "--out", folder / "notes.txt").code == 4
    assert shell("reproduce", "small", "--out", folder / "notes.txt" / "below").code == 4


def test_without_matplotlib_there_is_csv_and_a_sentence(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "can_draw", lambda: False)
    answer = shell("reproduce", "small")
    assert answer.code == 0
    assert says(answer.err, "no_picture")
    assert sorted(path.name for path in (tmp_path / "small-1").iterdir()) == sorted([CSV, CURVES, VALUES])
    monkeypatch.setattr(drawing, "can_draw", lambda: False)
    with raises(BadInput, "needs_matplotlib"):
        drawing.draw([], "", "", [])


def test_claims_are_hollow_and_dashed_and_series_differ_without_colour(tmp_path: Path) -> None:
    from matplotlib.figure import Figure as Canvas

    names = ("a", "b", "c", "d", "e")
    panel = Panel(
        "t",
        "x",
        "y",
        [
            *(Series(n, [0.0, 1.0, 2.0], [k, math.nan, k]) for k, n in enumerate(names)),
            Series("a", [1], [2], None, True),
        ],
        "log",
    )
    axes = Canvas().subplots()
    (looks,) = drawing._looks([panel])
    drawing._panel(axes, panel, looks)
    lines: list[Any] = [container[0] for container in axes.containers]
    assert [line.get_marker() for line in lines] == ["o", "s", "D", "^", "v", "o"]
    assert len({(line.get_marker(), repr(line._dash_pattern)) for line in lines[:5]}) == 5
    assert lines[5].get_markerfacecolor() == "none"
    assert (lines[5].get_linestyle(), lines[0].get_linestyle()) == ("--", "-")
    assert len({repr(line._dash_pattern) for line in lines}) == 6
    assert lines[5].get_color() == lines[0].get_color()
    assert list(lines[1].get_xdata()) == [2.0]  # neither 0 on an axis of logarithms, nor what is not a number


def test_a_picture_has_a_legend_for_each_panel_where_the_panels_share_no_series(tmp_path: Path) -> None:
    panels = [Panel(t, "x", "y", [Series(f"{t}{k}", [0, 1], [k, 1]) for k in range(9)]) for t in "abcd"]
    drawing.draw(panels, "t", "w", [tmp_path / "a.svg"])
    text = (tmp_path / "a.svg").read_text()
    assert all(text.count(f">{t}{k}<") == 1 for t in "abcd" for k in range(9))
    assert [len(looks) for looks in drawing._looks(panels)] == [9] * 4


# --- The command ------------------------------------------------------------------------------------------


def test_without_a_paper_all_figures_are_listed(shell: Shell) -> None:
    answer = shell.json("reproduce")
    assert answer.code == 0
    listed = {(row["paper"], row["figure"]): row for row in answer.data["figures"]}
    assert set(listed) == {(paper, name) for paper, figures in PAPERS.items() for name in figures}
    assert "two cores" in answer.data["measured"]
    text = shell("reproduce").err
    assert all(paper in text for paper in PAPERS)
    assert shell("reproduce", "--seed", 1).code == 4


def test_no_scheduler_is_a_sentence_within_ten_seconds(shell: Shell) -> None:
    began = time.monotonic()
    for address in ("127.0.0.1:9", "nonsense://x"):
        answer = shell("reproduce", "small", "--dask", address)
        assert answer.code == 4
        assert says(answer.err, "no_scheduler", address)
    assert time.monotonic() - began < 20


def test_the_function_runs_a_figure_in_processes_too() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(PAPERS, "small", {"1": small_figure.SMALL})
        assert reproduce("small", run_tasks=Runner(jobs=2)).rows == reproduce("small").rows
    with raises(BadInput, "jobs_too_few", 0):
        Runner(jobs=0)(_tasks(1))
    with raises(MasqueradeError, "task_failed", 0, ...):
        Runner()([Task("0", int, ("x",))])
