"""The beat: a session's message that names participants. Its length says nothing of whom it names.

Names are of different lengths, and so many participants may be named at one time. So neither travels. What travels is
one bit for each participant of the study, in roster order and Charlie last. The other such message, the abort, is in
:mod:`masquerade_core.wire.aborts`: it is evidence, too, and whoever judges evidence reads it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from masquerade_core.wire.aborts import Bits, bits_of, names_in
from masquerade_core.wire.codec import decode, encode
from masquerade_core.wire.messages import Message

__all__ = ["Beat", "beats_every", "pack_beat", "pack_bits", "read_beat"]

_COUNT_BYTES = 4
_Count = Annotated[bytes, Field(min_length=_COUNT_BYTES, max_length=_COUNT_BYTES)]


class BeatMessage(Message):
    """A :class:`Beat` as it travels."""

    waits_for: Bits
    got: _Count
    connection: _Count
    moves: _Count


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
    moves: int
        Charlie's: how often somebody's clock has started at his end (:mod:`masquerade_host.dues`). A party's is 0.
    """

    waits_for: tuple[str, ...] = ()
    got: int = 0
    connection: int = 0
    moves: int = 0


def beats_every(parties: int, deadline: float) -> float:
    """Return how many seconds lie between two beats of one participant.

    Charlie checks a signature for each beat that he hears, and makes one for each that he sends. So with more than 100
    parties each beats more rarely, and he hears 50 beats a second. A beat is never older than a sixth of the deadline,
    whatever their number: whoever is blamed for a silence is blamed by beats as fresh as in a small study.
    """
    return min(max(2.0, parties / 50), deadline / 6)


def pack_beat(beat: Beat, everybody: Sequence[str]) -> bytes:
    """Return the body of a beat.

    Parameters
    ----------
    beat : Beat
    everybody : sequence of str
        All participants in roster order, Charlie last.
    """
    return pack_bits(bits_of(beat.waits_for, everybody), beat.got, beat.connection, beat.moves)


def pack_bits(waits_for: bytes, got: int, connection: int, moves: int) -> bytes:
    """Return the body of a beat that says whom its sender waits for as it travels, in bits.

    They are the same in all beats that leave at one time. The other parameters are the attributes of :class:`Beat`.
    """
    counts = [count.to_bytes(_COUNT_BYTES, "big") for count in (got, connection, moves)]
    return encode(BeatMessage(waits_for=waits_for, got=counts[0], connection=counts[1], moves=counts[2]), "")


def read_beat(body: bytes, everybody: Sequence[str], peer: str) -> Beat:
    """Return the beat that ``peer`` sent.

    Raises
    ------
    ProtocolViolation
        The fault of ``peer``: this is no beat.
    """
    message = decode(BeatMessage, body, peer)
    waits_for = names_in(message.waits_for, everybody, peer)
    got, connection, moves = (int.from_bytes(n, "big") for n in (message.got, message.connection, message.moves))
    return Beat(waits_for, got, connection, moves)
