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

import hashlib
import re
from typing import Annotated, Literal, Self

from nacl.bindings import crypto_scalarmult
from nacl.exceptions import CryptoError
from pydantic import AfterValidator, Field, model_validator

from masquerade_core.wire.messages import Message, Name

__all__ = ["Abort", "Beat", "Closed", "Fields", "Hello", "Reason", "Refusal", "Roster"]

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
_FIELD_NAME = re.compile(r"[^\x00-\x1f\x7f-\x9f]{1,256}")
_HASH_BYTES = 16
_MAX_FIELDS = 2**16
_MAX_NAMES = 2**21  # bytes; with the hashes they fit into a frame
Reason = Literal["violation", "deadline", "left"]


class Hello(Message):
    """A party to Charlie, signed under its own run id: this is my program and my box key of this run."""

    version: Version
    box_key: BoxKeyBytes


class Fields(Message):
    """A study's fields: the refused party's answer, so that Charlie's operator, too, learns where the studies differ.

    Two byte strings, for a study may have more fields than a message may have items: the names, one on each line, and
    16 bytes for each one's value.
    """

    names: Annotated[bytes, Field(max_length=_MAX_NAMES)]
    hashes: Annotated[bytes, Field(max_length=_MAX_FIELDS * _HASH_BYTES)]

    @model_validator(mode="after")
    def _one_hash_for_each_name(self) -> Self:
        names = self._lines()
        if not all(map(_FIELD_NAME.fullmatch, names)) or len(set(names)) * _HASH_BYTES != len(self.hashes):
            raise ValueError("names and hashes that do not belong together")
        return self

    def _lines(self) -> list[str]:
        return self.names.decode().split("\n") if self.names else []

    @classmethod
    def of(cls, hashes: dict[str, bytes]) -> Self:
        """Write down a study's ``field_hashes``; a study with too many of them by section."""
        names = "\n".join(hashes).encode()
        if len(hashes) > _MAX_FIELDS or len(names) > _MAX_NAMES:
            return cls.of(_by_section(hashes))
        return cls(names=names, hashes=b"".join(hashes.values()))

    def differing(self, own: dict[str, bytes]) -> tuple[str, ...]:
        """Return the names of the fields, or sections, in which ``own`` differs from these, in alphabetical order."""
        names = self._lines()
        starts = range(0, len(self.hashes), _HASH_BYTES)
        theirs = {n: self.hashes[i : i + _HASH_BYTES] for n, i in zip(names, starts, strict=True)}
        if not any("." in name for name in names):
            own = _by_section(own)
        return tuple(sorted(name for name in own.keys() | theirs.keys() if own.get(name) != theirs.get(name)))


def _by_section(hashes: dict[str, bytes]) -> dict[str, bytes]:
    """Return one hash for all fields of a section: its name is what stands before the first dot."""
    sections: dict[str, list[bytes]] = {}
    for name, digest in hashes.items():
        sections.setdefault(name.partition(".")[0], []).extend((name.encode(), digest))
    return {
        name: hashlib.blake2b(b"\n".join(parts), digest_size=_HASH_BYTES).digest() for name, parts in sections.items()
    }


class Refusal(Fields):
    """Charlie to a party with another version or study: what his are, so that it can say where they differ."""

    version: Version


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
