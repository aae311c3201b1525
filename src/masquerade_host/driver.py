"""Drives one role of one run: the role runs in a thread of its own, the sockets in the calling one.

So long arithmetic never keeps the sockets waiting, and their state needs no locks. The two threads meet only where the
role hands an effect over and where its answer comes back. The result of a ``once`` is packed and unpacked before the
role gets it. So a role sees the same types here as in a replay from recorded answers (:mod:`masquerade_core.table`).
"""

import contextlib
import math
import queue
import signal
import socket
import threading
import time
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass
from types import FrameType
from typing import Any

from masquerade_core.errors import DeadlinePassed, MasqueradeError, RefusedLocally, RunFailed
from masquerade_core.rng import Rng, SystemRng
from masquerade_core.seat import Effect, Once
from masquerade_core.study import CHARLIE
from masquerade_core.wire.codec import pack_plain, unpack_plain
from masquerade_host.run_files import hash_of_release
from masquerade_host.session import Session
from masquerade_host.signals import handled
from masquerade_host.transport import wait

__all__ = ["run_role"]

_TICK = 100  # milliseconds between two checks of the clocks
_RETRY = 10  # the same, while frames wait that the network does not take yet
_LAST_WORDS = 0.08  # of the deadline, at most 1 s: time for an abort to leave, or for Charlie's verdict to arrive
_LINGER = 0.08  # of the deadline, at most 2 s: time for ZeroMQ to hand its last frames to the operating system

Role = Coroutine[Effect, Any, Any]


@dataclass(frozen=True)
class _Returned:
    result: Any


@dataclass(frozen=True)
class _Raised:
    error: BaseException


class _AbandonedError(Exception):
    """The run has ended, and nobody waits for this role any more."""


class _RoleThread(threading.Thread):
    """Steps a role. It is a daemon thread: arithmetic under way must not keep the process alive after the run."""

    def __init__(self, role: Role, rng: Rng, bell: socket.socket) -> None:
        super().__init__(name="role", daemon=True)
        self._role = role
        self._rng = rng
        self._bell = bell
        self.asked: queue.SimpleQueue[Effect | _Returned | _Raised] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._abandoned = False

    def run(self) -> None:
        """Step the role until it returns or raises."""
        answer: Any = None
        try:
            while True:
                effect = self._role.send(answer)
                if isinstance(effect, Once):
                    answer = unpack_plain(pack_plain(effect.compute(self._rng)))
                else:
                    answer = self._ask(effect)
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

    def _ask(self, effect: Effect) -> Any:
        self._tell(effect)
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


def run_role(role: Role, session: Session, rng: Rng) -> Any:
    """Run a role in a session until every participant is done, and return what the role returned.

    In the main thread of a process, SIGTERM and SIGINT end the run in order.

    Parameters
    ----------
    role : coroutine
        A role of ``masquerade_protocols``. Its seat has the name and run id of the session.
    session : Session
    rng : SystemRng
        No other source of randomness is allowed between processes.

    Raises
    ------
    MasqueradeError
        The run ended without a result. The other participants were told why, where they could be reached.
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
            result = _converse(session, thread, bell, caught)
        except MasqueradeError as error:
            if isinstance(error, DeadlinePassed) and CHARLIE in error.waited_for:
                linger = 0.0  # nobody is there to receive anything
            raise _say_why(session, bell, error) from error.__cause__
        except BaseException:
            _say_why(session, bell, None)
            raise
        finally:
            thread.abandon()
            session.stats.end()
            if session.link is not None:
                session.link.close(int(1000 * linger))
        return result


def _converse(session: Session, thread: _RoleThread, bell: socket.socket, caught: list[int]) -> Any:
    result: Any = None
    session.open()
    thread.start()
    while not session.closed:
        _sleep(session, bell)
        if caught and session.over:
            break  # the others may miss the last frame, but the result is sound
        if caught:
            still = "" if session.releases else " before it released anything"
            raise RunFailed(f"this process was stopped by {signal.Signals(caught[0]).name}{still}")
        while not thread.asked.empty():
            match thread.asked.get():
                case _Returned(value):
                    result = value
                    session.release = hash_of_release(value, session.study, session.run)
                    session.finish()
                case _Raised(error):
                    raise error
                case effect:
                    session.begin(effect)
        if not session.closed:
            session.step()
        for answer in session.answers():
            thread.answer(answer)
    _flush(session, bell)
    return result


def _sleep(session: Session, bell: socket.socket) -> None:
    link = session.link
    patience = _RETRY if link and link.busy else _TICK
    if (due := session.due_in()) is not None:
        patience = min(patience, math.ceil(1000 * max(0.0, due)))
    wait(link.sockets if link else (), bell, patience)
    with contextlib.suppress(BlockingIOError):
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
        else RunFailed(
            "a bug of this program ended the run of this participant", "report it; --debug shows where it is"
        )
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
