"""Draws mutants of the program by a seed: ``python -m tests.mutants.draw COUNT [SEED]`` prints them.

A draw takes one statement of the core, the protocols and the host, each equally likely, and one of the changes that
:func:`changes` knows of it. Docstrings, imports, what only logs, what is shown (``__repr__``) and the text of errors
are no statements here. The list in ``mutants.toml`` was drawn from the commit that it names.
"""

from __future__ import annotations

import ast
import random
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests import ROOT

__all__ = ["SEED", "Drawn", "changes", "draws", "statements"]

SEED = "a net before the move"
_FOLDERS = ("src/masquerade_core", "protocols/masquerade_protocols", "src/masquerade_host")
_COMPARED = {
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.In: "not in",
    ast.NotIn: "in",
    ast.Is: "is not",
    ast.IsNot: "is",
}
_Source = Callable[[ast.AST], str]
"""Returns the text of a part of the program."""

_EXCHANGED = "two arguments exchanged"
_SYMMETRIC = ("max", "min", "isinstance")
_SHOWN = ("__repr__", "__str__")
_LOGGING = ("log", "logger", "_log", "logging", "warnings")


@dataclass(frozen=True)
class Drawn:
    """One change of a statement: what kind of change, where, and the texts."""

    what: str
    symbol: str
    line: int
    old: str
    new: str


def statements(root: Path = ROOT) -> Iterator[tuple[str, str, ast.stmt, str]]:
    """Yield the symbol, the source of its module, and each statement of it that can be drawn."""
    for folder in _FOLDERS:
        for path in sorted((root / folder).rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            module = ".".join(path.relative_to((root / folder).parent).with_suffix("").parts).removesuffix(".__init__")
            yield from ((f"{module}:{name}", text, node, segment) for name, node, segment in _of(ast.parse(text), text))


def _of(tree: ast.Module, text: str) -> Iterator[tuple[str, ast.stmt, str]]:
    def walk(node: ast.AST, names: tuple[str, ...], source: str) -> Iterator[tuple[str, ast.stmt, str]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) and child.name not in _SHOWN:
                yield from walk(child, (*names, child.name), _whole(child, text))
            elif isinstance(child, ast.ClassDef):
                yield from walk(child, (*names, child.name), "")
            elif not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                if source and isinstance(child, ast.stmt) and not _left_out(child):
                    yield ".".join(names), child, source
                if not _is_for_types(child):
                    yield from walk(child, names, source)

    yield from walk(tree, (), "")


def _whole(node: ast.FunctionDef | ast.AsyncFunctionDef, text: str) -> str:
    first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
    return "".join(text.splitlines(keepends=True)[first - 1 : node.end_lineno])


def _left_out(node: ast.stmt) -> bool:
    match node:
        case ast.Import() | ast.ImportFrom() | ast.Global() | ast.Nonlocal() | ast.Pass() | ast.Assert():
            return True
        case ast.Expr(value=ast.Constant()):
            return True
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name)))):
            return name in _LOGGING
    return _is_for_types(node)


def _is_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def changes(node: ast.stmt, text: str) -> Iterator[tuple[str, ast.AST, str]]:
    """Yield each change of a statement: its kind, the node that it replaces, and the new text of the node."""

    def of(part: ast.AST) -> str:
        return ast.get_source_segment(text, part) or ""

    match node:
        case ast.Raise():
            yield "a raise removed", node, "pass"
            return  # what stands in it is the error's text
        case ast.Expr(value=ast.Await()):
            yield "an awaited call removed", node, "pass"
        case ast.Expr(value=ast.Call()):
            yield "a call removed", node, "pass"
        case ast.Continue() | ast.Break():
            yield "a jump removed", node, "pass"
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]) | ast.AugAssign():
            yield "an assignment removed", node, "pass"
    if isinstance(node, ast.If | ast.While):
        yield "a condition negated", node.test, f"not ({of(node.test)})"
    for part in _own(node):
        yield from _changes_of(part, of)


def _own(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the expressions of a statement, without the statements within it and without texts."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt | ast.JoinedStr | ast.ExceptHandler):
            continue
        yield child
        yield from _own(child)


def _changes_of(part: ast.AST, of: _Source) -> Iterator[tuple[str, ast.AST, str]]:
    match part:
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _COMPARED:
            yield "a comparison changed", part, f"{of(left)} {_COMPARED[type(op)]} {of(right)}"
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            yield "plus made minus", part, f"{of(left)} - {of(right)}"
        case ast.BinOp(left=left, op=ast.Sub(), right=right):
            yield "minus made plus", part, f"{of(left)} + {of(right)}"
        case ast.Constant(value=bool(value)):
            yield "a truth value changed", part, repr(not value)
        case ast.Constant(value=int(value)):
            yield "a constant off by one", part, repr(value + 1)
        case ast.IfExp(test=test, body=body, orelse=orelse):
            yield "a choice turned round", part, f"({of(orelse)} if {of(test)} else {of(body)})"
        case ast.BoolOp() | ast.UnaryOp(op=ast.Not()):
            yield _of_logic(part, of)
        case ast.Call(args=[one, other, *_]) if not isinstance(one, ast.Starred) and not isinstance(other, ast.Starred):
            if ast.dump(one) != ast.dump(other) and of(part.func) not in _SYMMETRIC:
                yield _EXCHANGED, part, _exchanged(part, one, other, of)


def _of_logic(part: ast.BoolOp | ast.UnaryOp, of: _Source) -> tuple[str, ast.AST, str]:
    if isinstance(part, ast.UnaryOp):
        return "a not removed", part, of(part.operand)
    if isinstance(part.op, ast.And):
        return "and made or", part, f"({' or '.join(map(of, part.values))})"
    return "or made and", part, f"({' and '.join(f'({of(each)})' for each in part.values)})"


def _exchanged(call: ast.Call, one: ast.AST, other: ast.AST, of: _Source) -> str:
    text, first, second = of(call), of(one), of(other)
    begin = text.index(first, text.index("(", len(of(call.func))))
    middle = text.index(second, begin + len(first))
    return text[:begin] + second + text[begin + len(first) : middle] + first + text[middle + len(second) :]


def draws(seed: str = SEED, root: Path = ROOT) -> Iterator[Drawn]:
    """Yield draws for ever: the same ones for the same seed and the same program."""
    every = [(symbol, text, node, source) for symbol, text, node, source in statements(root)]
    rng = random.Random(seed)  # noqa: S311 - nothing secret
    while True:
        symbol, text, node, source = every[rng.randrange(len(every))]
        found = list(changes(node, text))
        kinds = sorted({what for what, _, _ in found})
        if not kinds:
            continue
        if len(kinds) > 1 and _EXCHANGED in kinds:  # it mostly crashes, which says little
            kinds.remove(_EXCHANGED)
        kind = kinds[rng.randrange(len(kinds))]
        found = [each for each in found if each[0] == kind]
        what, part, new = found[rng.randrange(len(found))]
        texts = _texts(text, source, part, new)
        if texts is not None:
            yield Drawn(what, symbol, node.lineno, *texts)


def _texts(text: str, source: str, part: ast.AST, new: str) -> tuple[str, str] | None:
    """Return whole lines around a change, as few as stand once in the source of the symbol."""
    lines = text.splitlines(keepends=True)
    first, last = part.lineno - 1, part.end_lineno - 1  # type: ignore[attr-defined]  # each expression has its place
    head = lines[first].encode()[: part.col_offset].decode()  # type: ignore[attr-defined]
    tail = lines[last].encode()[part.end_col_offset :].decode()  # type: ignore[attr-defined]
    before, old = 0, "".join(lines[first : last + 1])
    changed = head + new + tail
    while source.count(old) != 1:
        before += 1
        if before > first or before > 6:
            return None
        old, changed = lines[first - before] + old, lines[first - before] + changed
    if not before and source.count(old.strip()) == 1:
        return old.strip(), changed.strip()
    return old, changed


def main() -> None:
    """Print draws."""
    count, seed = int(sys.argv[1]), sys.argv[2] if sys.argv[2:] else SEED
    for number, drawn in zip(range(count), draws(seed), strict=False):
        sys.stdout.write(
            f"--- {number}: {drawn.what}: {drawn.symbol} (line {drawn.line})\n{drawn.old}\n->\n{drawn.new}\n"
        )


if __name__ == "__main__":
    main()
