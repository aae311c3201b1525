"""The permissions of a party's machine: its policy, the approvals of its people, and the rest of its privacy budget.

An *attempt* of a study, as the ledger counts it, begins when everybody has joined, and ends once. A party that waits
for Charlie and is stopped has made no attempt. What an attempt releases is debited in it.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from masquerade_core.data.files import Data
from masquerade_core.errors import MasqueradeError, RefusedLocally, Spent
from masquerade_core.privacy.accounting import Cost
from masquerade_core.seat import Release
from masquerade_core.study import Study
from masquerade_host.process import program
from masquerade_host.process.process import held
from masquerade_host.process.progress import Observer
from masquerade_host.session.commits import Debits, NoDebits
from masquerade_host.store.ledger import NO_RELEASES, Account, Ledger
from masquerade_host.store.permissions import Approval, Policy, find_approval, load_policy, need_approval
from masquerade_host.store.state import StateFolder, state_folder
from masquerade_protocols import plugin_of, protocol_of

__all__ = ["LedgerAttempt", "Records", "Site", "code_of", "expect_same_code"]


# ---  attempt --------------------------------------------------------------------


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


# ---  site -----------------------------------------------------------------------

_BY_POLICY = "policy.toml"
_OF_RECORDS = {"fingerprint", "sizes"}  # hashes, which stay in the state folder


def code_of(study: Study) -> str:
    """Return which code a study's protocol is, where another distribution has it; "" for one of this program."""
    plugin = plugin_of(study)
    return "" if plugin is None else program.code_of(plugin.distribution, plugin.version, plugin.module)


def expect_same_code(state: StateFolder, study: Study, me: str) -> None:
    """Check, before a study's protocol is loaded, that it is the code of which a person has approved, if anybody has.

    Raises
    ------
    RefusedLocally
        The protocol's distribution was changed since.
    """
    found, now = find_approval(state, study, me), code_of(study)
    if found is not None and found.code != now:
        raise RefusedLocally(
            f"{found.who} approved this study with the protocol {study.study.protocol} of "
            f"{found.code or 'this program'}, and what is installed now is {now or 'this program'}",
            "install what was approved, or approve the study again",
        )


@dataclass(frozen=True)
class Records:
    """The ledger's knowledge of a party's records.

    Parameters
    ----------
    path : Path or Query
        Where they are.
    fingerprint : bytes
        Under the ledger's own key.
    known : bool
        Whether the ledger has seen exactly these records before.
    """

    path: Data
    fingerprint: bytes
    known: bool


class Site:
    """The state folder of this machine, for one study.

    Parameters
    ----------
    option : path, optional
        The folder, if it is not the usual one.
    study : Study
    me : str
        The party that this machine is.

    Raises
    ------
    RefusedLocally
        The policy forbids the study.
    """

    def __init__(self, option: Path | str | None, study: Study, me: str) -> None:
        self.state: StateFolder = state_folder(option)
        self.study, self.me = study, me
        self.policy: Policy = load_policy(self.state)
        self.spends: Cost = protocol_of(study).spends(study)
        self.policy.check(study, self.spends)

    def approval(self, population: str | None = None) -> Approval:
        """Return the recorded approval of this study.

        Raises
        ------
        RefusedLocally
            There is none, or it charges the budget of another population than the one given.
        """
        found = need_approval(self.state, self.study, self.me)
        if population not in {None, found.population}:
            raise RefusedLocally(
                f"{found.who} approved this study on the budget of the population {found.population!r}, but "
                f"--population is {population!r}",
                "leave --population out, or approve the study again for that population",
            )
        return found

    def ledger(self) -> Ledger:
        """Open the ledger; BudgetExceeded if there is none."""
        return Ledger.open(self.state)

    def account(self, ledger: Ledger, population: str) -> Account:
        """Return the budget of a population.

        Raises
        ------
        BudgetExceeded
            The population has no budget.
        RefusedLocally
            Its budget is larger than the policy allows.
        """
        account = ledger.account(population)
        self.policy.check_budget(population, account.epsilon, account.delta)
        return account

    def records(self, ledger: Ledger, chosen: str | None, path: Data, data: object) -> tuple[Account, Records]:
        """Return the budget on which the run counts, and what the ledger knows of the records.

        Parameters
        ----------
        ledger : Ledger
        chosen : str, optional
            The population that somebody named.
        path : Path or Query
            Where the records are.
        data : object
            The loaded records.

        Raises
        ------
        RefusedLocally
            The policy does not allow this file or this budget, or the records are charged to another budget already.
        BudgetExceeded
            The population has no budget.
        """
        fingerprint = ledger.fingerprint(data)
        owner = ledger.population_of(fingerprint)
        population = self.policy.population(chosen or owner, path)
        if owner not in {None, population}:
            raise RefusedLocally(
                f"these records have been charged to the budget of the population {owner!r} since their first use, "
                f"and not to that of {population!r}",
                f"give --population {owner}",
            )
        return self.account(ledger, population), Records(path, fingerprint, owner is not None)

    def adopt_unattended(self, ledger: Ledger, records: Records, population: str) -> None:
        """Take records that were never used here for those of the population, if the policy names their file.

        Raises
        ------
        RefusedLocally
            It does not, and an unattended run cannot choose which budget to charge.
        """
        if records.known:
            return
        if not self.policy.names(records.path):
            raise RefusedLocally(
                f"the records of {records.path} were never used on this machine, and an unattended run cannot choose "
                "which budget to charge",
                f"approve the study with these records: masquerade approve STUDY with the same --data argument; or "
                f"name them below a [[population]] in {self.policy.path}",
            )
        ledger.adopt(records.fingerprint, population, by=_BY_POLICY)

    def reserve(self, ledger: Ledger, records: Records, population: str, who: str) -> None:
        """Reserve what the study may take from the budget; a reservation that is there stays."""
        ledger.reserve(
            self.study,
            self.me,
            population=population,
            fingerprint=records.fingerprint,
            approved_by=who,
            spends=self.spends,
        )

    def entries(self, ledger: Ledger) -> dict[str, Any]:
        """Return what the ledger says of this study, for the folder of the run.

        Hashes of the records stay out of it. Of times it has the day: how long a round took tells of the records.
        """
        mine = {"study": self.study.digest().hex(), "me": self.me}
        rows = [row for row in ledger.history() if mine.items() <= row.fields.items()]
        rows = [row for row in rows if row.fields.get("label") not in NO_RELEASES]  # returned when the study finishes
        shown = ({key: value for key, value in row.fields.items() if key not in _OF_RECORDS} for row in rows)
        return {"entries": [{"n": r.n, "at": r.at[:10], "kind": r.kind, **f} for r, f in zip(rows, shown, strict=True)]}

    @property
    def counted(self) -> bool:
        """Whether a run of the study shows the exact number of all records."""
        return protocol_of(self.study).opens_sizes(self.study)
