"""Charlie's session up to the roster: who may come, who is there, and who is away.

The *roster* is the list of all parties with their signed hellos. Charlie sends it once every party has said hello and
his own role is ready. From then on no hop may start anew. What follows is in :mod:`masquerade_host.session.charlie`.
"""

import secrets
import time
from abc import abstractmethod
from collections.abc import Callable

from masquerade_core.crypto.pair_keys import check_distinct, check_owned
from masquerade_core.errors import DeadlinePassed, LocalProtocolError, MasqueradeError, ProtocolViolation, RunFailed
from masquerade_core.roster_disclosure import coin_of
from masquerade_core.seat import Forecast, Join
from masquerade_core.study import CHARLIE, Study
from masquerade_core.wire.aborts import Abort
from masquerade_core.wire.codec import decode, encode
from masquerade_core.wire.frames import NONCE_BYTES, Endpoint, Frame, Kind, run_id
from masquerade_core.wire.messages import PARTIES
from masquerade_core.words import listed
from masquerade_host.channel.channel import MAX_KEPT, Channel
from masquerade_host.faults.evidence import seen_in
from masquerade_host.process.program import Program
from masquerade_host.process.progress import Observer, quiet
from masquerade_host.session.hop import Contest, Hop, Whose
from masquerade_host.session.large_rosters import Shower, check_size
from masquerade_host.session.messages import Fields, Hello, Refusal, RefusalReason, read_beat
from masquerade_host.session.rollback_check import ASK, Ask, padded
from masquerade_host.session.rosters import Keys as BoxKeys
from masquerade_host.session.session import Session
from masquerade_host.session.states import HopEvent, JoinState, Turn
from masquerade_host.session.transcript_agreement import BroadcastLog
from masquerade_host.store.keyfiles import Keys
from masquerade_host.transport.interface import Arrival, CharlieLink

__all__ = ["AdmittingSession"]

_GRACE = 1.0  # seconds that a beat may be late


class AdmittingSession(Session):
    """Charlie's session until every party is there.

    Parameters
    ----------
    study : Study
    keys : Keys
        Charlie's.
    connect : callable
        Makes the link; :meth:`open` calls it.
    version, observe, clock, program, forecast
        See :class:`~masquerade_host.session.session.Session`.
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
        program: Program | None = None,
        forecast: Forecast | None = None,
    ) -> None:
        super().__init__(CHARLIE, study, keys, version, observe, clock, program=program, forecast=forecast)
        self._connect = connect
        self._link: CharlieLink | None = None
        signers = {party.name: party.key.sign for party in study.parties}
        self._endpoint = Endpoint(CHARLIE, self.study_id, keys.signing, signers)
        self._hops = {name: Hop(name, self._endpoint, self._new_channel(name)) for name in self.names}
        self._told = BroadcastLog()
        self._coin = b""
        self._joins: Join | None = None
        self._gathering = clock()
        self._most = 0
        self._verdict: Abort | None = None
        self._fault: ProtocolViolation | None = None

    def _new_channel(self, name: str) -> Channel:
        return Channel(name, lambda data: self._out.send(name, data))

    def _channel_to(self, name: str) -> Channel:
        return self._hops[name].channel

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
    def _answers_within(self) -> float:
        """Within how many seconds something is heard of a process that lives: two beats, and a grace."""
        return 2 * self.beat_every + _GRACE

    @property
    def _seated(self) -> bool:
        return self.run != self.study_id

    @property
    def _joined(self) -> tuple[Hop, ...]:
        return tuple(hop for hop in self._hops.values() if hop.joined)

    def open(self) -> None:
        """Listen before the role starts: a port in use is found at once, and parties may come early."""
        check_size(self.study)
        self._link = self._connect()
        self._gathering = self._clock()
        self._observe("listening", address=self._link.address)

    def _join(self, effect: Join) -> None:
        self._joins = effect
        self._seat_if_complete()

    def _put(self, name: str, data: bytes) -> None:
        """Put a numbered frame on a hop."""
        hop = self._hops[name]
        if hop.channel.kept + len(data) > MAX_KEPT:
            self._lose(hop, self._too_much(hop))
            return
        if hop.channel.all_acknowledged:
            hop.moved = self._clock()
        self._commits.put(hop.channel, data)

    def _too_much(self, hop: Hop) -> MasqueradeError:
        return RunFailed(
            f"{hop.name} has not acknowledged {MAX_KEPT >> 20} MB that were sent to it, and more is not kept",
            "see whether the network to it works, and start the run again",
        )

    def _broadcast(self, kind: Kind, body: bytes, *, type: str = "") -> None:  # noqa: A002
        """Send every party the same bytes, signed once; those that the run goes on without get nothing any more."""
        there = [hop for hop in self._hops.values() if hop.lost is None]
        for hop in there:
            hop.say(Turn(kind))
        data = self._endpoint.broadcast(kind, body, type=type)
        self.kept.add(CHARLIE, type, data, broadcast=kind == "message")
        if kind != "closed":
            self._told.add(data)
        self.transcript.sent(PARTIES, data)
        for hop in there:
            self._put(hop.name, data)

    def _tell_one(self, hop: Hop, turn: Turn, body: bytes, *, type: str = "") -> None:  # noqa: A002
        """Send a numbered frame to one party."""
        data = hop.seal(turn, body, type=type)
        self.kept.add(CHARLIE, type, data)
        self.transcript.sent(hop.name, data)
        self._put(hop.name, data)

    def _accept(self, arrival: Arrival, now: float) -> None:
        hop = self._hops[arrival.name]
        if arrival.route in hop.unseated:
            self._hear_unseated(hop, arrival)
        if arrival.route in hop.replaced or (hop.lost is not None and arrival.route == hop.route):
            return  # an older connection, a refused one, or that of a party without which the run goes on
        try:
            self._hear(hop, arrival, now)
        except ProtocolViolation:
            if arrival.route == hop.route and self._seated:
                raise
            self._turn_away(hop, arrival.route, "broken", now)

    def _hear(self, hop: Hop, arrival: Arrival, now: float) -> None:
        if arrival.data is None:
            raise ProtocolViolation(
                f"{hop.name} sent a message of several parts; allowed is one frame a message", peer=hop.name
            )
        frame = self._endpoint.open(hop.name, arrival.data, any_run=True, numbered=False)
        if frame.kind == "hello":
            self._welcome(hop, frame, arrival, now)
            return
        if not frame.own:
            raise ProtocolViolation(
                f"{hop.name} sent a frame of another run or version; allowed are frames of this run and version",
                peer=hop.name,
            )
        if frame.numbered and not self._seated:
            raise ProtocolViolation(
                f"{hop.name} sent a {frame.kind} before the roster; allowed are hellos, beats and aborts", peer=hop.name
            )
        if arrival.route != hop.route and not self._follow(hop, frame, arrival, now):
            return
        hop.heard = now
        hop.received += 1
        if frame.numbered:
            if not self._endpoint.count(hop.name, frame):
                return  # it arrived before
            hop.beside(frame)
            self._commits.accepted(hop.channel, frame)
            hop.moved = now
            self._moves += 1
        self._handle(hop, frame, arrival.data)

    def _hear_unseated(self, hop: Hop, arrival: Arrival) -> None:
        """Look whether a process that has lost the seat still contributes to the run."""
        try:
            frame = self._endpoint.open(hop.name, arrival.data or b"", any_run=True, numbered=False)
        except ProtocolViolation:
            return
        if frame.own and frame.numbered and not self.over:
            hop.note_beside(frame)

    def _follow(self, hop: Hop, frame: Frame, arrival: Arrival, now: float) -> bool:
        """Follow a party that took its seat to a new connection, where its first frame is a beat; False if it is older.

        The last frames of a lost connection may come behind the first ones of the next. A process that was started
        again and cannot go on says so in an abort, and nothing else.
        """
        contest = hop.contest
        if contest is not None and contest.arrival.route == arrival.route and frame.kind != "beat":
            return False  # it asks where the others stand, and will ask again
        if frame.kind == "abort" and frame.run == self.run and hop.state.has_roster:
            lives = now - hop.heard <= self._answers_within and self._is_there(hop, hop.route)
            if lives:  # it is a copy's that cannot go on, and the one that can does
                self._turn_away(hop, arrival.route, "begun", now)
            return not lives
        if frame.kind != "beat" or frame.run != self.run or not hop.state.has_roster:
            raise ProtocolViolation(
                f"{hop.name} sent a {frame.kind} over a new connection; allowed is a hello, or a beat of this run",
                peer=hop.name,
            )
        route, whose = arrival.route, hop.whose(read_beat(frame.body, self.everybody, hop.name).connection)
        if not self._is_there(hop, route) or whose is Whose.OLDER:
            hop.replaced.append(route)
            if contest is not None and contest.arrival.route == route:
                hop.contest = None
            return False
        if whose is Whose.REPLACED:  # it lives, and does not know yet that another one has its seat
            self._turn_away(hop, route, "begun", now)
            return False
        if whose is Whose.ANOTHER and not self._may_unseat(hop, arrival, now):
            return False
        if whose is Whose.SEATED and contest is not None:
            self._turn_away(hop, contest.arrival.route, "begun", now)
        self._move(hop, route)
        return True

    def _may_unseat(self, hop: Hop, arrival: Arrival, now: float) -> bool:
        """Say whether another process may take a party's seat: it may if the seated one is gone, or does not answer."""
        if hop.contest is not None and hop.contest.arrival.route == arrival.route:
            hop.contest.arrival = arrival
        elif hop.contest is not None:
            self._turn_away(hop, arrival.route, "begun", now)  # a third one: one question at a time
        elif hop.route and hop.may_send(Turn.STANDING):
            nonce = secrets.token_bytes(NONCE_BYTES)
            ask = encode(Ask(asker=padded(CHARLIE), nonce=nonce), hop.name)
            self._out.send(hop.name, hop.seal(Turn.STANDING, ask, type=ASK))
            hop.contest = Contest(arrival, nonce, now + self._answers_within)
        hop.heard = now  # a process of the party says so, whichever it is
        if hop.contest is not None and self._out.reachable(hop.name) and now < hop.contest.until:
            return False
        if hop.state is not JoinState.CLOSED:  # else it has all that it needs
            self._refuse(hop, hop.route, "begun")
        hop.make_room()
        self._observe("unseated", party=hop.name)
        return True

    def _answered(self, hop: Hop, nonce: bytes, now: float) -> None:
        """Take the seated process's answer to the question whether it lives: the other one is turned away."""
        if hop.contest is not None and hop.contest.nonce == nonce:
            route, hop.contest = hop.contest.arrival.route, None
            self._turn_away(hop, route, "begun", now)

    def _look_who_answers(self, now: float) -> None:
        """Let another process take a seat whose process does not answer."""
        for hop in self._hops.values():
            if hop.contest is not None and now >= hop.contest.until:
                if hop.state.has_roster:
                    self._take_one(hop.contest.arrival, now)
                else:
                    hop.contest = None

    def _is_there(self, hop: Hop, route: bytes) -> bool:
        """Say whether a connection still exists, by a beat along it."""
        return self._out.tell(route, self._endpoint.seal(hop.name, "beat", self._beat_for(hop.channel)))

    def _move(self, hop: Hop, route: bytes) -> None:
        hop.move(route)
        self._out.forget(hop.name)
        self._out.found(hop.name, route)

    @abstractmethod
    def _may_lose(self, hop: Hop) -> bool:
        """Say whether the run can go on without a party."""

    @abstractmethod
    def _lose(self, hop: Hop, error: MasqueradeError, label: str = "") -> None:
        """Go on without a party, or raise ``error`` where the run cannot."""

    @abstractmethod
    def _take_one(self, arrival: Arrival, now: float) -> None:
        """Take what has arrived; whose fault is in it is lost, or ends the run."""

    @abstractmethod
    def _handle(self, hop: Hop, frame: Frame, data: bytes) -> None:
        """Take a frame that is in order and no hello; ``data`` are its bytes."""

    def _welcome(self, hop: Hop, frame: Frame, arrival: Arrival, now: float) -> None:
        """Take a hello: a new one, the same one again, or one of a process that cannot take part."""
        turn = hop.turn_of_hello(frame, arrival)
        moved = turn in (Turn.HELLO, Turn.SAME_HELLO) and hop.route not in (b"", arrival.route)
        if moved and not self._is_there(hop, arrival.route):
            # The last frames of a lost connection may come behind the first ones of the next.
            hop.replaced.append(arrival.route)
            return
        if moved:
            self._refuse(hop, hop.route, "begun")  # a process that still hears it has lost its place
        match turn:
            case Turn.FIELDS:
                where = decode(Fields, frame.body, hop.name).differing(self.study.field_hashes())
                hop.receive(turn)
                self._observe("refused", party=hop.name, fields=", ".join(where[:8]))
            case Turn.FOREIGN_HELLO:
                hello = decode(Hello, frame.body, hop.name)
                hop.receive(turn)
                self._turn_away(hop, arrival.route, "differs", now, hello.version)
            case Turn.STALE_HELLO:
                hop.receive(turn)
                self._turn_away(hop, arrival.route, "begun", now)
            case Turn.HELLO:
                hello = decode(Hello, frame.body, hop.name)
                hop.receive(turn)
                hop.hello, hop.box_key, hop.waits_for = arrival.data, hello.box_key, {}
                hop.unowned = self._unowned(hop.name, frame.data, hello)
                self.stats.count(frame.size)
                self._answer_hello(hop, arrival.route, now)
                self._came(hop)
            case Turn.SAME_HELLO if arrival.route != hop.route:
                hop.receive(turn)
                self._answer_hello(hop, arrival.route, now)
            case _:
                hop.receive(turn)  # the same hello again, which was answered, or an illegal one

    def _welcome_again(self, hop: Hop, hello: bytes) -> None:
        """Take again a hello that stands in the roster that was sent before this process was started."""
        frame = self._endpoint.open(hop.name, hello, numbered=False)
        hop.receive(Turn.HELLO)
        hop.hello, hop.box_key = hello, decode(Hello, frame.body, hop.name).box_key
        hop.heard = self._clock()
        self.steps.note("hello", hop.name, data=hello)

    def _answer_hello(self, hop: Hop, route: bytes, now: float) -> None:
        """Tell a party that its hello has come. It is its first beat on this connection, and it holds nothing yet."""
        self._move(hop, route)
        hop.heard = now
        self._out.send(hop.name, hop.seal(Turn.BEAT, self._beat_for(hop.channel)))
        self._commits.confirm(hop.channel, 0)

    def _turn_away(self, hop: Hop, route: bytes, reason: RefusalReason, now: float, version: str = "") -> None:
        """Refuse a connection, and tell the other end why; one answer a second for each party.

        A hop that this connection belongs to starts anew, and the other parties go on waiting.
        """
        if route == hop.route and not self._seated:
            hop.note(HopEvent.TURNED_AWAY)
            hop.forget_hello()
            self._observe("left", party=hop.name)
        if reason != "differs":  # a process with another study still answers with its fields
            self._out.hang_up(hop.name, route)
        if now - hop.refused_at < 1:
            return
        hop.refused_at = now
        self._refuse(hop, route, reason, version)
        if reason != "differs":
            hop.replaced.append(route)
            self._observe("turned_away", party=hop.name, reason=reason)
        elif version != self.version:
            self._observe("refused", party=hop.name, version=version)

    def _refuse(self, hop: Hop, route: bytes, reason: RefusalReason, version: str = "") -> None:
        fields = Fields.of(self.study.field_hashes() if reason == "differs" and version == self.version else {})
        refusal = Refusal(names=fields.names, hashes=fields.hashes, version=self.version, reason=reason)
        self._out.tell(route, hop.seal(Turn.REFUSAL, encode(refusal, hop.name), type="refusal"))

    def _came(self, hop: Hop) -> None:
        joined = len(self._joined)
        if joined > self._most:
            self._most, self._gathering = joined, self._clock()
            self._moves += 1
        self._observe("connected", party=hop.name, joined=joined, parties=self.study.K)
        self._seat_if_complete()

    def _unowned(self, name: str, data: bytes, hello: Hello) -> ProtocolViolation | None:
        """Return the error with which the attempt ends once everybody is there; None where the party owns its key.

        Those who are there by then check the hello themselves. Until then the party may come with another one.
        """
        party = self.study.parties[self.study.place_of[name]]
        try:
            with seen_in(data):
                check_owned(hello, self.study_id, name, party.key.sign)
        except ProtocolViolation as error:
            return error
        return None

    def _fault_in(self, keys: BoxKeys) -> ProtocolViolation | None:
        """Return the error for a key that its party does not own, or that two have; None where all is well."""
        unowned = next((hop.unowned for hop in self._hops.values() if hop.unowned), None)
        if unowned is None:
            try:
                check_distinct(keys, {name: hop.hello for name, hop in self._hops.items() if hop.hello is not None})
            except ProtocolViolation as error:
                return error
        return unowned

    def _seat_if_complete(self) -> None:
        """Send the roster and start, as soon as every party and Charlie's own role are there, with sound keys."""
        if self._seated or len(self._joined) < self.study.K or self._joins is None:
            return
        if self.steps.due is None:
            # A party may have died while others were awaited. A beat to each finds out whose connection is gone.
            self._beat()
            self._look_who_is_away(self._clock(), self._answers_within)
        if len(self._joined) < self.study.K:
            return
        keys = (*((name, hop.box_key) for name, hop in self._hops.items()), (CHARLIE, self._joins.box_key))
        self._fault = self._fault_in(keys)
        if self._fault is not None:
            return
        if self.steps.due is None:
            for hop in self._hops.values():
                self.steps.note("hello", hop.name, data=hop.hello or b"")
        hellos = tuple(hop.hello for hop in self._hops.values() if hop.hello is not None)
        shower = Shower(self.study, hellos)
        proof = self._joins.prove(study_id=self.study_id, signing=self._keys.signing.public)
        body = encode(shower.roster(self._joins.box_key, self._joins.nonce, proof, self.program.digest), PARTIES)
        self._broadcast("roster", body)
        self._endpoint.begin(run_id(self.study_id, body))
        for hop in self._hops.values():
            for shown in shower.shown(self._endpoint.run, hop.name):
                self._tell_one(hop, Turn.HELLOS, encode(shown, hop.name))
        self._coin = coin_of(self._endpoint.run, shower.root)
        self._begin_run(keys, body, self._endpoint.run, shower.root)

    def _look_who_is_absent(self, now: float) -> None:
        """Before the roster is out: send it if everybody is there, or name those who did not come in time.

        Raises
        ------
        ProtocolViolation
            Everybody is there, and somebody's key is not its own.
        DeadlinePassed
        """
        self._look_who_is_away(now, self.deadline / 2)
        self._seat_if_complete()
        if self._fault is not None:
            raise self._fault
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
