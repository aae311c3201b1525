"""A participant's run directory: all result files whole, or nothing but a note of the privacy that was spent."""

import contextlib
import json
import math
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from masquerade_core import __version__
from masquerade_core.errors import BadInput, MasqueradeError, ProtocolViolation, RunFailed, SumRefused
from masquerade_core.evidence import EVIDENCE
from masquerade_core.spent import Spent
from masquerade_core.statistics import FEATURES, STATISTICS
from masquerade_core.study import CHARLIE, Study
from masquerade_host.session import Session
from masquerade_host.signals import held

__all__ = ["MODEL", "RESULT", "SPENT", "RunDirectory", "default_directory", "evaluation_of", "summarize"]

RESULT = "result.json"
MODEL = "model.json"
SPENT = "spent.json"


def default_directory(study: Study, me: str) -> Path:
    """Return the directory for a participant's files where the command line names none."""
    return Path("runs") / f"{study.study.name}-{study.digest().hex()[:8]}" / me


class RunDirectory:
    """A directory that gets ``result.json`` and what the run released on success: ``model.json``, for most protocols.

    After a failure it holds at most ``spent.json``: the privacy that was spent before, if something was released; and
    ``evidence.json``: the signed messages of a sum that was refused (:mod:`masquerade_core.evidence`). The
    directory is entered before the run. So one that cannot be used is found before anything is sent.

    Parameters
    ----------
    path : path
        It may exist, but must hold no results: they are never overwritten.
    session : Session, optional
        It knows what was released.
    """

    def __init__(self, path: Path | str, session: Session | None = None) -> None:
        self.path = Path(path)
        self._session = session
        self._made = False
        self._ours: list[Path] = []  # files that a failure removes again

    def __enter__(self) -> Self:
        """Make the directory.

        Raises
        ------
        BadInput
            It already holds results, or nothing can be written there.
        """
        for name in (RESULT, MODEL, STATISTICS, FEATURES, SPENT, EVIDENCE):
            if (self.path / name).exists():
                raise BadInput(
                    f"{self.path} already holds the {name} of a run, which is never overwritten",
                    "give another directory with --out; for a new run make a new study, with a nonce of its own",
                )
        try:
            self._made = not self.path.exists()
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise BadInput(
                f"the directory {self.path} cannot be made: {error.strerror}", "give another one with --out"
            ) from error
        if not self.path.is_dir() or not os.access(self.path, os.W_OK | os.X_OK):
            raise BadInput(f"nothing can be written into {self.path}", "give another directory with --out")
        return self

    def write(self, files: Mapping[str, Mapping[str, Any] | str]) -> None:
        """Write JSON files, and texts, by way of temporary files, fsync and rename; the last one named appears last.

        Raises
        ------
        RunFailed
            The disk is full or broken, or another process has written there meanwhile. None of our files is left.
        """
        try:
            self._write(files)
        except OSError as error:
            raise RunFailed(
                f"the results cannot be written to {self.path}: {error.strerror}",
                "see whether the disk is full, or another process uses the directory; the other participants have the "
                "same results",
            ) from error

    def _write(self, files: Mapping[str, Mapping[str, Any] | str]) -> None:
        parts = {name: self.path / f".{name}.{secrets.token_hex(8)}.part" for name in files}
        self._ours.extend(parts.values())
        for name, part in parts.items():
            descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                content = files[name]
                if isinstance(content, str):
                    file.write(content)
                else:
                    json.dump(content, file, indent=2, ensure_ascii=False, allow_nan=False)
                    file.write("\n")
                file.flush()
                os.fsync(file.fileno())
        with held() as caught:
            for name, part in parts.items():
                # The exclusive open reserves the name: a rename alone would replace what another process has written.
                os.close(os.open(self.path / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644))
                self._ours.append(self.path / name)
                part.rename(self.path / name)
            _sync_directory(self.path)
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
            if self._session is not None and self._session.kept.frames and _somebody_cheated(error):
                self._keep(self._session, error)
            if self._made:
                # The folders above it stay, since another participant may be about to use them.
                with contextlib.suppress(OSError):  # it is not empty
                    self.path.rmdir()
            caught.clear()  # this process is ending

    def _clean(self) -> None:
        for path in self._ours:
            path.unlink(missing_ok=True)
        self._ours.clear()

    def _keep(self, session: Session, error: BaseException) -> None:
        """Write down the signed messages of the last sum."""
        try:
            self._write({EVIDENCE: session.evidence(_identity(session))})
        except OSError:
            self._clean()
            return
        if isinstance(error, MasqueradeError):
            error.hint += f"; {self.path / EVIDENCE} has the signed messages of the last sum, for 'masquerade blame'"

    def _account(self, session: Session, error: BaseException) -> None:
        """Report the privacy that was spent, and write it down."""
        epsilon, delta = (math.fsum(getattr(r, cost) for r in session.releases) for cost in ("epsilon", "delta"))
        words = f"this party's share had already left: count epsilon = {epsilon:g}, delta = {delta:g} as spent"
        try:
            self._write({SPENT: _identity(session) | {"releases": _releases(session)}})
        except OSError:
            self._clean()
            words += f" (which could not be written down in {self.path})"
        error.add_note(Spent(words))


def _somebody_cheated(error: BaseException) -> bool:
    """Whether a sum was refused, here or elsewhere: nobody could tell at once whose fault it is, or it is Charlie's."""
    open_ = isinstance(error, ProtocolViolation) and error.peer in ("", CHARLIE) and not error.suspects
    return open_ or isinstance(error, SumRefused)


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def evaluation_of(release: object) -> dict[str, Any]:
    """Return the field ``evaluation`` of ``result.json``, or no field where nothing was measured."""
    found = getattr(release, "evaluation", None)
    return {} if found is None else {"evaluation": found.to_json()}


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
        **session.stats.to_json(from_join=session.me != CHARLIE),
        "releases": _releases(session),
        **evaluation_of(release),
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
