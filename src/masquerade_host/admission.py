"""Charlie's session up to the roster: who may come, who is there, and who is away.

The *roster* is the list of all parties with their signed hellos. Charlie sends it once every party has said hello and
his own role is ready. From then on no hop may start anew. What follows is in :mod:`masquerade_host.charlie_session`.
"""

import time
from abc import abstractmethod
from collections.abc import Callable

from masquerade_core.errors import DeadlinePassed, LocalProtocolError, MasqueradeError, ProtocolViolation, RunFailed
from masquerade_core.seat import Join
from masquerade_core.study import CHARLIE, Study
from masquerade_core.wire.codec import decode, encode
from masquerade_core.wire.frames import Endpoint, Frame, Kind, run_id
from masquerade_core.wire.messages import PARTIES
from masquerade_core.words import listed
from masquerade_host.closing import Told
from masquerade_host.hop import Hop, turn_of
from masquerade_host.keyfiles import Keys
from masquerade_host.links import CharlieLink
from masquerade_host.named_messages import Abort, pack_beat
from masquerade_host.session import Session
from masquerade_host.session_messages import Fields, Hello, Refusal, Roster
from masquerade_host.session_states import HopEvent, JoinState, Turn
from masquerade_host.stats import Observer, quiet
from masquerade_host.steps import NUMBERED, digest_of
from masquerade_host.transport import Arrival

__all__ = ["AdmittingSession"]

_GRACE = 1.0  # seconds that a beat may be late


class AdmittingSession(Session):
    """What Charlie's session does until every party is there.

    Parameters
    ----------
    study : Study
    keys : Keys
        Charlie's.
    connect : callable
        Makes the link; :meth:`open` calls it.
    version, observe, clock
        See :class:`~masquerade_host.session.Session`.
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
        self._connect = connect
        self._link: CharlieLink | None = None
        signers = {party.name: party.key.sign for party in study.parties}
        self._endpoint = Endpoint(CHARLIE, self.study_id, keys.signing, signers)
        self._hops = {name: Hop(name, self._endpoint) for name in self.names}
        self._told = Told()
        self._joins: Join | None = None
        self._gathering = clock()
        self._most = 0
        self._verdict: Abort | None = None

    @property
    def link(self) -> CharlieLink | None:
        """The link, once it is open."""
        return self._link

    @property
    def _out(self) -> CharlieLink:
        if self._link is None:
            raise LocalProtocolError("Charlie's session was used before it was opened")
        return self._link

    @property
    def _seated(self) -> bool:
        return any(hop.state.has_roster for hop in self._hops.values())

    @property
    def _joined(self) -> tuple[Hop, ...]:
        return tuple(hop for hop in self._hops.values() if hop.joined)

    def open(self) -> None:
        """Listen before the role starts: a port in use is found at once, and parties may come early."""
        self._link = self._connect()
        self._gathering = self._clock()
        self._observe("listening", address=self._link.address)

    def _join(self, effect: Join) -> None:
        self._joins = effect
        self._seat_if_complete()

    def _put(self, name: str, data: bytes, *, counted: bool = True) -> None:
        if counted:
            self.stats.count(len(data))
        self._leave(lambda: self._out.send(name, data))

    def _broadcast(self, kind: Kind, body: bytes, *, type: str = "") -> None:  # noqa: A002
        """Send every party the same bytes, signed once; those that the run goes on without get nothing any more."""
        there = [hop for hop in self._hops.values() if hop.lost is None]
        for hop in there:
            hop.say(Turn(kind))
        data = self._endpoint.broadcast(kind, body, type=type)
        self.steps.note("sent", PARTIES, type, digest_of(data))
        self.kept.add(CHARLIE, type, data)
        if kind != "closed":
            self._told.add(kind, type, body)
        for hop in there:
            self._put(hop.name, data)

    def _accept(self, arrival: Arrival, now: float) -> None:
        name, hop = arrival.name, self._hops[arrival.name]
        if hop.lost is not None or arrival.route in hop.replaced:
            return  # a party without which the run goes on, or an older process that was replaced by a newer one
        if arrival.data is None:
            raise ProtocolViolation(
                f"{name} sent a message of several parts; allowed is one frame a message", peer=name
            )
        moved = arrival.route != hop.route
        try:
            frame = hop.endpoint.open(name, arrival.data, any_run=not self._seated)
        except ProtocolViolation as error:
            if self._seated and moved and hop.endpoint.frames_were_lost(name, arrival.data):
                raise self._broke(name) from error
            raise
        if frame.kind == "hello":
            self._welcome(hop, frame, arrival, moved=moved)
            hop.route, hop.heard = arrival.route, now
            self.stats.count(frame.size)
            return
        self._out.found(name, arrival.route)
        if not frame.own:
            raise ProtocolViolation(
                f"{name} sent a frame of another run or version; allowed are frames of this run and version", peer=name
            )
        hop.received += 1
        if turn_of(frame) in NUMBERED:
            self.steps.note("received", name, data=arrival.data)
        hop.route, hop.heard = arrival.route, now
        if frame.kind != "beat":
            self.stats.count(frame.size)
        self._handle(hop, frame, arrival.data)

    @abstractmethod
    def _may_lose(self, hop: Hop) -> bool:
        """Say whether the run can go on without a party."""

    @abstractmethod
    def _lose(self, hop: Hop, error: MasqueradeError, label: str = "") -> None:
        """Go on without a party, or raise ``error`` where the run cannot."""

    @abstractmethod
    def _handle(self, hop: Hop, frame: Frame, data: bytes) -> None:
        """Take a frame that is in order and no hello; ``data`` are its bytes."""

    def _welcome(self, hop: Hop, frame: Frame, arrival: Arrival, *, moved: bool) -> None:
        """Take a hello: a new one, the same one again, or one of a party that has another study or version."""
        if moved and self._may_lose(hop):
            self._start_anew(hop, arrival.route)
            self._lose(hop, self._broke(hop.name))
            return
        if moved and hop.note(HopEvent.NEW_CONNECTION) is JoinState.ENDED:
            # The process that is there now is told as well, on a hop that starts anew.
            self._start_anew(hop, arrival.route)
            raise self._broke(hop.name)
        turn = hop.turn_of_hello(frame, arrival)
        match turn:
            case Turn.FIELDS:
                where = decode(Fields, frame.body, hop.name).differing(self.study.field_hashes())
                hop.receive(turn)
                self._observe("refused", party=hop.name, fields=", ".join(where[:8]))
            case Turn.FOREIGN_HELLO:
                hello = decode(Hello, frame.body, hop.name)
                hop.receive(turn)
                self._start_anew(hop, arrival.route)
                self._refuse(hop, hello)
            case Turn.HELLO:
                hello = decode(Hello, frame.body, hop.name)
                hop.receive(turn)
                self._start_anew(hop, arrival.route)
                hop.hello, hop.box_key, hop.heard = arrival.data, hello.box_key, self._clock()
                self._put(hop.name, hop.seal(Turn.BEAT, pack_beat((), self.everybody)), counted=False)
                self._came(hop)
            case _:
                hop.receive(turn)  # the same hello again, which was answered, or an illegal one

    def _welcome_again(self, hop: Hop, hello: bytes) -> None:
        """Take again a hello that stands in the roster that was sent before this process was started."""
        box_key = decode(Hello, hop.endpoint.open(hop.name, hello).body, hop.name).box_key
        hop.receive(Turn.HELLO)
        hop.hello, hop.box_key, hop.heard = hello, box_key, self._clock()
        self.steps.note("hello", hop.name, data=hello)

    def _start_anew(self, hop: Hop, route: bytes) -> None:
        hop.start_anew(route)
        self._out.forget(hop.name)
        self._out.found(hop.name, route)

    def _refuse(self, hop: Hop, hello: Hello) -> None:
        hop.forget_hello()
        fields = Fields.of(self.study.field_hashes() if hello.version == self.version else {})
        body = encode(Refusal(names=fields.names, hashes=fields.hashes, version=self.version), hop.name)
        self._put(hop.name, hop.seal(Turn.REFUSAL, body, type="refusal"))
        if hello.version != self.version:
            self._observe("refused", party=hop.name, version=hello.version)

    def _came(self, hop: Hop) -> None:
        joined = len(self._joined)
        if joined > self._most:
            self._most, self._gathering = joined, self._clock()
        self._observe("connected", party=hop.name, joined=joined, parties=self.study.K)
        self._seat_if_complete()

    def _seat_if_complete(self) -> None:
        """Send the roster and start, as soon as every party and Charlie's own role are there."""
        if self._seated or len(self._joined) < self.study.K or self._joins is None:
            return
        if self.steps.due is None:
            # A party may have died while others were awaited. A beat to each finds out whose connection is gone.
            self._beat(pack_beat((), self.everybody))
            self._look_who_is_away(self._clock(), 2 * self.beat_every + _GRACE)
        if len(self._joined) < self.study.K:
            return
        if self.steps.due is None:
            for hop in self._hops.values():
                self.steps.note("hello", hop.name, data=hop.hello or b"")
        hellos = tuple(hop.hello for hop in self._hops.values() if hop.hello is not None)
        body = encode(Roster(hellos=hellos, box_key=self._joins.box_key, nonce=self._joins.nonce), PARTIES)
        self._broadcast("roster", body)
        self._endpoint.begin(run_id(self.study_id, body))
        keys = (*((name, hop.box_key) for name, hop in self._hops.items()), (CHARLIE, self._joins.box_key))
        self._begin_run(keys, body, self._endpoint.run)

    def _look_who_is_absent(self, now: float) -> None:
        """Before the roster is out: send it if everybody is there, or name those who did not come in time."""
        self._look_who_is_away(now, self.deadline / 2)
        self._seat_if_complete()
        if len(self._joined) < self.study.K and now - self._gathering > self.deadline:
            absent = tuple(name for name, hop in self._hops.items() if not hop.joined)
            raise DeadlinePassed(
                f"{listed(absent)} did not join within {self.deadline:g} seconds",
                "start them, and then Charlie again; the study's deadline_seconds says how long Charlie waits",
                waited_for=absent,
            )

    def _look_who_is_away(self, now: float, silence: float) -> None:
        """Before the roster is out, do not count on a party whose connection is gone, or who was silent for so long."""
        for hop in self._joined:
            if not self._out.reachable(hop.name) or now - hop.heard > silence:
                hop.note(HopEvent.SILENCE)
                self._observe("left", party=hop.name)

    def _shift(self, seconds: float) -> None:
        self._gathering += seconds
        for hop in self._hops.values():
            hop.heard += seconds

    def _beat(self, body: bytes) -> None:
        for hop in self._hops.values():
            if hop.may_send(Turn.BEAT):
                self.stats.beats += 1
                self._put(hop.name, hop.seal(Turn.BEAT, body), counted=False)

    def _broke(self, name: str) -> RunFailed:
        self._verdict = Abort(reason="left", blamed=(name,), by=CHARLIE)
        return RunFailed(
            f"the connection to {name} broke in the middle of the run, or {name} was started again",
            "start the run again, with everybody",
        )
