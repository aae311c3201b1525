"""The installation: dependencies that are used, extras that may be missing, a citation that is true."""

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from masquerade_core import __version__
from masquerade_core.errors import BadInput
from masquerade_lab.audit.plot import plot
from tests import ROOT
from tests.face_helpers import Shell
from tests.messages import raises, sentence
from tests.trees import nodes

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PACKAGES = [ROOT / package for package in PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]]
EXTRAS: dict[str, list[str]] = PROJECT["project"]["optional-dependencies"]
GROUPS: dict[str, list[str]] = PROJECT["dependency-groups"]
PINS = ("requirements.txt", "requirements-run.txt", "requirements-test.txt", "requirements-check.txt")

# A distribution whose modules have another name than it has.
MODULES = {
    "adbc-driver-postgresql": {"adbc_driver_postgresql"},
    "prometheus-client": {"prometheus_client"},
    "pynacl": {"nacl"},
    "pyzmq": {"zmq"},
    "scikit-learn": {"sklearn"},
    "pydantic": {"pydantic", "pydantic_core"},
}


def _name(requirement: str) -> str:
    return re.split(r"[\[<>=;]", requirement)[0]


def _modules(requirements: list[str]) -> dict[str, set[str]]:
    return {name: MODULES.get(name, {name}) for name in map(_name, requirements)}


def _imported(tree: ast.AST) -> set[str]:
    """Top-level names of the modules that a file imports, or names in a call of import_module."""
    found = set()
    for node in nodes(tree):
        match node:
            case ast.Import(names=names):
                found |= {alias.name.partition(".")[0] for alias in names}
            case ast.ImportFrom(module=str(module)):
                found.add(module.partition(".")[0])
            case ast.Call(
                func=ast.Attribute(attr="import_module") | ast.Name(id="import_module"),
                args=[ast.Constant(str(module))],
            ):
                found.add(module.partition(".")[0])
    return found


@pytest.fixture(scope="module")
def imported() -> set[str]:
    """Whatever the wheel's own modules import that is neither Python's nor ours."""
    files = [path for package in PACKAGES for path in package.rglob("*.py")]
    assert len(files) > 100
    found = set().union(*(_imported(ast.parse(path.read_text(encoding="utf-8"))) for path in files))
    newer = {"compression"}  # of Python 3.14's own library; it is looked for, and not needed
    return found - sys.stdlib_module_names - newer - {package.name for package in PACKAGES}


def test_each_dependency_is_imported_somewhere(imported: set[str]) -> None:
    wanted = _modules(PROJECT["project"]["dependencies"] + [entry for extra in EXTRAS.values() for entry in extra])
    assert [name for name, modules in wanted.items() if not modules & imported] == []


def test_each_import_is_a_dependency(imported: set[str]) -> None:
    wanted = _modules(PROJECT["project"]["dependencies"] + [entry for extra in EXTRAS.values() for entry in extra])
    assert imported - set().union(*wanted.values()) == set()


def test_each_dependency_says_the_lowest_release_that_works_and_no_highest() -> None:
    wanted = PROJECT["project"]["dependencies"] + [entry for extra in EXTRAS.values() for entry in extra]
    assert [entry for entry in wanted if not re.fullmatch(r"[a-z0-9-]+>=\d+(\.\d+)*", entry)] == []


@pytest.mark.parametrize("extra", sorted(EXTRAS))
def test_tests_get_each_extra_in_the_same_words(extra: str) -> None:
    assert set(EXTRAS[extra]) <= {*GROUPS["test"], *GROUPS["extras"]}


def test_extras_are_not_in_what_the_program_needs() -> None:
    pinned = re.findall(r"^([a-z0-9-]+)==", (ROOT / "requirements-run.txt").read_text(encoding="utf-8"), re.MULTILINE)
    assert {_name(entry) for extra in EXTRAS.values() for entry in extra} & set(pinned) == set()
    assert {_name(entry) for entry in PROJECT["project"]["dependencies"]} <= set(pinned)


@pytest.mark.parametrize("name", PINS)
def test_pins_tell_neither_where_nor_when_they_were_found(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    assert re.findall(r"://|upload|\d{4}-\d\d-\d\dT", text) == []


@pytest.mark.parametrize(
    ("target", "installed"),
    [
        ("demo", ["requirements-run.txt"]),
        ("audit", ["requirements-run.txt"]),
        ("test", ["requirements-run.txt", "requirements-test.txt"]),
        ("test-system", ["requirements-run.txt", "requirements-test.txt"]),
        ("test-timing", ["requirements-run.txt", "requirements-test.txt"]),
        ("check", ["requirements-run.txt", "requirements-check.txt"]),
        ("test-extras", ["requirements-run.txt", "requirements.txt"]),
    ],
)
def test_a_target_installs_what_it_needs_and_no_more(target: str, installed: list[str]) -> None:
    command = ["make", "--dry-run", "--always-make", target]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert re.findall(r"--require-hashes -r (\S+)", done.stdout) == installed


def test_each_python_of_the_classifiers_is_tried_with_the_wheel() -> None:
    tried = re.search(r"^pythons=\((.*)\)$", (ROOT / ".ci" / "wheel").read_text(encoding="utf-8"), re.MULTILINE)
    assert tried is not None
    prefix = "Programming Language :: Python :: 3."
    named = {entry.rpartition(" ")[2] for entry in PROJECT["project"]["classifiers"] if entry.startswith(prefix)}
    assert named
    assert named <= set(tried[1].split())


def test_a_picture_without_matplotlib_is_refused_before_any_audit_runs(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError("audits ran, though nothing can draw them")

    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setattr("masquerade_lab.audit.run", never)
    answer = Shell(capsys)("audit", "--quick", "--plot", tmp_path / "audit.svg", "--format", "json")
    assert answer.code == 4
    assert answer.json["message"] == sentence("needs_matplotlib")
    assert answer.json["hint"] == sentence("install_matplotlib")


def test_plot_itself_refuses_without_matplotlib(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with raises(BadInput, "needs_matplotlib"):
        plot([], tmp_path / "audit.svg")


def test_the_image_s_label_has_this_release() -> None:
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    assert re.findall(r"^ARG VERSION=(.*)$", text, re.MULTILINE) == [__version__]
    assert f'org.opencontainers.image.licenses="{PROJECT["project"]["license"]}"' in text


def test_the_citation_has_this_release_and_the_five_papers() -> None:
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    said = dict(re.findall(r"^([a-z-]+): (.+)$", text, re.MULTILINE))
    assert said["cff-version"] == "1.2.0"
    assert said["version"] == __version__
    assert said["license"] == PROJECT["project"]["license"]
    assert [author["name"] for author in PROJECT["project"]["authors"]] == re.findall(
        r"^  - name: (.+)$", text, re.MULTILINE
    )
    first = re.findall(r"authors:\n      - family-names: (\w+)", text)
    assert sorted(first) == ["Bixler", "Hamm", "Kang", "Pathak", "Rajkumar"]
    for url in re.findall(r"^    url: (\S+)$", text, re.MULTILINE):
        assert url in PROJECT["project"]["urls"].values()
