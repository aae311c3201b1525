"""The permissions of a party's machine: its policy, the approvals of its people, and the rest of its privacy budget."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from masquerade_core.data.queries import Data
from masquerade_core.errors import RefusedLocally
from masquerade_core.privacy.accounting.composition import Cost
from masquerade_core.study import Study
from masquerade_host import program
from masquerade_host.approvals import Approval, find_approval, need_approval
from masquerade_host.ledger import Account, Ledger
from masquerade_host.policy import Policy, load_policy
from masquerade_host.state import StateFolder, state_folder
from masquerade_protocols import plugin_of, protocol_of

__all__ = ["Records", "Site", "code_of", "expect_same_code"]

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
        shown = ({key: value for key, value in row.fields.items() if key not in _OF_RECORDS} for row in rows)
        return {"entries": [{"n": r.n, "at": r.at[:10], "kind": r.kind, **f} for r, f in zip(rows, shown, strict=True)]}

    @property
    def counted(self) -> bool:
        """Whether a run of the study shows the exact number of all records."""
        return protocol_of(self.study).opens_sizes(self.study)
