"""Charlie's session from the roster on: it relays sealed messages, closes the run, and says who ended it.

A *sealed message* goes from party to party: Charlie passes its sealed box on and cannot open it. How parties come in
before is in :mod:`masquerade_host.session.admission`. Each party's hop has a state of its own, kept by
:class:`~masquerade_host.session.hop.Hop` and ruled by the table in :mod:`masquerade_host.session.states`.
"""

import math
from collections.abc import Collection, Sequence
from typing import Any

from masquerade_core.errors import DeadlinePassed, MasqueradeError, ProtocolViolation, RunFailed, StateCopied
from masquerade_core.roster_disclosure import asked_by, closes_with_all, heard_by
from masquerade_core.seat import Receive, Release, Send
from masquerade_core.study import CHARLIE
from masquerade_core.wire.aborts import Abort, bits_of, pack_abort, read_abort
from masquerade_core.wire.codec import decode, encode
from masquerade_core.wire.frames import Frame, split_boxes
from masquerade_core.wire.messages import PARTIES
from masquerade_core.words import listed
from masquerade_host.channel.channel import MAX_KEPT
from masquerade_host.faults.aborts import LONG, check_abort, heard, refuted, unanswered, whom_all_wait_for
from masquerade_host.faults.evidence import judged, seen_in
from masquerade_host.process.progress import Relayed
from masquerade_host.session.admission import AdmittingSession
from masquerade_host.session.hop import Hop
from masquerade_host.session.messages import AllClosed, Closed, read_beat
from masquerade_host.session.rollback_check import ANSWER, ASK, Ask, Standing, Standings, padded
from masquerade_host.session.states import HopEvent, JoinState, Turn
from masquerade_host.store.journal import Entry
from masquerade_host.transport.interface import Arrival

__all__ = ["CharlieSession"]

_NOTICE = 3.0  # seconds after which it is said that a party has not confirmed the last message
_NOTICES = 30.0  # seconds until it is said again
_LOOKS = 0.2  # seconds between two looks at many parties
_MANY = 65


class CharlieSession(AdmittingSession):
    """Charlie's side of a run; it is made as an :class:`~masquerade_host.session.admission.AdmittingSession`.

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
        self._untold = set(self.names)  # who does not know yet that the run is over

    # --- The role's side ------------------------------------------------------

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

    # --- The wire's side ------------------------------------------------------

    def _take(self, now: float) -> None:
        self._out.flush()
        for arrival in self._out.arrivals():
            self._take_one(arrival, now)

    def _take_one(self, arrival: Arrival, now: float) -> None:
        hop = self._hops[arrival.name]
        try:
            with judged(self.judge), seen_in(arrival.data):
                self._accept(arrival, now)
        except (ProtocolViolation, RunFailed, DeadlinePassed) as error:
            if self.over:  # the party was told the end before, and its end counts for itself alone
                if arrival.route == hop.route:
                    hop.note(HopEvent.FAULT)
            elif isinstance(error, (ProtocolViolation, StateCopied)):
                self._lose(hop, error)
            else:  # Charlie's own trouble, such as a full disk
                raise

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
                self._deliver(frame)
            case Turn.SEALED:
                self._relay(frame)
            case Turn.CLOSED:
                hop.closed, hop.digest = data, decode(Closed, frame.body, hop.name).digest
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
            self._out.send(hop.name, hop.seal(Turn.BEAT, self._beat_for(hop.channel)))
        before = hop.channel.acknowledged
        self._commits.acknowledged(hop.channel, beat.got)
        if hop.channel.acknowledged > before:
            hop.moved = self._clock()
            self._moves += hop.channel.all_acknowledged  # it holds all that its next frame follows from

    def _pass_on(self, hop: Hop, frame: Frame, data: bytes) -> None:
        """Pass on a question of a party that was started again to the others, or one's answer to that party."""
        if frame.type == ASK:
            if decode(Ask, frame.body, hop.name).asker != padded(hop.name):
                raise ProtocolViolation(f"{hop.name} asked in another party's name", peer=hop.name)
            asked = set(asked_by(self.study, self._coin, hop.name))
            others, body, type_ = [other for other in self._there if other.name in asked], frame.body, ASK
        else:
            standing = decode(Standing, frame.body, hop.name)
            asker = standing.asker.rstrip(" ")
            if asker == CHARLIE:
                self._answered(hop, standing.nonce, self._clock())
                return
            others = [other for other in self._there if other.name == asker and other is not hop]
            body, type_ = encode(Standings(party=padded(hop.name), signed=data), asker), ANSWER
        for other in others:
            # Who has not acknowledged the roster does not know the run yet.
            if other.channel.live and other.channel.acknowledged and other.may_send(Turn.STANDING):
                self._out.send(other.name, other.seal(Turn.STANDING, body, type=type_))

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
        if self._finished and not self.over and all(hop.state is JoinState.DONE for hop in self._there):
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
            for hop in self._there
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
        self._moves += 1
        self._observe("lost", party=hop.name)
        body = pack_abort(Abort(reason="left", blamed=(hop.name,), by=CHARLIE), self.everybody)
        self._out.send(hop.name, hop.seal(Turn.ABORT, body))
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
        if strangers := self._out.denied():
            self._observe("stranger", count=strangers)
        if self.over:
            self._part(now)
            return
        if now < self._next_look:
            return
        self._next_look = now + (_LOOKS if self.study.K > _MANY else 0.0)
        if self._seated:
            self._look_who_answers(now)
            self._look_who_is_silent(now)
            return
        self._look_who_is_absent(now)

    def _shift(self, seconds: float) -> None:
        self._gathering += seconds
        for hop in self._hops.values():
            hop.heard += seconds
            hop.moved += seconds
            hop.waits_for = {name: since + seconds for name, since in hop.waits_for.items()}

    def _beat(self, to: Collection[str] = ()) -> None:
        waits_for = bits_of(self.missing(), self.everybody)
        for hop in [self._hops[name] for name in to or self._hops]:
            if hop.may_send(Turn.BEAT):
                self.stats.beats += 1
                self._out.send(hop.name, hop.seal(Turn.BEAT, self._beat_for(hop.channel, waits_for)))

    def missing(self) -> tuple[str, ...]:
        """Return whom the role waits for at this moment; once it has returned, those whose role has not."""
        if self._finished and not self.over:
            return tuple(hop.name for hop in self._there if hop.state is not JoinState.DONE)
        return super().missing()

    def _check_dues(self, now: float) -> None:
        wanted = self._awaited.wanted
        if wanted is not None and wanted.within is not None:
            return  # it ends by itself, and those who did not answer are lost
        missing = self.missing()
        if missing and self._wait.lasts(now, self.allowance.forecast.turns):
            raise self._late(())
        late, named = self._late_ones(missing, now)
        for name in named:
            self._lose(self._hops[name], self._late(named))
        if late and not named:
            raise self._late(())

    def _late_ones(self, missing: Collection[str], now: float, share: float = 1.0) -> tuple[set[str], tuple[str, ...]]:
        """Return who is out of time of those for whom others wait, beginning with ``missing``; and who is named for it.

        Parameters
        ----------
        missing : collection of str
        now : float
        share : float
            The part of its time that a late participant has used up.
        """
        late = {hop.name for hop in self._there if missing and self._is_late(hop, now, share)}
        if not late:
            return late, ()
        waits = {hop.name: tuple(name for name in hop.waits_for if name != CHARLIE) for hop in self._there}
        late &= whom_all_wait_for(missing, waits)
        # A party that says that another owes it something may be right. And one that says that it waits for Charlie
        # alone owes him nothing that he knows of, unless his role waits for it.
        own = self.missing()
        sure = {name for name in late if not waits[name] and (name in own or not self._hops[name].waits_for)}
        return late, tuple(name for name in self.names if name in sure)

    def _is_late(self, hop: Hop, now: float, share: float) -> bool:
        """Say whether a party's next frame is out of time, or its word that it has what it was sent."""
        allowed = self.allowance.frame if hop.channel.all_acknowledged else self.allowance.delivery
        return now - max(hop.moved, self._wait.began) > share * allowed

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
        late, named = self._late_ones(own or tuple(hop.waits_for), now, LONG)
        if not said and not (own and late):
            self._verdict = Abort(reason="left", blamed=(me,), by=CHARLIE)
            return refuted(me, f"{me} has not said for so long that it waits for them", data)
        culprits = named or ((CHARLIE,) if CHARLIE in abort.blamed and not own else ())
        if set(culprits) == set(abort.blamed):
            self._verdict = Abort(reason="deadline", blamed=abort.blamed, by=me, frames=(data,))
        return DeadlinePassed(
            f"{me} waited in vain, and says so: {unanswered(culprits)}",
            "see whether they still run, and start the run again",
            waited_for=culprits,
            said_by=me,
        )

    def part(self, run: bytes, abort: Abort) -> bool:
        """Tell each party that comes back over a new connection."""
        if self._endpoint.run == self.study_id:
            self._endpoint.begin(run)
        if self._link is None:
            self.open()
        body = pack_abort(abort, self.everybody)
        for arrival in self._out.arrivals():
            if arrival.name not in self._untold:
                continue
            hop = self._hops[arrival.name]
            hop.note(HopEvent.GIVE_UP)
            if self._out.tell(arrival.route, hop.seal(Turn.ABORT, body)):
                self._untold.remove(arrival.name)
        return not self._untold

    def say_abort(self, abort: Abort) -> None:
        """Tell every party that has joined; what a party found out bears that party's name."""
        body = pack_abort(self._verdict or abort, self.everybody)
        for hop in self._joined:
            # A party that is done may know that every role has returned, and a lost one knows that it is out.
            if self._link is not None and hop.lost is None and hop.may_send(Turn.ABORT):
                self._link.send(hop.name, hop.seal(Turn.ABORT, body))
