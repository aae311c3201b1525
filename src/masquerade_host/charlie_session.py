"""Charlie's session from the roster on: it relays sealed messages, closes the run, and says who ended it.

A *sealed message* goes from party to party: Charlie passes its sealed box on and cannot open it. How parties come in
before is in :mod:`masquerade_host.admission`. Each party's hop has a state of its own, kept by
:class:`~masquerade_host.hop.Hop` and ruled by the table in :mod:`masquerade_host.session_states`.
"""

from collections.abc import Collection, Sequence
from typing import Any

from masquerade_core.errors import DeadlinePassed, MasqueradeError, ProtocolViolation, RunFailed
from masquerade_core.seat import Receive, Release, Send
from masquerade_core.shown import asked_by, closes_with_all, heard_by
from masquerade_core.study import CHARLIE
from masquerade_core.wire.aborts import bits_of
from masquerade_core.wire.codec import decode, encode
from masquerade_core.wire.frames import Frame
from masquerade_core.wire.messages import PARTIES
from masquerade_core.wire.relay import split_boxes
from masquerade_core.words import listed
from masquerade_host.admission import AdmittingSession
from masquerade_host.hop import Hop
from masquerade_host.journal import Entry
from masquerade_host.lane import MAX_KEPT
from masquerade_host.named_messages import Abort, pack_abort, read_abort, read_beat
from masquerade_host.seen import seen_in
from masquerade_host.session_messages import AllClosed, Closed
from masquerade_host.session_states import HopEvent, JoinState, Turn
from masquerade_host.standing import ANSWER, ASK, Ask, Standing, Standings, padded
from masquerade_host.stats import Relayed
from masquerade_host.transport import Arrival
from masquerade_host.verdicts import check_abort, heard, whom_all_wait_for

__all__ = ["CharlieSession"]

_NOTICE = 3.0  # seconds after which it is said that a party has not confirmed the last message
_NOTICES = 30.0  # seconds until it is said again
_LOOKS = 0.2  # seconds between two looks at many parties
_MANY = 65


class CharlieSession(AdmittingSession):
    """Charlie's side of a run; it is made as an :class:`~masquerade_host.admission.AdmittingSession`.

    Attributes
    ----------
    relayed : list of Relayed
        (source, destination, type, length) of every box that Charlie passed on, in order.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.relayed: list[Relayed] = []
        self._finished = False
        self._lost: dict[str, MasqueradeError] = {}
        self._next_look = 0.0
        self._next_notice = 0.0

    # --- The role's side ------------------------------------------------------

    def _send(self, effect: Send, due: Sequence[Release]) -> None:
        self._owed += due
        if effect.broadcast:
            self._broadcast("message", effect.bodies[0], type=effect.type)
            return
        for to, body in zip(effect.to, effect.bodies, strict=True):
            if self._hops[to].lost is None:
                self._tell_one(self._hops[to], Turn.MESSAGE, body, type=effect.type)

    def finish(self) -> None:
        """Charlie's role has returned: close when every party's has."""
        self._finished = True
        self._close_if_done()
        self._post()

    # --- The wire's side ------------------------------------------------------

    def _take(self, now: float) -> None:
        self._out.flush()
        for arrival in self._out.arrivals():
            self._take_one(arrival, now)

    def _take_one(self, arrival: Arrival, now: float) -> None:
        hop = self._hops[arrival.name]
        try:
            with seen_in(arrival.data):
                self._accept(arrival, now)
        except (ProtocolViolation, RunFailed) as error:
            if not self.over:
                self._lose(hop, error)
            elif arrival.route == hop.route:  # it was told the end before, and its end counts for itself alone
                hop.state = JoinState.ENDED

    def _take_again(self, row: Entry) -> None:
        hop = self._hops[row.peer]
        match row.kind:
            case "hello":
                self._welcome_again(hop, row.data)
            case "received":
                self._take_one(Arrival(hop.name, hop.route, row.data), self._clock())
            case "lost":
                self._lose(hop, RunFailed(f"the run went on without {hop.name} before Charlie was started again"))

    def _handle(self, hop: Hop, frame: Frame, data: bytes) -> None:
        turn, was = Turn(frame.kind), hop.state
        if turn is not Turn.ABORT:  # whose reason decides which turn it is
            hop.receive(turn)
        match turn:
            case Turn.BEAT:
                self._hear_beat(hop, frame)
                if was is JoinState.AWAY:
                    self._came(hop)
            case Turn.STANDING:
                self._pass_on(hop, frame, data)
            case Turn.ABORT:
                self._hear_abort(hop, read_abort(frame.body, self.everybody, hop.name), data)
            case Turn.MESSAGE:
                self.kept.add(hop.name, frame.type, data)
                self._deliver(frame)
            case Turn.SEALED:
                self._relay(frame)
            case Turn.CLOSED:
                hop.closed, hop.digest = data, decode(Closed, frame.body, hop.name).digest
                self._close_if_done()

    def _hear_beat(self, hop: Hop, frame: Frame) -> None:
        beat, first = read_beat(frame.body, self.everybody, hop.name), not hop.lane.live
        if beat.got and not hop.state.has_roster:
            raise ProtocolViolation(f"{hop.name} acknowledged frames before the roster", peer=hop.name)
        hop.waits_for = tuple(name for name in beat.waits_for if name != hop.name)
        hop.lane.connection = beat.connection
        if first:
            self._out.send(hop.name, hop.seal(Turn.BEAT, self._beat_for(hop.lane)))
        self._acknowledged(hop.lane, beat.got)

    def _pass_on(self, hop: Hop, frame: Frame, data: bytes) -> None:
        """Pass on a question of a party that was started again to the others, or one's answer to that party."""
        if frame.type == ASK:
            if decode(Ask, frame.body, hop.name).asker != padded(hop.name):
                raise ProtocolViolation(f"{hop.name} asked in another party's name", peer=hop.name)
            asked = set(asked_by(self.study, self._coin, hop.name))
            others, body, type_ = [other for other in self._there if other.name in asked], frame.body, ASK
        else:
            asker = decode(Standing, frame.body, hop.name).asker.rstrip(" ")
            others = [other for other in self._there if other.name == asker and other is not hop]
            body, type_ = encode(Standings(party=padded(hop.name), signed=data), asker), ANSWER
        for other in others:
            # Who has not acknowledged the roster does not know the run yet.
            if other.lane.live and other.lane.acknowledged and other.may_send(Turn.STANDING):
                self._out.send(other.name, other.seal(Turn.STANDING, body, type=type_))

    def _relay(self, frame: Frame) -> None:
        for to, box in split_boxes(frame, self.names):
            hop = self._hops[to]
            if hop.lost is not None:
                continue
            if hop.lane.live and hop.lane.kept + len(box) > MAX_KEPT:
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
        if self._finished and not self.over and all(hop.state is JoinState.DONE for hop in self._there):
            self._check_digests()
            self._close()
            self.over = True

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
            for hop in self._there
            if hop.state is JoinState.CLOSED and not hop.lane.all_acknowledged and now - hop.heard <= self.deadline
        ]
        self.closed = not waits
        if waits and now >= self._next_notice:
            if self._next_notice:  # it mostly takes a moment, and nobody needs to hear of it
                names = listed(tuple(hop.name for hop in waits))
                left = max(self.deadline - (now - hop.heard) for hop in waits)
                self._observe("unconfirmed", waited_for=names, left=round(max(0.0, left)))
            self._next_notice = now + (_NOTICES if self._next_notice else _NOTICE)

    def _check_digests(self) -> None:
        """Check that every party closes with the hash of what Charlie broadcast.

        He alone could tell two parties two things, so for him this shows no lie of his own. But a party's wrong hash
        makes all other parties refuse the result. So he must end the run as well, and he knows whose hash is wrong.
        """
        for hop in self._there:
            if hop.digest != self._told.digest():
                raise ProtocolViolation(
                    f"{hop.name} closed the run with a wrong hash of what {CHARLIE} broadcast; allowed is the hash of "
                    "what every party was sent",
                    peer=hop.name,
                )

    # --- Parties that the run goes on without --------------------------------------

    @property
    def _there(self) -> tuple[Hop, ...]:
        """The hops of the parties that still take part."""
        return tuple(hop for hop in self._hops.values() if hop.lost is None)

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
        self._observe("lost", party=hop.name)
        body = pack_abort(Abort(reason="left", blamed=(hop.name,), by=CHARLIE), self.everybody)
        self._out.send(hop.name, hop.seal(Turn.ABORT, body))
        self._close_if_done()

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
        if strangers := self._out.denied():
            self._observe("stranger", count=strangers)
        if self.over:
            self._part(now)
            return
        if now < self._next_look:
            return
        self._next_look = now + (_LOOKS if self.study.K > _MANY else 0.0)
        if self._seated:
            self._look_who_is_silent(now)
            return
        self._look_who_is_absent(now)

    def _shift(self, seconds: float) -> None:
        self._gathering += seconds
        for hop in self._hops.values():
            hop.heard += seconds

    def _beat(self, to: Collection[str] = ()) -> None:
        waits_for = bits_of(self.missing(), self.everybody)
        for hop in [self._hops[name] for name in to or self._hops]:
            if hop.may_send(Turn.BEAT):
                self.stats.beats += 1
                self._out.send(hop.name, hop.seal(Turn.BEAT, self._beat_for(hop.lane, waits_for)))

    def _look_who_is_silent(self, now: float) -> None:
        limit = self.deadline
        silent = [hop for hop in self._there if hop.state is JoinState.SEATED and now - hop.heard > limit]
        names = tuple(hop.name for hop in silent)
        for hop in silent:
            self._lose(
                hop,
                DeadlinePassed(
                    f"nothing was heard of {listed(names)} for {limit:g} seconds",
                    "see whether they still run, and start the run again",
                    waited_for=names,
                ),
            )

    def _hear_abort(self, hop: Hop, abort: Abort, data: bytes) -> None:
        name = hop.name
        if abort.reason == "left" and self._may_lose(hop):
            self._lose(hop, heard(abort, data, name, self.judge, CHARLIE))
            return
        hop.receive(Turn.LEAVE if abort.reason == "left" else Turn.ABORT)
        check_abort(abort, name)
        if hop.state is JoinState.IDLE:
            hop.forget_hello()
            self._observe("left", party=name)
            return
        if abort.reason == "deadline":
            culprits = self._culprits(abort.blamed)
            raise DeadlinePassed(
                f"{name} waited in vain for {self.deadline:g} seconds; {listed(culprits)} did not answer in time",
                "see whether they still run, and start the run again",
                waited_for=culprits,
                said_by=name,
            )
        error = heard(abort, data, name, self.judge, CHARLIE)
        if getattr(error, "peer", "") != name:
            self._verdict = Abort(reason=abort.reason, blamed=abort.blamed, by=name, frames=(data,))
        raise error

    def _late(self, missing: tuple[str, ...]) -> DeadlinePassed:
        return super()._late(self._culprits(missing))

    def _culprits(self, missing: Collection[str]) -> tuple[str, ...]:
        """Return those whom everybody waits for, in roster order.

        The question begins with whom Charlie's own role misses: a party that ends the run cannot choose where it
        begins. Where his role waits for nobody, it begins with ``missing``.
        """
        waits: dict[str, Collection[str]] = {name: hop.waits_for for name, hop in self._hops.items()}
        waits[CHARLIE] = self.missing()
        culprits = whom_all_wait_for(waits[CHARLIE] or missing, waits)
        return tuple(name for name in self.everybody if name in culprits)

    def say_abort(self, abort: Abort) -> None:
        """Tell every party that has joined; what a party found out bears that party's name."""
        body = pack_abort(self._verdict or abort, self.everybody)
        for hop in self._joined:
            # A party that is done may know that every role has returned, and a lost one knows that it is out.
            if self._link is not None and hop.lost is None and hop.may_send(Turn.ABORT):
                self._link.send(hop.name, hop.seal(Turn.ABORT, body))
