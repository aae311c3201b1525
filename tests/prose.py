"""Count the tests that compare prose: ``python -m tests.prose`` prints the share, and the files that have most of them.

A test compares prose if one of its assertions has a literal with three words in a row, or if it expects an error by
``match=``. Such a test fails when a sentence is reworded. :mod:`tests.messages` has the one table of sentences instead.
"""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests import ROOT
from tests.trees import nodes, statements

_WORDS = re.compile(r"\b[a-z']+ [a-z']+ [a-z']+\b", re.IGNORECASE)


def compares_prose(test: ast.AST, text: str) -> bool:
    """Say whether a test compares prose; ``text`` is its source, or more."""
    if "match" in text and any(isinstance(node, ast.keyword) and node.arg == "match" for node in nodes(test)):
        return True
    for statement in _within(test):
        if isinstance(statement, ast.Assert):
            found = (n.value for n in nodes(statement.test) if isinstance(n, ast.Constant) and isinstance(n.value, str))
            if any(map(_WORDS.search, found)):
                return True
    return False


def _within(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a statement, and those within it."""
    yield node
    for inner in statements(node):
        yield from _within(inner)


def count() -> tuple[Counter[Path], Counter[Path]]:
    """Return how many tests each file has, and how many of them compare prose."""
    tests: Counter[Path] = Counter()
    prose: Counter[Path] = Counter()
    for path in sorted((ROOT / "tests").rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        lines = text.splitlines()
        for node in _within(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                tests[path] += 1
                prose[path] += compares_prose(node, "\n".join(lines[node.lineno - 1 : node.end_lineno]))
    return tests, prose


if __name__ == "__main__":
    all_tests, of_prose = count()
    for path, number in of_prose.most_common():
        if number:
            print(f"{number:4} of {all_tests[path]:4} {path.relative_to(ROOT)}")  # noqa: T201
    some, every = of_prose.total(), all_tests.total()
    print(f"{some} of {every} tests compare prose: {some / every:.1%}")  # noqa: T201
