"""The Seat: the only connection between a role and the world.

A *role* is one participant's part of a protocol, written as an ``async def``. It awaits the methods of its Seat and
nothing else. Each await yields an *effect*, a frozen value that asks for something, to a *driver*, which runs the
coroutine and answers. There are three drivers: the table in memory (:mod:`masquerade_core.table`), the replay beside
it, and the driver of a networked process. Effects carry bytes only, so no driver knows a protocol. The list of effects
and answers determines the run: a role that is given the same answers sends the same bytes again.

The participants are the parties, who own records, and Charlie, the server that all messages pass through. The Seat
enforces three rules:

* ``once`` is the only way to randomness and to heavy arithmetic, and each of its labels can be used once.
* A :class:`~masquerade_core.wire.codec.SealedMessage` travels from party to party in a sealed box. Any other
  :class:`~masquerade_core.wire.codec.Message` travels between a party and Charlie. A
  :class:`~masquerade_core.wire.codec.Broadcast` goes from Charlie to all parties or to nobody.
* A ciphertext is sent only to the recipient for whom it was randomized.

A role also says how much work a run is (:class:`Forecast`): public numbers, the same at all participants, which say how
long one step may take.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Generator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from masquerade_core.crypto.boxes import open_sealed, seal
from masquerade_core.crypto.pair_keys import BoxKey, End, seal_anonymous
from masquerade_core.errors import LocalProtocolError, ProtocolViolation
from masquerade_core.rng import Rng
from masquerade_core.roster_disclosure import coin_of
from masquerade_core.study import CHARLIE
from masquerade_core.wire.codec import (
    PARTIES,
    Broadcast,
    Message,
    OneSend,
    SealedMessage,
    decode,
    encode,
    open_envelope,
    pack_envelope,
)
from masquerade_core.wire.frames import NONCE_BYTES

__all__ = [
    "Effect",
    "Forecast",
    "Join",
    "Once",
    "Progress",
    "Receive",
    "Release",
    "Seat",
    "Send",
    "Stage",
    "slowest_exponentiation",
]


# --- Effects ---------------------------------------------------------------------


class Effect:
    """A request of a role to its driver; awaiting it hands it over and returns the driver's answer."""

    def __await__(self) -> Generator["Effect", Any, Any]:
        """Yield this effect and return what the driver sends back."""
        return (yield self)


@dataclass(frozen=True)
class Join(Effect):
    """Join the run: publish the key for sealed boxes and a nonce, and wait for everybody's.

    The answer is (((name, key), ...), run id). The run id depends on everybody's nonce. Where a participant is not
    shown everybody's key, a third item follows: the root of the tree over everybody's hello.

    ``prove(study_id=..., signing=...)`` proves that this participant owns the key. The driver knows both: the id of the
    study, and the public key under which it signs.
    """

    box_key: bytes
    nonce: bytes
    prove: Callable[..., bytes] = field(compare=False, repr=False)


@dataclass(frozen=True)
class Stage(Effect):
    """A new stage begins; from here on, time, messages and bytes are counted under its name."""

    name: str


@dataclass(frozen=True)
class Once(Effect):
    """Run ``compute(rng)`` once in this run; its result is plain data, and a replay of the run gets it again."""

    label: str
    compute: Callable[[Rng], Any]


@dataclass(frozen=True)
class Send(Effect):
    """Send one body to each recipient. ``kind`` is "message", or "sealed" for boxes, which are all equally long.

    In a ``broadcast`` all bodies are the same, and all parties are recipients. One body has so many ``ciphertexts``.
    """

    kind: str
    type: str
    to: tuple[str, ...]
    bodies: tuple[bytes, ...]
    broadcast: bool = False
    ciphertexts: int = 0


@dataclass(frozen=True)
class Receive(Effect):
    """Wait for one body of this kind and type from each sender; the answer has them in the order of ``senders``.

    A ``broadcast`` must have gone to all parties. Where ``within`` is set, the driver waits so many seconds at most,
    and the answer has None in the place of a party that sent nothing.
    """

    kind: str
    type: str
    senders: tuple[str, ...]
    broadcast: bool = False
    within: float | None = None


@dataclass(frozen=True)
class Release(Effect):
    """Count what the contents of the next send cost in privacy.

    Attributes
    ----------
    label : str
        Names what is released; one label stands for one release of the run.
    epsilon, delta : float
        What this release costs alone.
    mu : float
        Greater than 0 where the noise is Gaussian: its sensitivity over its standard deviation. Such releases compose
        exactly (:mod:`~masquerade_core.privacy.accounting`).
    slack : float
        The delta that pays for the distance of the drawn noise from a Gaussian, where mu is greater than 0.
    """

    label: str
    epsilon: float
    delta: float
    mu: float = 0.0
    slack: float = 0.0


@dataclass(frozen=True)
class Progress(Effect):
    """``done`` of ``total`` rounds are over; ``iterate`` is the current public classifier, if there is one."""

    done: int
    total: int
    iterate: tuple[float, ...]


# --- Forecast --------------------------------------------------------------------

_SECONDS = 0.1  # for an exponentiation with keys of so many bits:
_BITS = 2048


@dataclass(frozen=True)
class Forecast:
    """The time that a participant may need for a frame beside the study's ``deadline_seconds``.

    Attributes
    ----------
    seconds : float
        For the arithmetic of one frame, on the slowest machine that may take part.
    turns : int
        The longest chain of frames each of which waits for the one before.
    """

    seconds: float = 0.0
    turns: int = 2


def slowest_exponentiation(key_bits: int) -> float:
    """Return how many seconds one of Paillier's exponentiations may take: a public number, by the length of the key.

    The work grows with the third power of the length. Machines of today need a third of it.
    """
    return _SECONDS * (key_bits / _BITS) ** 3


# --- Seat ------------------------------------------------------------------------

T = TypeVar("T")
M = TypeVar("M", bound=Message)

_SEALED = "sealed message"


class Seat:
    """One participant's connection to a run.

    Parameters
    ----------
    me : str
        This participant's name; ``CHARLIE`` for the server.
    names : tuple of str
        The parties, in the order of the study's roster.

    Attributes
    ----------
    released : dict of str to Release
        What the role has counted so far, by label.
    """

    def __init__(self, me: str, names: tuple[str, ...]) -> None:
        self.me = me
        self.names = names
        self._run = b""
        self._labels: set[str] = set()
        self.released: dict[str, Release] = {}
        self._box: BoxKey | None = None
        self._keys: dict[str, bytes] = {}
        self._places: dict[str, int] = {}
        self._root = b""
        self._sent: Counter[tuple[str, str]] = Counter()
        self._opened: Counter[tuple[str, str]] = Counter()
        self._sealed_sends = 0

    @property
    def others(self) -> tuple[str, ...]:
        """The other parties, in the order of the roster."""
        return tuple(name for name in self.names if name != self.me)

    @property
    def run(self) -> bytes:
        """The run id, which the answer to :meth:`join` brings; keys that two participants share depend on it."""
        _ = self._joined_box
        return self._run

    @property
    def _joined_box(self) -> BoxKey:
        if self._box is None:
            msg = "a role used its seat before it joined the run; join() must come first"
            raise LocalProtocolError(msg)
        return self._box

    async def join(self) -> None:
        """Draw the key for sealed boxes, publish its public half, and receive those of others, and the run id.

        In a study with many parties these are not all others (``masquerade_core.roster_disclosure``).

        Raises
        ------
        ProtocolViolation
            A participant joined with bytes that are not a key.
        """
        secret = await self.once("box key", lambda rng: rng.bytes(32))
        box = BoxKey(secret)
        # A nonce needs no draw of its own: the secret key is fresh in every run, and its hash tells nothing of it.
        nonce = hashlib.blake2b(secret, digest_size=NONCE_BYTES, person=b"masq nonce").digest()
        prove = partial(box.prove, name=self.me, nonce=nonce)
        keys, run, *root = await Join(box.public, nonce, prove)
        self._keys = dict(keys)
        self._places = {name: place for place, (name, _) in enumerate(keys)}  # Charlie's is the last
        for name, key in self._keys.items():
            box.check(key, name)
        self._box, self._run, self._root = box, run, b"".join(root)

    async def stage(self, name: str) -> None:
        """Say which stage of the protocol begins."""
        await Stage(name)

    async def progress(self, done: int, total: int, iterate: tuple[float, ...] = ()) -> None:
        """Say how many rounds of a long stage are over."""
        await Progress(done, total, iterate)

    async def once(self, label: str, compute: Callable[[Rng], T]) -> T:
        """Run ``compute(rng)`` one time per run, and return its result.

        Parameters
        ----------
        label : str
            Names the draw within this run; each label can be used once.
        compute : callable
            Receives the seat's randomness. It returns plain data, which a driver can write down: int of any size,
            float, bytes, str, bool, None, and tuples and dicts of these.

        Raises
        ------
        LocalProtocolError
            The label was used before. A number that was drawn for one input must never be used for another.
        """
        if label in self._labels:
            msg = f"the draw {label!r} was asked for twice in one run; each draw needs a label of its own"
            raise LocalProtocolError(msg)
        self._labels.add(label)
        result: T = await Once(label, compute)
        return result

    async def release(self, label: str, epsilon: float, delta: float, mu: float = 0.0, slack: float = 0.0) -> None:
        """Count what the contents of the next send cost in privacy; :class:`Release` has the parameters.

        A party's process debits its privacy budget with this before anything of that send leaves.

        Raises
        ------
        LocalProtocolError
            The label was used before: two releases with one label would cost one.
        """
        if label in self.released:
            msg = f"the release {label!r} was counted twice in one run; each release needs a label of its own"
            raise LocalProtocolError(msg)
        self.released[label] = Release(label, epsilon, delta, mu, slack)
        await self.released[label]

    async def send(self, to: str, message: Message) -> None:
        """Send a message from a party to Charlie, or from Charlie to one party."""
        self._check_clear(message)
        if (to == CHARLIE) == (self.me == CHARLIE):
            msg = f"{self.me} cannot send a {type(message).__name__} to {to}: messages go between a party and Charlie"
            raise LocalProtocolError(msg)
        if self.me == CHARLIE and isinstance(message, Broadcast):
            msg = f"a {type(message).__name__} is a broadcast; {CHARLIE} cannot send it to {to} alone"
            raise LocalProtocolError(msg)
        await Send("message", type(message).__name__, (to,), (encode(message, to),), ciphertexts=_ciphertexts(message))

    async def broadcast(self, message: Message) -> None:
        """Send one message from Charlie to every party."""
        self._check_clear(message)
        if self.me != CHARLIE:
            msg = f"{self.me} cannot broadcast; only Charlie can"
            raise LocalProtocolError(msg)
        if not isinstance(message, Broadcast):
            msg = f"a {type(message).__name__} is not a broadcast; declare its class as one, so that parties check it"
            raise LocalProtocolError(msg)
        body = encode(message, PARTIES)
        bodies = (body,) * len(self.names)
        await Send("message", type(message).__name__, self.names, bodies, True, _ciphertexts(message))

    def _check_clear(self, message: Message) -> None:
        _ = self._joined_box
        if isinstance(message, SealedMessage):
            msg = f"a {type(message).__name__} is a sealed message; it cannot be sent in the clear"
            raise LocalProtocolError(msg)

    async def send_sealed(self, message: SealedMessage, to: str | None = None) -> None:
        """Seal a message for one party, or for every other party, and let Charlie relay it.

        All boxes of one sealed message are equally long. So Charlie learns only who sends when, which is public anyway.

        Parameters
        ----------
        message : SealedMessage
        to : str, optional
            The recipient; every other party where none is given.
        """
        _ = self._joined_box
        targets = self.others if to is None else (to,)
        kind = type(message).__name__
        self._check_sealed(message)
        if not (self.me in self.names and set(targets) <= set(self.others)):
            msg = (
                f"{self.me} cannot send a sealed message to {', '.join(targets)}: "
                "sealed messages go from a party to other parties"
            )
            raise LocalProtocolError(msg)
        nonces = await self.once(
            f"nonces of sealed message {self._sealed_sends}", lambda rng: rng.bytes(24 * len(targets))
        )
        self._sealed_sends += 1
        body = encode(message, PARTIES if to is None else to)
        boxes = tuple(
            seal(
                self.pair_key(name, _SEALED, sender=self.me),
                pack_envelope(self.me, name, kind, self._sent[name, kind], body),
                nonces[24 * i : 24 * i + 24],
            )
            for i, name in enumerate(targets)
        )
        self._sent.update((name, kind) for name in targets)
        await Send("sealed", kind, targets, boxes, ciphertexts=_ciphertexts(message))

    def _check_sealed(self, message: Message) -> None:
        if not isinstance(message, SealedMessage):
            msg = f"a {type(message).__name__} is not a sealed message; only sealed messages go from party to party"
            raise LocalProtocolError(msg)

    async def receive(self, cls: type[M], sender: str) -> M:
        """Wait for one message of this class from one sender.

        Raises
        ------
        ProtocolViolation
            The bytes are not such a message, or a sealed box does not open. The error says who may be at fault.
        """
        return (await self.gather(cls, (sender,)))[sender]

    async def gather(self, cls: type[M], senders: Collection[str] | None = None) -> dict[str, M]:
        """Wait for one message of this class from each sender, by default from every other party.

        The result has the messages by their senders' names, in the order of ``senders``.
        """
        _ = self._joined_box
        wanted = self.others if senders is None else tuple(senders)
        sealed = issubclass(cls, SealedMessage)
        name = cls.__name__
        broadcast = issubclass(cls, Broadcast) and self.me != CHARLIE
        bodies: tuple[bytes, ...] = await Receive("sealed" if sealed else "message", name, wanted, broadcast)
        if sealed:
            bodies = tuple(self._open(peer, name, body) for peer, body in zip(wanted, bodies, strict=True))
        return {peer: decode(cls, body, peer) for peer, body in zip(wanted, bodies, strict=True)}

    async def gather_within(self, cls: type[M], senders: Collection[str], seconds: float) -> dict[str, M]:
        """Wait at most so many seconds for one message of this class, in the clear, from each sender.

        The result has the messages of those who answered. Bytes that are no such message count as no answer.
        """
        _ = self._joined_box
        bodies = await Receive("message", cls.__name__, tuple(senders), within=seconds)
        answers: dict[str, M] = {}
        for peer, body in zip(senders, bodies, strict=True):
            if body is not None:
                with suppress(ProtocolViolation):
                    answers[peer] = decode(cls, body, peer)
        return answers

    def _open(self, peer: str, kind: str, sealed: bytes) -> bytes:
        plain = open_sealed(self.pair_key(peer, _SEALED, sender=peer), sealed, peer)
        body = open_envelope(plain, peer, (peer, self.me, kind, self._opened[peer, kind]))
        self._opened[peer, kind] += 1
        return body

    def seal(self, rng: Rng, to: str, data: bytes) -> bytes:
        """Seal bytes that travel inside a message to another participant, who passes them on to ``to``.

        The box is anonymous: it contains neither the sender's name nor a number.
        """
        _ = self._joined_box
        return seal_anonymous(rng, self._run, self._end(to), data)

    def unseal(self, sealed: bytes, *, length: int) -> bytes:
        """Open bytes that :meth:`seal` sealed for this participant.

        Raises
        ------
        ProtocolViolation
            The box does not open, or its contents have not ``length`` bytes.
        """
        data = self._joined_box.open_anonymous(self._run, self.me, sealed)
        if len(data) != length:
            msg = (
                f"an anonymous box for this participant contains {len(data)} bytes; it must contain {length}. It "
                "carries no name, so nobody can tell who made it"
            )
            raise ProtocolViolation(msg)
        return data

    def pair_key(self, peer: str, purpose: str, *, sender: str = "", context: bytes = b"") -> bytes:
        """Return a 32-byte key of this run that only this participant and ``peer`` can compute.

        Parameters
        ----------
        peer : str
        purpose : str
            What the key is for. No two uses have the same.
        sender : str
            Who seals or proves something under it; empty where both use it alike.
        context : bytes
            What else the key depends on.
        """
        box, theirs = self._joined_box, self._end(peer)
        mine = End(self.me, box.public)
        ends = (mine, theirs) if self._places[self.me] < self._places[peer] else (theirs, mine)
        return box.pair_key(self._run, theirs.public, purpose, ends, sender=sender, context=context)

    def roster_hash(self) -> bytes:
        """Return a hash of this run and of everybody's name and box key: equal where two saw the same roster.

        Where a party is not shown all keys, it is a hash of the run and of the root of the tree over all hellos.
        """
        _ = self._joined_box
        if self._root:
            return coin_of(self.run, self._root)
        rows = b"".join(f"{name}\0".encode() + key for name, key in self._keys.items())
        return coin_of(self.run, rows)

    def _end(self, peer: str) -> End:
        if (key := self._keys.get(peer)) is None:
            msg = (
                f"{self.me} has no key of {peer}: in a study with many parties a party is shown those of its "
                "neighbours and of the roster's first party alone"
            )
            raise LocalProtocolError(msg)
        return End(peer, key)


def _ciphertexts(message: Message) -> int:
    return sum(value.count for _, value in message if isinstance(value, OneSend))
