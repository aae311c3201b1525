"""One attempt of a study, as the ledger counts it: it begins when everybody has joined, and it ends once.

A party that waits for Charlie and is stopped has made no attempt. What an attempt releases is debited in it.
"""

from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType
from typing import Self

from masquerade_core.errors import MasqueradeError
from masquerade_core.seat import Release
from masquerade_core.spent import Spent
from masquerade_core.study import Study
from masquerade_host.debits import Debits, NoDebits
from masquerade_host.ledger import Ledger
from masquerade_host.signals import held
from masquerade_host.stats import Observer

__all__ = ["LedgerAttempt"]


class LedgerAttempt:
    """The place where a session debits, and an observer that sees when the run begins.

    Parameters
    ----------
    ledger : Ledger
    study : Study
    me : str
        The party.
    fingerprint : bytes
        Of its records.
    sizes : sequence of int
        The exact numbers that it adds to opened sums.
    observe : Observer
        Gets all events.
    resumed : bool
        An earlier process has begun this attempt, and died.

    Attributes
    ----------
    safe : bool
        The run has its result, and the journal lives until that is on the disk. Until then the same command goes on
        with this attempt, so an error does not end it.
    released : sequence of Release
        What this process itself has debited. Where it could not go on with what an earlier one began, there is nothing,
        and the ledger says what was spent.
    """

    def __init__(
        self,
        ledger: Ledger,
        study: Study,
        me: str,
        fingerprint: bytes,
        sizes: Sequence[int],
        observe: Observer,
        *,
        resumed: bool = False,
    ) -> None:
        self._ledger, self._study, self._me = ledger, study, me
        self._records = fingerprint, sizes
        self._next = observe
        self._resumed = resumed
        self._finished = resumed and ledger.finished(study, me)  # the earlier process died after all was paid for
        self.safe = False
        self.released: Sequence[Release] = ()
        self._debits: Debits | None = None

    def observe(self, event: str, /, **fields: str | float) -> None:
        """Pass an event on. When everybody has joined, the attempt begins."""
        if event == "joined":
            self.begin()
        self._next(event, **fields)

    def begin(self) -> Debits:
        """Have the ledger count the attempt, unless it did so before."""
        if self._debits is None and self._finished:
            self._debits = NoDebits()
        if self._debits is None:
            self._ledger.start_attempt(self._study, self._me, *self._records, resumed=self._resumed)
            self._debits = self._ledger.debits_for(self._study, self._me)
        return self._debits

    def debit(self, run: bytes, releases: Sequence[Release]) -> None:
        """Write down what these releases of this run cost, in this attempt."""
        self.begin().debit(run, releases)

    def labels(self, run: bytes) -> frozenset[str]:
        """Return what was debited for a run; nothing where no attempt has begun, for then there is no run."""
        return frozenset() if self._debits is None else self._debits.labels(run)

    def __enter__(self) -> Self:
        """Check that an attempt may begin, before anything is sent."""
        if not self._resumed:
            self._ledger.check_attempt(self._study, self._me, *self._records)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Note how the attempt ended: with a result, after which the study never runs here again, or why without."""
        if self._finished or (error is not None and self.safe):
            return
        if error is None:
            self._ledger.finish(self._study, self._me)
        elif self._debits is not None or self._resumed:
            why = error.message if isinstance(error, MasqueradeError) else type(error).__name__
            with held(), suppress(MasqueradeError):  # what ended the run is told, whatever becomes of this note
                if self._resumed and not self.released:
                    self._tell_what_was_spent(error)
                self._ledger.end_attempt(self._study, self._me, why)

    def _tell_what_was_spent(self, error: BaseException) -> None:
        spent = self._ledger.spent_in_attempt(self._study, self._me)
        words = "nothing was spent" if spent is None else f"count epsilon = {spent[0]:g}, delta = {spent[1]:g} as spent"
        error.add_note(Spent(f"by the ledger, {words} before this process was started again"))
