"""The privacy statement as a picture: for each observer the target, the claim, the proof and the audit on one axis."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from masquerade_core.privacy.several_records import ABSURD, PARTY, PERSON, group_bound
from masquerade_core.privacy.statement import NOT_PROMISED, odds

__all__ = ["Axis", "Observer", "View", "common", "guess", "held", "observers", "views"]

Row = Mapping[str, Any]

_CLAIMED = re.compile(r"epsilon = (\d[\d.,]*(?:e[+-]?\d+)?)")
_CERTAIN = 20.0  # an epsilon from which on a guess may become all but certain
_LOWEST, _HIGHEST = 1e-3, 1e3
_MARGIN = 0.25  # of a power of ten, on both sides of what is drawn


def held(row: Row) -> bool:
    """Whether anything is proved: a guarantee with a delta of 1 is none."""
    return row["epsilon"] is not None and row["delta"] is not None and row["delta"] < 1


@dataclass(frozen=True)
class Axis:
    """A logarithmic axis of epsilon, as wide as what stands on it.

    Parameters
    ----------
    low, high : float
        Its ends.
    """

    low: float
    high: float

    @classmethod
    def over(cls, values: Sequence[float]) -> "Axis":
        """Return an axis with room for all values, of at least a power of ten."""
        known = [min(max(v, _LOWEST), _HIGHEST) for v in values if v > 0 and math.isfinite(v)] or [1.0]
        low, high = math.log10(min(known)) - _MARGIN, math.log10(max(known)) + _MARGIN
        low, high = min(low, -1 + _MARGIN), max(high, 1.0)
        return cls(10**low, 10**high)

    def at(self, value: float) -> str:
        """Return where a value stands, in percent of the width."""
        span = math.log10(self.high) - math.log10(self.low)
        place = (math.log10(max(value, self.low)) - math.log10(self.low)) / span
        return f"{100 * min(1.0, max(0.0, place)):.2f}%"

    @property
    def ticks(self) -> tuple[tuple[str, str], ...]:
        """The labelled values, each with its place: 1, 2 and 5 of each power of ten."""
        first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
        steps = (1, 2, 5) if last - first <= 3 else (1,)  # noqa: PLR2004
        values = [step * 10.0**power for power in range(first, last + 1) for step in steps]
        return tuple((f"{value:g}", self.at(value)) for value in values if self.low < value < self.high)


@dataclass(frozen=True)
class View:
    """One row of the statement, with what the picture shows of it.

    Parameters
    ----------
    row : mapping
    who : str
        Who looks, and at whose data where that is not one record.
    claimed : float or None
        The epsilon that is claimed, or promised; None where there is none.
    proved : float or None
    audited : float or None
        What an audit showed epsilon to be at least.
    promised : bool
        Whether the study counts on this row.
    after : str
        What a guess that was 50 % likely to be right may become at most, in percent; empty where nothing is proved.
    own : tuple of str
        What this row alone rests on.
    """

    row: Row
    who: str
    claimed: float | None
    proved: float | None
    audited: float | None
    promised: bool
    after: str
    own: tuple[str, ...] = ()


def views(rows: Sequence[Row], audit: Mapping[str, Any] | None = None) -> list[View]:
    """Return the statement's rows as the picture shows them."""
    shared = common(rows)
    return [_view(row, audit, shared) for row in rows]


def common(rows: Sequence[Row]) -> list[str]:
    """Return the assumptions that all proved rows share."""
    lists = [row["assumptions"] for row in rows if held(row)]
    return [text for text in lists[0] if all(text in other for other in lists)] if lists else []


def _view(row: Row, audit: Mapping[str, Any] | None, shared: Sequence[str]) -> View:
    proved = float(row["epsilon"]) if held(row) else None
    promised = not str(row["claimed"]).startswith(NOT_PROMISED)
    found = _CLAIMED.search(str(row["claimed"])) if promised else None
    named = row["unit"] == "record" or f"records of one {row['unit']}" in row["view"]
    who = str(row["view"]) if named else f"{row['view']}, of a whole {row['unit']}"
    audited = None
    if audit and row["unit"] == audit.get("unit") and _public(str(row["view"])):
        bound = audit.get("bound")
        audited = float(bound) if isinstance(bound, int | float) and math.isfinite(bound) else None
    return View(
        row=row,
        who=who[:1].upper() + who[1:],
        claimed=float(found[1].rstrip(".,").replace(",", "")) if found else None,
        proved=proved,
        audited=audited,
        promised=promised,
        after="" if proved is None else guess(proved),
        own=tuple(text for text in row["assumptions"] if text not in shared),
    )


def guess(epsilon: float) -> str:
    """Return what a guess may become at most that was 50 % likely to be right."""
    return odds(epsilon) if epsilon <= _CERTAIN else "100 %"


# --- For the board: three observers, and those who side with each other ----------------


@dataclass(frozen=True)
class Observer:
    """Somebody who looks, and how sure a guess about one record, or about one person, can become.

    Parameters
    ----------
    name : str
    percent : float or None
        At most; None where nothing is proved.
    shown : str
        The same with its digits, as the statement writes it.
    epsilon : float or None
    """

    name: str
    percent: float | None
    shown: str
    epsilon: float | None


def _public(view: str) -> bool:
    return view.startswith(("released", "whoever")) and "all records of one" not in view


def _charlie(view: str) -> bool:
    return view in {"Charlie", "Charlie or a party that breaks the rules"}


def _party(view: str) -> bool:
    return view.startswith(("one party", "the lead", "the party with"))


def _together(view: str) -> bool:
    return view.startswith(("Charlie with", "Charlie or any party")) and "adds no noise" not in view


_OBSERVERS = (
    ("Anybody who sees the result", _public),
    ("The coordinator (Charlie)", _charlie),
    ("Another party", _party),
)


def observers(rows: Sequence[Row], records_per_person: int = 1) -> list[Observer]:
    """Return how much each observer may learn at most; the promise about the worst view counts.

    Parameters
    ----------
    rows : sequence of mapping
        Of a statement.
    records_per_person : int
        How many records of one person there may be. With more than one, all of a person's records count together.
    """
    own = list(_about_one_person(rows, records_per_person))
    found = [_worst(name, [row for row in own if seen(str(row["view"]))]) for name, seen in _OBSERVERS]
    side = [row for row in own if _together(str(row["view"])) and not str(row["claimed"]).startswith(NOT_PROMISED)]
    if side:
        worst = max(side, key=lambda row: float(row["epsilon"]) if held(row) else math.inf)
        found.append(_worst(str(worst["view"]).replace("Charlie", "The coordinator", 1), side))
    return [observer for observer in found if observer is not None]


def _about_one_person(rows: Sequence[Row], records_per_person: int) -> Iterator[Row]:
    """Yield a row of each view about all records of a person.

    Rows about a party cover them. Where the statement has no row about a person for a view, what is proved of one
    record bounds what is proved of several (:func:`~masquerade_core.privacy.several_records.group_bound`).
    """
    persons = [row for row in rows if row["unit"] == PERSON]
    for row in rows:
        if row["unit"] == PARTY and "all records of one" not in str(row["view"]):
            yield row
        elif row["unit"] == "record":
            own = next((other for other in persons if str(other["view"]).startswith(f"{row['view']}, ")), None)
            yield row if records_per_person == 1 else own or _of_several(row, records_per_person)


def _of_several(row: Row, size: int) -> Row:
    """Return a row about so many records, from one about a single record."""
    bound = group_bound(float(row["epsilon"]), float(row["delta"]), size) if held(row) else None
    epsilon, delta = bound if bound is not None and bound[0] <= ABSURD else (None, None)
    return {**row, "epsilon": epsilon, "delta": delta}


def _worst(name: str, rows: Sequence[Row]) -> Observer | None:
    if not rows:
        return None
    if not all(map(held, rows)):
        return Observer(name, None, "not limited", None)
    epsilon = max(float(row["epsilon"]) for row in rows)
    return Observer(name, 100 / (1 + math.exp(-epsilon)), guess(epsilon), epsilon)
