"""Charlie's process: it listens, serves the run, and writes the results."""

from pathlib import Path

from masquerade_core.data.auxiliary import load_study
from masquerade_core.data.loading import load_csv
from masquerade_core.data.schema import Dataset
from masquerade_core.errors import BadInput
from masquerade_core.learning.trace import objective_at, objective_trace
from masquerade_core.model import Model, error_on
from masquerade_core.rng import SystemRng
from masquerade_core.seat import Seat
from masquerade_core.study import CHARLIE, Study
from masquerade_curator.options import CuratorOptions
from masquerade_host.charlie_session import CharlieSession
from masquerade_host.driver import run_role
from masquerade_host.journal import FINISHED
from masquerade_host.journal_file import journal_of
from masquerade_host.keyfiles import load_keys
from masquerade_host.program import Program
from masquerade_host.reporting import Reporting, reporting
from masquerade_host.results import RESULT, RunDirectory, default_directory, summarize
from masquerade_host.run_files import holds_result
from masquerade_host.stats import Observer, quiet
from masquerade_host.transport import CharlieSocket
from masquerade_protocols import protocol_of
from masquerade_protocols.blame import check_evidence
from masquerade_protocols.rehearsing import rehearsed

__all__ = ["run", "run_with"]

_LIVE = 1_000_000  # numbers in a test set; the objective of a larger one is computed only after the run


class _Curve:
    """An observer that adds the objective on the public test set to every report of progress.

    Parameters
    ----------
    observe : Observer
        Gets all events.
    tests : Dataset or None
        The public test set.
    study : Study
    """

    def __init__(self, observe: Observer, tests: Dataset | None, study: Study) -> None:
        self._observe = observe
        self._tests = tests if tests is not None and tests.X.size <= _LIVE else None
        self._study = study
        self.session: CharlieSession | None = None

    def __call__(self, event: str, /, **fields: str | float) -> None:
        """Pass an event on. After one of progress, report the objective as well."""
        self._observe(event, **fields)
        if event != "progress" or self._tests is None or self.session is None or not self.session.iterates:
            return
        done, w = self.session.iterates[-1]
        if w:
            value = objective_at(w, self._tests, self._study)
            self._observe("objective", done=done, total=fields["total"], message=f"{value:.6g}")


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
    out : path, optional
        The run directory; by default ``runs/<study>-<digest>/charlie``.
    test : path, optional
        A **public** test set. The released model's error on it becomes ``metrics.test_error``. Where the iterates are
        public, the objective at each becomes ``rounds``.
    listen : str, optional
        The address to listen at, if it is not the study's: behind address translation, for example.
    state : path, optional
        The state folder, if it is not this machine's usual one. It has the journal.
    journal : bool
        Keep a journal, so that a process that died goes on when it is started again.
    observe : Observer

    Raises
    ------
    MasqueradeError
        Its class has the exit code. No half-written file stays.
    """
    study, auxiliary = load_study(study_path)
    protocol = protocol_of(study)
    keys = load_keys(key_path)
    if (owner := study.name_of(keys.public)) != CHARLIE:
        raise BadInput(
            f"{key_path} is the key of {owner}, but this process is Charlie", "give the key of the study's [curator]"
        )
    protocol.check_test(given=test is not None)
    tests = load_csv(test, study, need_label=False) if test is not None else None
    roster = {party.name: party.key.curve for party in study.parties}
    curve = _Curve(observe, tests, study)
    session = curve.session = CharlieSession(
        study,
        keys,
        lambda: CharlieSocket(listen or study.address, keys, roster),
        version=protocol.version,
        observe=curve,
        forecast=protocol.cost(study).forecast(study),
        program=Program.here(protocol.parameters.__module__),
    )
    path = Path(out or default_directory(study, CHARLIE)) / RESULT
    with journal_of(study, CHARLIE, keys, state, keep=journal) as kept:
        if not holds_result(path.parent, kept.finished):
            rehearsed(study, protocol.cost(study), joined=kept.joined)
            with RunDirectory(path.parent, session, check_evidence, resumed=kept.joined) as directory:
                shared = {"auxiliary": auxiliary} if protocol.auxiliary else {}
                role = protocol.charlie(Seat(CHARLIE, study.names), study, **shared)
                release = run_role(role, session, SystemRng(), journal=kept)
                metrics = {}
                if tests is not None and isinstance(release, Model):
                    metrics["test_error"] = error_on(release, tests)
                statement = [claim.to_json() for claim in protocol.statement(study)]
                result = summarize(session, statement, metrics, release)
                if rounds := objective_trace(session.iterates, tests, study):
                    result["rounds"] = rounds
                directory.record(release.files(study, session.run), result)
                kept.end(FINISHED, session.run)
    observe("done", result=str(path))
    return path
