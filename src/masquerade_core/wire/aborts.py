"""The abort: a participant ends the run, says whom it blames, and shows the frames that prove it where there are any.

An abort *accuses* one participant if its reason is a violation and it names one. It may show frames that the accused
has signed. The recipient checks them by the rules in :mod:`masquerade_core.wire.proof`, and believes no more than
they prove.

Only the accuser's own signature makes an accusation. Charlie passes a party's abort on as it was signed. So ``by`` is
the sender; in what Charlie passes on it is a party, and the only frame is that party's own abort.

Names do not travel: they are of different lengths. What travels is one bit for each participant of the study, in
roster order and Charlie last. So an abort without frames is always equally long. One with frames is longer, and an
observer of the network learns that somebody was accused.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from masquerade_core.errors import LocalProtocolError, ProtocolViolation
from masquerade_core.study import CHARLIE
from masquerade_core.study.sections import MOST_PARTIES
from masquerade_core.wire.codec import Message, decode, encode

__all__ = [
    "MAX_SHOWN",
    "MAX_SHOWN_BYTES",
    "Abort",
    "Bits",
    "Reason",
    "bits_of",
    "may_be_copied",
    "names_in",
    "pack_abort",
    "read_abort",
]

Reason = Literal["violation", "deadline", "left", "copied", "damaged", "changed"]
_LEAVING = frozenset({"left", "damaged", "changed"})
Bits = Annotated[bytes, Field(min_length=1, max_length=MOST_PARTIES // 8 + 1)]
MAX_SHOWN = 4  # frames that one abort may show
MAX_SHOWN_BYTES = 1_000_000  # of all of them together
_PASSED_ON_BYTES = MAX_SHOWN_BYTES + 4096  # the same where Charlie passes on a whole abort that shows frames


class AbortMessage(Message):
    """An :class:`Abort` as it travels. There is no free text, which could carry a record."""

    reason: Reason
    blamed: Bits
    by: Bits
    frames: Annotated[tuple[Annotated[bytes, Field(max_length=_PASSED_ON_BYTES)], ...], Field(max_length=MAX_SHOWN)]

    @model_validator(mode="after")
    def _bounded(self) -> Self:
        if sum(map(len, self.frames)) > (MAX_SHOWN_BYTES if len(self.frames) > 1 else _PASSED_ON_BYTES):
            raise ValueError("are too long")
        return self


@dataclass(frozen=True)
class Abort:
    """The run is over.

    Attributes
    ----------
    reason : str
        ``violation`` (somebody broke the protocol), ``deadline`` (somebody was silent), ``left`` (somebody stopped),
        ``copied`` (somebody's state is an old copy, or two processes use copies of it, which is nobody's guilt),
        ``damaged`` (somebody stopped, since what its machine keeps is damaged), ``changed`` (somebody stopped, since
        its program is another one than at the run's begin).
    blamed : tuple of str
        Those the reason speaks of. For a violation: one name where the sender has checked it, several where one of them
        is at fault and it cannot tell which, none where nobody can be named.
    by : str
        The participant who found out.
    frames : tuple of bytes
        Frames that prove the fault of the one who is blamed; or the party's own abort, in one that Charlie passes on.
    """

    reason: Reason
    blamed: tuple[str, ...]
    by: str
    frames: tuple[bytes, ...] = ()

    @property
    def leaves(self) -> bool:
        """Whether its sender stops and accuses nobody."""
        return self.reason in _LEAVING

    def same_as(self, other: "Abort") -> bool:
        """Say whether both say the same, whatever frames they show."""
        return (self.reason, self.blamed, self.by) == (other.reason, other.blamed, other.by)


def may_be_copied(abort: Abort, signer: str) -> bool:
    """Say whether ``signer`` can know of the copied states that an abort speaks of.

    A party sees its own state and Charlie's acknowledgements; Charlie sees everybody's.
    """
    return signer == CHARLIE or set(abort.blamed) <= {signer, CHARLIE}


def pack_abort(abort: Abort, everybody: Sequence[str]) -> bytes:
    """Return the body of an abort.

    Parameters
    ----------
    abort : Abort
    everybody : sequence of str
        All participants in roster order, Charlie last.
    """
    blamed, by = bits_of(abort.blamed, everybody), bits_of((abort.by,), everybody)
    return encode(AbortMessage(reason=abort.reason, blamed=blamed, by=by, frames=abort.frames), "")


def read_abort(body: bytes, everybody: Sequence[str], peer: str) -> Abort:
    """Return the abort that ``peer`` sent.

    Raises
    ------
    ProtocolViolation
        The fault of ``peer``: this is no abort, or it does not say who found out.
    """
    message = decode(AbortMessage, body, peer)
    match names_in(message.by, everybody, peer):
        case (by,):
            return Abort(message.reason, names_in(message.blamed, everybody, peer), by, message.frames)
        case _:
            raise ProtocolViolation(
                f"{peer} ended the run in the name of nobody, or of several; it must be one participant of the study",
                peer=peer,
            )


def bits_of(names: Collection[str], everybody: Sequence[str]) -> bytes:
    """Return participants as bits."""
    wanted, bits = set(names), bytearray((len(everybody) + 7) // 8)
    for i, name in enumerate(everybody if wanted else ()):
        if name in wanted:
            bits[i // 8] |= 1 << i % 8
            wanted.remove(name)
    if wanted:
        msg = f"{len(wanted)} of the participants that an abort or a beat names are not in the study"
        raise LocalProtocolError(msg)
    return bytes(bits)


def names_in(bits: bytes, everybody: Sequence[str], peer: str) -> tuple[str, ...]:
    """Return the participants that ``peer`` has sent as bits.

    Raises
    ------
    ProtocolViolation
        The fault of ``peer``: there are no such participants.
    """
    value = int.from_bytes(bits, "little")
    if len(bits) != (len(everybody) + 7) // 8 or value >> len(everybody):
        raise ProtocolViolation(
            f"{peer} named participants who are not in the study; it must send one bit for each of {len(everybody)}",
            peer=peer,
        )
    return tuple(everybody[8 * i + j] for i, byte in enumerate(bits) if byte for j in range(8) if byte >> j & 1)
