"""The driver of one role of one run: the role runs in a thread of its own, the sockets in the calling one.

A *role* is one participant's part of a protocol. Long arithmetic in its thread never keeps the sockets waiting. The two
threads meet only where the role hands over an effect and where it gets the answer, so their state needs no locks.

*The journal.* The result of a ``once`` is packed, and goes to the session's journal, before the role can use it in
anything that is sent. The role gets it unpacked again. So it sees the same types here as in a replay from recorded
answers (:mod:`masquerade_core.table`).

*After a restart*, the same role and session are fed the journal's rows until they are where they were. A role depends
on nothing but its inputs, so the same inputs lead it to the same place. Frames, and decisions of a clock, came from
outside: the driver hands these rows to the session. For all other rows it steps the role until the role, or the
session, does what the row says. Meanwhile nothing is drawn, no clock decides anything and nothing leaves. When the rows
end, the driver compares the journal with the ledger of the budget. Then the party connects, and the role and the
session continue with real frames.
"""

import contextlib
import math
import queue
import signal
import socket
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from types import FrameType
from typing import Any

from masquerade_core.errors import Damaged, DeadlinePassed, MasqueradeError, OlderCopy, RefusedLocally, RunFailed
from masquerade_core.rng import Rng, SystemRng
from masquerade_core.seat import Effect, Once, Progress, Release, Stage
from masquerade_core.study import CHARLIE
from masquerade_core.wire.codec import pack_plain, unpack_plain
from masquerade_core.wire.frames import NONCE_BYTES
from masquerade_host.process.process import handled
from masquerade_host.session.session import Session
from masquerade_host.store.journal import Journal, ReplayLog
from masquerade_host.store.results import hash_of_release
from masquerade_host.transport.interface import wait

__all__ = ["Stand", "resume", "returned", "run_role", "telling_of_damage"]


# --- Resuming --------------------------------------------------------------------

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


# --- Driver ----------------------------------------------------------------------

_TICK = 100  # milliseconds between two checks of the clocks
_LARGE = 1 << 22  # bytes of a draw that do not wait for others: a role may make many such
_GATHER = 0.01  # seconds for the frames of others to come, where a session waits for many: waking up costs more
_RETRY = 10  # the same, while frames wait that the network does not take yet
_LAST_WORDS = 0.08  # of the deadline, at most 1 s: time for an abort to leave, or for Charlie's verdict to arrive
_PARTING = 10.0  # seconds for the connections that a process needs to say that it cannot go on
_LINGER = 0.08  # of the deadline, at most 2 s: time for ZeroMQ to hand its last frames to the operating system


@dataclass(frozen=True)
class _Drawn:
    label: str
    packed: bytes


@dataclass(frozen=True)
class _Returned:
    result: Any


@dataclass(frozen=True)
class _Raised:
    error: BaseException


_NOTES = (Stage, Release, Progress)
"""Effects that are answered by nothing: the role goes on at once, and the session takes them in their order.

They wake nobody: the session takes them with the next effect that is answered, or when it next checks its clocks.
After a send the role waits: else arithmetic that follows could keep the thread that sends from running.
"""


class _AbandonedError(Exception):
    """The run has ended, and nobody waits for this role any more."""


class _RoleThread(threading.Thread):
    """Steps a role. It is a daemon thread: arithmetic under way must not keep the process alive after the run."""

    def __init__(self, role: Role, rng: Rng, bell: socket.socket) -> None:
        super().__init__(name="role", daemon=True)
        self.stand = Stand()
        self._role = role
        self._rng = rng
        self._bell = bell
        self.asked: queue.SimpleQueue[Effect | _Drawn | _Returned | _Raised] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._abandoned = False

    def run(self) -> None:
        """Step the role until it returns or raises."""
        effect = self.stand.effect
        try:
            answer = self._wait() if self.stand.begun else None if effect is None else self._carry_out(effect)
            while True:
                answer = self._carry_out(self._role.send(answer))
        except StopIteration as stop:
            self._tell(_Returned(stop.value))
        except _AbandonedError:
            pass
        except BaseException as error:  # noqa: BLE001 - raised again in the thread that waits for this one
            self._tell(_Raised(error))
        finally:
            self._role.close()

    def _tell(self, what: Effect | _Returned | _Raised) -> None:
        self.asked.put(what)
        with contextlib.suppress(OSError):  # the run may have ended meanwhile
            self._bell.send(b"\0")

    def _carry_out(self, effect: Effect) -> Any:
        if isinstance(effect, Once):
            packed = pack_plain(effect.compute(self._rng))
            # The I/O thread takes what it is told in order: this is in the journal before any effect that follows.
            self.asked.put(_Drawn(effect.label, packed))
            return unpack_plain(packed)
        if isinstance(effect, _NOTES):
            self.asked.put(effect)
            return None
        self._tell(effect)
        return self._wait()

    def _wait(self) -> Any:
        answer = self._answers.get()
        if self._abandoned:
            raise _AbandonedError
        return answer

    def answer(self, value: Any) -> None:
        """Give the role its answer."""
        self._answers.put(value)

    def abandon(self) -> None:
        """Make the role end at its next await, or before its first."""
        self._abandoned = True
        self._answers.put(None)
        if self.ident is None:
            self._role.close()


def run_role(role: Role, session: Session, rng: Rng, *, journal: Journal | None = None, begun: bytes = b"") -> Any:
    """Run a role in a session until every participant is done, and return what the role returned.

    In the main thread of a process, SIGTERM and SIGINT end the run in order. Where the journal has rows, the run goes
    on where an earlier process died.

    Parameters
    ----------
    role : coroutine
        A role of ``masquerade_protocols``. Its seat has the name and run id of the session.
    session : Session
    rng : SystemRng
        No other source of randomness is allowed between processes.
    journal : Journal, optional
        What this participant needs to go on after its process died; by default nothing is kept. A run that fails ends
        it. After a run that succeeds the caller ends it, as soon as the result is safe.
    begun : bytes
        A hash of the program and of the records. After a restart it must be the same.

    Raises
    ------
    MasqueradeError
        The run ended without a result. The other participants were told why, where they could be reached. Where only
        Charlie's last frame does not come, there is a result, and ``session.unconfirmed`` says why it is not confirmed.
    """
    if type(rng) is not SystemRng:
        role.close()
        raise RefusedLocally(
            "a run between processes draws its noise from the operating system alone, never from a seed",
            "seeds are for 'masquerade simulate'",
        )
    bell, ringer = socket.socketpair()
    bell.setblocking(False)
    ringer.setblocking(False)
    thread = _RoleThread(role, rng, ringer)
    linger = min(2.0, _LINGER * session.deadline)
    with bell, ringer, _signals(ringer) as caught:
        try:
            with _parting(session, bell, b"" if journal is None else journal.run):
                session.steps = ReplayLog(journal)
                session.steps.begin(session.program, begun)
                session.open()
                thread.stand = resume(role, session)
            result = _converse(session, thread, bell, caught, rng)
        except MasqueradeError as error:
            if isinstance(error, DeadlinePassed) and CHARLIE in error.waited_for:
                linger = 0.0  # nobody is there to receive anything
            why = error if session.parted else _say_why(session, bell, error)
            _end(journal, session, why)
            raise why from error.__cause__
        except BaseException as error:
            _say_why(session, bell, None)
            _end(journal, session, error)
            raise
        finally:
            thread.abandon()
            session.stats.end()
            if session.link is not None:
                session.link.close(int(1000 * linger))
        return result


@contextlib.contextmanager
def _parting(session: Session, bell: socket.socket, run: bytes) -> Iterator[None]:
    """If a process that was started again cannot go on, tell the others, who are in the middle of a run."""
    try:
        yield
    except MasqueradeError as error:
        if run:
            _part(session, bell, run, error)
        raise


def _part(session: Session, bell: socket.socket, run: bytes, error: MasqueradeError) -> None:
    session.parted = True
    until = time.monotonic() + min(_PARTING, session.deadline)
    with contextlib.suppress(MasqueradeError):  # nobody can be reached, and why the run ends says more
        while not session.part(run, session.last_word(error)) and time.monotonic() < until:
            wait(session.link.sockets if session.link else (), bell, _TICK)
    _flush(session, bell)


@contextlib.contextmanager
def telling_of_damage(journal: Journal, session_of: Callable[[], Session]) -> Iterator[None]:
    """If what this machine keeps is damaged, so that it cannot go on with a run, tell the others.

    Parameters
    ----------
    journal : Journal
        It knows whether a run is under way.
    session_of : callable
        Makes a session, which is used for nothing else. :func:`run_role` tells of what ends its own session.
    """
    try:
        yield
    except (Damaged, OlderCopy) as error:
        if journal.run:
            _tell(journal, session_of(), error)
        raise


def _tell(journal: Journal, session: Session, error: MasqueradeError) -> None:
    bell, ringer = socket.socketpair()
    bell.setblocking(False)
    with bell, ringer:
        _part(session, bell, journal.run, error)
        if session.link is not None:
            session.link.close(int(1000 * min(2.0, _LINGER * session.deadline)))
    with contextlib.suppress(MasqueradeError):  # the damage says more
        journal.end(type(error).__name__, journal.run)


def _end(journal: Journal | None, session: Session, error: BaseException) -> None:
    """End the journal of a run that failed: the others know, so it cannot go on."""
    if journal is not None:
        with contextlib.suppress(MasqueradeError):  # the error that ended the run says more
            journal.end(type(error).__name__, session.run)


def _converse(session: Session, thread: _RoleThread, bell: socket.socket, caught: list[int], rng: Rng) -> Any:
    """Go on with real frames, until every participant is done."""
    if session.steps.passed:
        session.resumed(rng.bytes(NONCE_BYTES))
    result = thread.stand.result
    if not thread.stand.returned:
        thread.start()
    while not session.closed:
        _sleep(session, bell)
        if caught and session.over:
            break  # the others may miss the last frame, but the result is sound
        if caught:
            still = "" if session.releases else " before it released anything"
            raise RunFailed(f"this process was stopped by {signal.Signals(caught[0]).name}{still}")
        result = _hand_over(session, thread, result)
        try:
            if not session.closed:
                session.step()
        except MasqueradeError as error:
            if session.keeps(error):
                break
            raise
        for answer in session.answers():
            thread.answer(answer)
    with contextlib.suppress(MasqueradeError):  # the result is there, whatever the disk says now
        session.steps.commit()  # the last acknowledgements: after a restart nobody is waited for in vain
    _flush(session, bell)
    return result


def _hand_over(session: Session, thread: _RoleThread, result: Any) -> Any:
    """Give the session what the role's thread tells; return the role's result if it is there, else ``result``."""
    while not thread.asked.empty():
        match thread.asked.get():
            case _Returned(value):
                result = value
                returned(session, value)
            case _Drawn(label, packed):
                session.steps.note("once", label=label, data=packed)
                if len(packed) > _LARGE:
                    session.steps.commit()
            case _Raised(error):
                raise error
            case effect:
                session.begin(effect)
                if isinstance(effect, _NOTES):
                    session.answers()  # the role has gone on
    return result


def _sleep(session: Session, bell: socket.socket) -> None:
    link = session.link
    patience = _RETRY if link and link.busy else _TICK
    if (due := session.due_in()) is not None:
        patience = min(patience, math.ceil(1000 * max(0.0, due)))
    rang = wait(link.sockets if link else (), bell, patience)
    if session.gathers:
        time.sleep(_GATHER)
    if rang:
        bell.recv(4096)


def _last_words(session: Session) -> float:
    return min(1.0, _LAST_WORDS * session.deadline)


def _flush(session: Session, bell: socket.socket) -> None:
    """Hand the frames that still wait to ZeroMQ."""
    link, until = session.link, time.monotonic() + _last_words(session)
    while link is not None and link.busy and time.monotonic() < until:
        wait((), bell, _RETRY)
        link.flush()


def _say_why(session: Session, bell: socket.socket, error: MasqueradeError | None) -> MasqueradeError:
    """Tell the others why this run ends. Return the error to raise: Charlie's, where he knows more."""
    session.abort(error)
    _flush(session, bell)
    until = time.monotonic() + _last_words(session)
    ask = isinstance(error, DeadlinePassed) and CHARLIE not in error.waited_for
    while ask and session.link is not None and time.monotonic() < until:
        if (verdict := session.hear_verdict()) is not None:
            return verdict
        wait(session.link.sockets, bell, _TICK)
    return (
        error
        if error is not None
        else RunFailed("a bug in this program ended this participant's run", "report it; --debug shows where it is")
    )


@contextlib.contextmanager
def _signals(bell: socket.socket) -> Iterator[list[int]]:
    """Collect SIGTERM and SIGINT instead of ending the process at once."""
    caught: list[int] = []

    def note(number: int, _frame: FrameType | None) -> None:
        caught.append(number)
        with contextlib.suppress(OSError):
            bell.send(b"\0")

    with handled(note):
        yield caught
