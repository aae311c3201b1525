"""Read what a page of the documentation says, so that a test can compare it with the program."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import typer

from masquerade.cli.app import app
from tests import ROOT


@dataclass(frozen=True)
class Page:
    """A Markdown page of the documentation.

    Parameters
    ----------
    path : str
        From the root of the repository.
    """

    path: str

    @property
    def text(self) -> str:
        """The whole page."""
        return _read(ROOT / self.path)

    def diagram(self, which: int | None = None) -> str:
        """A sequence diagram: that of this number, from 0 on; the page's only one where no number is given."""
        diagrams = re.findall(r"```text\n(.*?)```", self.text, flags=re.DOTALL)
        if which is None:
            (only,) = diagrams
            return str(only)
        return str(diagrams[which])

    def sizes(self, message: str, which: int | None = None) -> list[int]:
        """The numbers right of a message's lines in a diagram, in order; ``message`` is what its lines begin with."""
        lines = [line for line in self.diagram(which).splitlines() if re.search(rf"(?<!\w){re.escape(message)}", line)]
        tails = [re.split(r"\s{3,}", line.rpartition("|")[2].strip())[0] for line in lines]
        return [int(n.replace(",", "")) for tail in tails for n in re.findall(r"\d[\d,]*", tail)]

    def rows(self, least: int) -> list[list[str]]:
        """The tables' rows that hold at least so many numbers, cell by cell."""
        rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in self.text.splitlines() if line[:1] == "|"]
        return [row for row in rows if sum(bool(re.fullmatch(r"[\d.]+", cell)) for cell in row) >= least]

    def row(self, name: str) -> list[float]:
        """The numbers of the one row whose first cell is ``name``."""
        (line,) = (line for line in self.text.splitlines() if line.startswith(f"| {name} |"))
        return [float(cell) for cell in line.split("|")[2:-1]]

    @property
    def tests(self) -> set[str]:
        """The names of tests that the page names."""
        return set(re.findall(r"`(test_\w+)`", self.text))

    @property
    def links(self) -> list[str]:
        """The files that the page links to, as the page writes them; addresses of the web are left out."""
        return [link for link in re.findall(r"\]\(([^)#]+)[)#]", self.text) if "://" not in link]

    @property
    def broken_links(self) -> list[str]:
        """Those of its links that lead to no file."""
        return [link for link in self.links if not ((ROOT / self.path).parent / link).exists()]


@cache
def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@cache
def defined_tests(files: str = "test_*.py") -> frozenset[str]:
    """The names of all tests in the files of this pattern."""
    return frozenset(
        name
        for path in (ROOT / "tests").rglob(files)
        for name in re.findall(r"^def (test_\w+)", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    )


def every_command() -> dict[str, Any]:
    """Each command by its words, such as ``study new``; those that ``--help`` does not list are hidden."""
    top: Any = typer.main.get_command(app)
    found: dict[str, Any] = {}
    for name in top.list_commands(None):
        command = top.get_command(None, name)
        inner = getattr(command, "commands", None)
        if inner is None or command.invoke_without_command:
            found[name] = command
        found |= {f"{name} {verb}": under for verb, under in (inner or {}).items()}
    return found
