"""``masquerade approve``: a person reads a study and says yes to it, before a party's process is started."""

import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from masquerade_core.data.queries import data_at
from masquerade_core.errors import BadInput
from masquerade_core.study import CHARLIE, Study
from masquerade_core.study_files import load_study
from masquerade_host.approvals import Approval
from masquerade_host.keyfiles import load_keys
from masquerade_party._approval import (
    ask,
    budget_in_words,
    confirm,
    expect_to_fit,
    in_words,
    login_name,
    record,
    sizes_in_words,
)
from masquerade_party._records import read_records
from masquerade_party._site import Site, code_of
from masquerade_protocols import protocol_of

__all__ = ["Approved", "approve"]


@dataclass(frozen=True)
class Approved:
    """The end of ``masquerade approve``.

    Parameters
    ----------
    study : Study
    approval : Approval
        As it is recorded.
    reserved : bool
        Whether the budget was reserved. Without records it cannot be, since nobody knows yet which they are.
    beside : tuple of str
        Whose exact number of records the study shows together with others that were approved before, in sentences.
    """

    study: Study
    approval: Approval
    reserved: bool
    beside: tuple[str, ...] = ()


def approve(
    study_path: Path | str,
    *,
    key_path: Path | str | None = None,
    participant: str | None = None,
    data_path: Path | str | None = None,
    state: Path | str | None = None,
    population: str | None = None,
    by: str | None = None,
    fingerprint: str | None = None,
    stream: Path | str | None = None,
    tell: Callable[[str], object] | None = None,
) -> Approved:
    """Show a study in plain words, ask for a yes, reserve the budget, and record the approval.

    Parameters
    ----------
    study_path : path
    key_path : path, optional
        This party's secret keys, which tell which party of the study it is.
    participant : str, optional
        The party's name, where the keys are not given.
    data_path : path, optional
        This party's records: a file, a folder or a query. With them the budget is reserved now, and otherwise when
        the run begins.
    state : path, optional
        The state folder, if it is not the usual one.
    population : str, optional
        On whose budget the study counts.
    by : str, optional
        Who approves; by default the name of the user.
    fingerprint : str, optional
        The study's fingerprint, as somebody typed it who has read the study. Then nobody is asked.
    stream : path, optional
        A folder on a disk of this machine, where a scratch file without a name holds the records instead of memory.
    tell : callable, optional
        Shows the study, where nobody is asked; by default on stderr.

    Raises
    ------
    RefusedLocally
        The policy forbids the study, or the answer was no.
    BudgetExceeded
        There is no budget, or the study would take more than is left of it.
    BadInput
        The study, the keys or the records cannot be used.
    """
    found = None if data_path is None else data_at(data_path)
    study, _ = load_study(study_path)
    protocol = protocol_of(study)
    site = Site(state, study, _party(study, key_path, participant))
    with closing(site.ledger()) as ledger:
        if data_path is None or found is None:
            account, records = site.account(ledger, site.policy.population(population)), None
        else:
            data = read_records(protocol, data_path, study, site.me, stream)
            account, records = site.records(ledger, population, found, data)
            expect_to_fit(site, ledger, account, records)
        beside = sizes_in_words(site, ledger, records, account.population)
        budget = budget_in_words(site.spends, account, records)
        words = in_words(study, site.me, protocol.explain(study), budget, beside, code=code_of(study))
        if fingerprint is None:
            ask(words)
        else:
            (tell or sys.stderr.write)(words)
            confirm(study, fingerprint)
        approval = record(site, ledger, records, account.population, login_name() if by is None else by)
    return Approved(study, approval, records is not None, beside)


def _party(study: Study, key_path: Path | str | None, participant: str | None) -> str:
    """Return which party of the study this site is."""
    if key_path is None:
        if participant is None:
            raise BadInput("nothing says which party this is", "give your keys with --key, or its name with --as")
        return study.party(participant).name
    me = study.name_of(load_keys(key_path).public)
    if me == CHARLIE:
        raise BadInput(
            f"{key_path} is Charlie's key, and Charlie has no records to approve for", "give the key of a party"
        )
    if participant not in {None, me}:
        raise BadInput(f"{key_path} is the key of {me}, but --as is {participant!r}", "leave one of the two out")
    return me
