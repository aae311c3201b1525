"""A party's session: says hello until it is answered, checks the roster with its own eyes, and stays until the close.

What it knows grows in this order: *idle* (nothing was sent; the role still trains), *knocking* (connecting and saying
hello), *heard* (Charlie holds the hello; others are awaited), *seated* (the roster is checked), *done* (the role has
returned, and Charlie knows).
"""

import time
from collections.abc import Callable, Iterable
from enum import IntEnum
from typing import Protocol

from masquerade_core.errors import (
    BadInput,
    CannotConnect,
    DeadlinePassed,
    MasqueradeError,
    ProtocolViolation,
    RunFailed,
)
from masquerade_core.seat import Send
from masquerade_core.study import CHARLIE, Study
from masquerade_core.wire.codec import decode, encode
from masquerade_core.wire.frames import WIRE_VERSION, Endpoint, Frame
from masquerade_core.wire.relay import pack_boxes, target
from masquerade_host.dialer import ConnectionEvent
from masquerade_host.keyfiles import Keys
from masquerade_host.session import Link, Session, error_of, frames_were_lost
from masquerade_host.session_messages import Abort, Beat, Closed, Fields, Hello, Refusal, Roster
from masquerade_host.stats import Observer, quiet

__all__ = ["PartyLink", "PartySession"]

_HELLO_EVERY = 1.0  # seconds
_BROKEN_HANDSHAKES = 3  # in a row, before the other side is looked at more closely


class PartyLink(Link, Protocol):
    """What a party's session needs of a transport; :class:`~masquerade_host.dialer.PartySocket` is one."""

    def connection_events(self) -> Iterable[ConnectionEvent]:
        """Take what the connection went through."""

    def arrivals(self) -> Iterable[bytes | None]:
        """Take what has arrived."""

    def send(self, data: bytes) -> None:
        """Send a frame to Charlie."""

    def reopen(self) -> None:
        """Make a new connection, and drop what waits on the old one."""


class JoinState(IntEnum):
    """What this party knows of the run; it only grows, but for a connection lost before the roster came."""

    IDLE = 0
    KNOCKING = 1
    HEARD = 2
    SEATED = 3
    DONE = 4


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
    version, observe, clock
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
    ) -> None:
        super().__init__(me, study, keys, version, observe, clock)
        self._connect = connect
        self._answers_as_curve = answers_as_curve
        self._link: PartyLink | None = None
        self._known = JoinState.IDLE
        self._endpoint = self._new_endpoint()
        self._box_key = b""
        self._hello = b""
        self._connected = False
        self._met = False
        self._broken = False
        self._received = 0
        self._failures = 0
        self._next_hello = 0.0
        self._reopen_at: float | None = None
        self._since = 0.0
        self._heard = 0.0

    def _new_endpoint(self) -> Endpoint:
        return Endpoint(self.me, self.run, self._keys.signing, {CHARLIE: self.study.curator.key.sign})

    @property
    def link(self) -> PartyLink | None:
        """The link, once the role has joined."""
        return self._link

    def open(self) -> None:
        """Nothing: a party connects when its role joins, so that what is refused here is refused unseen."""

    # --- The role's side ------------------------------------------------------

    def _join(self, box_key: bytes) -> None:
        self._box_key = box_key
        self._hello = self._endpoint.seal(
            CHARLIE, "hello", encode(Hello(version=self.version, box_key=box_key), CHARLIE)
        )
        self._observe("connecting", address=self.study.address)
        self._link = self._connect()
        self._knock(self._clock())

    def _knock(self, since: float) -> None:
        self._known = JoinState.KNOCKING
        self._since = since
        self._connected = False
        self._next_hello = 0.0
        self._endpoint = self._new_endpoint()
        self._received = 0

    def _send(self, effect: Send) -> None:
        if effect.kind == "whisper":
            body = pack_boxes(effect.bodies)
            self._put(self._endpoint.seal(CHARLIE, "whisper", body, type=effect.type, to=target(effect.to)))
        else:
            for body in effect.bodies:
                self._put(self._endpoint.seal(CHARLIE, "message", body, type=effect.type))

    def finish(self) -> None:
        """The role has returned: say so, and stay until Charlie closes."""
        if self._link is None:
            self.closed = True
            return
        self._known = JoinState.DONE
        self._put(self._endpoint.seal(CHARLIE, "closed", encode(Closed(), CHARLIE)))

    def _put(self, data: bytes) -> None:
        if self._link is not None:
            self.stats.count(len(data))
            self._link.send(data)

    # --- The wire's side ------------------------------------------------------

    def _take(self, now: float) -> None:
        if self._link is None:
            return
        for connection_event in self._link.connection_events():
            self._notice(connection_event, now)
        self._link.flush()
        for data in self._link.arrivals():
            self._accept(data, now)
            if self.closed:
                return

    def _notice(self, connection_event: ConnectionEvent, now: float) -> None:
        match connection_event:
            case ConnectionEvent.CONNECTED:
                self._connected = self._met = True
                self._failures = 0
            case ConnectionEvent.DENIED:
                raise self._not_admitted()
            case ConnectionEvent.UNRESOLVED:
                self._observe("unresolved", address=self.study.address)
            case ConnectionEvent.LOST:
                self._broken = True
                if self._known in (JoinState.KNOCKING, JoinState.HEARD):
                    # Before the roster everything can be said again, on a new connection: what still lies in the
                    # old one bears numbers that no longer count.
                    self._knock(self._since if self._known is JoinState.KNOCKING else now)
                    self._reopen()
            case ConnectionEvent.FAILED | ConnectionEvent.FOREIGN:
                self._failures += 1
                if self._failures >= _BROKEN_HANDSHAKES:
                    self._judge_failures(connection_event)
                if connection_event is ConnectionEvent.FOREIGN:
                    self._reopen_at = now + _HELLO_EVERY

    def _reopen(self) -> None:
        self._reopen_at = None
        if self._link is not None:
            self._link.reopen()

    def _judge_failures(self, connection_event: ConnectionEvent) -> None:
        if connection_event is ConnectionEvent.FOREIGN:
            raise CannotConnect(
                f"what answers at {self.study.address} is not Charlie: it does not speak this program's protocol",
                "check the address and port in the study",
            )
        if self._answers_as_curve():
            raise self._not_admitted()
        self._failures = 0

    def _not_admitted(self) -> CannotConnect:
        return CannotConnect(
            f"not admitted by {self.study.address}, or wrong key: this party's key is not on Charlie's roster, or the "
            "study has another key for Charlie than he uses",
            "compare the fingerprints of 'masquerade keys show' with the coordinator's, by telephone",
        )

    def _accept(self, data: bytes | None, now: float) -> None:
        if data is None:
            raise ProtocolViolation(
                f"{CHARLIE} sent a message of several parts where one frame is allowed", peer=CHARLIE
            )
        try:
            frame = self._endpoint.open(CHARLIE, data, any_run=self._known is JoinState.KNOCKING)
        except ProtocolViolation as error:
            if self._broken and frames_were_lost(data, self._received):
                raise RunFailed("the connection to Charlie broke in the middle of the run", "start it again") from error
            raise
        if frame.kind == "hello" and frame.type == "refusal" and self._known is JoinState.KNOCKING:
            raise self._refused(decode(Refusal, frame.body, CHARLIE))
        if (frame.version, frame.run) != (WIRE_VERSION, self.run):
            raise ProtocolViolation(f"{CHARLIE} answered for another run", peer=CHARLIE)
        self._heard = now
        self._received += 1
        self._broken = False
        if frame.kind != "beat":
            self.stats.count(frame.size)
        if self._known is JoinState.KNOCKING:
            self._known = JoinState.HEARD
            self._observe("connected", party=self.me)
        self._handle(frame)

    def _handle(self, frame: Frame) -> None:
        match frame.kind:
            case "beat":
                decode(Beat, frame.body, CHARLIE)
            case "abort":
                raise self._ended(decode(Abort, frame.body, CHARLIE))
            case "roster" if self._known is JoinState.HEARD:
                self._check_roster(decode(Roster, frame.body, CHARLIE))
            case "message" if self._known is JoinState.SEATED:
                self._deliver(frame)
            case "whisper" if self._known is JoinState.SEATED and frame.source in self.names:
                self._deliver(frame)
            case "closed" if self._known is JoinState.DONE:
                decode(Closed, frame.body, CHARLIE)
                self.closed = True
            case _:
                raise ProtocolViolation(f"{CHARLIE} sent a {frame.kind} out of turn", peer=CHARLIE)

    def _refused(self, refusal: Refusal) -> MasqueradeError:
        if refusal.version != self.version:
            return BadInput(
                f"this is masquerade {self.version}, but Charlie runs {refusal.version}; all must run the same version",
                f"install masquerade {refusal.version} here, or {self.version} there",
            )
        own = self.study.field_hashes()
        self._put(self._endpoint.seal(CHARLIE, "hello", encode(Fields.of(own), CHARLIE), type="fields"))
        where = refusal.differing(own) or ("something that has no name here",)
        shown = ", ".join(where[:8]) + (f" and {len(where) - 8} more" if len(where) > 8 else "")  # noqa: PLR2004
        return BadInput(
            f"your study differs from Charlie's in: {shown}", "take the coordinator's file, or have it corrected there"
        )

    def _ended(self, abort: Abort) -> MasqueradeError:
        if abort.reason != "violation" and not abort.blamed:
            return ProtocolViolation(f"{CHARLIE} ended the run and blamed nobody", peer=CHARLIE)
        self._known = JoinState.IDLE  # he knows: nothing needs to be said any more
        return error_of(abort)

    def _check_roster(self, roster: Roster) -> None:
        """Check every party's own signature on its box key of this run, so that Charlie can exchange none."""
        if len(roster.hellos) != self.study.K:
            raise ProtocolViolation(
                f"{CHARLIE} sent a roster of {len(roster.hellos)} where the study has {self.study.K}", peer=CHARLIE
            )
        signers = {party.name: party.key.sign for party in self.study.parties}
        reader = Endpoint(CHARLIE, self.run, self._keys.signing, signers)
        keys = []
        for name, signed in zip(self.names, roster.hellos, strict=True):
            try:
                frame = reader.open(name, signed)
                box_key = decode(Hello, frame.body, name).box_key
            except ProtocolViolation as error:
                raise self._forged(name) from error
            if frame.kind != "hello" or frame.type != "" or (name == self.me and signed != self._hello):
                raise self._forged(name)
            keys.append((name, box_key))
        self._known = JoinState.SEATED
        self._observe("joined", parties=self.study.K)
        self._reply((*keys, (CHARLIE, roster.box_key)))

    def _forged(self, name: str) -> ProtocolViolation:
        return ProtocolViolation(f"{CHARLIE} showed a hello of {name} that {name} did not sign", peer=CHARLIE)

    # --- Clocks and bad ends ----------------------------------------------------

    def _tick(self, now: float) -> None:
        if self._link is None or self.closed:
            return
        if self._reopen_at is not None and now >= self._reopen_at:
            self._reopen()
        if self._known is JoinState.KNOCKING:
            if self._connected and now >= self._next_hello:
                self._next_hello = now + _HELLO_EVERY
                self._put(self._hello)
            if now - self._since > self.deadline:
                raise self._unanswered()
        elif self._known > JoinState.KNOCKING and now - self._heard > 0.8 * self.deadline:
            raise DeadlinePassed(
                f"nothing was heard of Charlie for {0.8 * self.deadline:g} seconds",
                "ask the coordinator whether Charlie still runs",
                waited_for=(CHARLIE,),
            )

    def _unanswered(self) -> MasqueradeError:
        if self._met:
            return DeadlinePassed(
                f"Charlie at {self.study.address} did not answer for {self.deadline:g} seconds", waited_for=(CHARLIE,)
            )
        return CannotConnect(
            f"Charlie could not be reached at {self.study.address} within {self.deadline:g} seconds",
            "ask the coordinator whether Charlie runs, and whether a firewall here forbids this outgoing connection",
        )

    def _shift(self, seconds: float) -> None:
        self._since += seconds
        self._heard += seconds

    def _beat(self, body: bytes) -> None:
        if self._link is not None and self._known > JoinState.KNOCKING:
            self.stats.beats += 1
            self._link.send(self._endpoint.seal(CHARLIE, "beat", body))

    def hear_verdict(self) -> MasqueradeError | None:
        """Return what Charlie says about the end that this party has just reported."""
        for data in self._link.arrivals() if self._link is not None else ():
            try:
                frame = self._endpoint.open(CHARLIE, data or b"")
                if frame.kind == "abort":
                    return self._ended(decode(Abort, frame.body, CHARLIE))
            except ProtocolViolation:
                return None
        return None

    def say_abort(self, abort: Abort) -> None:
        """Tell Charlie, if he holds this party's hello and does not know yet."""
        if self._link is not None and self._known > JoinState.KNOCKING:
            self._link.send(self._endpoint.seal(CHARLIE, "abort", encode(abort, CHARLIE)))
            self._known = JoinState.IDLE
