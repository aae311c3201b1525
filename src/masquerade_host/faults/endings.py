"""How a run ends badly: what a participant tells the others, and what it makes of what they tell.

An :class:`~masquerade_core.wire.aborts.Abort` names whom its sender blames. It never says more than its sender knows:
one name where it has checked that participant's bytes, two where one of two must be at fault, and none where nobody can
be told. Where the frames prove the fault to everybody, they go along.

A recipient believes no more than it checks itself. There are three ends for an accusation:

* The frames prove it, by :mod:`masquerade_core.wire.proof`: the accused broke the protocol, checked here.
* There are no frames: it is the accuser's word, and accuses nobody here.
* There are frames that do not prove it. No program of this version sends that, so the accuser broke the protocol: its
  own signed accusation is the evidence.
"""

import math
from collections.abc import Collection
from typing import NamedTuple

from masquerade_core.errors import (
    COPIES,
    ClaimRefuted,
    Damaged,
    DeadlinePassed,
    MasqueradeError,
    OlderCopy,
    ProgramChanged,
    ProtocolViolation,
    Reported,
    RunFailed,
    StateCopied,
    SumRefused,
)
from masquerade_core.study import CHARLIE
from masquerade_core.wire.aborts import Abort, Reason, may_be_copied
from masquerade_core.wire.frames import Frame
from masquerade_core.wire.proof import Finding, Judge
from masquerade_core.words import listed

__all__ = [
    "LONG",
    "Known",
    "abort_of",
    "check_abort",
    "heard",
    "refuted",
    "unanswered",
    "violation_in",
]

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
