"""Charlie's process: it listens, serves the run, and writes the results."""

from pathlib import Path
from typing import TYPE_CHECKING

from masquerade_core.errors import BadInput
from masquerade_core.rng import SystemRng
from masquerade_core.seat import Seat
from masquerade_core.study import CHARLIE, Study
from masquerade_core.study_files import load_study
from masquerade_curator.options import CuratorOptions
from masquerade_host.process.driver import run_role
from masquerade_host.process.process import Reporting, reporting
from masquerade_host.process.program import Program
from masquerade_host.process.progress import Observer, quiet
from masquerade_host.session.charlie import CharlieSession
from masquerade_host.store.journal import FINISHED, journal_of
from masquerade_host.store.keyfiles import load_keys
from masquerade_host.store.results import RESULT, RunDirectory, default_directory, holds_result, summarize
from masquerade_host.transport.sockets import CharlieSocket
from masquerade_protocols import protocol_of
from masquerade_protocols.blame import check_evidence
from masquerade_protocols.rehearsing import load_all, rehearsed

if TYPE_CHECKING:
    from masquerade_curator._testing import PublicTests

__all__ = ["run", "run_with"]


def run_with(options: CuratorOptions, *, show: Observer | None = None) -> Path:
    """Do what :func:`run` does with the options of a command, and report it as these want it.

    Parameters
    ----------
    options : CuratorOptions
    show : Observer, optional
        Is told what happens in place of stderr.
    """
    with reporting(Reporting(options.log_file, options.log_level, options.metrics), show=show) as observe:
        return run(
            options.study,
            options.key,
            out=options.out,
            test=options.test,
            listen=options.listen,
            state=options.state,
            journal=not options.no_journal,
            observe=observe,
        )


def run(
    study_path: Path | str,
    key_path: Path | str,
    *,
    out: Path | str | None = None,
    test: Path | str | None = None,
    listen: str | None = None,
    state: Path | str | None = None,
    journal: bool = True,
    observe: Observer = quiet,
) -> Path:
    """Run Charlie until the study is done; return the path of his ``result.json``.

    Parameters
    ----------
    study_path, key_path : path
        The study, and Charlie's secret keys.
    test : path, optional
        As the option. The released model's error on it becomes ``metrics.test_error``. Where the iterates are public,
        the objective at each becomes ``rounds``.
    journal : bool
        The opposite of ``no_journal``.
    out, listen, state
        As the options of these names in :class:`CuratorOptions`, where their help explains them.
    observe : Observer
        Is told what happens.

    Raises
    ------
    MasqueradeError
        Its class has the exit code. No half-written file stays.
    """
    study, auxiliary = load_study(study_path)
    protocol = protocol_of(study)
    keys = load_keys(key_path)
    if not study.names_key(keys.public):
        from masquerade_host.store.kept_keys import kept_for

        keys, key_file = kept_for(study, Path(key_path), keys)
        if key_file != Path(key_path):
            observe("kept_keys", file=str(key_file))
    if (owner := study.name_of(keys.public)) != CHARLIE:
        raise BadInput(
            f"{key_path} is the key of {owner}, but this process is Charlie", "give the key of the study's [curator]"
        )
    protocol.check_test(study, given=test is not None)
    testing = None if test is None else _testing(test, study, observe)
    roster = {party.name: party.key.curve for party in study.parties}
    load_all(study, CHARLIE, protocol.cost(study))
    session = CharlieSession(
        study,
        keys,
        lambda: CharlieSocket(listen or study.address, keys, roster),
        version=protocol.version,
        observe=observe if testing is None else testing.observe,
        forecast=protocol.cost(study).forecast(study),
        program=Program.here(protocol.parameters.__module__),
    )
    path = Path(out or default_directory(study, CHARLIE)) / RESULT
    if testing is not None:
        testing.session = session
    with journal_of(study, CHARLIE, keys, state, keep=journal) as kept:
        if not holds_result(path.parent, kept.finished):
            rehearsed(study, protocol.cost(study), joined=kept.joined)
            with RunDirectory(path.parent, session, check_evidence, resumed=kept.joined) as directory:
                shared = {"auxiliary": auxiliary} if protocol.auxiliary else {}
                role = protocol.charlie(Seat(CHARLIE, study.names), study, **shared)
                release = run_role(role, session, SystemRng(), journal=kept)
                statement = [claim.to_json() for claim in protocol.statement(study)]
                metrics = {} if testing is None else testing.metrics(release)
                result = summarize(session, statement, metrics, release)
                if testing is not None and (rounds := testing.rounds()):
                    result["rounds"] = rounds
                directory.record(release.files(study, session.run), result)
                kept.end(FINISHED, session.run)
    observe("done", result=str(path))
    return path


def _testing(test: Path | str, study: Study, observe: Observer) -> "PublicTests":
    from masquerade_curator._testing import PublicTests

    return PublicTests.read(test, study, observe)
