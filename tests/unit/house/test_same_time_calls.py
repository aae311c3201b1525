"""Protocols call nothing whose time follows the values, where the values may be records."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.imports import MODULES

_OF_NUMPY = frozenset({
    *("exp", "expm1", "exp2", "log", "log1p", "log2", "log10", "tanh"),  # they read a table
    *("searchsorted", "digitize", "histogram", "interp", "isin", "unique", "sort", "partition", "argpartition"),
    *("argsort", "median", "quantile", "percentile", "bincount", "flatnonzero", "nonzero", "argwhere"),
    *("argmax", "argmin", "compress", "extract", "add.at", "subtract.at", "maximum.at"),
})  # fmt: skip
_OF_ARRAYS = frozenset({"searchsorted", "sort", "argsort", "nonzero", "argmax", "argmin", "compress"})

_PUBLIC = {
    "masquerade_protocols.blocks.double_masks": {"sort", "isin", "flatnonzero", "[...]"},  # of parties' places
    "masquerade_protocols.dp_glm.estimates": {"argsort", "[...]"},  # of sums that were opened
    "masquerade_protocols.dp_whitened.estimates": {"log"},  # of sums that were opened
    "masquerade_protocols.voting.counting": {"argmax"},  # of counts that were opened
}
"""Where they take what everybody may know: modules, and what each calls."""


def _calls(text: str) -> Iterator[str]:
    """Yield what a module calls of :data:`_OF_NUMPY` and :data:`_OF_ARRAYS`, and ``[...]`` for a mask of booleans."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Attribute):
            owner, _, name = ast.unparse(node).partition(".")
            if owner == "np" and name in _OF_NUMPY:
                yield name
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _OF_ARRAYS:
            yield node.func.attr
        if isinstance(node, ast.Subscript) and any(isinstance(part, ast.Compare) for part in ast.walk(node.slice)):
            yield "[...]"


def test_protocols_leave_what_follows_the_values_to_same_time() -> None:
    """``masquerade_core.same_time`` has such functions in a time that tells nothing of the records."""
    found = {
        name: calls
        for name, path in MODULES.items()
        if name.startswith("masquerade_protocols.") and (calls := set(_calls(path.read_text(encoding="utf-8"))))
    }
    assert found == _PUBLIC
