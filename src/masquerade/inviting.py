"""How a coordinator invites: the lines for the sites, the file in which they stand, and the complete study.

With this file the coordinator can stop and start again without new lines. It holds the tokens, so only its owner can
read it.
"""

import secrets
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from masquerade.draft import PLACEHOLDER, throwaway_key
from masquerade.lobby.host import Lobby
from masquerade.lobby.invitation import ID_BYTES, TOKEN_BYTES, Invitation
from masquerade_core.errors import BadInput, RunFailed
from masquerade_core.identity import PublicKeys
from masquerade_core.study import CHARLIE, Study
from masquerade_core.study_files import read_study_text
from masquerade_core.words import listed
from masquerade_host.store.keyfiles import Keys
from masquerade_host.store.state import write_private
from masquerade_protocols import protocol_of

__all__ = ["Inviting", "completed"]

_DAY = 24 * 3600
_WORDS = {
    "came": "{} is in the lobby",
    "used": "WARNING: somebody with other keys tried the line of {0}, which was used before. Ask {0} by telephone",
    "anew": "{} came with a new number, so the lobby begins anew: all sites start 'masquerade join' again",
    "heard": "{} has compared the code",
    "ready": "{} has said yes",
}


def completed(text: str, source: str, keys: Mapping[str, PublicKeys]) -> str:
    """Return a plan with these keys in the places that it leaves open, comments and all.

    Parameters
    ----------
    text, source : str
        The plan, and its name in errors.
    keys : mapping of str to PublicKeys
        By the names of the parties; Charlie's under ``CHARLIE``.

    Raises
    ------
    BadInput
        The plan is no draft of a study.
    """
    study, marks = _marked(text, source)
    return _filled(text, [keys[study.name_of(mark)] for mark in marks])


def _marked(text: str, source: str) -> tuple[Study, list[PublicKeys]]:
    """Return a plan's study with a key of nobody in each open place, and these keys in their order."""
    marks = [throwaway_key() for _ in range(text.count(PLACEHOLDER))]
    return Study.parse(_filled(text, marks), source), marks


def _filled(text: str, keys: list[PublicKeys]) -> str:
    first, *rest = text.split(PLACEHOLDER)
    return first + "".join(f"{key}{piece}" for key, piece in zip(keys, rest, strict=True))


class Inviting:
    """The coordinator's lobby, with its files.

    Parameters
    ----------
    plan : Path
    text : str
        The plan's.
    keys : Keys
        Charlie's.
    path : Path
        Where the complete study is written.
    kept : _Kept
        What stands in the file beside the plan.
    say : callable
        Shows a line to the coordinator.
    """

    def __init__(
        self, plan: Path, text: str, keys: Keys, path: Path, kept: "_Kept", say: Callable[[str], object]
    ) -> None:
        self._plan, self._text, self._keys, self._say = plan, text, keys, say
        self.path = path
        self.invitations = {name: Invitation.parse(line) for name, line in kept.lines.items()}
        self.address = next(iter(self.invitations.values())).address
        self.lobby = Lobby(self.invitations, self._complete, self._told, kept.taken)
        self._written = ""
        self._taken = dict(kept.taken)

    @classmethod
    def of(cls, plan: Path, keys: Keys, path: Path | None, days: int, say: Callable[[str], object]) -> Self:
        """Read a plan, and the lines beside it where it was invited to before.

        Raises
        ------
        BadInput
            It is no draft without keys, or has another Charlie; or the file beside it cannot be used.
        """
        text = read_study_text(plan)
        study, marks = _marked(text, str(plan))
        protocol_of(study)
        if study.curator.key not in {keys.public, *marks}:
            raise BadInput(f"{plan} names another Charlie than the key file has", "give the plan without Charlie's key")
        if given := [party.name for party in study.parties if party.key not in marks]:
            raise BadInput(
                f"{plan} has keys of {listed(given)} already, and a lobby is for sites whose keys are not known",
                "write the plan with 'masquerade study new --party NAME', without keys",
            )
        path = path or plan.with_name(f"{study.study.name}.toml")
        if path.absolute() == plan.absolute():
            raise BadInput(f"{plan} would be overwritten by the complete study", "choose another file with --study")
        kept = _kept(plan) or _drawn(study, keys, days)
        inviting = cls(plan, text, keys, path, kept, say)
        if tuple(inviting.invitations) != study.names or any(
            (each.charlie, each.address) != (keys.public, study.address) for each in inviting.invitations.values()
        ):
            raise BadInput(
                f"{_file(plan)} has invitations to another study than {plan} is now: sites, address or keys changed",
                "remove that file, and send everybody the new lines",
            )
        inviting._keep()
        return inviting

    def _complete(self, keys: Mapping[str, PublicKeys]) -> str:
        return completed(self._text, str(self._plan), {**keys, CHARLIE: self._keys.public})

    def _told(self, event: str, name: str) -> None:
        self._say(_WORDS[event].format(name))

    def over(self) -> bool:
        """Write down what is new; say whether all have said yes."""
        if self.lobby.taken != self._taken:
            self._taken = self.lobby.taken
            self._keep()
        if self.lobby.study and self.lobby.study != self._written:
            self._written = self.lobby.study
            _write_study(self.path, self._written)
            self._say(f"all are there; the complete study is {self.path}. Now they compare the code by telephone")
        return self.lobby.over

    def _keep(self) -> None:
        lines = {name: str(each) for name, each in self.invitations.items()}
        try:
            write_private(_file(self._plan), _Kept(lines=lines, taken=self._taken).model_dump_json(indent=1) + "\n")
        except OSError as error:
            raise RunFailed(
                f"{_file(self._plan)} cannot be written: {error.strerror}", "see whether the disk is full, or read-only"
            ) from error


class _Kept(BaseModel):
    """The file beside the plan: the lines, and the public keys with which seats are taken."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", hide_input_in_errors=True)

    lines: Annotated[dict[str, str], Field(min_length=1)]
    taken: dict[str, str] = {}


def _file(plan: Path) -> Path:
    return plan.with_name(f"{plan.name}.lobby")


def _kept(plan: Path) -> "_Kept | None":
    """Return what stands in the file beside the plan; None where there is none."""
    path = _file(plan)
    try:
        kept = _Kept.model_validate_json(path.read_bytes())
        for line in kept.lines.values():
            Invitation.parse(line)
    except FileNotFoundError:
        return None
    except (OSError, ValidationError, BadInput) as error:
        raise BadInput(
            f"{path} cannot be read, in which the invitations stand", "remove it, and send everybody new lines"
        ) from error
    return kept


def _drawn(study: Study, keys: Keys, days: int) -> _Kept:
    lobby, ends = secrets.token_bytes(ID_BYTES), int(time.time()) + days * _DAY
    lines = {
        name: str(Invitation(name, study.address, keys.public, lobby, secrets.token_bytes(TOKEN_BYTES), ends))
        for name in study.names
    }
    return _Kept(lines=lines)


def _write_study(path: Path, text: str) -> None:
    part = path.with_name(f".{path.name}.part")
    try:
        part.write_text(text, encoding="utf-8")
        part.replace(path)
    except OSError as error:
        raise BadInput(f"{path} cannot be written: {error.strerror}", "choose another file with --study") from error
