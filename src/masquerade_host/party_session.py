"""A party's session: it says hello until Charlie answers, checks the roster itself, and stays until he closes.

Charlie, the curator, is the only participant a party has a connection to. The table in
:mod:`masquerade_host.session_states` rules what the party may say and hear in each state of that connection.
"""

import math
import time
from collections.abc import Callable, Collection, Sequence

from masquerade_core.errors import DeadlinePassed, MasqueradeError, ProtocolViolation, RunFailed
from masquerade_core.forecast import Forecast
from masquerade_core.seat import Join, Release, Send
from masquerade_core.study import CHARLIE, Study
from masquerade_core.wire.aborts import Abort, pack_abort, read_abort
from masquerade_core.wire.codec import decode, encode
from masquerade_core.wire.frames import Frame, Kind
from masquerade_core.wire.relay import pack_boxes, target
from masquerade_host.debits import Debits
from masquerade_host.dialing import RETRY_EVERY, Dialing, WhoAnswers
from masquerade_host.journal import Entry
from masquerade_host.keyfiles import Keys
from masquerade_host.lane import MAX_KEPT, Lane, first_connection
from masquerade_host.links import ConnectionEvent, PartyLink
from masquerade_host.named_messages import Beat, read_beat
from masquerade_host.party_ends import ended, refused, silent, unanswered
from masquerade_host.program import Program
from masquerade_host.seating import SeatingSession
from masquerade_host.seen import judged, seen_in
from masquerade_host.session_messages import Closed, Fields, Hello, Hellos, Refusal
from masquerade_host.session_states import End, HopEvent, JoinState, Turn, after, may_send, received, sending, turn_of
from masquerade_host.stats import Observer, quiet
from masquerade_host.steps import digest_of
from masquerade_host.verdicts import Known, suspects_of

__all__ = ["PartySession"]

_PARTING = 5.0  # seconds for a last acknowledgement, after a restart
_NOTICE = 10.0  # seconds without a connection after which it is said
_NOTICES = 30.0  # seconds until it is said again


class PartySession(SeatingSession):
    """A party's side of a run.

    Parameters
    ----------
    me : str
        This party's name in the study.
    study : Study
    keys : Keys
        This party's.
    connect : callable
        Makes the link; called when the role joins, not before.
    who_answers : callable
        Looks at Charlie's address (:func:`~masquerade_host.probe.probe`).
    version, observe, clock, debits, program, forecast
        See :class:`~masquerade_host.session.Session`.
    """

    def __init__(
        self,
        me: str,
        study: Study,
        keys: Keys,
        connect: Callable[[], PartyLink],
        who_answers: WhoAnswers,
        *,
        version: str,
        observe: Observer = quiet,
        clock: Callable[[], float] = time.monotonic,
        debits: Debits | None = None,
        program: Program | None = None,
        forecast: Forecast | None = None,
    ) -> None:
        super().__init__(me, study, keys, version, observe, clock, debits, program, forecast)
        self._connect = connect
        self._link: PartyLink | None = None
        self._dialing = Dialing(study.address, who_answers)
        self._lane = Lane(CHARLIE, self._transmit)
        self._wait = self.allowance.wait(self.allowance.of_charlie)
        self._next_hello = 0.0
        self._since = 0.0
        self._heard = 0.0
        self._next_notice = 0.0

    @property
    def _lanes(self) -> tuple[Lane, ...]:
        return (self._lane,)

    def _transmit(self, data: bytes) -> None:
        if self._link is not None:
            self._link.send(data)

    @property
    def link(self) -> PartyLink | None:
        """The link, once the role has joined."""
        return self._link

    def open(self) -> None:
        """Do nothing: a party connects when its role joins, so Charlie never sees a party that refuses at home."""

    # --- The role's side ------------------------------------------------------

    def _join(self, effect: Join) -> None:
        proof = effect.prove(study_id=self.study_id, signing=self._keys.signing.public)
        hello = Hello(
            version=self.version,
            box_key=effect.box_key,
            nonce=effect.nonce,
            proof=proof,
            program=self.program.digest,
        )
        self._hello = self._endpoint.seal(CHARLIE, "hello", encode(hello, CHARLIE))
        self.steps.note("sent", CHARLIE, "hello", digest_of(self._hello))
        self._observe("connecting", address=self.study.address)
        self._link = self._connect()
        self._state = after(End.PARTY, self._state, HopEvent.JOIN)
        self._lane.connection = first_connection()
        self._knock(self._clock())

    def _knock(self, since: float) -> None:
        self._since = since
        self._next_hello = 0.0
        self._next_notice = self._clock() + _NOTICE

    def _send(self, effect: Send, due: Sequence[Release]) -> None:
        self._hold(lambda: self._send_now(effect, due))

    def _send_now(self, effect: Send, due: Sequence[Release]) -> None:
        self._owed += due
        if effect.kind == "sealed":
            self._put(self._seal(Turn.SEALED, pack_boxes(effect.bodies), type=effect.type, to=target(effect.to)))
        else:
            for body in effect.bodies:
                self._put(self._seal(Turn.MESSAGE, body, type=effect.type))

    def finish(self) -> None:
        """The role has returned: say so, and stay until Charlie closes."""
        if self._link is None:
            self.closed = True
            return
        self._hold(self._close)
        self._post()

    def _close(self) -> None:
        closed = Closed(digest=self._told.digest(), release=self.release)
        self._closed = self._seal(Turn.CLOSED, encode(closed, CHARLIE))
        self._put(self._closed)
        self._wait.begin(self._clock())

    def _may_send(self, turn: Turn) -> bool:
        return self._link is not None and may_send(End.PARTY, self._state, turn)

    def _seal(self, turn: Turn, body: bytes, *, type: str = "", to: str | None = None) -> bytes:  # noqa: A002
        """Move the state on, and make the frame; ``type`` and ``to`` as in :meth:`Endpoint.seal`."""
        self._state = sending(End.PARTY, self._state, turn)
        kind: Kind = "hello" if turn is Turn.FIELDS else turn.value
        data = self._endpoint.seal(CHARLIE, kind, body, type=type, to=to)
        self.kept.add(self.me, type, data)
        return data

    def _put(self, data: bytes) -> None:
        """Put a numbered frame on the hop."""
        if self._lane.kept + len(data) > MAX_KEPT:
            raise RunFailed(
                f"Charlie has not acknowledged {MAX_KEPT >> 20} MB that were sent to him, and more is not kept",
                "see whether the network to him works, and start the run again",
            )
        self.transcript.sent(CHARLIE, data)
        self._outgo(self._lane, data)

    # --- The wire's side ------------------------------------------------------

    def _take(self, now: float) -> None:
        if self._link is None:
            return
        for event in self._link.connection_events():
            self._notice(event, now)
        self._link.flush()
        for data in self._link.arrivals():
            with judged(self.judge), seen_in(data):
                self._accept(data, now)
            if self.closed:
                return

    def _notice(self, event: ConnectionEvent, now: float) -> None:
        self._dialing.note(event, now)
        if event is ConnectionEvent.UNRESOLVED:
            self._observe("unresolved", address=self.study.address)
        if event is ConnectionEvent.CONNECTED and self._state.has_roster:
            self._observe("reconnected", address=self.study.address)
            self._beat()
            self.closed = self.over
        if event is ConnectionEvent.LOST:
            was, self._state = self._state, after(End.PARTY, self._state, HopEvent.LOST)
            self._lane.break_off()
            self._next_notice = now + _NOTICE
            if self._state is JoinState.KNOCKING and was is not JoinState.KNOCKING:
                self._knock(now)  # before the roster everything is said again
            self._observe("cut_off", address=self.study.address)

    def _reopen(self) -> None:
        self._dialing.reopen_at = None
        if self._link is not None:
            self._state = after(End.PARTY, self._state, HopEvent.LOST)  # again: a late beat says nothing of the next
            self._lane.break_off()
            self._lane.connection += 1
            self._next_hello = 0.0
            self._link.reopen()

    def _accept(self, data: bytes | None, now: float) -> None:
        if data is None:
            raise ProtocolViolation(
                f"{CHARLIE} sent a message of several parts; allowed is one frame a message", peer=CHARLIE
            )
        frame = self._endpoint.open(CHARLIE, data, any_run=self._state is JoinState.KNOCKING, numbered=False)
        turn = turn_of(frame)
        if turn is Turn.REFUSAL:
            seated = self._state.has_roster
            self._receive(Turn.REFUSAL)
            raise self._refused(decode(Refusal, frame.body, CHARLIE), seated=seated)
        if not frame.own:
            raise ProtocolViolation(
                f"{CHARLIE} sent a frame of another run or version; allowed are frames of this run and version",
                peer=CHARLIE,
            )
        self._heard = self._news.heard = now
        if frame.numbered:
            if not self._endpoint.count(CHARLIE, frame):
                return  # it arrived before
            self._accepted(self._lane, frame)
            self._wait.sign(now)
        if self._state is JoinState.KNOCKING:
            self._observe("connected", party=self.me)
            self._wait.begin(now)
        if frame.kind == "message":
            self.kept.add(CHARLIE, frame.type, data, broadcast=frame.broadcast)
        if frame.broadcast and frame.kind != "closed":
            self._told.add(data)
            self._check_chain()
        self._handle(turn or Turn.HELLO, frame)

    def _receive(self, turn: Turn, suspects: tuple[str, ...] = ()) -> None:
        self._state = received(End.PARTY, self._state, turn, CHARLIE, suspects)

    def _handle(self, turn: Turn, frame: Frame) -> None:
        self._check_roster_is_whole(turn, frame)
        if turn is Turn.SEALED:
            self._check_source(frame)
        else:
            self._receive(turn)
        match turn:
            case Turn.BEAT:
                beat = read_beat(frame.body, self.everybody, CHARLIE)
                if beat.connection in (0, self._lane.connection):  # 0: he answers a hello
                    self._hear_beat(beat)
            case Turn.STANDING:
                self._hear_standing(frame)
            case Turn.ABORT:
                raise self._ended(frame)
            case Turn.ROSTER:
                self._take_seat(frame.body)
            case Turn.HELLOS:
                self._take_hellos(decode(Hellos, frame.body, CHARLIE))
            case Turn.MESSAGE | Turn.SEALED:
                self._deliver(frame)
            case Turn.CLOSED:
                self._beat()  # he leaves when everybody holds this frame
                self._check_end(frame)
                self.over, self._since = True, self._clock()
                self.closed = self._dialing.connected  # if not, this party was started again: it says it on connecting

    def _hear_beat(self, beat: Beat) -> None:
        before = self._lane.acknowledged
        self._acknowledged(self._lane, beat.got)
        if beat.moves > self._moves or self._lane.acknowledged > before:
            self._wait.sign(self._clock())
        self._moves = max(self._moves, beat.moves)

    def _check_source(self, frame: Frame) -> None:
        if frame.source not in self.names:
            raise ProtocolViolation(
                f"{CHARLIE} relayed a sealed message of somebody who is not in the study; allowed are its parties",
                peer=CHARLIE,
            )
        # Before the roster nobody can have sealed. After it, the source may have, too late.
        self._receive(Turn.SEALED, suspects_of(frame.source, "sealed") if self._state.has_roster else ())

    def _refused(self, refusal: Refusal, *, seated: bool) -> MasqueradeError:
        if refusal.reason == "differs" and refusal.version == self.version and not seated:
            fields = encode(Fields.of(self.study.field_hashes()), CHARLIE)
            self._transmit(self._seal(Turn.FIELDS, fields, type="fields"))
        return refused(refusal, self.study, self.version, self.me, seated=seated)

    def _ended(self, frame: Frame) -> MasqueradeError:
        return ended(read_abort(frame.body, self.everybody, CHARLIE), frame.data, self.judge, self.me, self._known())

    def _known(self) -> Known:
        """Return what this party can hold against a claim that somebody was late."""
        owes_nothing = self._lane.all_acknowledged and bool(self.missing() or self._closed)
        # A process that was started again does not know when the run began.
        knows = self.run != self.study_id and not self.steps.passed
        since = self._clock() - self._seated_at if knows else math.inf
        return Known(since, (self.me,) if owes_nothing else ())

    # --- The journal's side -----------------------------------------------------

    def _take_again(self, row: Entry) -> None:
        self._accept(row.data, self._clock())

    # --- Clocks and bad ends ----------------------------------------------------

    def _tick(self, now: float) -> None:
        if self._link is None or self.closed:
            return
        self._schedule.release(self._clock())
        if self.over and now - self._since > _PARTING:
            self.closed = True  # he has left without it
        if self._dialing.reopen_at is not None and now >= self._dialing.reopen_at:
            self._reopen()
        if self._state is JoinState.KNOCKING:
            if self._dialing.connected and now >= self._next_hello:
                self._state = sending(End.PARTY, self._state, Turn.HELLO)
                self._next_hello = now + RETRY_EVERY
                self.stats.count(len(self._hello))
                self._commit()  # the key in it must outlive this process
                self._transmit(self._hello)
            if now - self._since > self.deadline:
                raise unanswered(self.study, self.deadline, met=self._dialing.met)
        elif self._may_send(Turn.BEAT) and now - self._heard > self.deadline:
            raise silent(self.deadline, connected=self._dialing.connected)
        if not self._dialing.connected and now >= self._next_notice:
            self._next_notice = now + _NOTICES
            heard = self._since if self._state is JoinState.KNOCKING else self._heard
            self._observe("unreachable", address=self.study.address, left=round(self.deadline - (now - heard)))

    def missing(self) -> tuple[str, ...]:
        """Return whom this party waits for: for the roster, for hellos and for the last frame it is Charlie."""
        waits = self._state in (JoinState.HEARD, JoinState.DONE)
        return (CHARLIE,) if waits else super().missing()

    def _check_dues(self, now: float) -> None:
        if not (missing := self.missing()):
            return
        turns = self.allowance.forecast.turns if self._state.has_roster else self.study.K
        if self._wait.stands_still(now) or self._wait.lasts(now, turns):
            # A sealed message comes through Charlie's hands: its source may not have sent it, or he may keep it.
            raise self._late((CHARLIE,) if CHARLIE in missing else ())

    def keeps(self, error: MasqueradeError) -> bool:
        """Say whether this party has closed and only hears nothing more: its result is there, and nobody is told."""
        if not self._closed or self.over or not isinstance(error, DeadlinePassed) or error.said_by:
            return False
        self.unconfirmed = error
        return True

    def _shift(self, seconds: float) -> None:
        self._since += seconds
        self._heard += seconds
        self._seated_at += seconds

    def _beat(self, _to: Collection[str] = ()) -> None:
        if self._dialing.connected and self._may_send(Turn.BEAT):
            self.stats.beats += 1
            self._transmit(self._seal(Turn.BEAT, self._beat_for(self._lane)))
            self._ask()

    def _say_standing(self, type: str, body: bytes) -> None:  # noqa: A002 - the header's own word
        if self._dialing.connected and self._may_send(Turn.STANDING):
            self._transmit(self._seal(Turn.STANDING, body, type=type))

    def hear_verdict(self) -> MasqueradeError | None:
        """Return what Charlie says about the end that this party has just reported."""
        for data in self._link.arrivals() if self._link is not None else ():
            try:
                frame = self._endpoint.open(CHARLIE, data or b"", numbered=False)
                if frame.kind == "abort":
                    abort = read_abort(frame.body, self.everybody, CHARLIE)
                    own = abort.by == self.me or (abort.reason, abort.blamed) == ("left", (self.me,))
                    return None if own else self._ended(frame)
            except ProtocolViolation:
                return None
        return None

    def part(self, run: bytes, abort: Abort) -> bool:
        """Tell Charlie over a new connection, once it is there."""
        if self._endpoint.run == self.study_id:
            self._endpoint.begin(run)
        if self._link is None:
            self._link = self._connect()
        now = self._clock()
        for event in self._link.connection_events():
            self._dialing.note(event, now)
        if self._dialing.reopen_at is not None and now >= self._dialing.reopen_at:
            self._reopen()
        if not self._dialing.connected:
            return False
        self._state = JoinState.SEATED
        self.say_abort(abort)
        return True

    def say_abort(self, abort: Abort) -> None:
        """Tell Charlie, if he holds this party's hello and does not know yet."""
        if self._link is not None and self._may_send(Turn.ABORT):
            self._link.send(self._seal(Turn.ABORT, pack_abort(abort, self.everybody)))
