"""``masquerade approve``: a person reads a study and says yes to it, before a party's process is started.

The person reads what leaves, who must not collude and what it costs. Nothing is sent before.
"""

import getpass
import os
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from masquerade_core.data.examining import examine
from masquerade_core.data.files import data_at
from masquerade_core.errors import BadInput, RefusedLocally
from masquerade_core.privacy.accounting import DELTA_UNITS, UNITS, Cost
from masquerade_core.privacy.totals import told_apart
from masquerade_core.study import CHARLIE, Study
from masquerade_core.study_files import load_study
from masquerade_core.words import listed
from masquerade_host.store.approving import all_approvals, approval_given, differs_in_ranges, record_approval
from masquerade_host.store.budget import records_of, would_fit
from masquerade_host.store.kept_keys import load_keys_for
from masquerade_host.store.ledger import Account, Ledger
from masquerade_host.store.permissions import Approval, Compared
from masquerade_party._records import read_records
from masquerade_party._site import Records, Site, code_of
from masquerade_protocols import Explanation, Protocol, protocol_of

__all__ = [
    "Approved",
    "approve",
    "ask",
    "asked_for",
    "budget_in_words",
    "code_in_words",
    "confirm",
    "expect_to_fit",
    "in_words",
    "login_name",
    "ranges_in_words",
    "record",
    "sizes_in_words",
    "without_doubts",
]


# ---  approval -------------------------------------------------------------------

_WIDTH = 88
_OWN = ""  # stands for this site where others stand by the fingerprints of their keys
_GROUP = 4  # digits of a fingerprint that stand together


def ask(words: str) -> None:
    """Show a study in plain words on stderr, and ask for approval.

    Raises
    ------
    RefusedLocally
        The answer was not yes, or nobody can be asked.
    """
    if not sys.stdin.isatty():
        raise RefusedLocally(
            "nobody can be asked to approve this study: standard input is not a terminal",
            "approve it beforehand with 'masquerade approve STUDY', and start with --approved",
        )
    sys.stderr.write(words)
    sys.stderr.write("\nTake part? Type yes to agree: ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() != "yes":
        raise RefusedLocally("you did not approve this study, so nothing was sent", "type yes to take part")


def confirm(study: Study, typed: str) -> None:
    """Take a fingerprint that somebody typed for a yes to the study that has this fingerprint.

    Raises
    ------
    RefusedLocally
        It is the fingerprint of another study, or only a part of this one's.
    """
    digits = "".join(typed.replace("-", " ").replace(":", " ").split()).lower()
    if digits == study.fingerprint().replace(" ", ""):
        return
    shown = " ".join(digits[i : i + _GROUP] for i in range(0, min(len(digits), 40), _GROUP)) or "empty"
    raise RefusedLocally(
        f"the fingerprint that was typed is {shown}, but this study has another one",
        "read the study with 'masquerade study show', which ends with its fingerprint, and give all of its 32 digits",
    )


def code_in_words(study: Study, code: str) -> tuple[str, ...]:
    """Return whose code a protocol is that is not this program's, as paragraphs; none for this program's own."""
    if not code:
        return ()
    words = (
        f"The protocol {study.study.protocol} is not part of this program. It is code of {code}. It can do all that "
        "your process may do. Compare this line with the others'."
    )
    return (words,)


def in_words(
    study: Study,
    me: str,
    explanation: Explanation,
    budget: Sequence[str] = (),
    beside: Sequence[str] = (),
    *,
    code: str = "",
) -> str:
    """Return a study in plain words, for the person who decides whether ``me`` takes part.

    Parameters
    ----------
    study : Study
    me : str
        The party.
    explanation : Explanation
        Of the study's protocol.
    budget : sequence of str
        What the study takes from the site's privacy budget, as paragraphs.
    beside : sequence of str
        What it shows together with other studies of this site, as paragraphs.
    code : str
        Which code the protocol is, where it is not this program's.
    """
    others = ", ".join(name for name in study.names if name != me)
    parts = [f"The study {study.study.name!r} ({study.study.protocol}), for {me}, together with {others}.\n"]
    declared = [f"{name[0].upper()}{name[1:]}: {text}" for name, text in study.study.declared]
    for title, points in (
        ("What the coordinator declares", declared),
        ("What leaves this machine", explanation.leaves),
        ("Who must not work together", explanation.collusion),
        ("What it costs", explanation.cost),
        ("What it takes from your budget", budget),
        ("What it shows together with your other studies", beside),
        ("Whose code it runs", code_in_words(study, code)),
    ):
        if points:
            parts.append(f"\n{title}\n")
        parts.extend(
            textwrap.fill(point, _WIDTH, initial_indent="  - ", subsequent_indent="    ") + "\n" for point in points
        )
    parts.append(f"\nThe study's fingerprint: {study.fingerprint()}\n")
    return "".join(parts)


def login_name() -> str:
    """Return the name of the user of this process; their number where they have no name, as in a container."""
    try:
        return getpass.getuser()
    except (KeyError, ImportError, OSError):
        return f"user {os.getuid()}"


def expect_to_fit(site: Site, ledger: Ledger, account: Account, records: Records) -> None:
    """Raise, before a person is asked, what :meth:`Site.reserve` would raise after the yes.

    Of unknown records the ledger cannot say it: they belong to no population before the yes.
    """
    if records.known and not would_fit(ledger, site.study, site.me, account.population, site.spends):
        site.reserve(ledger, records, account.population, login_name())


def sizes_in_words(site: Site, ledger: Ledger, records: Records | None, population: str) -> tuple[str, ...]:
    """Return whose number of records this study shows beside those that were approved before, as paragraphs.

    Studies over the same records count together; a study whose records nobody knows yet, with those of each data
    set of its population.
    """
    if not site.counted:
        return ()
    earlier = [
        (found, records_of(ledger, found.digest, found.participant))
        for found in all_approvals(site.state)
        if found.counted_with and found.population == population and found.digest != site.study.digest().hex()
    ]
    data = {records.fingerprint} if records is not None else {its_own for _, its_own in earlier} - {None} or {None}
    told = [
        words
        for fingerprint in data
        for words in _shown_beside(
            approval_given(site.study, site.me, population, "?", counted=True),
            [found for found, its_own in earlier if its_own in {None, fingerprint}],
        )
    ]
    return tuple(dict.fromkeys(told))


def without_doubts(path: Path | str, study: Study, protocol: Protocol, accepted: Sequence[str] = ()) -> tuple[str, ...]:
    """Return which doubts about a party's records were accepted, before a person is asked.

    A run that was approved asks nothing of the kind: whether a party takes part must not tell what its records say.

    Raises
    ------
    BadInput
        Something in the records looks like a mistake, and is not accepted.
    """
    return examine(path, study, counts=protocol.records.grid_of is not None).check(accepted)


def record(
    site: Site,
    ledger: Ledger,
    records: Records | None,
    population: str,
    who: str,
    accepted: tuple[str, ...] = (),
    compared: Compared | None = None,
) -> Approval:
    """Write down a person's yes: whose the records are, what is reserved for the study, and the approval itself."""
    code = code_of(site.study)
    approval = approval_given(
        site.study, site.me, population, who, code, counted=site.counted, accepted=accepted, compared=compared
    )
    if records is not None:
        if not records.known:
            ledger.adopt(records.fingerprint, population, by=who)
        site.reserve(ledger, records, population, who)
    # The approval comes last: with it alone, another process could start without the reservation.
    record_approval(site.state, site.study, approval)
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


def ranges_in_words(site: Site) -> tuple[str, ...]:
    """Return which approved studies differ from this one in bounds or levels alone, as paragraphs.

    Two such runs over the same records tell how many of them lie between the two bounds.
    """
    return tuple(
        f"The study {found.study!r}, which {found.who} approved at {found.when}, differs from this one in bounds or "
        "levels alone. The results of both, side by side, tell of the records that lie between these bounds. Ask why "
        "it is run again."
        for found in all_approvals(site.state)
        if found.participant == site.me and differs_in_ranges(found, site.study)
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


def asked_for(
    site: Site,
    explanation: Explanation,
    ledger: Ledger,
    account: Account,
    records: Records,
    accepted: tuple[str, ...] = (),
) -> Approval:
    """Ask at the terminal for a yes to the site's study, and write it down."""
    beside = (*sizes_in_words(site, ledger, records, account.population), *ranges_in_words(site))
    budget = budget_in_words(site.spends, account, records)
    ask(in_words(site.study, site.me, explanation, budget, beside, code=code_of(site.study)))
    return record(site, ledger, records, account.population, login_name(), accepted)


# ---  approve --------------------------------------------------------------------


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
    accept: Sequence[str] = (),
    tell: Callable[[str], object] | None = None,
    compared: Compared | None = None,
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
    accept : sequence of str
        The columns that look like a mistake in the records, and are none.
    tell : callable, optional
        Shows the study, where nobody is asked; by default on stderr.
    compared : Compared, optional
        Whose keys were compared, where this site joined by an invitation.

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
            if accept:
                raise BadInput("--accept was given without records", "add --data")
            account, records = site.account(ledger, site.policy.population(population)), None
            accepted: tuple[str, ...] = ()
        else:
            accepted = without_doubts(data_path, study, protocol, accept)
            data = read_records(protocol, data_path, study, site.me, stream)
            account, records = site.records(ledger, population, found, data)
            expect_to_fit(site, ledger, account, records)
        beside = (*sizes_in_words(site, ledger, records, account.population), *ranges_in_words(site))
        budget = budget_in_words(site.spends, account, records)
        words = in_words(study, site.me, protocol.explain(study), budget, beside, code=code_of(study))
        if fingerprint is None:
            ask(words)
        else:
            (tell or sys.stderr.write)(words)
            confirm(study, fingerprint)
        who = login_name() if by is None else by
        approval = record(site, ledger, records, account.population, who, accepted, compared)
    return Approved(study, approval, records is not None, beside)


def _party(study: Study, key_path: Path | str | None, participant: str | None) -> str:
    """Return which party of the study this site is."""
    if key_path is None:
        if participant is None:
            raise BadInput("nothing says which party this is", "give your keys with --key, or its name with --as")
        return study.party(participant).name
    me = study.name_of(load_keys_for(study, key_path)[0].public)
    if me == CHARLIE:
        raise BadInput(
            f"{key_path} is Charlie's key, and Charlie has no records to approve for", "give the key of a party"
        )
    if participant not in {None, me}:
        raise BadInput(f"{key_path} is the key of {me}, but --as is {participant!r}", "leave one of the two out")
    return me
