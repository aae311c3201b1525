"""The house itself: contracts that break when they should, bans that bite, pins without a registry, its map."""

import importlib
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.pages import Page, defined_tests

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PACKAGES: list[str] = PROJECT["tool"]["importlinter"]["root_packages"]


def _contracts(house: Path, **imports: str) -> str:
    """Lay out all packages in ``house``, each with the given import, and ask import-linter."""
    for package in PACKAGES:
        (house / package).mkdir()
        (house / package / "__init__.py").write_text(imports.get(package, "") + "\n")
    (house / "masquerade_lab" / "baselines.py").touch()  # a contract names it
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
    assert "3 kept, 0 broken" in said


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


# --- CONTRIBUTING ----------------------------------------------------------------

CONTRIBUTING = Page("CONTRIBUTING.md")


def _mapped() -> Iterator[Path]:
    """Every path in the map of the tree; an indented line is about what lies in the last line without indent."""
    (drawn,) = re.findall(r"```text\n(.*?)```", CONTRIBUTING.text, flags=re.DOTALL)
    above = ROOT
    for line in drawn.splitlines():
        names = re.split(r"\s{3,}", line.strip())[0].split()
        if not line.startswith(" "):
            above = ROOT / names[0]
            yield from (ROOT / name for name in names)
        else:
            yield from (above / name for name in names)


def test_the_map_of_the_tree_is_the_tree() -> None:
    mapped = list(_mapped())
    assert len(mapped) > 20
    assert [path for path in mapped if not path.exists()] == []


def test_every_package_and_every_protocol_stands_on_the_map() -> None:
    mapped = set(_mapped())
    packages = [ROOT / path for path in PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]]
    assert [path for path in packages if path not in mapped] == []
    folders = [path.parent.name for path in (ROOT / "protocols" / "masquerade_protocols").glob("*/roles.py")]
    assert [name for name in folders if f"{name}/" not in CONTRIBUTING.text] == []


@pytest.mark.parametrize(
    ("module", "names"),
    [
        ("masquerade_protocols.blocks.descent", ("join_and_count",)),
        ("masquerade_protocols.blocks.secure_sum", ("PartySums.open_sum", "CharlieSums.open_sum")),
        ("masquerade_core.privacy.statement", ("Claim", "Rows", "SharedNoiseRows")),
        ("masquerade_core.wire.messages", ("Message", "SealedMessage")),
        ("masquerade_core.seat", ("Seat.once", "Seat.release")),
        ("masquerade_protocols.entry", ("Protocol",)),
        ("masquerade_core.privacy.noise.output_perturbation", ("paper_scale",)),
        ("masquerade_core.words", ("counted",)),
    ],
)
def test_what_contributing_names_is_there(module: str, names: tuple[str, ...]) -> None:
    for name in names:
        assert name.rpartition(".")[2] in CONTRIBUTING.text
        found = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)


def test_contributing_registers_a_protocol_as_its_example_does() -> None:
    example = (ROOT / "tests" / "unit" / "test_toy_protocol.py").read_text(encoding="utf-8")
    assert "masquerade.protocols" in example
    assert '[project.entry-points."masquerade.protocols"]' in CONTRIBUTING.text
    assert {path.name for path in (ROOT / "tests" / "toy_means").glob("*.py")} == {
        "__init__.py",
        *re.findall(r"^\*\*\d\. `(\w+\.py)`", CONTRIBUTING.text, flags=re.MULTILINE),
    }


def test_contributing_names_tests_and_files_that_exist() -> None:
    assert CONTRIBUTING.tests <= defined_tests()
    assert CONTRIBUTING.broken_links == []
