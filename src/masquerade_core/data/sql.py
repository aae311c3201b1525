"""Checks of a query's text: it only reads, and it says in which order the records come.

A record's place decides whether it is held back to measure the model (:mod:`masquerade_core.data.holdout`), and a
process that starts again reads the same records again. So a query ends with ORDER BY. It orders by plain columns, and
by none that the study learns from: if a record's values moved it, it would change which others are held back.

These checks find mistakes. That nothing is written is the database's work: every connection only reads.
"""

import re
from collections.abc import Collection, Iterator
from typing import NamedTuple

from masquerade_core.errors import BadInput

__all__ = ["check_sql"]

_TOKENS = re.compile(
    r"""(?P<skip>\s+|--[^\n]*|/\*.*?\*/)
      | (?P<text>[eE]'(?:[^'\\]|\\.|'')*'|'(?:[^']|'')*'|\$(?P<tag>\w*)\$.*?\$(?P=tag)\$)
      | (?P<quoted>"(?:[^"]|"")*"|`[^`]*`)
      | (?P<word>[^\W\d][\w$]*)
      | (?P<other>\d[\w.]*|.)""",
    re.VERBOSE | re.DOTALL,
)
_NO_NAMES = frozenset({"all", "null", "true", "false"})
_DIRECTION = re.compile(r"(collate \S+ ?)?(asc ?|desc ?)?(nulls (first|last))?")
_KEY = "end it with ORDER BY and the key of a record, such as the number under which it was entered: ... ORDER BY id"


class _Token(NamedTuple):
    kind: str
    text: str

    def is_word(self, *words: str) -> bool:
        return self.kind == "word" and self.text.lower() in words


def check_sql(text: str, source: str, learned: Collection[str]) -> None:
    """Check a query before a database sees it.

    Parameters
    ----------
    text : str
        The query.
    source : str
        Its name for an error.
    learned : collection of str
        The columns that the study learns from.

    Raises
    ------
    BadInput
        It is not one SELECT, has no ORDER BY at its end, or orders by something else than plain columns, or by one of
        ``learned``.
    """
    tokens = [token for token in _top(text) if token.kind != "skip"]
    if not (tokens and tokens[0].is_word("select", "with")):
        raise BadInput(f"{source} begins neither with SELECT nor with WITH", "give one query that reads records")
    if any(token.text == ";" for token in tokens):
        raise BadInput(f"{source} has more than one statement", "give one query that reads records")
    places = [i + 2 for i in range(len(tokens) - 1) if tokens[i].is_word("order") and tokens[i + 1].is_word("by")]
    if not places:
        raise BadInput(f"{source} does not say in which order the records come", _KEY)
    small = {name.lower() for name in learned}
    for key in _keys(tokens[places[-1] :]):
        column = _column(key)
        if column is None:
            raise BadInput(
                f"{source} orders the records by something else than a column's name",
                f"{_KEY}; where a formula is the key, name it: SELECT ..., (formula) AS place ... ORDER BY place",
            )
        if column.lower() in small:
            raise BadInput(
                f"{source} orders the records by the column {column!r}, which the study reads",
                f"a record's place must not follow from its values; {_KEY}",
            )


def _top(text: str) -> Iterator[_Token]:
    """Yield the tokens that stand in no brackets; a pair of brackets is one token."""
    depth = 0
    for found in _TOKENS.finditer(text):
        kind = found.lastgroup if found.lastgroup != "tag" else "text"
        token = _Token(kind or "other", found.group())
        if token.kind == "other" and token.text in "([{":
            depth += 1
            if depth == 1:
                yield _Token("brackets", "()")
        elif token.kind == "other" and token.text in ")]}":
            depth -= 1
        elif depth <= 0 or token.text == ";":
            yield token


def _keys(tokens: list[_Token]) -> list[list[_Token]]:
    """Return what stands between the commas behind ORDER BY."""
    keys: list[list[_Token]] = [[]]
    for token in tokens:
        if token.is_word("limit", "offset", "fetch"):
            break
        if token.kind == "other" and token.text == ",":
            keys.append([])
        else:
            keys[-1].append(token)
    return keys


def _column(key: list[_Token]) -> str | None:
    """Return the column that a key names; None where it is something else."""
    end = 1
    while len(key) > end + 1 and key[end].text == ".":
        end += 2
    names = key[:end:2]
    if not names or any(token.kind not in {"word", "quoted"} for token in names):
        return None
    if not _DIRECTION.fullmatch(" ".join(token.text.lower() for token in key[end:])):
        return None
    last = names[-1]
    if last.kind == "quoted":
        return last.text[1:-1].replace('""', '"')
    return None if last.text.lower() in _NO_NAMES else last.text
