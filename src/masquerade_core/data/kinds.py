"""The kinds of faults that a cell or a line of a file can have: how each is recognised, and what to do about it."""

import math
import re
from collections.abc import Collection

from masquerade_core.data.faults import Kind
from masquerade_core.study import Feature

__all__ = [
    "COMMA",
    "DECIMAL_COMMA",
    "INFINITE",
    "LABEL_EMPTY",
    "MISSING",
    "MISSING_WORDS",
    "NO_CSV",
    "NO_UTF8",
    "OUTSIDE",
    "STRANGE",
    "THIRD",
    "THIRD_ALIKE",
    "THOUSANDS",
    "Kind",
    "alike",
    "allowed_of",
    "is_missing",
    "kind_of_class",
    "kind_of_level",
    "line_kind",
    "number_of",
]

MISSING_WORDS = frozenset({"", "na", "n/a", "nan", "null", "none", "?"})
"""The words, in small letters, that stand for a missing value."""

_FINITE = "every record needs a finite number there, with a point before decimals; leave incomplete records out"
_FILL = (
    "write the missing value or leave the record out; or ask the coordinator for a study with a public value for "
    'missing cells, missing = ..., or with out_of_bounds = "clamp"'
)
_WORD = "a word for a missing value stands there, such as '?' or 'NA'"
_TEXT = "holds text where the study has a number"
_LEVEL = "has a value that is none of the study's levels"
_LEVELS = "the levels of {name} are {range}; blanks and capitals count"
_CLASS = "the label {name} is none of the study's classes"
_CLASSES = "the classes are {range}; blanks and capitals count"

# --- Numbers ---------------------------------------------------------------------------

EMPTY = Kind("empty", "is empty or missing", hint=_FILL)
WORD = Kind("missing_word", "is empty or missing", _WORD, EMPTY.hint)
TEXT = Kind("text", _TEXT, hint=_FINITE)
DECIMAL_COMMA = Kind("decimal_comma", _TEXT, "a comma stands before the decimals", "write 3.5, not 3,5")
THOUSANDS = Kind("thousands", _TEXT, "marks stand between thousands", "write 1000000, not 1,000,000")
COMMA = Kind(
    "comma",
    _TEXT,
    "a comma stands before three digits",
    "write 1.234 where 1,234 means a little more than 1, else 1234",
)
DATE = Kind(
    "date",
    _TEXT,
    "a date or a time stands there",
    "dates are not read; write a number, such as the days since a day that the study names, or the age in years",
)
PERCENT = Kind(
    "percent", _TEXT, "a percent sign stands behind the number", "write the number alone, as the study means it"
)
UNIT = Kind(
    "unit", _TEXT, "a unit stands beside the number", "write the number alone, in the unit that the study means"
)
INFINITE = Kind("infinite", "holds an infinite value", hint=_FINITE)
OUTSIDE = Kind(
    "outside",
    "has a value outside its public bounds, {range}",
    hint='correct the value or leave the record out; in a study with out_of_bounds = "clamp" the program moves such a '
    "value to the bound",
)
STRANGE = Kind(
    "no_cell",
    "holds neither numbers, text nor truth values",
    hint="dates, binary data and nested values are not read; write such a column as numbers or text",
)

# --- Levels and labels -----------------------------------------------------------------

LEVEL = Kind("level", _LEVEL, hint=_LEVELS)
LEVEL_EMPTY = Kind("level_empty", _LEVEL, "the cell is empty", f"{_LEVELS}; {_FILL}")
LEVEL_WORD = Kind("level_missing_word", _LEVEL, _WORD, LEVEL_EMPTY.hint)
LEVEL_ALIKE = Kind("level_alike", _LEVEL, "it differs from a level in capitals or blanks alone", _LEVELS)
LEVEL_FORM = Kind("level_form", _LEVEL, "it is a level's number in another form, as 1.0 is of 1", _LEVELS)

LABEL_EMPTY = Kind("label_empty", "the label {name} is empty", hint="leave records without a label out")
CLASS = Kind("class", _CLASS, hint=_CLASSES)
CLASS_EMPTY = Kind("label_empty", _CLASS, "the cell is empty", hint=LABEL_EMPTY.hint)
CLASS_ALIKE = Kind("class_alike", _CLASS, "it differs from a class in capitals or blanks alone", _CLASSES)
_TWO = "one value must be {range} and all others must be equal; blanks and capitals count"
THIRD = Kind("label_third", "the label {name} has more than two different values", hint=_TWO)
THIRD_ALIKE = Kind("label_alike", THIRD.says, "it differs from another value in capitals or blanks alone", _TWO)

MISSING = frozenset({EMPTY, WORD, LEVEL_EMPTY, LEVEL_WORD})
"""The kinds that the feature's public ``missing`` value fills, where it has one."""

# --- Lines -----------------------------------------------------------------------------

NO_CSV = "is not CSV"
NO_UTF8 = "is not UTF-8 text"
_LINES = {
    NO_CSV: Kind("quotes", NO_CSV, hint="see whether a quote is left open"),
    NO_UTF8: Kind("encoding", NO_UTF8, hint="save the table as CSV in UTF-8"),
}
_CELLS = "each record has one cell for each column; quote cells that hold a comma, and write a point before decimals"


def line_kind(says: str) -> Kind:
    """Return the kind of a line that is no record, by the sentence about it."""
    return _LINES.get(says) or Kind("cells", says, hint=_CELLS)


# --- What a cell holds -----------------------------------------------------------------

_NUMBER = r"[+-]?\d+(\.\d+)?"
_SHAPES = (
    (DATE, r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}([T ].*)?|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4}( .*)?|\d{1,2}:\d{2}(:\d{2})?"),
    (COMMA, r"[+-]?[1-9]\d{0,2},\d{3}"),
    (DECIMAL_COMMA, r"[+-]?(\d*|\d{1,3}([.' \u00a0\u202f]\d{3})+),\d+"),
    (THOUSANDS, r"[+-]?\d{1,3}([,.' \u00a0\u202f]\d{3})+(\.\d+)?"),
    (PERCENT, r"[+-]?[\d.,]+\s*%"),
    (
        UNIT,
        r"[$\u20ac\u00a3]?\s*[+-]?\d[\d.,]*\s*([^\W\d_]|[$\u20ac\u00a3\u00b0\u00b5/])[^\d]{0,15}\d?|[$\u20ac\u00a3]\s*[\d.,]+",
    ),
)
_FORMS = tuple((kind, re.compile(rf"\s*(?:{shape})\s*")) for kind, shape in _SHAPES)


def is_missing(cell: str) -> bool:
    """Return whether a cell says that its value is missing."""
    return cell.strip().lower() in MISSING_WORDS


def number_of(cell: str) -> tuple[float, Kind | None]:
    """Return the number that a cell holds, NaN where it holds none, and what is wrong with it."""
    if is_missing(cell):
        return math.nan, WORD if cell.strip() else EMPTY
    try:
        value = math.nan if "_" in cell else float(cell)
    except ValueError:
        value = math.nan
    if math.isnan(value):
        return value, next((kind for kind, form in _FORMS if form.fullmatch(cell)), TEXT)
    return value, INFINITE if math.isinf(value) else None


def kind_of_level(cell: str, levels: Collection[str]) -> Kind:
    """Return what is wrong with a cell that is none of a feature's levels."""
    if is_missing(cell):
        return LEVEL_WORD if cell.strip() else LEVEL_EMPTY
    if alike(cell, levels) is not None:
        return LEVEL_ALIKE
    value = number_of(cell)[0]
    return LEVEL_FORM if any(value == number_of(level)[0] for level in levels) else LEVEL


def kind_of_class(cell: str, classes: Collection[str]) -> Kind:
    """Return what is wrong with a label that is none of the study's classes."""
    if not cell.strip():
        return CLASS_EMPTY
    return CLASS if alike(cell, classes) is None else CLASS_ALIKE


def alike(cell: str, known: Collection[str]) -> str | None:
    """Return the one known text that a cell differs from in capitals or blanks alone; None where there is not one."""
    exact = [text for text in known if text.strip() == cell.strip()]
    loose = exact or [text for text in known if text.strip().casefold() == cell.strip().casefold()]
    return loose[0] if len(loose) == 1 else None


def allowed_of(f: Feature) -> str:
    """Return the values that a column may hold, for a sentence."""
    if f.levels is not None:
        return ", ".join(map(repr, f.levels))
    return "" if f.min is None or f.max is None else f"{f.min:.17g} to {f.max:.17g}"
