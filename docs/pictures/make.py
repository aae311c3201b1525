"""Draw the pictures of the README anew: ``python docs/pictures/make.py``, or with the names of some of them.

``conversation`` is the diagram at the top of the default protocol's roles. ``demo`` is what ``masquerade demo`` says on
a terminal. Each run has noise and times of its own, so copy the README's lines from the run that was drawn. No font is
loaded.
"""

import ast
import io
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.text import Text

HERE = Path(__file__).parent
ROLES = HERE.parents[1] / "protocols" / "masquerade_protocols" / "dp_whitened" / "roles.py"
WIDTH = 112  # columns: a row of the privacy statement fits into one line


def svg(text: Text, title: str, name: str) -> str:
    """Return a picture of a terminal that shows this text."""
    width = max(line.cell_len for line in text.split("\n")) + 1
    console = Console(record=True, width=width, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    console.print(text)
    drawn = console.export_svg(title=title, unique_id=name)
    return re.sub(r"@font-face \{.*?\}\s*", "", drawn, flags=re.DOTALL)


def conversation() -> str:
    """Draw the sequence diagram of the default protocol."""
    docstring = ast.get_docstring(ast.parse(ROLES.read_text(encoding="utf-8"))) or ""
    block = re.search(r"::\n\n((?:    .*\n|\n)+)", docstring)
    if block is None:
        sys.exit(f"{ROLES} has no diagram: a docstring's indented lines after '::'")
    lines = [line.removeprefix("    ").rstrip() for line in block[1].strip("\n").splitlines()]
    text = Text("\n".join(lines))
    text.highlight_regex(r"[<|]?[-=~]{2,}[>|]?|<[-=~]+|\|", "cyan")
    text.highlight_regex(r"party P_\w+|Charlie", "bold magenta")
    return svg(text, "one run of dp-whitened, from top to bottom", "conversation")


def demo() -> str:
    """Run the demo in an empty folder, and draw what it said."""
    with tempfile.TemporaryDirectory() as folder:
        # Colours without a terminal; and the live view prints its last state instead of redrawing it.
        look = {"FORCE_COLOR": "1", "TTY_INTERACTIVE": "0", "COLUMNS": str(WIDTH)}
        ran = subprocess.run(
            [sys.executable, "-m", "masquerade", "demo"],
            cwd=folder,
            env={**os.environ, **look},
            capture_output=True,
            text=True,
            check=True,
        )
    said = re.sub(r"\x1b\[\?25[lh]", "", ran.stderr)  # the cursor, hidden and shown again
    lines = [Text.from_ansi(line) for line in said.splitlines()]
    for line in lines:
        line.rstrip()
    shown = "\n".join(line.plain for line in lines).partition("\nWhere things are")[0].count("\n")
    text = Text("\n").join(lines[1:shown])
    return svg(text, "masquerade demo", "demo")


PICTURES: dict[str, Callable[[], str]] = {"conversation": conversation, "demo": demo}


def main(names: list[str]) -> int:
    """Draw the pictures of these names, all of them where none is given."""
    if unknown := sorted(set(names) - PICTURES.keys()):
        sys.stderr.write(f"there is no picture {unknown[0]!r}; there are {', '.join(PICTURES)}\n")
        return 4
    for name in names or PICTURES:
        (HERE / f"{name}.svg").write_text(PICTURES[name](), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
