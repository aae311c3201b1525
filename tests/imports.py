"""Which module of this program imports which: when it is loaded, or later, in a function or by a name in a string."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests import ROOT

__all__ = ["MODULES", "ROOT", "SOURCES", "Imports", "closure_of", "imports_in", "module_of", "modules_of"]

SOURCES = tuple(ROOT / name for name in ("src", "parties", "curator", "protocols"))


def module_of(path: Path, source: Path) -> str:
    """Return the dotted name of a module's file below a folder of packages."""
    parts = path.relative_to(source).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES: Mapping[str, Path] = {
    module_of(path, source): path for source in SOURCES for path in sorted(source.rglob("*.py"))
}
"""Every module of this program by its dotted name."""


@dataclass(frozen=True)
class Imports:
    """The imports of this program in a module.

    Attributes
    ----------
    at_once : frozenset of str
        The modules that are loaded with it, their packages included.
    late : frozenset of str
        Those that one of its functions imports, or that a string of it names.
    others : frozenset of str
        The top packages of other distributions and of Python that are loaded with it.
    """

    at_once: frozenset[str]
    late: frozenset[str]
    others: frozenset[str]


def imports_in(name: str, text: str, known: Collection[str] = MODULES) -> Imports:
    """Return what a module of this name and text imports; ``known`` are this program's modules.

    A string that stands alone is an explanation. An import under ``if TYPE_CHECKING`` is for readers of types alone.
    """
    tree = ast.parse(text)
    is_package = MODULES.get(name, Path()).name == "__init__.py"
    at_once, late, others = set(_packages(name)), set[str](), set[str]()
    for node, in_function in _nodes(tree, in_function=False):
        found = set(_imported(node, known))
        (late if in_function else at_once).update(found)
        if not in_function:
            others.update(_top(node))
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            late.update(_named(node.value, name if is_package else "", known))
    at_once.update(package for module in tuple(at_once) for package in _packages(module))
    return Imports(
        frozenset(at_once & set(known)) - {name},
        frozenset(late) - {name},
        frozenset(top for top in others if not top.startswith("masquerade")),
    )


def _nodes(node: ast.AST, *, in_function: bool) -> Iterator[tuple[ast.AST, bool]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant):
            continue
        if isinstance(child, ast.If) and isinstance(child.test, ast.Name) and child.test.id == "TYPE_CHECKING":
            continue
        yield child, in_function
        inner = in_function or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        yield from _nodes(child, in_function=inner)


def _imported(node: ast.AST, known: Collection[str]) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names if alias.name in known)
    elif isinstance(node, ast.ImportFrom) and node.module is not None:
        for alias in node.names:
            inner = f"{node.module}.{alias.name}"
            yield from (each for each in (inner if inner in known else node.module,) if each in known)


def _top(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name.partition(".")[0] for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module is not None:
        yield node.module.partition(".")[0]


def _named(text: str, package: str, known: Collection[str]) -> Iterator[str]:
    """Yield the module that a string names: whole, or below a package; what follows a colon is a name in it."""
    place = text.partition(":")[0]
    for each in (place, f"masquerade_protocols.{place}" if ":" in text else "", f"{package}.{place}"):
        if each in known and "." in each:
            yield each


def _packages(module: str) -> Iterator[str]:
    while "." in module:
        module = module.rpartition(".")[0]
        yield module


@cache
def modules_of(name: str) -> Imports:
    """Return what a module of this program imports."""
    return imports_in(name, MODULES[name].read_text(encoding="utf-8"))


def closure_of(*starts: str) -> frozenset[str]:
    """Return all modules that are loaded with these."""
    found: set[str] = set()
    todo = list(starts)
    while todo:
        name = todo.pop()
        if name not in found:
            found.add(name)
            todo += modules_of(name).at_once
    return frozenset(found)
