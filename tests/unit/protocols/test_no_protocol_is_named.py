"""The program asks a protocol's entry: outside the laboratory and one folder no string is a protocol's name.

The laboratory and ``estimators/`` speak of particular protocols: the latter has a class for each.
Everything else has to work with a protocol that nobody has written yet.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from masquerade_protocols import BASELINES, PROTOCOLS
from tests import ROOT

FOLDERS = ("src/masquerade", "src/masquerade_core", "src/masquerade_host", "parties", "curator")
SPEAK_OF_SOME = {"estimators"}

NAMES = frozenset(PROTOCOLS) | frozenset(BASELINES)
WORDS = frozenset({"average", "batch", "individual", "pooled", "soft", "summary", "vote"})
"""Names that are words of English as well: inside a sentence they may stand."""

INSIDE = re.compile(rf"(?<![\w./-])({'|'.join(sorted(NAMES - WORDS, key=len, reverse=True))})(?![\w/-]|\.\w)")


def _docstrings(tree: ast.AST) -> set[ast.AST]:
    """Return every string that stands alone: what explains a module, a class, a function or a constant."""
    return {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}


def named_in(source: str) -> list[tuple[int, str]]:
    """Return the line and the name wherever a string of the source is a protocol's name, or has one as a word."""
    tree = ast.parse(source)
    explained = _docstrings(tree)
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in explained:
            names = {node.value} & NAMES or set(INSIDE.findall(node.value))
            found += [(node.lineno, name) for name in sorted(names)]
    return found


def _modules() -> Iterator[Path]:
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            if not SPEAK_OF_SOME & set(path.relative_to(ROOT).parts):
                yield path


def test_no_module_of_the_program_names_a_protocol() -> None:
    modules = list(_modules())
    assert len(modules) > 50  # the folders are where this test looks for them
    found = [f"{path.relative_to(ROOT)}:{line} {name}" for path in modules for line, name in named_in(path.read_text())]
    assert not found, "ask the protocol's entry instead, or masquerade_protocols.DEFAULT_PROTOCOL"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ('if protocol == "dp-gd":\n    pass', [(1, "dp-gd")]),
        ('x = {"soft": 1}', [(1, "soft")]),
        ('def f(p="psgd"): ...', [(1, "psgd")]),
        ('x = f"choose {y}, or the protocol weighted-dp"', [(1, "weighted-dp")]),
        ('help = "vote and soft learn from them"', []),  # words of English
        ('"""How ``dp-gd`` does it."""\nX = 1\n"""Of dp-gd."""', []),  # explanations
        ('where = "docs/privacy/dp-gd.md"', []),  # a page's name
        ('x = "dp_gd"', []),
    ],
)
def test_names_are_found_in_strings_and_not_in_explanations(source: str, expected: list[tuple[int, str]]) -> None:
    assert named_in(source) == expected
