"""The tree: no circle of imports, no protocol that leans on another, four files each."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests import ROOT
from tests.trees import nodes

SOURCES = [ROOT / "src", ROOT / "parties", ROOT / "curator", ROOT / "protocols"]
PROTOCOLS = ROOT / "protocols" / "masquerade_protocols"
FOLDERS = {
    "dp_gd",
    "dp_whitened",
    "local_aggregation",
    "psgd",
    "weighted_dp",
    "voting",
    "input_noise",
    "summary",
    "evaluation",
}
ROLES_BEGIN = 200  # the line by which a conversation has begun

Graph = dict[str, set[str]]


def _modules() -> dict[str, Path]:
    """Every shipped module by its dotted name."""
    found = {}
    for source in SOURCES:
        for path in source.rglob("*.py"):
            parts = path.relative_to(source).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = _modules()


@cache
def _telling(path: Path) -> tuple[ast.AST, ...]:
    """The imports and the constants in a module; a constant that stands alone is an explanation, and left out."""
    found = nodes(ast.parse(path.read_text(encoding="utf-8")))
    explained = {node.value for node in found if isinstance(node, ast.Expr)}
    kinds = (ast.Import, ast.ImportFrom, ast.Constant)
    return tuple(node for node in found if isinstance(node, kinds) and node not in explained)


def _imported(path: Path, known: dict[str, Path]) -> Iterator[str]:
    """The imports of ``known`` in a module, anywhere in its text."""
    for node in _telling(path):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                name = inner if inner in known else node.module
                if name in known:
                    yield name


def _graph(known: dict[str, Path]) -> Graph:
    return {name: set(_imported(path, known)) for name, path in known.items()}


@cache
def _program() -> Graph:
    return _graph(MODULES)


def _circle(graph: Graph) -> list[str]:
    """Return a circle of imports, if there is any."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        found: list[str] = error.args[1]
        return found
    return []


def test_no_imports_run_in_a_circle() -> None:
    assert _circle(_program()) == []


def test_a_circle_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("import b\n", encoding="utf-8")
    (tmp_path / "b.py").write_text("def late() -> None:\n    from a import x\n", encoding="utf-8")
    assert len(_circle(_graph({"a": tmp_path / "a.py", "b": tmp_path / "b.py"}))) == 3  # a, b and a again


LABORATORY = "masquerade_lab"
DOORS = {
    "masquerade.cli.app": ["masquerade_lab.commands.reproduce:reproduce", "masquerade_lab.commands.audit:audit"],
    "masquerade_protocols.registry": ["masquerade_lab"],
}
"""Who below the laboratory names a part of it, in a string, and which part."""


def _named_of(package: str, path: Path) -> list[str]:
    """A module's imports of a package, and its strings with the name; a string alone is an explanation."""
    named = []
    for node in _telling(path):
        if isinstance(node, ast.Import):
            named += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            named.append(node.module)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            named.append(node.value)
    return [name for name in named if package in name]


def test_nothing_below_the_laboratory_imports_it_or_names_it_but_at_two_doors() -> None:
    below = {name: _named_of(LABORATORY, path) for name, path in MODULES.items() if name.split(".")[0] != LABORATORY}
    assert {name: named for name, named in below.items() if named} == DOORS


@pytest.mark.parametrize(
    "code",
    [
        "import masquerade_lab.audit",
        "def late() -> None:\n    from masquerade_lab.reproduce import PAPERS",
        'find = import_module("masquerade_lab")',
        'place = f"masquerade_lab.{name}"',
    ],
)
def test_an_import_of_the_laboratory_is_found_wherever_it_stands(tmp_path: Path, code: str) -> None:
    (tmp_path / "a.py").write_text(f'"""As masquerade_lab does."""\n{code}\n', encoding="utf-8")
    assert len(_named_of(LABORATORY, tmp_path / "a.py")) == 1


def test_the_engine_of_reproductions_knows_no_paper() -> None:
    engine = f"{LABORATORY}.reproduce.engine"
    used = {name: imports for name, imports in _program().items() if name.startswith(engine)}
    assert len(used) > 1  # the folder is where this test looks for it
    inside = {name for imports in used.values() for name in imports if name.startswith(LABORATORY)}
    assert [name for name in inside if not name.startswith(engine)] == []


def test_no_protocol_leans_on_another() -> None:
    leaning = []
    for name, imports in _program().items():
        own = name.split(".")
        protocol = own[0] == "masquerade_protocols" and own[-1] != "registry"
        if len(own) > 2 and (protocol or own[1] == "baselines"):
            others = {i.split(".")[1] for i in imports if i.startswith("masquerade_protocols.") and i.count(".") > 1}
            leaning += [(name, other) for other in others & FOLDERS if other != own[1]]
    assert leaning == []


def test_blocks_serve_more_than_one() -> None:
    """A block that one protocol alone uses belongs into that protocol's folder."""
    graph = _program()
    for block in (name for name in MODULES if name.startswith("masquerade_protocols.blocks.")):
        users = {name.split(".")[1] for name, imports in graph.items() if block in imports}
        assert "blocks" in users or len(users) > 1, block


@pytest.mark.parametrize("folder", sorted(FOLDERS))
def test_each_protocol_is_a_folder_of_four_files(folder: str) -> None:
    for name in ("roles", "statement", "entry", "noiseless"):
        assert (PROTOCOLS / folder / f"{name}.py").exists(), f"{folder}/{name}.py"


@pytest.mark.parametrize("folder", sorted(FOLDERS))
def test_a_reader_meets_the_conversation_within_two_hundred_lines(folder: str) -> None:
    lines = (PROTOCOLS / folder / "roles.py").read_text(encoding="utf-8").splitlines()
    begins = next(number for number, line in enumerate(lines, 1) if line.startswith("async def "))
    assert begins <= ROLES_BEGIN
    assert sum(line.startswith(("async def party", "async def charlie")) for line in lines) == 2
