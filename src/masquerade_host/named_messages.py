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

__all__ = ["Abort", "Reason", "pack_abort", "pack_beat", "read_abort", "read_beat"]

Reason = Literal["violation", "deadline", "left"]
_Bits = Annotated[bytes, Field(min_length=1, max_length=1025 // 8 + 1)]


class Beat(Message):
    """A sign of life from the I/O thread, with those whom the role waits for at this moment."""

    waits_for: _Bits


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


def pack_beat(waits_for: Collection[str], everybody: Sequence[str]) -> bytes:
    """Return the body of a beat.

    Parameters
    ----------
    waits_for : collection of str
        Whom the role waits for.
    everybody : sequence of str
        All participants in roster order, Charlie last.
    """
    return encode(Beat(waits_for=_bits(waits_for, everybody)), "")


def read_beat(body: bytes, everybody: Sequence[str], peer: str) -> tuple[str, ...]:
    """Return whom the role of ``peer`` waits for.

    Raises
    ------
    ProtocolViolation
        The fault of ``peer``: this is no beat.
    """
    return _named(decode(Beat, body, peer).waits_for, everybody, peer)


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
