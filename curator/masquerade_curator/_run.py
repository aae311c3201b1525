"""Charlie's process: listen, serve the run, write the results."""

from pathlib import Path

import numpy as np

from masquerade_core import __version__
from masquerade_core.data.loading import load_csv
from masquerade_core.errors import BadInput
from masquerade_core.learning.erm import error_rate
from masquerade_core.model import model_to_json
from masquerade_core.rng import SystemRng
from masquerade_core.seat import Seat
from masquerade_core.study import CHARLIE, Study
from masquerade_host.charlie import CharlieSession
from masquerade_host.driver import run_role
from masquerade_host.keyfiles import load_keys
from masquerade_host.results import MODEL, RESULT, RunDirectory, default_directory, summarize
from masquerade_host.stats import Observer, quiet
from masquerade_host.transport import CharlieSocket
from masquerade_protocols import protocol_of

__all__ = ["run"]


def run(
    study_path: Path | str,
    key_path: Path | str,
    *,
    out: Path | str | None = None,
    test: Path | str | None = None,
    listen: str | None = None,
    observe: Observer = quiet,
) -> Path:
    """Run Charlie until the study is done; return the path of his ``result.json``.

    Parameters
    ----------
    study_path, key_path : path
        The study, and Charlie's secret keys.
    out : path, optional
        The run directory; by default ``runs/<study>-<run>/charlie``.
    test : path, optional
        A **public** test set; the released model's error on it becomes ``metrics.test_error``.
    listen : str, optional
        Where to listen, if not at the study's address (behind address translation, say).
    observe : Observer

    Raises
    ------
    MasqueradeError
        With the exit code of its class; nothing half-written stays.
    """
    study = Study.load(study_path)
    protocol = protocol_of(study)
    keys = load_keys(key_path)
    if (owner := study.name_of(keys.public)) != CHARLIE:
        raise BadInput(f"{key_path} is the key of {owner}, and not Charlie's", "give the key of the study's [curator]")
    tests = load_csv(test, study, need_label=False) if test is not None else None
    roster = {party.name: party.key.curve for party in study.parties}
    session = CharlieSession(
        study,
        keys,
        lambda: CharlieSocket(listen or study.address, keys, roster),
        version=__version__,
        observe=observe,
    )
    with RunDirectory(out or default_directory(study, session.run, CHARLIE)) as directory:
        model = run_role(protocol.charlie(Seat(CHARLIE, study.names, session.run), study), session, SystemRng())
        metrics = {}
        if tests is not None:
            metrics["test_error"] = error_rate(tests.X, tests.y, np.array(model.weights))
        statement = [claim.to_json() for claim in protocol.statement(study)]
        directory.write(
            {MODEL: model_to_json(model, study, session.run), RESULT: summarize(session, statement, metrics)}
        )
    result = directory.path / RESULT
    observe("done", result=str(result))
    return result
