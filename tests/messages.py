"""The one table of what people read: each sentence has a key, and tests compare the key.

``messages.toml`` has a section for each module that says something. A section has a key and the text for each sentence
that a test looks for. ``{}`` stands for a part that varies. Who rewords a message changes the module and the table, and
no test.
``tests/unit/house/test_messages.py`` checks that each text stands in its module, and that each key is used.
"""

from __future__ import annotations

import re
import tomllib
from typing import TYPE_CHECKING, TypeVar

import pytest

from tests import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import EllipsisType

    from _pytest.raises import RaisesExc

_Error = TypeVar("_Error", bound=BaseException)

PATH = ROOT / "tests" / "messages.toml"


def _entries() -> Iterator[tuple[str, str, str]]:
    """Yield every module, with each of its keys and texts."""
    for module, texts in tomllib.loads(PATH.read_text(encoding="utf-8")).items():
        for key, text in texts.items():
            yield module, key, text


ENTRIES = tuple(_entries())
_TEXTS = {key: text for _, key, text in ENTRIES}


def pattern(key: str, *values: object) -> str:
    """Return a regular expression for a sentence of the table.

    Parameters
    ----------
    key : str
    *values : object
        What stands in the places of ``{}``, in order; ``...`` for anything. Blanks and ends of lines are alike, so that
        the sentence is found where a terminal breaks it.
    """
    pieces = _pieces(key, values)
    varying = [".*?" if value is ... else _loose(str(value)) for value in values]
    fixed = [_loose(piece) for piece in pieces]
    return "(?s:" + fixed[0] + "".join(a + b for a, b in zip(varying, fixed[1:], strict=True)) + ")"


def _pieces(key: str, values: tuple[object, ...]) -> list[str]:
    pieces = _TEXTS[key].split("{}")
    if len(values) != len(pieces) - 1:
        raise ValueError(f"{key} has {len(pieces) - 1} places for values, and {len(values)} were given")
    return pieces


def _loose(text: str) -> str:
    return r"\s+".join(re.escape(word) for word in re.split(r"\s+", text))


def raises(
    error: type[_Error] | tuple[type[_Error], ...], key: str, *values: object | EllipsisType
) -> RaisesExc[_Error]:
    """Expect an error of this class that says this sentence; use it as ``pytest.raises``."""
    return pytest.raises(error, match=pattern(key, *values))


def sentence(key: str, *values: object) -> str:
    """Return a sentence of the table with these values, for a comparison with all of a text."""
    pieces = _pieces(key, values)
    return pieces[0] + "".join(f"{value}{piece}" for value, piece in zip(values, pieces[1:], strict=True))


def says(text: str, key: str, *values: object | EllipsisType) -> bool:
    """Say whether a text contains this sentence of the table."""
    return re.search(pattern(key, *values), text) is not None
