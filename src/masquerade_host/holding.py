"""A party that was started again sends nothing new until it knows where the others stand.

:mod:`masquerade_host.standing` says why, and has the question and the answers. Here is when they are said and heard,
and what a party holds back: a message until its slot (:mod:`masquerade_host.schedule`), and after a restart also until
every party that it asks has answered: all others, or its neighbours in a study with many parties.
"""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

from masquerade_core.errors import DeadlinePassed
from masquerade_core.shown import asked_by
from masquerade_core.study import CHARLIE
from masquerade_core.wire.codec import decode, encode
from masquerade_core.wire.frames import Endpoint, Frame
from masquerade_core.words import listed
from masquerade_host.closing import Told
from masquerade_host.schedule import Schedule
from masquerade_host.session import Session
from masquerade_host.standing import ANSWER, ASK, Ask, Held, Standing, Standings

__all__ = ["HoldingSession"]

_ANSWERS = 0.8  # of the study's deadline: how long a party that was started again waits for the others' word


class HoldingSession(Session):
    """The frames that a party's session holds back; it is made as a :class:`~masquerade_host.session.Session`."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._schedule = Schedule(self.study.study.slot_seconds)
        self._told = Told()
        self._coin = b""  # draws everybody's neighbours
        self._held: Held | None = None
        self._held_since = 0.0
        self._withheld: list[tuple[int, Callable[[], None]]] = []  # each with the broadcasts that the role had taken

    def let_go(self) -> bool:
        """Send the first message that is held back, for it was sent before."""
        if self._schedule.let_go():
            return True
        if self._withheld:
            _, send = self._withheld.pop(0)
            send()
            return True
        return False

    def due_in(self) -> float | None:
        """Return in how many seconds the next frame's slot comes; ``None`` if no frame is held back."""
        return None if self._schedule.due is None else self._schedule.due - self._clock()

    def resumed(self, nonce: bytes) -> None:
        """Hold back what is new until every other party has said where it stands, over this fresh nonce."""
        if self.run != self.study_id:  # else nothing was sent that could be sent again
            others = asked_by(self.study, self._coin, self.me)
            self._held, self._held_since = Held(self.me, others, nonce), self._clock()

    @abstractmethod
    def _say_standing(self, type: str, body: bytes) -> None:  # noqa: A002 - the header's own word
        """Send a frame of kind ``standing``, if the connection is there."""

    def _hold(self, send: Callable[[], None]) -> None:
        """Call ``send`` when it may be sent."""
        waiting = sum(frame.broadcast for _, frame in self._inbox[CHARLIE, "message"])
        self._withheld.append((len(self._told.chain) - 1 - waiting, send))
        self._let_out()

    def _let_out(self) -> None:
        if self._held is not None and self._held.missing:
            return
        due = self.steps.due
        if due is not None and due.kind != "sent" and self._schedule.immediate:
            return  # a replay: an earlier process, which was itself held, sent it only after what is due here
        withheld, self._withheld = self._withheld, []
        for taken, send in withheld:
            if self._held is not None:
                self._held.check_send(taken)
                self._held = None  # what others receive from here on follows from this message
            self._schedule.hold(self._clock(), self._last_came, send)

    def _ask(self) -> None:
        """Ask those that have not answered, as often as there is a beat.

        Raises
        ------
        DeadlinePassed
            They have not answered for most of the time that the study allows: Charlie, who does not know what this
            party waits for, would end the run next.
        """
        if self._held is None or not (missing := self._held.missing):
            return
        if self._clock() - self._held_since > _ANSWERS * self.deadline:
            raise DeadlinePassed(
                f"{self.me} was started again and asked where the run stands, but no word of {listed(missing)} came "
                f"within {_ANSWERS * self.deadline:g} seconds",
                "see whether they still run; without their word this party sends nothing new",
                waited_for=missing,
            )
        self._say_standing(ASK, self._held.ask())

    def _hear_standing(self, frame: Frame) -> None:
        """Answer another party's question, or take an answer to the own one."""
        if frame.type == ASK:
            ask = decode(Ask, frame.body, CHARLIE)
            self._say_standing(ANSWER, encode(Standing.of(ask, self._told.chain), CHARLIE))
        elif self._held is not None:
            signers = {party.name: party.key.sign for party in self.study.parties}
            reader = Endpoint(CHARLIE, self.run, self._keys.signing, signers)
            self._held.take(decode(Standings, frame.body, CHARLIE), reader)
            self._check_chain()
            self._let_out()

    def _check_chain(self) -> None:
        """Check that the others, as far as is known, were told the same."""
        if self._held is not None:
            self._held.check(self._told.chain)
