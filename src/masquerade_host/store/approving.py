"""How a person's yes to a study is written down, and compared with later ones. A run of that study loads none of it."""

import contextlib
import hashlib
import json
from datetime import UTC, datetime
from pathlib import Path

from pydantic import ValidationError

from masquerade_core import __version__
from masquerade_core.errors import BadInput, RunFailed
from masquerade_core.study import Study
from masquerade_core.study.sections import DECLARED
from masquerade_host.store.permissions import Approval, Compared
from masquerade_host.store.state import StateFolder, private_folder, sync_folder, write_private

__all__ = ["all_approvals", "approval_given", "differs_in_ranges", "record_approval"]

_RANGES = ("min", "max", "levels", "edges", "missing", "positive", "classes")


def approval_given(
    study: Study,
    me: str,
    population: str,
    who: str,
    code: str = "",
    *,
    counted: bool,
    accepted: tuple[str, ...] = (),
    compared: Compared | None = None,
) -> Approval:
    """Return the approval that a person gives now; ``counted``: whether a run opens the number of all records.

    Raises
    ------
    BadInput
        ``who`` is empty or longer than 128 characters.
    """
    if not 0 < len(who) <= 128:  # noqa: PLR2004
        raise BadInput(f"the approver's name has {len(who)} characters; 1 to 128 are allowed", "give another with --by")
    return Approval(
        study=study.study.name,
        digest=study.digest().hex(),
        participant=me,
        population=population,
        who=who,
        when=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        version=__version__,
        counted_with={p.name: p.key.fingerprint() for p in study.parties if p.name != me} if counted else {},
        code=code,
        accepted=accepted,
        ranges=(hashes := _hashes(study))[0],
        but_ranges=hashes[1],
        compared=compared,
        key=study.party(me).key.fingerprint(),
    )


def differs_in_ranges(approval: Approval, study: Study) -> bool:
    """Return whether a study differs from the approved one in its public ranges, and nowhere else."""
    ranges, but_ranges = _hashes(study)
    return bool(approval.but_ranges) and approval.but_ranges == but_ranges and approval.ranges != ranges


def _hashes(study: Study) -> tuple[str, str]:
    """Return hashes of a study's public ranges, and of the rest of it without what changes nothing in a run."""
    dump = study.model_dump(mode="json", by_alias=True, exclude_none=True)
    columns = [dump["label"], *dump["feature"]]
    ranges = [{key: column.pop(key) for key in _RANGES if key in column} for column in columns]
    for key in ("name", "nonce", *DECLARED):
        dump["study"].pop(key, None)
    one, rest = (json.dumps(part, sort_keys=True).encode() for part in (ranges, dump))
    return hashlib.sha256(one).hexdigest(), hashlib.sha256(rest).hexdigest()


def record_approval(state: StateFolder, study: Study, approval: Approval) -> Path:
    """Write an approval into the state folder, whole or not at all; an earlier one for the same study is replaced.

    Raises
    ------
    BadInput
        The state folder cannot be made or written to.
    RunFailed
        The disk is full or broken.
    """
    path = state.made().approval(study, approval.participant)
    try:
        private_folder(path.parent)
        write_private(path, approval.model_dump_json(indent=2) + "\n")
        sync_folder(state.root)
    except OSError as error:
        raise RunFailed(
            f"the approval cannot be written to {path}: {error.strerror}", "see whether the disk is full, or read-only"
        ) from error
    return path


def all_approvals(state: StateFolder) -> tuple[Approval, ...]:
    """Return all recorded approvals that can be read, in the order of their times."""
    found = []
    for path in state.approvals.glob("*.json"):
        with contextlib.suppress(OSError, ValidationError):
            found.append(Approval.model_validate_json(path.read_bytes()))
    return tuple(sorted(found, key=lambda approval: (approval.when, approval.study)))
