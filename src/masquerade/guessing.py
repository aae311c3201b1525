"""Bounds and levels read off records: for a demonstration, and for a sample that is public.

Of private records this would be a release of its own, which no proof here covers. So no other command does it.
"""

import math
import re
import shlex
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import ValidationError

from masquerade.cleaning import mended_number
from masquerade_core.data.examining import kind_of_numbers
from masquerade_core.data.file_faults import COMMA, DASH, DATE, DECIMAL_COMMA, NINES, PERCENT, THOUSANDS, number_of
from masquerade_core.data.files import TextTable, is_missing
from masquerade_core.data.schema import MISSING_LEVEL
from masquerade_core.errors import BadInput
from masquerade_core.study import Feature
from masquerade_core.words import counted, listed

__all__ = [
    "MOST_LEVELS",
    "OTHER",
    "Guess",
    "Limits",
    "all_percent",
    "column_kind",
    "copy_command",
    "dotted_thousands",
    "far_nines",
    "guess",
    "has_signs",
    "label_typed",
    "like_serials",
    "without_label",
]

MOST_LEVELS = 30
"""A column with more different texts is no category."""

OTHER = "other"
"""The level in which rare ones are pooled."""

_MANY = 10  # different numbers, beside which text is no level
_MENDED = frozenset({COMMA, DECIMAL_COMMA, THOUSANDS})
_DAY_OF_1990, _DAY_OF_2060 = 32_874, 58_441  # in Excel's numbers for dates
_GROUPS = re.compile(r"[+-]?\d{1,3}(\.\d{3})*")
_THRICE = 3
_PLUS = re.compile(r"\s*\++\s*")
_MOST = 0.5  # of a column's different texts: then it holds dates, or numbers


@dataclass(frozen=True)
class Limits:
    """How many levels a category may have.

    Parameters
    ----------
    levels : int
        The most levels.
    rare : int
        A level in fewer records is pooled with others; 0 where nothing is pooled.
    numbers : int
        The most levels of a column of numbers of which some are missing.
    """

    levels: int
    rare: int = 0
    numbers: int = 20


@dataclass(frozen=True)
class Guess:
    """The evidence of a column's cells about its kind.

    Parameters
    ----------
    feature : Feature or None
        None where the column tells no two records apart.
    cells : sequence of str
        The cells, with pooled and missing levels in their places.
    notes : tuple of str
        What was done to them, in sentences without a full stop.
    """

    feature: Feature | None
    cells: Sequence[str]
    notes: tuple[str, ...] = ()


def guess(
    name: str,
    cells: Sequence[str],
    at: Callable[[int], str],
    limits: Limits,
    leave_out: str,
    *,
    accept: str = "",
    accepted: bool = False,
) -> Guess:
    """Take bounds, rounded outwards, or levels from a column.

    Parameters
    ----------
    name : str
    cells : sequence of str
    at : callable
        Returns the place of a record, by its number from 0.
    limits : Limits
    leave_out : str
        How the column is left out, for an error's hint.
    accept : str
        How it is used all the same; empty if there is no way.
    accepted : bool
        Whether the column is used although it looks like a mistake.

    Raises
    ------
    BadInput
        The column has more levels than may be. Or it holds dates, identifiers, or text among numbers.
    """
    cells, notes = _mended(name, cells)
    counts = Counter(cells)
    present = [value for value in counts if not is_missing(value)]
    if not accepted:
        _check(name, cells, present, at, leave_out, accept)
    elif texts := _texts_among_numbers(present):
        cells = ["" if cell in texts else cell for cell in cells]
        notes += (f"{name}: text among its numbers counts as missing",)
        counts = Counter(cells)
        present = [value for value in present if value not in texts]
    numbers = [number for value in present if (number := _number(value)) is not None]
    if present and len(numbers) == len(present):
        if len(present) == len(counts):
            same = min(numbers) == max(numbers)
            return Guess(None, cells, (_useless(name),)) if same else Guess(_bounded(name, numbers), cells, notes)
        if len(counts) > min(limits.numbers, limits.levels):
            return _with_gaps(name, numbers, cells, at, notes)
        notes += (f"{name}: some numbers are missing, so each of its values is a level",)
    cells, said = _spelled(name, cells)
    notes, counts = (*notes, *said), Counter(cells)
    if "" in counts:
        place = at(cells.index(""))
        notes += (f"{name}: {counted(counts[''], 'empty cell')} became {MISSING_LEVEL!r}, the first in {place}",)
        counts[MISSING_LEVEL] += counts.pop("")
        cells = [cell or MISSING_LEVEL for cell in cells]
    kept, pooled = _split(counts, limits)
    if pooled and not limits.rare:
        raise BadInput(
            f"column {name!r} of {at(0).partition(',')[0]} has {len(counts):,} levels, where {limits.levels} are "
            "allowed",
            leave_out,
        )
    if pooled:
        notes += (f"{name}: {_pooled(counts, pooled, limits)}",)
        known = set(kept)
        cells = [cell if cell in known else OTHER for cell in cells]
        kept = [*(level for level in kept if level != OTHER), OTHER]
    if len(kept) < 2:  # noqa: PLR2004
        return Guess(None, cells, (_useless(name),))
    return Guess(_feature(name, levels=tuple(kept)), cells, notes)


def _mended(name: str, cells: Sequence[str]) -> tuple[Sequence[str], tuple[str, ...]]:
    """Return the cells with points before decimals and no marks between thousands, and whether any was changed."""
    notes: tuple[str, ...] = ()
    if all_percent(cells):
        cells, notes = [cell.rstrip("% ") for cell in cells], (f"{name}: percent signs were taken out",)
    if column_kind(cells) == "number" and (nines := far_nines(cells)):
        cells = ["" if cell in nines else cell for cell in cells]
        notes += (f"{name}: {listed(sorted(nines))} counts as missing",)
    kinds = {number_of(cell)[1] for cell in set(cells)}
    if has_signs(cells):
        return cells, notes
    if not kinds & {DASH, DECIMAL_COMMA, THOUSANDS}:
        return cells, notes
    decimal, thousands = DECIMAL_COMMA in kinds, THOUSANDS in kinds
    mended = {cell: mended_number(cell, decimal=decimal, thousands=thousands) for cell in set(cells)}
    rules = sorted({rule for _, rule in mended.values() if rule})
    return [mended[cell][0] for cell in cells], (*notes, *(f"{name}: {rule}" for rule in rules))


def _spelled(name: str, cells: Sequence[str]) -> tuple[Sequence[str], tuple[str, ...]]:
    """Return the cells with one spelling, the most frequent, of levels that differ in capitals alone."""
    counts = Counter(cells)
    first: dict[str, str] = {}
    spelled = {value: first.setdefault(value.casefold(), value) for value, _ in counts.most_common()}
    changed = sum(count for value, count in counts.items() if spelled[value] != value)
    if not changed:
        return cells, ()
    return [spelled[cell] for cell in cells], (f"{name}: {counted(changed, 'cell')} matched but for capitals",)


def _texts_among_numbers(present: Sequence[str]) -> frozenset[str]:
    """Return the texts of a column that mostly holds numbers, and many different ones; none of another column."""
    texts = frozenset(value for value in present if number_of(value)[1] not in {None, DATE})
    numbers = len(present) - len(texts)
    return texts if numbers > _MANY and numbers > _MOST * len(present) else frozenset()


def has_signs(cells: Sequence[str]) -> bool:
    """Return whether a column has plus signs as values: then its dashes are minus signs, and not missing."""
    return any(_PLUS.fullmatch(cell) for cell in set(cells))


def like_serials(values: Sequence[float]) -> bool:
    """Return whether many whole numbers are all days as Excel counts them, from the years 1990 to 2060."""
    found = np.array(values)
    fits = (found == np.rint(found)) & (found >= _DAY_OF_1990) & (found < _DAY_OF_2060)
    return len(found) > MOST_LEVELS and bool(fits.all())


def without_label(cells: Sequence[str], named: Collection[str] = ()) -> frozenset[str]:
    """Return those cells of a label that say that it is missing.

    Parameters
    ----------
    cells : sequence of str
    named : collection of str
        Values that somebody named. A word among them, such as "none", is a value.

    Returns
    -------
    frozenset of str
        An empty cell always. A word for a missing value or a dash only where two other values are left.
    """
    values = set(cells)
    empty = {value for value in values if not value.strip()}
    words = {v for v in values if (is_missing(v) or number_of(v)[1] is DASH) and v not in named} - empty
    left = {value.strip().casefold() for value in values - words - empty}
    return frozenset(empty | words if len(left) > 1 and not has_signs(cells) else empty)


def all_percent(cells: Sequence[str]) -> bool:
    """Return whether a column's numbers all have percent signs, so that the signs say nothing."""
    kinds = {number_of(cell)[1] for cell in set(cells) if not is_missing(cell)} - {DASH}
    return kinds == {PERCENT}


def dotted_thousands(table: TextTable) -> frozenset[str]:
    """Return the columns in which points stand between thousands.

    They have whole numbers in groups of three digits, at least one of them with a point, in a table of which another
    column has commas before its decimals.
    """
    columns = {name: set(cells) for name, cells in table.columns.items()}
    if not any(number_of(cell)[1] is DECIMAL_COMMA for cells in columns.values() for cell in cells):
        return frozenset()
    return frozenset(
        name
        for name, cells in columns.items()
        if any("." in cell for cell in cells)
        and all(_GROUPS.fullmatch(cell) or is_missing(cell) or number_of(cell)[1] is DASH for cell in cells)
    )


def far_nines(cells: Sequence[str]) -> frozenset[str]:
    """Return the cells of nines, such as 9999 or -99, that stand for missing values in a column of numbers.

    Each stands there at least three times, and is farther from all other numbers than these are from each other.
    """
    counts = Counter(cells)
    often = [cell for cell, count in counts.items() if count >= _THRICE]
    nines = {cell: value for cell in often if (value := number_of(cell)[0]) in NINES}
    others = [value for cell in counts if cell not in nines and math.isfinite(value := number_of(cell)[0])]
    if not nines or len(others) < _MANY:
        return frozenset()
    low, high = min(others), max(others)
    return frozenset(
        cell for cell, value in nines.items() if max(low - value, value - high) > high - low or value < 0 <= low
    )


def label_typed(name: str, values: Sequence[str]) -> str:
    """Return the text with which ``--label`` names a column and some of its values."""
    return f"{_escaped(name)}:{','.join(map(_escaped, values))}"


def _escaped(text: str) -> str:
    return re.sub(r"([:,\\])", r"\\\1", text)


def copy_command(path: Path, label: str = "") -> str:
    """Return the command that writes a corrected copy of a table; ``label`` as it is typed after ``--label``."""
    out = path.with_name(f"{path.name.partition('.')[0]}-mended.csv")
    return shlex.join(
        ["masquerade", "data", "look", str(path), *(["--label", label] if label else []), "--out", str(out)]
    )


def column_kind(cells: Sequence[str]) -> str:
    """Return what a column seems to be.

    Returns
    -------
    str
        "number", "category", "text" for more than 30 different texts, "date", "identifier", "constant" or "empty".
    """
    present = {cell: number_of(cell) for cell in set(cells) if not is_missing(cell)}
    if not has_signs(cells):
        present = {cell: found for cell, found in present.items() if found[1] is not DASH}
    if len(present) < 2:  # noqa: PLR2004
        return "constant" if present else "empty"
    if sum(kind is DATE for _, kind in present.values()) > _MOST * len(present):
        return "date"
    mended = _MENDED | {PERCENT} if all_percent(cells) else _MENDED
    numbers = sum(kind is None or kind in mended for _, kind in present.values())
    if numbers == len(present) or (numbers > _MANY and numbers > _MOST * len(present)):
        values = np.array([present[cell][0] for cell in cells if cell in present and present[cell][1] is None])
        return kind_of_numbers(values) or "number"
    return "category" if len(present) <= MOST_LEVELS else "text"


def _check(
    name: str, cells: Sequence[str], present: Sequence[str], at: Callable[[int], str], leave_out: str, accept: str
) -> None:
    """Refuse a column from which nothing can be learned, or of which the numbers are damaged."""
    if texts := _texts_among_numbers(present):
        place = at(next(row for row, cell in enumerate(cells) if cell in texts))
        raise BadInput(
            f"column {name!r} holds numbers, and text among them, first in {place}",
            f"write a number there, or leave the cell empty; or {leave_out}"
            + (f"; or let text count as missing with {accept}" if accept else ""),
        )
    kind = column_kind(cells)
    if kind == "date":
        raise BadInput(
            f"column {name!r} holds dates, which no model here learns from",
            f"{leave_out}; or write an age, or the days since an event, in its place",
        )
    if kind == "number" and like_serials([number_of(value)[0] for value in present if number_of(value)[1] is None]):
        raise BadInput(
            f"column {name!r} seems to hold dates as Excel numbers them, in days since 1900",
            f"{leave_out}; or, where it measures something, use it with {accept}" if accept else leave_out,
        )
    if kind == "identifier":
        raise BadInput(
            f"column {name!r} seems to number the records or the patients: nearly all its whole numbers differ",
            f"{leave_out}; or, where it measures something, use it with {accept}" if accept else leave_out,
        )


def _useless(name: str) -> str:
    return f"{name}: left out, since no two records would differ in it"


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and "_" not in text else None


def _with_gaps(
    name: str, numbers: Sequence[float], cells: Sequence[str], at: Callable[[int], str], notes: tuple[str, ...]
) -> Guess:
    """Return a column of numbers of which some are missing: these count as the median of the others."""
    bounded = _bounded(name, numbers)
    places = [row for row, cell in enumerate(cells) if is_missing(cell)]
    middle = float(f"{np.median([float(cell) for cell in cells if not is_missing(cell)]):.3g}")
    note = (
        f"{name}: {counted(len(places), 'number is missing', 'numbers are missing')}, the first in {at(places[0])}, "
        f"and {'counts' if len(places) == 1 else 'count'} as {middle:g}, the median"
    )
    return Guess(_feature(name, min=bounded.min, max=bounded.max, missing=middle), cells, (*notes, note))


def _bounded(name: str, values: Sequence[float]) -> Feature:
    """Round bounds outwards to multiples of the power of ten that their distance begins with."""
    low, high = min(values), max(values)
    bounds = low, high
    if math.isfinite(high - low):
        unit = Decimal(1).scaleb(math.floor(math.log10(high - low)))
        # In decimal numbers: no rounding moves a bound into the records.
        below = (Decimal(repr(low)) / unit).to_integral_value(ROUND_FLOOR)
        above = (Decimal(repr(high)) / unit).to_integral_value(ROUND_CEILING)
        bounds = float(below * unit), float(above * unit)
    if not math.isfinite(bounds[1] - bounds[0]):
        raise BadInput(f"column {name!r} holds numbers too far apart for floating point", "leave the largest out")
    return _feature(name, min=bounds[0], max=bounds[1])


def _split(counts: Counter[str], limits: Limits) -> tuple[list[str], list[str]]:
    """Return the levels to keep, in the order of the alphabet with the missing one last, and those to pool."""
    ordered = [level for level, _ in counts.most_common()]
    kept = [level for level in ordered if counts[level] >= limits.rare and _fit(level)]
    room = limits.levels - (OTHER not in kept)
    if len(kept) > limits.levels or (len(kept) < len(ordered) and len(kept) > room):
        kept = kept[:room]
    known = set(kept)
    return sorted(kept, key=lambda level: (level == MISSING_LEVEL, level)), [x for x in ordered if x not in known]


def _fit(level: str) -> bool:
    """Whether a study can name a level."""
    return level.isprintable() and 1 <= len(level) <= 128  # noqa: PLR2004


def _pooled(counts: Counter[str], pooled: list[str], limits: Limits) -> str:
    records = sum(counts[level] for level in pooled)
    if len(pooled) == 1:
        return f"1 level became {OTHER!r}, for only {counted(records, 'record has', 'records have')} it"
    if all(counts[level] < limits.rare for level in pooled):
        why = f"each of them in fewer than {limits.rare}"
    else:
        why = f"the rarest, since a column has {limits.levels} levels at most"
    return f"{len(pooled)} levels of {counted(records, 'record')} became {OTHER!r}, {why}"


def _feature(name: str, **values: Any) -> Feature:
    try:
        return Feature(name=name, **values)
    except ValidationError as error:
        raise BadInput(
            f"the column name {name!r} does not fit into a study", "give the column 1 to 128 printable characters"
        ) from error
