"""The permissions of a party's machine: its policy, the approvals of its people, and the rest of its privacy budget."""

import getpass
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from masquerade_core.data.queries import Data
from masquerade_core.errors import RefusedLocally
from masquerade_core.privacy.accounting.composition import DELTA_UNITS, UNITS, Cost
from masquerade_core.privacy.totals import told_apart
from masquerade_core.study import Study
from masquerade_core.words import listed
from masquerade_host import program
from masquerade_host.approvals import Approval, all_approvals, find_approval, need_approval, record_approval
from masquerade_host.ledger import Account, Ledger
from masquerade_host.policy import Policy, load_policy
from masquerade_host.state import StateFolder, state_folder
from masquerade_protocols import plugin_of, protocol_of

__all__ = ["Records", "Site", "budget_in_words", "code_of", "expect_same_code", "login_name"]

_BY_POLICY = "policy.toml"
_OWN = ""  # stands for this site where others stand by the fingerprints of their keys
_OF_RECORDS = {"fingerprint", "sizes"}  # hashes, which stay in the state folder


def login_name() -> str:
    """Return the name of the user of this process; their number where they have no name, as in a container."""
    try:
        return getpass.getuser()
    except (KeyError, ImportError, OSError):
        return f"user {os.getuid()}"


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

    def expect_to_fit(self, ledger: Ledger, account: Account, records: Records) -> None:
        """Raise, before a person is asked, what :meth:`reserve` would raise after the yes.

        Of unknown records the ledger cannot say it: they belong to no population before the yes.
        """
        if records.known and not ledger.would_fit(self.study, self.me, account.population, self.spends):
            self.reserve(ledger, records, account.population, login_name())

    def entries(self, ledger: Ledger) -> dict[str, Any]:
        """Return what the ledger says of this study, for the folder of the run.

        Hashes of the records stay out of it. Of times it has the day: how long a round took tells of the records.
        """
        mine = {"study": self.study.digest().hex(), "me": self.me}
        rows = [row for row in ledger.history() if mine.items() <= row.fields.items()]
        shown = ({key: value for key, value in row.fields.items() if key not in _OF_RECORDS} for row in rows)
        return {"entries": [{"n": r.n, "at": r.at[:10], "kind": r.kind, **f} for r, f in zip(rows, shown, strict=True)]}

    @property
    def _counted(self) -> bool:
        return protocol_of(self.study).opens_sizes(self.study)

    def sizes_in_words(self, ledger: Ledger, records: Records | None, population: str) -> tuple[str, ...]:
        """Return whose number of records this study shows beside those that were approved before, as paragraphs.

        Studies over the same records count together; a study whose records nobody knows yet, with those of each data
        set of its population.
        """
        if not self._counted:
            return ()
        earlier = [
            (found, ledger.records_of(found.digest, found.participant))
            for found in all_approvals(self.state)
            if found.counted_with and found.population == population and found.digest != self.study.digest().hex()
        ]
        data = {records.fingerprint} if records is not None else {its_own for _, its_own in earlier} - {None} or {None}
        told = [
            words
            for fingerprint in data
            for words in _shown_beside(
                Approval.given(self.study, self.me, population, "?", counted=True),
                [found for found, its_own in earlier if its_own in {None, fingerprint}],
            )
        ]
        return tuple(dict.fromkeys(told))

    def record(self, ledger: Ledger, records: Records | None, population: str, who: str) -> Approval:
        """Write down a person's yes: whose the records are, what is reserved for the study, and the approval itself."""
        code = code_of(self.study)
        approval = Approval.given(self.study, self.me, population, who, code, counted=self._counted)
        if records is not None:
            if not records.known:
                ledger.adopt(records.fingerprint, population, by=who)
            self.reserve(ledger, records, population, who)
        # The approval comes last: with it alone, another process could start without the reservation.
        record_approval(self.state, self.study, approval)
        return approval


def _shown_beside(new: Approval, earlier: Sequence[Approval]) -> Iterator[str]:
    """Yield whose number follows from a study's N and those of earlier ones, over the same records of this site."""
    names = {mark: name for found in (*earlier, new) for name, mark in found.counted_with.items()}
    *before, this = ({_OWN, *found.counted_with.values()} for found in (*earlier, new))

    def shown(*known: set[str]) -> frozenset[str]:
        return told_apart([*before, this, *known]) - told_apart([*before, *known]) - told_apart([this, *known])

    if not before:
        return
    first = f"This study and {listed([found.study for found in earlier])} count the records of different sites. "
    everybody = shown()
    for site in sorted(everybody, key=lambda site: (site != _OWN, names.get(site, ""))):
        whose = "this site" if site == _OWN else names[site]
        yield f"{first}Together they show everybody exactly how many records {whose} has."
    if _OWN in everybody:
        return
    for site in sorted(names, key=lambda site: names[site]):
        if _OWN in shown({site}):
            yield (
                f"{first}Together they show {names[site]}, which knows its own number, exactly how many records this "
                "site has."
            )


def budget_in_words(spends: Cost, account: Account, records: Records | None) -> tuple[str, ...]:
    """Return what a study takes from the budget, as paragraphs."""
    takes = (
        f"This study takes up to epsilon = {spends.epsilon / UNITS:.4g} and delta = {spends.delta / DELTA_UNITS:.4g} "
        f"from the budget of the population {account.population!r}, which is epsilon = {account.epsilon:g} and delta = "
        f"{account.delta:g}."
    )
    left = (
        f"So far, epsilon = {account.spent:.4g} of it is spent; {account.taken:.4g} with all that is reserved. "
        f"{account.left:.4g} is left."
    )
    if records is None or records.known:
        return takes, left
    unknown = (
        "These records were never used on this machine, so they are charged to this budget as well. If they are those "
        "of other people, name their own population with --population."
    )
    return takes, left, unknown
