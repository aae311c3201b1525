"""A data owner's process: it checks policy, approval and budget, takes part, and writes the results."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from masquerade_core.data.files import data_at
from masquerade_core.data.records import Records
from masquerade_core.errors import BadInput
from masquerade_core.model import Model
from masquerade_core.rng import SystemRng
from masquerade_core.seat import Seat
from masquerade_core.study import CHARLIE, Study
from masquerade_core.study_files import load_study
from masquerade_host.process.driver import run_role, telling_of_damage
from masquerade_host.process.process import Reporting, reporting
from masquerade_host.process.program import Program
from masquerade_host.process.progress import Observer, quiet
from masquerade_host.session.party import PartySession, load_for, not_confirmed
from masquerade_host.store.journal import FINISHED, Journal, journal_of
from masquerade_host.store.keyfiles import Keys, load_keys
from masquerade_host.store.results import RESULT, RunDirectory, default_directory, holds_result, summarize
from masquerade_host.store.state import state_folder
from masquerade_host.transport.dialer import PartySocket, probe
from masquerade_party._records import (
    cluster_at,
    read_records,
    says_the_same,
    sizes_of,
    tell_the_owner,
    tell_what_was_got,
)
from masquerade_party._site import LedgerAttempt, Site, expect_same_code
from masquerade_party.options import PartyOptions
from masquerade_protocols import Protocol, protocol_of
from masquerade_protocols.blame import check_evidence
from masquerade_protocols.rehearsing import load_all, rehearsed

if TYPE_CHECKING:
    from masquerade_core.data.auxiliary import Auxiliary
    from masquerade_core.learning.classifiers import Classifier
    from masquerade_host.transport.proxy import Proxy

__all__ = ["run", "run_with"]


def run_with(options: PartyOptions, *, show: Observer | None = None) -> Path:
    """Do what :func:`run` does with the options of a command, and report it as these want it.

    Parameters
    ----------
    options : PartyOptions
    show : Observer, optional
        Is told what happens in place of stderr.
    """
    with reporting(Reporting(options.log_file, options.log_level, options.metrics), show=show) as observe:
        return run(
            options.study,
            options.data,
            options.key,
            classifier=options.classifier,
            out=options.out,
            state=options.state,
            population=options.population,
            approved=options.approved,
            proxy=options.proxy,
            journal=not options.no_journal,
            stream=options.stream,
            accept=tuple(options.accept or ()),
            dask=options.dask,
            observe=observe,
        )


def run(
    study_path: Path | str,
    data_path: Path | str,
    key_path: Path | str,
    *,
    classifier: "Classifier | str | None" = None,
    out: Path | str | None = None,
    state: Path | str | None = None,
    population: str | None = None,
    approved: bool = False,
    proxy: str | None = None,
    journal: bool = True,
    stream: Path | str | None = None,
    accept: Sequence[str] = (),
    dask: str | None = None,
    observe: Observer = quiet,
) -> Path:
    """Take part in one run; return the path of this party's ``result.json``.

    Errors in the study, the records or the keys are found before anything is sent. So is what the policy forbids, an
    approval that is missing, and a budget that does not suffice.

    Parameters
    ----------
    study_path, data_path, key_path : path
        The study, this party's records, and its secret keys. The keys tell which party of the study this is.
    classifier : Classifier or str, optional
        As the option, or an object with ``fit`` and ``predict``.
    proxy : str, optional
        As the option, without its variable of the environment.
    journal : bool
        The opposite of ``no_journal``.
    out, state, population, approved, stream, accept, dask
        As the options of these names in :class:`PartyOptions`, where their help explains them.
    observe : Observer
        Is told what happens.

    Raises
    ------
    MasqueradeError
        Its class has the exit code. No half-written file stays.
    """
    found = data_at(data_path)
    study, auxiliary = load_study(study_path)
    keys = _keys(study, key_path, observe)
    way_out = None if proxy is None else _way_out(proxy)
    me = study.name_of(keys.public)
    if me == CHARLIE:
        raise BadInput(
            f"{key_path} is Charlie's key, but this process is a party", "give the key of one of the parties"
        )
    protocol = _loaded_protocol(study, me, state, approved=approved)
    role = _role(protocol, auxiliary, classifier)
    site = Site(state, study, me)
    approval = site.approval(population) if approved else None
    session_of = partial(
        PartySession,
        me,
        study,
        keys,
        lambda: PartySocket(study.address, keys, study.curator.key.curve, way_out),
        lambda: probe(study.address, study.curator.key.curve, way_out),
        version=protocol.version,
    )
    with (
        journal_of(study, me, keys, state, keep=journal) as kept,
        telling_of_damage(kept, session_of),
        ExitStack() as cleanup,
        closing(site.ledger()) as ledger,
    ):
        cluster = None if dask is None else cleanup.enter_context(cluster_at(dask, study.study.deadline_seconds))
        data = read_records(protocol, data_path, study, me, stream, cluster)
        tell_the_owner(data, observe)
        chosen, accepted = population if approval is None else approval.population, tuple[str, ...]()
        account, records = site.records(ledger, chosen, found, data)
        folder = Path(out or default_directory(study, me))
        result = folder / RESULT
        if holds_result(folder, kept.finished):
            observe("done", result=str(result))
            return result
        if kept.joined and ledger.finished(study, me):
            approval = site.approval(population)  # the earlier process died when all but the journal was done
        elif approval is None:
            accepted = _asking().without_doubts(data_path, study, protocol, accept)
            _asking().expect_to_fit(site, ledger, account, records)
        else:
            site.adopt_unattended(ledger, records, approval.population)
            site.reserve(ledger, records, approval.population, approval.who)
        forecast, again = rehearsed(study, protocol.cost(study), joined=kept.joined), result.exists()
        with RunDirectory(folder, check=check_evidence, resumed=kept.joined) as directory:
            if approval is None:
                approval = _asking().asked_for(site, protocol.explain(study), ledger, account, records, accepted)
            begins = records.fingerprint, sizes_of(study, data)
            with LedgerAttempt(ledger, study, me, *begins, observe, resumed=kept.joined) as attempt:
                session = session_of(
                    observe=attempt.observe,
                    debits=attempt,
                    forecast=forecast,
                    program=Program.here(protocol.parameters.__module__),
                )
                attempt.released = session.releases
                directory.follow(session)
                whole_role, begun = role(Seat(me, study.names), study, data), records.fingerprint
                release = run_role(whole_role, session, SystemRng(), journal=kept, begun=begun)
                attempt.safe = kept.kept
                summary = summarize(session, [claim.to_json() for claim in protocol.statement(study)], {}, release)
                directory.record(
                    release.files(study, session.run),
                    summary,
                    approval=approval.model_dump(mode="json"),
                    ledger=site.entries(ledger),
                )
        _end(kept, session, folder, again=again)
        # The session is over, and nothing else is sent: this is for the person at this machine.
        tell_what_was_got(summary, ledger.account(account.population), observe)
        if isinstance(release, Model) and isinstance(data, Records) and says_the_same(release, data):
            observe("same_answer")
    observe("done", result=str(result))
    return result


def _end(journal: Journal, session: PartySession, folder: Path, *, again: bool) -> None:
    """End the journal of a run whose result is written.

    A result that is not confirmed keeps it once: started again, the same command may get Charlie's last frame.

    Raises
    ------
    DeadlinePassed
        The result is not confirmed.
    """
    error = session.unconfirmed
    goes_on = error is not None and journal.kept and not again
    if not goes_on:
        journal.end(FINISHED if error is None else type(error).__name__, session.run)
    if error is not None:
        raise not_confirmed(error, folder, again=goes_on)


def _keys(study: Study, path: Path | str, observe: Observer) -> Keys:
    """Return this party's keys; tell where they are not those in ``path``, but older ones that the study names."""
    keys = load_keys(path)
    if not study.names_key(keys.public):
        from masquerade_host.store.kept_keys import kept_for

        keys, file = kept_for(study, Path(path), keys)
        if file != Path(path):
            observe("kept_keys", file=str(file))
    return keys


def _asking() -> ModuleType:
    """Return what asks a person, which is loaded where nobody has approved beforehand."""
    from masquerade_party import _approve

    return _approve


def _way_out(proxy: str) -> "Proxy":
    from masquerade_host.transport.proxy import Proxy

    return Proxy.parse(proxy)


def _loaded_protocol(study: Study, me: str, state: Path | str | None, *, approved: bool) -> Protocol:
    """Return a study's protocol, with all that its run needs; if ``approved``, as a person has approved it."""
    if approved:
        expect_same_code(state_folder(state), study, me)
    protocol = protocol_of(study)
    load_all(study, me, protocol.cost(study))
    load_for(study)
    return protocol


def _role(
    protocol: Protocol, auxiliary: "Auxiliary | None", classifier: "Classifier | str | None"
) -> Callable[..., Any]:
    """Return the party's role, with what it takes besides the records."""
    role = partial(protocol.party, auxiliary=auxiliary) if protocol.auxiliary else protocol.party
    if classifier is None:
        return role
    if not protocol.classifiers:
        raise BadInput(
            f"{protocol.name} trains the study's own classifier and takes no other", "leave --classifier out"
        )
    from masquerade_core.learning.classifiers import named

    return partial(role, classifier=named(classifier) if isinstance(classifier, str) else classifier)
