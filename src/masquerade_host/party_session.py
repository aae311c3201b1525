"""A party's session: it says hello until Charlie answers, checks the roster itself, and stays until he closes.

Charlie, the curator, is the only participant a party has a connection to. The table in
:mod:`masquerade_host.session_states` rules what the party may say and hear in each state of that connection.
"""

import time
from collections.abc import Callable

from masquerade_core.errors import (
    BadInput,
    CannotConnect,
    DeadlinePassed,
    MasqueradeError,
    ProtocolViolation,
    RunFailed,
)
from masquerade_core.seat import Join, Send
from masquerade_core.study import CHARLIE, Study
from masquerade_core.wire.codec import decode, encode
from masquerade_core.wire.frames import Endpoint, Frame, Kind, run_id
from masquerade_core.wire.relay import pack_boxes, target
from masquerade_host.closing import Told, check_all_closed
from masquerade_host.debits import Debits
from masquerade_host.dialer import ConnectionEvent
from masquerade_host.dialing import RETRY_EVERY, Dialing
from masquerade_host.hop import turn_of
from masquerade_host.journal import Entry
from masquerade_host.keyfiles import Keys
from masquerade_host.links import PartyLink
from masquerade_host.named_messages import Abort, pack_abort, read_abort, read_beat
from masquerade_host.roster import box_keys_of
from masquerade_host.schedule import Schedule
from masquerade_host.session import Session
from masquerade_host.session_messages import AllClosed, Closed, Fields, Hello, Refusal, Roster
from masquerade_host.session_states import End, HopEvent, JoinState, Turn, after, may_send, received, sending
from masquerade_host.stats import Observer, quiet
from masquerade_host.steps import NUMBERED, digest_of
from masquerade_host.verdicts import error_of, suspects_of

__all__ = ["PartySession"]

_SILENCE = 0.8  # of the study's deadline: how long Charlie may be silent


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
        Makes the link; called when the role joins, not before.
    answers_as_curve : callable
        Looks at Charlie's address and says whether a CURVE server answers there.
    version, observe, clock, debits
        See :class:`~masquerade_host.session.Session`.
    """

    def __init__(
        self,
        me: str,
        study: Study,
        keys: Keys,
        connect: Callable[[], PartyLink],
        answers_as_curve: Callable[[], bool],
        *,
        version: str,
        observe: Observer = quiet,
        clock: Callable[[], float] = time.monotonic,
        debits: Debits | None = None,
    ) -> None:
        super().__init__(me, study, keys, version, observe, clock, debits)
        self._connect = connect
        self._link: PartyLink | None = None
        self._state = JoinState.IDLE
        self._dialing = Dialing(study.address, answers_as_curve)
        self._endpoint = self._new_endpoint()
        self._hello = b""
        self._schedule = Schedule(study.study.slot_seconds)
        self._told = Told()
        self._closed = b""
        self._next_hello = 0.0
        self._since = 0.0
        self._heard = 0.0

    def _new_endpoint(self) -> Endpoint:
        return Endpoint(self.me, self.study_id, self._keys.signing, {CHARLIE: self.study.curator.key.sign})

    @property
    def link(self) -> PartyLink | None:
        """The link, once the role has joined."""
        return self._link

    def open(self) -> None:
        """Do nothing: a party connects when its role joins, so Charlie never sees a party that refuses at home."""

    # --- The role's side ------------------------------------------------------

    def _join(self, effect: Join) -> None:
        hello = Hello(version=self.version, box_key=effect.box_key, nonce=effect.nonce)
        self._hello = self._endpoint.seal(CHARLIE, "hello", encode(hello, CHARLIE))
        self.steps.note("sent", CHARLIE, "hello", digest_of(self._hello))
        self._observe("connecting", address=self.study.address)
        self._link = self._connect()
        self._state = after(End.PARTY, self._state, HopEvent.JOIN)
        self._knock(self._clock())

    def _knock(self, since: float) -> None:
        self._since = since
        self._dialing.connected = False
        self._next_hello = 0.0
        self._endpoint = self._new_endpoint()

    def _send(self, effect: Send) -> None:
        self._hold(lambda: self._send_now(effect))

    def _hold(self, send: Callable[[], None]) -> None:
        self._schedule.hold(self._clock(), self._last_came, send)

    def _send_now(self, effect: Send) -> None:
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
        self._closed = self._seal(Turn.CLOSED, encode(Closed(digest=self._told.digest()), CHARLIE))
        self._put(self._closed)

    def _may_send(self, turn: Turn) -> bool:
        return self._link is not None and may_send(End.PARTY, self._state, turn)

    def _seal(self, turn: Turn, body: bytes, *, type: str = "", to: str | None = None) -> bytes:  # noqa: A002
        """Move the state on, and make the frame; ``type`` and ``to`` as in :meth:`Endpoint.seal`."""
        self._state = sending(End.PARTY, self._state, turn)
        kind: Kind = "hello" if turn is Turn.FIELDS else turn.value
        data = self._endpoint.seal(CHARLIE, kind, body, type=type, to=to)
        if turn in NUMBERED:
            self.steps.note("sent", CHARLIE, type, digest_of(data))
        return data

    def _put(self, data: bytes) -> None:
        if (link := self._link) is not None:
            self.stats.count(len(data))
            self._leave(lambda: link.send(data))

    # --- The wire's side ------------------------------------------------------

    def _take(self, now: float) -> None:
        if self._link is None:
            return
        for event in self._link.connection_events():
            self._notice(event, now)
        self._link.flush()
        for data in self._link.arrivals():
            self._accept(data, now)
            if self.closed:
                return

    def _notice(self, event: ConnectionEvent, now: float) -> None:
        self._dialing.note(event, now)
        if event is ConnectionEvent.UNRESOLVED:
            self._observe("unresolved", address=self.study.address)
        was = self._state
        if event is ConnectionEvent.LOST:
            self._state = after(End.PARTY, was, HopEvent.LOST)
            if self._state is JoinState.KNOCKING:
                # Before the roster everything can be said again, on a new connection. What still lies in the old one
                # bears numbers that no longer count.
                self._knock(self._since if was is JoinState.KNOCKING else now)
                self._reopen()

    def _reopen(self) -> None:
        self._dialing.reopen_at = None
        if self._link is not None:
            self._link.reopen()

    def _accept(self, data: bytes | None, now: float) -> None:
        if data is None:
            raise ProtocolViolation(
                f"{CHARLIE} sent a message of several parts; allowed is one frame a message", peer=CHARLIE
            )
        try:
            frame = self._endpoint.open(CHARLIE, data, any_run=self._state is JoinState.KNOCKING)
        except ProtocolViolation as error:
            if self._dialing.broken and self._endpoint.frames_were_lost(CHARLIE, data or b""):
                raise RunFailed(
                    "the connection to Charlie broke in the middle of the run", "start the run again, with everybody"
                ) from error
            raise
        turn = turn_of(frame)
        if turn in NUMBERED:
            self.steps.note("received", CHARLIE, data=data)
        if turn is Turn.REFUSAL:
            self._receive(Turn.REFUSAL)
            raise self._refused(decode(Refusal, frame.body, CHARLIE))
        if not frame.own:
            raise ProtocolViolation(
                f"{CHARLIE} sent a frame of another run or version; allowed are frames of this run and version",
                peer=CHARLIE,
            )
        self._heard = now
        self._dialing.broken = False
        if frame.kind != "beat":
            self.stats.count(frame.size)
        if self._state is JoinState.KNOCKING:
            self._observe("connected", party=self.me)
        if frame.kind == "message":
            self.kept.add(CHARLIE, frame.type, data)
        self._handle(turn or Turn.HELLO, frame)

    def _receive(self, turn: Turn, suspects: tuple[str, ...] = ()) -> None:
        self._state = received(End.PARTY, self._state, turn, CHARLIE, suspects)

    def _handle(self, turn: Turn, frame: Frame) -> None:
        if turn is Turn.SEALED:
            self._check_source(frame)
        else:
            self._receive(turn)
        if frame.broadcast and turn is not Turn.CLOSED:
            self._told.add(frame.kind, frame.type, frame.body)
        match turn:
            case Turn.BEAT:
                read_beat(frame.body, self.everybody, CHARLIE)
            case Turn.ABORT:
                raise self._ended(read_abort(frame.body, self.everybody, CHARLIE))
            case Turn.ROSTER:
                self._take_seat(frame.body)
            case Turn.MESSAGE | Turn.SEALED:
                self._deliver(frame)
            case Turn.CLOSED:
                own = (self.me, self._closed, self._told.digest())
                answer = decode(AllClosed, frame.body, CHARLIE)
                check_all_closed(answer, self.study, self.run, self._keys.signing, own)
                self.closed = True

    def _check_source(self, frame: Frame) -> None:
        if frame.source not in self.names:
            raise ProtocolViolation(
                f"{CHARLIE} relayed a sealed message of somebody who is not in the study; allowed are its parties",
                peer=CHARLIE,
            )
        # Before the roster nobody can have sealed. After it, the source may have, too late.
        self._receive(Turn.SEALED, suspects_of(frame.source, "sealed") if self._state.has_roster else ())

    def _refused(self, refusal: Refusal) -> MasqueradeError:
        if refusal.version != self.version:
            return BadInput(
                f"this is masquerade {self.version}, but Charlie runs {refusal.version}; all must run the same version",
                f"install masquerade {refusal.version} here, or {self.version} there",
            )
        own = self.study.field_hashes()
        self._put(self._seal(Turn.FIELDS, encode(Fields.of(own), CHARLIE), type="fields"))
        where = refusal.differing(own) or ("a field that this version does not know",)
        shown = ", ".join(where[:8]) + (f" and {len(where) - 8} more" if len(where) > 8 else "")  # noqa: PLR2004
        return BadInput(
            f"your study differs from Charlie's in: {shown}",
            "take the coordinator's file, or ask the coordinator to correct it",
        )

    def _ended(self, abort: Abort) -> MasqueradeError:
        if abort.reason != "violation" and not abort.blamed:
            return ProtocolViolation(
                f"{CHARLIE} ended the run and named no participant as the reason; allowed is an end that names one",
                peer=CHARLIE,
            )
        if self.study.dropouts is not None and (abort.reason, abort.blamed, abort.by) == ("left", (self.me,), CHARLIE):
            return RunFailed(
                "the run goes on without this party: Charlie had nothing of it in time, or something broken",
                "see whether this machine is fast enough; the study's patience_seconds says how long Charlie waits",
            )
        return error_of(abort)

    def _take_seat(self, body: bytes) -> None:
        roster = decode(Roster, body, CHARLIE)
        keys = box_keys_of(roster, self.study, self.study_id, self._keys.signing, (self.me, self._hello))
        self._endpoint.begin(run_id(self.study_id, body))
        self._last_came = self._clock()
        self._begin_run(keys, body, self._endpoint.run)

    # --- The journal's side -----------------------------------------------------

    def again(self, row: Entry) -> None:
        """Take again a frame that came before this process was started."""
        if self._state is JoinState.KNOCKING:
            self._receive(Turn.BEAT)  # by which Charlie had answered the hello
        self._accept(row.data, self._clock())

    def let_go(self) -> bool:
        """Send what waits for its slot, for it was sent before."""
        return self._schedule.let_go()

    def due_in(self) -> float | None:
        """Return in how many seconds the next frame's slot comes; ``None`` if no frame is held back."""
        return None if self._schedule.due is None else self._schedule.due - self._clock()

    # --- Clocks and bad ends ----------------------------------------------------

    def _tick(self, now: float) -> None:
        if self._link is None or self.closed:
            return
        self._schedule.release(self._clock())
        if self._dialing.reopen_at is not None and now >= self._dialing.reopen_at:
            self._reopen()
        if self._state is JoinState.KNOCKING:
            if self._dialing.connected and now >= self._next_hello:
                self._state = sending(End.PARTY, self._state, Turn.HELLO)
                self._next_hello = now + RETRY_EVERY
                self._put(self._hello)
            if now - self._since > self.deadline:
                raise self._unanswered()
        elif self._may_send(Turn.BEAT) and now - self._heard > _SILENCE * self.deadline:
            raise DeadlinePassed(
                f"nothing was heard of Charlie for {_SILENCE * self.deadline:g} seconds",
                "ask the coordinator whether Charlie still runs",
                waited_for=(CHARLIE,),
            )

    def _unanswered(self) -> MasqueradeError:
        if self._dialing.met:
            return DeadlinePassed(
                f"Charlie at {self.study.address} did not answer for {self.deadline:g} seconds",
                "ask the coordinator whether Charlie still runs",
                waited_for=(CHARLIE,),
            )
        return CannotConnect(
            f"Charlie could not be reached at {self.study.address} within {self.deadline:g} seconds",
            "ask the coordinator whether Charlie runs, and whether a firewall here forbids this outgoing connection",
        )

    def _shift(self, seconds: float) -> None:
        self._since += seconds
        self._heard += seconds

    def _beat(self, body: bytes) -> None:
        if self._link is not None and self._may_send(Turn.BEAT):
            self.stats.beats += 1
            data, link = self._seal(Turn.BEAT, body), self._link
            self._leave(lambda: link.send(data))

    def hear_verdict(self) -> MasqueradeError | None:
        """Return what Charlie says about the end that this party has just reported."""
        for data in self._link.arrivals() if self._link is not None else ():
            try:
                frame = self._endpoint.open(CHARLIE, data or b"")
                if frame.kind == "abort":
                    return self._ended(read_abort(frame.body, self.everybody, CHARLIE))
            except ProtocolViolation:
                return None
        return None

    def say_abort(self, abort: Abort) -> None:
        """Tell Charlie, if he holds this party's hello and does not know yet."""
        if self._link is not None and self._may_send(Turn.ABORT):
            data, link = self._seal(Turn.ABORT, pack_abort(abort, self.everybody)), self._link
            self._leave(lambda: link.send(data))
