"""Charlie's session: admits the parties, sends the roster, relays whispers, and says who ended the run.

A party's hop goes through three states of knowledge: *unknown* (no valid hello yet, or it went away again), *joined*
(its hello is held; others are awaited), and, for all of them at once, *seated* (the roster is out; the numbering of
frames never starts anew).
"""

import time
from collections import deque
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import Protocol

from masquerade_core.errors import DeadlinePassed, LocalProtocolError, ProtocolViolation, RunFailed
from masquerade_core.seat import Join, Receive, Send
from masquerade_core.study import CHARLIE, Study
from masquerade_core.wire.codec import decode, encode
from masquerade_core.wire.frames import WIRE_VERSION, Endpoint, Frame
from masquerade_core.wire.relay import split_boxes
from masquerade_host.keyfiles import Keys
from masquerade_host.session import Link, Session, error_of, frames_were_lost, listed
from masquerade_host.session_messages import Abort, Beat, Closed, Fields, Hello, Refusal, Roster
from masquerade_host.stats import Observer, Relayed, quiet
from masquerade_host.transport import Arrival

__all__ = ["CharlieLink", "CharlieSession"]

_GRACE = 1.0  # seconds that a beat may be late
_MAX_REPLACED = 64  # connections of one party that are remembered
_MAX_WAITING = 64 * 1024 * 1024  # bytes that may wait for one party


class CharlieLink(Link, Protocol):
    """What Charlie's session needs of a transport; :class:`~masquerade_host.transport.CharlieSocket` is one."""

    @property
    def address(self) -> str:
        """Where it listens."""

    def arrivals(self) -> Iterable[Arrival]:
        """Take what has arrived."""

    def found(self, name: str, route: bytes) -> None:
        """Remember the way back to a party."""

    def forget(self, name: str) -> None:
        """Drop what waits for a party."""

    def send(self, name: str, data: bytes) -> None:
        """Send a frame to a party."""

    def reachable(self, name: str) -> bool:
        """Say whether a party's connection was there when something was last sent to it."""

    def waiting(self, name: str) -> int:
        """Return how many bytes wait for a party."""

    def denied(self) -> int:
        """Return how many strangers were turned away since the last call."""


@dataclass
class _Hop:
    """What Charlie knows of one party."""

    endpoint: Endpoint
    hello: bytes | None = None
    box_key: bytes = b""
    route: bytes = b""
    heard: float = 0.0
    received: int = 0  # numbered frames since the hello
    away: bool = False  # silent for too long before the roster went out
    done: bool = False
    waits_for: tuple[str, ...] = ()
    replaced: deque[bytes] = field(default_factory=lambda: deque(maxlen=_MAX_REPLACED))  # routes of before


class CharlieSession(Session):
    """Charlie's side of a run.

    Parameters
    ----------
    study : Study
    keys : Keys
        Charlie's.
    connect : callable
        Makes the link; called by :meth:`open`.
    version, observe, clock
        See :class:`~masquerade_host.session.Session`.

    Attributes
    ----------
    relayed : list of Relayed
        (source, destination, type, length) of every box that Charlie passed on, in order.
    """

    def __init__(
        self,
        study: Study,
        keys: Keys,
        connect: Callable[[], CharlieLink],
        *,
        version: str,
        observe: Observer = quiet,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(CHARLIE, study, keys, version, observe, clock)
        self.relayed: list[Relayed] = []
        self._connect = connect
        self._link: CharlieLink | None = None
        self._hops = {name: _Hop(self._endpoint(name)) for name in self.names}
        self._box_key: bytes | None = None
        self._seated = False
        self._finished = False
        self._gathering = clock()
        self._most = 0
        self._verdict: Abort | None = None

    def _endpoint(self, name: str) -> Endpoint:
        return Endpoint(CHARLIE, self.run, self._keys.signing, {name: self.study.party(name).key.sign})

    @property
    def link(self) -> CharlieLink | None:
        """The link, once it is open."""
        return self._link

    @property
    def _out(self) -> CharlieLink:
        if self._link is None:
            raise LocalProtocolError("Charlie's session was used before it was opened")
        return self._link

    def open(self) -> None:
        """Listen, so that a port in use is found at once and parties may come while Charlie's role prepares."""
        self._link = self._connect()
        self._gathering = self._clock()
        self._observe("listening", address=self._link.address)

    # --- The role's side ------------------------------------------------------

    def _join(self, box_key: bytes) -> None:
        self._box_key = box_key
        self._seat_if_complete()

    def _send(self, effect: Send) -> None:
        for to, body in zip(effect.to, effect.bodies, strict=True):
            self._put(to, self._hops[to].endpoint.seal(to, "message", body, type=effect.type))

    def finish(self) -> None:
        """Charlie's role has returned: close when every party's has."""
        self._finished = True
        self._close_if_done()

    def _put(self, name: str, data: bytes, *, counted: bool = True) -> None:
        if counted:
            self.stats.count(len(data))
        self._out.send(name, data)

    # --- The wire's side ------------------------------------------------------

    def _take(self, now: float) -> None:
        self._out.flush()
        for arrival in self._out.arrivals():
            self._accept(arrival, now)

    def _accept(self, arrival: Arrival, now: float) -> None:
        name, hop = arrival.name, self._hops[arrival.name]
        if arrival.route in hop.replaced:
            return  # a process of this party that was started before the one that counts, and does not know it yet
        if arrival.data is None:
            raise ProtocolViolation(f"{name} sent a message of several parts where one frame is allowed", peer=name)
        moved = arrival.route != hop.route
        try:
            frame = hop.endpoint.open(name, arrival.data, any_run=not self._seated)
        except ProtocolViolation as error:
            if self._seated and moved and frames_were_lost(arrival.data, hop.received):
                raise self._broke(name) from error
            raise
        if frame.kind == "hello":
            self._welcome(name, frame, arrival, moved=moved)
        else:
            self._out.found(name, arrival.route)
            if hop.hello is None or (frame.version, frame.run) != (WIRE_VERSION, self.run):
                raise ProtocolViolation(f"{name} sent a {frame.kind} before it joined", peer=name)
            hop.received += 1
            self._return(name, hop)
        hop.route, hop.heard = arrival.route, now
        if frame.kind != "beat":
            self.stats.count(frame.size)
        if frame.kind != "hello":
            self._handle(name, hop, frame)

    def _handle(self, name: str, hop: _Hop, frame: Frame) -> None:
        match frame.kind:
            case "beat":
                waits_for = decode(Beat, frame.body, name).waits_for
                hop.waits_for = tuple(n for n in waits_for if n in (*self.names, CHARLIE) and n != name)
            case "abort":
                self._hear_abort(name, hop, decode(Abort, frame.body, name))
            case "message" if self._seated and not hop.done:
                self._deliver(frame)
            case "whisper" if self._seated and not hop.done:
                self._relay(frame)
            case "closed" if self._seated and not hop.done:
                decode(Closed, frame.body, name)
                hop.done = True
                self._close_if_done()
            case _:
                raise ProtocolViolation(f"{name} sent a {frame.kind} out of turn", peer=name)

    def _welcome(self, name: str, frame: Frame, arrival: Arrival, *, moved: bool) -> None:
        """Take a hello: the same one again, a new one, or one of a party that has another study or version."""
        hop = self._hops[name]
        if self._seated or (hop.received and not moved):
            # A hello is said again until it is answered, so some may still be under way when the roster leaves.
            if arrival.data == hop.hello and not moved and not hop.received:
                return
            if moved:
                # Whoever is there now is told as well, on a hop that starts anew.
                self._link_anew(name, arrival.route)
                raise self._broke(name)
            raise ProtocolViolation(f"{name} said hello after it was answered: a replay", peer=name)
        if frame.type == "fields":
            where = decode(Fields, frame.body, name).differing(self.study.field_hashes())
            self._observe("refused", party=name, fields=", ".join(where[:8]))
            return
        if frame.type:  # every party would refuse to see it in the roster, and blame Charlie
            raise ProtocolViolation(f"{name} said a hello of a type that does not exist", peer=name)
        hello = decode(Hello, frame.body, name)
        if arrival.data == hop.hello and not moved:
            return  # it was answered
        self._link_anew(name, arrival.route)
        if (frame.version, frame.run) != (WIRE_VERSION, self.run):  # the run id stands for study and version
            self._refuse(name, hello)
        else:
            hop.hello, hop.box_key, hop.heard = arrival.data, hello.box_key, self._clock()
            self._put(name, hop.endpoint.seal(name, "beat", encode(Beat(waits_for=()), name)), counted=False)
            self._came(name)

    def _link_anew(self, name: str, route: bytes) -> None:
        """Start a hop's numbering anew, along the route by which its party came."""
        hop = self._hops[name]
        if hop.route not in (b"", route):
            hop.replaced.append(hop.route)
        hop.endpoint, hop.received, hop.waits_for, hop.away = self._endpoint(name), 0, (), False
        self._out.forget(name)
        self._out.found(name, route)

    def _refuse(self, name: str, hello: Hello) -> None:
        hop = self._hops[name]
        hop.hello = None
        fields = Fields.of(self.study.field_hashes() if hello.version == self.version else {})
        body = encode(Refusal(names=fields.names, hashes=fields.hashes, version=self.version), name)
        self._put(name, hop.endpoint.seal(name, "hello", body, type="refusal"))
        if hello.version != self.version:
            self._observe("refused", party=name, version=hello.version)

    def _came(self, name: str) -> None:
        joined = len(self._joined)
        if joined > self._most:
            self._most, self._gathering = joined, self._clock()
        self._observe("connected", party=name, joined=joined, parties=self.study.K)
        self._seat_if_complete()

    def _return(self, name: str, hop: _Hop) -> None:
        """A party that was silent before the roster went out is there again."""
        if hop.away:
            hop.away = False
            self._came(name)

    @property
    def _joined(self) -> tuple[str, ...]:
        return tuple(name for name, hop in self._hops.items() if hop.hello is not None and not hop.away)

    def _seat_if_complete(self) -> None:
        """Send the roster and start, as soon as every party and Charlie's own role are there."""
        if self._seated or len(self._joined) < self.study.K or not isinstance(self._pending, Join):
            return
        # Somebody may have died while others were awaited: an own beat finds out whose connection is gone.
        self._beat(encode(Beat(waits_for=()), ""))
        self._look_who_is_away(self._clock(), 2 * self.beat_every + _GRACE)
        if len(self._joined) < self.study.K:
            return
        hellos = tuple(hop.hello for hop in self._hops.values() if hop.hello is not None)
        self._seated = True
        roster = Roster(hellos=hellos, box_key=self._box_key or b"")
        for name, hop in self._hops.items():
            self._put(name, hop.endpoint.seal(name, "roster", encode(roster, name)))
        self._observe("joined", parties=self.study.K)
        self._reply((*((name, hop.box_key) for name, hop in self._hops.items()), (CHARLIE, self._box_key)))

    def _relay(self, frame: Frame) -> None:
        for to, box in split_boxes(frame, self.names):
            if self._out.waiting(to) > _MAX_WAITING:
                raise ProtocolViolation(f"{frame.source} whispers faster than {to} can listen", peer=frame.source)
            self.relayed.append(Relayed(frame.source, to, frame.type, len(box)))
            self._put(to, self._hops[to].endpoint.seal(to, "whisper", box, type=frame.type, source=frame.source))

    def _close_if_done(self) -> None:
        if self._finished and all(hop.done for hop in self._hops.values()):
            for name, hop in self._hops.items():
                self._put(name, hop.endpoint.seal(name, "closed", encode(Closed(), name)))
            self.closed = True

    # --- Clocks and bad ends ----------------------------------------------------

    def _tick(self, now: float) -> None:
        if strangers := self._out.denied():
            self._observe("stranger", count=strangers)
        silent = tuple(
            name
            for name, hop in self._hops.items()
            if hop.hello is not None and not hop.away and not hop.done and now - hop.heard > self.deadline / 2
        )
        if self._seated:
            if silent:
                raise DeadlinePassed(
                    f"nothing was heard of {listed(silent)} for {self.deadline / 2:g} seconds",
                    "see whether they still run, and start the run again",
                    waited_for=silent,
                )
            return
        self._look_who_is_away(now, self.deadline / 2)
        self._seat_if_complete()
        if len(self._joined) < self.study.K and now - self._gathering > self.deadline:
            absent = tuple(name for name in self.names if name not in self._joined)
            raise DeadlinePassed(
                f"Charlie waited {self.deadline:g} seconds in vain for {listed(absent)} to join",
                "start them, and then Charlie again; deadline_seconds says how long he waits",
                waited_for=absent,
            )

    def _look_who_is_away(self, now: float, silence: float) -> None:
        """Before the roster is out, count nobody in whose connection is gone or who was silent for so long."""
        for name in self._joined:
            if not self._out.reachable(name) or now - self._hops[name].heard > silence:
                self._hops[name].away = True
                self._observe("left", party=name)

    def _shift(self, seconds: float) -> None:
        self._gathering += seconds
        for hop in self._hops.values():
            hop.heard += seconds

    def _beat(self, body: bytes) -> None:
        for name in self._joined:
            self.stats.beats += 1
            self._out.send(name, self._hops[name].endpoint.seal(name, "beat", body))

    def _broke(self, name: str) -> RunFailed:
        self._verdict = Abort(reason="left", blamed=(name,), by=CHARLIE)
        return RunFailed(
            f"the connection to {name} broke in the middle of the run, or {name} was started anew",
            "start the run again, with everybody",
        )

    def _hear_abort(self, name: str, hop: _Hop, abort: Abort) -> None:
        if not set(abort.blamed) <= {*self.names, CHARLIE} or (not abort.blamed and abort.reason != "violation"):
            raise ProtocolViolation(f"{name} ended the run and blamed nobody of the study", peer=name)
        if not self._seated and abort.reason == "left":
            hop.hello, hop.received = None, 0
            self._observe("left", party=name)
            return
        hop.done = True
        blamed = self._culprits(abort.blamed) if abort.reason == "deadline" else abort.blamed
        if abort.reason == "left":
            blamed = (name,)
        abort = Abort(reason=abort.reason, blamed=blamed, by=name)
        self._verdict = abort
        raise error_of(abort)

    def _late(self, missing: tuple[str, ...]) -> DeadlinePassed:
        return super()._late(self._culprits(missing))

    def _culprits(self, missing: Collection[str]) -> tuple[str, ...]:
        """Follow who waits for whom to those who wait for nobody: it is them that everybody waits for."""
        waits = {name: hop.waits_for for name, hop in self._hops.items()}
        waits[CHARLIE] = self.missing() if isinstance(self._pending, Receive) else ()
        seen: set[str] = set()
        frontier, culprits = list(missing), set[str]()
        while frontier:
            name = frontier.pop()
            if name in seen:
                continue
            seen.add(name)
            frontier.extend(waits[name])
            if not waits[name]:
                culprits.add(name)
        return tuple(name for name in (*self.names, CHARLIE) if name in (culprits or missing))

    def say_abort(self, abort: Abort) -> None:
        """Tell every party that has joined, and let what was found out by a party bear its name."""
        if self._link is None:
            return
        body = self._verdict or abort
        for name in self._joined:
            self._link.send(name, self._hops[name].endpoint.seal(name, "abort", encode(body, name)))
