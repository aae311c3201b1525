"""How a run ends badly: what a participant tells the others, and what it makes of what they tell.

An :class:`~masquerade_host.named_messages.Abort` names whom its sender blames. It never says more than its sender
knows: one name where that participant's own bytes prove its fault, two where one of two must be at fault, and none
where nobody can be told.
"""

from collections.abc import Collection, Mapping

from masquerade_core.errors import DeadlinePassed, MasqueradeError, ProtocolViolation, RunFailed, SumRefused
from masquerade_core.study import CHARLIE
from masquerade_core.words import listed
from masquerade_host.named_messages import Abort

__all__ = ["abort_of", "check_abort", "error_of", "suspects_of", "whom_all_wait_for"]


def suspects_of(source: str, kind: str) -> tuple[str, ...]:
    """Return who may be at fault for a role's frame, as far as its recipient can tell.

    A message bears its source's signature. A sealed message that reaches a party bears Charlie's signature alone.
    Either its source sent it so, or Charlie changed it.
    """
    return (source, CHARLIE) if kind == "sealed" else (source,)


def abort_of(error: MasqueradeError | None, me: str, names: Collection[str]) -> Abort:
    """Return what participant ``me`` tells the others when its run ends with ``error``.

    Parameters
    ----------
    error : MasqueradeError or None
        ``None`` stands for a bug here, or for a user who stops this participant.
    me : str
    names : collection of str
        The parties of the study.
    """
    if isinstance(error, ProtocolViolation):
        blamed = (error.peer,) if error.peer else error.suspects
        known = set(blamed) <= {*names, CHARLIE}
        return Abort(reason="violation", blamed=blamed if known else (), by=me)
    if isinstance(error, DeadlinePassed):
        return Abort(reason="deadline", blamed=error.waited_for, by=me)
    if isinstance(error, SumRefused):
        return Abort(reason="violation", blamed=(), by=me)  # somebody's, and nobody can tell whose
    return Abort(reason="left", blamed=(me,), by=me)


def check_abort(abort: Abort, name: str) -> None:
    """Refuse an Abort of party ``name`` that names nobody, where its reason speaks of somebody.

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


def error_of(abort: Abort) -> MasqueradeError:
    """Return the error that an Abort stands for: the same class, with the same blame, at every participant."""
    match abort.reason:
        case "violation":
            return _violation_of(abort)
        case "deadline":
            return DeadlinePassed(
                f"{abort.by} ended the run: it waited for {listed(abort.blamed)} and heard nothing",
                "see whether they still run, and start the run again",
                waited_for=abort.blamed,
            )
        case "left":
            return RunFailed(
                f"{listed(abort.blamed)} left the run before its end", "start the run again, with everybody"
            )


def _violation_of(abort: Abort) -> ProtocolViolation:
    hint = f"the error at {abort.by} says what it was"
    match abort.blamed:
        case ():
            return ProtocolViolation(
                f"{abort.by} ended the run: somebody sent what the protocol does not allow, and nobody can tell who",
                hint,
                said_by=abort.by,
            )
        case (peer,):
            return ProtocolViolation(
                f"{abort.by} ended the run: {peer} sent what the protocol does not allow",
                hint,
                peer=peer,
                said_by=abort.by,
            )
        case suspects:
            return ProtocolViolation(
                f"{abort.by} ended the run: {listed(suspects, 'or')} sent what the protocol does not allow; "
                f"{abort.by} cannot tell which of them",
                hint,
                suspects=suspects,
                said_by=abort.by,
            )


def whom_all_wait_for(missing: Collection[str], waits: Mapping[str, Collection[str]]) -> frozenset[str]:
    """Follow who waits for whom to those who wait for nobody.

    Parameters
    ----------
    missing : collection of str
        Whom the question begins with.
    waits : mapping of str to collection of str
        Whom each participant waits for, by its own word.

    Returns
    -------
    frozenset of str
        All of ``missing``, if they and those they wait for wait for each other in a circle.
    """
    seen: set[str] = set()
    frontier, last = list(missing), set[str]()
    while frontier:
        name = frontier.pop()
        if name in seen:
            continue
        seen.add(name)
        frontier.extend(waits[name])
        if not waits[name]:
            last.add(name)
    return frozenset(last or missing)
