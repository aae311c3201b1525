"""The comparison of two privacy statements: what a row claims is its identity, and its wording is not.

A finished run keeps its statement as people read it then. Later the program may say the same in better words. Two
statements are the same if their rows agree one by one in

* the view, the unit, the neighbours, the definition, the adversary and the source, letter by letter;
* epsilon and delta, up to the last digits, which follow from the numeric library;
* the figures of what is claimed, what is provable and the setting with which the target holds, in order: each number
  and quoted value, with the name of its setting, and each term of differential privacy;
* the number of assumptions, and the numbers and quoted values of each assumption and of the row's text.

So a reworded sentence that has another number, a reworded view or source, or one assumption more is another statement.
A change of that kind needs a new version of the program, for a statement is compared within one version only.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from masquerade_core.privacy.statement import NOT_PROMISED, Claim

__all__ = ["difference", "same_words"]

_FIELDS = frozenset(field.name for field in fields(Claim))
_NUMBERS = ("epsilon", "delta")
_SHORT = ("claimed", "provable", "holds_at")
_WORDED = frozenset({*_SHORT, "text", "assumptions"})
_DIGITS = 1e-9  # relative; two numeric libraries differ by some 1e-15, and people read four digits

_NUMBER = r"(?<![\w.])-?\d+(?:,\d{3})*(?:\.\d+)?(?:e[+-]?\d+)?"
_VALUE = re.compile(rf'"[^"]*"|{_NUMBER}')
_TERMS = f"none|pure|approximate|probabilistic|computational|{NOT_PROMISED}"
_FIGURE = re.compile(rf'(?:\w+ = )?(?:"[^"]*"|{_NUMBER})|\b(?:{_TERMS})\b')

Row = Mapping[str, Any]


def difference(rows: object, due: object) -> str:
    """Return the first place where two statements claim something else, or "" where they are the same.

    Parameters
    ----------
    rows, due : object
        The rows of both as JSON values: what :meth:`Claim.to_json` returned, or what somebody wrote in its place.
    """
    mine, theirs = _rows_of(rows), _rows_of(due)
    if mine is None or theirs is None:
        return "it is not a list of rows with the fields of a statement"
    if len(mine) != len(theirs):
        return f"the number of rows is {len(mine)} instead of {len(theirs)}"
    for number, (row, other) in enumerate(zip(mine, theirs, strict=True), start=1):
        if found := _difference(row, other):
            return f"in row {number}, {found}"
    return ""


def same_words(rows: object, due: object) -> bool:
    """Say whether two statements that are the same are also worded alike."""
    mine, theirs = _rows_of(rows) or (), _rows_of(due) or ()
    return [{name: row[name] for name in _WORDED} for row in mine] == [
        {name: row[name] for name in _WORDED} for row in theirs
    ]


def _rows_of(value: object) -> Sequence[Row] | None:
    """Return the rows of a statement, or None where a file holds something else."""
    whole = isinstance(value, list) and all(isinstance(row, dict) and row.keys() == _FIELDS for row in value)
    return value if isinstance(value, list) and whole and all(map(_is_typed, value)) else None


def _is_typed(row: Row) -> bool:
    assumptions = row["assumptions"]
    texts = [row[name] for name in _FIELDS - {*_NUMBERS, "assumptions"}]
    return (
        isinstance(assumptions, list)
        and all(isinstance(text, str) for text in (*texts, *assumptions))
        and all(isinstance(row[name], int | float | None) for name in _NUMBERS)
    )


def _difference(row: Row, due: Row) -> str:
    for name in sorted(_FIELDS - _WORDED - set(_NUMBERS)):
        if row[name] != due[name]:
            return f"{name} is {row[name]!r} instead of {due[name]!r}"
    for name in _NUMBERS:
        one, other = row[name], due[name]
        if (one is None) != (other is None) or (one is not None and not math.isclose(one, other, rel_tol=_DIGITS)):
            return f"{name} is {one} instead of {other}"
    for name in _SHORT:
        if _figures(row[name]) != _figures(due[name]):
            return f"{name} is {row[name]!r} instead of {due[name]!r}"
    if len(row["assumptions"]) != len(due["assumptions"]):
        return f"the number of assumptions is {len(row['assumptions'])} instead of {len(due['assumptions'])}"
    for one, other in zip((row["text"], *row["assumptions"]), (due["text"], *due["assumptions"]), strict=True):
        if _values(one) != _values(other):
            return f"the numbers in {one!r} are not those in {other!r}"
    return ""


def _figures(text: str) -> list[str]:
    """Return a short text's numbers and quoted values, with the names of settings, and its terms, in order."""
    return [" = ".join(map(_plain, found.split(" = "))) for found in _FIGURE.findall(text)]


def _values(text: str) -> set[str]:
    """Return a sentence's numbers and quoted values. Better words may say them in another order, or once."""
    return set(map(_plain, _VALUE.findall(text)))


def _plain(found: str) -> str:
    """Return a number in one notation, as 1,000 and 1000 are the same; anything else as it is."""
    return repr(float(found.replace(",", ""))) if found.lstrip("-")[:1].isdigit() else found
