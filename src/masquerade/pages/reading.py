"""Reads the folder of a finished run for a report, and checks it as ``masquerade verify`` does."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from masquerade_core.bounded import MOST_OF_A_RUN, json_of, read_bytes
from masquerade_core.errors import BadInput
from masquerade_core.saved_model import SavedModel, model_from_json
from masquerade_core.study import Study
from masquerade_host.faults.verifying import read_folder
from masquerade_host.store.results import APPROVAL, LEDGER, RESULT, STUDY
from masquerade_host.store.transcript import TRANSCRIPT, Transcript
from masquerade_protocols import statement_of

__all__ = ["Run", "read_json", "read_run"]

_NEEDED = ("run_id", "study", "protocol", "parties", "epsilon", "delta", "stages", "statement", "seconds", "messages")
_HINT = "give the folder that a finished run wrote, such as the one that 'masquerade party' names at its end"


@dataclass(frozen=True)
class Run:
    """The files of a finished run, or of a simulation.

    Parameters
    ----------
    path : Path
    result : mapping
        The content of ``result.json``.
    study : Study or None
        None for a simulation, whose folder holds no study.
    model : SavedModel or None
        None where the run released no model.
    release : mapping
        The content of ``model.json``; empty where there is none.
    approval, ledger : mapping
        Their files' contents; empty where there are none.
    transcript : Transcript or None
    problems : tuple of str
        What does not hold of the folder's signatures and hashes; empty if all holds.
    took_part : tuple of str
        The parties that signed the end of the run.
    """

    path: Path
    result: Mapping[str, Any]
    study: Study | None = None
    model: SavedModel | None = None
    release: Mapping[str, Any] = field(default_factory=dict)
    approval: Mapping[str, Any] = field(default_factory=dict)
    ledger: Mapping[str, Any] = field(default_factory=dict)
    transcript: Transcript | None = None
    problems: tuple[str, ...] = ()
    took_part: tuple[str, ...] = ()

    @property
    def watermark(self) -> str:
        """The mark of a simulation's files; empty for a run between machines."""
        return str(self.result.get("watermark", ""))

    @property
    def verified(self) -> bool:
        """Whether there is a signed transcript, and all that it covers is as it was signed."""
        return self.transcript is not None and not self.problems

    @property
    def participant(self) -> str:
        """Whose folder it is."""
        return str(self.result.get("participant", ""))


def read_run(path: Path) -> Run:
    """Read a run's folder.

    Raises
    ------
    BadInput
        The folder holds no result, or a file in it cannot be read.
    """
    result = read_json(path / RESULT, _HINT)
    if missing := [name for name in _NEEDED if name not in result]:
        raise BadInput(f"{path / RESULT} is not the result of a run: it has no {missing[0]}", _HINT)
    release = _found(path / "model.json")
    common: dict[str, Any] = {
        "path": path,
        "result": result,
        "release": release,
        "model": model_from_json(release) if release else None,
        "approval": _found(path / APPROVAL),
        "ledger": _found(path / LEDGER),
    }
    if not (path / TRANSCRIPT).exists():
        study = Study.parse(_text(path / STUDY), str(path / STUDY), in_memory=True) if (path / STUDY).exists() else None
        return Run(**common, study=study)
    folder = read_folder(path, _rows)
    return Run(
        **common,
        study=folder.study,
        transcript=folder.transcript,
        problems=tuple(folder.problems),
        took_part=folder.took_part,
    )


def _rows(study: Study) -> list[dict[str, Any]]:
    return [claim.to_json() for claim in statement_of(study)]


def read_json(path: Path, hint: str) -> dict[str, Any]:
    """Read a file that holds a JSON object.

    Raises
    ------
    BadInput
        It cannot be read, or holds something else.
    """
    found = json_of(_text(path, hint), path, hint, "does not hold JSON")
    if not isinstance(found, dict):
        raise BadInput(f"{path} does not hold a JSON object", hint)
    return found


def _found(path: Path) -> dict[str, Any]:
    return read_json(path, _HINT) if path.exists() else {}


def _text(path: Path, hint: str = _HINT) -> str:
    return read_bytes(path, MOST_OF_A_RUN, "file of a run", hint).decode("utf-8", "replace")
