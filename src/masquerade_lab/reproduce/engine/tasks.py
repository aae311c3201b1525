"""Tasks: a figure's units of work; what runs them, tells how long it takes, and keeps results.

A task's numbers depend on its arguments alone, wherever and whenever it runs. So a figure that was cut goes on where it
was. A kept result is a file with numbers and text as JSON, exact to the last bit; nothing runs when it is read. The
file's name has a digest of everything on which the result depends. So it is used again only for the same figure, seed,
data and version of the program.
"""

import base64
import contextlib
import hashlib
import json
import os
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar

import joblib
import numpy as np
from numpy.typing import ArrayLike, NDArray

from masquerade.workers import Call, in_workers
from masquerade_core import __version__
from masquerade_core.errors import LocalProtocolError

__all__ = [
    "Kept",
    "RunTasks",
    "Runner",
    "Standing",
    "Task",
    "decode",
    "encode",
    "gathered",
    "joined",
    "one_after_another",
]

_Key = TypeVar("_Key")

_LONGEST = 80
_KINDS = "biufcU"
"""The kinds of numpy's numbers, truth values and text."""


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
    """The runner of a figure's tasks: here, in several processes, or on a cluster."""

    def __call__(self, tasks: Sequence[Task]) -> list[Any]:
        """Return the results in the order of the tasks."""


def gathered(results: Iterable[Mapping[str, ArrayLike]]) -> dict[str, NDArray[np.float64]]:
    """Return by quantity what tasks found, each on a data set of its own; shape (S, ...) for S of them."""
    found: dict[str, list[ArrayLike]] = {}
    for result in results:
        for name, values in result.items():
            found.setdefault(name, []).append(values)
    return {name: np.array(values) for name, values in found.items()}


def joined(results: Sequence[Mapping[_Key, ArrayLike]]) -> dict[_Key, NDArray[Any]]:
    """Return by quantity what tasks found, each on some data sets or partitions; shape (S, ...) for all S of them."""
    return {name: np.concatenate([np.asarray(one[name]) for one in results]) for name in results[0]}


def one_after_another(tasks: Sequence[Task]) -> list[Any]:
    """Run the tasks in this process, and return their results in their order."""
    found = dict(in_workers([task.call() for task in tasks]))
    return [decode(encode(found[number])) for number in range(len(tasks))]


# --- Results that are kept --------------------------------------------------------------


class Kept:
    """The results of one figure's tasks in a folder.

    Parameters
    ----------
    folder : Path
        It is made when the first result comes.
    about : tuple
        What all tasks depend on besides their arguments, such as the paper, the figure, the draws and the seed.
    """

    def __init__(self, folder: Path, about: tuple[Any, ...]) -> None:
        self._folder, self._about = folder, about
        self._digests: dict[int, tuple[Any, str]] = {}

    def load(self, task: Task) -> tuple[Any] | None:
        """Return a task's result in a tuple, or None if there is none that can be used."""
        path = self._path(task)
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            return (decode(found["result"]),) if found["key"] == task.key else None
        except (OSError, ValueError, KeyError, TypeError):  # not there, or not whole: the task runs again
            return None

    def save(self, task: Task, result: Any) -> None:
        """Keep a task's result; a file is either whole or not there."""
        path = self._path(task)
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_name(f"{path.name}.{os.getpid()}.new")
        new.write_text(json.dumps({"key": task.key, "result": encode(result)}), encoding="utf-8")
        new.replace(path)

    def remove(self) -> None:
        """Remove the folder with all results, and nothing that somebody else put there."""
        for path in self._folder.glob("*.json*"):
            path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            self._folder.rmdir()

    def _path(self, task: Task) -> Path:
        function = f"{task.function.__module__}.{task.function.__qualname__}"
        parts = [__version__, *map(repr, self._about), task.key, function, *map(self._digest, task.arguments)]
        digest = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:24]
        name = re.sub(r"[^A-Za-z0-9.=+-]+", "_", task.key)[:_LONGEST]
        return self._folder / f"{name}-{digest}.json"

    def _digest(self, argument: Any) -> str:
        """Return the digest of an argument; the same object is read once."""
        if id(argument) not in self._digests:
            self._digests[id(argument)] = argument, _digest_of(argument)
        return self._digests[id(argument)][1]


def _digest_of(argument: Any) -> str:
    match argument:
        case Path() if argument.exists():
            return _content(argument)
        case tuple() | list():
            return f"{type(argument).__name__}({','.join(map(_digest_of, argument))})"
        case dict():
            return f"dict({','.join(f'{_digest_of(k)}:{_digest_of(v)}' for k, v in argument.items())})"
        case _:
            return str(joblib.hash(argument))


def _content(path: Path) -> str:
    """Return the digest of a file, or of all files in a folder with their names."""
    digest = hashlib.sha256()
    for one in [path] if path.is_file() else sorted(path.rglob("*")):
        if one.is_file():
            digest.update(f"{one.relative_to(path)}\n{one.stat().st_size}\n".encode())
            with one.open("rb") as file:
                while block := file.read(1 << 20):
                    digest.update(block)
    return digest.hexdigest()


# --- Results as JSON values ---------------------------------------------------------------


def encode(value: Any) -> Any:
    """Return a task's result as JSON values.

    Raises
    ------
    TypeError
        It holds something else than numbers, text, None, bytes, arrays of numbers, lists, tuples and dictionaries.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, list):
        return [encode(one) for one in value]
    return {type(value).__name__: _encoded(value)}


def _encoded(value: Any) -> Any:
    match value:
        case bytes():
            return base64.b64encode(value).decode()
        case np.ndarray() if value.dtype.kind in _KINDS:
            return [value.dtype.str, list(value.shape), _encoded(np.ascontiguousarray(value).tobytes())]
        case tuple():
            return [encode(one) for one in value]
        case dict():
            return [[encode(key), encode(one)] for key, one in value.items()]
        case _:
            msg = (
                f"a task returned a value of type {type(value).__name__}; it may return numbers, text, None, arrays "
                "of numbers, and tuples, lists and dictionaries of these"
            )
            raise TypeError(msg)


def decode(found: Any) -> Any:
    """Return the result of which :func:`encode` made JSON values."""
    match found:
        case list():
            return [decode(one) for one in found]
        case {"tuple": values}:
            return tuple(decode(one) for one in values)
        case {"dict": pairs}:
            return {decode(key): decode(one) for key, one in pairs}
        case {"bytes": content}:
            return base64.b64decode(content)
        case {"ndarray": [dtype, shape, content]}:
            return np.frombuffer(base64.b64decode(content), dtype=_numbers(dtype)).reshape(shape).copy()
    return found


def _numbers(dtype: str) -> np.dtype[Any]:
    kind = np.dtype(dtype)
    if kind.kind not in _KINDS:
        msg = f"an array of {dtype}"
        raise ValueError(msg)
    return kind


# --- Runners ----------------------------------------------------------------------------


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
    """The runner of a figure's tasks.

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
