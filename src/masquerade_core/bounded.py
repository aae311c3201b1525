"""Files that somebody else wrote, a study or a model: each is read whole and within bounds, or refused in a sentence.

A file may be anything: a pipe that never ends, a link, 3 GiB of nothing, or text that a parser takes hours or all the
stack for. So the file is looked at before it is read, and its text before it is parsed.
"""

import errno
import json
import os
import re
import stat
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from itertools import accumulate
from pathlib import Path
from typing import Any

from masquerade_core.errors import BadInput

__all__ = [
    "DEEPEST",
    "LONGEST_KEY",
    "LONGEST_WORD",
    "MOST_OF_A_RUN",
    "json_of",
    "opened",
    "read_bytes",
    "read_text",
    "regular",
    "toml_of",
]

DEEPEST = 16
"""How deep lists and tables may lie in each other: parsers call themselves for each level."""

LONGEST_KEY = 4
"""How many names a dotted key of TOML may have: the time for a key grows with their square."""

LONGEST_WORD = 250
"""How many characters a number, or a key without quotes, may have. Every such number can be a float."""

MOST_OF_A_RUN = 256 << 20
"""The most bytes of any file that a run writes."""

_KINDS = {
    stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device",
}  # fmt: skip
# Where a string or a comment begins no other token can. So the text without them has the same brackets and dots. What
# has no end is taken to the end of its line, or of the text: there the parser fails as well. No quantifier goes back,
# so the time grows with the length alone.
_TOML_STRINGS = re.compile(
    r'"""[^"\\]*+(?:(?:\\.|"(?!""))[^"\\]*+)*+"{0,5}'
    r"|\'\'\'[^']*+(?:'(?!'')[^']*+)*+'{0,5}"
    r'|"[^"\\\n]*+(?:\\.[^"\\\n]*+)*+"?'
    r"|'[^'\n]*+'?"
    r"|#[^\n]*+",
    re.DOTALL,
)
_JSON_STRINGS = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_HALF = re.compile(r"\\u[dD][89a-fA-F]")
_NO_BRACKETS = re.compile(r"[^][{}]+")
_LONG_WORD = re.compile(rf"[\w+-]{{{LONGEST_WORD + 1}}}")
_LONG_KEY = re.compile(rf"(?:\.[^.\n=,\[\]{{}}]*+){{{LONGEST_KEY}}}")


def regular(path: str, flags: int) -> int:
    """Open a regular file, as the ``opener`` of :func:`open`; nothing else is waited for or read.

    Raises
    ------
    OSError
        It cannot be opened, or it is something else.
    """
    try:
        descriptor = os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError as error:
        if error.errno == errno.ENXIO:
            raise OSError(errno.EINVAL, f"it is {_KINDS[stat.S_IFSOCK]}", path) from None
        if error.errno == errno.ELOOP and flags & os.O_NOFOLLOW:
            raise OSError(errno.EINVAL, "it is a symbolic link", path) from None
        raise
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return descriptor
    os.close(descriptor)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    raise OSError(errno.EINVAL, f"it is {_KINDS.get(stat.S_IFMT(mode), 'no file')}", path)


@contextmanager
def opened(path: Path | str, most: int, what: str, hint: str, *, links: bool = True) -> Iterator[BufferedReader]:
    """Open a file that somebody else wrote.

    Parameters
    ----------
    path : path
    most : int
        The most bytes that it may have. They are counted before any is read.
    what : str
        What the file should be, for errors: "study".
    hint : str
        What to do where it is something else.
    links : bool
        Whether the path may be a symbolic link. A person who names a file may mean one; a folder in which others put
        files must have none.

    Raises
    ------
    BadInput
        There is no such file, it is no regular file, it is too large, or it cannot be read.
    """
    flags = os.O_RDONLY | (0 if links else os.O_NOFOLLOW)
    try:
        with open(path, "rb", opener=lambda name, _: regular(name, flags)) as file:
            size = os.fstat(file.fileno()).st_size
            if size > most:
                raise _too_large(path, size, most, what, hint)
            yield file
    except FileNotFoundError as error:
        raise BadInput(f"there is no {what} at {path}", hint) from error
    except OSError as error:
        raise _unreadable(path, what, error.strerror or "it cannot be opened", hint) from error
    except ValueError as error:  # a NUL in the path
        raise _unreadable(path, what, "no file has such a name", hint) from error


def read_bytes(path: Path | str, most: int, what: str, hint: str, *, links: bool = True) -> bytes:
    """Return the content of a file that somebody else wrote; the parameters are those of :func:`opened`.

    Raises
    ------
    BadInput
        See there.
    """
    with opened(path, most, what, hint, links=links) as file:
        data = file.read(most + 1)
    if len(data) > most:  # it grew meanwhile
        raise _too_large(path, len(data), most, what, hint)
    return data


def read_text(path: Path | str, most: int, what: str, hint: str, *, links: bool = True) -> str:
    """Return the text of a file that somebody else wrote, as :func:`read_bytes` does.

    Raises
    ------
    BadInput
        See there; or the file is no text in UTF-8.
    """
    data = read_bytes(path, most, what, hint, links=links)
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise _unreadable(path, what, "it is not UTF-8 text", hint) from None


def toml_of(text: str, source: Path | str) -> dict[str, Any]:
    """Return the tables of a TOML text.

    Raises
    ------
    BadInput
        It is not TOML, or its lists, tables or dotted keys are deeper than any file of this program needs.
    """
    bare = _TOML_STRINGS.sub(_without, text)
    _check(bare, source)
    if (long := _LONG_KEY.search(bare)) is not None:
        raise BadInput(
            f"{source} has a key of more than {LONGEST_KEY} names with dots between them, at line "
            f"{bare.count(chr(10), 0, long.start()) + 1}",
            "remove it; no file of this program has such a key",
        )
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadInput(f"{source} is not TOML: {error}", "correct the file at that place") from error


def json_of(text: str, source: Path | str, hint: str, wrong: str = "is not JSON") -> Any:
    """Return the value of a JSON text; ``wrong`` says of any other one what it is.

    Raises
    ------
    BadInput
        It is not JSON, it has half of a character, or its lists and tables lie deeper in each other than in any file
        of this program.
    """
    _check(_JSON_STRINGS.sub('""', text), source)
    try:
        value = json.loads(text)
        if _HALF.search(text) is not None:
            json.dumps(value, ensure_ascii=False).encode()  # half of a character cannot be written anywhere
    except ValueError as error:
        raise BadInput(f"{source} {wrong}", hint) from error
    return value


def _without(found: re.Match[str]) -> str:
    """Return what stands for a string or a comment in a text without them: as many lines, and a value for a value."""
    return ("" if found[0].startswith("#") else '""') + "\n" * found[0].count("\n")


def _check(bare: str, source: Path | str) -> None:
    """Refuse a text whose brackets lie too deep in each other, or which has a word that is too long.

    Parameters
    ----------
    bare : str
        The text without its strings and comments.
    """
    if (long := _LONG_WORD.search(bare)) is not None:
        raise BadInput(
            f"{source} has a number, or a name without quotes, of more than {LONGEST_WORD} characters, at line "
            f"{bare.count(chr(10), 0, long.start()) + 1}",
            "write a shorter one",
        )
    brackets = _NO_BRACKETS.sub("", bare)
    if max(accumulate(1 if bracket in "[{" else -1 for bracket in brackets), default=0) > DEEPEST:
        raise BadInput(
            f"{source} has lists or tables that are nested more than {DEEPEST} deep", "write it with fewer levels"
        )


def _unreadable(path: Path | str, what: str, reason: str, hint: str) -> BadInput:
    return BadInput(f"the {what} {path} cannot be read: {reason}", hint)


def _too_large(path: Path | str, size: int, most: int, what: str, hint: str) -> BadInput:
    return BadInput(f"{path} has {size:,} bytes, but a {what} has at most {most:,}", hint)
