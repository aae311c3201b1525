"""The ledger of the privacy budget: what a party's machine has spent, has promised to a study, and may still spend.

The ledger is one file for all studies of a machine, and it only grows. A budget belongs to a *population*: the people
whose records are used. Every data set belongs to one population, and is known by its *fingerprint*, a hash under a key
that never leaves the machine. The hash is over the bytes of the loaded data set. They are the same wherever the records
lie, and this program must never change how it writes them. ``docs/budget.md`` says what is kept and what is proved of
it.

*The books* are limits, reservations, attempts, debits and the allowed rest. They are computed anew from the entries
whenever a ledger is opened, and touch no file. Every method that begins with ``check`` raises if an entry would break a
rule; :meth:`Books.enter` takes an entry that was written.

*The files.* ``ledger.sqlite`` holds the entries: the rows of a table that only grows
(:mod:`masquerade_host.store.chained_table`), under the ledger's key. Nothing in it is ever changed or removed, and
triggers enforce that. Its witness ``ledger.lines`` holds one line for each entry, and shows if somebody put back an
older copy of the first file.

*The order of writing.* At the end of a transaction the disk has its entries in both files, first in the first one. A
*quick* transaction writes the first file alone, and does not wait for the disk. The next transaction that is not quick
makes up for both. So the second file never has what a power cut can take from the first.

It may lack the debits at the end, and one entry of another kind after them: that of a process that died before it wrote
the line. If it lacks more, it lost what it had, and nobody can tell whether the first file is an older copy.

*Debits ahead.* With the second debit of an attempt the ledger debits all that the attempt may take. The debits that
follow are parts of it, so they are quick. At the end of the attempt the rest is returned, if this process knows that
the ledger has every debit. Otherwise a power cut may have taken some, and all that was debited ahead stays spent.
"""

import contextlib
import hashlib
import json
import os
import sqlite3
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import UTC, datetime
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

import numpy as np

from masquerade_core.data.records import Records
from masquerade_core.errors import (
    BudgetExceeded,
    Damaged,
    LocalProtocolError,
    OlderCopy,
    RefusedLocally,
    RunFailed,
)
from masquerade_core.privacy.accounting import DELTA_UNITS, UNITS, Cost, Total, cost_of, target
from masquerade_core.seat import Release
from masquerade_core.study import Study
from masquerade_core.words import counted
from masquerade_host.session.commits import Debits
from masquerade_host.store.chained_table import LINK_BYTES, ChainedTable, damaged, told
from masquerade_host.store.state import StateFolder, hold, sync_file

__all__ = [
    "NO_RELEASES",
    "Account",
    "Attempt",
    "Books",
    "Entry",
    "Ledger",
    "LedgerFile",
    "Population",
    "Reservation",
    "canonical",
]


# --- The bytes of a data set ----------------------------------------------------------


def canonical(value: Any) -> Iterator[Any]:
    """Yield a value's bytes, such that two values of the kinds that data sets are made of differ where these differ."""
    if isinstance(value, Records):
        yield from value.content()
    elif getattr(value, "in_scratch", False):  # cells, as if they were in memory
        yield f"Cells places array <i4 {value.shape} ".encode()
        yield from value.places()
        yield b"grid "
        yield from canonical(value.grid)
    elif isinstance(value, np.ndarray):
        yield f"array {value.dtype.str} {value.shape} ".encode()
        yield np.ascontiguousarray(value)
    elif is_dataclass(value):
        yield f"{type(value).__name__} ".encode()
        for each in fields(value):
            yield f"{each.name} ".encode()
            yield from canonical(getattr(value, each.name))
    elif isinstance(value, tuple):
        yield f"tuple {len(value)} ".encode()
        for part in value:
            yield from canonical(part)
    else:
        text = repr(value).encode()
        yield len(text).to_bytes(8, "big") + text


# --- Entries and their files ----------------------------------------------------------

KEY_BYTES = 32
_WAIT = 30.0  # seconds that one process waits while another writes
START = bytes(LINK_BYTES)
_QUICK = "debit"  # the kind of entry that quick transactions write

AHEAD = "ahead: all that this attempt may take"
RETURNED = "returned: what was debited ahead, but for the debits"
NO_RELEASES = {AHEAD, RETURNED}
"""Labels of entries that are no releases. They are debits: an older program counts all that was debited ahead."""

PUT_BACK = (
    "put back the newest copy that you have of the whole state folder, and take no part in studies that are open; "
    "what was spent since then still counts, although this machine has no record of it"
)


@dataclass(frozen=True)
class Entry:
    """One fact: its number from 1, what kind of fact it is, when it was written (UTC), and its fields."""

    n: int
    kind: str
    at: str
    fields: Mapping[str, Any]


class LedgerFile:
    """The two files and the key of a state folder's ledger.

    Parameters
    ----------
    folder : StateFolder

    Raises
    ------
    BudgetExceeded
        There is no ledger: then there is no budget.
    """

    def __init__(self, folder: StateFolder) -> None:
        self._path, self._lines = folder.ledger, folder.ledger_lines
        if not self._path.exists():
            raise BudgetExceeded(
                f"{folder.root} has no ledger of a privacy budget, and without one nothing may be spent",
                "give this machine a budget once: masquerade budget init --epsilon 10 --delta 1e-5",
            )
        self.key = _read_key(folder.ledger_key)
        with faults_of(self._path):
            self.table = ChainedTable(self._path, "entries", self._link, partial(faults_of, self._path), wait=_WAIT)
        self.forget()

    def close(self) -> None:
        """Close the file."""
        self.table.database.close()

    def forget(self) -> None:
        """Read everything anew at the next transaction, as after one that failed."""
        self.table.restart(START)
        # Links and bodies of entries that the second file may not have, and whether each is a debit.
        self._unwritten: deque[tuple[bytes, str, bool]] = deque()
        self._others = 0  # how many of these are none
        self._offset = 0  # how far the second file was compared with the first
        self._same = 0, START  # so many entries of it were compared, and the chain of the last one

    def make_room(self) -> None:
        """Prepare for many transactions: the log of the first file gets its length now."""
        with faults_of(self._path):
            self.table.make_room()

    @contextlib.contextmanager
    def transaction(self, *, quick: bool = False) -> Iterator[list[Entry]]:
        """Hold the ledger for this process alone; yields the entries that are new since the last transaction.

        Parameters
        ----------
        quick : bool
            Do not wait until the disk has what is appended, and leave the second file alone.

        Raises
        ------
        OlderCopy
            The two files contradict each other: one of them is an older copy.
        Damaged
            One of them is damaged.
        RunFailed
            The file cannot be read or written. What was appended may be there or not.
        """
        with faults_of(self._path):
            self.table.begin(quick=quick)
        try:
            with faults_of(self._path):
                new = self._read()
            # Where nobody has written since, the second file is as it was, and lacks debits at most.
            with contextlib.nullcontext() if quick and not new else self._both():
                with faults_of(self._path):
                    if (new or not quick) and not self._compare():
                        self._mirror()  # before anything is added: else it might lack entries of two transactions
                count = self.table.count
                yield new
                with faults_of(self._path):
                    self.table.commit()
                    if not quick:
                        self._mirror(awaited=self.table.count > count)
        except BaseException:
            with contextlib.suppress(sqlite3.Error):
                self.table.database.rollback()
            self.forget()
            raise

    @contextlib.contextmanager
    def _both(self) -> Iterator[None]:
        """Hold the second file as well: it is written after the commit, when another process may hold the first."""
        with faults_of(self._path):
            if not self._lines.exists():
                raise OlderCopy(
                    f"{self._lines} is missing, so nobody can tell whether {self._path.name} is an older copy",
                    "put it back; if it is lost for good, 'masquerade budget recover' writes it anew from the ledger",
                )
            file = os.open(self._lines, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            hold(file, wait=True)
            yield
        finally:
            os.close(file)

    def append(self, kind: str, fields: Mapping[str, Any]) -> Entry:
        """Add an entry in the transaction under way."""
        at = datetime.now(UTC).isoformat(timespec="seconds")
        body = json.dumps({"kind": kind, "at": at, **fields}, ensure_ascii=False, sort_keys=True)
        with faults_of(self._path):
            self._insert(body, kind)
        return Entry(self.table.count, kind, at, fields)

    def _insert(self, body: str, kind: str) -> None:
        self.table.add(body)
        self._note(body, kind)

    def _link(self, before: bytes, n: int, body: str) -> bytes:
        data = before + n.to_bytes(8, "big") + body.encode()
        return hashlib.blake2b(data, digest_size=LINK_BYTES, key=self.key, person=b"masq ledger").digest()

    def _note(self, body: str, kind: str) -> None:
        self._unwritten.append((self.table.last, body, kind == _QUICK))
        self._others += kind != _QUICK

    def _read(self) -> list[Entry]:
        new = []
        for (body,) in self.table.rows():
            content = json.loads(body)
            kind = content.pop("kind")
            self._note(body, kind)
            new.append(Entry(self.table.count, kind, content.pop("at"), content))
        return new

    # --- The second file ------------------------------------------------------

    def _compare(self) -> bool:
        """Check that the second file has no entry that the first has not; returns whether it lacks debits alone."""
        for line in whole_lines(self._lines, self._offset):
            chain, body, is_debit = self._unwritten[0] if self._unwritten else (b"", "", True)
            if line != line_of(chain, body)[:-1]:
                raise self._contradiction(line)
            self._unwritten.popleft()
            self._others -= not is_debit
            self._offset, self._same = self._offset + len(line) + 1, (self._same[0] + 1, chain)
        at_the_end = bool(self._unwritten) and not self._unwritten[-1][2]
        if (self._unwritten and not self._offset) or self._others > at_the_end:
            raise damaged(
                self._lines,
                f"it lacks the last {counted(len(self._unwritten), 'entry', 'entries')} of {self._path.name}, so "
                "nobody can tell whether that one is an older copy",
                "put it back; if it is lost for good, 'masquerade budget recover' writes it anew from the ledger",
            )
        return not self._others

    def _contradiction(self, line: bytes) -> Damaged | OlderCopy:
        """Return the error for a line of the second file that is not the entry of the first."""
        n, before = self._same[0] + 1, self._same[1]
        if line != self._line_after(before, n, line):
            return damaged(
                self._lines,
                f"line {n} is not the one that was written under this key",
                f"as long as {self._path.name} is sound, 'masquerade budget recover' writes it anew",
            )
        if self._unwritten:
            return OlderCopy(
                f"{self._lines} and {self._path.name} disagree from entry {n} on: both were written here, so one of "
                "them is from another copy of this folder",
                PUT_BACK,
            )
        return OlderCopy(
            f"{self._lines} has entries that {self._path.name} lacks: the ledger is an older copy, from before "
            "something was spent, or its end is damaged",
            "put back the newest copy; without one, 'masquerade budget recover' enters what the other file has",
        )

    def _line_after(self, before: bytes, n: int, line: bytes) -> bytes:
        """Return a line as it would have been written for the entry that it holds."""
        body = line.partition(b" ")[2].decode("utf-8", "replace")
        return line_of(self._link(before, n, body), body)[:-1]

    def _mirror(self, *, awaited: bool = False) -> None:
        """Write to the second file what it lacks; bytes of a line that was cut off by a power failure go.

        ``awaited``: the disk has the first file, since a commit of entries has waited for it.
        """
        if not self._unwritten:
            return
        if not awaited:
            self.table.await_disk()
        data = b"".join(line_of(chain, body) for chain, body, _ in self._unwritten)
        descriptor = os.open(self._lines, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.truncate(self._offset)
            file.seek(self._offset)
            file.write(data)
            file.flush()
            sync_file(file.fileno())
        self._offset, self._others = self._offset + len(data), 0
        self._unwritten.clear()


def line_of(chain: bytes, body: str) -> bytes:
    return f"{chain.hex()} {body}\n".encode()


def whole_lines(path: Path, offset: int) -> list[bytes]:
    """Return the lines after an offset, up to where a power failure has cut the last one off or left zeros."""
    with path.open("rb") as file:
        file.seek(offset)
        return file.read().partition(b"\0")[0].split(b"\n")[:-1]


def faults_of(path: Path) -> AbstractContextManager[None]:
    """Say in a sentence why the files cannot be used."""

    def unusable(why: str) -> RunFailed:
        return RunFailed(
            f"the ledger {path} cannot be read or written ({why}), so nothing more leaves this machine",
            "see whether the disk is full or read-only; what was debited before stays debited",
        )

    return told(path, PUT_BACK, unusable)


def _read_key(path: Path) -> bytes:
    try:
        key = path.read_bytes()
    except OSError as error:
        raise RefusedLocally(
            f"the ledger's key {path} cannot be read: {error.strerror}", "put it back; it belongs to this ledger alone"
        ) from error
    if len(key) != KEY_BYTES:
        raise RefusedLocally(f"{path} is not a ledger's key: it has {len(key)} bytes, not {KEY_BYTES}", "put it back")
    return key


# --- Books ----------------------------------------------------------------------------

_NOTHING = Cost(0, 0)
_ROUNDING = 10**-6  # of epsilon and delta: by so much may rounding up make a run's debits exceed its target


@dataclass
class Attempt:
    """One attempt at a study.

    Attributes
    ----------
    number : int
        From 1.
    run : str
        The run id, once something was debited.
    debits : dict of str to Cost
        By label.
    debited : Total
        Their sum.
    ahead : Cost, optional
        What was debited ahead, and not returned. It covers all debits.
    over : bool
    """

    number: int
    run: str = ""
    debits: dict[str, Cost] = field(default_factory=dict)
    debited: Total = field(default_factory=Total)
    ahead: Cost | None = None
    over: bool = False

    @property
    def total(self) -> Total:
        """The cost that counts as spent."""
        return self.debited if self.ahead is None else Total.of(self.ahead)


@dataclass
class Reservation:
    """A study's share of a population's budget on this machine: reserved, and taken so far.

    Attributes
    ----------
    study, me : str
        The study's digest in hexadecimal digits, and which of its parties this machine plays.
    name : str
        The study's name.
    population, fingerprint : str
    whole : Cost
        The study's target: all its attempts together never take more.
    one : Cost
        What one attempt takes at most.
    attempts : int
        How many attempts may end without a debit.
    sizes : str
        A hash, under the ledger's key, of the exact numbers that this party adds to opened sums in every attempt; empty
        before the first one.
    state : str
        "open", "finished", or "released": given up.
    """

    study: str
    me: str
    name: str
    population: str
    fingerprint: str
    whole: Cost
    one: Cost
    attempts: int
    sizes: str = ""
    state: str = "open"
    tries: list[Attempt] = field(default_factory=list)

    @property
    def taken(self) -> Total:
        """The cost of all attempts together."""
        return _sum(attempt.total for attempt in self.tries)

    def spent(self, *, basic_only: bool) -> Total:
        """Return what was debited; where costs only add up, all of the target as soon as there is one debit.

        Rounds compose better than they add up. So a part of a study has no cost of its own that only adds up.
        """
        if basic_only and self.taken.count:
            return Total.of(self.whole)
        return self.taken.at_most(self.whole)

    def charged(self, *, basic_only: bool) -> Total:
        """Return what a budget has to count: the whole target while an attempt may come, else what was spent."""
        return Total.of(self.whole) if self.goes_on else self.spent(basic_only=basic_only)

    @property
    def goes_on(self) -> bool:
        """Whether an attempt is under way, or another one is allowed."""
        return self.state == "open" and (self.attempt is not None or (self.free < self.attempts and self.has_room))

    @property
    def free(self) -> int:
        """How many attempts debited nothing."""
        return sum(not attempt.debits for attempt in self.tries)

    @property
    def has_room(self) -> bool:
        """Whether a whole run fits the study's target, besides what was debited."""
        return not self.taken.count or (self.one != self.whole and self.fits(Total.of(self.one)))

    @property
    def attempt(self) -> Attempt | None:
        """The attempt under way."""
        return self.tries[-1] if self.tries and not self.tries[-1].over else None

    def fits(self, more: Total) -> bool:
        """Say whether the study's target still covers ``more``, up to what rounding adds."""
        return _covers(self.whole, self.taken + more)


def _covers(cost: Cost, total: Total) -> bool:
    """Say whether a cost covers a total, up to what rounding adds."""
    if cost.mu and not total.others:
        return total.mu2 <= cost.mu**2 * (1 + 2 * _ROUNDING)
    epsilon = cost.epsilon + int(cost.epsilon * _ROUNDING) + total.count
    delta = cost.delta + int(cost.delta * _ROUNDING) + 2 * total.count
    return total.fits(epsilon, delta)


@dataclass
class Population:
    """The people whose records share one budget: its limit, in units, and the rule by which costs compose."""

    name: str
    epsilon: int
    delta: int
    basic_only: bool

    def fits(self, total: Total) -> bool:
        """Say whether the limit covers a total."""
        return total.fits(self.epsilon, self.delta, basic_only=self.basic_only)


class Books:
    """The state that the ledger's entries make."""

    def __init__(self) -> None:
        self.populations: dict[str, Population] = {}
        self.datasets: dict[str, str] = {}
        self.reservations: dict[tuple[str, str], Reservation] = {}
        self.runs: dict[str, tuple[str, str, int]] = {}  # by run id: study, participant, number of the attempt

    def enter(self, entries: Iterable[Entry]) -> None:
        """Take entries that stand in the ledger."""
        for entry in entries:
            getattr(self, f"_enter_{entry.kind}")(**entry.fields)

    def _enter_limit(self, *, population: str, epsilon: int, delta: int, basic_only: bool, by: str) -> None:
        del by
        self.populations[population] = Population(population, epsilon, delta, basic_only)

    def _enter_dataset(self, *, fingerprint: str, population: str, by: str) -> None:
        del by
        self.datasets[fingerprint] = population

    def _enter_reserved(
        self,
        *,
        study: str,
        me: str,
        name: str,
        population: str,
        fingerprint: str,
        whole: list[int],
        one: list[int],
        attempts: int,
        by: str,
    ) -> None:
        del by
        made = Reservation(study, me, name, population, fingerprint, Cost(*whole), Cost(*one), attempts)
        if (before := self.reservations.get((study, me))) is not None:
            # What was debited, and what was sent, before it was given up still counts.
            made.tries, made.sizes = before.tries, before.sizes
        self.reservations[study, me] = made

    def _enter_attempt(self, *, study: str, me: str, number: int, sizes: str = "") -> None:
        reservation = self.reservations[study, me]
        if reservation.tries:
            reservation.tries[-1].over = True
        reservation.tries.append(Attempt(number))
        reservation.sizes = reservation.sizes or sizes

    def _enter_debit(self, *, study: str, me: str, run: str, label: str, cost: list[int]) -> None:
        attempt = self.reservations[study, me].tries[-1]
        attempt.run = run
        self.runs[run] = study, me, attempt.number
        if label in NO_RELEASES:
            attempt.ahead = Cost(*cost) if label == AHEAD else None
            return
        attempt.debits[label] = Cost(*cost)
        attempt.debited += Total.of(Cost(*cost))

    def _enter_ended(self, *, study: str, me: str, why: str) -> None:
        del why
        self.reservations[study, me].tries[-1].over = True

    def _enter_finished(self, *, study: str, me: str) -> None:
        self._end(study, me, "finished")

    def _enter_released(self, *, study: str, me: str, by: str) -> None:
        del by
        self._end(study, me, "released")

    def _end(self, study: str, me: str, state: str) -> None:
        reservation = self.reservations[study, me]
        reservation.state = state
        if reservation.tries:
            reservation.tries[-1].over = True

    # --- What is allowed ------------------------------------------------------

    def population(self, name: str) -> Population:
        """Return a population; BudgetExceeded if it has no budget."""
        if (found := self.populations.get(name)) is None:
            raise BudgetExceeded(
                f"the population {name!r} has no budget on this machine; "
                f"{_some(self.populations, 'those that have one are', 'no population has one')}",
                f"give it one: masquerade budget init --population {name} --epsilon 10 --delta 1e-5",
            )
        return found

    def charged(self, population: str, but: Reservation | None = None) -> Total:
        """Return what a population's budget has to count of all studies, or of all but one."""
        basic_only = self.population(population).basic_only
        own = (r for r in self.reservations.values() if r.population == population and r is not but)
        return _sum(r.charged(basic_only=basic_only) for r in own)

    def reservation(self, study: str, me: str) -> Reservation:
        """Return a study's open reservation; RefusedLocally if it finished here or nothing is reserved."""
        found = self.reservations.get((study, me))
        if found is not None and found.state == "finished":
            raise _finished(found)
        if found is None or found.state != "open":
            raise RefusedLocally(
                "no budget is reserved for this study on this machine", "approve it first: masquerade approve STUDY"
            )
        return found

    def check_reserve(self, new: Reservation) -> bool:
        """Check that a study may reserve its target; returns False where it has it already."""
        before = self.reservations.get((new.study, new.me))
        if before is not None:
            if before.state == "finished":
                raise _finished(before)
            _check_same_data(before, new.fingerprint)
            if before.state == "open":
                return False
        population, rest = self.population(new.population), self.charged(new.population, before)
        if not population.fits(rest + Total.of(new.whole)):
            raise BudgetExceeded(
                f"the study would take epsilon = {_epsilon(new.whole)} and delta = {_delta(new.whole)}, and the budget "
                f"of {population.name!r} does not cover it: {_state(population, rest)}",
                "'masquerade budget history' shows what took it; a smaller epsilon or delta may fit",
            )
        return True

    def check_attempt(self, study: str, me: str, fingerprint: str, sizes: str) -> Reservation:
        """Check that a new attempt may begin, whatever became of the last one."""
        found = self.reservation(study, me)
        _check_same_data(found, fingerprint)
        _check_same_sizes(found, sizes)
        if found.free >= found.attempts:
            raise RefusedLocally(
                f"this machine has made {found.free} attempts at this study that released nothing; its attempts = "
                f"{found.attempts} allows no more",
                "make a new study, with its own nonce, once you know why they failed",
            )
        if not found.has_room:
            raise BudgetExceeded(
                f"an earlier attempt at this study released something: epsilon = {_digits(found.taken, found.whole)} "
                f"was debited, and with a whole run it would be more than the study's {_epsilon(found.whole)}",
                "make a new study, which spends anew; one with charged_attempts = 1 pays for a second attempt in "
                "advance",
            )
        population = self.population(found.population)
        if not population.fits(self.charged(population.name)):
            raise BudgetExceeded(
                f"the limit of {population.name!r} was lowered below what is reserved: "
                f"{_state(population, self.charged(population.name))}",
                "raise it again with 'masquerade budget limit', or give up a study with 'masquerade budget release'",
            )
        return found

    def labels(self, study: str, me: str, run: str) -> frozenset[str]:
        """Return the labels of all debits of a run."""
        tries = self.reservations[study, me].tries
        return frozenset(label for attempt in tries if attempt.run == run for label in attempt.debits)

    def check_debit(self, study: str, me: str, number: int, run: str, new: dict[str, Cost]) -> dict[str, Cost]:
        """Check that an attempt may debit these costs; returns those that were not debited before."""
        found = self.reservation(study, me)
        attempt = found.attempt
        if attempt is None or attempt.number != number:
            raise RefusedLocally(
                f"attempt {number} at this study is over on this machine: another process has begun a new one",
                "run only one process at a time for a party",
            )
        if (attempt.run or run) != run or self.runs.get(run, (study, me, number)) != (study, me, number):
            raise RefusedLocally("the run id of this attempt is not the one under which it debited before")
        for label, cost in new.items():
            if label in NO_RELEASES:
                raise LocalProtocolError(f"no release may be called {label!r}")
            if attempt.debits.get(label, cost) != cost:
                raise RefusedLocally(
                    f"{label!r} was debited before in this run at another cost",
                    "go on with the version of this program that began the run",
                )
        fresh = {label: cost for label, cost in new.items() if label not in attempt.debits}
        earlier = _sum(before.total for before in found.tries[:-1])
        if not _covers(found.whole, earlier + attempt.debited + _sum(map(Total.of, fresh.values()))):
            raise BudgetExceeded(
                f"the run would spend more than the study's epsilon = {_epsilon(found.whole)} and delta = "
                f"{_delta(found.whole)}; the release that would have done so was not sent"
            )
        return fresh

    def ahead(self, study: str, me: str, fresh: dict[str, Cost]) -> dict[str, Cost] | None:
        """Return what else is debited with these debits of the attempt under way; None where they were debited ahead.

        From the second debit on, all that the attempt may take is debited ahead. Debits that exceed it, which no
        protocol of this program has, end that.
        """
        found = self.reservation(study, me)
        attempt = found.tries[-1]
        due = attempt.debited + _sum(map(Total.of, fresh.values()))
        if attempt.ahead is not None:
            return None if _covers(attempt.ahead, due) else {RETURNED: _NOTHING}
        return {AHEAD: found.one} if attempt.debits and _covers(found.one, due) else {}


def _sum(totals: Iterable[Total]) -> Total:
    return sum(totals, start=Total())


def _check_same_data(reservation: Reservation, fingerprint: str) -> None:
    if reservation.fingerprint != fingerprint:
        raise RefusedLocally(
            "these records are not those with which this study began on this machine; two runs over different "
            "records would show who was changed",
            "take the records as they were; for others make a new study, with its own nonce",
        )


def _check_same_sizes(reservation: Reservation, sizes: str) -> None:
    if reservation.sizes not in {"", sizes}:
        raise RefusedLocally(
            "the same records would now be counted differently from the first attempt at this study; the two numbers "
            "of all records would show the difference",
            "go on with the version of this program that began the study, or make a new study, with its own nonce",
        )


def _finished(reservation: Reservation) -> RefusedLocally:
    return RefusedLocally(
        f"the study {reservation.name} has finished on this machine, and a finished study never runs again",
        "its results are where the run wrote them; for a new run make a new study, with its own nonce",
    )


def _epsilon(cost: Cost) -> str:
    return f"{cost.epsilon / UNITS:.4g}"


def _delta(cost: Cost) -> str:
    return f"{cost.delta / DELTA_UNITS:.3g}"


def _digits(total: Total, whole: Cost) -> str:
    return f"{total.composed(whole.delta):.4g}"


def _state(population: Population, charged: Total) -> str:
    epsilon, delta = population.epsilon / UNITS, population.delta / DELTA_UNITS
    composed = charged.composed(population.delta, basic_only=population.basic_only)
    taken = f"epsilon = {composed:.4g} is spent or reserved" if composed < inf else "delta is used up"
    return f"its limit is epsilon = {epsilon:.4g} and delta = {delta:.3g}, of which {taken}"


def _some(names: Iterable[str], words: str, none: str) -> str:
    found = ", ".join(sorted(names))
    return f"{words} {found}" if found else none


# --- Ledger ----------------------------------------------------------------------


@dataclass(frozen=True)
class Account:
    """A population's budget, and its use so far.

    Attributes
    ----------
    population : str
    epsilon, delta : float
        The limit.
    basic_only : bool
        Whether costs only add up, and the better rules for Gaussian and for many releases are not used.
    spent : float
        The epsilon of all that was debited, at the limit's delta; infinite where the debits' deltas exceed it.
    taken : float
        The same, where an open study counts in full.
    left : float
        The largest epsilon of a next study that needs no delta of its own.
    delta_left : float
        What is left of delta, if deltas add up.
    open_studies : tuple of str
        The names of studies for which something is reserved: an attempt is under way, or one may follow.
    """

    population: str
    epsilon: float
    delta: float
    basic_only: bool
    spent: float
    taken: float
    left: float
    delta_left: float
    open_studies: tuple[str, ...]


class Ledger:
    """A machine's ledger. Every method is a transaction, on the disk before it returns; :meth:`debit` says more.

    All methods raise :class:`~masquerade_core.errors.BudgetExceeded` (exit 7) where the budget does not allow
    something, :class:`~masquerade_core.errors.RefusedLocally` (exit 6) where a rule forbids it or a person must decide,
    and :class:`~masquerade_core.errors.RunFailed` (exit 1) where the file cannot be read or written.
    """

    def __init__(self, file: LedgerFile) -> None:
        self._file = file
        self._books = Books()
        # By study and participant, the attempt under way, if this process knows that the ledger has all its debits.
        self._complete: dict[tuple[str, str], int] = {}

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    # --- The budget -----------------------------------------------------------

    @classmethod
    def open(cls, folder: StateFolder) -> "Ledger":
        """Open the ledger of a state folder; BudgetExceeded if there is none: no ledger means no budget."""
        return cls(LedgerFile(folder))

    def account(self, population: str) -> Account:
        """Return what a population's budget is; BudgetExceeded if it has none."""
        with self.writing() as (books, _):
            limit, reserved = books.population(population), books.reservations.values()
            own = [r for r in reserved if r.population == population]
            debited: Total = sum((r.spent(basic_only=limit.basic_only) for r in own), start=Total())
            charged = books.charged(population)
        spent, taken = (total.composed(limit.delta, basic_only=limit.basic_only) for total in (debited, charged))
        epsilon = limit.epsilon / UNITS
        return Account(
            population,
            epsilon,
            limit.delta / DELTA_UNITS,
            limit.basic_only,
            spent,
            taken,
            max(0.0, epsilon - taken),
            max(0, limit.delta - min(charged.delta, charged.others_delta + charged.slack)) / DELTA_UNITS,
            tuple(r.name for r in own if r.goes_on),
        )

    def history(self) -> tuple[Entry, ...]:
        """Return all entries."""
        self._file.forget()
        self._books = Books()
        with self._file.transaction() as entries:
            self._books.enter(entries)
            return tuple(entries)

    # --- Data sets ------------------------------------------------------------

    def fingerprint(self, data: object) -> bytes:
        """Return the fingerprint (32 bytes) of a loaded data set, under the ledger's key."""
        state = hashlib.blake2b(digest_size=32, key=self._file.key, person=b"masq records")
        for part in canonical(data):
            state.update(part)
        return state.digest()

    def population_of(self, fingerprint: bytes) -> str | None:
        """Return the population that a data set belongs to; None for one that was never seen."""
        with self.writing() as (books, _):
            return books.datasets.get(fingerprint.hex())

    def adopt(self, fingerprint: bytes, population: str, *, by: str) -> None:
        """Note that a data set belongs to a population, as a person or the policy said (``by``)."""
        with self.writing() as (books, write):
            books.population(population)
            if books.datasets.get(fingerprint.hex()) != population:
                write("dataset", fingerprint=fingerprint.hex(), population=population, by=by)

    # --- A study --------------------------------------------------------------

    def reserve(
        self,
        study: Study,
        me: str,
        *,
        population: str,
        fingerprint: bytes,
        approved_by: str,
        spends: Cost | None = None,
    ) -> None:
        """Reserve what a study may take: its whole target. A reservation that is there already stays as it is.

        ``spends``: what its protocol's entry says that it takes; by default the study's target, to be added up. The
        data set must be known (:meth:`adopt`) and of this population: else RefusedLocally. BudgetExceeded where the
        limit would be exceeded, and RefusedLocally where the study finished here before.
        """
        new = reservation_of(study, me, population, fingerprint, spends)
        with self.writing() as (books, write):
            if books.datasets.get(fingerprint.hex()) != population:
                raise RefusedLocally(
                    f"these records are not known to belong to the population {population!r}",
                    "approve the study at a terminal and say so, or name the data set in policy.toml",
                )
            if books.check_reserve(new):
                names = ("study", "me", "name", "population", "fingerprint", "attempts")
                facts: dict[str, Any] = {name: getattr(new, name) for name in names}
                write("reserved", **facts, whole=_numbers(new.whole), one=_numbers(new.one), by=approved_by)

    def check_attempt(self, study: Study, me: str, fingerprint: bytes, sizes: Sequence[int] = ()) -> None:
        """Check that an attempt may begin, as :meth:`start_attempt` does, and begin none."""
        with self.writing() as (books, _):
            books.check_attempt(study.digest().hex(), me, fingerprint.hex(), self._hash_of(study, sizes))

    def start_attempt(
        self, study: Study, me: str, fingerprint: bytes, sizes: Sequence[int] = (), *, resumed: bool = False
    ) -> int:
        """Begin an attempt, or go on with the last one (``resumed``, from its journal); return its number, from 1.

        RefusedLocally where the study finished here, has no reservation, had all its attempts, or began with another
        data set or other sizes; BudgetExceeded where something has left and a whole run no longer fits. What the last
        attempt debited counts, however it ended.

        ``sizes``: the exact numbers that this party adds to opened sums. Two attempts that open other numbers would
        show the difference. A hash of them is kept, under the ledger's key.
        """
        digest, kept = study.digest().hex(), self._hash_of(study, sizes)
        with self.writing() as (books, write):
            under_way = books.reservation(digest, me).attempt
            if resumed and under_way is not None:
                return under_way.number
            tries = books.check_attempt(digest, me, fingerprint.hex(), kept).tries
            number = len(tries) + 1
            write("attempt", study=digest, me=me, number=number, sizes=kept)
        self._complete[digest, me] = number
        return number

    def _hash_of(self, study: Study, sizes: Sequence[int]) -> str:
        state = hashlib.blake2b(study.digest(), digest_size=32, key=self._file.key, person=b"masq sizes")
        for size in sizes:
            state.update(size.to_bytes(8, "big"))
        return state.hexdigest()

    def debits_for(self, study: Study, me: str) -> Debits:
        """Return where a session of the attempt under way debits its releases."""
        digest = study.digest().hex()
        with self.writing() as (books, _):
            attempt = books.reservation(digest, me).attempt
        if attempt is None:
            raise LocalProtocolError("debits were asked for before an attempt began")
        self._file.make_room()
        return _Debits(self, digest, me, attempt.number)

    def spent_in_attempt(self, study: Study, me: str) -> tuple[float, float] | None:
        """Return the epsilon and delta of all debits of the last attempt together; None if there are none."""
        with self.writing() as (books, _):
            tries = books.reservation(study.digest().hex(), me).tries
            total = tries[-1].total if tries else Total()
        return total.spent(study.privacy.delta) if total.count else None

    def end_attempt(self, study: Study, me: str, why: str) -> None:
        """Note that the attempt under way ended without a result. Its debits stay."""
        with self.writing() as (books, write):
            found = books.reservations.get((study.digest().hex(), me))
            if found is not None and found.attempt is not None:
                self._return(found, write)
                write("ended", study=found.study, me=me, why=why)

    def finish(self, study: Study, me: str) -> None:
        """Note that the study has finished: it never runs here again, and the rest of its reservation is free."""
        digest = study.digest().hex()
        with self.writing() as (books, write):
            self._return(books.reservation(digest, me), write)
            write("finished", study=digest, me=me)

    def _return(self, found: Reservation, write: Callable[..., None]) -> None:
        """Return what the attempt under way has debited ahead and not used, if the ledger has all its debits."""
        attempt = found.attempt
        if attempt is None or attempt.ahead is None:
            return
        if self._complete.get((found.study, found.me)) == attempt.number:
            write("debit", **_debit(found.study, found.me, attempt.run, RETURNED, _NOTHING))

    def finished(self, study: Study, me: str) -> bool:
        """Return whether the study has finished on this machine."""
        with self.writing() as (books, _):
            found = books.reservations.get((study.digest().hex(), me))
            return found is not None and found.state == "finished"

    def debit(self, study: str, me: str, number: int, run: bytes, releases: Sequence[Release]) -> None:
        """Debit releases of an attempt at a study (its digest), but for those that were debited before.

        A power cut can take a debit that stands in the file now, but only one that was debited ahead.
        """
        costs = {r.label: cost_of(r.epsilon, r.delta, r.mu, r.slack) for r in releases}
        if not self._debit(study, me, number, run.hex(), costs, quick=True):
            self._debit(study, me, number, run.hex(), costs, quick=False)

    def _debit(self, study: str, me: str, number: int, run: str, costs: dict[str, Cost], *, quick: bool) -> bool:
        """Debit in one transaction; a quick one debits nothing, and returns False, where that was not done ahead."""
        with self.writing(quick=quick) as (books, write):
            fresh = books.check_debit(study, me, number, run, costs)
            more = books.ahead(study, me, fresh) if fresh else None
            if quick and more is not None:
                return False
            for label, cost in ((more or {}) | fresh).items():
                write("debit", **_debit(study, me, run, label, cost))
            # A process that was started again first debits all that the earlier one had released.
            has_all = costs.keys() >= books.reservations[study, me].tries[-1].debits.keys()
        if has_all:
            self._complete[study, me] = number
        return True

    def labels(self, study: str, me: str, run: bytes) -> frozenset[str]:
        """Return the labels of all debits of a run of a study (its digest)."""
        with self.writing() as (books, _):
            return books.labels(study, me, run.hex())

    @contextlib.contextmanager
    def writing(self, *, quick: bool = False) -> Iterator[tuple[Books, Callable[..., None]]]:
        """Hold the ledger, with the books as they stand now; what is written is entered in them as well."""

        def write(kind: str, **facts: Any) -> None:
            self._books.enter([self._file.append(kind, facts)])

        try:
            with self._file.transaction(quick=quick) as new:
                self._books.enter(new)
                yield self._books, write
        except BaseException:
            self._books = Books()  # the file is read anew, so these must be too
            raise


class _Debits:
    """Where one attempt debits its releases."""

    def __init__(self, ledger: Ledger, study: str, me: str, number: int) -> None:
        self._ledger, self._study, self._me, self._number = ledger, study, me, number

    def debit(self, run: bytes, releases: Sequence[Release]) -> None:
        """Debit what was not debited before; see :class:`~masquerade_host.session.commits.Debits`."""
        self._ledger.debit(self._study, self._me, self._number, run, releases)

    def labels(self, run: bytes) -> frozenset[str]:
        """Return the labels that were debited for a run."""
        return self._ledger.labels(self._study, self._me, run)


def _debit(study: str, me: str, run: str, label: str, cost: Cost) -> dict[str, Any]:
    return {"study": study, "me": me, "run": run, "label": label, "cost": _numbers(cost)}


def reservation_of(study: Study, me: str, population: str, fingerprint: bytes, spends: Cost | None) -> Reservation:
    whole = spends or target(study.privacy.epsilon, study.privacy.delta, gaussian=False)
    one = whole.part(1 + study.study.charged_attempts)
    return Reservation(
        study.digest().hex(), me, study.study.name, population, fingerprint.hex(), whole, one, study.study.attempts
    )


def _numbers(cost: Cost) -> list[int]:
    return [cost.epsilon, cost.delta, cost.mu, cost.slack]
