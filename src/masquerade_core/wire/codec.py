"""Messages, and their way to bytes and back: a peer's bytes cost memory in proportion to their length, and no more.

A *body* is a msgpack map of the message's fields, in their declared order and in canonical (shortest) form. This wire
has no floats, no extension types, no keys other than strings, and no duplicate keys.

A protocol declares its messages as frozen models. Two rules keep secrets out of them. No field type takes a secret. A
ciphertext enters a message only as :class:`~masquerade_core.wire.ciphertexts.Ciphertexts`, which is built from
:class:`~masquerade_core.crypto.paillier.Fresh` values and uses them up.
"""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Annotated, Any, Never, NoReturn, TypeVar

import msgpack
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from masquerade_core.errors import ProtocolViolation
from masquerade_core.study import CHARLIE
from masquerade_core.words import listed

__all__ = [
    "MAX_BODY",
    "NAME_BYTES",
    "PARTIES",
    "Broadcast",
    "Message",
    "Name",
    "OneSend",
    "SealedMessage",
    "decode",
    "encode",
    "numbers",
    "open_envelope",
    "pack_envelope",
    "pack_numbers",
    "pack_plain",
    "unpack_plain",
    "unpack_strict",
]


PARTIES = "*"  # as a recipient: every party
NAME_BYTES = 32  # the longest name of a participant

Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,31}$")]


class Message(BaseModel):
    """A message between a party and Charlie."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", hide_input_in_errors=True)

    def __repr_args__(self) -> tuple[()]:
        """Print no field: a message may hold coins or a share, and a repr may end up in a log."""
        return ()


class Broadcast(Message):
    """A message that Charlie sends to all parties, and to all of them the same bytes.

    A party refuses one that came to it alone. At the end of a run all parties compare a hash of what Charlie broadcast.
    A party may send such a message to Charlie, who passes it on.
    """


class SealedMessage(Message):
    """A message from a party to other parties: it travels in boxes, which Charlie relays and cannot open."""


class OneSend(ABC):
    """A field's value that can be encoded once, for the recipient for whom it was made."""

    __slots__ = ()

    @abstractmethod
    def take(self, recipient: str) -> bytes:
        """Hand over the bytes, once, for a send to ``recipient``; LocalProtocolError if they are not for it."""

    @property
    @abstractmethod
    def count(self) -> int:
        """How many ciphertexts this process sends with it."""


# --- To bytes and back --------------------------------------------------------------


MAX_BODY = 4 * 1024 * 1024  # bytes: nothing longer is ever unpacked
_MAX_DEPTH = 4
_MAX_ARRAY = 4096  # parties, and what comes one per party; msgpack allocates an array as soon as it reads its header
_MAX_MAPS = 64
_BIG_INT = 1  # the extension type of :func:`pack_plain`, never on the wire
_INT64, _UINT64 = -(2**63), 2**64

M = TypeVar("M", bound=Message)


def encode(message: Message, recipient: str) -> bytes:
    """Encode a message for one recipient. This uses its ciphertexts up: they cannot be sent again."""
    fields = {
        name: value.take(recipient) if isinstance(value := getattr(message, name), OneSend) else value
        for name in type(message).model_fields
    }
    return bytes(msgpack.packb(fields))


def decode(cls: type[M], body: bytes, peer: str) -> M:
    """Decode and validate a body that came from ``peer``.

    Raises
    ------
    ProtocolViolation
        The fault of ``peer``. The text names the wrong fields and never their values.
    """
    fields = unpack_strict(body, peer)
    if not isinstance(fields, dict) or list(fields) != list(cls.model_fields):
        allowed = ", ".join(cls.model_fields) or "none"
        _violation(f"a message {cls.__name__!r} with wrong fields; they must be {allowed}, in this order", peer)
    try:
        return cls.model_validate(fields)
    except ValidationError as error:
        wrong = sorted({str(e["loc"][0]) for e in error.errors(include_input=False) if e["loc"]})
        where, verb = listed(wrong or ["content"]), "are" if len(wrong) > 1 else "is"
        _violation(f"a message {cls.__name__!r} whose {where} {verb} out of bounds or of the wrong type", peer)


def _violation(what: str, peer: str) -> NoReturn:
    msg = f"{peer} sent {what}"
    # No cause is chained: a parser's error may quote what it choked on.
    raise ProtocolViolation(msg, peer=peer) from None


def unpack_strict(data: bytes, peer: str) -> Any:
    """Unpack msgpack within the bounds and in the form that the module's docstring names.

    Raises
    ------
    ProtocolViolation
        The fault of ``peer``.
    """
    if len(data) > MAX_BODY:
        _violation(f"{len(data)} bytes; at most {MAX_BODY} are allowed", peer)
    bounds = _Bounds()
    try:
        value = msgpack.unpackb(
            data,
            use_list=False,
            strict_map_key=True,
            object_pairs_hook=bounds.fields,
            list_hook=bounds.items,
            ext_hook=bounds.no_extension,
            max_array_len=_MAX_ARRAY,
            max_map_len=32,
            max_str_len=4096,
            max_bin_len=MAX_BODY,
            max_ext_len=0,
        )
    except (ValueError, msgpack.UnpackException, RecursionError, MemoryError):
        _violation("bytes that are not msgpack, or exceed the bounds of a message", peer)
    if not _shallow(value, _MAX_DEPTH) or msgpack.packb(value) != data:
        _violation("msgpack that is nested too deeply, is not in canonical form, or contains floats", peer)
    return value


class _Bounds:
    """Counts what one body holds while it is unpacked: 4 MB of empty maps would take 300 MB of memory."""

    def __init__(self) -> None:
        self._maps = _MAX_MAPS
        self._items = _MAX_ARRAY

    def fields(self, pairs: list[tuple[Any, Any]]) -> dict[str, Any]:
        fields = dict(pairs)
        self._maps -= 1
        if self._maps < 0 or len(fields) != len(pairs) or not all(isinstance(key, str) for key in fields):
            msg = "too many maps, duplicate or non-string keys"
            raise ValueError(msg)
        return fields

    def items(self, items: tuple[Any, ...]) -> tuple[Any, ...]:
        self._items -= len(items)
        if self._items < 0:
            msg = "too many items in arrays"
            raise ValueError(msg)
        return items

    def no_extension(self, _code: int, _raw: bytes) -> Never:
        # msgpack itself lets an empty extension through, as a tuple.
        msg = "an extension type"
        raise ValueError(msg)


def _shallow(value: Any, depth: int) -> bool:
    """Say whether nothing is nested deeper than so, and nothing is a float."""
    if isinstance(value, dict):
        value = tuple(value.values())
    if not isinstance(value, tuple):
        return not isinstance(value, float)
    kinds = set(map(type, value))
    if depth <= 0 or float in kinds:
        return False
    return not ({dict, tuple} & kinds) or all(_shallow(v, depth - 1) for v in value)


def pack_numbers(values: Sequence[int], width: int) -> bytes:
    """Write numbers of any size, ``width`` bytes each and big-endian, so that the length tells nothing of them."""
    return b"".join(value.to_bytes(width, "big") for value in values)


def numbers(raw: bytes, width: int, count: int, peer: str) -> tuple[int, ...]:
    """Read ``count`` numbers that :func:`pack_numbers` wrote.

    Raises
    ------
    ProtocolViolation
        The fault of ``peer``: another length.
    """
    if len(raw) != width * count:
        _violation(f"{len(raw)} bytes of numbers, but {count} numbers of {width} bytes each are due", peer)
    return tuple(int.from_bytes(raw[i : i + width], "big") for i in range(0, len(raw), width))


def _turn(source: str, to: str, kind: str, count: int) -> bytes:
    turn = msgpack.packb((source, to, kind, count))
    return hashlib.blake2b(turn, digest_size=16, person=b"masq envelope").digest()


def pack_envelope(source: str, to: str, kind: str, count: int, body: bytes) -> bytes:
    """Bind a sealed message's body to its direction, type and number, before it is sealed.

    The binding takes 16 bytes, however long the names are.
    """
    return _turn(source, to, kind, count) + body


def open_envelope(plain: bytes, peer: str, expected: tuple[str, str, str, int]) -> bytes:
    """Return the body of an opened sealed message.

    Raises
    ------
    ProtocolViolation
        The box was made for another direction, type or number. Either ``peer`` made it so, or Charlie relayed an older
        box, or one that travels the other way. Both are suspects.
    """
    turn = _turn(*expected)
    if not plain.startswith(turn):
        msg = (
            f"a box that came in the name of {peer} was made for another turn: either {peer} sealed it so, or "
            "Charlie, who relayed it, replaced it; nobody can tell which of the two"
        )
        raise ProtocolViolation(msg, suspects=(peer, CHARLIE))
    return plain[len(turn) :]


def pack_plain(value: object) -> bytes:
    """Write down plain data, such as a result of ``once``, for this process alone; integers may be of any size."""
    try:
        return bytes(msgpack.packb(value))
    except OverflowError:  # an integer beyond 64 bits; most results have none
        return bytes(msgpack.packb(_widen(value)))


def _widen(value: Any) -> Any:
    if isinstance(value, int) and not isinstance(value, bool) and not _INT64 <= value < _UINT64:
        return msgpack.ExtType(_BIG_INT, value.to_bytes(value.bit_length() // 8 + 1, "big", signed=True))
    if isinstance(value, (tuple, list)):
        return [_widen(v) for v in value]
    if isinstance(value, dict):
        return {k: _widen(v) for k, v in value.items()}
    return value


def unpack_plain(data: bytes) -> Any:
    """Read back what :func:`pack_plain` wrote; sequences come back as tuples."""
    return msgpack.unpackb(
        data,
        use_list=False,
        ext_hook=lambda _code, raw: int.from_bytes(raw, "big", signed=True),
        strict_map_key=False,
    )
