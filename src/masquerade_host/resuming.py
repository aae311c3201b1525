"""Resuming: after a restart, the same role and session are fed the journal's rows until they stand where they stood.

A *role* is one participant's part of a protocol. It depends on nothing but its inputs, so the same inputs lead it to
the same place. Rows that came from outside are handed to the session: frames, and decisions of a clock. For all other
rows the role is stepped until it, or the session, does what the row says. Nothing is drawn, no clock is asked and
nothing leaves meanwhile. When the rows end, the journal is compared with the ledger of the budget, and the role and the
session go on with the world.
"""

from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any

from masquerade_core.seat import Effect, Once
from masquerade_core.wire.codec import unpack_plain
from masquerade_host.run_files import hash_of_release
from masquerade_host.session import Session

__all__ = ["Stand", "resume", "returned"]

Role = Coroutine[Effect, Any, Any]

_FROM_OUTSIDE = ("hello", "received", "acked", "lost")


@dataclass
class Stand:
    """Where a role stands.

    Attributes
    ----------
    effect : Effect or None
        What it has asked for last; None before it was started.
    begun : bool
        The session has that effect already, and will answer it.
    returned : bool
        The role has returned ``result``, and the session knows it.
    """

    effect: Effect | None = None
    begun: bool = False
    returned: bool = False
    result: Any = None


def resume(role: Role, session: Session) -> Stand:
    """Bring a role and its session to where the journal of ``session.steps`` ends.

    Raises
    ------
    LocalProtocolError
        They do not do what the journal says that they did.
    RunFailed
        The ledger of the budget knows of a release that the journal does not: the journal is an older copy.
    """
    stand = Stand()
    steps = session.steps
    while (due := steps.due) is not None:
        passed = steps.passed
        if due.kind in _FROM_OUTSIDE and not due.label:
            session.again(due)
        elif (due.kind == "sent" and session.let_go()) or _step(role, session, stand):
            continue
        if steps.passed == passed:
            raise steps.changed("that nothing happens")
    if steps.passed:
        session.check_ledger()
    return stand


def _step(role: Role, session: Session, stand: Stand) -> bool:
    """Carry out what the role asks for, and let it ask for the next; return whether anything happened."""
    if stand.returned:
        return False
    passed, answer = session.steps.passed, None
    if isinstance(stand.effect, Once):
        answer = unpack_plain(session.steps.drawn(stand.effect.label) or b"")
    elif stand.effect is not None:
        first, stand.begun = not stand.begun, True
        if first:
            session.begin(stand.effect)
        else:
            session.look_again()
        answers = session.answers()
        if not answers:
            return first or session.steps.passed > passed
        (answer,) = answers
    try:
        stand.effect, stand.begun = role.send(answer), False
    except StopIteration as stop:
        stand.effect, stand.returned, stand.result = None, True, stop.value
        returned(session, stop.value)
    return True


def returned(session: Session, result: Any) -> None:
    """Tell a session that its role has returned, and what."""
    session.release = hash_of_release(result, session.study, session.run)
    session.finish()
