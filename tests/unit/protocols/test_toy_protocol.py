"""A protocol is added by one folder and one registration, and then everything works: CONTRIBUTING's steps, followed.

The toy protocol lives in ``tests/toy_means``. What stands for its distribution is a folder with two files of metadata.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import ROOT

IN_MEMORY = """
import masquerade
from masquerade_protocols import protocol_of
study, _ = masquerade.load_study("study.toml", in_memory=True)
data = masquerade.load_named({name: f"demo/{name}/records.csv" for name in study.names}, study)
run = masquerade.simulate(study, data, seed=1)
clean = protocol_of(study).noiseless(study, data, run.model)
print(run.result["protocol"], len(run.model.weights) == study.d, clean.what)
"""


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the toy's distribution is installed."""
    folder = tmp_path_factory.mktemp("toy")
    metadata = folder / "site" / "toy_means-1.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: toy-means\nVersion: 1\n", encoding="utf-8")
    registration = "[masquerade.protocols]\ntoy-means = tests.toy_means.entry:TOY_MEANS\n"
    (metadata / "entry_points.txt").write_text(registration, encoding="utf-8")
    return folder


def _run(there: Path, *command: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    """Run Python in that folder, with the toy installed."""
    paths = [str(there / "site"), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    ended = subprocess.run(
        [sys.executable, *command], cwd=there, env=env, capture_output=True, text=True, check=False, timeout=500
    )
    assert ended.returncode == code, ended.stderr
    return ended


def _masquerade(there: Path, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    return _run(there, "-m", "masquerade", *arguments, code=code)


@pytest.fixture(scope="module")
def demo(there: Path) -> dict[str, object]:
    """The demo of the toy protocol: Charlie and three parties as processes."""
    ended = _masquerade(there, "demo", "--protocol", "toy-means", "--parties", "3", "--out", "demo", "--format", "json")
    data: dict[str, object] = json.loads(ended.stdout)["data"]
    return data


def test_the_demo_runs_it_between_processes_and_compares(there: Path, demo: dict[str, object]) -> None:
    result = json.loads((there / "demo" / "charlie" / "result.json").read_text(encoding="utf-8"))
    assert result["protocol"] == "toy-means"
    assert result["parties"] == 3
    assert [stage["name"] for stage in result["stages"]][-2:] == ["keys", "sum"]
    assert [row["view"] for row in result["statement"]][:3] == ["released model", "Charlie", "one party"]
    assert "the exact mean" in json.dumps(demo)


def test_it_runs_in_memory(there: Path, demo: dict[str, object]) -> None:
    (there / "study.toml").write_text((there / "demo" / "study.toml").read_text(encoding="utf-8"), encoding="utf-8")
    assert _run(there, "-c", IN_MEMORY).stdout.split(maxsplit=2) == ["toy-means", "True", "the exact mean\n"]


def test_a_study_of_it_is_written_checked_shown_and_stated(there: Path) -> None:
    keys = ("--throwaway-keys", "--party", "north", "--party", "south")
    _masquerade(there, "study", "new", "--protocol", "toy-means", "--output", "new.toml", *keys)
    assert 'protocol = "toy-means"' in (there / "new.toml").read_text(encoding="utf-8")
    _masquerade(there, "study", "check", "new.toml")
    assert "the sum of your records" in " ".join(_masquerade(there, "study", "show", "new.toml").stderr.split())
    stated = json.loads(_masquerade(there, "statement", "new.toml", "--format", "json").stdout)
    assert "one Gaussian release" in json.dumps(stated)


def test_the_doctor_prices_it(there: Path) -> None:
    keys = ("--throwaway-keys", "--party", "north", "--party", "south", "--address", "tcp://127.0.0.1:9")
    _masquerade(there, "study", "new", "--protocol", "toy-means", "--output", "doctor.toml", *keys)
    found = json.loads(_masquerade(there, "doctor", "doctor.toml", "--format", "json").stdout)
    checks = {check["name"]: check for check in found["data"]["checks"]}
    assert checks["study"]["message"].startswith("toy-means, 2 parties")
    assert "exponentiation" in checks["arithmetic"]["message"]


def test_without_the_registration_nobody_knows_it(there: Path, tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    said = _masquerade(
        tmp_path,
        "study",
        "new",
        "--protocol",
        "toy-means",
        "--output",
        "new.toml",
        "--party",
        "a",
        "--party",
        "b",
        code=4,
    )
    assert "toy-means" in said.stderr
