"""Tasks: a figure's units of work. A task's numbers depend on its arguments alone, wherever and whenever it runs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from masquerade.workers import Call, in_workers
from masquerade_lab.reproduce.results import decode, encode

__all__ = ["RunTasks", "Task", "one_after_another"]


@dataclass(frozen=True)
class Task:
    """One unit of work.

    Parameters
    ----------
    key : str
        Its name, unique in its figure. Its result is kept under this name, so that a figure that was cut goes on.
    function : callable
        A function of a module. All its randomness comes from its arguments. It returns numbers, text, None, arrays of
        numbers, or tuples, lists and dictionaries of these: so its result can be kept in a file.
    arguments : tuple
        What can be pickled. A path stands for what is in that file or folder: a result that was kept is used again
        only for the same content.
    weight : float
        About how long it takes, compared with the figure's other tasks. It gives the time that is left.
    """

    key: str
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    weight: float = 1.0

    def call(self) -> Call:
        """Return the call that gives the task's result."""
        return Call(self.key, self.function, self.arguments)


class RunTasks(Protocol):
    """What runs a figure's tasks: here, in several processes, or on a cluster."""

    def __call__(self, tasks: Sequence[Task]) -> list[Any]:
        """Return the results in the order of the tasks."""


def one_after_another(tasks: Sequence[Task]) -> list[Any]:
    """Run the tasks in this process, and return their results in their order."""
    found = dict(in_workers([task.call() for task in tasks]))
    return [decode(encode(found[number])) for number in range(len(tasks))]
