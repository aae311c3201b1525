"""Count the tests that compare prose: ``python -m tests.prose`` prints the share, and the files that have most of them.

A test compares prose if one of its assertions has a literal with three words in a row, or if it expects an error by
``match=``. Such a test fails when a sentence is reworded. :mod:`tests.messages` has the one table of sentences instead.
"""

import ast
import re
from collections import Counter
from pathlib import Path

from tests import ROOT

_WORDS = re.compile(r"\b[a-z']+ [a-z']+ [a-z']+\b", re.IGNORECASE)


def compares_prose(test: ast.AST) -> bool:
    """Say whether a test compares prose."""
    for node in ast.walk(test):
        if isinstance(node, ast.keyword) and node.arg == "match":
            return True
        if isinstance(node, ast.Assert):
            texts = (n.value for n in ast.walk(node.test) if isinstance(n, ast.Constant) and isinstance(n.value, str))
            if any(map(_WORDS.search, texts)):
                return True
    return False


def count() -> tuple[Counter[Path], Counter[Path]]:
    """Return how many tests each file has, and how many of them compare prose."""
    tests: Counter[Path] = Counter()
    prose: Counter[Path] = Counter()
    for path in sorted((ROOT / "tests").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                tests[path] += 1
                prose[path] += compares_prose(node)
    return tests, prose


if __name__ == "__main__":
    all_tests, of_prose = count()
    for path, number in of_prose.most_common():
        if number:
            print(f"{number:4} of {all_tests[path]:4} {path.relative_to(ROOT)}")  # noqa: T201
    some, every = of_prose.total(), all_tests.total()
    print(f"{some} of {every} tests compare prose: {some / every:.1%}")  # noqa: T201
