"""What runs a figure's tasks, tells how long it takes, and keeps results."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from masquerade.workers import in_workers
from masquerade_core.errors import LocalProtocolError
from masquerade_lab.reproduce.kept import Kept
from masquerade_lab.reproduce.results import decode, encode
from masquerade_lab.reproduce.tasks import Task

__all__ = ["Runner", "Standing"]


@dataclass
class Standing:
    """How far a figure is.

    Parameters
    ----------
    tasks, done : int
        All tasks, and those whose results are there.
    kept : int
        Those of them whose results an earlier run had kept.
    weight, ready : float
        The weight of all tasks, and of those whose results are there.
    seconds : float or None
        About how long the rest takes; None before the first task of this run is done.
    """

    tasks: int = 0
    done: int = 0
    kept: int = 0
    weight: float = 0.0
    ready: float = 0.0
    seconds: float | None = None


@dataclass
class Runner:
    """What runs a figure's tasks.

    Parameters
    ----------
    jobs : int
        How many processes of this machine; with 1, tasks run in this one.
    dask : str, optional
        The address of a Dask scheduler, whose workers run the tasks.
    kept : Kept, optional
        Where results are kept.
    tell : callable
        It is told how far the figure is, at the beginning and after each task.
    clock : callable
        It returns seconds.
    """

    jobs: int = 1
    dask: str | None = None
    kept: Kept | None = None
    tell: Callable[[Standing], None] = lambda _: None
    clock: Callable[[], float] = time.monotonic
    standing: Standing = field(default_factory=Standing)

    def __call__(self, tasks: Sequence[Task]) -> list[Any]:
        """Return the results in the order of the tasks."""
        if len({task.key for task in tasks}) != len(tasks):
            raise LocalProtocolError("two tasks of a figure have the same key")
        results: dict[int, Any] = {}
        standing = self.standing
        standing.tasks += len(tasks)
        standing.weight += sum(task.weight for task in tasks)
        for number, task in enumerate(tasks):
            if self.kept is not None and (found := self.kept.load(task)):
                results[number] = found[0]
                standing.done, standing.kept = standing.done + 1, standing.kept + 1
                standing.ready += task.weight
        self.tell(standing)
        self._run({number: task for number, task in enumerate(tasks) if number not in results}, results)
        return [results[number] for number in range(len(tasks))]

    def _run(self, tasks: dict[int, Task], results: dict[int, Any]) -> None:
        began, before, standing = self.clock(), self.standing.ready, self.standing
        numbers = list(tasks)
        if self.jobs > 1 or self.dask is not None:  # the longest first, so that no process waits for a long last one
            numbers.sort(key=lambda number: -tasks[number].weight)
        calls = [tasks[number].call() for number in numbers]
        for place, result in in_workers(calls, jobs=self.jobs, dask=self.dask):
            number = numbers[place]
            task = tasks[number]
            # What was just computed takes the way of what was kept, so that both are the same to the last bit.
            results[number] = decode(encode(result))
            if self.kept is not None:
                self.kept.save(task, results[number])
            standing.done, standing.ready = standing.done + 1, standing.ready + task.weight
            ready = standing.ready - before
            standing.seconds = (self.clock() - began) * (standing.weight - standing.ready) / ready if ready else None
            self.tell(standing)
