"""A person's acts on the budget: give it, change it, look at it, give a study up, put an older copy right.

A run of a study that was approved loads none of it.
"""

import contextlib
import json
import secrets
from pathlib import Path
from typing import Any

from masquerade_core.errors import BadInput, OlderCopy, RefusedLocally
from masquerade_core.privacy.accounting import DELTA_UNITS, UNITS, Cost, Total, down
from masquerade_core.study import Study
from masquerade_host.store.chained_table import connect, damaged
from masquerade_host.store.ledger import (
    KEY_BYTES,
    PUT_BACK,
    START,
    Ledger,
    LedgerFile,
    faults_of,
    line_of,
    reservation_of,
    whole_lines,
)
from masquerade_host.store.state import StateFolder, sync_folder, write_new

__all__ = [
    "give_budget",
    "give_up",
    "parties_of",
    "populations",
    "records_of",
    "recover",
    "set_limit",
    "would_fit",
]


# --- Limits ----------------------------------------------------------------------


def give_budget(
    folder: StateFolder, population: str, epsilon: float, delta: float, *, by: str, basic_only: bool = False
) -> Ledger:
    """Give a population its limit, and make the ledger if there is none; BadInput if the population has one.

    Raises
    ------
    RefusedLocally
        The ledger is missing, and its second file is there and has entries.
    """
    if not folder.ledger.exists():
        _make(folder)
    ledger, limit = Ledger.open(folder), _limit(population, epsilon, delta)
    with ledger.writing() as (books, write):
        if population in books.populations:
            raise BadInput(
                f"the population {population!r} has a budget already",
                "'masquerade budget show' shows it, and 'masquerade budget limit' changes its limit",
            )
        write("limit", **limit, basic_only=basic_only, by=by)
    return ledger


def set_limit(ledger: Ledger, population: str, epsilon: float, delta: float, *, by: str) -> None:
    """Change a population's limit."""
    with ledger.writing() as (books, write):
        basic_only = books.population(population).basic_only
        write("limit", **_limit(population, epsilon, delta), basic_only=basic_only, by=by)


def _limit(population: str, epsilon: float, delta: float) -> dict[str, Any]:
    if not (0 < epsilon < float("inf") and 0 <= delta < 1):
        raise BadInput(
            f"a limit of epsilon = {epsilon:g} and delta = {delta:g} was asked for; epsilon must be greater than 0, "
            "and delta at least 0 and less than 1"
        )
    return {"population": population, "epsilon": down(epsilon, UNITS), "delta": down(delta, DELTA_UNITS)}


def populations(ledger: Ledger) -> tuple[str, ...]:
    """Return the populations, in the order in which they were made."""
    with ledger.writing() as (books, _):
        return tuple(books.populations)


# --- Studies ---------------------------------------------------------------------


def would_fit(ledger: Ledger, study: Study, me: str, population: str, spends: Cost | None = None) -> bool:
    """Say whether the budget covers a study, or has covered it already; ``spends`` as in :meth:`.Ledger.reserve`."""
    new = reservation_of(study, me, population, b"", spends)
    with ledger.writing() as (books, _):
        before = books.reservations.get((new.study, new.me))
        if before is not None and before.state != "released":
            return before.goes_on
        return books.population(population).fits(books.charged(population, before) + Total.of(new.whole))


def records_of(ledger: Ledger, study: str, me: str) -> bytes | None:
    """Return the fingerprint of the data set for which a study (its digest) has or had a reservation, if any."""
    with ledger.writing() as (books, _):
        found = books.reservations.get((study, me))
        return None if found is None else bytes.fromhex(found.fingerprint)


def parties_of(ledger: Ledger, study: Study) -> tuple[str, ...]:
    """Return as which parties of a study this machine has an open reservation."""
    with ledger.writing() as (books, _):
        digest = study.digest().hex()
        return tuple(r.me for r in books.reservations.values() if (r.study, r.state) == (digest, "open"))


def give_up(ledger: Ledger, study: str, me: str, *, by: str) -> str:
    """Give up a study (its digest) that did not finish; returns its population.

    The rest of its reservation is free again, and debits stay.
    """
    with ledger.writing() as (books, write):
        population = books.reservation(study, me).population
        write("released", study=study, me=me, by=by)
    return population


# --- Files -----------------------------------------------------------------------

_SCHEMA = """
CREATE TABLE entries (n INTEGER PRIMARY KEY, chain BLOB NOT NULL, body TEXT NOT NULL) STRICT;
CREATE TRIGGER no_update BEFORE UPDATE ON entries BEGIN SELECT RAISE(ABORT, 'the ledger only grows'); END;
CREATE TRIGGER no_delete BEFORE DELETE ON entries BEGIN SELECT RAISE(ABORT, 'the ledger only grows'); END;
"""


def _make(folder: StateFolder) -> None:
    """Make an empty ledger where there is none."""
    folder.made()
    with faults_of(folder.ledger):
        if (lines := folder.ledger_lines).exists() and lines.stat().st_size:
            raise RefusedLocally(
                f"{folder.ledger} is missing, but {lines} has its entries",
                "put the ledger back; if it is lost for good, 'masquerade budget recover' makes it from that file",
            )
        if not folder.ledger_key.exists():
            write_new(folder.ledger_key, secrets.token_bytes(KEY_BYTES))
        if not lines.exists():
            write_new(lines, b"")
        _make_empty(folder.ledger)


def _make_empty(path: Path) -> None:
    """Make the first file, whole or not at all."""
    part = path.with_suffix(".part")
    part.unlink(missing_ok=True)
    write_new(part, b"")
    with contextlib.closing(connect(part, "journal_mode = WAL")) as database:
        database.executescript(f"BEGIN;{_SCHEMA}COMMIT;")
    part.rename(path)
    sync_folder(path.parent)


def recover(folder: StateFolder) -> int:
    """Enter what the second file alone knows, or write that file anew if it is lost; returns how many entries.

    Raises
    ------
    OlderCopy
        An entry of the second file does not follow from those of the first.
    Damaged
        The first file is damaged, or the second one is where it alone has entries.
    """
    with faults_of(folder.ledger):
        if not folder.ledger.exists() and folder.ledger_lines.exists():
            _make_empty(folder.ledger)
    with contextlib.closing(_Recovered(folder)) as file, faults_of(folder.ledger):
        return file.enter()


class _Recovered(LedgerFile):
    """The two files of a ledger, of which each gets what only the other one has."""

    def enter(self) -> int:
        """Enter in the first file what it lacks, and write the second; returns how many entries it lacked."""
        self.table.begin()
        entered = self._entered()
        self.table.commit()
        self._mirror()
        return entered

    def _entered(self) -> int:
        self._read()
        known = [line_of(link, body)[:-1] for link, body, _ in self._unwritten]
        lines = whole_lines(self._lines, 0) if self._lines.exists() else []
        sound = [line == due for line, due in zip(lines, known, strict=False)]
        if all(sound):
            for line in lines[len(known) :]:
                if line != self._line_after(self.table.last, self.table.count + 1, line):
                    why = f"line {self.table.count + 1} is not the one that was written under this key"
                    raise damaged(self._lines, why, PUT_BACK)
                body = line.partition(b" ")[2].decode()
                self._insert(body, json.loads(body)["kind"])
            return max(0, len(lines) - len(known))
        at = sound.index(False)
        before = self._unwritten[at - 1][0] if at else START
        if len(lines) > len(known) or lines[at] == self._line_after(before, at + 1, lines[at]):
            raise OlderCopy(
                f"line {at + 1} of {self._lines} does not follow from the entries of {self._path.name}", PUT_BACK
            )
        return 0  # it is damaged, and knows nothing that the first file does not
