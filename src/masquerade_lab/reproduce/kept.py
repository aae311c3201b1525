"""Results of tasks in files, so that a figure that was cut goes on where it was.

A file holds numbers and text as JSON, and nothing that runs when it is read. Its name has a digest of everything on
which the result depends. So a result is used again only for the same figure, seed, data and version of the program.
"""

import contextlib
import hashlib
import json
import os
import re
from pathlib import Path
from typing import Any

import joblib

from masquerade_core import __version__
from masquerade_lab.reproduce.results import decode, encode
from masquerade_lab.reproduce.tasks import Task

__all__ = ["Kept"]

_LONGEST = 80


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
