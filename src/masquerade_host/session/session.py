"""The common part of a session's two ends: the role's pending effect, its inbox, and the clocks.

A *role* is one participant's part of a protocol. It asks for *effects*, such as "send this" or "wait for that". A
session carries them out: it takes the role's effects, the frames that arrived and the time, and it answers the role. It
does no input or output of its own, except through its link. All of it happens in one thread, the I/O thread, so there
are no locks. :class:`~masquerade_host.session.charlie.CharlieSession` and
:class:`~masquerade_host.session.party.PartySession` are the two ends. Each is made of parts that know nothing of each
other: channels (:mod:`masquerade_host.channel`), the states of its hops
(:mod:`masquerade_host.session.states`), commits (:mod:`masquerade_host.session.commits`), and the ones here.

*Inbox.* Frames for a role that it has not asked for yet, in a bounded space.

*Pending receives.* The senders whose frames a role waits for, found without rescanning on each arrival.

*Deadlines.* Which frame is due, since when, and until when. Every wait of a session asks here.

A frame is *due* from a participant once it holds all that the frame follows from. From that moment on it has the
study's ``deadline_seconds``, and the public forecast of the work (:class:`~masquerade_core.seat.Forecast`). Beats
do not lengthen that: a participant that lives and withholds the frame is out of time like a silent one.

Charlie sees what a party holds, since its beats acknowledge what it was sent. A party does not see what the others
hold. So Charlie's beats say how often somebody's clock has started at his end, and a party's patience with him, a
quarter longer than his with the parties, begins anew each time. That is his word alone. So no wait lasts longer than
the run's longest chain of frames would take, if each of them used up its time.
"""

from abc import ABC, abstractmethod
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from masquerade_core.errors import DeadlinePassed, LocalProtocolError, MasqueradeError
from masquerade_core.seat import Effect, Forecast, Join, Progress, Receive, Release, Send, Stage
from masquerade_core.study import CHARLIE, Study
from masquerade_core.wire.codec import MAX_BODY
from masquerade_core.wire.faults import Abort, Judge, Kept, bits_of
from masquerade_core.wire.frames import Frame
from masquerade_host.channel import Channel
from masquerade_host.faults.endings import (
    LastFrames,
    abort_of,
    evidence_of,
    seen_frames,
    shown_for,
    unanswered,
    violation_in,
)
from masquerade_host.process.program import Program
from masquerade_host.process.progress import JOINING, News, Observer, Stats
from masquerade_host.session.commits import Commits, Debits
from masquerade_host.session.messages import DIGEST_BYTES, beats_every, pack_bits
from masquerade_host.session.states import Turn
from masquerade_host.store.journal import Entry, ReplayLog
from masquerade_host.store.keyfiles import Keys
from masquerade_host.store.transcript import Recorder, Transcript
from masquerade_host.transport.interface import Link

__all__ = ["Allowance", "Awaited", "Inbox", "Session", "Wait"]


# --- Inbox ---------------------------------------------------------------------------

_MAX_FRAMES = 64  # of one source and kind that the role has not asked for yet
_MAX_BYTES = 4 * MAX_BODY  # of one source: no role is ever so far behind another


class Inbox(defaultdict[tuple[str, str], deque[tuple[float, Frame]]]):
    """The frames of each source and kind in their order, each with the time at which it came.

    Parameters
    ----------
    me : str
        The participant whose role they are for.
    """

    def __init__(self, me: str) -> None:
        super().__init__(deque)
        self._me = me

    def put(self, frame: Frame, now: float) -> None:
        """Put a role's frame into its source's queue.

        Raises
        ------
        ProtocolViolation
            More came than the role can have asked for.
        """
        queue = self[frame.source, frame.kind]
        queue.append((now, frame))
        if len(queue) > _MAX_FRAMES:
            what = f"more {Turn(frame.kind).words}s than were asked for; at most {_MAX_FRAMES} are allowed"
            raise violation_in(frame, self._me, what)
        queues = (self[frame.source, kind] for kind in ("message", "sealed"))
        if sum(len(waiting.body) for queue in queues for _, waiting in queue) > _MAX_BYTES:
            what = f"more bytes than were asked for; at most {_MAX_BYTES >> 20} MB are allowed"
            raise violation_in(frame, self._me, what)


# --- Pending receives -----------------------------------------------------------------


class Awaited:
    """The role's pending Receive, and what of it is still missing.

    Parameters
    ----------
    inbox : Inbox
        Where the frames are.

    Attributes
    ----------
    wanted : Receive or None
        None while the role waits for no frame.
    missing : set of str
        Whose frame has not come.
    """

    def __init__(self, inbox: Inbox) -> None:
        self._inbox = inbox
        self.wanted: Receive | None = None
        self.missing: set[str] = set()
        self._senders: frozenset[str] = frozenset()
        self._new: list[str] = []

    def begin(self, wanted: Receive) -> None:
        """Wait for these frames; some may have come before."""
        self.wanted, self._senders = wanted, frozenset(wanted.senders)
        self._new = [sender for sender in wanted.senders if self._inbox[sender, wanted.kind]]
        self.missing = set(self._senders.difference(self._new))

    def end(self) -> None:
        """Wait for nothing more."""
        self.wanted, self._senders, self.missing, self._new = None, frozenset(), set(), []

    def came(self, frame: Frame) -> bool:
        """Take note of a frame in the inbox; return whether the role waits for something of its source."""
        if self.wanted is not None and frame.kind == self.wanted.kind and frame.source in self.missing:
            self.missing.remove(frame.source)
            self._new.append(frame.source)
        return frame.source in self._senders

    def new(self) -> Iterator[Frame]:
        """Yield each frame that is next in turn, once. A caller that finds one wrong may take it out of the inbox."""
        while self._new and self.wanted is not None:
            queue = self._inbox[self._new[-1], self.wanted.kind]
            if queue:
                yield queue[0][1]
            sender = self._new.pop()
            if not queue:
                self.missing.add(sender)

    def in_order(self) -> tuple[str, ...]:
        """Return whose frame is missing, in the order of the role's question."""
        if self.wanted is None or not self.missing:
            return ()
        return tuple(sender for sender in self.wanted.senders if sender in self.missing)


# --- Deadlines ------------------------------------------------------------------------

_PATIENCE = 1.25  # how long a party waits for Charlie, beside what he allows the one whom he waits for


@dataclass(frozen=True)
class Allowance:
    """How many seconds a study allows.

    Parameters
    ----------
    deadline : float
        The study's ``deadline_seconds``.
    forecast : Forecast
        Of the study's protocol.
    slot : float
        The study's ``slot_seconds``, for which a frame may be held back; 0 where there are none.
    """

    deadline: float
    forecast: Forecast
    slot: float = 0.0

    @property
    def delivery(self) -> float:
        """From when a frame was sent until its recipient acknowledges it."""
        return self.deadline

    @property
    def frame(self) -> float:
        """From when a frame's inputs were delivered until it comes."""
        return self.deadline + self.forecast.seconds + self.slot

    @property
    def of_charlie(self) -> float:
        """How long a party waits for Charlie, who himself waits for :attr:`frame`."""
        return _PATIENCE * self.frame

    def wait(self, allowed: float) -> "Wait":
        """Return a wait for so many seconds without a sign that the run goes on."""
        return Wait(allowed, allowed + self.delivery)


class Wait:
    """One wait.

    Parameters
    ----------
    allowed : float
        Seconds without a sign that the run goes on.
    turn : float
        Seconds that one frame of a chain may take at most, its delivery included.

    Attributes
    ----------
    began : float
        When the wait began.
    moved : float
        When the run was last seen to go on.
    """

    def __init__(self, allowed: float, turn: float) -> None:
        self._allowed = allowed
        self._turn = turn
        self.began = self.moved = 0.0

    def begin(self, now: float) -> None:
        """Wait for something from now on."""
        self.began = self.moved = now

    def sign(self, now: float) -> None:
        """The run has gone on: somebody's clock starts now."""
        self.moved = now

    def shift(self, seconds: float) -> None:
        """Move on by a pause in which this process did not run."""
        self.began += seconds
        self.moved += seconds

    def stands_still(self, now: float) -> bool:
        """Say whether the run has not gone on for too long."""
        return now - self.moved > self._allowed

    def lasts(self, now: float, turns: int) -> bool:
        """Say whether the wait lasts longer than so many frames, one after the other, could make it last."""
        return now - self.began > (turns + 1) * self._turn


# --- Session ---------------------------------------------------------------------

_NOTHING = object()
_PAUSE = 2.0  # seconds between two steps from which on this process did not run


class Session(ABC):
    """One participant's side of one run.

    Parameters
    ----------
    me : str
        This participant.
    study : Study
    keys : Keys
    version : str
        The numbers of the wire and of the protocol's meaning, as its entry has them. Participants with other numbers
        cannot take part.
    observe : Observer
    clock : callable
        Seconds, monotonic.
    debits : Debits, optional
        Where the cost of a release is written down before the release leaves; by default nowhere.
    forecast : Forecast, optional
        Of the study's protocol; by default no work is allowed for beside the deadline.
    program : Program, optional
        This participant's; by default one without files, for tests.

    Attributes
    ----------
    study_id : bytes
        The id that frames bear until the roster is known.
    run : bytes
        The id of the run, once the roster is known; before, the study's.
    steps : ReplayLog
        What happened, written or compared. By default nothing is written. A caller sets another one before the run.
    iterates : list of (int, tuple of float)
        The public classifiers that the role reported, each with its round.
    over : bool
        Every role has returned, and the run cannot fail any more; only acknowledgements are awaited.
    parted : bool
        The others were told that this participant, which was started again, cannot go on.
    unconfirmed : DeadlinePassed or None
        Why nobody has confirmed the result of this party's role, once it keeps that all the same.
    kept : Kept
        The signed messages of the last secure sum.
    transcript : Recorder
        A hash of every frame that belongs to the run.
    release : bytes
        The hash of the files that publish the result, once the role has returned.
    """

    def __init__(
        self,
        me: str,
        study: Study,
        keys: Keys,
        version: str,
        observe: Observer,
        clock: Callable[[], float],
        debits: Debits | None = None,
        program: Program | None = None,
        forecast: Forecast | None = None,
    ) -> None:
        self.program = program or Program()
        self.me = me
        self.study = study
        self.names = study.names
        self.everybody = (*study.names, CHARLIE)
        self.version = version
        self.study_id = self.run = study.study_id(version)
        self.deadline = study.study.deadline_seconds
        self.allowance = Allowance(self.deadline, forecast or Forecast(), study.study.slot_seconds or 0.0)
        self.beat_every = beats_every(study.K, self.deadline)
        self.stats = Stats(clock, observe)
        self.transcript = Recorder(me, study.names)
        self._commits = Commits(me, self.stats, self.transcript, debits)
        self._due: list[Release] = []  # what the next send costs
        self.iterates: list[tuple[int, tuple[float, ...]]] = []
        self.closed = False
        self.over = False
        self.unconfirmed: DeadlinePassed | None = None
        self.parted = False
        self.kept = Kept()
        self.release = bytes(DIGEST_BYTES)
        self._keys = keys
        self._observe = observe
        self._news = News(clock, observe)
        self._clock = clock
        self._pending: Effect | None = None
        self._answer: Any = _NOTHING
        self._last = LastFrames()
        self._inbox = Inbox(me)
        self._awaited = Awaited(self._inbox)
        self._last_came = 0.0  # when the last of the frames came that the role has taken
        self._wait = self.allowance.wait(self.allowance.frame)
        self._moves = 0  # Charlie's: how often somebody's clock has started
        self._stepped = clock()
        self._next_beat = 0.0

    @property
    def steps(self) -> ReplayLog:
        """The log of the run's steps, written or compared."""
        return self._commits.steps

    @steps.setter
    def steps(self, steps: ReplayLog) -> None:
        self._commits.steps = steps

    @property
    def releases(self) -> list[Release]:
        """The privacy cost of each release so far: all that was debited, whether it has left or not."""
        return self._commits.releases

    @property
    def judge(self) -> Judge:
        """The rules by which signed frames of this run prove a fault."""
        return Judge(self.study, self.run, self.study_id)

    def evidence(self, identity: Mapping[str, Any], error: BaseException | None) -> dict[str, Any] | None:
        """Return what the end of this run rests on, signed as a whole; None where there is nothing."""
        return evidence_of(error, self._last, self.kept, self.judge, identity, self._keys.signing.sign)

    def sign(self, transcript: Transcript) -> Transcript:
        """Return a transcript with this participant's signature."""
        return transcript.with_signature(self._keys.signing.sign)

    # --- The role's side ------------------------------------------------------

    def begin(self, effect: Effect) -> None:
        """Take the role's next effect; :meth:`answers` returns its answer once there is one."""
        self._pending = effect
        match effect:
            case Stage(name):
                self.stats.stage(name)
                self._reply(None)
            case Release():
                self._due.append(effect)
                self._reply(None)
            case Progress():
                self.iterates.append((effect.done, effect.iterate))
                self._news.progress(effect.done, effect.total)
                self._reply(None)
            case Send():
                due, self._due = self._due, []
                self.stats.encrypted(effect.ciphertexts * len(effect.to))
                self._send(effect, due)
                self._reply(None)
            case Join():
                self.stats.stage(JOINING)
                # The wire shows the beats, so their clock starts here. Training takes longer with more records: a clock
                # that ran from before it would show how many there are.
                self._next_beat = self._clock()
                self._join(effect)
            case Receive():
                self._wait.begin(self._clock())
                self._awaited.begin(effect)
                self._look()
            case _:
                raise LocalProtocolError(f"a role asked its driver for a {type(effect).__name__}")
        self._post()

    def _reply(self, answer: Any) -> None:
        self._pending = None
        self._awaited.end()
        self._answer = answer

    def answers(self) -> tuple[Any, ...]:
        """Return the answer to the role's effect once, as a tuple of one; an empty tuple while there is none."""
        answer, self._answer = self._answer, _NOTHING
        return () if answer is _NOTHING else (answer,)

    @abstractmethod
    def _join(self, effect: Join) -> None:
        """Start to say hello."""

    def _begin_run(self, keys: tuple[tuple[str, bytes], ...], roster: bytes, run: bytes, root: bytes = b"") -> None:
        """Answer the role's Join: the roster is known, and so is the run's id; ``root`` as in :class:`Join`."""
        self.run, self.kept.roster = run, roster
        self.steps.note("run", data=run)
        self._commits.commit()  # the ledger counts an attempt now, and after a restart it must be this one
        self._observe("joined", parties=self.study.K)
        self._reply((keys, run, root) if root else (keys, run))

    @abstractmethod
    def _send(self, effect: Send, due: Sequence[Release]) -> None:
        """Put the role's bodies on the wire, and pay for what they release."""

    @abstractmethod
    def finish(self) -> None:
        """The role has returned: tell the others, and close when every role has."""

    # --- The wire's side ------------------------------------------------------

    @property
    @abstractmethod
    def link(self) -> Link | None:
        """The link, while there is one."""

    @abstractmethod
    def open(self) -> None:
        """Prepare, before the role starts."""

    @abstractmethod
    def _take(self, now: float) -> None:
        """Take what the link has."""

    @abstractmethod
    def _tick(self, now: float) -> None:
        """Check the clocks."""

    @abstractmethod
    def _beat(self, to: Collection[str] = ()) -> None:
        """Send a sign of life to these participants; by default to everybody at the other end of a hop."""

    def _beat_for(self, channel: Channel, waits_for: bytes = b"") -> bytes:
        """Return the body of a beat, which acknowledges what is safe here; ``waits_for`` is given where many leave."""
        self._commits.commit()
        bits = waits_for or bits_of(self.missing(), self.everybody)
        return pack_bits(bits, channel.say(), channel.connection, self._moves)

    @abstractmethod
    def _shift(self, seconds: float) -> None:
        """Move all clocks on by a pause in which this process did not run: nobody can be blamed for it."""

    @property
    def gathers(self) -> bool:
        """Whether many frames are still to come before anything follows from them."""
        return False

    def due_in(self) -> float | None:
        """Return in how many seconds a frame is due that this session holds back; ``None`` if it holds none."""
        return None

    def hear_verdict(self) -> MasqueradeError | None:
        """Return what Charlie says about the end that this participant has just reported, for he may know more."""
        return None

    @abstractmethod
    def part(self, run: bytes, abort: Abort) -> bool:
        """After a restart that cannot go on, tell the others that the run is over, as far as they can be reached now.

        Parameters
        ----------
        run : bytes
            The run's id. Nothing else of the run is needed.
        abort : Abort

        Returns
        -------
        bool
            Whether everybody is told. If not, call it again a moment later.
        """

    @abstractmethod
    def say_abort(self, abort: Abort) -> None:
        """Tell the other end of a hop that the run is over."""

    def step(self) -> None:
        """Take what arrived, check the clocks, and answer the role if its answer is there.

        Raises
        ------
        MasqueradeError
            The run is over.
        """
        now = self._clock()
        if (pause := now - self._stepped) > min(_PAUSE, self.beat_every):
            self._wait.shift(pause)
            self._shift(pause)
        self._take(now)
        if self.closed:
            self._post()
            return
        self._look()
        self._tick(now)
        self._check_dues(now)
        if now >= self._next_beat:
            self._next_beat = now + self.beat_every
            self._beat()
            self._news.traffic(self.stats, *self._waiting(now))
        elif owing := self._commits.take_owing():
            self._beat(owing)
        self._post()
        self._stepped = self._clock()

    # --- The journal's side -----------------------------------------------------

    def _post(self) -> None:
        self._commits.post(self.run)

    @abstractmethod
    def _channel_to(self, name: str) -> Channel:
        """Return the channel to the participant at the other end of a hop."""

    def check_ledger(self) -> None:
        """After a replay, check that the ledger knows no release of this run that the journal does not."""
        self._commits.check_ledger(self.run)

    def again(self, row: Entry) -> None:
        """Take again what came from outside before this process was started."""
        if row.kind == "acked":
            self._commits.acknowledged_again(self._channel_to(row.peer), row)
        else:
            self._take_again(row)

    @abstractmethod
    def _take_again(self, row: Entry) -> None:
        """Take a frame again, or the loss of a party."""

    def resumed(self, nonce: bytes) -> None:
        """Take note that this process goes on with what an earlier one began; ``nonce`` is fresh."""
        del nonce  # Charlie asks nobody

    def let_go(self) -> bool:
        """Send what this session holds back, for it was sent before; return whether there was anything."""
        return False

    def look_again(self) -> None:
        """Answer the role if its answer is there."""
        self._look()

    def _deliver(self, frame: Frame) -> None:
        """Put a role's frame into its source's queue."""
        self._last.came[frame.source] = frame.data
        self._inbox.put(frame, self._clock())
        if self._awaited.came(frame):
            self._wait.sign(self._clock())

    def _look(self) -> None:
        """Answer a pending Receive if everything is there, or its time is over; check that each message is due."""
        wanted = self._awaited.wanted
        if wanted is None:
            return
        for frame in self._awaited.new():
            self._check_due(wanted, frame)
        if not self._awaited.missing or self._gives_up(wanted):
            queues = [self._inbox[sender, wanted.kind] for sender in wanted.senders]
            taken = [queue.popleft() if queue else None for queue in queues]
            for came in taken:
                if came:
                    self._took(came[1])
            self._last_came = max((self._last_came, *(came[0] for came in taken if came)))
            self._reply(tuple(came[1].body if came else None for came in taken))

    def _took(self, frame: Frame) -> None:
        """Note a frame of a role's message that the role has."""
        self._last.taken[frame.source] = frame.data

    def _gives_up(self, wanted: Receive) -> bool:
        """Say whether the role goes on with what is there."""
        if wanted.within is None:
            return False
        return self.steps.decide("patience", now=self._clock() - self._wait.began > wanted.within)

    def _check_due(self, wanted: Receive, frame: Frame) -> None:
        if frame.type != wanted.type:
            what = f"{frame.type[:32]!r} out of turn; {wanted.type!r} is due"
            raise violation_in(frame, self.me, what)
        if frame.broadcast != wanted.broadcast:
            came, due = f"to {self.me} alone", "to all parties"
            if frame.broadcast:
                came, due = due, came
            raise violation_in(frame, self.me, f"{wanted.type!r} {came}; it must go {due}")

    def missing(self) -> tuple[str, ...]:
        """Return whom the role waits for at this moment."""
        return self._awaited.in_order()

    def _waiting(self, now: float) -> tuple[tuple[str, ...], float]:
        """Return whom this participant waits for, and for how many seconds, as a person is told it."""
        missing = self.missing()
        return missing, now - self._wait.moved if missing else 0.0

    @abstractmethod
    def _check_dues(self, now: float) -> None:
        """End the run, or go on without a party, where a frame is out of time."""

    def _late(self, late: tuple[str, ...]) -> DeadlinePassed:
        """Return the error for those whose frame is out of time; nobody is named where nobody can be told."""
        hint = "see whether they still run; the study's deadline_seconds says how long each participant waits"
        return DeadlinePassed(f"{self.me} gave up waiting: {unanswered(late)}", hint, waited_for=late)

    def keeps(self, error: MasqueradeError) -> bool:
        """Say whether the role's result is kept, not confirmed, though the session ends with this error."""
        del error
        return False

    def last_word(self, error: MasqueradeError | None) -> Abort:
        """Return what the others are told at an end; ``None`` is for a bug here, or for a user who stops the run."""
        return abort_of(error, self.me, self.names, shown_for(error, seen_frames(error, self._last), self.judge))

    def abort(self, error: MasqueradeError | None) -> None:
        """Tell the others why the run is over."""
        self.say_abort(self.last_word(error))
