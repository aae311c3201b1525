"""All records of a table that a study refuses, found in one reading: each with its place and the reason."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from masquerade_core.data.file_faults import allowed_of, cell_faults, is_allowed, sentence
from masquerade_core.data.files import Column
from masquerade_core.data.schema import Encoder, length_of
from masquerade_core.errors import BadInput
from masquerade_core.words import counted, listed

__all__ = ["BadRecord", "BadRecords", "bad_records", "reasons_of"]

_SHOWN = 10


@dataclass(frozen=True)
class BadRecord:
    """A record that cannot be labelled. It shows no cell.

    Parameters
    ----------
    row : int
        The record's number, from 0, among all records.
    place : str
        Where it stands: ``line 7`` of a CSV file, else ``record 7``, from 1.
    reasons : tuple of str
        One for each of its cells that does not fit.
    """

    row: int
    place: str
    reasons: tuple[str, ...]


class BadRecords(BadInput):
    """Some records cannot be labelled, so none was.

    Parameters
    ----------
    bad : tuple of BadRecord
    n : int
        The number of all records.
    source : str
        Names the records.
    hint : str
        What to do about it.
    """

    def __init__(self, bad: tuple[BadRecord, ...], n: int, source: str, hint: str) -> None:
        told = "; ".join(reasons_of(bad))
        super().__init__(f"{source}: {len(bad):,} of {counted(n, 'record')} cannot be labelled. {told}", hint)
        self.bad = bad


def reasons_of(bad: Sequence[BadRecord]) -> list[str]:
    """Return a sentence for each reason, with the places of its records; of many places, the first ten."""
    places: dict[str, list[str]] = {}
    for record in bad:
        for reason in record.reasons:
            places.setdefault(reason, []).append(record.place)
    return [f"{_places(where)}: {reason}" for reason, where in places.items()]


def _places(places: Sequence[str]) -> str:
    unit = places[0].partition(" ")[0]
    numbers = [place.partition(" ")[2] for place in places]
    if len(numbers) > _SHOWN:
        return f"{unit}s {', '.join(numbers[:_SHOWN])} and {len(numbers) - _SHOWN:,} more"
    return f"{unit}{'s' if len(numbers) > 1 else ''} {listed(numbers)}"


def bad_records(
    encoder: Encoder, columns: Mapping[str, Column], at: Callable[[int], str], broken: Mapping[int, str]
) -> tuple[BadRecord, ...]:
    """Return all records that an encoder refuses.

    Parameters
    ----------
    encoder : Encoder
    columns : mapping of str to sequence
        As for :meth:`Encoder.encode`.
    at : callable
        Returns the place of a record by its row.
    broken : mapping of int to str
        Rows that are no records at all, such as a line with too few cells, and what is wrong with each.
    """
    length_of(columns, encoder.columns)
    found: dict[int, list[str]] = {row: [reason] for row, reason in broken.items()}
    for f in encoder.features:
        for kind, rows in cell_faults(f, columns[f.name], loose=encoder.loose).items():
            if not is_allowed(f, kind, clamps=encoder.out_of_bounds == "clamp"):
                reason = sentence(kind.says, f.name, allowed_of(f))
                for row in rows:
                    if row not in broken:
                        found.setdefault(row, []).append(reason)
    return tuple(BadRecord(row, at(row), tuple(found[row])) for row in sorted(found))
