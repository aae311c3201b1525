"""A participant's run directory: all result files whole, or nothing but what each failed attempt had spent."""

import contextlib
import itertools
import os
import secrets
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from masquerade_core import __version__
from masquerade_core.errors import (
    BadInput,
    LocalProtocolError,
    ProtocolViolation,
    RunFailed,
)
from masquerade_core.evidence import EVIDENCE, Findings
from masquerade_core.model import FEATURES, STATISTICS
from masquerade_core.privacy.accounting.composition import Total, cost_of
from masquerade_core.spent import Spent
from masquerade_core.study import CHARLIE, Study
from masquerade_host.run_files import (
    APPROVAL,
    LEDGER,
    RESULT,
    STUDY,
    Content,
    half_named,
    holds_result,
    is_confirmed,
    part_of,
    signed_files,
    text_of,
)
from masquerade_host.seen import after_check
from masquerade_host.session import Session
from masquerade_host.signals import held
from masquerade_host.state import private_folder
from masquerade_host.transcript import TRANSCRIPT

__all__ = [
    "ATTEMPT",
    "MODEL",
    "RESULT",
    "SPENT",
    "RunDirectory",
    "default_directory",
    "evaluation_of",
    "summarize",
]

MODEL = "model.json"
SPENT = "spent.json"
ATTEMPT = "attempt-"
"""The folders of failed attempts in a run directory: this and a number."""
_RESULTS = (RESULT, MODEL, STATISTICS, FEATURES, TRANSCRIPT)
_BESIDE = (STUDY, APPROVAL, LEDGER)


def default_directory(study: Study, me: str) -> Path:
    """Return the directory for a participant's files where the command line names none.

    It is named by the study and not by the run, so that another attempt of the same study finds it.
    """
    return Path("runs") / f"{study.study.name}-{study.digest().hex()[:8]}" / me


class RunDirectory:
    """A directory that gets ``result.json`` and what the run released on success: ``model.json``, for most protocols.

    A failed attempt leaves no results. It leaves a folder ``attempt-1``, ``attempt-2`` and so on, where there is
    something to keep. ``spent.json`` there is the privacy that was spent before, if something was released.
    ``evidence.json`` has the signed frames that its end rests on (:mod:`masquerade_core.evidence`). So the same
    command can be given again. The directory is entered before the run. So one that cannot be used is found before
    anything is sent.

    Parameters
    ----------
    path : path
        It may exist, but must hold no results: they are never overwritten.
    session : Session, optional
        It knows what was released.
    check : callable, optional
        Says what a file of evidence proves, where the run ended and nobody could tell at once whose fault it is.
    signed : bool
        Whether the study, the approval, the ledger's entries and a signed transcript come there as well. A run in
        memory has none of them.
    resumed : bool
        An earlier process of this very run died, perhaps while it wrote here. What it left of its files is replaced,
        and what it wrote whole stays.
    """

    def __init__(
        self,
        path: Path | str,
        session: Session | None = None,
        check: Callable[[str, Study], Findings] | None = None,
        *,
        signed: bool = True,
        resumed: bool = False,
    ) -> None:
        self.path = Path(path)
        self._resumed = resumed
        self._check = check
        self._session = session
        self._signed = signed
        self._made = False
        self._started = datetime.now(UTC)
        self._ours: list[Path] = []  # files that a failure removes again
        self._attempt: Path | None = None

    def __enter__(self) -> Self:
        """Make the directory.

        Raises
        ------
        BadInput
            It already holds results, or nothing can be written there.
        """
        for name in (*_RESULTS, *(_BESIDE if self._signed else ())):
            if (self.path / name).exists() and not self._may_be_of_this_run():
                raise BadInput(
                    f"{self.path} already holds the {name} of a run, which is never overwritten",
                    "give another directory with --out; for a new run make a new study, with a nonce of its own",
                )
        try:
            self._made = not self.path.exists()
            private_folder(self.path)
        except OSError as error:
            raise BadInput(
                f"the directory {self.path} cannot be made: {error.strerror}", "give another one with --out"
            ) from error
        if not self.path.is_dir() or not os.access(self.path, os.W_OK | os.X_OK):
            raise BadInput(f"nothing can be written into {self.path}", "give another directory with --out")
        return self

    def _may_be_of_this_run(self) -> bool:
        """Say whether the files here may be those of the process that died; :meth:`record` knows the run, and checks.

        The temporary file of the result is there from before the first of the files gets its name until the last.
        """
        return self._resumed and ((self.path / RESULT).exists() or any(self.path.glob(f".{RESULT}.*.part")))

    def follow(self, session: Session) -> None:
        """Note after a failure what this session had released and received."""
        self._session = session

    def record(
        self,
        release: Mapping[str, Content],
        result: Mapping[str, Any],
        *,
        approval: Mapping[str, Any] | None = None,
        ledger: Mapping[str, Any] | None = None,
    ) -> None:
        """Write all files of a run that has ended well, and the signed transcript that ties them together.

        Parameters
        ----------
        release : mapping
            The files that publish the result, such as ``model.json``.
        result : mapping
            What :func:`summarize` returned. It gets the versions, and when the process started and ended.
        approval, ledger : mapping, optional
            The record of a person's yes to the study, and what the ledger of the privacy budget says of this run.

        Raises
        ------
        RunFailed
            As :meth:`write`.
        """
        if self._session is None:
            raise LocalProtocolError("a run directory without a session was asked for a transcript")
        beside = {name: record for name, record in ((APPROVAL, approval), (LEDGER, ledger)) if record is not None}
        files, run = signed_files(self._session, release, result, beside, self._started), self._session.run
        if not (self._resumed and self._has_all(files, run, confirmed=result["confirmed"])):
            self.write(files, run.hex())

    def _has_all(self, files: Mapping[str, Content], run: bytes, *, confirmed: bool) -> bool:
        """Say whether an earlier process of this run has written everything; if not, remove what it left."""
        parts = {name: self.path / part_of(name, run.hex()) for name in files}
        paths = [self.path / name for name in files]
        finished = holds_result(self.path, run)
        same = finished and is_confirmed(self.path) == confirmed  # else it is confirmed only now
        if same and all(path.exists() and path.stat().st_size for path in paths):
            _sync_directory(self.path)
            return True
        ours = finished or parts[RESULT].exists()
        # The result's come last, for they show whose the others are: this process may die here as well.
        for path in (*(paths if ours else ()), *parts.values()):
            path.unlink(missing_ok=True)
        return False

    def write(self, files: Mapping[str, Content], mark: str = "") -> None:
        """Write JSON files, and texts, by way of temporary files, fsync and rename; the last one named appears last.

        Raises
        ------
        RunFailed
            The disk is full or broken, or another process has written there meanwhile. None of our files is left.
        """
        try:
            self._write(files, self.path, mark)
        except OSError as error:
            raise RunFailed(
                f"the results cannot be written to {self.path}: {error.strerror}",
                "see whether the disk is full, or another process uses the directory; the other participants have the "
                "same results",
            ) from error

    def _write(self, files: Mapping[str, Content], folder: Path, mark: str = "") -> None:
        parts = {name: folder / part_of(name, mark or secrets.token_hex(8)) for name in files}
        self._ours.extend(parts.values())
        for name, part in parts.items():
            descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(text_of(files[name]))
                file.flush()
                os.fsync(file.fileno())
        with held() as caught:
            for name, part in parts.items():
                # The exclusive open reserves the name: a rename alone would replace what another process has written.
                os.close(os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644))
                self._ours.append(folder / name)
                part.rename(folder / name)
            _sync_directory(folder)
            self._ours.clear()
            caught.clear()  # a signal that came now is too late: all files are there

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """After a failure, remove our files and note what was spent."""
        if error is None:
            return
        with held() as caught:
            self._clean()
            if self._session is not None and self._session.releases:
                self._account(self._session, error)
            found = self._keep(self._session, error) if self._session is not None else None
            if self._made:
                # The folders above it stay, since another participant may be about to use them.
                with contextlib.suppress(OSError):  # it is not empty
                    self.path.rmdir()
            caught.clear()  # this process is ending
        if found is not None:
            raise found from error

    def _clean(self) -> None:
        if self._resumed and self._session is not None:
            self._ours += half_named(self.path, (*_RESULTS, *_BESIDE), self._session.run)
        for path in self._ours:
            path.unlink(missing_ok=True)
        self._ours.clear()
        if self._attempt is not None:
            with contextlib.suppress(OSError):  # it is not empty
                self._attempt.rmdir()

    def _failed(self) -> Path:
        """Return the folder of this failed attempt, and make it if it is not there yet."""
        if self._attempt is None:
            for number in itertools.count(1):
                with contextlib.suppress(FileExistsError):
                    folder = self.path / f"{ATTEMPT}{number}"
                    folder.mkdir(mode=0o700)
                    self._attempt = folder
                    _sync_directory(self.path)
                    break
        return self._attempt or self.path

    def _keep(self, session: Session, error: BaseException) -> ProtocolViolation | None:
        """Write down what the end rests on, and ask what it proves; return the error if it proves somebody's fault."""
        evidence = session.evidence(_identity(session), error)
        if evidence is None:
            return None
        try:
            self._write({STUDY: session.study.to_toml(), EVIDENCE: evidence}, self._failed())
        except OSError:
            self._clean()
            return None
        return after_check(error, evidence, self._failed() / EVIDENCE, session, self._check)

    def _account(self, session: Session, error: BaseException) -> None:
        """Report the privacy that was spent, and write it down."""
        costs = (cost_of(r.epsilon, r.delta, r.mu, r.slack) for r in session.releases)
        epsilon, delta = sum(map(Total.of, costs), start=Total()).spent(session.study.privacy.delta)
        words = f"this party's share had already left: count epsilon = {epsilon:g}, delta = {delta:g} as spent"
        try:
            self._write({SPENT: _identity(session) | {"releases": _releases(session)}}, self._failed())
        except OSError:
            self._clean()
            words += f" (which could not be written down in {self.path})"
        error.add_note(Spent(words))


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def evaluation_of(release: object) -> dict[str, Any]:
    """Return the fields ``evaluation`` and ``published`` of ``result.json``, as far as there is something to say."""
    found = {name: getattr(release, name, None) for name in ("evaluation", "published")}
    return {name: value.to_json() for name, value in found.items() if value is not None}


def summarize(
    session: Session, statement: list[dict[str, Any]], metrics: Mapping[str, float], release: object = None
) -> dict[str, Any]:
    """Return the content of ``result.json``."""
    study = session.study
    return {
        **_identity(session),
        "parties": study.K,
        "n_features": len(study.features),
        "epsilon": study.privacy.epsilon,
        "delta": study.privacy.delta,
        "calibration": study.privacy.calibration,
        **session.stats.to_json(of_party=session.me != CHARLIE),
        "releases": _releases(session),
        **evaluation_of(release),
        "confirmed": session.unconfirmed is None,
        "metrics": dict(metrics),
        "statement": statement,
    }


def _identity(session: Session) -> dict[str, Any]:
    return {
        "run_id": session.run.hex(),
        "version": __version__,
        "study": session.study.study.name,
        "protocol": session.study.study.protocol,
        "participant": session.me,
    }


def _releases(session: Session) -> list[dict[str, Any]]:
    return [{"label": r.label, "epsilon": r.epsilon, "delta": r.delta} for r in session.releases]
