"""Machines whose linear algebra gives other last bits agree on every number that dp-whitened goes on from."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest

from masquerade_core.study import CHARLIE, Feature, Study
from tests.processes import Machines

_D = 24
_RECORDS = 80

MACHINES: Mapping[str, Mapping[str, str]] = {
    CHARLIE: {"OPENBLAS_CORETYPE": "Haswell"},
    "p1": {"OPENBLAS_CORETYPE": "Prescott"},
    "p2": {"OPENBLAS_CORETYPE": "Nehalem"},
    "p3": {"NPY_DISABLE_CPU_FEATURES": "X86_V3 X86_V4", "OPENBLAS_CORETYPE": "Prescott"},
}

_EIGENVECTORS = """
import numpy as np
X = np.random.default_rng(0).normal(size=(500, 24))
values, vectors = np.linalg.eigh(X.T @ X)
print(((vectors / np.sqrt(values)) @ vectors.T).tobytes().hex())
"""


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[Machines]:
    """Three parties with 80 records of 24 columns each, and so much epsilon that there are gradients."""
    machines = Machines.new(tmp_path)
    rng = np.random.default_rng(7)
    names = [f"x{j}" for j in range(_D)]
    features = tuple(Feature(name=name, min=-1.0, max=1.0) for name in names)
    study = machines.study
    changes = {
        "study": study.study.model_copy(update={"protocol": "dp-whitened"}),
        "privacy": study.privacy.model_copy(update={"epsilon": 30.0, "delta": 1e-3, "calibration": "proven"}),
        "protocol": {},
        "features": features,
    }
    machines.study = Study.parse(study.model_copy(update=changes).to_toml())
    machines.write_study()
    for name in (*study.names, "test"):
        X = np.clip(0.3 + 0.2 * rng.normal(size=(_RECORDS, _D)), -1, 1)
        rows = [",".join(f"{x:.6f}" for x in row) + f",{int(row[0] + row[1] > 0.6)}" for row in X]
        (tmp_path / f"{name}.csv").write_text("\n".join([",".join([*names, "y"]), *rows]) + "\n")
    yield machines
    machines.close()


def _last_bits(env: Mapping[str, str]) -> str:
    command = [sys.executable, "-c", _EIGENVECTORS]
    return subprocess.run(command, env={**os.environ, **env}, capture_output=True, text=True, check=True).stdout


def test_machines_with_other_last_bits_agree_on_one_model(machines: Machines) -> None:
    if len({_last_bits(env) for env in MACHINES.values()}) < 2:
        pytest.fail("this machine's linear algebra knows one kind of processor only, so the test shows nothing")
    running = {name: machines.start(name, env=env) for name, env in MACHINES.items()}
    for name, participant in running.items():
        ended = participant.end()
        assert ended.code == 0, (name, ended.stderr)
    models = {name: json.loads((machines.out(name) / "model.json").read_text()) for name in MACHINES}
    assert models[CHARLIE]["offset"]
    assert all(model == models[CHARLIE] for model in models.values())
