"""A run of dp-whitened with 2,000 coordinates between processes takes the bytes and the memory of its forecast."""

import json
import sys
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from masquerade.draft import Draft
from masquerade.stand_in import stand_in
from masquerade_core.study import CHARLIE, Feature, Label
from masquerade_core.study_files import load_study
from masquerade_host.store.new_keys import make_keys
from masquerade_protocols import entry_of
from tests.host_helpers import free_port
from tests.processes import Participant

_NAMES, _RECORDS, _D = ("p1", "p2"), 500, 2000


def _status(pid: int) -> dict[str, int]:
    """Return the figures that Linux has of a process's memory, in bytes."""
    lines = (line.split() for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines())
    return {words[0].rstrip(":"): 1024 * int(words[1]) for words in lines if words[-1] == "kB"}


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="Linux alone says how much memory a process took")
def test_a_large_run_takes_the_bytes_and_the_memory_of_its_forecast(tmp_path: Path) -> None:
    keys = {name: make_keys(tmp_path / f"{name}.key").public for name in (*_NAMES, CHARLIE)}
    features = [Feature(name=f"x{i}", min=-3.0, max=3.0) for i in range(_D - 1)]
    draft = Draft(
        parties=[(name, keys[name]) for name in _NAMES],
        curator_key=keys[CHARLIE],
        address=f"tcp://127.0.0.1:{free_port()}",
        features=features,
        label=Label(name="y", positive="1"),
        expected_records=len(_NAMES) * _RECORDS,
        epsilon=20.0,
        colluders=0,
        measured=False,
    )
    file, rng = tmp_path / "study.toml", np.random.default_rng(0)
    file.write_text(draft.to_toml(), encoding="utf-8")
    study, _ = load_study(file)
    cost = entry_of(study).cost(study)
    words = {CHARLIE: ["masquerade_curator", str(file)]}
    for name in _NAMES:
        key, data = tmp_path / f"{name}.key", tmp_path / f"{name}.csv"
        X = np.clip(rng.normal(size=(_RECORDS, _D - 1)), -3, 3)
        head = ",".join([*(feature.name for feature in features), "y"])
        rows = np.column_stack([X, X[:, :50].sum(axis=1) > 0])
        np.savetxt(data, rows, fmt=["%.2f"] * (_D - 1) + ["%d"], delimiter=",", header=head, comments="")
        stand_in(study, file, key, data, tmp_path / "state" / name, "a test")
        words[name] = ["masquerade_party", str(file), "--data", str(data), "--approved"]
    running, before, after = {}, {}, {}
    for name, more in words.items():
        own = ["--key", str(tmp_path / f"{name}.key"), "--out", str(tmp_path / "runs" / name), "--progress", "json"]
        own += ["--state", str(tmp_path / "state" / name)]
        running[name] = Participant([sys.executable, "-m", *more, *own], tmp_path)
    try:
        for name, process in running.items():  # their records are read by then, and nothing is drawn
            process.wait_for("stage")
            before[name] = _status(process.popen.pid)["VmRSS"]
        while any(process.popen.poll() is None for process in running.values()):
            for name, process in running.items():
                with suppress(OSError, KeyError):  # it has ended
                    after[name] = _status(process.popen.pid)["VmHWM"]
            time.sleep(0.02)
        assert {process.end().code for process in running.values()} == {0}
    finally:
        for process in running.values():
            if process.popen.poll() is None:
                process.kill()
                process.end()
    took = {name: after[name] - before[name] for name in running}
    assert min(took.values()) > 8 * _D**2
    assert max(took.values()) < cost.memory, took
    of_a_party = json.loads((tmp_path / "runs" / "p1" / "result.json").read_text(encoding="utf-8"))["bytes"]
    assert cost.sent + cost.received == pytest.approx(of_a_party, rel=0.005)
    of_charlie = json.loads((tmp_path / "runs" / CHARLIE / "result.json").read_text(encoding="utf-8"))["bytes"]
    assert len(_NAMES) * (cost.sent + cost.received) == pytest.approx(of_charlie, rel=0.005)
