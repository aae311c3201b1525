"""CPU time of a run at the in-memory table, split by participant and by step.

Effects are the whole interface between a role and its driver, so the meter works from outside. It times every ``once``
computation, every turn of a role, the work of its Seat on messages, and every frame. Each moment counts for exactly one
(participant, step), the innermost. The sum is the CPU time that the process used, in all threads.
"""

import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Coroutine, Generator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from masquerade_core.rng import Rng
from masquerade_core.seat import Effect, Once, Seat, Stage
from masquerade_core.study import CHARLIE, Study
from masquerade_core.table import Silence, Table
from masquerade_core.wire.codec import Message, SealedMessage
from masquerade_core.wire.frames import Endpoint, Frame

__all__ = [
    "ARITHMETIC",
    "BOXES",
    "COUNTED",
    "EXCLUDED",
    "GRADIENTS",
    "MESSAGE_STEPS",
    "STEPS",
    "Meter",
    "MeteredRole",
    "MeteredSeat",
    "MeteredTable",
    "ordinary",
    "step_of",
]

T = TypeVar("T")
M = TypeVar("M", bound=Message)

EXCLUDED = "excluded: key generation, training"
GRADIENTS = "gradients"
"""The work on a party's own records, which it would do without any protocol too: counted, and shown apart."""
ROLE, BOXES, FRAMES, TABLE = "role arithmetic", "codec and boxes", "frames, signatures", "queues, journal"
STEPS = (
    "noise sampling",
    "obfuscators r^N",
    "obfuscators h^s",
    "selected noise",
    "comparisons",
    "decryptions",
    "draws",
    ROLE,
    BOXES,
    FRAMES,
    TABLE,
    GRADIENTS,
    EXCLUDED,
)
COUNTED = tuple(step for step in STEPS if step != EXCLUDED)
MESSAGE_STEPS = (BOXES, FRAMES, TABLE)
"""Message handling; everything else that counts is arithmetic."""
ARITHMETIC = tuple(step for step in COUNTED if step not in MESSAGE_STEPS)

_BY_LABEL = {
    "classifier": EXCLUDED,
    "key xi": EXCLUDED,
    "key zeta": EXCLUDED,
    "noise": "noise sampling",
    "eta": "noise sampling",
    "rho": "noise sampling",
    "obfuscators": "obfuscators r^N",
    "obfuscators xi": "obfuscators r^N",
    "obfuscators zeta": "obfuscators r^N",
    "selected noise": "selected noise",
    "decider key": "comparisons",
    "blinded shares": "decryptions",
    "blinded noise": "decryptions",
    "sealed share": BOXES,
}
_BY_FIRST_WORD = {
    "bits": "comparisons",
    "matches": "comparisons",
    "zeros": "comparisons",
    "nonces": BOXES,
    "obfuscators": "obfuscators h^s",  # of round so-and-so; the others' labels are listed above
    "sum": "decryptions",
    "proof": "decryptions",  # of all openings: the lead's root
    "gradient": GRADIENTS,
}


def step_of(label: str) -> str:
    """Return the step to which a ``once`` label belongs; a label that is not named here is a draw, and counts."""
    return _BY_LABEL.get(label) or _BY_FIRST_WORD.get(label.split(maxsplit=1)[0], "draws")


class Meter:
    """Adds up CPU seconds of this process, all threads, under the innermost open key.

    Parameters
    ----------
    clock : callable
        Seconds; ``time.process_time`` unless a test brings its own.

    Attributes
    ----------
    seconds : mapping of (str, str) to float
        By (participant, step).
    readings : mapping of (str, str) to int
        How many intervals those seconds consist of; each contains the time of one reading of the clock.
    before : mapping of (str, str) to dict
        Seconds by step that a participant had used when it began a stage: by (participant, stage).
    """

    def __init__(self, clock: Callable[[], float] = time.process_time) -> None:
        self.seconds: dict[tuple[str, str], float] = defaultdict(float)
        self.readings: dict[tuple[str, str], int] = defaultdict(int)
        self.before: dict[tuple[str, str], dict[str, float]] = {}
        self._clock = clock
        self._open: list[tuple[str, str]] = []
        self._since = 0.0

    def _charge(self) -> None:
        now = self._clock()
        if self._open:
            self.seconds[self._open[-1]] += now - self._since
            self.readings[self._open[-1]] += 1
        self._since = now

    def under(self, participant: str, step: str) -> AbstractContextManager[None]:
        """Charge the time inside this block to this key, except the time that an inner block charges."""
        return _Under(self, (participant, step))

    def enter(self, key: tuple[str, str]) -> None:
        """Charge to ``key`` from here on."""
        self._charge()
        self._open.append(key)

    def leave(self) -> None:
        """Charge to the key before again."""
        self._charge()
        self._open.pop()

    def mark(self, participant: str, stage: str) -> None:
        """Note that a participant begins a stage."""
        self.before[participant, stage] = {
            step: self.seconds[participant, step] for step in STEPS if (participant, step) in self.seconds
        }

    def total(self, participants: Collection[str] | None = None, steps: Collection[str] = COUNTED) -> float:
        """Return the counted seconds of these participants (default: all) and steps."""
        return sum(
            seconds
            for (who, step), seconds in self.seconds.items()
            if step in steps and (participants is None or who in participants)
        )

    def reading_seconds(self, participants: Collection[str], steps: Collection[str], times: int = 1000) -> float:
        """Return the time of the clock's readings within :meth:`total`, measured by as many empty spans."""
        empty = Meter(self._clock)
        with empty.under("outer", ""):
            for _ in range(times):
                with empty.under("inner", ""):
                    pass
        each = sum(empty.seconds.values()) / sum(empty.readings.values())
        return each * sum(n for (who, step), n in self.readings.items() if who in participants and step in steps)

    def total_before(self, stage: str, participants: Collection[str], steps: Collection[str] = COUNTED) -> float:
        """Return the part of :meth:`total` that had been spent when each of these participants began a stage."""
        return sum(self.before[who, stage].get(step, 0.0) for who in participants for step in steps)


class _Under(AbstractContextManager[None]):
    """A block that is lighter than a generator, since the meter's own time is charged to the participants."""

    __slots__ = ("_key", "_meter")

    def __init__(self, meter: Meter, key: tuple[str, str]) -> None:
        self._meter, self._key = meter, key

    def __enter__(self) -> None:
        self._meter.enter(self._key)

    def __exit__(self, *_: object) -> None:
        self._meter.leave()


class MeteredRole(Coroutine[Effect, Any, Any]):
    """A role whose turns and ``once`` computations are charged to it."""

    def __init__(self, role: Coroutine[Effect, Any, Any], meter: Meter, me: str) -> None:
        self._role, self._meter, self._me = role, meter, me

    def send(self, value: Any) -> Effect:
        """Take one turn."""
        with self._meter.under(self._me, ROLE):
            effect = self._role.send(value)
        if isinstance(effect, Once):
            return Once(effect.label, self._metered(effect))
        if isinstance(effect, Stage):
            self._meter.mark(self._me, effect.name)
        return effect

    def _metered(self, effect: Once) -> Callable[[Rng], Any]:
        def compute(rng: Rng) -> Any:
            with self._meter.under(self._me, step_of(effect.label)):
                return effect.compute(rng)

        return compute

    def throw(self, *args: Any) -> Effect:
        """Pass an error in."""
        return self._role.throw(*args)

    def close(self) -> None:
        """Close the role."""
        self._role.close()

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._role.__await__()


class _Metered(Awaitable[T]):
    """An awaitable of the Seat, charged as message handling between its effects."""

    def __init__(self, inner: Coroutine[Any, Any, T], meter: Meter, me: str) -> None:
        self._inner, self._meter, self._me = inner, meter, me

    def __await__(self) -> Generator[Any, Any, T]:
        answer: Any = None
        while True:
            with self._meter.under(self._me, BOXES):
                try:
                    effect = self._inner.send(answer)
                except StopIteration as stop:
                    result: T = stop.value
                    return result
            answer = yield effect


class MeteredSeat(Seat):
    """A Seat whose codec and boxes are charged apart from the role that uses them."""

    meter: Meter

    async def join(self) -> None:
        """As the Seat's, metered."""
        await _Metered(super().join(), self.meter, self.me)

    async def send(self, to: str, message: Message) -> None:
        """As the Seat's, metered."""
        await _Metered(super().send(to, message), self.meter, self.me)

    async def broadcast(self, message: Message) -> None:
        """As the Seat's, metered."""
        await _Metered(super().broadcast(message), self.meter, self.me)

    async def send_sealed(self, message: SealedMessage, to: str | None = None) -> None:
        """As the Seat's, metered."""
        await _Metered(super().send_sealed(message, to), self.meter, self.me)

    async def gather(self, cls: type[M], senders: Collection[str] | None = None) -> dict[str, M]:
        """As the Seat's, metered."""
        return await _Metered(super().gather(cls, senders), self.meter, self.me)

    def unseal(self, sealed: bytes, *, length: int) -> bytes:
        """As the Seat's, metered."""
        with self.meter.under(self.me, BOXES):
            return super().unseal(sealed, length=length)


class _MeteredEndpoint:
    """An Endpoint that charges its work to its owner, and counts the bytes of every frame that leaves."""

    def __init__(
        self,
        inner: Endpoint,
        meter: Meter,
        me: str,
        sent: dict[tuple[str, str], list[int]],
        bodies: dict[tuple[str, str], bytes],
    ) -> None:
        self._inner, self._meter, self._me, self._sent, self._bodies = inner, meter, me, sent, bodies

    def seal(self, hop: str, kind: Any, body: bytes, **header: Any) -> bytes:
        with self._meter.under(self._me, FRAMES):
            data = self._inner.seal(hop, kind, body, **header)
        self._sent[self._me, header["type"]].append(len(data))
        self._bodies[self._me, header["type"]] = body
        return data

    def broadcast(self, kind: Any, body: bytes, *, type: str) -> bytes:  # noqa: A002 - the header's own word
        with self._meter.under(self._me, FRAMES):
            data = self._inner.broadcast(kind, body, type=type)
        self._sent[self._me, type].extend([len(data)] * self._inner.hops)  # made once, and sent over every hop
        return data

    def open(self, hop: str, data: bytes) -> Frame:
        with self._meter.under(self._me, FRAMES):
            return self._inner.open(hop, data)


class MeteredTable(Table):
    """The in-memory table with a meter; its seats may be of another kind.

    Attributes
    ----------
    meter : Meter
        CPU seconds by (participant, step).
    sent : mapping of (str, str) to list of int
        The length of every frame that (participant, message type) put on the wire, signature included; Charlie's
        include those that he passes on.
    bodies : mapping of (str, str) to bytes
        The body of the last message of each type that a participant put on the wire.
    """

    def __init__(
        self,
        names: Sequence[str],
        meter: Meter | None = None,
        seats: type[MeteredSeat] = MeteredSeat,
        study: Study | None = None,
        silent: Mapping[str, Silence] | None = None,
    ) -> None:
        super().__init__(names, study=study, silent=silent)
        self._seats = seats
        self.meter = Meter() if meter is None else meter
        self.sent: dict[tuple[str, str], list[int]] = defaultdict(list)
        self.bodies: dict[tuple[str, str], bytes] = {}
        self._endpoints = self._metered(self._endpoints)

    def _metered(self, endpoints: Mapping[str, Endpoint]) -> dict[str, Any]:
        return {
            name: _MeteredEndpoint(inner, self.meter, name, self.sent, self.bodies) for name, inner in endpoints.items()
        }

    def seat(self, name: str, meter: Meter | None = None) -> Seat:
        """Return a new seat, with this table's meter or another one."""
        seat = self._seats(name, self.names)
        seat.meter = self.meter if meter is None else meter
        return seat

    def run(self, roles: Mapping[str, Coroutine[Effect, Any, Any]]) -> dict[str, Any]:
        """Run all roles to their end, metered; time that belongs to no participant is the table's, and counts."""
        metered = {name: MeteredRole(role, self.meter, name) for name, role in roles.items()}
        with self.meter.under("table", TABLE):
            return super().run(metered)

    def _advance(self, name: str) -> bool:
        with self.meter.under(name, TABLE):  # what a driver does for its role: queues, and the form kept of a draw
            return super()._advance(name)

    def bytes_sent(self, name: str) -> int:
        """Return all bytes that a participant put on the wire, whole frames."""
        return sum(sum(lengths) for (who, _), lengths in self.sent.items() if who == name)


def ordinary(names: Sequence[str], lead: str) -> tuple[str, ...]:
    """Return the parties that are neither the lead nor Charlie."""
    return tuple(name for name in names if name not in (lead, CHARLIE))
