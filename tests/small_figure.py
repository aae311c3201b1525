"""A figure of a few small tasks, for the tests of what runs tasks: alone, in several processes, cut, on a cluster.

``python -m tests.small_figure reproduce small 1`` is the command with this figure among the others.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np

from masquerade.cli import main
from masquerade_core.errors import BadInput
from masquerade_core.simulation_rng import SimulationRng
from masquerade_lab.reproduce.engine.report import Panel, Report, Row, Series
from masquerade_lab.reproduce.engine.tasks import RunTasks, Task
from masquerade_lab.reproduce.papers import PAPERS, Figure

TASKS = 6
SLOW = "SMALL_FIGURE_SECONDS"
"""How long a task sleeps; from the environment, so that it is no argument and changes no digest."""
RUNS = "SMALL_FIGURE_RUNS"
"""A folder in which each run of a task leaves a file."""


def product(seed: int, number: int) -> dict[Any, Any]:
    """Multiply matrices large enough for a library of several threads, whose sums depend on how many there are."""
    if folder := os.environ.get(RUNS):
        _leave(Path(folder), number)
    time.sleep(float(os.environ.get(SLOW, "0")))
    raw = np.frombuffer(SimulationRng(seed, f"small {number}").bytes(8 * 300 * 300), dtype="<u8") / 2.0**64
    a = raw.reshape(300, 300) - 0.5
    values = np.linalg.solve(a @ a.T + np.eye(300), a[0])
    return {("values", 1): values, "tuple": (float(values.sum()), np.float64(values[0]), number, None, "words", b"\0")}


REFUSAL = ("a file is not there", "put it there")
"""The words with which task 3 refuses, and the hint."""


def fated(folder: str, number: int, fate: str) -> int:
    """Return a number; but task 3 raises, refuses, or dies the first time."""
    _leave(Path(folder), number)
    match fate if number == 3 else "":
        case "raises":
            raise ValueError("secret record")
        case "refuses":
            raise BadInput(*REFUSAL)
        case "dies" if len(list(Path(folder).glob("3-*"))) == 1:
            os.kill(os.getpid(), signal.SIGKILL)
    return number


def _leave(folder: Path, number: int) -> None:
    """Note that a task ran."""
    (folder / f"{number}-{os.getpid()}-{time.monotonic_ns()}").touch()


def figure(draws: int, seed: int, run_tasks: RunTasks, data: Path | None) -> Report:
    """Return a table and two panels."""
    del data
    found = run_tasks([Task(f"set {k}, 10 %", product, (seed, k), 1.0 + k % 2) for k in range(draws)])
    values = [one["tuple"][0] for one in found]
    rows = [Row("sums", f"number {k}", value, abs(value) / 10, low=-1e9) for k, value in enumerate(values)]
    curve = Series("sum", range(draws), values, [abs(value) / 10 for value in values])
    said = Series("sum", [0.0, 1.0], [values[0], values[0] + 1], claimed=True)
    panels = [
        Panel("first", "number", "sum", [curve, said], reference=(("none", 0.0),)),
        Panel("second", "number", "coordinate", [Series("first", range(1, 4), found[0]["values", 1][:3])], "log"),
    ]
    return Report("small", "1", ("A note.",), {"draws": draws, "seed": seed}, rows, panels)


SMALL = Figure(figure, TASKS, 7)

if __name__ == "__main__":
    PAPERS["small"] = {"1": SMALL}
    main()
