"""``python -m benchmarks.site_cluster``: one site's records on a Dask cluster of this machine, and a run with them.

It makes the records, starts a scheduler and workers as a site starts them, and measures the seconds in which the
workers read the records and add up gradients. Then three parties and Charlie run ``dp-gd``, each a process: ``big``
has all these records and the cluster, the other two have files of their own. It says how much memory each process took
at most. In the end it deletes the records.
"""

import argparse
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from benchmarks.site_records import COLUMNS, make, study_columns
from masquerade_core.data.cluster import Cluster
from masquerade_core.data.dask_records import DaskRecords
from masquerade_core.learning.losses import LOGISTIC
from masquerade_core.study import CHARLIE, Study
from masquerade_core.study_files import load_study
from masquerade_host.store.budget import give_budget
from masquerade_host.store.new_keys import make_keys
from masquerade_host.store.state import StateFolder
from masquerade_party import approve
from masquerade_protocols.dp_gd.roles import clipped_sum

PARTIES = ("big", "small-a", "small-b")
SMALL = 100_000
SUMS = 2
ROUNDS = 3
_MODULES = {CHARLIE: "masquerade_curator"}
_POPULATION = "everybody"


class Bench:
    """A folder, the processes that were started for it, and the memory that each of them took at most."""

    def __init__(self, folder: Path, tell: Console) -> None:
        self.folder, self.tell, self.began = folder, tell, time.perf_counter()
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.figures: dict[str, Any] = {}

    def note(self, what: str, value: Any) -> None:
        """Keep a figure, and say it."""
        self.figures[what] = value
        self.tell.print(f"{time.perf_counter() - self.began:8.1f} s  {what}: {value}", highlight=False)

    def start(self, name: str, *words: str) -> None:
        """Start a Python module as a process."""
        with (self.folder / f"{name}.log").open("wb") as log:
            self.processes[name] = subprocess.Popen(  # noqa: S603  our own modules, and Dask's
                [sys.executable, "-m", *words], stdout=log, stderr=log, start_new_session=True
            )

    def peaks(self) -> dict[str, int]:
        """Return the most memory in MB that each process that still runs, or a child of it, had at one time."""
        return {name: _peak(process.pid) for name, process in self.processes.items() if process.poll() is None}

    def wait(self, names: Sequence[str], seconds: float) -> dict[str, int]:
        """Wait for processes to end, and return their peaks in MB, looked at ten times a second."""
        peaks: dict[str, int] = dict.fromkeys(names, 0)
        ends = time.monotonic() + seconds
        while any(self.processes[name].poll() is None for name in names) and time.monotonic() < ends:
            peaks = {name: max(peak, self.peaks().get(name, 0)) for name, peak in peaks.items()}
            time.sleep(0.1)
        for name in names:
            if code := self.processes[name].wait(1):
                raise SystemExit(f"{name} ended with {code}: {(self.folder / f'{name}.log').read_text()[-2000:]}")
        return peaks

    def end(self) -> None:
        """End what still runs, with its children."""
        for process in self.processes.values():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _peak(pid: int, *, children: bool = True) -> int:
    """Return the peak, in MB, of a process; or the largest of its own and its children's."""
    with contextlib.suppress(OSError):
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        own = [int(line.split()[1]) // 1000 for line in lines if line.startswith("VmHWM")]
        threads = list(Path(f"/proc/{pid}/task").iterdir()) if children else []
        found = [int(child) for thread in threads for child in (thread / "children").read_text().split()]
        return max([0, *own, *map(_peak, found)])
    return 0


@contextlib.contextmanager
def _bench(folder: Path, tell: Console) -> Iterator[Bench]:
    bench = Bench(folder, tell)
    try:
        yield bench
    finally:
        bench.end()


def _start_cluster(bench: Bench, workers: int, memory: str) -> str:
    known = bench.folder / "scheduler.json"
    here = ("--host", "127.0.0.1", "--no-dashboard")
    bench.start("scheduler", "dask", "scheduler", *here, "--port", "0", "--scheduler-file", str(known))
    while not known.exists():
        time.sleep(0.1)
    address = str(json.loads(known.read_text())["address"])
    for number in range(workers):
        own = ("--nthreads", "1", "--memory-limit", memory, "--local-directory", str(bench.folder / f"spill-{number}"))
        bench.start(f"worker-{number}", "dask", "worker", address, *here, *own)
    return address


def _study(folder: Path, records: int) -> Study:
    keys = {name: make_keys(folder / f"{name}.key").public for name in (*PARTIES, CHARLIE)}
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    text = [
        '[study]\nname = "records"\nprotocol = "dp-gd"\nmin_parties = 3\nmin_records = 1000',
        f'max_records = {records}\ndeadline_seconds = 1200.0\nnonce = "0123456789abcdef"\nprecision = "float32"\n',
        '[privacy]\nepsilon = 0.1\ndelta = 1e-10\ncalibration = "proven"\ncolluders = 1\n',
        "[model]\nregularization = 1e-6\nintercept = false\n",
        f'[crypto]\nsum = "masks"\n\n[protocol]\nrounds = {ROUNDS}\n',
        study_columns(),
        f'[curator]\naddress = "tcp://127.0.0.1:{port}"\nkey = "{keys[CHARLIE]}"\n',
        *(f'[[party]]\nname = "{name}"\nkey = "{keys[name]}"\n' for name in PARTIES),
    ]
    path = folder / "study.toml"
    path.write_text("\n".join(text))
    return load_study(path)[0]


def _approve(folder: Path, name: str, study: Study, data: Path) -> None:
    state = StateFolder(folder / f"state-{name}")
    give_budget(state.made(), _POPULATION, 10.0, 0.01, by="a benchmark").close()
    state.policy.write_text(f'[[population]]\nname = "{_POPULATION}"\ndata = ["{data}"]\n')
    approve(
        folder / "study.toml",
        key_path=folder / f"{name}.key",
        state=state.root,
        population=_POPULATION,
        by="a benchmark",
        fingerprint=study.fingerprint(),
        tell=lambda _: None,
    )


def _sums(bench: Bench, address: str, workers: int, data: Path, study: Study) -> None:
    """Measure reading and rounds from this process, which is the cluster's client as a party's process is."""
    with Cluster(address) as cluster:
        cluster.wait_for(workers)
        began = time.perf_counter()
        records = DaskRecords.read(cluster, data, study)
        bench.note("seconds until the workers hold the records", round(time.perf_counter() - began, 1))
        taken = []
        for number in range(SUMS):
            began = time.perf_counter()
            clipped_sum(records, np.full(len(COLUMNS), number / 10), LOGISTIC, Fraction(1, 2))
            taken.append(round(time.perf_counter() - began, 1))
        bench.note("seconds of a sum of clipped gradients", taken)
    bench.note("peak memory in MB", {**bench.peaks(), "client": _peak(os.getpid(), children=False)})


def _run(bench: Bench, address: str, data: Path) -> None:
    """Have three parties and Charlie learn a model."""
    folder = bench.folder
    began = time.perf_counter()
    for name in (CHARLIE, *PARTIES):
        words = [
            _MODULES.get(name, "masquerade_party"),
            str(folder / "study.toml"),
            "--key",
            str(folder / f"{name}.key"),
        ]
        words += ["--out", str(folder / f"run-{name}"), "--state", str(folder / f"state-{name}"), "--progress", "json"]
        if name != CHARLIE:
            words += ["--data", str(data if name == "big" else folder / name), "--approved"]
        bench.start(name, *words, *(("--dask", address) if name == "big" else ()))
    peaks = bench.wait((CHARLIE, *PARTIES), 3600)
    bench.note("seconds of the whole run, reading again included", round(time.perf_counter() - began, 1))
    bench.note("peak memory in MB of the participants", peaks)
    bench.note("peak memory in MB after the run", bench.peaks())
    result = json.loads((folder / "run-big" / "result.json").read_text())
    bench.note("stages of the run", result["stages"])
    model = json.loads((folder / "run-big" / "model.json").read_text())
    bench.note("weights", {name: round(float(w), 3) for name, w in model["weights"].items()})


def main() -> None:
    """Make the records, measure, and delete them."""
    parser = argparse.ArgumentParser(prog="benchmarks.site_cluster", description="Measure a site with a Dask cluster.")
    parser.add_argument("--records", type=int, default=100_000_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--memory", default="4GB", help="the memory limit of each worker (default: 4GB)")
    parser.add_argument("--folder", type=Path, help="where the records are made; by default a temporary folder")
    chosen = parser.parse_args()
    folder = Path(tempfile.mkdtemp(dir=chosen.folder))
    try:
        with _bench(folder, Console()) as bench:
            began = time.perf_counter()
            data = folder / "big"
            bench.note("GB of Parquet", round(make(data, chosen.records) / 1e9, 2))
            bench.note("seconds of making", round(time.perf_counter() - began, 1))
            study = _study(folder, max(chosen.records, SMALL))
            for seed, name in enumerate(PARTIES, 1):
                if name != "big":
                    make(folder / name, SMALL, seed=seed)
                _approve(folder, name, study, folder / name)
            address = _start_cluster(bench, chosen.workers, chosen.memory)
            _sums(bench, address, chosen.workers, data, study)
            _run(bench, address, data)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
