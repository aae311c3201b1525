"""Files that somebody may put where a study or a model is expected: each kind by name, and what makes it."""

import os
import socket
from collections.abc import Callable
from pathlib import Path

GIB = 1 << 30
MB = 1_000_000


def _sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(3 * GIB)


def _socket(path: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)  # an address has at most 107 bytes
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind("s.sock")
    finally:
        os.chdir(here)
    (path.parent / "s.sock").rename(path)


SPECIAL: dict[str, Callable[[Path], object]] = {
    "pipe": os.mkfifo,
    "socket": _socket,
    "folder": Path.mkdir,
    "link-to-nothing": lambda path: path.symlink_to("nothing-there"),
    "link-to-itself": lambda path: path.symlink_to(path.name),
    "link-to-a-device": lambda path: path.symlink_to("/dev/zero"),
    "sparse": _sparse,
}
"""Things that are no file of bytes, or too large to read."""


def texts(good: str, many: int = 2_000) -> dict[str, bytes]:
    """Return the contents of files that are no studies, each by the name of its kind.

    Parameters
    ----------
    good : str
        A study's text.
    many : int
        How often they say what is there too often.
    """
    bare = good.encode()
    return {
        "empty": b"",
        "nul": b"\0" * 1000,
        "nul-in-text": bare.replace(b'"toy"', b'"t\0y"'),
        "latin-1": bare.replace(b'"toy"', b'"t\xe9y"'),
        "utf-16": good.encode("utf-16"),
        "random": bytes(range(256)) * 100,
        "half": bare[: len(bare) // 2 + 5],
        "json": b'{"study": {}}',
        "dotted-key": b"a." * (50 * many) + b"a = 1\n",
        "dotted-key-in-quotes": b'"a".' * (20 * many) + b"a = 1\n",
        "dotted-table": b"[" + b"a." * (50 * many) + b"a]\n",
        "short-dotted-tables": b"".join(b"[t%d.a.b.c]\n" % i for i in range(many)),
        "deep-lists": b"a = " + b"[" * (50 * many),
        "deep-tables": b"a = " + b"{a=" * (20 * many),
        "deep-section": bare + b"\n[protocol.x]\na = " + b"[" * 5000 + b"]" * 5000,
        "many-digits": bare.replace(b"min_records = ", b"min_records = " + b"9" * 5000),
        "many-hex-digits": bare + b"\nmax_records = 0x" + b"f" * (50 * many),
        "never-closed": b'a = """' + b'\\"""' * (20 * many),
        "large": b"# " + b"x" * (5 * MB),
        "unknown-keys": b"".join(b"k%d = 1\n" % i for i in range(2 * many)),
        "one-long-key": b'"' + b"k" * (50 * many) + b'" = 1\n',
        "many-features": bare + b'[[feature]]\nname = "f"\nmin = 0\n' * many,
        "records-over-any-limit": bare.replace(b"min_records = 2\n", b"min_records = 1" + b"0" * 200 + b"\n"),
        "not-a-number": bare.replace(b"epsilon = 1.0", b"epsilon = nan"),
        "no-number-that-fits": bare.replace(b"epsilon = 1.0", b"epsilon = 1e999"),
        "a-date": bare.replace(b"epsilon = 1.0", b"epsilon = 2026-01-01"),
        "turned-name": bare.replace(b'name = "x"', 'name = "x\u202ey"'.encode()),
        "isolated-level": bare.replace(b'name = "x"', 'name = "x\u2066"'.encode()),
        "two-line-label": bare.replace(b'name = "y"', 'name = "y\u2028z"'.encode()),
        "marked-label": bare.replace(b'positive = "1"', 'positive = "1\u200f"'.encode()),
    }
