"""A study with many sites as real processes on this machine: ``python -m benchmarks.site_processes [K] [--rounds N]``.

Charlie and K parties run as operators start them, with made records, keys, an approval and a ledger each. Every process
takes a second or so of processor time to start, so two processors take minutes for 100. The figures: Charlie's CPU time
from start to end, the wall time of the stages by his result, the peak memory of Charlie and of a party, and what
``masquerade verify`` says of three folders. All must publish the same model.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks.site_sessions import free_port, study_of
from masquerade_core.study import CHARLIE
from masquerade_host.store.budget import give_budget
from masquerade_host.store.new_keys import make_keys
from masquerade_host.store.permissions import DEFAULT_POPULATION
from masquerade_host.store.state import StateFolder
from masquerade_party import approve

__all__ = ["measure"]

_RECORDS = 30
_TICKS = 100  # of the kernel's clock in a second


def _made(folder: Path, K: int, d: int, rounds: int) -> list[str]:
    """Write keys, study, records and approvals; return the parties' names."""
    names = [f"site-{j}" for j in range(K)]
    keys = {name: make_keys(folder / f"{name}.key").public for name in (*names, CHARLIE)}
    study = study_of(names, keys, d, rounds, f"tcp://127.0.0.1:{free_port()}")
    (folder / "study.toml").write_text(study.to_toml())
    rng = np.random.default_rng(0)
    head = ",".join([*(f"x{i}" for i in range(d)), "y"])
    for name in names:
        X = rng.uniform(-1, 1, (_RECORDS, d)).round(4)
        rows = [",".join([*map(str, x), str(int(x[0] > 0))]) for x in X.tolist()]
        (folder / f"{name}.csv").write_text("\n".join([head, *rows]) + "\n")
        state = StateFolder(folder / f"{name}-state")
        give_budget(state.made(), DEFAULT_POPULATION, 100.0, 0.5, by="a benchmark").close()
        approve(
            folder / "study.toml",
            key_path=folder / f"{name}.key",
            data_path=folder / f"{name}.csv",
            state=state.root,
            by="a benchmark",
            fingerprint=study.fingerprint(),
            tell=lambda _: None,
        )
    return names


def _start(folder: Path, name: str) -> "subprocess.Popen[bytes]":
    module = "masquerade_curator" if name == CHARLIE else "masquerade_party"
    command = [sys.executable, "-m", module, "study.toml", "--key", f"{name}.key", "--out", f"{name}-run"]
    command += ["--state", f"{name}-state", "--progress", "json"]
    command += [] if name == CHARLIE else ["--data", f"{name}.csv", "--approved"]
    with (folder / f"{name}.log").open("wb") as log, (folder / f"{name}.err").open("wb") as err:
        return subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=err)  # noqa: S603 - this program


def _look(pid: int) -> tuple[float, float]:
    """Return a process's CPU seconds and its peak memory in MB; zeros once it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    except OSError:
        return 0.0, 0.0
    peak = next((int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")), 0)
    return (int(fields[11]) + int(fields[12])) / _TICKS, peak / 1000


def measure(K: int, d: int, rounds: int) -> dict[str, Any]:
    """Run a study with K real processes once."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        names = _made(folder, K, d, rounds)
        begun = time.perf_counter()
        processes = {name: _start(folder, name) for name in (CHARLIE, *names)}
        seen: dict[str, tuple[float, float]] = dict.fromkeys(processes, (0.0, 0.0))
        while any(process.poll() is None for process in processes.values()):
            for name, process in processes.items():
                cpu, peak = _look(process.pid) if process.poll() is None else (0.0, 0.0)
                seen[name] = max(seen[name][0], cpu), max(seen[name][1], peak)
            time.sleep(0.5)
        seconds = time.perf_counter() - begun
        failed = [name for name, process in processes.items() if process.returncode]
        if failed:
            print(failed[0], (folder / f"{failed[0]}.err").read_text()[-2000:], file=sys.stderr)
            return {"K": K, "failed": failed}
        models = {(folder / f"{name}-run" / "model.json").read_bytes() for name in processes}
        result = json.loads((folder / f"{CHARLIE}-run" / "result.json").read_text())
        some = [f"{name}-run" for name in (CHARLIE, names[0], names[-1])]
        verify = [sys.executable, "-m", "masquerade", "verify", *some]
        verified = subprocess.run(verify, cwd=folder, capture_output=True, text=True, check=False)  # noqa: S603
        return {
            "K": K,
            "rounds": rounds,
            "seconds": seconds,
            "stages": {stage["name"]: stage["seconds"] for stage in result["stages"]},
            "charlie_cpu_s": seen[CHARLIE][0],
            "charlie_peak_MB": seen[CHARLIE][1],
            "party_cpu_s": median(seen[name][0] for name in names),
            "party_peak_MB": median(seen[name][1] for name in names),
            "models": len(models),
            "verify": verified.returncode,
            "said": (verified.stdout + verified.stderr)[-300:],
        }


def main() -> int:
    """Measure, and print JSON; exit 1 if a process failed."""
    parser = argparse.ArgumentParser(prog="benchmarks.site_processes", description="Run a study with real processes.")
    parser.add_argument("K", type=int, nargs="*", default=[100])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("-d", type=int, default=10)
    arguments = parser.parse_args()
    found = [measure(K, arguments.d, arguments.rounds) for K in arguments.K]
    print(json.dumps(found, indent=1))
    return int(any("failed" in each or each["models"] != 1 or each["verify"] for each in found))


if __name__ == "__main__":
    sys.exit(main())
