"""Helpers of several tests of the core: small keys, hostile bytes, effects without a table, looks at secrets."""

import copy
import pickle
import sys
from collections.abc import Callable, Coroutine, Iterator, Mapping
from functools import cache, partial
from types import MappingProxyType
from typing import Any, TypeVar

import msgpack
import pytest

from masquerade_core.crypto.boxes import SIGNATURE_BYTES, SigningKey
from masquerade_core.crypto.paillier import SecretKey, draw_primes
from masquerade_core.crypto.pair_keys import BoxKey
from masquerade_core.errors import ProtocolViolation
from masquerade_core.rng import SystemRng
from masquerade_core.seat import Effect, Join, Once, Seat, Send
from masquerade_core.simulation_rng import SimulationRng
from masquerade_core.study import CHARLIE
from masquerade_core.table import Table
from masquerade_core.wire.codec import PARTIES, Message, encode
from masquerade_core.wire.frames import NONCE_BYTES, WIRE_VERSION, Endpoint

RUN = bytes(range(16))
PEER = "mallory"  # whom an error has to name

T = TypeVar("T")


@cache
def primes(bits: int, number: int = 0) -> tuple[int, int]:
    """Draw the same p and q every time."""
    return draw_primes(SimulationRng(bits, f"test primes {number}"), bits)


@cache
def secret_key(bits: int = 512, number: int = 0) -> SecretKey:
    """Make the same Paillier key every time."""
    return SecretKey(*primes(bits, number))


def endpoints(*names: str, run: bytes = RUN) -> dict[str, Endpoint]:
    """Both ends of each party's hop to Charlie."""
    keys = {name: SigningKey(SimulationRng(name).bytes(32)) for name in (*names, CHARLIE)}
    public = {name: key.public for name, key in keys.items()}
    parties = {name: public[name] for name in names}
    ends = {name: Endpoint(name, run, keys[name], {CHARLIE: public[CHARLIE]}) for name in names}
    return {**ends, CHARLIE: Endpoint(CHARLIE, run, keys[CHARLIE], parties)}


def calls(work: Callable[[], object]) -> int:
    """How many functions ``work`` calls, Python's and C's: what it costs, on a machine of any speed, busy or not."""
    count = 0

    def tally(_frame: object, event: str, _arg: object) -> None:
        nonlocal count
        count += event in {"call", "c_call"}

    before = sys.getprofile()
    sys.setprofile(tally)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


class Header:
    """A frame made by hand, to get wrong what an Endpoint gets right."""

    def __init__(self, name: str, hop: str) -> None:
        self.key = SigningKey(SimulationRng(name).bytes(32))
        self.fields: dict[str, Any] = {
            "v": WIRE_VERSION,
            "run": RUN,
            "src": name,
            "dst": hop,
            "kind": "message",
            "seq": 0,
            "type": "Hail",
            "body": b"body",
        }

    def sealed(self, **changes: Any) -> bytes:
        """Sign the header with these changes."""
        fields = {**self.fields, **changes}
        for name in ("src", "dst"):
            if isinstance(fields[name], str):
                fields[name] = fields[name].ljust(32)
        if type(fields["seq"]) is int and 0 <= fields["seq"] < 2**32:
            fields["seq"] = fields["seq"].to_bytes(4, "big")
        return self.signed(msgpack.packb(tuple(fields.values())))

    def signed(self, data: bytes) -> bytes:
        """Sign any bytes."""
        return self.key.sign(data) + data


def violation(call: Callable[[], object], peer: str = PEER) -> ProtocolViolation:
    """Expect a ProtocolViolation that names ``peer``, in its text too."""
    with pytest.raises(ProtocolViolation) as caught:
        call()
    assert caught.value.peer == peer
    assert peer in caught.value.message
    return caught.value


def either(call: Callable[[], object], peer: str = PEER) -> ProtocolViolation:
    """Expect a ProtocolViolation that suspects ``peer`` and Charlie, names both in its text, and accuses neither."""
    with pytest.raises(ProtocolViolation) as caught:
        call()
    assert (caught.value.peer, caught.value.suspects) == ("", (peer, CHARLIE))
    assert peer in caught.value.message
    assert "Charlie" in caught.value.message
    return caught.value


def flips(data: bytes) -> Iterator[bytes]:
    """Every single-bit change."""
    for i in range(8 * len(data)):
        changed = bytearray(data)
        changed[i // 8] ^= 1 << i % 8
        yield bytes(changed)


def cuts(data: bytes) -> Iterator[bytes]:
    """Every proper prefix, and one byte too many."""
    yield from (data[:i] for i in range(len(data)))
    yield data + b"\0"


def keeps_its_secret(secret: object, *digits: int | bytes) -> None:
    """Expect that a secret is neither pickled nor copied, nor printed."""
    for leave in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError):
            leave(secret)
    shown = f"{secret!r} {secret!s} {secret} {secret:}"
    for digit in digits:
        raw = digit if isinstance(digit, bytes) else digit.to_bytes((digit.bit_length() + 7) // 8, "big")
        texts = {str(digit), repr(digit), raw.hex(), repr(raw)[2:-1]}
        texts |= {str(int.from_bytes(raw, "big")), f"{int.from_bytes(raw, 'big'):x}"}
        assert not any(text in shown for text in texts)


def until(role: Coroutine[Effect, Any, T], kind: type[Effect], rng: SimulationRng | None = None) -> Any:
    """Step a role, answering its draws, until it asks for an effect of this kind."""
    draws = SimulationRng(0) if rng is None else rng
    effect = role.send(None)
    while not isinstance(effect, kind):
        effect = role.send(effect.compute(draws) if isinstance(effect, Once) else None)
    return effect


def finish(role: Coroutine[Effect, Any, T], *answers: object) -> T:
    """Go on with a role that waits, giving one answer after the other; draws are made by a seeded source."""
    rest, draws = list(answers), SimulationRng(1)
    answer: object = rest.pop(0) if rest else None
    try:
        while True:
            effect = role.send(answer)
            answer = effect.compute(draws) if isinstance(effect, Once) else (rest.pop(0) if rest else None)
    except StopIteration as stop:
        result: T = stop.value
        return result


def joining(name: str, nonce: bytes | None = None, key: BoxKey | None = None) -> Join:
    """The effect with which a participant joins, by default with a fresh key and nonce."""
    key = BoxKey(SystemRng().bytes(32)) if key is None else key
    nonce = SystemRng().bytes(NONCE_BYTES) if nonce is None else nonce
    return Join(key.public, nonce, partial(key.prove, name=name, nonce=nonce))


def box_key_of(name: str) -> BoxKey:
    """A participant's box key, which follows from its name."""
    return BoxKey(SimulationRng(name, "box").bytes(32))


def joined(
    me: str, names: tuple[str, ...], run: bytes = RUN, *, announced: Mapping[str, bytes] = MappingProxyType({})
) -> Seat:
    """Seat a participant at a table where everybody's box key is known; ``announced`` has others."""
    seat = Seat(me, names)
    role = seat.join()
    once = role.send(None)
    assert isinstance(once, Once)
    asked = role.send(SimulationRng(me, "box").bytes(32))
    assert isinstance(asked, Join)
    keys = [(name, announced.get(name) or box_key_of(name).public) for name in (*names, CHARLIE)]
    with pytest.raises(StopIteration):
        role.send((tuple(keys), run))
    return seat


async def tell_each(table: Table, messages: Mapping[str, Message]) -> None:
    """Broadcast as a Charlie who breaks the rules: under one number, each party gets a message of its own, or none."""
    bodies = {name: encode(message, PARTIES) for name, message in messages.items()}
    to_party, first = table._to_party, next(iter(messages))

    def lie(name: str, data: bytes) -> None:
        if name in bodies:
            signed = msgpack.packb([*msgpack.unpackb(data[SIGNATURE_BYTES:])[:-1], bodies[name]])
            to_party(name, table._endpoints[CHARLIE]._key.sign(signed) + signed)

    table._to_party = lie  # type: ignore[method-assign]  # this table's alone, for one broadcast
    try:
        kind = type(messages[first]).__name__
        await Send("message", kind, table.names, (bodies[first],) * len(table.names), broadcast=True)
    finally:
        del table._to_party
