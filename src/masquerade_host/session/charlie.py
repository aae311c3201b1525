"""Charlie's session: it sends the roster, relays sealed messages, closes the run, and says who ended it.

A *sealed message* goes from party to party: Charlie passes its sealed box on and cannot open it. Who may come, and over
which connection, is decided in :mod:`masquerade_host.session.admission`. Each party's hop has a state of its own, kept
by :class:`~masquerade_host.session.hop.Hop` and ruled by the table in :mod:`masquerade_host.session.states`.
"""

import math
import time
from collections.abc import Callable, Collection, Sequence

from masquerade_core.errors import DeadlinePassed, MasqueradeError, ProtocolViolation, RunFailed, StateCopied
from masquerade_core.roster_disclosure import asked_by, closes_with_all, coin_of, heard_by
from masquerade_core.seat import Forecast, Join, Receive, Release, Send
from masquerade_core.study import CHARLIE, Study
from masquerade_core.wire.codec import PARTIES, decode, encode
from masquerade_core.wire.faults import Abort, bits_of, pack_abort, read_abort
from masquerade_core.wire.frames import Endpoint, Frame, Kind, run_id, split_boxes
from masquerade_core.words import listed
from masquerade_host.channel import MAX_KEPT, Channel
from masquerade_host.faults.endings import LONG, attributed, check_abort, heard, refuted, unanswered
from masquerade_host.process.program import Program
from masquerade_host.process.progress import Observer, Relayed, quiet
from masquerade_host.session.admission import Admission
from masquerade_host.session.agreement import ANSWER, ASK, Ask, Standing, Standings, padded
from masquerade_host.session.hop import Hop, Hops
from masquerade_host.session.large_rosters import Shower, check_size
from masquerade_host.session.lateness import Lateness
from masquerade_host.session.messages import AllClosed, Closed, read_beat
from masquerade_host.session.session import Session
from masquerade_host.session.states import HopEvent, JoinState, Turn
from masquerade_host.store.journal import Entry
from masquerade_host.store.keyfiles import Keys
from masquerade_host.transport.interface import Arrival, CharlieLink

__all__ = ["CharlieSession"]

_NOTICE = 3.0  # seconds after which it is said that a party has not confirmed the last message
_NOTICES = 30.0  # seconds until it is said again
_MANY = 8  # with more parties, not every step looks at all of them: there is one for every few frames
_LOOKS = 0.2  # seconds between two such looks


class CharlieSession(Session):
    """Charlie's side of a run.

    Parameters
    ----------
    study : Study
    keys : Keys
        Charlie's.
    connect : callable
        Makes the link; :meth:`open` calls it.
    version, observe, clock, program, forecast
        See :class:`~masquerade_host.session.session.Session`.

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
        program: Program | None = None,
        forecast: Forecast | None = None,
    ) -> None:
        super().__init__(CHARLIE, study, keys, version, observe, clock, program=program, forecast=forecast)
        self._connect = connect
        signers = {party.name: party.key.sign for party in study.parties}
        self._endpoint = Endpoint(CHARLIE, self.study_id, keys.signing, signers)
        self._hops = Hops(self.names, self._endpoint)
        self._admission = Admission(
            study,
            version,
            self._hops,
            self._endpoint,
            self._commits,
            self.stats,
            observe,
            clock,
            beat_every=self.beat_every,
            beat_for=self._beat_for,
            came=self._came,
        )
        self._lateness = Lateness(self._hops, self.allowance)
        self._coin = b""  # draws everybody's neighbours
        self._joins: Join | None = None
        self._verdict: Abort | None = None
        self.relayed: list[Relayed] = []
        self._finished = False
        self._lost: dict[str, MasqueradeError] = {}
        self._next_look = 0.0
        self._looks = True  # whether this step looks at the clocks of all parties
        self._next_notice = 0.0
        self._untold = set(self.names)  # who does not know yet that the run is over

    def _channel_to(self, name: str) -> Channel:
        return self._hops[name].channel

    @property
    def link(self) -> CharlieLink | None:
        """The link, once it is open."""
        return self._hops.link

    @property
    def _seated(self) -> bool:
        return self.run != self.study_id

    def open(self) -> None:
        """Listen before the role starts: a port in use is found at once, and parties may come early."""
        check_size(self.study)
        self._hops.link = self._connect()
        self._admission.begin()
        self._observe("listening", address=self._hops.link.address)

    # --- The role's side ------------------------------------------------------

    def _join(self, effect: Join) -> None:
        self._joins = effect
        self._seat_if_complete()

    def _send(self, effect: Send, due: Sequence[Release]) -> None:
        self._commits.owe(due)
        if effect.broadcast:
            self._broadcast("message", effect.bodies[0], type=effect.type)
            return
        for to, body in zip(effect.to, effect.bodies, strict=True):
            if self._hops[to].lost is None:
                self._tell_one(self._hops[to], Turn.MESSAGE, body, type=effect.type)

    def finish(self) -> None:
        """Charlie's role has returned: close when every party's has."""
        self._finished = True
        self._wait.begin(self._clock())
        self._close_if_done()
        self._post()

    # --- Numbered frames --------------------------------------------------------

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
            f"{hop.name} has not acknowledged {MAX_KEPT >> 20} MB that were sent to it, and no more can be kept",
            "see whether the network to it works, and start the run again",
        )

    def _broadcast(self, kind: Kind, body: bytes, *, type: str = "") -> None:  # noqa: A002
        """Send every party the same bytes, signed once; those that the run goes on without get nothing any more."""
        there = self._hops.there
        for hop in there:
            hop.say(Turn(kind))
        data = self._endpoint.broadcast(kind, body, type=type)
        self.kept.add(CHARLIE, type, data, broadcast=kind == "message")
        self.transcript.sent(PARTIES, data)
        for hop in there:
            self._put(hop.name, data)

    def _tell_one(self, hop: Hop, turn: Turn, body: bytes, *, type: str = "") -> None:  # noqa: A002
        """Send a numbered frame to one party."""
        data = hop.seal(turn, body, type=type)
        self.kept.add(CHARLIE, type, data)
        self.transcript.sent(hop.name, data)
        self._put(hop.name, data)

    # --- The wire's side ------------------------------------------------------

    def _take(self, now: float) -> None:
        self._hops.out.flush()
        for arrival in self._hops.out.arrivals():
            self._take_one(arrival, now)

    def _take_one(self, arrival: Arrival, now: float) -> None:
        hop = self._hops[arrival.name]
        try:
            self._accept(arrival, now)
        except (ProtocolViolation, RunFailed, DeadlinePassed) as seen:
            error = seen
            if isinstance(seen, (ProtocolViolation, StateCopied)):
                error = attributed(seen, arrival.data, self.judge)
            if self.over:  # the party was told the end before, and its end counts for itself alone
                if arrival.route == hop.route:
                    hop.note(HopEvent.FAULT)
            elif isinstance(error, (ProtocolViolation, StateCopied)):
                self._lose(hop, error)
            else:  # Charlie's own trouble, such as a full disk
                raise

    def _accept(self, arrival: Arrival, now: float) -> None:
        hop = self._hops[arrival.name]
        if arrival.route in hop.unseated and not self.over:
            self._admission.hear_unseated(hop, arrival)
        if arrival.route in hop.replaced or (hop.lost is not None and arrival.route == hop.route):
            return  # an older connection, a refused one, or that of a party without which the run goes on
        try:
            frame = self._admission.admit(hop, arrival, now)
            if frame is None:
                return
            hop.heard = now
            hop.received += 1
            if frame.numbered:
                if not self._endpoint.count(hop.name, frame):
                    return  # it arrived before
                if hop.sent_beside:
                    hop.beside(frame)
                self._commits.accepted(hop.channel, frame)
                hop.moved = now
                self._moves += 1
            self._handle(hop, frame)
        except ProtocolViolation:
            if arrival.route == hop.route and self._seated:
                raise
            self._admission.turn_away(hop, arrival.route, "broken", now)

    def _take_again(self, row: Entry) -> None:
        hop = self._hops[row.peer]
        match row.kind:
            case "hello":
                self._admission.welcome_again(hop, row.data)
            case "received":
                self._take_one(Arrival(hop.name, hop.route, row.data), self._clock())
            case "lost":
                self._lose(hop, RunFailed(f"the run went on without {hop.name} before Charlie was started again"))

    def _handle(self, hop: Hop, frame: Frame) -> None:
        turn = Turn(frame.kind)
        returns = turn is Turn.BEAT and hop.state is JoinState.AWAY
        if turn is not Turn.ABORT:  # whose reason decides which turn it is
            hop.receive(turn)
        match turn:
            case Turn.BEAT:
                self._hear_beat(hop, frame)
                if returns:
                    self._admission.came(hop)
            case Turn.STANDING:
                self._pass_on(hop, frame)
            case Turn.ABORT:
                self._hear_abort(hop, read_abort(frame.body, self.everybody, hop.name), frame.data)
            case Turn.MESSAGE:
                self._deliver(frame)
            case Turn.SEALED:
                self._relay(frame)
            case Turn.CLOSED:
                hop.closed, hop.digest = frame.data, decode(Closed, frame.body, hop.name).digest
                self._close_if_done()

    def _hear_beat(self, hop: Hop, frame: Frame) -> None:
        beat, first = read_beat(frame.body, self.everybody, hop.name), not hop.channel.live
        if beat.got and not hop.state.has_roster:
            raise ProtocolViolation(f"{hop.name} acknowledged frames before the roster", peer=hop.name)
        # A process that was started again does not know for how long a party has waited before.
        hop.hear_waits(beat.waits_for, -math.inf if self.steps.passed and not hop.beaten else self._clock())
        hop.beaten = True
        hop.channel.connection = beat.connection
        if first:
            self._hops.say(hop, Turn.BEAT, self._beat_for(hop.channel))
        before = hop.channel.acknowledged
        self._commits.acknowledged(hop.channel, beat.got)
        if hop.channel.acknowledged > before:
            hop.moved = self._clock()
            self._moves += hop.channel.all_acknowledged  # it holds all that its next frame follows from

    def _pass_on(self, hop: Hop, frame: Frame) -> None:
        """Pass on a question of a party that was started again to the others, or one's answer to that party."""
        if frame.type == ASK:
            if decode(Ask, frame.body, hop.name).asker != padded(hop.name):
                raise ProtocolViolation(f"{hop.name} asked in another party's name", peer=hop.name)
            asked = set(asked_by(self.study, self._coin, hop.name))
            others, body, type_ = [other for other in self._hops.there if other.name in asked], frame.body, ASK
        else:
            standing = decode(Standing, frame.body, hop.name)
            asker = standing.asker.rstrip(" ")
            if asker == CHARLIE:
                self._admission.answered(hop, standing.nonce, self._clock())
                return
            others = [other for other in self._hops.there if other.name == asker and other is not hop]
            body, type_ = encode(Standings(party=padded(hop.name), signed=frame.data), asker), ANSWER
        for other in others:
            # Who has not acknowledged the roster does not know the run yet.
            if other.channel.live and other.channel.acknowledged and other.may_send(Turn.STANDING):
                self._hops.say(other, Turn.STANDING, body, type=type_)

    def _came(self, more: bool) -> None:
        self._moves += more
        self._seat_if_complete()

    def _seat_if_complete(self) -> None:
        """Send the roster and start, as soon as every party and Charlie's own role are there, with sound keys."""
        if self._seated or self._joins is None or not self._admission.complete(self._beat):
            return
        keys = (*((name, hop.box_key) for name, hop in self._hops.items()), (CHARLIE, self._joins.box_key))
        self._admission.look_for_fault(keys)
        if self._admission.fault is not None:
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

    def _relay(self, frame: Frame) -> None:
        for to, box in split_boxes(frame, self.names):
            hop = self._hops[to]
            if hop.lost is not None:
                continue
            if hop.channel.live and hop.channel.kept + len(box) > MAX_KEPT:
                raise ProtocolViolation(
                    f"{frame.source} sent sealed messages faster than {to} acknowledges them; at most "
                    f"{MAX_KEPT >> 20} MB may wait. Nobody can tell which of the two is at fault",
                    suspects=(frame.source, to),
                )
            self.relayed.append(Relayed(frame.source, to, frame.type, len(box)))
            data = hop.seal(Turn.SEALED, box, type=frame.type, source=frame.source)
            self.transcript.sent(to, data)
            self._put(to, data)

    def _close_if_done(self) -> None:
        if self._finished and not self.over and all(hop.state is JoinState.DONE for hop in self._hops.there):
            self._check_digests()
            self._close()
            self.over = True
            self._wait.begin(self._clock())

    def _close(self) -> None:
        """Show every party the last words of all parties, or of its neighbours and its own."""
        if closes_with_all(self.study):
            closed = tuple(hop.closed for hop in self._hops.values())
            self._broadcast("closed", encode(AllClosed(closed=closed), PARTIES))
            return
        for hop in self._hops.values():
            closed = tuple(self._hops[name].closed for name in heard_by(self.study, self._coin, hop.name))
            self._tell_one(hop, Turn.CLOSED, encode(AllClosed(closed=closed), hop.name))

    def _part(self, now: float) -> None:
        """Leave when every party holds the last frame. One that lost its connection may come back for it."""
        waits = [
            hop
            for hop in self._hops.there
            if hop.state is JoinState.CLOSED and not hop.channel.all_acknowledged and self._left(hop, now) >= 0
        ]
        self.closed = not waits
        if waits and now >= self._next_notice:
            if self._next_notice:  # it mostly takes a moment, and nobody needs to hear of it
                names = listed(tuple(hop.name for hop in waits))
                left = max(self._left(hop, now) for hop in waits)
                self._observe("unconfirmed", waited_for=names, left=round(left))
            self._next_notice = now + (_NOTICES if self._next_notice else _NOTICE)

    def _left(self, hop: Hop, now: float) -> float:
        """Return for how many seconds Charlie still waits for a party's word that it holds the last frame."""
        return self.allowance.delivery - (now - min(hop.heard, self._wait.began))

    def _check_digests(self) -> None:
        """Check that every party closes with the hash of what Charlie broadcast.

        He alone could tell two parties two things, so for him this shows no lie of his own. But a party's wrong hash
        makes all other parties refuse the result. So he must end the run as well, and he knows whose hash is wrong.
        """
        for hop in self._hops.there:
            if hop.digest != self.transcript.told.digest():
                raise ProtocolViolation(
                    f"{hop.name} closed the run with a wrong hash of what {CHARLIE} broadcast; it must be the hash of "
                    "what every party was sent",
                    peer=hop.name,
                )

    # --- Parties that the run goes on without --------------------------------------

    def _may_lose(self, hop: Hop) -> bool:
        """Say whether the study allows that a party is lost, and this one is in the middle of the run."""
        return self.study.dropouts is not None and hop.state is JoinState.SEATED

    def _lose(self, hop: Hop, error: MasqueradeError, label: str = "") -> None:
        """Go on without a party that is silent or broken; where the study has no ``[dropouts]``, raise ``error``.

        The role learns it when it next waits for the party: with patience it goes on, and otherwise the run ends.
        """
        if not self._may_lose(hop):
            raise error
        hop.lost = self._lost[hop.name] = error
        self._verdict = None
        self.steps.note("lost", hop.name, label)
        hop.note(HopEvent.DROPPED)
        self._moves += 1
        self._observe("lost", party=hop.name)
        body = pack_abort(Abort(reason="left", blamed=(hop.name,), by=CHARLIE), self.everybody)
        self._hops.say(hop, Turn.ABORT, body)
        self._close_if_done()

    def _took(self, frame: Frame) -> None:
        super()._took(frame)
        self.kept.add(frame.source, frame.type, frame.data)  # and none that came later, which is in no sum

    def _check_due(self, wanted: Receive, frame: Frame) -> None:
        try:
            super()._check_due(wanted, frame)
        except ProtocolViolation as error:
            self._lose(self._hops[frame.source], error, wanted.kind)  # it follows from what the role asks for
            self._inbox[frame.source, wanted.kind].clear()

    def _gives_up(self, wanted: Receive) -> bool:
        lost = self._awaited.missing & self._lost.keys()
        if wanted.within is None and lost:
            raise next(self._lost[name] for name in wanted.senders if name in lost)
        if not super()._gives_up(wanted):
            return wanted.within is not None and len(lost) == len(self._awaited.missing)
        for hop in [self._hops[name] for name in self.missing()]:
            if hop.lost is None:
                self._lose(hop, self._late((hop.name,)))
        return True

    # --- Clocks and bad ends ----------------------------------------------------

    def _tick(self, now: float) -> None:
        if strangers := self._hops.out.denied():
            self._observe("stranger", count=strangers)
        if self.over:
            self._part(now)
            return
        self._looks = now >= self._next_look
        if not self._looks:
            return
        self._next_look = now + (_LOOKS if self.study.K > _MANY else 0.0)
        if self._seated:
            for arrival in self._admission.settled(now):
                self._take_one(arrival, now)
            self._look_who_is_silent(now)
        else:
            self._admission.look_who_is_away(now, self.deadline / 2)
            self._seat_if_complete()
            self._admission.look_who_is_absent(now)

    def _shift(self, seconds: float) -> None:
        self._admission.shift(seconds)
        for hop in self._hops.values():
            hop.heard += seconds
            hop.moved += seconds
            hop.waits_for = {name: since + seconds for name, since in hop.waits_for.items()}

    def _beat(self, to: Collection[str] = ()) -> None:
        waits_for = bits_of(self.missing(), self.everybody)
        for hop in [self._hops[name] for name in to or self._hops]:
            if hop.may_send(Turn.BEAT):
                self.stats.beats += 1
                self._hops.say(hop, Turn.BEAT, self._beat_for(hop.channel, waits_for))

    @property
    def gathers(self) -> bool:
        """Whether many parties' frames are still to come before anything follows from them."""
        return len(self._awaited.missing) > _MANY

    def missing(self) -> tuple[str, ...]:
        """Return whom the role waits for at this moment; once it has returned, those whose role has not."""
        if self._finished and not self.over:
            return tuple(hop.name for hop in self._hops.there if hop.state is not JoinState.DONE)
        return super().missing()

    def _check_dues(self, now: float) -> None:
        wanted = self._awaited.wanted
        if not self._looks or (wanted is not None and wanted.within is not None):
            return  # a wait with patience ends by itself, and those who did not answer are lost
        missing = self.missing()
        if missing and self._wait.lasts(now, self.allowance.forecast.turns):
            raise self._late(())
        late, named = self._lateness.find(missing, missing, self._wait.began, now)
        for name in named:
            self._lose(self._hops[name], self._late(named))
        if late and not named:
            raise self._late(())

    def _look_who_is_silent(self, now: float) -> None:
        limit = self.deadline
        silent = [hop for hop in self._hops.there if hop.state is JoinState.SEATED and now - hop.heard > limit]
        names = tuple(hop.name for hop in silent)
        for hop in silent:
            self._lose(
                hop,
                DeadlinePassed(
                    f"nothing was heard from {listed(names)} for {limit:g} seconds",
                    "see whether they still run, and start the run again",
                    waited_for=names,
                ),
            )

    def _hear_abort(self, hop: Hop, abort: Abort, data: bytes) -> None:
        name = hop.name
        if abort.reason != "violation" and self._may_lose(hop):
            check_abort(abort, name)
            error = self._late_by(hop, abort, data) if abort.reason == "deadline" else None
            self._lose(hop, error or heard(abort, data, name, self.judge, CHARLIE))
            return
        hop.receive(Turn.LEAVE if abort.leaves else Turn.ABORT)
        check_abort(abort, name)
        if hop.state is JoinState.IDLE:
            hop.forget_hello()
            self._observe("left", party=name)
            return
        if abort.reason == "deadline":
            raise self._late_by(hop, abort, data)
        error = heard(abort, data, name, self.judge, CHARLIE)
        if getattr(error, "peer", "") != name:
            self._verdict = Abort(reason=abort.reason, blamed=abort.blamed, by=name, frames=(data,))
        raise error

    def _late_by(self, hop: Hop, abort: Abort, data: bytes) -> MasqueradeError:
        """Return the error for a party that ends the run because others were late, by its own word.

        Charlie believes it as far as his own clock agrees: either somebody is late for his own role, or the party's
        beats have said for so long that it waits for those whom it names. Otherwise he names the party alone, and tells
        the others that it left.
        """
        now, long, me = self._clock(), LONG * self.deadline, hop.name
        claimed = abort.blamed or tuple(hop.waits_for)
        said = bool(claimed) and all(now - hop.waits_for.get(name, now) >= long for name in claimed)
        own = self.missing()
        late, named = self._lateness.find(own or tuple(hop.waits_for), own, self._wait.began, now, LONG)
        if not said and not (own and late):
            self._verdict = Abort(reason="left", blamed=(me,), by=CHARLIE)
            return refuted(me, f"{me} has not reported for that long that it waits for them", data)
        culprits = named or ((CHARLIE,) if CHARLIE in abort.blamed and not own else ())
        if set(culprits) == set(abort.blamed):
            self._verdict = Abort(reason="deadline", blamed=abort.blamed, by=me, frames=(data,))
        return DeadlinePassed(
            f"{me} gave up waiting and reported it: {unanswered(culprits)}",
            "see whether they still run, and start the run again",
            waited_for=culprits,
            said_by=me,
        )

    def part(self, run: bytes, abort: Abort) -> bool:
        """Tell each party that comes back over a new connection."""
        if self._endpoint.run == self.study_id:
            self._endpoint.begin(run)
        if self.link is None:
            self.open()
        body = pack_abort(abort, self.everybody)
        for arrival in self._hops.out.arrivals():
            if arrival.name not in self._untold:
                continue
            hop = self._hops[arrival.name]
            hop.note(HopEvent.GIVE_UP)
            if self._hops.out.tell(arrival.route, hop.seal(Turn.ABORT, body)):
                self._untold.remove(arrival.name)
        return not self._untold

    def say_abort(self, abort: Abort) -> None:
        """Tell every party that has joined; what a party found out bears that party's name."""
        body = pack_abort(self._verdict or abort, self.everybody)
        for hop in self._hops.joined:
            # A party that is done may know that every role has returned, and a lost one knows that it is out.
            if self.link is not None and hop.lost is None and hop.may_send(Turn.ABORT):
                self._hops.say(hop, Turn.ABORT, body)
