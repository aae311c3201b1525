"""A Dask cluster on this machine, started as a user starts it: a scheduler, and workers that a test may kill."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests import ROOT

HERE = "127.0.0.1"


def scheduler_address(known: Path, scheduler: subprocess.Popen[bytes]) -> str:
    """Wait until a scheduler has written its file, and return the address in it."""
    ends = time.monotonic() + 60
    while True:
        # The scheduler creates its file first and fills it afterwards: a file that exists may still be empty.
        try:
            return str(json.loads(known.read_text())["address"])
        except (FileNotFoundError, json.JSONDecodeError):
            if scheduler.poll() is not None or time.monotonic() > ends:
                raise
        time.sleep(0.02)


TWO_THREADS = {"OPENBLAS_NUM_THREADS": "2", "OMP_NUM_THREADS": "2"}
"""The threads that a process's libraries of linear algebra take, whatever the tests take: a task must limit them."""


class LocalDask:
    """A scheduler and its workers, each a process."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.workers = folder, list[subprocess.Popen[bytes]]()
        self.scheduler: subprocess.Popen[bytes] | None = None
        self.known = folder / "scheduler.json"
        self.address = ""
        folder.mkdir(exist_ok=True)

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        """Start 'dask' with these words."""
        paths = os.pathsep.join([str(ROOT), *sys.path])
        quiet: Any = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": self.folder}
        env = {**os.environ, "PYTHONPATH": paths, **TWO_THREADS}
        return subprocess.Popen([sys.executable, "-m", "dask", *words, "--no-dashboard"], env=env, **quiet)

    def schedule(self, host: str = HERE, port: int = 0) -> None:
        """Start the scheduler, and wait until it says its address."""
        self.known.unlink(missing_ok=True)
        words = "--host", host, "--port", str(port), "--scheduler-file", str(self.known)
        self.scheduler = self.start("scheduler", *words)
        self.address = scheduler_address(self.known, self.scheduler)

    def work(self, number: int, *words: str) -> None:
        """Start this many workers of one thread, each without the process that would start it again."""
        for _ in range(number):
            where = ["--local-directory", str(self.folder / f"worker-{len(self.workers)}")]
            options = ["--nthreads", "1", "--no-nanny", "--memory-limit", "500MB", *where, *words]
            self.workers.append(self.start("worker", self.address, *options))

    def end(self) -> None:
        """Kill everything."""
        processes: Sequence[Any] = (*self.workers, self.scheduler)
        for process in processes:
            if process is not None:
                process.kill()
                process.wait()


@contextmanager
def local_dask(folder: Path) -> Iterator[LocalDask]:
    """A scheduler without workers, for a test."""
    cluster = LocalDask(folder)
    try:
        cluster.schedule()
        yield cluster
    finally:
        cluster.end()
