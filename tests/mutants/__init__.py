"""Bugs in the program, each with the tests that must show it: a net under every change of the code's shape.

``mutants.toml`` is the list. A mutant is (symbol, old, new): ``old`` occurs once in the source of ``symbol``, and is
exchanged for ``new``. A change that moves code changes the symbol alone. ``old`` and ``new`` say what the tests must
see, and stay. Three kinds of mutants stand in the list:

* *drawn*: by :mod:`tests.mutants.draw` over all statements of the core, the protocols and the host;
* *mended*: a defect that the program once had, or one that CONTRIBUTING names, planted again;
* *process*: a run between processes that :mod:`tests.oracle_cases` names must show it.

A draw that no test can show is *replaced* by the next one; it stands in the list with the reason.
``python -m tests.mutants`` runs the list, and ``make test`` checks that each mutant can still be planted.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tests import ROOT
from tests.trees import statements

__all__ = ["FILE", "MUTANTS", "PACKAGES", "REPLACED", "ROOT", "Mutant", "place_of", "span_of"]

PACKAGES = ("src", "parties", "curator", "protocols")
FILE = Path(__file__).with_name("mutants.toml")


@dataclass(frozen=True)
class Mutant:
    """One bug.

    Parameters
    ----------
    what : str
        What is wrong.
    kind : str
        ``drawn``, ``mended`` or ``process``.
    symbol : str
        The module, a colon, and the name of a function, a class or a constant in it: ``package.module:Class.method``.
    old, new : str
        The text that is exchanged; ``old`` occurs once in the symbol's source.
    tests : tuple of str
        The tests that must fail, as pytest names them. For the kind ``process``: the case of ``tests.oracle_cases``.
    """

    what: str
    kind: str
    symbol: str
    old: str
    new: str
    tests: tuple[str, ...]

    def planted(self, root: Path = ROOT) -> tuple[Path, str]:
        """Return the symbol's file below ``root``, and its text with the bug."""
        path = place_of(self.symbol, root)
        text = path.read_text(encoding="utf-8")
        begin, end = span_of(self.symbol, text)
        source = text[begin:end]
        assert source.count(self.old) == 1, (
            f"{self.what}: {self.symbol} has {self.old!r} {source.count(self.old)} times"
        )
        return path, text[:begin] + source.replace(self.old, self.new) + text[end:]


def place_of(symbol: str, root: Path = ROOT) -> Path:
    """Return the file of a symbol's module."""
    module = symbol.partition(":")[0].replace(".", "/")
    found = [
        path
        for package in PACKAGES
        for path in (root / package / f"{module}.py", root / package / module / "__init__.py")
        if path.exists()
    ]
    assert len(found) == 1, f"{symbol}: no such module"
    return found[0]


def span_of(symbol: str, text: str) -> tuple[int, int]:
    """Return where the source of a symbol begins and ends in its module's text, decorators included."""
    spans, name = _spans(text), symbol.partition(":")[2]
    for end in [*(place.start() for place in re.finditer(r"\.", name)), len(name)]:
        found = spans.get(name[:end], [])
        assert len(found) == 1, f"{symbol}: {name[:end]} is defined {len(found)} times"
    return spans[name][0]


@cache
def _spans(text: str) -> dict[str, list[tuple[int, int]]]:
    """Return where the source of each symbol of a module begins and ends; many mutants are in the same module."""
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    found: dict[str, list[tuple[int, int]]] = {}
    todo: list[tuple[ast.AST, str]] = [(ast.parse(text), "")]
    while todo:
        outer, above = todo.pop()
        for node in _inner(outer):
            for name in _names(node):
                first = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", ()))])  # type: ignore[attr-defined]  # a definition has lines
                found.setdefault(above + name, []).append((starts[first - 1], starts[node.end_lineno]))  # type: ignore[attr-defined]  # a definition has lines
                todo.append((node, f"{above}{name}."))
    return found


def _names(node: ast.AST) -> tuple[str, ...]:
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return (node.name,)
        case ast.Assign():
            return tuple(each.id for each in node.targets if isinstance(each, ast.Name))
        case ast.AnnAssign(target=ast.Name(id=name)):
            return (name,)
    return ()


def _inner(outer: ast.AST) -> Iterator[ast.AST]:
    """Yield the statements in ``outer`` itself, and in no function or class within it."""
    for node in statements(outer):
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield from _inner(node)


def _read(content: dict[str, Any]) -> tuple[Mutant, ...]:
    return tuple(
        Mutant(each["what"], each["kind"], each["symbol"], each["old"], each["new"], tuple(each["tests"]))
        for each in content["mutant"]
    )


_CONTENT = tomllib.loads(FILE.read_text(encoding="utf-8"))
MUTANTS = _read(_CONTENT)
REPLACED: tuple[dict[str, str], ...] = tuple(_CONTENT["replaced"])
