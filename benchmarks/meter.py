"""CPU time of a run at the in-memory table, split by participant and by step.

Effects are the whole interface between a role and its driver, so a run is metered from outside: around every ``once``
computation, around every turn of a role, around what its Seat does to messages, and around every frame. Each moment
counts for exactly one (participant, step), the innermost; the sum is all that the process used, in all threads.
"""

import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Coroutine, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from masquerade_core.rng import Rng
from masquerade_core.seat import Effect, Once, Seat
from masquerade_core.study import CHARLIE
from masquerade_core.table import Table
from masquerade_core.wire.frames import Endpoint, Frame
from masquerade_core.wire.messages import Message, Whisper

__all__ = ["EXCLUDED", "MESSAGE_STEPS", "STEPS", "Meter", "MeteredTable", "step_of"]

T = TypeVar("T")
M = TypeVar("M", bound=Message)

EXCLUDED = "excluded: key generation, training"
ROLE, BOXES, FRAMES, TABLE = "role arithmetic", "codec and boxes", "frames, signatures", "queues, journal"
STEPS = (
    "noise sampling",
    "obfuscators r^N",
    "selected noise",
    "comparisons",
    "decryptions",
    "draws",
    ROLE,
    BOXES,
    FRAMES,
    TABLE,
    EXCLUDED,
)
MESSAGE_STEPS = (BOXES, FRAMES, TABLE)
"""Message handling; everything else that counts is arithmetic."""

_BY_LABEL = {
    "classifier": EXCLUDED,
    "key xi": EXCLUDED,
    "key zeta": EXCLUDED,
    "noise": "noise sampling",
    "obfuscators": "obfuscators r^N",
    "obfuscators xi": "obfuscators r^N",
    "obfuscators zeta": "obfuscators r^N",
    "selected noise": "selected noise",
    "decider key": "comparisons",
    "blinded shares": "decryptions",
    "blinded noise": "decryptions",
    "sealed share": BOXES,
}
_BY_FIRST_WORD = {"bits": "comparisons", "matches": "comparisons", "zeros": "comparisons", "nonces": BOXES}


def step_of(label: str) -> str:
    """Return the step that a ``once`` label belongs to; what is not named here is a draw, and counts."""
    return _BY_LABEL.get(label) or _BY_FIRST_WORD.get(label.split(maxsplit=1)[0], "draws")


class Meter:
    """Adds up CPU seconds of this process, all threads, under the innermost open key.

    Parameters
    ----------
    clock : callable
        Seconds; ``time.process_time`` unless a test brings its own.
    """

    def __init__(self, clock: Callable[[], float] = time.process_time) -> None:
        self.seconds: dict[tuple[str, str], float] = defaultdict(float)
        self._clock = clock
        self._open: list[tuple[str, str]] = []
        self._since = 0.0

    def _charge(self) -> None:
        now = self._clock()
        if self._open:
            self.seconds[self._open[-1]] += now - self._since
        self._since = now

    @contextmanager
    def under(self, participant: str, step: str) -> Iterator[None]:
        """Charge what happens inside to this key, but for what is charged further inside."""
        self._charge()
        self._open.append((participant, step))
        try:
            yield
        finally:
            self._charge()
            self._open.pop()

    def total(self, participants: Collection[str] | None = None, steps: Collection[str] | None = None) -> float:
        """Return the counted seconds of these participants and steps (default: all); never those excluded."""
        return sum(
            seconds
            for (who, step), seconds in self.seconds.items()
            if step != EXCLUDED and (participants is None or who in participants) and (steps is None or step in steps)
        )


class _MeteredRole(Coroutine[Effect, Any, Any]):
    """A role whose turns and ``once`` computations are charged to it."""

    def __init__(self, role: Coroutine[Effect, Any, Any], meter: Meter, me: str) -> None:
        self._role, self._meter, self._me = role, meter, me

    def send(self, value: Any) -> Effect:
        with self._meter.under(self._me, ROLE):
            effect = self._role.send(value)
        if isinstance(effect, Once):
            return Once(effect.label, self._metered(effect))
        return effect

    def _metered(self, effect: Once) -> Callable[[Rng], Any]:
        def compute(rng: Rng) -> Any:
            with self._meter.under(self._me, step_of(effect.label)):
                return effect.compute(rng)

        return compute

    def throw(self, *args: Any) -> Effect:
        return self._role.throw(*args)

    def close(self) -> None:
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


class _MeteredSeat(Seat):
    """A Seat whose codec and boxes are charged apart from the role that uses them."""

    meter: Meter

    async def join(self) -> None:
        await _Metered(super().join(), self.meter, self.me)

    async def send(self, to: str, message: Message) -> None:
        await _Metered(super().send(to, message), self.meter, self.me)

    async def broadcast(self, message: Message) -> None:
        await _Metered(super().broadcast(message), self.meter, self.me)

    async def whisper(self, message: Whisper, to: str | None = None) -> None:
        await _Metered(super().whisper(message, to), self.meter, self.me)

    async def gather(self, cls: type[M], senders: Collection[str] | None = None) -> dict[str, M]:
        return await _Metered(super().gather(cls, senders), self.meter, self.me)

    def unseal(self, sealed: bytes, *, length: int) -> bytes:
        with self.meter.under(self.me, BOXES):
            return super().unseal(sealed, length=length)


class _MeteredEndpoint:
    """An Endpoint whose work is charged to its owner, and whose frames are weighed as they leave."""

    def __init__(self, inner: Endpoint, meter: Meter, me: str, sent: dict[tuple[str, str], list[int]]) -> None:
        self._inner, self._meter, self._me, self._sent = inner, meter, me, sent

    def seal(self, hop: str, kind: Any, body: bytes, **header: Any) -> bytes:
        with self._meter.under(self._me, FRAMES):
            data = self._inner.seal(hop, kind, body, **header)
        self._sent[self._me, header["type"]].append(len(data))
        return data

    def open(self, hop: str, data: bytes) -> Frame:
        with self._meter.under(self._me, FRAMES):
            return self._inner.open(hop, data)


class MeteredTable(Table):
    """The in-memory table with a meter.

    Attributes
    ----------
    meter : Meter
        CPU seconds by (participant, step).
    sent : mapping of (str, str) to list of int
        The length of every frame that (participant, message type) put on the wire, signature included; Charlie's
        include those that he passes on.
    """

    def __init__(self, names: Sequence[str], meter: Meter | None = None) -> None:
        super().__init__(names)
        self.meter = Meter() if meter is None else meter
        self.sent: dict[tuple[str, str], list[int]] = defaultdict(list)
        metered: dict[str, Any] = {
            name: _MeteredEndpoint(endpoint, self.meter, name, self.sent) for name, endpoint in self._endpoints.items()
        }
        self._endpoints = metered

    def seat(self, name: str) -> Seat:
        """Return a new metered seat."""
        seat = _MeteredSeat(name, self.names, self.run_id)
        seat.meter = self.meter
        return seat

    def run(self, roles: Mapping[str, Coroutine[Effect, Any, Any]]) -> dict[str, Any]:
        """Run all roles to their end, metered; whatever is nobody's is the table's, and counts."""
        metered = {name: _MeteredRole(role, self.meter, name) for name, role in roles.items()}
        with self.meter.under("table", TABLE):
            return super().run(metered)

    def bytes_sent(self, name: str) -> int:
        """Return all bytes that a participant put on the wire, whole frames."""
        return sum(sum(lengths) for (who, _), lengths in self.sent.items() if who == name)


def ordinary(names: Sequence[str], lead: str) -> tuple[str, ...]:
    """Return the parties that are neither the lead nor Charlie."""
    return tuple(name for name in names if name not in (lead, CHARLIE))
