"""The two messages of a lobby: all that a site has to say, and the answer with all that it may see.

A site repeats its message until the answer is complete. So a lost message, a lost connection and a process that starts
again need nothing else.
"""

from typing import Annotated, Literal, TypeVar

import msgpack
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from masquerade.lobby.code import HASH_BYTES, NUMBER_BYTES
from masquerade.lobby.invitation import ID_BYTES, TOKEN_BYTES
from masquerade_core.errors import ProtocolViolation
from masquerade_core.study.sections import MOST_PARTIES

__all__ = ["MOST_ANSWER", "MOST_WORD", "Refusal", "SeatShown", "Shown", "Word", "pack", "unpack"]

MOST_WORD = 64 * 1024
"""The most bytes of a site's message."""

MOST_ANSWER = 8 * 1024 * 1024
"""The most bytes of an answer: a study of the largest size, and all seats."""

Refusal = Literal["", "unknown", "used", "over", "anew"]
"""Why a seat is not given; "" where it is."""

_SIGNATURE_BYTES = 64
_Name = Annotated[str, Field(min_length=1, max_length=64)]
_Names = Annotated[tuple[_Name, ...], Field(strict=False, max_length=MOST_PARTIES)]
_Keys = Annotated[str, Field(max_length=96)]
_Hash = Annotated[bytes, Field(min_length=HASH_BYTES, max_length=HASH_BYTES)]
_Number = Annotated[bytes, Field(max_length=NUMBER_BYTES)]
_Signature = Annotated[bytes, Field(max_length=_SIGNATURE_BYTES)]


class _Message(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", hide_input_in_errors=True)


class SeatShown(_Message):
    """A site's words about its seat, as the others are shown them.

    Parameters
    ----------
    name, keys : str
        The site's name and its public keys.
    commitment : bytes
        To both, and to its number.
    number : bytes
        Its number, 32 bytes, once it holds all commitments; before that, nothing.
    heard : tuple of str
        The sites from whom its person heard the code.
    vouch : bytes
        This site's signature for that, 64 bytes; nothing before.
    ready : bool
        Whether its person has said yes.
    """

    name: _Name
    keys: _Keys
    commitment: _Hash
    number: _Number = b""
    heard: _Names = ()
    vouch: _Signature = b""
    ready: bool = False


class Word(SeatShown):
    """A site's message, each time anew: its seat, and by which right it is there.

    Parameters
    ----------
    lobby, token : bytes
        Of its invitation, 16 bytes each.
    """

    lobby: Annotated[bytes, Field(min_length=ID_BYTES, max_length=ID_BYTES)]
    token: Annotated[bytes, Field(min_length=TOKEN_BYTES, max_length=TOKEN_BYTES)]


class Shown(_Message):
    """The answer.

    Parameters
    ----------
    refused : str
        Why this site gets no seat: its token is "unknown", or "used" by other keys, or its time is "over"; or the
        lobby began "anew" without its number.
    missing : tuple of str
        The sites that did not come yet.
    study : str
        The complete study as TOML, once everybody is there; before that, nothing.
    seats : tuple of SeatShown
        All of them then, in the study's order.
    """

    refused: Refusal = ""
    missing: _Names = ()
    study: Annotated[str, Field(max_length=MOST_ANSWER // 2)] = ""
    seats: Annotated[tuple[SeatShown, ...], Field(strict=False, max_length=MOST_PARTIES)] = ()


M = TypeVar("M", bound=_Message)


def pack(message: _Message) -> bytes:
    """Return a message's bytes."""
    return bytes(msgpack.packb(message.model_dump()))


def unpack(cls: type[M], data: bytes, peer: str) -> M:
    """Read a message.

    Raises
    ------
    ProtocolViolation
        The fault of ``peer``: this is no such message. The text shows nothing of it.
    """
    try:
        return cls.model_validate(msgpack.unpackb(data, max_ext_len=0, max_map_len=64, max_array_len=MOST_PARTIES))
    except (ValidationError, ValueError, TypeError, msgpack.UnpackException):
        raise ProtocolViolation(
            f"{peer} sent something that is no message of a lobby; only such messages are allowed", peer=peer
        ) from None
