"""A participant's run directory: both files whole, or nothing."""

import contextlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from masquerade_core import __version__
from masquerade_core.errors import BadInput, RunFailed
from masquerade_core.study import CHARLIE, Study
from masquerade_host.session import Session

__all__ = ["MODEL", "RESULT", "RunDirectory", "default_directory", "summarize"]

RESULT = "result.json"
MODEL = "model.json"


def default_directory(study: Study, run: bytes, me: str) -> Path:
    """Return where a participant's files go unless it says otherwise."""
    return Path("runs") / f"{study.study.name}-{run.hex()[:8]}" / me


class RunDirectory:
    """A directory that gets ``model.json`` and ``result.json`` on success, and keeps no trace of a failure.

    Entered before the run, so that a directory that cannot be used is found out before anything is sent.

    Parameters
    ----------
    path : path
        May exist, but holds no results yet: a run's results are never overwritten.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self._made = False
        self._parts: list[Path] = []  # what a failure takes away again

    def __enter__(self) -> Self:
        """Make the directory.

        Raises
        ------
        BadInput
            It holds results already, or nothing can be written there.
        """
        for name in (RESULT, MODEL):
            if (self.path / name).exists():
                raise BadInput(
                    f"{self.path} already holds the {name} of a run, which is never overwritten",
                    "give another directory with --out; for a new run make a new study, with a nonce of its own",
                )
        try:
            self._made = not self.path.exists()
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise BadInput(f"{self.path} cannot be made: {error.strerror}", "give another one with --out") from error
        if not self.path.is_dir() or not os.access(self.path, os.W_OK | os.X_OK):
            raise BadInput(f"nothing can be written into {self.path}", "give another directory with --out")
        return self

    def write(self, files: Mapping[str, Mapping[str, Any]]) -> None:
        """Write JSON files, the last named last: temporary files, fsync, rename.

        Raises
        ------
        RunFailed
            The disk is full or broken; nothing is left.
        """
        try:
            for name, content in files.items():
                part = self.path / f".{name}.{os.getpid()}.part"
                self._parts.append(part)
                descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
                with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                    json.dump(content, file, indent=2, ensure_ascii=False, allow_nan=False)
                    file.write("\n")
                    file.flush()
                    os.fsync(file.fileno())
            for name, part in zip(files, tuple(self._parts), strict=True):
                part.rename(self.path / name)
                self._parts[self._parts.index(part)] = self.path / name
            _sync_directory(self.path)
            self._parts.clear()
        except OSError as error:
            raise RunFailed(
                f"the results cannot be written to {self.path}: {error.strerror}", "the other participants have them"
            ) from error

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave no trace of a failure."""
        if kind is not None:
            self._clean()

    def _clean(self) -> None:
        for part in self._parts:
            part.unlink(missing_ok=True)
        # The folders above it stay: another participant may be about to use them.
        if self._made:
            with contextlib.suppress(OSError):  # somebody else has laid something into it
                self.path.rmdir()


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def summarize(session: Session, statement: list[dict[str, Any]], metrics: Mapping[str, float]) -> dict[str, Any]:
    """Return the content of ``result.json``."""
    study = session.study
    return {
        "run_id": session.run.hex(),
        "version": __version__,
        "study": study.study.name,
        "protocol": study.study.protocol,
        "participant": session.me,
        "parties": study.K,
        "n_features": len(study.features),
        "epsilon": study.privacy.epsilon,
        "delta": study.privacy.delta,
        "calibration": study.privacy.calibration,
        **session.stats.to_json(from_join=session.me != CHARLIE),
        "releases": [{"label": r.label, "epsilon": r.epsilon, "delta": r.delta} for r in session.releases],
        "metrics": dict(metrics),
        "statement": statement,
    }
