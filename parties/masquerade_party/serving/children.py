"""The processes of runs: each is a child of the site's process, and outlives it if that one dies.

One process at a time works on a data set. It holds a file locked, which it inherits. So a site that was killed and
started again knows that a process of its predecessor still runs, and begins no second one.
"""

import contextlib
import fcntl
import json
import os
import signal
import subprocess
import sys
from typing import Protocol

from masquerade_host.store.state import private_folder
from masquerade_party.options import PartyOptions
from masquerade_party.serving.folders import Folders, Item, Place
from masquerade_party.serving.reports import DIED, ending_of
from masquerade_party.serving.verdicts import Known

__all__ = ["Child", "Processes", "Runner"]


class Child(Protocol):
    """The process of a run."""

    @property
    def item(self) -> Item:
        """The study."""

    def ended(self) -> int | None:
        """Return the exit code; None while the process lives."""

    def stop(self, number: int) -> None:
        """Send it a signal."""


class Runner(Protocol):
    """The starter of processes; tests have another."""

    def start(self, item: Item, known: Known) -> Child:
        """Start the process of a run."""

    def adopted(self, data: str) -> Child | None:
        """Return the process that a site before this one started for a data set, if it still lives."""


class Processes:
    """Starts ``python -m masquerade_party`` for each run.

    Parameters
    ----------
    folders : Folders
    """

    def __init__(self, folders: Folders) -> None:
        self._folders = folders

    def start(self, item: Item, known: Known) -> Child:
        """Start the process of a run; BlockingIOError where one holds the data set already."""
        options = PartyOptions(
            study=self._folders.study(item),
            data=known.records,
            key=known.key,
            out=known.results,
            state=known.state,
            population=known.population,
            approved=True,
            log_file=self._folders.log(item),
        )
        command = [sys.executable, "-m", "masquerade_party", *options.words(), "--progress", "json"]
        private_folder(known.results.parent)
        lock = os.open(self._folders.lock(item.data), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        report = -1
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC
            report = os.open(self._folders.events(item), flags, 0o600)
            # A session of its own: Ctrl-C is for the site, which then stops it like a power cut.
            process = subprocess.Popen(  # noqa: S603  this very program
                command, cwd=self._folders.root, stdin=subprocess.DEVNULL, stdout=report, pass_fds=[lock],
                start_new_session=True,
            )  # fmt: skip
            os.ftruncate(lock, 0)
            os.pwrite(lock, json.dumps({"pid": process.pid, "name": item.name}).encode(), 0)
        finally:
            os.close(lock)  # the child has it open as well, and so the lock stays
            if report != -1:
                os.close(report)
        return _Started(item, process)

    def adopted(self, data: str) -> Child | None:
        """Return the process that holds a data set, which an earlier site started."""
        try:
            lock = os.open(self._folders.lock(data), os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        with os.fdopen(lock, "r+b") as file:
            if _free(lock):
                return None
            try:
                told = json.loads(file.read())
                item, pid = Item(Place.RUNNING, data, str(told["name"])), int(told["pid"])
            except (ValueError, LookupError, TypeError):  # that site was killed before it wrote this
                item, pid = Item(Place.RUNNING, data, ""), 0
        return _Adopted(item, pid, self._folders)


class _Started:
    """A child of this process."""

    def __init__(self, item: Item, process: subprocess.Popen[bytes]) -> None:
        self.item = item
        self._process = process

    def ended(self) -> int | None:
        return self._process.poll()

    def stop(self, number: int) -> None:
        self._process.send_signal(number)
        if number == signal.SIGKILL:
            self._process.wait()


class _Adopted:
    """A child of a site that is no more."""

    def __init__(self, item: Item, pid: int, folders: Folders) -> None:
        self.item = item
        self._pid = pid
        self._folders = folders

    def ended(self) -> int | None:
        lock = os.open(self._folders.lock(self.item.data), os.O_RDWR | os.O_CLOEXEC)
        try:
            if not _free(lock):
                return None
        finally:
            os.close(lock)
        return ending_of(self._folders.events(self.item), DIED).exit_code

    def stop(self, number: int) -> None:
        if self._pid and self.ended() is None:  # it holds the lock, so this number is still its own
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, number)


def _free(lock: int) -> bool:
    """Say whether no process holds a file locked."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    fcntl.flock(lock, fcntl.LOCK_UN)
    return True
