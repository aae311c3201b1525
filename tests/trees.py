"""Python's syntax trees, walked faster than by ``ast.walk``: tests go through every file of this project."""

from __future__ import annotations

import ast
from collections.abc import Iterator

__all__ = ["nodes", "statements"]


def nodes(tree: ast.AST) -> list[ast.AST]:
    """Return every node in the order of ``ast.walk``, but for the contexts and the operators, which hold nothing."""
    found = [tree]
    for node in found:  # it grows
        for name in node._fields:
            if name in {"ctx", "op", "ops"}:
                continue
            value = getattr(node, name, None)
            if isinstance(value, list):
                found += [each for each in value if isinstance(each, ast.AST)]
            elif isinstance(value, ast.AST):
                found.append(value)
    return found


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the statements right within a module or a statement, its ``except`` and its ``case`` among them."""
    for name in ("body", "handlers", "orelse", "finalbody", "cases"):
        yield from getattr(node, name, ())
