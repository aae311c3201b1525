"""Admission: who may come, who is there and who is away, and whose connection is whose.

The *roster* is the list of all parties with their signed hellos. Charlie sends it once every party has said hello and
his own role is ready. From then on no hop may start anew, but a party may come over another connection, and another
process of it may take its seat. :class:`Admission` decides of every frame that arrives whether it is the run's to take.
What follows from it is the business of :mod:`masquerade_host.session.charlie`.
"""

import secrets
from collections.abc import Callable, Iterator

from masquerade_core.crypto.pair_keys import check_distinct
from masquerade_core.errors import DeadlinePassed, ProtocolViolation
from masquerade_core.study import CHARLIE, Study
from masquerade_core.wire.codec import decode, encode
from masquerade_core.wire.frames import NONCE_BYTES, Endpoint, Frame
from masquerade_core.words import listed
from masquerade_host.channel import Channel
from masquerade_host.process.progress import Observer, Stats
from masquerade_host.session.agreement import ASK, Ask, padded
from masquerade_host.session.commits import Commits
from masquerade_host.session.hop import Contest, Hop, Hops, Whose
from masquerade_host.session.messages import Fields, Hello, Refusal, RefusalReason, check_key_of, read_beat
from masquerade_host.session.messages import Keys as BoxKeys
from masquerade_host.session.states import HopEvent, JoinState, Turn
from masquerade_host.transport.interface import Arrival

__all__ = ["Admission"]

_GRACE = 1.0  # seconds that a beat may be late


class Admission:
    """Lets parties come, and decides whose connection is whose.

    Parameters
    ----------
    study : Study
    version : str
        The numbers of the wire and of the protocol's meaning, which every party must have.
    hops : Hops
    endpoint : Endpoint
        Charlie's end of all hops. Its run is the study's id until the roster is out.
    commits : Commits
    stats : Stats
    observe : Observer
    clock : callable
        Seconds, monotonic.
    beat_every : float
        Seconds between two beats of a participant.
    beat_for : callable
        Returns the body of a beat over a channel.
    came : callable
        Called when a party has joined; its argument says whether there are more now than ever before.

    Attributes
    ----------
    fault : ProtocolViolation or None
        Why the roster cannot go out although everybody is there.
    """

    def __init__(
        self,
        study: Study,
        version: str,
        hops: Hops,
        endpoint: Endpoint,
        commits: Commits,
        stats: Stats,
        observe: Observer,
        clock: Callable[[], float],
        *,
        beat_every: float,
        beat_for: Callable[[Channel], bytes],
        came: Callable[[bool], None],
    ) -> None:
        self.fault: ProtocolViolation | None = None
        self._study = study
        self._everybody = (*study.names, CHARLIE)
        self._version = version
        self._study_id = endpoint.run
        self._hops = hops
        self._endpoint = endpoint
        self._commits = commits
        self._stats = stats
        self._observe = observe
        self._clock = clock
        self._beat_for = beat_for
        self._report = came
        self._answers_within = 2 * beat_every + _GRACE  # something is heard of a process that lives
        self._gathering = clock()
        self._most = 0

    def begin(self) -> None:
        """Wait for the parties from now on."""
        self._gathering = self._clock()

    def shift(self, seconds: float) -> None:
        """Move on by a pause in which this process did not run."""
        self._gathering += seconds

    # --- What arrives -----------------------------------------------------------

    def admit(self, hop: Hop, arrival: Arrival, now: float) -> Frame | None:
        """Look at a frame; return it if the run is to take it, and None if it was a hello, or is nobody's any more.

        Parameters
        ----------
        hop : Hop
        arrival : Arrival
            Over the connection of the moment, or over a new one.
        now : float

        Raises
        ------
        ProtocolViolation
            The party's fault.
        """
        if arrival.data is None:
            raise ProtocolViolation(
                f"{hop.name} sent a message of several parts; a message must be one frame", peer=hop.name
            )
        frame = self._endpoint.open(hop.name, arrival.data, any_run=True, numbered=False)
        if frame.kind == "hello":
            self._welcome(hop, frame, arrival, now)
            return None
        if not frame.own:
            raise ProtocolViolation(
                f"{hop.name} sent a frame of another run or version; only frames of this run and version are allowed",
                peer=hop.name,
            )
        if frame.numbered and self._endpoint.run == self._study_id:
            raise ProtocolViolation(
                f"{hop.name} sent a {frame.kind} before the roster; only hellos, beats and aborts are allowed",
                peer=hop.name,
            )
        if arrival.route != hop.route and not self._follow(hop, frame, arrival, now):
            return None
        return frame

    def hear_unseated(self, hop: Hop, arrival: Arrival) -> None:
        """Look whether a process that has lost the seat still contributes to the run."""
        try:
            frame = self._endpoint.open(hop.name, arrival.data or b"", any_run=True, numbered=False)
        except ProtocolViolation:
            return
        if frame.own and frame.numbered:
            hop.note_beside(frame)

    def _follow(self, hop: Hop, frame: Frame, arrival: Arrival, now: float) -> bool:
        """Follow a party that took its seat to a new connection, where its first frame is a beat; False if it is older.

        The last frames of a lost connection may come behind the first ones of the next. A process that was started
        again and cannot go on says so in an abort, and nothing else.
        """
        contest = hop.contest
        if contest is not None and contest.arrival.route == arrival.route and frame.kind != "beat":
            return False  # it asks where the others stand, and will ask again
        if frame.kind == "abort" and frame.run == self._endpoint.run and hop.state.has_roster:
            lives = now - hop.heard <= self._answers_within and self._is_there(hop, hop.route)
            if lives:  # it is a copy's that cannot go on, and the one that can does
                self.turn_away(hop, arrival.route, "begun", now)
            return not lives
        if frame.kind != "beat" or frame.run != self._endpoint.run or not hop.state.has_roster:
            raise ProtocolViolation(
                f"{hop.name} sent a {frame.kind} over a new connection; only a hello, or a beat of this run, is "
                "allowed",
                peer=hop.name,
            )
        route, whose = arrival.route, hop.whose(read_beat(frame.body, self._everybody, hop.name).connection)
        if not self._is_there(hop, route) or whose is Whose.OLDER:
            hop.replaced.append(route)
            if contest is not None and contest.arrival.route == route:
                hop.contest = None
            return False
        if whose is Whose.REPLACED:  # it lives, and does not know yet that another one has its seat
            self.turn_away(hop, route, "begun", now)
            return False
        if whose is Whose.ANOTHER and not self._may_unseat(hop, arrival, now):
            return False
        if whose is Whose.SEATED and contest is not None:
            self.turn_away(hop, contest.arrival.route, "begun", now)
        self._move(hop, route)
        return True

    def _may_unseat(self, hop: Hop, arrival: Arrival, now: float) -> bool:
        """Say whether another process may take a party's seat: it may if the seated one is gone, or does not answer."""
        if hop.contest is not None and hop.contest.arrival.route == arrival.route:
            hop.contest.arrival = arrival
        elif hop.contest is not None:
            self.turn_away(hop, arrival.route, "begun", now)  # a third one: one question at a time
        elif hop.route and hop.may_send(Turn.STANDING):
            nonce = secrets.token_bytes(NONCE_BYTES)
            ask = encode(Ask(asker=padded(CHARLIE), nonce=nonce), hop.name)
            self._hops.say(hop, Turn.STANDING, ask, type=ASK)
            hop.contest = Contest(arrival, nonce, now + self._answers_within)
        hop.heard = now  # a process of the party says so, whichever it is
        if hop.contest is not None and self._hops.out.reachable(hop.name) and now < hop.contest.until:
            return False
        if hop.state is not JoinState.CLOSED:  # else it has all that it needs
            self._refuse(hop, hop.route, "begun")
        hop.make_room()
        self._observe("unseated", party=hop.name)
        return True

    def answered(self, hop: Hop, nonce: bytes, now: float) -> None:
        """Take the seated process's answer to the question whether it lives: the other one is turned away."""
        if hop.contest is not None and hop.contest.nonce == nonce:
            route, hop.contest = hop.contest.arrival.route, None
            self.turn_away(hop, route, "begun", now)

    def settled(self, now: float) -> Iterator[Arrival]:
        """Yield the beat of each process that may now take the seat of one that has not answered."""
        for hop in self._hops.values():
            if hop.contest is not None and now >= hop.contest.until:
                if hop.state.has_roster:
                    yield hop.contest.arrival
                else:
                    hop.contest = None

    def _is_there(self, hop: Hop, route: bytes) -> bool:
        """Say whether a connection still exists, by a beat along it."""
        return self._hops.out.tell(route, self._endpoint.seal(hop.name, "beat", self._beat_for(hop.channel)))

    def _move(self, hop: Hop, route: bytes) -> None:
        hop.move(route)
        self._hops.out.forget(hop.name)
        self._hops.out.found(hop.name, route)

    # --- Hellos and refusals ------------------------------------------------------

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
                where = decode(Fields, frame.body, hop.name).differing(self._study.field_hashes())
                hop.receive(turn)
                self._observe("refused", party=hop.name, fields=", ".join(where[:8]))
            case Turn.FOREIGN_HELLO:
                hello = decode(Hello, frame.body, hop.name)
                hop.receive(turn)
                self.turn_away(hop, arrival.route, "differs", now, hello.version)
            case Turn.STALE_HELLO:
                hop.receive(turn)
                self.turn_away(hop, arrival.route, "begun", now)
            case Turn.HELLO:
                hello = decode(Hello, frame.body, hop.name)
                hop.receive(turn)
                hop.hello, hop.box_key, hop.waits_for = arrival.data, hello.box_key, {}
                hop.unowned = self._unowned(hop.name, frame.data, hello)
                self._stats.count(frame.size)
                self._answer_hello(hop, arrival.route, now)
                self.came(hop)
            case Turn.SAME_HELLO if arrival.route != hop.route:
                hop.receive(turn)
                self._answer_hello(hop, arrival.route, now)
            case _:
                hop.receive(turn)  # the same hello again, which was answered, or an illegal one

    def welcome_again(self, hop: Hop, hello: bytes) -> None:
        """Take again a hello that stands in the roster that was sent before this process was started."""
        frame = self._endpoint.open(hop.name, hello, numbered=False)
        hop.receive(Turn.HELLO)
        hop.hello, hop.box_key = hello, decode(Hello, frame.body, hop.name).box_key
        hop.heard = self._clock()
        self._commits.steps.note("hello", hop.name, data=hello)

    def _answer_hello(self, hop: Hop, route: bytes, now: float) -> None:
        """Tell a party that its hello has come. It is its first beat on this connection, and it holds nothing yet."""
        self._move(hop, route)
        hop.heard = now
        self._hops.say(hop, Turn.BEAT, self._beat_for(hop.channel))
        self._commits.confirm(hop.channel, 0)

    def turn_away(self, hop: Hop, route: bytes, reason: RefusalReason, now: float, version: str = "") -> None:
        """Refuse a connection, and tell the other end why; one answer a second for each party.

        A hop that this connection belongs to starts anew, and the other parties go on waiting.
        """
        if route == hop.route and self._endpoint.run == self._study_id:
            hop.note(HopEvent.TURNED_AWAY)
            hop.forget_hello()
            self._observe("left", party=hop.name)
        if reason != "differs":  # a process with another study still answers with its fields
            self._hops.out.hang_up(hop.name, route)
        if now - hop.refused_at < 1:
            return
        hop.refused_at = now
        self._refuse(hop, route, reason, version)
        if reason != "differs":
            hop.replaced.append(route)
            self._observe("turned_away", party=hop.name, reason=reason)
        elif version != self._version:
            self._observe("refused", party=hop.name, version=version)

    def _refuse(self, hop: Hop, route: bytes, reason: RefusalReason, version: str = "") -> None:
        fields = Fields.of(self._study.field_hashes() if reason == "differs" and version == self._version else {})
        refusal = Refusal(names=fields.names, hashes=fields.hashes, version=self._version, reason=reason)
        self._hops.out.tell(route, hop.seal(Turn.REFUSAL, encode(refusal, hop.name), type="refusal"))

    def came(self, hop: Hop) -> None:
        """Count on a party from now on, and say so."""
        joined = len(self._hops.company)
        more = joined > self._most
        if more:
            self._most, self._gathering = joined, self._clock()
        self._observe("connected", party=hop.name, joined=joined, parties=self._study.K)
        self._report(more)

    # --- Whether everybody is there -------------------------------------------------

    def complete(self, beat: Callable[[], None]) -> bool:
        """Say whether every party is there; ``beat`` sends each a beat, which finds out whose connection is gone."""
        if self._commits.steps.due is None and len(self._hops.company) == self._study.K:
            beat()
            self.look_who_is_away(self._clock(), self._answers_within)
        return len(self._hops.company) == self._study.K

    def look_for_fault(self, keys: BoxKeys) -> None:
        """Set :attr:`fault`, for a key that its party does not own, or that two have; or to None where all is well."""
        self.fault = self._fault_in(keys)

    def _fault_in(self, keys: BoxKeys) -> ProtocolViolation | None:
        """Return the error for a key that its party does not own, or that two have; None where all is well."""
        unowned = next((hop.unowned for hop in self._hops.values() if hop.unowned), None)
        if unowned is None:
            try:
                check_distinct(keys, {name: hop.hello for name, hop in self._hops.items() if hop.hello is not None})
            except ProtocolViolation as error:
                return error
        return unowned

    def _unowned(self, name: str, data: bytes, hello: Hello) -> ProtocolViolation | None:
        """Return the error with which the attempt ends once everybody is there; None where the party owns its key.

        Those who are there by then check the hello themselves. Until then the party may come with another one.
        """
        party = self._study.parties[self._study.place_of[name]]
        try:
            check_key_of(name, hello, data, self._study_id, party.key.sign)
        except ProtocolViolation as error:
            return error
        return None

    def look_who_is_absent(self, now: float) -> None:
        """Before the roster is out, name those who did not come in time.

        Raises
        ------
        ProtocolViolation
            Everybody is there, and somebody's key is not its own.
        DeadlinePassed
        """
        deadline = self._study.study.deadline_seconds
        if self.fault is not None:
            raise self.fault
        if len(self._hops.company) < self._study.K and now - self._gathering > deadline:
            absent = tuple(name for name, hop in self._hops.items() if not hop.joined)
            raise DeadlinePassed(
                f"{listed(absent)} did not join within {deadline:g} seconds",
                "start them, and then Charlie again; the study's deadline_seconds says how long Charlie waits",
                waited_for=absent,
            )

    def look_who_is_away(self, now: float, silence: float) -> None:
        """Before the roster is out, do not count on a party whose connection is gone, or who was silent for so long."""
        for hop in self._hops.joined:
            if not self._hops.out.reachable(hop.name) or now - hop.heard > silence:
                hop.note(HopEvent.SILENCE)
                self._observe("left", party=hop.name)
