"""The bytes of a run's files, and their hashes: what a participant signs must be what stands on its disk."""

import json
import platform
from collections.abc import Collection, Mapping
from datetime import UTC, datetime, timedelta
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from masquerade_core import __version__
from masquerade_core.study import CHARLIE, Study
from masquerade_host.session import Session
from masquerade_host.transcript import TRANSCRIPT, Transcript, hash_of_files, hashed

__all__ = [
    "APPROVAL",
    "LEDGER",
    "RESULT",
    "STUDY",
    "Content",
    "half_named",
    "hash_of_release",
    "hash_of_statement",
    "holds_result",
    "is_confirmed",
    "part_of",
    "signed_files",
    "text_of",
    "versions",
]

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
