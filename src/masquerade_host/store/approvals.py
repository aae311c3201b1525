"""The record of a person's yes: which study, as which participant, on which population's budget, who and when.

A record stands for one study *fingerprint*. A study whose file was changed in any way has not been approved.
"""

import contextlib
import hashlib
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from masquerade_core import __version__
from masquerade_core.errors import BadInput, RefusedLocally, RunFailed
from masquerade_core.study import Study
from masquerade_core.study.sections import DECLARED
from masquerade_host.store.state import StateFolder, private_folder, sync_folder, write_private

__all__ = ["Approval", "Compared", "all_approvals", "find_approval", "need_approval", "record_approval"]

_RANGES = ("min", "max", "levels", "edges", "missing", "positive", "classes")

_Text = Annotated[str, Field(min_length=1, max_length=128)]


class Compared(BaseModel):
    """Of which other parties this site knows that the keys are theirs, where it joined by an invitation.

    Parameters
    ----------
    code : str
        The code that was compared; empty where none was.
    tries : int
        How often a code was made in this lobby. In each try, a dishonest coordinator has one guess in 2^40.
    heard, known : dict of str to str
        The parties that read the code to this site's person, and those whose keys it compared for an earlier study;
        each with its public keys.
    vouched : dict of str to tuple of str
        Parties that this site did not hear, each with those it heard that vouch for it.
    unheard : tuple of str
        The rest. Each counts as one that sides with Charlie.
    """

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", hide_input_in_errors=True)

    code: str
    tries: int
    heard: dict[str, str] = {}
    known: dict[str, str] = {}
    vouched: dict[str, Annotated[tuple[str, ...], Field(strict=False)]] = {}
    unheard: Annotated[tuple[str, ...], Field(strict=False)] = ()


class Approval(BaseModel):
    """One person's yes to one study.

    Parameters
    ----------
    schema_version : int
        Of this record's form.
    study : str
        The study's name.
    digest : str
        The study's whole hash, in hexadecimal digits. Its fingerprint is the start of it.
    participant, population : str
        As which party this machine takes part, and on whose budget the run counts.
    who : str
        The person.
    when : str
        The time, in UTC.
    version : str
        That of the program which showed the study.
    counted_with : dict of str to str, optional
        The other parties' names, and the fingerprints of their keys, where a run opens the exact number of all their
        records and this party's. A later approval asks for them (:mod:`masquerade_core.privacy.totals`).
    code : str
        Where the protocol is another distribution's: which one, its version, and a hash of its files.
    accepted : tuple of str
        The columns that looked like a mistake in the records, and that the person accepted.
    ranges, but_ranges : str
        Hashes of the study's bounds, levels, edges and fillers, and of all else in it but its name, its nonce and what
        is declared of its purpose. A later study that differs in the first alone is noticed.
    key : str
        The fingerprint of the keys by which the study names this machine's party; "" in older records.
    compared : Compared, optional
        Whose keys were compared, where this site joined by an invitation.
    """

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", hide_input_in_errors=True)

    schema_version: Literal[1] = 1
    study: str
    digest: Annotated[str, Field(pattern=r"\A[0-9a-f]{64}\z")]
    participant: str
    population: str
    who: _Text
    when: str
    version: str
    counted_with: dict[str, str] = {}
    code: str = ""
    accepted: Annotated[tuple[str, ...], Field(strict=False)] = ()
    ranges: str = ""
    but_ranges: str = ""
    compared: Compared | None = None
    key: str = ""

    @classmethod
    def given(
        cls,
        study: Study,
        me: str,
        population: str,
        who: str,
        code: str = "",
        *,
        counted: bool,
        accepted: tuple[str, ...] = (),
        compared: Compared | None = None,
    ) -> Self:
        """Return the approval that a person gives now; ``counted``: whether a run opens the number of all records.

        Raises
        ------
        BadInput
            ``who`` is empty or longer than 128 characters.
        """
        if not 0 < len(who) <= 128:  # noqa: PLR2004
            raise BadInput(
                f"the approver's name has {len(who)} characters; 1 to 128 are allowed", "give another with --by"
            )
        return cls(
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

    def differs_in_ranges(self, study: Study) -> bool:
        """Return whether a study differs from the approved one in its public ranges, and nowhere else."""
        ranges, but_ranges = _hashes(study)
        return bool(self.but_ranges) and self.but_ranges == but_ranges and self.ranges != ranges


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


def find_approval(state: StateFolder, study: Study, me: str) -> Approval | None:
    """Return the recorded approval of exactly this study for participant ``me``, or None.

    Raises
    ------
    BadInput
        There is a record, but it cannot be read or says something else than its name.
    """
    path = state.approval(study, me)
    hint = f"remove it, and approve the study again: masquerade approve STUDY --state {state.root}"
    try:
        approval = Approval.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValidationError) as error:
        raise BadInput(f"the approval {path} cannot be read", hint) from error
    if (approval.digest, approval.participant) != (study.digest().hex(), me):
        raise BadInput(f"the approval {path} is not of the study and participant in its name", hint)
    return approval


def need_approval(state: StateFolder, study: Study, me: str) -> Approval:
    """Return the recorded approval of exactly this study.

    Raises
    ------
    RefusedLocally
        It has not been approved, as participant ``me``, in this state folder.
    """
    if (approval := find_approval(state, study, me)) is not None:
        return approval
    raise RefusedLocally(
        f"this study has not been approved for {me}: its fingerprint is {study.fingerprint()}, and {state.root} holds "
        "no approval of it",
        "read it and approve it with 'masquerade approve STUDY'; 'masquerade study diff OLD NEW' says what changed "
        "since an older one",
    )
