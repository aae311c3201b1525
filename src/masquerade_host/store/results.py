"""A participant's run directory: all result files whole, or nothing but what each failed attempt had spent.

The files are made as bytes first, with their hashes: what a participant signs must be what stands on its disk.
"""

import contextlib
import itertools
import json
import os
import platform
import secrets
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime, timedelta
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from masquerade_core import __version__
from masquerade_core.errors import (
    BadInput,
    LocalProtocolError,
    ProtocolViolation,
    RunFailed,
    Spent,
)
from masquerade_core.model import ESTIMATES, FEATURES, STATISTICS
from masquerade_core.privacy.accounting import Total, cost_of
from masquerade_core.study import CHARLIE, Study
from masquerade_core.wire.faults import EVIDENCE, Findings
from masquerade_host.faults.endings import after_check
from masquerade_host.process.process import held
from masquerade_host.session.session import Session
from masquerade_host.store.state import private_folder, sync_folder, write_new
from masquerade_host.store.transcript import TRANSCRIPT, Transcript, hash_of_files, hashed

__all__ = [
    "APPROVAL",
    "ATTEMPT",
    "LEDGER",
    "MODEL",
    "RESULT",
    "SPENT",
    "STUDY",
    "Content",
    "RunDirectory",
    "default_directory",
    "evaluation_of",
    "half_named",
    "hash_of_release",
    "hash_of_statement",
    "holds_result",
    "is_confirmed",
    "part_of",
    "signed_files",
    "summarize",
    "text_of",
    "versions",
]


# --- Files and their hashes -----------------------------------------------------------

RESULT = "result.json"
STUDY = "study.toml"
APPROVAL = "approval.json"
LEDGER = "ledger.json"
Content = Mapping[str, Any] | str
_LIBRARIES = ("msgpack", "numpy", "pydantic", "pynacl", "pyzmq", "scipy")


def text_of(content: Content) -> str:
    """Return the text of a file: a text as it is, and a JSON value with indentation."""
    if isinstance(content, str):
        return content
    return json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def holds_result(path: Path | str, run: bytes) -> bool:
    """Say whether a directory holds the ``result.json`` of this run, which is the last of its files to appear."""
    try:
        found = json.loads((Path(path) / RESULT).read_text(encoding="utf-8"))
    except (OSError, ValueError):  # half of a file is no JSON
        return False
    return bool(run) and isinstance(found, dict) and found.get("run_id") == run.hex()


def is_confirmed(path: Path | str) -> bool:
    """Say whether a directory holds the result of a run of which every party has confirmed that it was told the same.

    A result of a run in memory, which nobody needs to confirm, counts as confirmed.
    """
    try:
        found = json.loads((Path(path) / RESULT).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(found, dict) and found.get("confirmed", True) is True


def part_of(name: str, mark: str) -> str:
    """Return the temporary name of a file. A run's id in it tells the process that resumes the run whose it is."""
    return f".{name}.{mark}.part"


def half_named(path: Path, names: Collection[str], run: bytes) -> list[Path]:
    """Return what a process of this run that died left in a directory while it gave the files their names.

    The temporary file of the result bears the run's id, and gets its name last. So while it is there, the files are
    those of this run, and are not complete. An empty list where it is not there.
    """
    mark = path / part_of(RESULT, run.hex())
    if not mark.exists():
        return []
    others = [path / part_of(name, run.hex()) for name in names if name != RESULT]
    return [*(path / name for name in names), *others, mark]


def hash_of_release(release: object, study: Study, run: bytes) -> bytes:
    """Return the hash of the files that publish what a role returned. It is the same at all participants."""
    files = getattr(release, "files", None)
    published: Mapping[str, Content] = {} if files is None else files(study, run)
    return hash_of_files({name: text_of(content).encode() for name, content in published.items()})


def hash_of_statement(statement: object) -> bytes:
    """Return the hash of a privacy statement's rows. It is the same at all participants."""
    return hashed(json.dumps(statement, ensure_ascii=False, allow_nan=False, sort_keys=True).encode())


def versions() -> dict[str, str]:
    """Return the versions of this program, of Python, and of the libraries that compute and carry a run."""
    found = {"masquerade": __version__, "python": platform.python_version()}
    for library in _LIBRARIES:
        try:
            found[library] = version(library)
        except PackageNotFoundError:
            continue
    return found


def signed_files(
    session: Session,
    release: Mapping[str, Content],
    result: Mapping[str, Any],
    beside: Mapping[str, Content],
    started: datetime,
) -> dict[str, Content]:
    """Return all files of a finished run, with the signed transcript that ties them together; the result comes last.

    Parameters
    ----------
    session : Session
    release : mapping
        The files that publish the result.
    result : mapping
        The content of ``result.json``; it gets the versions, and when the process started and ended. A party's starts
        with the join: how long it was up before tells how long it trained.
    beside : mapping
        The files of this participant alone, such as the record of the approval.
    started : datetime
        When the process started, in UTC.
    """
    ended = datetime.now(UTC)
    if session.me != CHARLIE:
        started = ended - timedelta(seconds=result["seconds"])
    times = {"started": _seconds(started), "ended": _seconds(ended), "versions": versions()}
    contents = {STUDY: session.study.to_toml(), **beside, **release, RESULT: {**result, **times}}
    texts = {name: text_of(content) for name, content in contents.items()}
    noted = session.transcript
    transcript = Transcript(
        run=session.run,
        study=session.study.digest(),
        participant=session.me,
        version=__version__,
        numbers=session.version,
        program=session.program.digest,
        files={name: hashed(text.encode()) for name, text in texts.items()},
        release=hash_of_files({name: texts[name].encode() for name in release}),
        statement=hash_of_statement(result["statement"]),
        roster=noted.roster,
        closing=noted.closing,
        entries=noted.entries(),
        shown=noted.shown,
    )
    last = texts.pop(RESULT)
    return {**texts, TRANSCRIPT: session.sign(transcript).to_text(), RESULT: last}


def _seconds(moment: datetime) -> str:
    return moment.isoformat("T", "seconds")


# --- Results ---------------------------------------------------------------------

MODEL = "model.json"
SPENT = "spent.json"
ATTEMPT = "attempt-"
"""The folders of failed attempts in a run directory: this and a number."""
_RESULTS = (RESULT, MODEL, ESTIMATES, STATISTICS, FEATURES, TRANSCRIPT)
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
    ``evidence.json`` has the signed frames that its end rests on (:mod:`masquerade_core.wire.faults`). So the same
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
                    "give another directory with --out; for a new run make a new study, with its own nonce",
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
            sync_folder(self.path)
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
            write_new(part, text_of(files[name]).encode(), 0o644)
        with held() as caught:
            for name, part in parts.items():
                # The exclusive open reserves the name: a rename alone would replace what another process has written.
                os.close(os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644))
                self._ours.append(folder / name)
                part.rename(folder / name)
            sync_folder(folder)
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
                    sync_folder(self.path)
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
