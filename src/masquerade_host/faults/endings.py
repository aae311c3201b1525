"""How a run ends badly: what a participant tells the others, and what it makes of what they tell.

An :class:`~masquerade_core.wire.faults.Abort` names whom its sender blames. It never says more than its sender knows:
one name where it has checked that participant's bytes, two where one of two must be at fault, and none where nobody can
be told. Where the frames prove the fault to everybody, they go along.

A recipient believes no more than it checks itself. There are three ends for an accusation:

* The frames prove it, by :mod:`masquerade_core.wire.faults`: the accused broke the protocol, checked here.
* There are no frames: it is the accuser's word, and accuses nobody here.
* There are frames that do not prove it. No program of this version sends that, so the accuser broke the protocol: its
  own signed accusation is the evidence.

Which frames go to the others, and what is written down, is decided here as well.
"""

import json
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from masquerade_core.errors import (
    COPIES,
    ClaimRefuted,
    Damaged,
    DeadlinePassed,
    Grounds,
    MasqueradeError,
    OlderCopy,
    ProgramChanged,
    ProtocolViolation,
    Reported,
    RunFailed,
    StateCopied,
    SumRefused,
)
from masquerade_core.study import CHARLIE, Study
from masquerade_core.wire.faults import (
    MAX_SHOWN,
    MAX_SHOWN_BYTES,
    Abort,
    Finding,
    Findings,
    Judge,
    Kept,
    Reason,
    may_be_copied,
)
from masquerade_core.wire.frames import Frame
from masquerade_core.words import listed

__all__ = [
    "LONG",
    "Known",
    "LastFrames",
    "abort_of",
    "after_check",
    "attributed",
    "check_abort",
    "evidence_of",
    "heard",
    "refuted",
    "seen_frames",
    "shown_for",
    "unanswered",
    "violation_in",
]


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


# --- Endings ------------------------------------------------------------------------


LONG = 0.75
"""Of the time that a study allows: who says that it is over is believed only if so much has passed by the clock here.

Nobody says so sooner on the same clock. The rest is for beats that come late and clocks that do not run alike.
"""


class Known(NamedTuple):
    """A participant's own knowledge when it hears that somebody did not answer in time.

    Attributes
    ----------
    seconds : float
        Nobody can have waited for longer than this, by the clock here; infinite where it is not known.
    cleared : tuple of str
        Those who owe nothing, as far as is known here.
    """

    seconds: float = math.inf
    cleared: tuple[str, ...] = ()


_LEFT = {
    "left": "{} left the run before its end",
    "damaged": "{0} left the run before its end: its stored record of the run is damaged, which is nobody's fault",
    "changed": "{0} left the run before its end: the program of {0} has changed since the run began",
}


def violation_in(frame: Frame, me: str, what: str) -> ProtocolViolation:
    """Return the error for a role's frame; it accuses only those whose fault the frame proves to ``me``."""
    match frame.suspects:
        case (peer,):
            return ProtocolViolation(f"{peer} sent {what}", peer=peer, frames=(frame.data,))
        case suspects:
            who = listed(suspects, "or")
            said = f"{who} sent {what}; {me} cannot tell which of them"
            return ProtocolViolation(said, suspects=suspects, frames=(frame.data,))


def abort_of(error: MasqueradeError | None, me: str, names: Collection[str], shown: tuple[bytes, ...] = ()) -> Abort:
    """Return what participant ``me`` tells the others when its run ends with ``error``.

    Parameters
    ----------
    error : MasqueradeError or None
        ``None`` stands for a bug here, or for a user who stops this participant.
    me : str
    names : collection of str
        The parties of the study.
    shown : tuple of bytes
        The frames that prove the fault of the error's ``peer``.
    """
    if isinstance(error, ProtocolViolation):
        blamed = (error.peer,) if error.peer else error.suspects
        known = set(blamed) <= {*names, CHARLIE}
        return Abort(reason="violation", blamed=blamed if known else (), by=me, frames=shown if known else ())
    if isinstance(error, DeadlinePassed):
        return Abort(reason="deadline", blamed=error.waited_for, by=me)
    if isinstance(error, StateCopied):
        return Abort(reason="copied", blamed=error.copied, by=me, frames=shown)
    if isinstance(error, SumRefused):
        return Abort(reason="violation", blamed=(), by=me)  # somebody's, and nobody can tell whose
    reason: Reason = "left"
    if isinstance(error, (Damaged, OlderCopy)):
        reason = "damaged"
    elif isinstance(error, ProgramChanged):
        reason = "changed"
    return Abort(reason=reason, blamed=(me,), by=me)


def unanswered(late: tuple[str, ...]) -> str:
    """Return in words who did not answer in time; nobody is named where nobody can be told."""
    if late:
        return f"{listed(late)} did not answer in time"
    return "a frame that several participants pass on did not arrive in time, and nobody can tell who held it up"


def check_abort(abort: Abort, name: str) -> None:
    """Refuse an Abort of party ``name`` that leaves and does not name itself alone, or is in another name.

    Raises
    ------
    ProtocolViolation
        The fault of ``name``.
    """
    if not abort.blamed and abort.reason == "left":
        raise ProtocolViolation(
            f"{name} ended the run and blamed nobody; it must name participants of the study",
            peer=name,
        )
    if abort.leaves and abort.blamed != (name,):
        raise ProtocolViolation(
            f"{name} says that {listed(abort.blamed)} left; it may say that only of itself", peer=name
        )
    if abort.reason == "copied" and not may_be_copied(abort, name):
        raise ProtocolViolation(
            f"{name} says that the state of {listed(abort.blamed, 'or')} was copied; it may say that only of itself "
            f"or of {CHARLIE}",
            peer=name,
        )
    if abort.by != name:
        raise ProtocolViolation(
            f"{name} ended the run in the name of {abort.by}; it may use only its own name", peer=name
        )


def heard(abort: Abort, data: bytes, sender: str, judge: Judge, me: str, known: Known | None = None) -> MasqueradeError:
    """Return the error with which the run of ``me`` ends when it hears an Abort: no more than it can check.

    Parameters
    ----------
    abort : Abort
    data : bytes
        The frame that brought it.
    sender : str
        Who signed that frame.
    judge : Judge
    me : str
    known : Known, optional
        What ``me`` knows of who was late; by default nothing.
    """
    if abort.reason == "left" and not abort.blamed:
        return ProtocolViolation(
            f"{sender} ended the run and named no participant as the reason; it must name one",
            peer=sender,
            frames=(data,),
        )
    if abort.by != sender:
        word = judge.word(abort)
        if word is None:
            return ProtocolViolation(
                f"{sender} ended the run in the name of {abort.by}, but does not show that {abort.by} signed that",
                peer=sender,
                frames=(data,),
            )
        abort, data = word
    match abort.reason:
        case "violation":
            return _accused(abort, data, judge, me)
        case "deadline":
            return _out_of_time(abort, data, judge, known or Known())
        case "copied":
            return _copied(abort, data, judge)
        case "left" | "damaged" | "changed" as reason:
            why = _LEFT[reason].format(listed(abort.blamed))
            return RunFailed(why, "start the run again, with everybody")


def _copied(abort: Abort, data: bytes, judge: Judge) -> MasqueradeError:
    by, finding = abort.by, judge.of(abort.frames)
    if not abort.frames or finding.open:
        return StateCopied(
            f"{by} says that the state of {listed(abort.blamed, 'or')} is an old copy, or that two processes use "
            "copies of it; nobody here has checked it",
            COPIES,
            copied=abort.blamed,
            said_by=by,
            frames=(data,),
        )
    if not finding.fits(abort):
        return _unproved(abort, data, finding)
    return StateCopied(
        f"{finding.said}. {by} ended the run because of it, and it was checked here",
        COPIES,
        copied=abort.blamed,
        frames=abort.frames,
    )


def _unproved(abort: Abort, data: bytes, finding: Finding) -> ProtocolViolation:
    """Return the error for an abort with frames that do not prove what it says: its signer is at fault."""
    by, whom = abort.by, listed(abort.blamed, "or") if abort.blamed else "nobody"
    return ProtocolViolation(
        f"{by} accused {whom} with frames that do not prove it: {finding.said}",
        f"no program of this version does that: ask {by} which one it runs",
        peer=by,
        frames=(data,),
    )


def _out_of_time(abort: Abort, data: bytes, judge: Judge, known: Known) -> MasqueradeError:
    """Return the error of a participant that hears of a late one: an innocent participant is not named."""
    study = judge.study
    allowed = study.study.deadline_seconds
    if study.dropouts is not None:
        allowed = min(allowed, study.dropouts.patience_seconds)
    late = tuple(name for name in abort.blamed if name not in known.cleared)
    if known.seconds < LONG * allowed:
        why = f"the run began only {known.seconds:.1f} seconds ago, and everybody has {allowed:g} seconds"
        return refuted(abort.by, why, data)
    if abort.blamed and not late:
        return refuted(
            abort.by, "this participant has sent everything that was due, and its arrival was acknowledged", data
        )
    return DeadlinePassed(
        f"{abort.by} ended the run, and says: {unanswered(late)}",
        "see whether they still run, and start the run again",
        waited_for=late,
        said_by=abort.by,
    )


def refuted(by: str, why: str, data: bytes) -> ClaimRefuted:
    """Return the error for a claim about time that what is known here contradicts: it names its author alone."""
    return ClaimRefuted(
        f"{by} ended the run, and says that somebody did not answer in time. What this participant knows contradicts "
        f"that: {why}",
        f"ask {by} to check its clock, and which program it runs; then start the run again",
        said_by=by,
        frames=(data,),
    )


def _accused(abort: Abort, data: bytes, judge: Judge, me: str) -> MasqueradeError:
    by, finding = abort.by, judge.of(abort.frames)
    if not abort.frames or finding.open:
        return _word_of(abort, data, me)
    if not finding.fits(abort):
        return _unproved(abort, data, finding)
    if not finding.culprit:
        return ProtocolViolation(
            f"{finding.said}; nobody can tell which of them it was. {by} ended the run because of it, and it was "
            "checked here",
            f"ask {listed(finding.suspects)} who else has their keys",
            suspects=finding.suspects,
            frames=abort.frames,
        )
    if finding.culprit == me:
        return ProtocolViolation(
            f"{by} shows that this participant, {me}, sent what the protocol does not allow: {finding.said}",
            "this program has a bug or was changed, or somebody else uses this participant's key",
            peer=me,
            frames=abort.frames,
        )
    return ProtocolViolation(
        f"{finding.said}; {by} ended the run because of it, and this participant has checked it",
        f"ask {finding.culprit} which program it runs, and who else has its key",
        peer=finding.culprit,
        frames=abort.frames,
    )


def _word_of(abort: Abort, data: bytes, me: str) -> Reported:
    by = abort.by
    match abort.blamed:
        case ():
            said = f"{by} says that somebody sent what the protocol does not allow, and that nobody can tell who"
        case (accused,) if accused == me:
            said = f"{by} accuses this participant, {me}, of having sent what the protocol does not allow"
        case (accused,):
            said = f"{by} says that {accused} sent what the protocol does not allow"
        case suspects:
            who = listed(suspects, "or")
            said = f"{by} says that {who} sent what the protocol does not allow, and that it cannot tell which of them"
    return Reported(
        f"{said}; nobody here has checked it",
        f"the error at {by} says what it was; only that participant says so",
        said_by=by,
        accused=abort.blamed,
        frames=(data,),
    )
