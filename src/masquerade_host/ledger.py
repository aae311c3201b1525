"""The ledger of the privacy budget: what a party's machine has spent, has promised to a study, and may still spend.

The ledger is one file for all studies of a machine, and it only grows. A budget belongs to a *population*: the people
whose records are used. Every data set belongs to one population, and is known by its *fingerprint*, a hash under a key
that never leaves the machine. ``docs/budget.md`` says what is kept and what is proved of it.
"""

import contextlib
import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from masquerade_core.errors import BadInput, LocalProtocolError, RefusedLocally
from masquerade_core.privacy.accounting.composition import DELTA_UNITS, UNITS, Cost, Total, cost_of, down, target
from masquerade_core.seat import Release
from masquerade_core.study import Study
from masquerade_host.contents import canonical
from masquerade_host.debits import Debits
from masquerade_host.ledger_books import Books, Reservation
from masquerade_host.ledger_file import Entry, LedgerFile
from masquerade_host.state import StateFolder

__all__ = ["Account", "Ledger"]


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
    """A machine's ledger. Every method is one transaction, written to the disk before it returns.

    All methods raise :class:`~masquerade_core.errors.BudgetExceeded` (exit 7) where the budget does not allow
    something, :class:`~masquerade_core.errors.RefusedLocally` (exit 6) where a rule forbids it or a person must decide,
    and :class:`~masquerade_core.errors.RunFailed` (exit 1) where the file cannot be read or written.
    """

    def __init__(self, file: LedgerFile) -> None:
        self._file = file
        self._books = Books()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    # --- The budget -----------------------------------------------------------

    @classmethod
    def open(cls, folder: StateFolder) -> "Ledger":
        """Open the ledger of a state folder; BudgetExceeded if there is none: no ledger means no budget."""
        return cls(LedgerFile(folder))

    @classmethod
    def init(
        cls, folder: StateFolder, population: str, epsilon: float, delta: float, *, by: str, basic_only: bool = False
    ) -> "Ledger":
        """Give a population its limit, and make the ledger if there is none; BadInput if the population has one."""
        ledger = cls(LedgerFile(folder) if folder.ledger.exists() else LedgerFile.make(folder))
        limit = _limit(population, epsilon, delta)
        with ledger._writing() as (books, write):
            if population in books.populations:
                raise BadInput(
                    f"the population {population!r} has a budget already",
                    "'masquerade budget show' shows it, and 'masquerade budget limit' changes its limit",
                )
            write("limit", **limit, basic_only=basic_only, by=by)
        return ledger

    def set_limit(self, population: str, epsilon: float, delta: float, *, by: str) -> None:
        """Change a population's limit."""
        with self._writing() as (books, write):
            basic_only = books.population(population).basic_only
            write("limit", **_limit(population, epsilon, delta), basic_only=basic_only, by=by)

    def populations(self) -> tuple[str, ...]:
        """Return the populations, in the order in which they were made."""
        with self._writing() as (books, _):
            return tuple(books.populations)

    def account(self, population: str) -> Account:
        """Return what a population's budget is; BudgetExceeded if it has none."""
        with self._writing() as (books, _):
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

    def would_fit(self, study: Study, me: str, population: str, spends: Cost | None = None) -> bool:
        """Say whether the budget covers a study, or has covered it already; ``spends`` as in :meth:`reserve`."""
        new = _reservation(study, me, population, b"", spends)
        with self._writing() as (books, _):
            before = books.reservations.get((new.study, new.me))
            if before is not None and before.state != "released":
                return before.goes_on
            return books.population(population).fits(books.charged(population, before) + Total.of(new.whole))

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
        with self._writing() as (books, _):
            return books.datasets.get(fingerprint.hex())

    def records_of(self, study: str, me: str) -> bytes | None:
        """Return the fingerprint of the data set for which a study (its digest) has or had a reservation, if any."""
        with self._writing() as (books, _):
            found = books.reservations.get((study, me))
            return None if found is None else bytes.fromhex(found.fingerprint)

    def adopt(self, fingerprint: bytes, population: str, *, by: str) -> None:
        """Note that a data set belongs to a population, as a person or the policy said (``by``)."""
        with self._writing() as (books, write):
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
        new = _reservation(study, me, population, fingerprint, spends)
        with self._writing() as (books, write):
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
        with self._writing() as (books, _):
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
        with self._writing() as (books, write):
            under_way = books.reservation(digest, me).attempt
            if resumed and under_way is not None:
                return under_way.number
            tries = books.check_attempt(digest, me, fingerprint.hex(), kept).tries
            number = len(tries) + 1
            write("attempt", study=digest, me=me, number=number, sizes=kept)
            return number

    def _hash_of(self, study: Study, sizes: Sequence[int]) -> str:
        state = hashlib.blake2b(study.digest(), digest_size=32, key=self._file.key, person=b"masq sizes")
        for size in sizes:
            state.update(size.to_bytes(8, "big"))
        return state.hexdigest()

    def debits_for(self, study: Study, me: str) -> Debits:
        """Return where a session of the attempt under way debits its releases."""
        digest = study.digest().hex()
        with self._writing() as (books, _):
            attempt = books.reservation(digest, me).attempt
        if attempt is None:
            raise LocalProtocolError("debits were asked for before an attempt began")
        self._file.make_room()
        return _Debits(self, digest, me, attempt.number)

    def spent_in_attempt(self, study: Study, me: str) -> tuple[float, float] | None:
        """Return the epsilon and delta of all debits of the last attempt together; None if there are none."""
        with self._writing() as (books, _):
            tries = books.reservation(study.digest().hex(), me).tries
            total = tries[-1].total if tries else Total()
        return total.spent(study.privacy.delta) if total.count else None

    def end_attempt(self, study: Study, me: str, why: str) -> None:
        """Note that the attempt under way ended without a result. Its debits stay."""
        with self._writing() as (books, write):
            found = books.reservations.get((study.digest().hex(), me))
            if found is not None and found.attempt is not None:
                write("ended", study=found.study, me=me, why=why)

    def finish(self, study: Study, me: str) -> None:
        """Note that the study has finished: it never runs here again, and the rest of its reservation is free."""
        digest = study.digest().hex()
        with self._writing() as (books, write):
            books.reservation(digest, me)
            write("finished", study=digest, me=me)

    def finished(self, study: Study, me: str) -> bool:
        """Return whether the study has finished on this machine."""
        with self._writing() as (books, _):
            found = books.reservations.get((study.digest().hex(), me))
            return found is not None and found.state == "finished"

    def release(self, study: str, me: str, *, by: str) -> str:
        """Give up a study (its digest) that did not finish; returns its population.

        The rest of its reservation is free again, and debits stay.
        """
        with self._writing() as (books, write):
            population = books.reservation(study, me).population
            write("released", study=study, me=me, by=by)
        return population

    def parties_of(self, study: Study) -> tuple[str, ...]:
        """Return as which parties of a study this machine has an open reservation."""
        with self._writing() as (books, _):
            digest = study.digest().hex()
            return tuple(r.me for r in books.reservations.values() if (r.study, r.state) == (digest, "open"))

    def debit(self, study: str, me: str, number: int, run: bytes, releases: Sequence[Release]) -> None:
        """Debit releases of an attempt at a study (its digest), but for those that were debited before."""
        costs = {r.label: cost_of(r.epsilon, r.delta, r.mu, r.slack) for r in releases}
        with self._writing(quick=True) as (books, write):
            for label, cost in books.check_debit(study, me, number, run.hex(), costs).items():
                write("debit", study=study, me=me, run=run.hex(), label=label, cost=_numbers(cost))

    def labels(self, study: str, me: str, run: bytes) -> frozenset[str]:
        """Return the labels of all debits of a run of a study (its digest)."""
        with self._writing() as (books, _):
            return books.labels(study, me, run.hex())

    @contextlib.contextmanager
    def _writing(self, *, quick: bool = False) -> Iterator[tuple[Books, Callable[..., None]]]:
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
        """Debit what was not debited before; see :class:`~masquerade_host.debits.Debits`."""
        self._ledger.debit(self._study, self._me, self._number, run, releases)

    def labels(self, run: bytes) -> frozenset[str]:
        """Return the labels that were debited for a run."""
        return self._ledger.labels(self._study, self._me, run)


def _limit(population: str, epsilon: float, delta: float) -> dict[str, Any]:
    if not (0 < epsilon < float("inf") and 0 <= delta < 1):
        raise BadInput(
            f"a limit of epsilon = {epsilon:g} and delta = {delta:g} was asked for; epsilon must be greater than 0, "
            "and delta at least 0 and less than 1"
        )
    return {"population": population, "epsilon": down(epsilon, UNITS), "delta": down(delta, DELTA_UNITS)}


def _reservation(study: Study, me: str, population: str, fingerprint: bytes, spends: Cost | None) -> Reservation:
    whole = spends or target(study.privacy.epsilon, study.privacy.delta, gaussian=False)
    one = whole.part(1 + study.study.charged_attempts)
    return Reservation(
        study.digest().hex(), me, study.study.name, population, fingerprint.hex(), whole, one, study.study.attempts
    )


def _numbers(cost: Cost) -> list[int]:
    return [cost.epsilon, cost.delta, cost.mu, cost.slack]
