"""The doctor: is this machine ready for a study? Each check is one line, with what to do if it fails.

What a run costs comes from the entry of the study's protocol, so the doctor knows no protocol by name.
"""

from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path

import gmpy2

from masquerade.budgeting import budget_line
from masquerade.burden import burden_of
from masquerade.checks import Check, Verdict
from masquerade.network_checks import descriptors, network
from masquerade.report import lead_part
from masquerade_core.crypto.speed import seconds_of_exponentiation
from masquerade_core.data.examining import examine as examine_records
from masquerade_core.data.file_faults import with_names
from masquerade_core.data.files import data_at
from masquerade_core.data.schema import Dataset
from masquerade_core.errors import MasqueradeError
from masquerade_core.study import CHARLIE, Study
from masquerade_core.study_files import load_study
from masquerade_core.words import counted
from masquerade_host.store.kept_keys import load_keys_for
from masquerade_host.store.keyfiles import Keys
from masquerade_host.store.permissions import find_approval, load_policy
from masquerade_host.store.state import StateFolder, state_folder
from masquerade_host.transport.proxy import Proxy
from masquerade_protocols import Cost, Protocol, protocol_of

__all__ = ["Check", "Verdict", "examine"]

_SLOW = 0.1  # seconds for one modular exponentiation


def examine(
    study_file: Path,
    *,
    key: Path | None = None,
    data: Path | str | None = None,
    accept: Collection[str] = (),
    state: StateFolder | None = None,
    proxy: Proxy | None = None,
) -> Iterator[Check]:
    """Check a study, and the keys and the records that a participant would bring to it.

    Nothing of the records is sent to anybody. The check of the network opens a connection to the address that the study
    gives for Charlie, and proves the participant's key there if it is given. Errors become failed checks, and a study
    that cannot be run ends the list.

    Parameters
    ----------
    study_file : Path
    key : Path, optional
        The participant's secret keys.
    data : path or str, optional
        A party's records: a file, folder or query.
    accept : collection of str
        The columns that look like a mistake in the records, and are none.
    state : StateFolder, optional
        Where the machine's privacy budget is; by default the usual place.
    proxy : Proxy, optional
        The way out of this participant's network.

    Yields
    ------
    Check
    """
    try:
        study, _ = load_study(study_file)
        protocol = protocol_of(study)
    except MasqueradeError as error:
        yield _failed("study", error)
        return
    yield Check("study", Verdict.OK, f"{protocol.name}, {study.K} parties, epsilon = {study.privacy.epsilon:g}")
    cost = protocol.cost(study)
    yield _arithmetic(study, cost)
    yield _conversation(cost)
    if burden := burden_of(cost, study.K):
        yield Check("size", Verdict.NOTE, burden)
    if protocol.expectation is not None:
        expected = protocol.expectation(study)
        yield Check(expected.about, Verdict.NOTE, expected.text)
    me: str | None = None
    keys: Keys | None = None
    if key is not None:
        try:
            keys, file = load_keys_for(study, key)
            me = study.name_of(keys.public)
            yield Check("key", Verdict.OK, f"you are {_described(me, study, cost)}, and only you can read {file}")
        except MasqueradeError as error:
            yield _failed("key", error)
    records: object = None
    if data is not None:
        check, records = _records(data, study, protocol, me, accept)
        yield replace(check, hint=with_names(check.hint or "", study_file, data))
    yield descriptors(me)
    yield network(study, me, keys, proxy)
    if me != CHARLIE:
        folder = state or state_folder()
        yield _policy(study, protocol, folder)
        if me is not None:
            yield _approval(study, me, folder)
        yield _budget(study, protocol, me or "", records, folder)


def _failed(name: str, error: MasqueradeError) -> Check:
    return Check(name, Verdict.FAIL, error.message, error.hint)


def _described(me: str, study: Study, cost: Cost) -> str:
    """Return a participant's name and part in the study."""
    if me == CHARLIE:
        return "Charlie, the curator"
    return f"{me}, the lead (it {lead_part(cost)})" if me == study.lead else me


def _arithmetic(study: Study, cost: Cost) -> Check:
    """Time one modular exponentiation: they take most of the time of a run that encrypts."""
    bits, found = study.key_bits, f"gmpy2 {gmpy2.version()} with {gmpy2.mp_version()}"
    if not bits:
        return Check("arithmetic", Verdict.OK, f"{found}; this run encrypts nothing and needs none")
    seconds = seconds_of_exponentiation(bits)
    words = f"{found}: {seconds * 1000:.0f} ms for an exponentiation with {bits}-bit keys"
    if not cost.exponentiations:
        return Check("arithmetic", Verdict.OK, f"{words}; this run encrypts nothing and needs none")
    words += f", about {seconds * cost.exponentiations:.1f} s for those of all participants"
    if seconds > _SLOW:
        return Check(
            "arithmetic",
            Verdict.WARN,
            words,
            "this machine is slow or busy, so the deadline may pass: end other programs, or ask for a longer deadline",
        )
    return Check("arithmetic", Verdict.OK, words)


def _conversation(cost: Cost) -> Check:
    """Say how long the conversation is: on a slow network, waiting for each other takes most of the time."""
    waits = counted(cost.round_trips, "time")
    sums, ciphertexts = counted(cost.sums, "secure sum"), counted(cost.ciphertexts, "ciphertext")
    message = f"Charlie and the parties wait for each other {waits}; all in all they make {sums} and send {ciphertexts}"
    return Check("conversation", Verdict.NOTE, message)


def _policy(study: Study, protocol: Protocol, folder: StateFolder) -> Check:
    """Say whether the site's rules allow the study."""
    try:
        load_policy(folder).check(study, protocol.spends(study))
    except MasqueradeError as error:
        return _failed("policy", error)
    if folder.policy.exists():
        return Check("policy", Verdict.OK, f"the rules of this site, {folder.policy}, allow the study")
    return Check("policy", Verdict.NOTE, f"this site has no rules: there is no {folder.policy}")


def _approval(study: Study, me: str, folder: StateFolder) -> Check:
    """Say whether a person has approved exactly this study."""
    try:
        approval = find_approval(folder, study, me)
    except MasqueradeError as error:
        return _failed("approval", error)
    if approval is None:
        return Check(
            "approval",
            Verdict.WARN,
            f"this study has not been approved for {me} yet",
            "read it and approve it: masquerade approve STUDY --key KEY --data DATA",
        )
    words = f"{approval.who} approved it at {approval.when}, on the budget of {approval.population!r}"
    return Check("approval", Verdict.OK, words)


def _budget(study: Study, protocol: Protocol, me: str, records: object, folder: StateFolder) -> Check:
    """Say what is left of this machine's privacy budget, and whether the study fits."""
    line = budget_line(folder, study, protocol, me, records)
    if line is None:
        return Check(
            "budget",
            Verdict.WARN,
            f"{folder.root} has no privacy budget, and without one a party cannot take part",
            "give this machine a budget once: masquerade budget init --epsilon 10 --delta 1e-5",
        )
    return Check("budget", Verdict.OK if line.fits else Verdict.FAIL, line.text, line.hint)


def _records(
    path: Path | str, study: Study, protocol: Protocol, me: str | None, accept: Collection[str] = ()
) -> tuple[Check, object]:
    """Check a party's records, and say what no other participant will learn: how many cells are moved or filled."""
    try:
        found = data_at(path)
        data = protocol.records.one(path, study)
        protocol.records.check(data, study, str(found), me if me is not None and me in study.names else "")
    except MasqueradeError as error:
        return _failed("data", error), None
    try:
        examine_records(path, study, counts=protocol.records.grid_of is not None).check(accept)
    except MasqueradeError as error:
        return _failed("data", error), data
    return _unusual(str(found), data), data


def _unusual(source: str, data: object) -> Check:
    """Say what a party's owner should know of records that can be used."""
    found = f"{source} has all columns and enough records"
    if not isinstance(data, Dataset):
        return Check("data", Verdict.OK, found)
    cells = "its values are within the bounds"
    if data.repaired:
        moved, filled = counted(data.repaired.clamped, "number"), counted(data.repaired.filled, "cell")
        cells = f"{moved} out of bounds will count as the bound, and {filled} will be filled with the study's value"
    return Check("data", Verdict.OK, f"{found}; {cells}")
