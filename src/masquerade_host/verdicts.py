"""How a run ends badly: what a participant tells the others, and what it makes of what they tell.

An :class:`~masquerade_core.wire.aborts.Abort` names whom its sender blames. It never says more than its sender knows:
one name where it has checked that participant's bytes, two where one of two must be at fault, and none where nobody can
be told. Where the frames prove the fault to everybody, they go along.

Whoever hears it believes no more than it checks itself. There are three ends for an accusation:

* The frames prove it, by :mod:`masquerade_core.wire.proof`: the accused broke the protocol, checked here.
* There are no frames: it is the accuser's word, and accuses nobody here.
* There are frames that do not prove it. No program of this version sends that, so the accuser broke the protocol: its
  own signed accusation is the evidence.
"""

from collections.abc import Collection, Mapping

from masquerade_core.errors import DeadlinePassed, MasqueradeError, ProtocolViolation, Reported, RunFailed, SumRefused
from masquerade_core.study import CHARLIE
from masquerade_core.wire.aborts import Abort
from masquerade_core.wire.frames import Frame
from masquerade_core.wire.proof import Judge
from masquerade_core.words import listed

__all__ = ["abort_of", "check_abort", "heard", "suspects_of", "violation_in", "whom_all_wait_for"]


def suspects_of(source: str, kind: str) -> tuple[str, ...]:
    """Return who may be at fault for a role's frame, as far as its recipient can tell.

    A message bears its source's signature. A sealed message that reaches a party bears Charlie's signature alone.
    Either its source sent it so, or Charlie changed it.
    """
    return (source, CHARLIE) if kind == "sealed" else (source,)


def violation_in(frame: Frame, me: str, what: str) -> ProtocolViolation:
    """Return the error for a role's frame; it accuses only those whose fault the frame proves to ``me``."""
    match suspects_of(frame.source, frame.kind):
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
    if isinstance(error, SumRefused):
        return Abort(reason="violation", blamed=(), by=me)  # somebody's, and nobody can tell whose
    return Abort(reason="left", blamed=(me,), by=me)


def check_abort(abort: Abort, name: str) -> None:
    """Refuse an Abort of party ``name`` that names nobody, where its reason speaks of somebody, or is in another name.

    Raises
    ------
    ProtocolViolation
        The fault of ``name``.
    """
    if not abort.blamed and abort.reason != "violation":
        raise ProtocolViolation(
            f"{name} ended the run and blamed nobody; allowed are participants of the study",
            peer=name,
        )
    if abort.reason == "left" and abort.blamed != (name,):
        raise ProtocolViolation(
            f"{name} says that {listed(abort.blamed)} left; allowed is that it leaves itself", peer=name
        )
    if abort.by != name:
        raise ProtocolViolation(f"{name} ended the run in the name of {abort.by}; allowed is its own", peer=name)


def heard(abort: Abort, data: bytes, sender: str, judge: Judge, me: str) -> MasqueradeError:
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
    """
    if abort.reason != "violation" and not abort.blamed:
        return ProtocolViolation(
            f"{sender} ended the run and named no participant as the reason; allowed is an end that names one",
            peer=sender,
            frames=(data,),
        )
    if abort.by != sender:
        word = judge.word(abort)
        if word is None:
            return ProtocolViolation(
                f"{sender} ended the run in the name of {abort.by}, and does not show that {abort.by} signed that",
                peer=sender,
                frames=(data,),
            )
        abort, data = word
    match abort.reason:
        case "violation":
            return _accused(abort, data, judge, me)
        case "deadline":
            return DeadlinePassed(
                f"{abort.by} ended the run: {listed(abort.blamed)} did not answer in time",
                "see whether they still run, and start the run again",
                waited_for=abort.blamed,
                said_by=abort.by,
            )
        case "left":
            return RunFailed(
                f"{listed(abort.blamed)} left the run before its end", "start the run again, with everybody"
            )


def _accused(abort: Abort, data: bytes, judge: Judge, me: str) -> MasqueradeError:
    by, finding = abort.by, judge.of(abort.frames)
    if not abort.frames or finding.open:
        return _word_of(abort, data, me)
    if abort.blamed != (finding.culprit,):
        whom = listed(abort.blamed, "or") if abort.blamed else "nobody"
        return ProtocolViolation(
            f"{by} accused {whom} with frames that do not prove it: {finding.said}",
            f"no program of this version does that: ask {by} which one it runs",
            peer=by,
            frames=(data,),
        )
    if finding.culprit == me:
        return ProtocolViolation(
            f"{by} shows that this participant, {me}, sent what the protocol does not allow: {finding.said}",
            "this program has a bug or was changed, or somebody else uses this participant's key",
            peer=me,
            frames=abort.frames,
        )
    return ProtocolViolation(
        f"{finding.said}; {by} ended the run for it, and this participant has checked it",
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
        f"the error at {by} says what it was; it is that participant's word alone",
        said_by=by,
        accused=abort.blamed,
        frames=(data,),
    )


def whom_all_wait_for(missing: Collection[str], waits: Mapping[str, Collection[str]]) -> frozenset[str]:
    """Follow who waits for whom to those at the end: who waits for nobody, and circles that wait for each other.

    Parameters
    ----------
    missing : collection of str
        Whom the question begins with.
    waits : mapping of str to collection of str
        Whom each participant waits for, by its own word.

    Returns
    -------
    frozenset of str
        Everybody at an end that can be reached from ``missing``. All members of a circle are at an end if nobody in it
        waits for anybody outside.
    """
    reached = {name: _reached(name, waits) for name in _reached_from(missing, waits)}
    return frozenset(name for name, others in reached.items() if all(name in reached[other] for other in others))


def _reached(name: str, waits: Mapping[str, Collection[str]]) -> frozenset[str]:
    return _reached_from(waits.get(name, ()), waits)


def _reached_from(names: Collection[str], waits: Mapping[str, Collection[str]]) -> frozenset[str]:
    """Return these, all whom they wait for, all whom those wait for, and so on."""
    seen, frontier = set[str](), list(names)
    while frontier:
        if (name := frontier.pop()) not in seen:
            seen.add(name)
            frontier.extend(waits.get(name, ()))
    return frozenset(seen)
