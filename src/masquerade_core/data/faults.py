"""The faults of a file of records: counted by column and kind, with the first three places of each.

A fault is a cell or a line that a study does not allow. A *sign* speaks of the whole file: its commas are semicolons,
or a column is not there. An error says all of it at once, so that one reading of the file is enough to correct it. It
shows no cell and not the number of records: where every record has the fault, it says "all".
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from masquerade_core.errors import BadInput
from masquerade_core.words import counted, listed

__all__ = ["Fault", "Faults", "FaultyFile", "Kind", "Place", "Sign", "Unit", "sentence", "where"]

Unit = Literal["line", "record"]

Place = int | str
"""The number of a line or a record; of a file among several, "7 of part-2.parquet"."""

_FIRST = 3
_ROWS = 20  # of an error; JSON has all
_HINTS = 6
_CHECK = "'masquerade data check STUDY FILE' says this before a run, and 'masquerade data clean' mends what it can"


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
    """

    name: str
    says: str
    detail: str = ""
    hint: str = ""


@dataclass(frozen=True)
class Sign:
    """A fault of a file as a whole.

    Parameters
    ----------
    name : str
        For programs.
    says : str
        What is wrong, after the name of the file.
    hint : str
        What to do about it.
    final : bool
        Whether nothing else of the file can be read.
    """

    name: str
    says: str
    hint: str
    final: bool = False


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
    """

    def __init__(self, source: str, signs: Sequence[Sign], faults: Sequence[Fault], unit: Unit) -> None:
        self.signs, self.faults = tuple(signs), tuple(faults)
        rows = [sign.says for sign in signs] + [fault.row(unit) for fault in faults]
        hints = [*(sign.hint for sign in signs), *(fault.hint for fault in faults)]
        self.all_hints = _listed_hints(list(dict.fromkeys(filter(None, hints))))
        more = "" if len(rows) == 1 else f"\n  {_CHECK}"
        super().__init__(_message(source, rows, faults), self.all_hints + more)


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
    _found: dict[tuple[str, str, str], Fault] = field(default_factory=dict)

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
        key = (column, kind.name, kind.says)
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
