"""Contracts that break when they should, and bans that bite: what import-linter and ruff say of a wrong line."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests import ROOT

BIN = Path(sys.executable).parent
LINTER = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
PACKAGES: list[str] = LINTER["root_packages"]
(PARTS,) = (contract["layers"] for contract in LINTER["contracts"] if contract["id"] == "parts")


def _contracts(house: Path, **imports: str) -> str:
    """Lay out all packages, and the modules that contracts name, with the given imports, and ask import-linter."""
    for package in PACKAGES:
        (house / package).mkdir()
        (house / package / "__init__.py").write_text(imports.get(package, "") + "\n")
    for module in ("masquerade_lab.baselines", *(part for layer in PARTS for part in layer.split(" | "))):
        path = house / module.replace(".", "/")  # a contract names it
        path.parent.mkdir(exist_ok=True)
        (path.parent / "__init__.py").touch()
        path.with_suffix(".py").write_text(imports.get(module, "") + "\n")
    command = [f"{BIN}/lint-imports", "--no-cache", "--config", f"{ROOT}/pyproject.toml"]
    done = subprocess.run(
        command, cwd=house, env={"PYTHONPATH": str(house)}, capture_output=True, text=True, check=False
    )
    kept = "0 broken" in done.stdout
    assert kept == (done.returncode == 0), done.stdout + done.stderr
    return done.stdout


def test_contracts_hold_for_imports_that_run_downwards(tmp_path: Path) -> None:
    said = _contracts(
        tmp_path,
        masquerade="import masquerade_party, masquerade_curator, masquerade_protocols, asyncio",
        masquerade_party="import masquerade_protocols, masquerade_host",
        masquerade_host="import masquerade_core, zmq, asyncio",
        masquerade_protocols="import masquerade_core",
    )
    assert "4 kept, 0 broken" in said


@pytest.mark.parametrize(
    ("package", "line"),
    [
        ("masquerade_core", "import masquerade_protocols"),
        ("masquerade_protocols", "import masquerade_host"),
        ("masquerade_host", "import masquerade_protocols"),
        ("masquerade_party", "import masquerade_curator"),
        ("masquerade_curator", "import masquerade_party"),
        ("masquerade_curator", "import masquerade"),
    ],
)
def test_an_import_upwards_or_sideways_breaks_the_floors(tmp_path: Path, package: str, line: str) -> None:
    said = _contracts(tmp_path, **{package: line})
    assert re.search(r"know nothing of each other BROKEN", said)


@pytest.mark.parametrize(
    ("part", "other"),
    [
        ("masquerade_host.channel", "masquerade_host.session.states"),
        ("masquerade_host.session.states", "masquerade_host.session.hop"),
        ("masquerade_host.session.commits", "masquerade_host.session.session"),
        ("masquerade_host.session.admission", "masquerade_host.session.lateness"),
        ("masquerade_host.session.party", "masquerade_host.session.charlie"),
    ],
)
def test_a_part_of_a_session_that_knows_another_one_beside_or_above_it_breaks_the_parts(
    tmp_path: Path, part: str, other: str
) -> None:
    said = _contracts(tmp_path, **{part: f"import {other}"})
    assert re.search(r"parts know neither the session nor each other BROKEN", said)


@pytest.mark.parametrize("package", ["masquerade_core", "masquerade_protocols"])
@pytest.mark.parametrize("module", ["asyncio", "socket", "zmq"])
def test_a_socket_or_event_loop_breaks_sans_io(tmp_path: Path, package: str, module: str) -> None:
    said = _contracts(tmp_path, **{package: f"import {module}"})
    assert re.search(r"know a socket or an event loop BROKEN", said)


def test_sans_io_follows_imports_through_our_own_packages(tmp_path: Path) -> None:
    said = _contracts(
        tmp_path, masquerade_protocols="import masquerade_host", masquerade_host="import masquerade_core, zmq"
    )
    assert "masquerade_protocols is not allowed to import zmq" in said


@pytest.mark.parametrize(
    "line",
    [
        "import os",
        "import random",
        "import secrets",
        "import time",
        "from numpy.random import default_rng",
        "import numpy as np; np.random.default_rng()",
    ],
)
def test_protocols_may_not_reach_for_machine_clock_or_chance(line: str) -> None:
    done = subprocess.run(
        [BIN / "ruff", "check", "--select", "TID251", "--stdin-filename", "protocols/masquerade_protocols/x.py", "-"],
        cwd=ROOT,
        input=line,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "TID251" in done.stdout
