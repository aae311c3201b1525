"""The Seat: all that a role can see of the world.

A role is an ``async def`` that awaits its Seat and nothing else. Each await yields one *effect*, a frozen value, to
whoever drives the coroutine: the in-memory table (:mod:`masquerade_core.table`), the replay checker beside it, or the
process driver. Effects carry bytes only, so a driver knows no protocol, and the list of effects with their results *is*
the run: fed again, it makes the same bytes again.

Rules that the Seat enforces:

* ``once`` is the only door to randomness and to heavy arithmetic; a label serves once.
* A :class:`~masquerade_core.wire.messages.SealedMessage` travels only sealed from party to party, a
  :class:`~masquerade_core.wire.messages.Message` only between a party and Charlie.
* Ciphertexts leave only towards the recipient they were made fresh for.
"""

from collections import Counter
from collections.abc import Callable, Collection, Generator
from dataclasses import dataclass
from typing import Any, TypeVar

from masquerade_core.crypto.boxes import BoxKey, open_anonymous, seal_anonymous
from masquerade_core.errors import LocalProtocolError, ProtocolViolation
from masquerade_core.rng import Rng
from masquerade_core.study import CHARLIE
from masquerade_core.wire.codec import decode, encode, open_envelope, pack_envelope
from masquerade_core.wire.messages import PARTIES, Message, SealedMessage

__all__ = ["Effect", "Join", "Once", "Progress", "Receive", "Release", "Seat", "Send", "Stage"]

T = TypeVar("T")
M = TypeVar("M", bound=Message)


class Effect:
    """What a role asks of its driver; awaiting it hands it over and returns the driver's answer."""

    def __await__(self) -> Generator["Effect", Any, Any]:
        """Yield this effect and return what the driver sends back."""
        return (yield self)


@dataclass(frozen=True)
class Join(Effect):
    """Take the seat: show this run's public box key, and wait for everybody's: ((name, key), ...)."""

    box_key: bytes


@dataclass(frozen=True)
class Stage(Effect):
    """A new stage begins; time, messages and bytes are counted under its name from here on."""

    name: str


@dataclass(frozen=True)
class Once(Effect):
    """Run ``compute(rng)`` one time in this run's whole life and return its (plain) result, also after a restart."""

    label: str
    compute: Callable[[Rng], Any]


@dataclass(frozen=True)
class Send(Effect):
    """Put one body per recipient on the wire. ``kind`` is "message" or "sealed" (boxes, equally long)."""

    kind: str
    type: str
    to: tuple[str, ...]
    bodies: tuple[bytes, ...]


@dataclass(frozen=True)
class Receive(Effect):
    """Wait for one body of this kind and type from each sender; returns them in that order."""

    kind: str
    type: str
    senders: tuple[str, ...]


@dataclass(frozen=True)
class Release(Effect):
    """The budget debit that belongs to the next send."""

    label: str
    epsilon: float
    delta: float


@dataclass(frozen=True)
class Progress(Effect):
    """``done`` of ``total`` rounds are over; ``iterate`` is the public classifier of this moment, where there is one."""

    done: int
    total: int
    iterate: tuple[float, ...]


class Seat:
    """One participant's place at the table.

    Parameters
    ----------
    me : str
        This participant's name; ``CHARLIE`` for the curator.
    names : tuple of str
        The parties in roster order.
    run : bytes
        The run id; everything derived from pairwise keys is bound to it.
    """

    def __init__(self, me: str, names: tuple[str, ...], run: bytes) -> None:
        self.me = me
        self.names = names
        self.run = run
        self._labels: set[str] = set()
        self._box: BoxKey | None = None
        self._keys: dict[str, bytes] = {}
        self._sent: Counter[tuple[str, str]] = Counter()
        self._opened: Counter[tuple[str, str]] = Counter()
        self._sealed_sends = 0

    @property
    def others(self) -> tuple[str, ...]:
        """The other parties, in roster order."""
        return tuple(name for name in self.names if name != self.me)

    @property
    def _joined_box(self) -> BoxKey:
        if self._box is None:
            msg = "a role talked before it joined"
            raise LocalProtocolError(msg)
        return self._box

    async def join(self) -> None:
        """Draw this run's box key, show its public half and learn the others'.

        Raises
        ------
        ProtocolViolation
            Somebody joined with bytes that are no key.
        """
        secret = await self.once("box key", lambda rng: rng.bytes(32))
        box = BoxKey(secret)
        self._keys = dict(await Join(box.public))
        for name, key in self._keys.items():
            box.check(key, name)
        self._box = box

    async def stage(self, name: str) -> None:
        """Say which of the paper's stages begins."""
        await Stage(name)

    async def progress(self, done: int, total: int, iterate: tuple[float, ...] = ()) -> None:
        """Say how far a long stage has come."""
        await Progress(done, total, iterate)

    async def once(self, label: str, compute: Callable[[Rng], T]) -> T:
        """Run ``compute(rng)`` one time per run and keep its result.

        Parameters
        ----------
        label : str
            Names the draw within this run; a label serves once.
        compute : callable
            Receives the seat's randomness; returns plain data (int of any size, float, bytes, str, bool, None, tuples
            and dicts of them), for the result may have to be written down.

        Raises
        ------
        LocalProtocolError
            When the label was used before: what was drawn for one input must never serve a second.
        """
        if label in self._labels:
            msg = f"the draw {label!r} was asked for twice in one run"
            raise LocalProtocolError(msg)
        self._labels.add(label)
        result: T = await Once(label, compute)
        return result

    async def release(self, label: str, epsilon: float, delta: float) -> None:
        """Debit the budget for what the next send releases."""
        await Release(label, epsilon, delta)

    async def send(self, to: str, message: Message) -> None:
        """Send a message from a party to Charlie, or from Charlie to one party."""
        self._check_clear(message)
        if (to == CHARLIE) == (self.me == CHARLIE):
            msg = f"{self.me} cannot send a {type(message).__name__} to {to} in the clear: parties send sealed messages"
            raise LocalProtocolError(msg)
        await Send("message", type(message).__name__, (to,), (encode(message, to),))

    async def broadcast(self, message: Message) -> None:
        """Send one message from Charlie to every party."""
        self._check_clear(message)
        if self.me != CHARLIE:
            msg = f"only Charlie broadcasts, not {self.me}"
            raise LocalProtocolError(msg)
        body = encode(message, PARTIES)
        await Send("message", type(message).__name__, self.names, (body,) * len(self.names))

    def _check_clear(self, message: Message) -> None:
        _ = self._joined_box
        if isinstance(message, SealedMessage):
            msg = f"a {type(message).__name__} never travels in the clear"
            raise LocalProtocolError(msg)

    async def send_sealed(self, message: SealedMessage, to: str | None = None) -> None:
        """Seal a message for one party, or for every other party, and have Charlie relay it.

        The boxes of one sealed message are equally long, so Charlie learns who speaks when, which is public, and no more.
        """
        box, targets = self._joined_box, self.others if to is None else (to,)
        kind = type(message).__name__
        self._check_sealed(message)
        if not (self.me in self.names and set(targets) <= set(self.others)):
            msg = f"{self.me} cannot send a sealed message to {', '.join(targets)}"
            raise LocalProtocolError(msg)
        nonces = await self.once(
            f"nonces of sealed message {self._sealed_sends}", lambda rng: rng.bytes(24 * len(targets))
        )
        self._sealed_sends += 1
        body = encode(message, PARTIES if to is None else to)
        boxes = tuple(
            box.seal(
                self._keys[name],
                pack_envelope(self.me, name, kind, self._sent[name, kind], body),
                nonces[24 * i : 24 * i + 24],
            )
            for i, name in enumerate(targets)
        )
        self._sent.update((name, kind) for name in targets)
        await Send("sealed", kind, targets, boxes)

    def _check_sealed(self, message: Message) -> None:
        if not isinstance(message, SealedMessage):
            msg = f"a {type(message).__name__} is no sealed message: parties send sealed messages to each other, and send to Charlie"
            raise LocalProtocolError(msg)

    async def receive(self, cls: type[M], sender: str) -> M:
        """Wait for one message of this class from one sender.

        Raises
        ------
        ProtocolViolation
            The sender's fault: bytes that are not such a message, or a box that does not open.
        """
        return (await self.gather(cls, (sender,)))[sender]

    async def gather(self, cls: type[M], senders: Collection[str] | None = None) -> dict[str, M]:
        """Wait for one message of this class from each sender (default: every other party); in roster order."""
        _ = self._joined_box
        wanted = self.others if senders is None else tuple(senders)
        sealed = issubclass(cls, SealedMessage)
        name = cls.__name__
        bodies: tuple[bytes, ...] = await Receive("sealed" if sealed else "message", name, wanted)
        if sealed:
            bodies = tuple(self._open(peer, name, body) for peer, body in zip(wanted, bodies, strict=True))
        return {peer: decode(cls, body, peer) for peer, body in zip(wanted, bodies, strict=True)}

    def _open(self, peer: str, kind: str, sealed: bytes) -> bytes:
        plain = self._joined_box.open(self._keys[peer], sealed, peer)
        body = open_envelope(plain, peer, (peer, self.me, kind, self._opened[peer, kind]))
        self._opened[peer, kind] += 1
        return body

    def seal(self, rng: Rng, to: str, data: bytes) -> bytes:
        """Seal bytes for a third participant, anonymously: neither the sender nor a number is in it."""
        _ = self._joined_box
        return seal_anonymous(rng, self._keys[to], data)

    def unseal(self, sealed: bytes, *, length: int) -> bytes:
        """Open what somebody sealed for this participant; its plaintext has ``length`` bytes."""
        data = open_anonymous(self._joined_box, sealed)
        if len(data) != length:
            msg = f"a sealed value has {len(data)} bytes, not {length}"
            raise ProtocolViolation(msg)
        return data

    def shared_key(self, peer: str, label: bytes) -> bytes:
        """A 32-byte key that only this participant and ``peer`` can compute, bound to the run and to ``label``."""
        return self._joined_box.shared_key(self._keys[peer], self.run + label)
