"""After a move: ``python -m tests.mutants.anchors`` writes into the list where each mutant's code stands now.

Only a mutant that can no longer be planted is looked for. Its new place is the one function, class or constant of the
program in which its old text occurs once: one of the same name, else any. Where there is none, or more than one, the
code was rewritten and not moved. Then the command says so and ends with 1, and a person writes the same bug anew.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

from tests import ROOT
from tests.mutants import FILE, MUTANTS, PACKAGES, Mutant, span_of

__all__ = ["place_now"]


def main() -> int:
    """Mend the anchors, and say what cannot be mended."""
    text, lost = FILE.read_text(encoding="utf-8"), 0
    for mutant in MUTANTS:
        try:
            mutant.planted()
        except AssertionError as gone:
            places = place_now(mutant)
            if len(places) == 1:
                text = _moved(text, mutant, places[0])
                sys.stdout.write(f"{mutant.what}: {mutant.symbol} -> {places[0]}\n")
            else:
                lost += 1
                sys.stdout.write(f"REWRITTEN {gone}\n  possible places: {', '.join(places) or 'none'}\n")
    FILE.write_text(text, encoding="utf-8")
    return int(lost > 0)


def place_now(mutant: Mutant, root: Path = ROOT) -> list[str]:
    """Return the symbols in which a mutant's old text occurs once: those of its old name, else the innermost of all."""
    found = [symbol for package in PACKAGES for symbol in _places(root / package, mutant.old)]
    qualified = mutant.symbol.rpartition(":")[2]
    for same in (f":{qualified}", f":{qualified.rpartition('.')[2]}", f".{qualified.rpartition('.')[2]}"):
        if alike := [symbol for symbol in found if symbol.endswith(same)]:
            return alike
    return [each for each in found if not any(other.startswith(f"{each}.") for other in found)]


def _places(folder: Path, old: str) -> Iterator[str]:
    for path in sorted(folder.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if old not in text:
            continue
        module = ".".join(path.relative_to(folder).with_suffix("").parts).removesuffix(".__init__")
        for name in _symbols(ast.parse(text), ()):
            begin, end = span_of(f"{module}:{name}", text)
            if text[begin:end].count(old) == 1:
                yield f"{module}:{name}"


def _symbols(node: ast.AST, outer: tuple[str, ...]) -> Iterator[str]:
    """Yield the qualified names of all functions and classes that are defined once in their place."""
    inner = [
        child
        for child in ast.iter_child_nodes(node)
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    ]
    for child in inner:
        if sum(other.name == child.name for other in inner) == 1:
            yield ".".join((*outer, child.name))
            yield from _symbols(child, (*outer, child.name))


def _moved(text: str, mutant: Mutant, symbol: str) -> str:
    """Return the list with another symbol for a mutant."""
    blocks = text.split("[[mutant]]\n")
    here = [i for i, block in enumerate(blocks) if block.startswith(f'what = "{mutant.what}"\n')]
    assert len(here) == 1, mutant.what
    blocks[here[0]] = blocks[here[0]].replace(f'symbol = "{mutant.symbol}"', f'symbol = "{symbol}"', 1)
    return "[[mutant]]\n".join(blocks)


if __name__ == "__main__":
    sys.exit(main())
