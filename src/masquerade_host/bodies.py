"""What sessions say to each other, before, beside and after what the roles say.

::

    party                               Charlie
      |------- Hello (once a second) ----->|
      |<------ Beat: heard you ------------|        or Refusal; then the party sends Fields and ends
      |                                    |        (until all K parties have said hello)
      |<------ Roster --------------------|        everybody's signed hello, and Charlie's own key
      |<====== the roles' messages =======>|        beats in both directions, from the I/O threads
      |------- Closed: my role is done --->|
      |<------ Closed: everybody's is -----|        or an Abort at any time, in either direction
"""

from typing import Annotated, Literal

from nacl.bindings import crypto_scalarmult
from nacl.exceptions import CryptoError
from pydantic import AfterValidator, Field

from masquerade_core.wire.messages import Message, Name

__all__ = ["Abort", "Beat", "Closed", "Fields", "Hello", "Reason", "Refusal", "Roster", "differing"]

_MAX_PARTIES = 1024


def _contributory(key: bytes) -> bytes:
    """Refuse the few points of small order, with which every secret would give the same box."""
    try:
        crypto_scalarmult(b"\x40" * 32, key)
    except (CryptoError, RuntimeError) as error:
        raise ValueError("is no usable box key") from error
    return key


BoxKeyBytes = Annotated[bytes, Field(min_length=32, max_length=32), AfterValidator(_contributory)]
Version = Annotated[str, Field(pattern=r"\A[0-9A-Za-z.+-]{1,32}\z")]
_Field = Annotated[str, Field(pattern=r"\A[^\x00-\x1f\x7f]{1,256}\z")]
_Digest = Annotated[bytes, Field(min_length=16, max_length=16)]
_FieldHashes = Annotated[tuple[tuple[_Field, _Digest], ...], Field(max_length=16384)]
Reason = Literal["violation", "deadline", "left"]


class Hello(Message):
    """A party to Charlie, signed under its own run id: this is my program and my box key of this run."""

    version: Version
    box_key: BoxKeyBytes


class Refusal(Message):
    """Charlie to a party with another version or study: what his are, so that it can say where they differ."""

    version: Version
    fields: _FieldHashes


class Fields(Message):
    """The refused party's answer, so that Charlie's operator learns it too."""

    fields: _FieldHashes


class Roster(Message):
    """Charlie to every party: each party's hello exactly as that party signed it, in roster order, and his box key."""

    hellos: Annotated[tuple[Annotated[bytes, Field(max_length=1024)], ...], Field(max_length=_MAX_PARTIES)]
    box_key: BoxKeyBytes


class Beat(Message):
    """A sign of life from the I/O thread, and whom the role waits for at this moment."""

    waits_for: Annotated[tuple[Name, ...], Field(max_length=_MAX_PARTIES)]


class Abort(Message):
    """The run is over. ``blamed`` says by whose doing, ``by`` who found out; there is no free text."""

    reason: Reason
    blamed: Annotated[tuple[Name, ...], Field(max_length=_MAX_PARTIES)]
    by: Name


class Closed(Message):
    """A party's role is done; or, from Charlie, everybody's is."""


def differing(own: dict[str, bytes], theirs: tuple[tuple[str, bytes], ...]) -> tuple[str, ...]:
    """Return the names of the fields in which two studies differ, in alphabetical order."""
    other = dict(theirs)
    return tuple(sorted(name for name in own.keys() | other.keys() if own.get(name) != other.get(name)))
