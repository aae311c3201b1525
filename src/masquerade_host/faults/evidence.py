"""The frames in which a fault was seen: which of them go to the others, and what is written down."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from masquerade_core.errors import (
    ClaimRefuted,
    DeadlinePassed,
    Grounds,
    MasqueradeError,
    ProtocolViolation,
    Reported,
    StateCopied,
)
from masquerade_core.evidence import Findings, Kept
from masquerade_core.study import CHARLIE, Study
from masquerade_core.wire.aborts import MAX_SHOWN, MAX_SHOWN_BYTES
from masquerade_core.wire.proof import Judge
from masquerade_core.words import listed

__all__ = ["LastFrames", "after_check", "attributed", "evidence_of", "seen_frames", "seen_in", "shown_for"]


@contextmanager
def seen_in(data: bytes | None) -> Iterator[None]:
    """Note the frame in which a violation was seen, unless the error knows it already."""
    try:
        yield
    except ProtocolViolation as error:
        if not error.frames and data is not None:
            error.frames = (data,)
        raise


def attributed(
    error: ProtocolViolation | StateCopied, data: bytes | None, judge: Judge
) -> ProtocolViolation | StateCopied:
    """Return an error with the frame in which it was seen, unless it knows it already.

    Two frames under one number are no accident where one of them is its signer's fault by itself.
    """
    if isinstance(error, StateCopied):
        found = judge.of(error.frames)
        return ProtocolViolation(found.said, peer=found.culprit, frames=error.frames) if found.culprit else error
    if not error.frames and data is not None:
        error.frames = (data,)
    return error


def shown_for(error: MasqueradeError | None, frames: Sequence[bytes], judge: Judge) -> tuple[bytes, ...]:
    """Return those of these frames that prove to everybody whom the error names; none where none do."""
    named: tuple[str, ...] = ()
    copied: tuple[str, ...] = ()
    if isinstance(error, ProtocolViolation):
        named = (error.peer,) if error.peer else error.suspects
    elif isinstance(error, StateCopied):
        copied = error.copied
    if not named and not copied:
        return ()
    for shown in (*((frame,) for frame in frames), tuple(frames)):
        fits = 0 < len(shown) <= MAX_SHOWN and sum(map(len, shown)) <= MAX_SHOWN_BYTES
        found = judge.of(shown) if fits else None
        # What is shown must prove just what is said: a copied state is nobody's fault.
        if found is not None and (named, copied) == (found.named, (found.copied,) if found.copied else ()):
            return shown
    return ()


@dataclass
class LastFrames:
    """The last frame of a role's message by each sender: the one that came, and the one that the role has taken."""

    came: dict[str, bytes] = field(default_factory=dict)
    taken: dict[str, bytes] = field(default_factory=dict)

    def of(self, sender: str) -> tuple[bytes, ...]:
        """Return both, as far as they are there."""
        return tuple(frames[sender] for frames in (self.taken, self.came) if sender in frames)


def seen_frames(error: BaseException | None, last: LastFrames) -> tuple[bytes, ...]:
    """Return the frames in which an error was seen: its own, and the last ones of its ``peer``.

    What a role finds, it finds in the last frame that it has taken. What comes under a number that was used before is
    seen beside the last frame that came.
    """
    frames: tuple[bytes, ...] = getattr(error, "frames", ())
    return tuple(dict.fromkeys((*frames, *last.of(getattr(error, "peer", "")))))


def evidence_of(
    error: BaseException | None,
    last: LastFrames,
    kept: Kept,
    judge: Judge,
    identity: Mapping[str, Any],
    sign: Callable[[bytes], bytes],
) -> dict[str, Any] | None:
    """Return the content of the file of evidence; None where there is nothing to keep.

    It has the frames in which the error was seen, as far as somebody has signed them, and the newest messages of the
    secure sums. These are evidence by themselves where nobody can be named, or Charlie is.

    Parameters
    ----------
    error : BaseException or None
        The end of the run.
    last : LastFrames
    kept : Kept
    judge : Judge
    identity : mapping
        Names the run, and the owner of the frames.
    sign : callable
    """
    if getattr(error, "grounds", None) not in (Grounds.CHECKED, Grounds.SAID, Grounds.UNTOLD):
        return None  # nobody broke the protocol
    shown = [(signer, frame) for frame in seen_frames(error, last) if (signer := judge.signer_of(frame))]
    if not shown and not (kept.frames and getattr(error, "peer", "") in ("", CHARLIE)):
        return None
    nobody = not any(getattr(error, part, ()) for part in ("accused", "suspects", "peer", "copied"))
    nobody &= not isinstance(error, (ClaimRefuted, DeadlinePassed))  # which say nothing of a sum
    said_by = error.said_by if isinstance(error, Reported) else ""
    return kept.to_json(identity, sign, shown, refused_sum=nobody, said_by=said_by)


def after_check(
    error: BaseException,
    evidence: Mapping[str, Any],
    path: Path,
    session: Any,
    check: Callable[[str, Study], Findings] | None,
) -> ProtocolViolation | None:
    """Say in an error's hint where the evidence is and what it proves; return another error if it proves a fault.

    Parameters
    ----------
    error : BaseException
        The end of the run.
    evidence : mapping
        The content of the file.
    path : path
        The file.
    session : Session
        It knows this participant's name and study.
    check : callable, optional
        Says what the file proves.
    """
    if not isinstance(error, MasqueradeError):
        return None
    error.hint += f"; {path} has the signed frames, for 'masquerade blame'"
    if check is None or error.grounds is Grounds.CHECKED:
        return None
    found = check(json.dumps(evidence), session.study)
    said = ". ".join(sentence[0].upper() + sentence[1:] for sentence in found.found)
    if not found.culprit:
        others = [name for name in found.suspects if name != session.me]
        between = f". One of these is at fault: {listed(others)}" if others else ""
        error.hint += f". {said}{between}" if said else ""
        return None
    hint = f"{error.hint}. It ended with: {error.message}"
    proved = ProtocolViolation(f"{found.culprit} is at fault, as signed frames prove. {said}", hint, peer=found.culprit)
    for note in getattr(error, "__notes__", ()):
        proved.add_note(note)
    return proved
