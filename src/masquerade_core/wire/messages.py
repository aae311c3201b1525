"""The kinds of message, and the field types they are made of.

A protocol declares its messages as frozen models. Two rules keep secrets out of them. No field type takes a secret. A
ciphertext enters a message only as :class:`~masquerade_core.wire.ciphertexts.Ciphertexts`, which is built from
:class:`~masquerade_core.crypto.paillier.Fresh` values and uses them up.
"""

from abc import ABC, abstractmethod
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

__all__ = ["NAME_BYTES", "PARTIES", "Broadcast", "Message", "Name", "OneSend", "SealedMessage"]

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
