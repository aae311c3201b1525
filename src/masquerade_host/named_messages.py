"""The sessions' messages that name participants: beats and aborts. Their length says nothing of whom they name.

Names are of different lengths, and so many participants may be named at one time. So neither travels. What travels is
one bit for each participant of the study, in roster order and Charlie last.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from masquerade_core.errors import ProtocolViolation
from masquerade_core.wire.codec import decode, encode
from masquerade_core.wire.messages import Message

__all__ = ["Abort", "Beat", "Reason", "pack_abort", "pack_beat", "read_abort", "read_beat"]

Reason = Literal["violation", "deadline", "left"]
_COUNT_BYTES = 4
_Count = Annotated[bytes, Field(min_length=_COUNT_BYTES, max_length=_COUNT_BYTES)]
_Bits = Annotated[bytes, Field(min_length=1, max_length=1025 // 8 + 1)]


class BeatMessage(Message):
    """A :class:`Beat` as it travels."""

    waits_for: _Bits
    got: _Count
    connection: _Count


@dataclass(frozen=True)
class Beat:
    """A sign of life from the I/O thread.

    Attributes
    ----------
    waits_for : tuple of str
        Whom the role waits for at this moment.
    got : int
        How many numbered frames of this hop's other end its sender holds for certain.
    connection : int
        The number of the connection. The party chooses it, and Charlie repeats it.
    """

    waits_for: tuple[str, ...] = ()
    got: int = 0
    connection: int = 0


class AbortMessage(Message):
    """An :class:`Abort` as it travels. There is no free text, which could carry a record."""

    reason: Reason
    blamed: _Bits
    by: _Bits


@dataclass(frozen=True)
class Abort:
    """The run is over.

    Attributes
    ----------
    reason : str
        ``violation`` (somebody broke the protocol), ``deadline`` (somebody was silent), ``left`` (somebody stopped).
    blamed : tuple of str
        Those the reason speaks of. For a violation: one name where it is proved, several where one of them is at fault
        and nobody can tell which, none where nobody can be named.
    by : str
        The participant who found out.
    """

    reason: Reason
    blamed: tuple[str, ...]
    by: str


def pack_beat(beat: Beat, everybody: Sequence[str]) -> bytes:
    """Return the body of a beat.

    Parameters
    ----------
    beat : Beat
    everybody : sequence of str
        All participants in roster order, Charlie last.
    """
    got, connection = (count.to_bytes(_COUNT_BYTES, "big") for count in (beat.got, beat.connection))
    return encode(BeatMessage(waits_for=_bits(beat.waits_for, everybody), got=got, connection=connection), "")


def read_beat(body: bytes, everybody: Sequence[str], peer: str) -> Beat:
    """Return the beat that ``peer`` sent.

    Raises
    ------
    ProtocolViolation
        The fault of ``peer``: this is no beat.
    """
    message = decode(BeatMessage, body, peer)
    waits_for = _named(message.waits_for, everybody, peer)
    return Beat(waits_for, int.from_bytes(message.got, "big"), int.from_bytes(message.connection, "big"))


def pack_abort(abort: Abort, everybody: Sequence[str]) -> bytes:
    """Return the body of an abort; see :func:`pack_beat`."""
    return encode(
        AbortMessage(reason=abort.reason, blamed=_bits(abort.blamed, everybody), by=_bits((abort.by,), everybody)), ""
    )


def read_abort(body: bytes, everybody: Sequence[str], peer: str) -> Abort:
    """Return the abort that ``peer`` sent.

    Raises
    ------
    ProtocolViolation
        The fault of ``peer``: this is no abort, or it does not say who found out.
    """
    message = decode(AbortMessage, body, peer)
    match _named(message.by, everybody, peer):
        case (by,):
            return Abort(message.reason, _named(message.blamed, everybody, peer), by)
        case _:
            raise ProtocolViolation(
                f"{peer} ended the run in the name of nobody, or of several; allowed is one participant of the study",
                peer=peer,
            )


def _bits(names: Collection[str], everybody: Sequence[str]) -> bytes:
    return sum(1 << everybody.index(name) for name in set(names)).to_bytes((len(everybody) + 7) // 8, "little")


def _named(bits: bytes, everybody: Sequence[str], peer: str) -> tuple[str, ...]:
    value = int.from_bytes(bits, "little")
    if len(bits) != (len(everybody) + 7) // 8 or value >> len(everybody):
        raise ProtocolViolation(
            f"{peer} named participants who are not in the study; allowed is one bit for each of {len(everybody)}",
            peer=peer,
        )
    return tuple(name for i, name in enumerate(everybody) if value >> i & 1)
