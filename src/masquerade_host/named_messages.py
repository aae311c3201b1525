"""The beat: a session's message that names participants. Its length says nothing of whom it names.

Names are of different lengths, and so many participants may be named at one time. So neither travels. What travels is
one bit for each participant of the study, in roster order and Charlie last. The other such message, the abort, is in
:mod:`masquerade_core.wire.aborts`: it is evidence, too, and whoever judges evidence reads it.
"""

from collections.abc import Collection, Sequence

from masquerade_core.wire.aborts import Abort, Bits, Reason, bits_of, names_in, pack_abort, read_abort
from masquerade_core.wire.codec import decode, encode
from masquerade_core.wire.messages import Message

__all__ = ["Abort", "Reason", "pack_abort", "pack_beat", "read_abort", "read_beat"]


class Beat(Message):
    """A sign of life from the I/O thread, with those whom the role waits for at this moment."""

    waits_for: Bits


def pack_beat(waits_for: Collection[str], everybody: Sequence[str]) -> bytes:
    """Return the body of a beat.

    Parameters
    ----------
    waits_for : collection of str
        Whom the role waits for.
    everybody : sequence of str
        All participants in roster order, Charlie last.
    """
    return encode(Beat(waits_for=bits_of(waits_for, everybody)), "")


def read_beat(body: bytes, everybody: Sequence[str], peer: str) -> tuple[str, ...]:
    """Return whom the role of ``peer`` waits for.

    Raises
    ------
    ProtocolViolation
        The fault of ``peer``: this is no beat.
    """
    return names_in(decode(Beat, body, peer).waits_for, everybody, peer)
