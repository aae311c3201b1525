"""The ledger's entries of a run as rows for people: equal debits, one after the other, are one row."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from masquerade_core.privacy.accounting import DELTA_UNITS, UNITS

__all__ = ["Debit", "debits"]

_KINDS = {"reserved": "reserved for this study", "attempt": "attempt begun", "finished": "finished"}


@dataclass(frozen=True)
class Debit:
    """One row.

    Parameters
    ----------
    numbers : str
        The entry's number in the ledger, or the first and the last.
    at : str
        When, in ISO form; of several, the first.
    what : str
    epsilon, delta : str
        Of each entry; empty where it takes nothing.
    """

    numbers: str
    at: str
    what: str
    epsilon: str
    delta: str


def debits(ledger: Mapping[str, Any]) -> list[Debit]:
    """Return the rows of the content of ``ledger.json``."""
    return [_joined(rows) for rows in _runs(list(ledger.get("entries", ())))]


def _runs(entries: list[Mapping[str, Any]]) -> Iterator[list[Mapping[str, Any]]]:
    """Yield the entries, with equal debits together."""
    group: list[Mapping[str, Any]] = []
    for entry in entries:
        if group and not (entry["kind"] == group[0]["kind"] == "debit" and entry["cost"] == group[0]["cost"]):
            yield group
            group = []
        group.append(entry)
    if group:
        yield group


def _joined(group: list[Mapping[str, Any]]) -> Debit:
    first, last = _row(group[0]), _row(group[-1])
    if len(group) == 1:
        return first
    return replace(
        first,
        numbers=f"{first.numbers} to {last.numbers}",
        what=f"{first.what} to {last.what}, {len(group)} in all; each",
    )


def _row(entry: Mapping[str, Any]) -> Debit:
    kind = str(entry["kind"])
    cost: list[int] = entry.get("cost") or entry.get("whole") or []
    epsilon, delta = (f"{cost[0] / UNITS:.4g}", f"{cost[1] / DELTA_UNITS:.3g}") if len(cost) > 1 else ("", "")
    what = str(entry.get("label") or _KINDS.get(kind, kind))
    return Debit(str(entry.get("n", "")), str(entry.get("at", "")), what, epsilon, delta)
