"""What both ends of a session have in common: the role's pending wish, inboxes, clocks, and how a run ends badly.

A session is sans-IO but for its link: it takes effects of the role, frames of the link and the time, and answers. All
of it happens in one thread, the I/O thread, so there are no locks. :mod:`masquerade_host.charlie_session` and
:mod:`masquerade_host.party_session` are its two ends.
"""

from abc import ABC, abstractmethod
from collections import defaultdict, deque
from collections.abc import Callable, Collection
from typing import Any, Protocol

from masquerade_core.crypto.boxes import SIGNATURE_BYTES
from masquerade_core.errors import (
    DeadlinePassed,
    LocalProtocolError,
    MasqueradeError,
    ProtocolViolation,
    RunFailed,
)
from masquerade_core.seat import Effect, Join, Progress, Receive, Release, Send, Stage
from masquerade_core.study import CHARLIE, Study
from masquerade_core.wire.codec import MAX_BODY, encode, unpack_strict
from masquerade_core.wire.frames import Frame
from masquerade_host.keyfiles import Keys
from masquerade_host.session_messages import Abort, Beat, Reason
from masquerade_host.stats import JOINING, Observer, Stats

__all__ = ["Link", "Session", "error_of", "frames_were_lost", "listed"]

_MAX_UNDELIVERED = 64  # frames of one source and kind that nobody has asked for yet
_MAX_UNDELIVERED_BYTES = 4 * MAX_BODY  # the same in bytes, of one source: a role is never so far behind another
_NEWS_EVERY = 0.5  # seconds between two words about a long stage's progress
_NOTHING = object()


class Link(Protocol):
    """What any session needs of its transport."""

    @property
    def sockets(self) -> tuple[Any, ...]:
        """What to wait for."""

    @property
    def busy(self) -> bool:
        """Whether frames wait that could not be sent yet."""

    def flush(self) -> None:
        """Offer them again."""

    def close(self, linger: int) -> None:
        """Close, after at most ``linger`` milliseconds for what is still to be sent."""


class Session(ABC):
    """One participant's side of one run.

    Parameters
    ----------
    me : str
        This participant.
    study : Study
    keys : Keys
    version : str
        The program's version; another one cannot take part.
    observe : Observer
    clock : callable
        Seconds, monotonic.

    Attributes
    ----------
    releases : list of Release
        The budget debits so far.
    iterates : list of (int, tuple of float)
        The public classifiers that the role has told of, each with its round.
    """

    def __init__(
        self, me: str, study: Study, keys: Keys, version: str, observe: Observer, clock: Callable[[], float]
    ) -> None:
        self.me = me
        self.study = study
        self.names = study.names
        self.version = version
        self.run = study.run_id(version)
        self.deadline = study.study.deadline_seconds
        self.beat_every = min(2.0, self.deadline / 6)
        self.stats = Stats(clock, observe)
        self.releases: list[Release] = []
        self.iterates: list[tuple[int, tuple[float, ...]]] = []
        self.closed = False
        self._keys = keys
        self._observe = observe
        self._clock = clock
        self._pending: Effect | None = None
        self._answer: Any = _NOTHING
        self._inbox: dict[tuple[str, str], deque[tuple[str, bytes]]] = defaultdict(deque)
        self._progress = clock()
        self._stepped = clock()
        self._next_beat = 0.0
        self._next_news = 0.0

    # --- The role's side ------------------------------------------------------

    def begin(self, effect: Effect) -> None:
        """Take the role's next effect; :meth:`answers` yields its answer once there is one."""
        self._pending = effect
        match effect:
            case Stage(name):
                self.stats.stage(name)
                self._reply(None)
            case Release():
                self.releases.append(effect)
                self._reply(None)
            case Progress():
                self._come_so_far(effect)
                self._reply(None)
            case Send():
                self._send(effect)
                self._reply(None)
            case Join(box_key):
                self.stats.stage(JOINING)
                # No clock that the wire shows may have started before: training lasted as long as there are records.
                self._next_beat = self._clock()
                self._join(box_key)
            case Receive():
                self._progress = self._clock()
                self._look()
            case _:
                raise LocalProtocolError(f"a role asked its driver for a {type(effect).__name__}")

    def _come_so_far(self, progress: Progress) -> None:
        self.iterates.append((progress.done, progress.iterate))
        now = self._clock()
        if now >= self._next_news or progress.done == progress.of:
            self._next_news = now + _NEWS_EVERY
            self._observe("progress", done=progress.done, of=progress.of)

    def _reply(self, answer: Any) -> None:
        self._pending = None
        self._answer = answer

    def answers(self) -> tuple[Any, ...]:
        """Return the answer to the role's effect, once, as a tuple of one; empty while there is none."""
        answer, self._answer = self._answer, _NOTHING
        return () if answer is _NOTHING else (answer,)

    @abstractmethod
    def _join(self, box_key: bytes) -> None:
        """Start the hello."""

    @abstractmethod
    def _send(self, effect: Send) -> None:
        """Put a role's bodies on the wire."""

    @abstractmethod
    def finish(self) -> None:
        """The role has returned: tell the others, and close when all have."""

    # --- The wire's side ------------------------------------------------------

    @property
    @abstractmethod
    def link(self) -> Link | None:
        """The link, while there is one."""

    @abstractmethod
    def open(self) -> None:
        """Make ready before the role starts."""

    @abstractmethod
    def _take(self, now: float) -> None:
        """Take what the link has."""

    @abstractmethod
    def _tick(self, now: float) -> None:
        """Look at the clocks."""

    @abstractmethod
    def _beat(self, body: bytes) -> None:
        """Give a sign of life to whoever is there."""

    @abstractmethod
    def _shift(self, seconds: float) -> None:
        """Move all clocks on: this process was not running for so long, and nobody can be blamed for that."""

    def hear_verdict(self) -> MasqueradeError | None:
        """Return what Charlie says about the end that this participant has just reported; he knows more."""
        return None

    @abstractmethod
    def say_abort(self, abort: Abort) -> None:
        """Tell everybody who is there that the run is over."""

    def step(self) -> None:
        """Take what arrived, look at the clocks, and answer the role if its answer is there.

        Raises
        ------
        MasqueradeError
            The run is over.
        """
        now = self._clock()
        if (pause := now - self._stepped) > self.beat_every:
            self._progress += pause
            self._shift(pause)
        self._take(now)
        self._look()
        self._tick(now)
        self._check_progress(now)
        if now >= self._next_beat:
            self._next_beat = now + self.beat_every
            self._beat(encode(Beat(waits_for=self.missing()), ""))
            self._observe("traffic", messages=self.stats.messages, bytes=self.stats.bytes)
        self._stepped = self._clock()

    def _deliver(self, frame: Frame) -> None:
        """Lay a role's frame into its source's queue."""
        self._inbox[frame.source, frame.kind].append((frame.type, frame.body))
        if len(self._inbox[frame.source, frame.kind]) > _MAX_UNDELIVERED:
            raise ProtocolViolation(
                f"{frame.source} sent more than {_MAX_UNDELIVERED} {frame.kind}s that nobody asked for",
                peer=frame.source,
            )
        queues = (self._inbox[frame.source, kind] for kind in ("message", "whisper"))
        if sum(len(body) for queue in queues for _, body in queue) > _MAX_UNDELIVERED_BYTES:
            raise ProtocolViolation(
                f"{frame.source} sent more than {_MAX_UNDELIVERED_BYTES >> 20} MB that nobody asked for",
                peer=frame.source,
            )
        if isinstance(self._pending, Receive) and frame.source in self._pending.senders:
            self._progress = self._clock()

    def _look(self) -> None:
        """Answer a pending Receive if everything is there; check at once that what is there is what is due."""
        wanted = self._pending
        if not isinstance(wanted, Receive):
            return
        queues = [self._inbox[sender, wanted.kind] for sender in wanted.senders]
        for sender, queue in zip(wanted.senders, queues, strict=True):
            if queue and queue[0][0] != wanted.type:
                raise ProtocolViolation(
                    f"{sender} sent a {queue[0][0][:32]!r} where a {wanted.type} is due: out of turn", peer=sender
                )
        if all(queues):
            self._reply(tuple(queue.popleft()[1] for queue in queues))

    def missing(self) -> tuple[str, ...]:
        """Return whom the role waits for at this moment."""
        wanted = self._pending
        if not isinstance(wanted, Receive):
            return ()
        return tuple(sender for sender in wanted.senders if not self._inbox[sender, wanted.kind])

    def _check_progress(self, now: float) -> None:
        if (missing := self.missing()) and now - self._progress > self.deadline:
            raise self._late(missing)

    def _late(self, missing: tuple[str, ...]) -> DeadlinePassed:
        return DeadlinePassed(
            f"{self.me} waited {self.deadline:g} seconds in vain for {listed(missing)}",
            "see whether they still run; the study's deadline_seconds says how long everybody waits",
            waited_for=missing,
        )

    def abort(self, error: MasqueradeError | None) -> None:
        """Tell the others why the run is over; ``None`` stands for a bug here or the user's wish."""
        reason: Reason = "left"
        blamed: tuple[str, ...] = (self.me,)
        if isinstance(error, ProtocolViolation):
            reason, blamed = "violation", (error.peer,) if error.peer in (*self.names, CHARLIE) else ()
        elif isinstance(error, DeadlinePassed):
            reason, blamed = "deadline", error.waited_for
        self.say_abort(Abort(reason=reason, blamed=blamed, by=self.me))


def listed(names: Collection[str]) -> str:
    """Return names as people list them."""
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last


def error_of(abort: Abort) -> MasqueradeError:
    """Return the error that an Abort stands for: the same class, with the same blame, at every participant."""
    who = listed(abort.blamed) if abort.blamed else "somebody who cannot be told"
    match abort.reason:
        case "violation":
            peer = abort.blamed[0] if abort.blamed else ""
            return ProtocolViolation(
                f"{abort.by} ended the run: {who} sent what the protocol does not allow",
                f"the error at {abort.by} says what it was",
                peer=peer,
            )
        case "deadline":
            return DeadlinePassed(
                f"{abort.by} ended the run: it waited in vain for {who}",
                "see whether they still run",
                waited_for=abort.blamed,
            )
        case "left":
            return RunFailed(f"{who} left the run before its end", "start the run again, with everybody")


def frames_were_lost(data: bytes, due: int) -> bool:
    """Say whether a frame that was refused after a reconnection has a number beyond the one that is due.

    Then the network lost frames, and nobody did wrong. (What the frame says of itself decides no more than how the
    run's end is worded.)
    """
    try:
        fields = unpack_strict(data[SIGNATURE_BYTES:], "")
    except ProtocolViolation:
        return False
    number = fields.get("seq") if isinstance(fields, dict) else None
    return isinstance(number, int) and number > due
