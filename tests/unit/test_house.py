"""The house itself: import contracts that break when they should, bans that bite, pins without a registry."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PACKAGES: list[str] = PROJECT["tool"]["importlinter"]["root_packages"]


def _contracts(house: Path, **imports: str) -> str:
    """Lay out the six packages in ``house``, each with the given import, and ask import-linter."""
    for package in PACKAGES:
        (house / package).mkdir()
        (house / package / "__init__.py").write_text(imports.get(package, "") + "\n")
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
    assert "2 kept, 0 broken" in said


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


def _pins(name: str) -> dict[str, str]:
    """Name and exact version of each requirement, all of which must carry a hash."""
    text = (ROOT / name).read_text()
    blocks = re.findall(r"^([a-z0-9-]+)==(\S+)(.*(?:\n +--hash=sha256:[0-9a-f]{64}.*)*)", text, re.MULTILINE)
    assert len(blocks) == len(re.findall(r"^\w", text, re.MULTILINE)), "a line pins no exact version"
    assert all("--hash=" in rest for _, _, rest in blocks)
    return {pinned: version for pinned, version, _ in blocks}


def test_every_dependency_is_pinned_with_hashes() -> None:
    declared = PROJECT["project"]["dependencies"] + [
        entry for group in PROJECT["dependency-groups"].values() for entry in group if isinstance(entry, str)
    ]
    names = {re.split(r"[\[<>=;]", entry)[0].lower() for entry in declared}
    assert names <= _pins("requirements.txt").keys()


def test_the_image_gets_the_releases_that_the_tests_saw() -> None:
    image = _pins("requirements-run.txt")
    assert image.items() <= _pins("requirements.txt").items()
    assert "pytest" not in image


@pytest.mark.parametrize("name", ["requirements.txt", "requirements-run.txt"])
def test_requirements_name_no_registry(name: str) -> None:
    text = (ROOT / name).read_text()
    assert not re.search(r"https?:|file:|--(extra-)?index|--find-links|--trusted", text)
