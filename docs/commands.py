"""Run the commands that stand in the pages: ``python docs/commands.py``, or with the names of some pages.

A block of commands is a fence that says ``sh``, ``bash``, ``console``, ``python`` or ``pycon``, or an indented block
that begins with a program's name. The blocks of a page run in the page's order, in one empty folder, with a home of
their own. A comment right before a block, which no reader sees, says what is special about it:

``<!-- first: COMMANDS -->``
    These run before it, and are not shown: they put files where the page's reader has some.
``<!-- last: COMMANDS -->``
    These run after it, and are not shown: they stop what a reader has running elsewhere.
``<!-- with: A => B -->``
    B is run where the page has A: a shorter experiment, or this machine's address.
``<!-- types: WORDS -->``
    Somebody sits at the terminal and types this.
``<!-- exit code: 4 -->``
    The last command ends so.
``<!-- shows -->``
    Before a ``text`` block: the block above says this, whatever its numbers and line breaks. What a ``console`` block
    shows is always compared.
``<!-- run by: tests/... -->``
    This test runs it, or this page. ``<!-- this page is run by: tests/... -->`` is about all blocks of a page.
``<!-- not run: REASON -->``
    Nobody runs it. ``<!-- this page is not run: REASON -->`` is about all blocks of a page.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).parents[1]
PAGES = ("*.md", "docs/**/*.md", "examples/**/*.md")
PROGRAM = re.compile(r"(\$|bash|curl|dask|docker|git|make|masquerade|pip|python3?|tar|uv) \S")  # a command line's begin
SHELLS = {"sh", "bash", "console", "shell"}
PYTHON = {"python", "pycon"}
MARKS = {"first", "last", "with", "types", "exit code", "shows", "run by", "not run"}
WHOLE = {"this page is run by": "run by", "this page is not run": "not run"}
SECONDS = 900.0  # a block that takes longer hangs, on a slow machine too


@dataclass(frozen=True)
class Block:
    """One block of a page.

    Parameters
    ----------
    page : str
        From the root of the repository.
    line : int
        Where it begins, from 1 on.
    language : str
        ``sh``, ``console``, ``python`` or ``pycon``.
    text : str
        As the page has it.
    marks : dict
        What the comments before it say.
    shown : tuple of str
        Lines that its output must have.
    """

    page: str
    line: int
    language: str
    text: str
    marks: dict[str, str] = field(default_factory=dict)
    shown: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Where it stands."""
        return f"{self.page}:{self.line}"

    @property
    def commands(self) -> str:
        """The commands to run: the page's, without their prompts, and with the exchanges that the comments ask for."""
        text = self.text
        if self.language == "console":
            text = "\n".join(line[2:] for line in _joined(text) if line.startswith("$ "))
        for pair in filter(None, self.marks.get("with", "").split("\n")):
            shown, _, meant = pair.partition(" => ")
            if shown.strip() not in text:
                raise ValueError(f"{self.name}: the comment exchanges {shown.strip()!r}, which the block does not have")
            text = text.replace(shown.strip(), meant.strip())
        return text


@dataclass(frozen=True)
class Ran:
    """The outcome of a block: what is wrong, or nothing, and how many seconds it took."""

    block: Block
    wrong: str
    seconds: float


# --- Reading a page --------------------------------------------------------------


def pages() -> list[str]:
    """Return every page of the documentation."""
    return sorted({str(path.relative_to(ROOT)) for pattern in PAGES for path in ROOT.glob(pattern)})


def blocks_of(page: str, text: str | None = None) -> list[Block]:
    """Return the blocks of a page in its order.

    Parameters
    ----------
    page : str
        From the root of the repository.
    text : str, optional
        What it says; it is read from the file where this is not given.
    """
    tokens = MarkdownIt().parse((ROOT / page).read_text(encoding="utf-8") if text is None else text)
    found: list[Block] = []
    whole: dict[str, str] = {}
    marks: dict[str, str] = {}
    for token in tokens:
        if token.type == "html_block":
            for key, value in _marks(token.content):
                if key in WHOLE:
                    whole[WHOLE[key]] = value
                elif key in marks:
                    marks[key] += f"\n{value}"
                else:
                    marks[key] = value
            continue
        language = _language(token)
        if "shows" in marks and token.type == "fence":
            found[-1] = replace(found[-1], shown=(*found[-1].shown, *_lines_to_show(token.content)))
        elif language:
            shown = tuple(_lines_to_show(_output(token.content))) if language == "console" else ()
            line = (token.map or [0])[0] + 1
            found.append(Block(page, line, language, token.content, {**whole, **marks}, shown))
        marks = {}
    return found


def _marks(comment: str) -> Iterator[tuple[str, str]]:
    for inner in re.findall(r"<!--(.*?)-->", comment, flags=re.DOTALL):
        key, _, value = inner.strip().partition(":")
        if key in MARKS or key in WHOLE:
            yield key, value.strip()


def _language(token: Token) -> str:
    """Return how a token is run; nothing if it is no block of commands."""
    word = (token.info.split() or [""])[0]
    if token.type == "fence" and word in SHELLS:
        return "console" if word == "console" else "sh"
    if token.type == "fence" and word in PYTHON:
        return word
    if token.type == "code_block" and PROGRAM.match(token.content):
        return "sh"
    return ""


def _joined(text: str) -> list[str]:
    """Return lines; one that ends with a backslash is one with the next."""
    return text.replace("\\\n", " ").splitlines()


def _output(text: str) -> str:
    return "\n".join(line for line in _joined(text) if not line.startswith(("$ ", "# ")))


def _lines_to_show(text: str) -> Iterator[str]:
    yield from (line for line in map(str.strip, text.splitlines()) if line and line != "...")


# --- Running it ------------------------------------------------------------------


def missing(shown: Sequence[str], said: str) -> list[str]:
    """Return the lines that an output does not have, whatever its numbers, blanks and line breaks."""
    said = _loose(said)
    return [line for line in shown if _loose(line) not in said]


def _loose(text: str) -> str:
    return re.sub(r"[\d.,]*\d", "0", re.sub(r"[\s│─╭╮╰╯]+", "", text))


def run_page(blocks: Sequence[Block]) -> Iterator[Ran]:
    """Run what is to be run of a page's blocks, one after the other; end with the first that goes wrong."""
    with tempfile.TemporaryDirectory(prefix="page-", ignore_cleanup_errors=True) as scratch:
        folder = Path(scratch) / "here"
        home = Path(scratch) / "home"
        for made in (folder, home):
            made.mkdir()
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("MASQUERADE", "XDG"))}
        env = {
            **kept,
            "HOME": str(home),
            "XDG_STATE_HOME": str(home / "state"),
            "PATH": f"{Path(sys.executable).parent}:{kept['PATH']}",
            "COLUMNS": "112",
            "LC_ALL": "C.UTF-8",
            "ROOT": str(ROOT),
            "PORT": str(_free_port()),
        }
        for block in blocks:
            if {"run by", "not run"} & block.marks.keys():
                continue
            start = time.monotonic()
            wrong = _run(block, folder, env)
            yield Ran(block, wrong, time.monotonic() - start)
            if wrong:
                return


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


def _run(block: Block, folder: Path, env: dict[str, str]) -> str:
    """Run one block, and return what is wrong."""
    wanted = int(block.marks.get("exit code", "0"))
    if block.language in PYTHON:
        (folder.parent / "block.py").write_text(block.commands, encoding="utf-8")
        script = "python -m doctest ../block.py" if block.language == "pycon" else "python ../block.py"
    else:
        script = block.commands
    script = f"set -e -o pipefail\n{block.marks.get('first', '')}\n{script}\n{block.marks.get('last', '')}\nwait"
    code, said = _in_a_shell(script, folder, env, block.marks.get("types", ""))
    if code != wanted:
        return f"exit code {code}, where {wanted} is expected; it said:\n{said}"
    if lost := missing(block.shown, said):
        return f"its output has no line like {lost[0]!r}; it said:\n{said}"
    return ""


def _in_a_shell(script: str, folder: Path, env: dict[str, str], typed: str) -> tuple[int, str]:
    """Return the exit code and all output; what is typed comes from a terminal, as ``approve`` asks for."""
    hand, terminal = os.openpty()
    try:
        os.write(hand, f"{typed}\n".encode())
        with tempfile.TemporaryFile() as output:
            process = subprocess.Popen(  # noqa: S603 (the pages' own commands)
                ["bash", "-c", script],  # noqa: S607 (from the PATH)
                cwd=folder, env=env, stdin=terminal if typed else subprocess.DEVNULL, stdout=output, stderr=output,
                start_new_session=True,
            )  # fmt: skip
            try:
                code = process.wait(SECONDS)
            except subprocess.TimeoutExpired:
                code = -1
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)  # what the block left running
                process.wait()
            output.seek(0)
            return code, output.read().decode(errors="replace")
    finally:
        os.close(hand)
        os.close(terminal)


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")


def main(names: Sequence[str]) -> int:
    """Run the pages of these names, all of them where none is given; return how many blocks went wrong."""
    found = {page: blocks_of(page) for page in names or pages()}
    everything = [block for blocks in found.values() for block in blocks]
    with ThreadPoolExecutor(max_workers=2) as pool:
        ran = [one for page in pool.map(lambda blocks: list(run_page(blocks)), found.values()) for one in page]
    for page in found:
        here = [one for one in ran if one.block.page == page]
        if here:
            _say(f"{page}: {len(here)} ran in {sum(one.seconds for one in here):.0f} s")
    for mark, words in (("run by", "run by a test or another page"), ("not run", "not run")):
        marked = [block for block in everything if mark in block.marks]
        _say(f"{len(marked)} {words}:" if marked else f"0 {words}")
        for block in marked:
            _say(f"  {block.name}: {' '.join(block.marks[mark].split())}")
    wrong = [one for one in ran if one.wrong]
    for one in wrong:
        _say(f"WRONG {one.block.name}: {one.wrong}")
    _say(f"{len(ran)} blocks of commands ran, {len(wrong)} of them went wrong")
    return len(wrong)


if __name__ == "__main__":
    sys.exit(min(main(sys.argv[1:]), 1))
