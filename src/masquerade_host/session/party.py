"""A party's session, from its hello to the end of the run.

Charlie, the curator, is the only participant a party has a connection to. The table in
:mod:`masquerade_host.session.states` rules what the party may say and hear in each state of that connection. The party
says hello until Charlie answers, checks the roster (:class:`Seating`), and stays until
he has its last message. A party that was started again sends nothing new until it knows where the others stand
(:class:`~masquerade_host.session.agreement.ResumeBarrier`).

*The public schedule.* A party's frames leave at fixed times after the frame that they answer, not when they are ready.
Computing time grows with the number of records. An observer of the network sees when a frame arrives at a party and
when its answer leaves. The study's ``slot_seconds`` makes the time between them public: an answer leaves one slot after
the frame that it answers came, or two, or three. Roles know no clock; this is the session's business alone.

*Bad ends.* What a party makes of Charlie's refusals and aborts, and of his silence.
"""

import math
import time
from collections import deque
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from masquerade_core.crypto.boxes import SigningKey
from masquerade_core.errors import (
    BadInput,
    CannotConnect,
    DeadlinePassed,
    LocalProtocolError,
    MasqueradeError,
    ProtocolViolation,
    RunFailed,
    StateCopied,
)
from masquerade_core.roster_disclosure import asked_by, coin_of, shows_all
from masquerade_core.seat import Forecast, Join, Release, Send
from masquerade_core.study import CHARLIE, Study
from masquerade_core.wire.codec import decode, encode
from masquerade_core.wire.faults import Abort, Judge, pack_abort, read_abort
from masquerade_core.wire.frames import Endpoint, Frame, Kind, pack_boxes, run_id, target
from masquerade_host.channel import MAX_KEPT, Channel, first_connection
from masquerade_host.faults.endings import Known, attributed, heard
from masquerade_host.process.program import Program
from masquerade_host.process.progress import Observer, quiet
from masquerade_host.session.agreement import ResumeBarrier, check_closing
from masquerade_host.session.commits import Debits
from masquerade_host.session.messages import (
    Beat,
    Closed,
    Fields,
    Hello,
    Hellos,
    Refusal,
    Roster,
    box_keys_of,
    read_beat,
)
from masquerade_host.session.messages import Keys as BoxKeys
from masquerade_host.session.session import Session
from masquerade_host.session.states import End, HopEvent, HopState, JoinState, Turn, turn_of
from masquerade_host.store.journal import Entry, digest_of
from masquerade_host.store.keyfiles import Keys
from masquerade_host.transport.dialer import RETRY_EVERY, Dialing, WhoAnswers
from masquerade_host.transport.interface import ConnectionEvent, PartyLink

if TYPE_CHECKING:
    from masquerade_host.session.large_rosters import Shown

__all__ = [
    "PartySession",
    "Schedule",
    "Seating",
    "ended",
    "load_for",
    "not_confirmed",
    "refused",
    "silent",
    "unanswered",
]


# --- Schedule --------------------------------------------------------------------

_LATE = 0.1  # of a slot: a frame that this process lets go later than so waits for the next slot


class Schedule:
    """Holds what a party is about to send until its slot.

    Parameters
    ----------
    slot : float or None
        The study's ``slot_seconds``; ``None`` lets everything leave at once.
    """

    def __init__(self, slot: float | None) -> None:
        self._slot = slot
        self._opened = 0.0  # the slots are counted from here
        self._held: deque[tuple[float, Callable[[], None]]] = deque()

    def hold(self, now: float, opened: float, send: Callable[[], None]) -> None:
        """Call ``send`` in its slot, and never before what was held earlier.

        Parameters
        ----------
        now : float
            The time.
        opened : float
            When the last of the frames came that the role has taken so far.
        send : callable
        """
        if self._slot is None:
            send()
            return
        self._opened = opened
        due = self._next_slot(now, self._slot)
        self._held.append((max(due, self._held[-1][0]) if self._held else due, send))

    def _next_slot(self, now: float, slot: float) -> float:
        return self._opened + slot * (math.floor((now - self._opened) / slot) + 1)

    def release(self, now: float) -> None:
        """Send what is due. If this process comes late, the time would show how busy it was: the next slot, then."""
        while self._slot is not None and self._held and self._held[0][0] <= now:
            due, send = self._held[0]
            if now - due > _LATE * self._slot:
                later = self._next_slot(now, self._slot)
                self._held = deque((max(at, later), action) for at, action in self._held)
                return
            self._held.popleft()
            send()

    @property
    def immediate(self) -> bool:
        """Whether everything leaves at once."""
        return self._slot is None

    def let_go(self) -> bool:
        """Send the first frame that is held, whatever the time; return whether there was one."""
        if not self._held:
            return False
        self._held.popleft()[1]()
        return True

    @property
    def due(self) -> float | None:
        """When the next frame is due; ``None`` if none is held."""
        return self._held[0][0] if self._held else None


# --- Roster verification --------------------------------------------------------------


def load_for(study: Study) -> None:
    """Load what a party's session of a study needs, and others do not: before it says hello."""
    if not shows_all(study):
        _shown_class()


def _shown_class() -> "type[Shown]":
    from masquerade_host.session.large_rosters import Shown

    return Shown


class Seating:
    """A party's way into the run: its hello, and its checks of the roster and of the hellos that it is shown.

    Parameters
    ----------
    me : str
        This party.
    study : Study
    study_id : bytes
    signing : SigningKey
        This party's identity. It signs nothing here.

    Attributes
    ----------
    hello : bytes
        This party's own, as it signed it; a session sets it.
    coin : bytes
        Draws everybody's neighbours; empty before the roster.
    root : bytes
        The root of the Merkle tree over all hellos, where the roster has it; empty otherwise.
    keys : tuple of (str, bytes)
        Every shown participant's public box key, Charlie's last; empty until all are there.
    """

    def __init__(self, me: str, study: Study, study_id: bytes, signing: SigningKey) -> None:
        self.hello = b""
        self.coin = self.root = b""
        self.keys: BoxKeys = ()
        self._me = me
        self._study = study
        self._study_id = study_id
        self._signing = signing
        self._shown: Shown | None = None

    def take_roster(self, body: bytes) -> bytes:
        """Check the roster, and return the id of the run.

        Raises
        ------
        ProtocolViolation
            As for :func:`~masquerade_host.session.messages.box_keys_of`.
        """
        roster, own = decode(Roster, body, CHARLIE), (self._me, self.hello)
        self.keys = box_keys_of(roster, self._study, self._study_id, self._signing, own)
        run = run_id(self._study_id, body)
        self.coin = coin_of(run, roster.root)
        if not self.keys:
            self.root = roster.root
            self._shown = _shown_class()(roster, run, self._study, self._study_id, self._signing, own)
        return run

    def take_hellos(self, shown: Hellos) -> bool:
        """Take hellos that Charlie shows after the roster; return whether all are there now.

        Raises
        ------
        ProtocolViolation
            Charlie's fault: they are not those that are due.
        """
        if self._shown is None:
            raise LocalProtocolError("hellos were taken before a roster")
        self._shown.take(shown)
        self.keys = self._shown.keys
        return bool(self.keys)


# --- Bad ends of a run ----------------------------------------------------------------

_SHOWN = 8  # fields that a sentence names


def refused(refusal: Refusal, study: Study, version: str, me: str, *, seated: bool) -> MasqueradeError:
    """Return the error of a party that Charlie does not let in; ``seated`` says whether it had taken its seat."""
    if seated and refusal.reason == "begun":
        return StateCopied(
            f"another process of {me} has its seat in this run: two processes use copies of one state folder",
            "never copy a state folder, and keep only one process for it; the run goes on with the other process",
            copied=(me,),
        )
    if seated:
        return RunFailed(
            "Charlie no longer knows this run: he was started again, and kept no record of it",
            "start the run again, with everybody",
        )
    if refusal.reason == "broken":
        return RunFailed(
            "Charlie refused what this party sent before the run began, and is still waiting for it",
            "start this party again; if it happens twice, make sure that nobody else uses this party's key",
        )
    if refusal.reason == "begun":
        return RunFailed(
            "another process of this party has its place in the run, so this one cannot take part",
            "end this one, and leave the other one alone; if it is gone, wait until the run has ended everywhere",
        )
    if refusal.version != version:
        return BadInput(
            f"this program has the wire and protocol numbers {version}, and Charlie's has {refusal.version}; in a "
            "run they must be the same",
            "install one release of masquerade on all machines",
        )
    where = refusal.differing(study.field_hashes()) or ("a field that this version does not know",)
    shown = ", ".join(where[:_SHOWN]) + (f" and {len(where) - _SHOWN} more" if len(where) > _SHOWN else "")
    return BadInput(
        f"your study differs from Charlie's in: {shown}",
        "take the coordinator's file, or ask the coordinator to correct it",
    )


def ended(abort: Abort, data: bytes, judge: Judge, me: str, known: Known) -> MasqueradeError:
    """Return the error of a party to which Charlie said that the run is over; ``data`` is the frame that said it."""
    if judge.study.dropouts is not None and (abort.reason, abort.blamed, abort.by) == ("left", (me,), CHARLIE):
        return RunFailed(
            "the run goes on without this party: Charlie got nothing from it in time, or something malformed",
            "see whether this machine is fast enough; the study's patience_seconds says how long Charlie waits",
        )
    return heard(abort, data, CHARLIE, judge, me, known)


def unanswered(study: Study, deadline: float, *, met: bool) -> MasqueradeError:
    """Return the error of a party that Charlie did not answer; ``met`` says whether he was reached at all."""
    if met:
        return DeadlinePassed(
            f"Charlie at {study.address} did not answer for {deadline:g} seconds",
            "ask the coordinator whether Charlie still runs",
            waited_for=(CHARLIE,),
        )
    return CannotConnect(
        f"Charlie could not be reached at {study.address} within {deadline:g} seconds",
        "ask the coordinator whether Charlie runs, and whether a firewall here forbids this outgoing connection",
    )


def not_confirmed(error: DeadlinePassed, folder: Path, *, again: bool) -> DeadlinePassed:
    """Return the error of a party that keeps its result, and never heard that every party was told the same.

    Parameters
    ----------
    error : DeadlinePassed
        What ended the waiting.
    folder : Path
        Where the result is.
    again : bool
        Whether the same command can still get Charlie's word.
    """
    hint = "compare the folders of all participants: masquerade verify RUN RUN..."
    return DeadlinePassed(
        f"{error.message}. The result is kept in {folder}, but it is not confirmed: this party does not know whether "
        "every party was told the same",
        f"start this party again with the same command, while Charlie still runs, or {hint}" if again else hint,
        waited_for=error.waited_for,
    )


def silent(deadline: float, *, connected: bool) -> DeadlinePassed:
    """Return the error of a party that has heard nothing of Charlie for so long in the middle of a run."""
    if connected:
        return DeadlinePassed(
            f"nothing was heard from Charlie for {deadline:g} seconds",
            "ask the coordinator whether Charlie still runs",
            waited_for=(CHARLIE,),
        )
    return DeadlinePassed(
        f"the connection to Charlie was lost, and for {deadline:g} seconds nobody could be reached at his address",
        "see whether the network here works, and ask the coordinator whether Charlie still runs",
        waited_for=(CHARLIE,),
    )


# --- The session ----------------------------------------------------------------------

_PARTING = 5.0  # seconds for a last acknowledgement, after a restart
_NOTICE = 10.0  # seconds without a connection after which it is said
_NOTICES = 30.0  # seconds until it is said again


class PartySession(Session):
    """A party's side of a run.

    Parameters
    ----------
    me : str
        This party's name in the study.
    study : Study
    keys : Keys
        This party's.
    connect : callable
        Makes the link; called when the role joins, not before, and after a restart once the replay is over.
    who_answers : callable
        Looks at Charlie's address (:func:`~masquerade_host.transport.dialer.probe`).
    version, observe, clock, debits, program, forecast
        See :class:`~masquerade_host.session.session.Session`.
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
        signers = {CHARLIE: study.curator.key.sign}
        self._endpoint = Endpoint(me, self.study_id, keys.signing, signers)
        self._state = HopState(End.PARTY)
        self._schedule = Schedule(study.study.slot_seconds)
        self._barrier = ResumeBarrier(me, study, self.transcript.told, self._say_standing)
        self._seating = Seating(me, study, self.study_id, keys.signing)
        self._seated_at = 0.0
        self._closed = b""
        self._connect = connect
        self._link: PartyLink | None = None
        self._resumed = False  # an earlier process's part is over, if there was one
        self._dialing = Dialing(study.address, who_answers)
        self._channel = Channel(CHARLIE, self._transmit)
        self._wait = self.allowance.wait(self.allowance.of_charlie)
        self._next_hello = 0.0
        self._since = 0.0
        self._heard = 0.0
        self._next_notice = 0.0

    def _channel_to(self, _name: str) -> Channel:
        return self._channel

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
        sealed = self._seating.hello = self._endpoint.seal(CHARLIE, "hello", encode(hello, CHARLIE))
        self.steps.note("sent", CHARLIE, "hello", digest_of(sealed))
        self._state.note(HopEvent.JOIN)
        if self._resumed or not self.steps.passed:  # else this is a replay, in which nothing leaves
            self._dial()

    def _dial(self) -> None:
        self._observe("connecting", address=self.study.address)
        self._link = self._connect()
        self._channel.connection = first_connection()
        self._knock(self._clock())

    def _knock(self, since: float) -> None:
        self._since = since
        self._next_hello = 0.0
        self._next_notice = self._clock() + _NOTICE

    def _send(self, effect: Send, due: Sequence[Release]) -> None:
        self._hold(lambda: self._send_now(effect, due))

    def _hold(self, send: Callable[[], None]) -> None:
        """Call ``send`` once the others have said where they stand, in its slot."""
        waiting = sum(frame.broadcast for _, frame in self._inbox[CHARLIE, "message"])
        self._barrier.hold(send, waiting)
        self._let_out()

    def _let_out(self) -> None:
        due = self.steps.due
        if due is not None and due.kind != "sent" and self._schedule.immediate:
            return  # a replay: an earlier process, which was itself held, sent it only after what is due here
        for send in self._barrier.let_out():
            self._schedule.hold(self._clock(), self._last_came, send)

    def _send_now(self, effect: Send, due: Sequence[Release]) -> None:
        self._commits.owe(due)
        if effect.kind == "sealed":
            self._put(self._seal(Turn.SEALED, pack_boxes(effect.bodies), type=effect.type, to=target(effect.to)))
        else:
            for body in effect.bodies:
                self._put(self._seal(Turn.MESSAGE, body, type=effect.type))

    def finish(self) -> None:
        """The role has returned: say so, and stay until Charlie closes."""
        if self._state.now is JoinState.IDLE:
            self.closed = True  # it never joined
            return
        self._hold(self._close)
        self._post()

    def _close(self) -> None:
        closed = Closed(digest=self.transcript.told.digest(), release=self.release)
        self._closed = self._seal(Turn.CLOSED, encode(closed, CHARLIE))
        self._put(self._closed)
        self._wait.begin(self._clock())

    def _may_send(self, turn: Turn) -> bool:
        return self._link is not None and self._state.may_send(turn)

    def _seal(self, turn: Turn, body: bytes, *, type: str = "", to: str | None = None) -> bytes:  # noqa: A002
        """Move the state on, and make the frame; ``type`` and ``to`` as in :meth:`Endpoint.seal`."""
        self._state.send(turn)
        kind: Kind = "hello" if turn is Turn.FIELDS else turn.value
        data = self._endpoint.seal(CHARLIE, kind, body, type=type, to=to)
        self.kept.add(self.me, type, data)
        return data

    def _put(self, data: bytes) -> None:
        """Put a numbered frame on the hop."""
        if self._channel.kept + len(data) > MAX_KEPT:
            raise RunFailed(
                f"Charlie has not acknowledged {MAX_KEPT >> 20} MB that were sent to him, and no more can be kept",
                "see whether the network to him works, and start the run again",
            )
        self.transcript.sent(CHARLIE, data)
        self._commits.put(self._channel, data)

    def due_in(self) -> float | None:
        """Return in how many seconds the next frame's slot comes; ``None`` if no frame is held back."""
        return None if self._schedule.due is None else self._schedule.due - self._clock()

    # --- The wire's side ------------------------------------------------------

    def _take(self, now: float) -> None:
        if self._link is None:
            return
        for event in self._link.connection_events():
            self._notice(event, now)
        self._link.flush()
        for data in self._link.arrivals():
            try:
                self._accept(data, now)
            except (ProtocolViolation, StateCopied) as error:
                raise attributed(error, data, self.judge) from error.__cause__
            if self.closed:
                return

    def _notice(self, event: ConnectionEvent, now: float) -> None:
        self._dialing.note(event, now)
        if event is ConnectionEvent.UNRESOLVED:
            self._observe("unresolved", address=self.study.address)
        if event is ConnectionEvent.CONNECTED and self._state.now.has_roster:
            self._observe("reconnected", address=self.study.address)
            self._beat()
            self.closed = self.over
        if event is ConnectionEvent.LOST:
            was = self._state.now
            self._state.note(HopEvent.LOST)
            self._channel.break_off()
            self._next_notice = now + _NOTICE
            if self._state.now is JoinState.KNOCKING and was is not JoinState.KNOCKING:
                self._knock(now)  # before the roster everything is said again
            self._observe("cut_off", address=self.study.address)

    def _reopen(self) -> None:
        self._dialing.reopen_at = None
        if self._link is not None:
            self._state.note(HopEvent.LOST)  # again: a late beat says nothing of the next
            self._channel.break_off()
            self._channel.connection += 1
            self._next_hello = 0.0
            self._link.reopen()

    def _accept(self, data: bytes | None, now: float) -> None:
        if data is None:
            raise ProtocolViolation(
                f"{CHARLIE} sent a message of several parts; a message must be one frame", peer=CHARLIE
            )
        frame = self._endpoint.open(CHARLIE, data, any_run=self._state.now is JoinState.KNOCKING, numbered=False)
        turn = turn_of(frame)
        if turn is Turn.REFUSAL:
            seated = self._state.now.has_roster
            self._state.receive(Turn.REFUSAL, CHARLIE)
            raise self._refused(decode(Refusal, frame.body, CHARLIE), seated=seated)
        if not frame.own:
            raise ProtocolViolation(
                f"{CHARLIE} sent a frame of another run or version; only frames of this run and version are allowed",
                peer=CHARLIE,
            )
        self._heard = self._news.heard = now
        if frame.numbered and not self._endpoint.count(CHARLIE, frame):
            return  # it arrived before
        if frame.numbered:
            self._commits.accepted(self._channel, frame)
            self._wait.sign(now)
        if self._state.now is JoinState.KNOCKING:
            self._observe("connected", party=self.me)
            self._wait.begin(now)
        if frame.kind == "message":
            self.kept.add(CHARLIE, frame.type, data, broadcast=frame.broadcast)
        if frame.broadcast and self._barrier.held is not None:
            self._barrier.held.check(self.transcript.told.chain)
        self._handle(turn or Turn.HELLO, frame)

    def _handle(self, turn: Turn, frame: Frame) -> None:
        if turn is Turn.SEALED:
            self._check_source(frame)
        else:
            self._state.receive(turn, CHARLIE)
        match turn:
            case Turn.BEAT:
                beat = read_beat(frame.body, self.everybody, CHARLIE)
                if beat.connection in (0, self._channel.connection):  # 0: he answers a hello
                    self._hear_beat(beat)
            case Turn.STANDING:
                self._hear_standing(frame)
            case Turn.ABORT:
                raise self._ended(frame)
            case Turn.ROSTER:
                self._take_seat(frame.body)
            case Turn.HELLOS:
                self._take_hellos(frame)
            case Turn.MESSAGE | Turn.SEALED:
                self._deliver(frame)
            case Turn.CLOSED:
                self._take_last(frame)

    def _take_seat(self, body: bytes) -> None:
        run = self._seating.take_roster(body)
        self._endpoint.begin(run)
        self._last_came = self._seated_at = self._clock()
        self._wait.begin(self._last_came)
        self.run, self.kept.roster = run, body
        if self._seating.keys:
            self._run_begins()

    def _take_hellos(self, frame: Frame) -> None:
        if self._seating.take_hellos(decode(Hellos, frame.body, CHARLIE)):
            self._last_came = self._clock()
            self._run_begins()
            self._beat()  # Charlie keeps what he has shown until then

    def _run_begins(self) -> None:
        self._state.note(HopEvent.MET)
        self._begin_run(self._seating.keys, self.kept.roster, self.run, self._seating.root)

    def _take_last(self, frame: Frame) -> None:
        self._beat()  # he leaves when everybody holds this frame
        own = (self.me, self._closed, self.transcript.told.digest())
        check_closing(frame, self.study, self.run, self._keys.signing, own, self._seating.coin)
        self.over, self._since = True, self._clock()
        self.closed = self._dialing.connected  # if not, this party was started again: it says it on connecting

    def _hear_standing(self, frame: Frame) -> None:
        signers = {party.name: party.key.sign for party in self.study.parties}
        reader = Endpoint(CHARLIE, self.run, self._keys.signing, signers)
        if self._barrier.hear(frame, reader):
            self._let_out()

    def _hear_beat(self, beat: Beat) -> None:
        before = self._channel.acknowledged
        self._commits.acknowledged(self._channel, beat.got)
        if beat.moves > self._moves or self._channel.acknowledged > before:
            self._wait.sign(self._clock())
        self._moves = max(self._moves, beat.moves)

    def _check_source(self, frame: Frame) -> None:
        if frame.source not in self.names:
            raise ProtocolViolation(
                f"{CHARLIE} relayed a sealed message of somebody who is not a party of the study",
                peer=CHARLIE,
            )
        # Before all hellos are shown Charlie passes nothing on. After that the source may have sealed it, too late.
        self._state.receive(Turn.SEALED, CHARLIE, frame.suspects if self._seating.keys else ())

    def _refused(self, refusal: Refusal, *, seated: bool) -> MasqueradeError:
        if refusal.reason == "differs" and refusal.version == self.version and not seated:
            fields = encode(Fields.of(self.study.field_hashes()), CHARLIE)
            self._transmit(self._seal(Turn.FIELDS, fields, type="fields"))
        return refused(refusal, self.study, self.version, self.me, seated=seated)

    def _ended(self, frame: Frame) -> MasqueradeError:
        return ended(read_abort(frame.body, self.everybody, CHARLIE), frame.data, self.judge, self.me, self._known())

    def _known(self) -> Known:
        """Return what this party can hold against a claim that somebody was late."""
        owes_nothing = self._channel.all_acknowledged and bool(self.missing() or self._closed)
        # A process that was started again does not know when the run began.
        knows = self.run != self.study_id and not self.steps.passed
        since = self._clock() - self._seated_at if knows else math.inf
        return Known(since, (self.me,) if owes_nothing else ())

    # --- The journal's side -----------------------------------------------------

    def _take_again(self, row: Entry) -> None:
        self._accept(row.data, self._clock())

    def resumed(self, nonce: bytes) -> None:
        """Connect, and hold back what is new until those it asks have said where they stand, over this fresh nonce."""
        self._resumed = True
        if self._state.now is not JoinState.IDLE:
            self._dial()
        if self.run != self.study_id:  # else nothing was sent that could be sent again
            self._barrier.resumed(asked_by(self.study, self._seating.coin, self.me), nonce, self._clock())

    def let_go(self) -> bool:
        """Send the first message that is held back, for it was sent before."""
        return self._schedule.let_go() or self._barrier.let_go()

    # --- Clocks and bad ends ----------------------------------------------------

    def _tick(self, now: float) -> None:
        if self._link is None or self.closed:
            return
        self._schedule.release(self._clock())
        if self.over and now - self._since > _PARTING:
            self.closed = True  # he has left without it
        if self._dialing.reopen_at is not None and now >= self._dialing.reopen_at:
            self._reopen()
        if self._state.now is JoinState.KNOCKING:
            if self._dialing.connected and now >= self._next_hello:
                self._state.send(Turn.HELLO)
                self._next_hello = now + RETRY_EVERY
                self.stats.count(len(self._seating.hello))
                self._commits.commit()  # the key in it must outlive this process
                self._transmit(self._seating.hello)
            if now - self._since > self.deadline:
                raise unanswered(self.study, self.deadline, met=self._dialing.met)
        elif self._may_send(Turn.BEAT) and now - self._heard > self.deadline:
            raise silent(self.deadline, connected=self._dialing.connected)
        if not self._dialing.connected and now >= self._next_notice:
            self._next_notice = now + _NOTICES
            heard = self._since if self._state.now is JoinState.KNOCKING else self._heard
            self._observe("unreachable", address=self.study.address, left=round(self.deadline - (now - heard)))

    def missing(self) -> tuple[str, ...]:
        """Return whom this party waits for: for the roster, for hellos and for the last frame it is Charlie."""
        waits = self._state.now in (JoinState.HEARD, JoinState.MEETING, JoinState.DONE)
        return (CHARLIE,) if waits else super().missing()

    def _waiting(self, now: float) -> tuple[tuple[str, ...], float]:
        """Return whom this party waits for: Charlie, as long as he cannot be reached or has not answered the hello."""
        if self._link is not None and self._state.now is JoinState.KNOCKING:
            return (CHARLIE,), now - self._since
        return super()._waiting(now)

    def _check_dues(self, now: float) -> None:
        if not (missing := self.missing()):
            return
        turns = self.allowance.forecast.turns if self._state.now.has_roster else self.study.K
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
            self._transmit(self._seal(Turn.BEAT, self._beat_for(self._channel)))
            self._barrier.ask(self._clock())

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
        if self._state.now is JoinState.ENDED:
            return True  # he was told
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
        self._state.note(HopEvent.GIVE_UP)
        self.say_abort(abort)
        return True

    def say_abort(self, abort: Abort) -> None:
        """Tell Charlie, if he holds this party's hello and does not know yet."""
        if self._link is not None and self._may_send(Turn.ABORT):
            self._link.send(self._seal(Turn.ABORT, pack_abort(abort, self.everybody)))
