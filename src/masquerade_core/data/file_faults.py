"""The faults of a file of records: counted by column and kind, with the first three places of each.

A fault is a cell or a line that a study does not allow. A *sign* speaks of the whole file: its commas are semicolons,
or a column is not there. An error says all of it at once, so that one reading of the file is enough to correct it. It
shows no cell and not the number of records: where every record has the fault, it says "all".

The kinds of faults that a cell or a line of a file can have: how each is recognised, and what to do about it.
"""

import math
import re
import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np

from masquerade_core.data.files import (
    NO_CSV,
    NO_UTF8,
    Column,
    Place,
    Sign,
    Unit,
    alike,
    cell_text,
    is_missing,
    number_in,
    spelled,
)
from masquerade_core.errors import BadInput
from masquerade_core.study import Feature
from masquerade_core.words import counted, listed

__all__ = [
    "CLEAN",
    "CODE",
    "CODES",
    "COMMA",
    "DASH",
    "DATE",
    "DECIMAL_COMMA",
    "INFINITE",
    "LABEL_EMPTY",
    "LABEL_MATCHED",
    "LEVEL_MATCHED",
    "MATCHED",
    "MENDED_SIGNS",
    "MISSING",
    "NINES",
    "NO_RECORDS",
    "OUTSIDE",
    "PERCENT",
    "STRANGE",
    "THIRD",
    "THIRD_ALIKE",
    "THOUSANDS",
    "UNIT",
    "Fault",
    "Faults",
    "FaultyFile",
    "Kind",
    "allowed_of",
    "cell_faults",
    "escaped",
    "is_allowed",
    "kind_of_class",
    "kind_of_level",
    "line_kind",
    "no_records",
    "note_cells",
    "number_of",
    "renaming",
    "sentence",
    "where",
    "with_names",
]


# --- Faults ----------------------------------------------------------------------

_FIRST = 3
_ROWS = 20  # of an error; JSON has all
_HINTS = 6
_FEW = 12  # levels among which a similar one is looked for letter by letter
CLEAN = "masquerade data clean STUDY FILE OUT"
"""The command that mends a file; whoever knows the names puts them in by :func:`with_names`."""

_CHECK = f"'{CLEAN}' mends what it can; 'masquerade data check STUDY FILE' says all of this"

MENDED_SIGNS = frozenset({"encoding", "separator", "sep_line", "blank_line", "column_alike"})
"""The signs that ``masquerade data clean`` mends."""


@dataclass(frozen=True)
class Kind:
    """A kind of fault.

    Parameters
    ----------
    name : str
        For programs.
    says : str
        What is wrong with the cell, after the name of its column. "{name}" stands for the column's name, and "{range}"
        for the values that it may have.
    detail : str
        What the fault looks like.
    hint : str
        What to do about it; "{name}" and "{range}" as above.
    rename : str
        What ``data clean --rename`` needs to mend such cells: "?=f", with a question mark for what only the owner of
        the file knows. Empty where it does not help.
    """

    name: str
    says: str
    detail: str = ""
    hint: str = ""
    rename: str = ""


@dataclass(frozen=True)
class Fault:
    """All faults of one kind in one column.

    Parameters
    ----------
    column : str
        Its name; empty for a fault of whole lines.
    kind : Kind
    says : str
        What is wrong, without any cell.
    hint : str
        What to do about it.
    refused : bool
        Whether the study refuses such a cell; another one counts as the bound or as the public missing value.
    count : int
        How many there are.
    first : tuple of Place
        The first three places.
    every : bool
        Whether all records have it.
    """

    column: str
    kind: Kind
    says: str
    hint: str
    refused: bool
    count: int = 0
    first: tuple[Place, ...] = ()
    every: bool = False

    def row(self, unit: Unit) -> str:
        """Return the fault as a line of a message: where it is, and what is wrong."""
        detail = f": {self.kind.detail}" if self.kind.detail else ""
        places = where(unit, self.first, self.count, every=self.every)
        if self.column:
            return f"{places}: {self.says}{detail}"
        return f"{places} {self.says}" if self.count == 1 else f"{places}: each {self.says}"

    def to_json(self) -> dict[str, Any]:
        """Return a JSON value. Where all records have the fault, their number is not told."""
        found = asdict(self) | {"kind": self.kind.name, "detail": self.kind.detail, "first": list(self.first)}
        return found | {"count": None if self.every else self.count}


def sentence(says: str, column: str, allowed: str) -> str:
    """Return what is wrong with a cell of a column: a kind's words with the column's name and the allowed values."""
    filled = _filled(says, column, allowed)
    return filled if not column or says.startswith("the ") else f"column {column!r} {filled}"


def _filled(text: str, column: str, allowed: str) -> str:
    return text.replace("{name}", repr(column)).replace("{range}", allowed)


def _order(place: Place) -> int:
    """Order the lines of one file; the files of a folder come in their order already."""
    return place if isinstance(place, int) else 0


def where(unit: Unit, numbers: Sequence[Place], count: int, *, every: bool = False) -> str:
    """Return places in words: "line 7", "lines 7 and 9", "1,420 lines, first 7, 9 and 12"."""
    if count == 1:
        number, _, file = str(numbers[0]).partition(" of ")
        return f"{file}, {unit} {number}" if file else f"{unit} {number}"
    if every and count > len(numbers):
        return f"all {unit}s, first {listed([str(i) for i in numbers])}"
    if count > len(numbers):
        return f"{count:,} {unit}s, first {listed([str(i) for i in numbers])}"
    return f"{unit}s {listed([str(i) for i in numbers])}"


def renaming(pairs: Iterable[tuple[str, str]]) -> str:
    """Return what to do so that a person says what cells mean; empty where nothing is asked.

    Parameters
    ----------
    pairs : iterable of (str, str)
        A column, and what is said of its cells: "?=f" with a question mark for what the person has to know, or "?="
        for a missing value.
    """
    asked: dict[str, dict[str, None]] = {}
    for column, rename in pairs:
        if rename:
            asked.setdefault(column, {})[rename] = None
    if not asked:
        return ""
    texts = [f"{escaped(column)}:{','.join(found)}" for column, found in asked.items()]
    command = " ".join([CLEAN, *(f"--rename {shlex.quote(text)}" for text in texts)])
    return f"if you know what such cells mean, say so, with your file's own word before each '=': {command}"


def escaped(text: str) -> str:
    """Return a name or a value as a command line has it, where colons, commas and equals signs have a meaning."""
    return re.sub(r"([:,=\\])", r"\\\1", text)


def with_names(hint: str, study: Path | str, data: Path | str) -> str:
    """Return a hint with the names of the study's file, the records' file and a corrected copy in its commands."""
    path = Path(data)
    out = path.with_name(f"{path.name.partition('.')[0]}-mended.csv") if path.is_file() else Path("mended.csv")
    names = [shlex.quote(str(name)) for name in (study, data, out)]
    return (
        hint.replace("STUDY FILE OUT", " ".join(names))
        .replace("STUDY FILE", " ".join(names[:2]))
        .replace("look FILE", f"look {names[1]}")
    )


class FaultyFile(BadInput):
    """A file of records cannot be used; the error says all that is wrong with it.

    Parameters
    ----------
    source : str
        Names the file.
    signs : sequence of Sign
    faults : sequence of Fault
        Those that the study refuses.
    unit : str
        What places count.

    Attributes
    ----------
    all_hints : str
        What to do about each kind of fault.
    mends : bool
        Whether ``masquerade data clean`` mends some of it.
    renames : str
        The command by which a person says what unknown cells mean (:func:`renaming`).
    """

    def __init__(self, source: str, signs: Sequence[Sign], faults: Sequence[Fault], unit: Unit) -> None:
        self.signs, self.faults = tuple(signs), tuple(faults)
        rows = [sign.says for sign in signs] + [fault.row(unit) for fault in faults]
        hints = [*(sign.hint for sign in signs), *(fault.hint for fault in faults)]
        self.all_hints = _listed_hints(list(dict.fromkeys(filter(None, hints))))
        self.mends = len(rows) > 1 or any(sign.name in MENDED_SIGNS for sign in signs)
        self.renames = renaming((fault.column, fault.kind.rename) for fault in faults)
        more = [*([_CHECK] if self.mends else []), *([self.renames] if self.renames else [])]
        super().__init__(_message(source, rows, faults), self.all_hints + "".join(f"\n  {line}" for line in more))


def _message(source: str, rows: Sequence[str], faults: Sequence[Fault]) -> str:
    if len(rows) == 1:
        if faults and faults[0].count == 1 and isinstance(faults[0].first[0], str):
            return rows[0]  # which names the file of a folder
        glue = ", " if faults else ": " if rows[0].startswith("the ") else " "
        return f"{source}{glue}{rows[0]}"
    more = len(rows) - _ROWS
    shown = [*rows[:_ROWS], *([f"and {counted(more, 'more kind')} of fault"] if more > 0 else [])]
    return f"{source} has {counted(len(rows), 'kind')} of fault:" + "".join(f"\n  {row}" for row in shown)


def _listed_hints(hints: Sequence[str]) -> str:
    return hints[0] if len(hints) == 1 else "".join(f"\n  {hint}" for hint in hints[:_HINTS])


@dataclass(repr=False)
class Faults:
    """The faults of a file, while it is read.

    Parameters
    ----------
    source : str
        Names the file in the error.
    unit : str
        What places count.
    records : int
        How many records were read, with faults or without. It is secret, and not told.
    signs : list of Sign
    """

    source: str
    unit: Unit = "line"
    records: int = 0
    signs: list[Sign] = field(default_factory=list)
    _found: dict[tuple[str, ...], Fault] = field(default_factory=dict)

    def add(
        self,
        column: str,
        kind: Kind,
        numbers: Iterable[Place],
        *,
        count: int | None = None,
        refused: bool = True,
        allowed: str = "",
    ) -> None:
        """Count cells of one kind.

        Parameters
        ----------
        column : str
            Empty for whole lines.
        kind : Kind
        numbers : iterable of Place
            The places of the cells, in their order.
        count : int, optional
            How many cells there are, where ``numbers`` has the first of them alone.
        refused : bool
            Whether the study refuses them.
        allowed : str
            The values that the column may have.
        """
        places = list(numbers)
        if not places:
            return
        key = (column, kind.name, kind.says, kind.detail)
        fault = self._found.get(key)
        if fault is None:
            says, hint = sentence(kind.says, column, allowed), _filled(kind.hint, column, allowed)
            fault = Fault(column, kind, says, hint, refused)
        first = tuple(sorted((*fault.first, *places[:_FIRST]), key=_order)[:_FIRST])
        more = len(places) if count is None else count
        self._found[key] = replace(fault, count=fault.count + more, first=first)

    def all(self) -> list[Fault]:
        """Return the faults, those of whole lines first, and those of the columns as they were found."""
        found = [replace(fault, every=0 < self.records == fault.count) for fault in self._found.values()]
        return sorted(found, key=lambda fault: fault.column != "")

    @property
    def refused(self) -> list[Fault]:
        """Those faults that the study refuses."""
        return [fault for fault in self.all() if fault.refused]

    def check(self) -> None:
        """Check that nothing is wrong that the study refuses.

        Raises
        ------
        FaultyFile
            Something is.
        """
        if self.signs or self.refused:
            raise FaultyFile(self.source, self.signs, self.refused, self.unit)


# --- Kinds -----------------------------------------------------------------------

_FINITE = "every record needs a finite number there, with a point before decimals; leave incomplete records out"
_FILL = (
    "write the missing value or leave the record out; or ask the coordinator for a study with a public value for "
    'missing cells, missing = ..., or with out_of_bounds = "clamp"'
)
_WORD = "it is a word for a missing value, such as '?' or 'NA'"
_TEXT = "holds text where the study has a number"
_LEVEL = "has a value that is not one of the study's levels"
_COUNT = (
    "; blanks and capitals count"  # in a study with ``matching = "exact"``, or where two levels differ in these alone
)
_LEVELS = "the levels of {name} are {range}"
_CLASS = "the label {name} is not one of the study's classes"
_CLASSES = "the classes are {range}"

# --- Numbers ---------------------------------------------------------------------------

EMPTY = Kind("empty", "is empty or missing", hint=_FILL)
WORD = Kind("missing_word", "is empty or missing", _WORD, EMPTY.hint)
TEXT = Kind("text", _TEXT, hint=_FINITE)
DECIMAL_COMMA = Kind("decimal_comma", _TEXT, "it has a comma before the decimals", "write 3.5, not 3,5")
THOUSANDS = Kind("thousands", _TEXT, "it has marks between thousands", "write 1000000, not 1,000,000")
COMMA = Kind(
    "comma",
    _TEXT,
    "it has a comma before three digits",
    "write 1.234 where 1,234 means a little more than 1, else 1234",
)
DATE = Kind(
    "date",
    _TEXT,
    "it is a date or a time",
    "dates are not read; write a number, such as the days since a day that the study names, or the age in years",
)
DASH = Kind("dash", _TEXT, "other programs write it where a value is missing", "leave such a cell empty")
PERCENT = Kind(
    "percent", _TEXT, "it has a percent sign after the number", "write the number alone, as the study means it"
)
UNIT = Kind(
    "unit", _TEXT, "it has a unit beside the number", "write the number alone, in the unit that the study means"
)
INFINITE = Kind("infinite", "holds an infinite value", hint=_FINITE)
OUTSIDE = Kind(
    "outside",
    "has a value outside its public bounds, {range}",
    hint='correct the value or leave the record out; in a study with out_of_bounds = "clamp" the program moves such a '
    "value to the bound",
)
NINES = frozenset(float(f"{sign}{'9' * count}") for sign, least in (("", 2), ("-", 1)) for count in range(least, 11))
"""The numbers of nines, such as 9999, -99 and -9, that many tables have where a value is missing."""

CODES = NINES | {-1.0}
"""The numbers that often stand for a missing value where they lie outside a column's bounds."""

CODE = replace(
    OUTSIDE, detail="most are a number that often stands for a missing value, as 9999 and -1 do", rename="?="
)
"""Numbers outside their bounds of which half or more are among :data:`CODES`; a single cell never says so."""

STRANGE = Kind(
    "no_cell",
    "holds neither numbers, text nor truth values",
    hint="dates, binary data and nested values are not read; write such a column as numbers or text",
)

# --- Levels and labels -----------------------------------------------------------------

LEVEL = Kind("level", _LEVEL, hint=_LEVELS, rename="?=?")
LEVEL_EMPTY = Kind("level_empty", _LEVEL, "the cell is empty", f"{_LEVELS}; {_FILL}")
LEVEL_WORD = Kind("level_missing_word", _LEVEL, _WORD, LEVEL_EMPTY.hint)
LEVEL_ALIKE = Kind("level_alike", _LEVEL, "it differs from a level in capitals or blanks alone", _LEVELS + _COUNT)
LEVEL_MATCHED = Kind("level_matched", "has a level in other capitals or with blanks around it")
LEVEL_FORM = Kind("level_form", _LEVEL, "it is a level's number in another form, as 1.0 is of 1", _LEVELS, "?=?")

LABEL_EMPTY = Kind("label_empty", "the label {name} is empty", hint="leave records without a label out")
CLASS = Kind("class", _CLASS, hint=_CLASSES, rename="?=?")
CLASS_EMPTY = Kind("label_empty", _CLASS, "the cell is empty", hint=LABEL_EMPTY.hint)
CLASS_ALIKE = Kind("class_alike", _CLASS, "it differs from a class in capitals or blanks alone", _CLASSES + _COUNT)
LABEL_MATCHED = Kind("label_matched", "the label {name} has other capitals or blanks around it")
_TWO = "one value must be {range} and all others must be equal"
THIRD = Kind("label_third", "the label {name} has more than two different values", hint=_TWO)
THIRD_ALIKE = Kind(
    "label_alike", THIRD.says, "it differs from another value in capitals or blanks alone", _TWO + _COUNT
)

MISSING = frozenset({EMPTY, WORD, LEVEL_EMPTY, LEVEL_WORD})
"""The kinds that the feature's public ``missing`` value fills, where it has one."""

MATCHED = frozenset({LEVEL_MATCHED, LABEL_MATCHED})
"""The kinds that count as the level or the label that is meant, in a study with ``matching = "loose"``."""

# --- Lines -----------------------------------------------------------------------------

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
_MONTH = (  # in English, German or French
    r"(?i:(jan|feb|f[e\u00e9]v|m[a\u00e4]r|apr|avr|ma[iy]|ju[iln]|aug|ao[u\u00fb]|sep|o[ck]t|nov|d[e\u00e9][cz])"
    r"[^\W\d_]*)\.?"
)
_SHAPES = (
    (DASH, r"-+|\.|(?i:#n/a)"),
    (DATE, r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}([T ].*)?|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4}( .*)?|\d{1,2}:\d{2}(:\d{2})?"),
    (DATE, rf"\d{{1,2}}[-. ]{{1,2}}{_MONTH}[-. ]{{1,2}}(\d{{2}}|\d{{4}})( .*)?|{_MONTH} \d{{1,2}}, ?\d{{4}}( .*)?"),
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


def number_of(cell: str) -> tuple[float, Kind | None]:
    """Return the number that a cell holds, NaN where it holds none, and what is wrong with it."""
    value = number_in(cell)
    if is_missing(cell):
        return value, WORD if cell.strip() else EMPTY
    if math.isnan(value):
        return value, next((kind for kind, form in _FORMS if form.fullmatch(cell)), TEXT)
    return value, INFINITE if math.isinf(value) else None


def kind_of_level(cell: str, levels: Collection[str]) -> Kind:
    """Return what is wrong with a cell that is not one of a feature's levels."""
    if is_missing(cell):
        return LEVEL_WORD if cell.strip() else LEVEL_EMPTY
    if alike(cell, levels) is not None:
        return LEVEL_ALIKE
    value = number_of(cell)[0]
    if any(value == number_of(level)[0] for level in levels):
        return LEVEL_FORM
    return _perhaps(LEVEL, cell, levels)


def kind_of_class(cell: str, classes: Collection[str]) -> Kind:
    """Return what is wrong with a label that is not one of the study's classes."""
    if not cell.strip():
        return CLASS_EMPTY
    return _perhaps(CLASS, cell, classes) if alike(cell, classes) is None else CLASS_ALIKE


def _perhaps(kind: Kind, cell: str, known: Collection[str]) -> Kind:
    """Return the kind with the one known text that the cell seems to mean; the cell itself is not said."""
    plain = _plain(cell)
    near = [
        text for text in known if plain and (_plain(text).startswith(plain) or plain.startswith(_plain(text) or " "))
    ]
    if not near and len(known) <= _FEW:
        near = get_close_matches(cell, known, n=1)
    if len(near) != 1:
        return kind
    return replace(kind, detail=f"perhaps {near[0]!r} is meant", rename=f"?={escaped(near[0])}")


def _plain(text: str) -> str:
    """Return the letters and digits of a text, in small letters."""
    return "".join(filter(str.isalnum, text)).casefold()


def allowed_of(f: Feature) -> str:
    """Return the values that a column may hold, for a sentence."""
    if f.levels is not None:
        return ", ".join(map(repr, f.levels))
    return "" if f.min is None or f.max is None else f"{f.min:.17g} to {f.max:.17g}"


# --- Cells that do not fit -------------------------------------------------------------


def is_allowed(f: Feature, kind: Kind, *, clamps: bool) -> bool:
    """Return whether a study has a public rule for such a cell of a feature.

    Parameters
    ----------
    f : Feature
    kind : Kind
    clamps : bool
        Whether the study moves or fills every cell that does not fit.
    """
    return clamps or kind in MATCHED or (f.missing is not None and kind in MISSING)


def cell_faults(f: Feature, cells: Column, *, loose: bool = False) -> dict[Kind, list[int]]:
    """Return the rows of the cells that do not fit a feature, by what is wrong with them.

    Parameters
    ----------
    f : Feature
    cells : sequence
        Text, numbers or truth values.
    loose : bool
        Whether capitals, and blanks around a cell, do not count where they leave one level only.
    """
    faults, known = dict[Kind, list[int]](), dict[str, Kind | None]()
    for row, cell in enumerate(cells.tolist() if isinstance(cells, np.ndarray) else cells):
        text = cell_text(cell)
        kind: Kind | None = STRANGE
        if text is not None:
            if text not in known:
                known[text] = _kind_of_number(f, text) if f.levels is None else _kind_of_level(f, text, loose=loose)
            kind = known[text]
        if kind is not None:
            faults.setdefault(kind, []).append(row)
    return faults


def _kind_of_number(f: Feature, text: str) -> Kind | None:
    value, kind = number_of(text)
    if kind is None and f.min is not None and f.max is not None and not f.min <= value <= f.max:
        return OUTSIDE
    return kind


def _kind_of_level(f: Feature, text: str, *, loose: bool) -> Kind | None:
    levels = f.levels or ()
    known = (*levels, "") if "?" in levels else levels
    if text in known:
        return None
    return LEVEL_MATCHED if spelled(text, known, loose=loose) in known else kind_of_level(text, levels)


def note_cells(
    features: Sequence[Feature],
    columns: Mapping[str, Column],
    places: Sequence[Place],
    faults: Faults,
    *,
    clamps: bool,
    loose: bool,
) -> None:
    """Count every cell that does not fit its feature, and note whether the study refuses it.

    Parameters
    ----------
    features : sequence of Feature
    columns : mapping of str to sequence
        Cells; of a file that lacks a column, those of the others.
    places : sequence of Place
        Those of the records.
    faults : Faults
    clamps, loose : bool
        As in :func:`is_allowed` and in :func:`cell_faults`.
    """
    faults.records += len(places)
    for f in features:
        for kind, rows in cell_faults(f, columns.get(f.name, ()), loose=loose).items():
            refused = not is_allowed(f, kind, clamps=clamps)
            faults.add(f.name, kind, [places[row] for row in rows], refused=refused, allowed=allowed_of(f))


# --- Files -----------------------------------------------------------------------------

NO_RECORDS = Sign("no_records", "has column names but no records", "put a record on each further line")
"""The sign of a file with a header and nothing else."""


def no_records(source: str) -> FaultyFile:
    """Return the error of a file with a header and nothing else."""
    return FaultyFile(source, (NO_RECORDS,), (), "line")
