"""The house itself: pins without a registry, its map. tests/extras/test_contracts.py has its contracts and bans."""

import importlib
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import ROOT
from tests.pages import Page, defined_tests

BIN = Path(sys.executable).parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PACKAGES: list[str] = PROJECT["tool"]["importlinter"]["root_packages"]


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


@pytest.mark.parametrize("name", ["requirements-run.txt", "requirements-test.txt", "requirements-check.txt"])
def test_a_part_of_the_environment_has_the_releases_of_the_whole(name: str) -> None:
    assert _pins(name).items() <= _pins("requirements.txt").items()


def test_the_image_has_no_tools() -> None:
    assert "pytest" not in _pins("requirements-run.txt")


@pytest.mark.parametrize("group", ["test", "check"])
def test_a_part_of_the_environment_has_its_group_and_no_heavy_library(group: str) -> None:
    pinned = _pins(f"requirements-{group}.txt").keys()
    groups = {
        name: {re.split(r"[\[<>=;]", e)[0] for e in PROJECT["dependency-groups"][name]} for name in (group, "extras")
    }
    assert groups[group] <= pinned
    assert (groups["extras"] - groups[group]) & pinned == set()


@pytest.mark.parametrize(
    "name", ["requirements.txt", "requirements-run.txt", "requirements-test.txt", "requirements-check.txt"]
)
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
        ("masquerade_core.wire.codec", ("Message", "SealedMessage")),
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
    example = (ROOT / "tests" / "unit" / "protocols" / "test_toy_protocol.py").read_text(encoding="utf-8")
    assert "masquerade.protocols" in example
    assert '[project.entry-points."masquerade.protocols"]' in CONTRIBUTING.text
    assert {path.name for path in (ROOT / "tests" / "toy_means").glob("*.py")} == {
        "__init__.py",
        *re.findall(r"^\*\*\d\. `(\w+\.py)`", CONTRIBUTING.text, flags=re.MULTILINE),
    }


def test_contributing_names_tests_and_files_that_exist() -> None:
    assert CONTRIBUTING.tests <= defined_tests()
    assert CONTRIBUTING.broken_links == []
