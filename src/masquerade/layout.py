"""Headlines and lists of paragraphs, of which all texts for people are made."""

from collections.abc import Sequence

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

__all__ = ["heading", "paragraphs", "short"]


def heading(text: str, aside: str = "") -> Text:
    """Return a section's headline."""
    return Text.assemble(("\n" + text, "bold"), (f"  {aside}" if aside else "", "dim"))


def paragraphs(texts: Sequence[str]) -> RenderableType:
    """Return a list of paragraphs, each behind a bullet."""
    grid = Table.grid(padding=(0, 1))
    grid.add_column(width=1)
    grid.add_column(max_width=96)
    for text in texts:
        grid.add_row("•", Text(text))
    return Padding(grid, (0, 0, 0, 2))


def short(text: str) -> str:
    """Return a claim with Greek letters for epsilon and delta."""
    return text.replace("epsilon", "ε").replace("delta", "δ")
