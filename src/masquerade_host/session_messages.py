"""The messages that sessions exchange: before the roles' own messages, beside them and after them.

A *role* is one participant's part of a protocol; a *session* is what carries a role's messages. The sessions' own
messages are these::

    party                               Charlie
      |------- Hello (once a second) ----->|
      |<------ Beat: heard you ------------|        or Refusal; then the party sends Fields and ends
      |                                    |        (until all K parties have said hello)
      |<------ Roster ---------------------|        every party's signed hello, and Charlie's own key
      |<------ Hellos ---------------------|        with many parties: the hellos that the roster has no room for
      |<====== the roles' messages =======>|        beats in both directions, from the I/O threads
      |------- Closed: my role is done --->|        with a hash of all that Charlie broadcast
      |<------ AllClosed: every role is ---|        the parties' signed Closed, to be compared
                                                    or an Abort at any time, in either direction

Beats and aborts are in :mod:`masquerade_host.named_messages`. :mod:`masquerade_host.session_states` says which message
is legal when.
"""

import hashlib
import re
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from masquerade_core.crypto.boxes import SIGNATURE_BYTES
from masquerade_core.crypto.pair_keys import image_of
from masquerade_core.neighbours import NEIGHBOURS
from masquerade_core.wire.frames import NONCE_BYTES
from masquerade_core.wire.header import HASH_BYTES, LONGEST_PATH
from masquerade_core.wire.messages import Message
from masquerade_host.program import PROGRAM_BYTES

__all__ = [
    "DIGEST_BYTES",
    "MOST_AT_ONCE",
    "AllClosed",
    "Closed",
    "Fields",
    "Hello",
    "Hellos",
    "Refusal",
    "RefusalReason",
    "Roster",
]

MOST_AT_ONCE = 4000
"""Parties whose signed frames one message holds, at most."""

DIGEST_BYTES = 32
_Signed = Annotated[bytes, Field(max_length=1024)]


def _box_key(key: bytes) -> bytes:
    """Refuse what is no box key: with a point of small order every secret key would give the same shared key."""
    image_of(key)
    return key


BoxKeyBytes = Annotated[bytes, Field(min_length=32, max_length=32), AfterValidator(_box_key)]
Proof = Annotated[bytes, Field(min_length=SIGNATURE_BYTES, max_length=SIGNATURE_BYTES)]
Nonce = Annotated[bytes, Field(min_length=NONCE_BYTES, max_length=NONCE_BYTES)]
ProgramHash = Annotated[bytes, Field(min_length=PROGRAM_BYTES, max_length=PROGRAM_BYTES)]
RefusalReason = Literal["differs", "broken", "begun"]
Version = Annotated[str, Field(pattern=r"\A[0-9A-Za-z.+-]{1,32}\z")]
_FIELD_NAME = re.compile(r"[^\x00-\x1f\x7f-\x9f]{1,256}")
_HASH_BYTES = 16
_MAX_FIELDS = 2**16
_MAX_NAMES = 2**21  # bytes; names and hashes together fit into one frame


class Hello(Message):
    """From a party to Charlie: its version, its public box key for this run, and a fresh nonce.

    A version is the numbers of the wire and of the protocol's meaning. The program is a hash of its files
    (:mod:`masquerade_host.program`), which nobody checks.

    The frame around it bears the party's signature and the study id that the party computed from its own study.

    Attributes
    ----------
    version : str
    box_key, nonce : bytes
    proof : bytes
        Shows that the party owns the box key (:func:`~masquerade_core.crypto.pair_keys.proves_ownership`).
    """

    version: Version
    box_key: BoxKeyBytes
    nonce: Nonce
    proof: Proof
    program: ProgramHash = bytes(PROGRAM_BYTES)


class Fields(Message):
    """The fields of a study, each as a name and a hash of its value.

    A refused party sends them, so that Charlie's operator, too, learns where the two studies differ. They travel as two
    byte strings, since a study may have more fields than a message may have items: the names, one a line, and the
    16-byte hashes in the same order.
    """

    names: Annotated[bytes, Field(max_length=_MAX_NAMES)]
    hashes: Annotated[bytes, Field(max_length=_MAX_FIELDS * _HASH_BYTES)]

    @model_validator(mode="after")
    def _one_hash_for_each_name(self) -> Self:
        names = self._lines()
        if not all(map(_FIELD_NAME.fullmatch, names)) or len(set(names)) * _HASH_BYTES != len(self.hashes):
            raise ValueError("are not one hash for each name")
        return self

    def _lines(self) -> list[str]:
        return self.names.decode().split("\n") if self.names else []

    @classmethod
    def of(cls, hashes: dict[str, bytes]) -> Self:
        """Make the message from a study's ``field_hashes``; with too many fields, from one hash for each section."""
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
    """Return one hash for each section. A field's section is the part of its name before the first dot."""
    sections: dict[str, list[bytes]] = {}
    for name, digest in hashes.items():
        sections.setdefault(name.partition(".")[0], []).extend((name.encode(), digest))
    return {
        name: hashlib.blake2b(b"\n".join(parts), digest_size=_HASH_BYTES).digest() for name, parts in sections.items()
    }


class Refusal(Fields):
    """From Charlie to a party's process that he does not let in.

    Attributes
    ----------
    version : str
        His own.
    reason : str
        ``differs``: the party has another version or study; the fields are Charlie's, so that the party can say where
        they differ. ``broken``: the process sent what the protocol does not allow. ``begun``: the run has begun without
        this process. In these two the fields are empty.
    """

    version: Version
    reason: RefusalReason


class Roster(Message):
    """From Charlie to every party: each party's hello as it signed it, in roster order, and his own box key and nonce.

    The run's id is a hash of this message (:func:`~masquerade_core.wire.frames.run_id`). ``proof`` shows that he owns
    the box key, as in a :class:`Hello`.

    Attributes
    ----------
    hellos : tuple of bytes
        Empty where not everybody is shown all of them (:mod:`masquerade_core.shown`).
    root : bytes
        Then the root of the Merkle tree over all hellos; otherwise empty.
    program : bytes
        The hash of Charlie's program, as in :class:`Hello`.
    """

    hellos: Annotated[tuple[_Signed, ...], Field(max_length=MOST_AT_ONCE)]
    box_key: BoxKeyBytes
    nonce: Nonce
    proof: Proof
    root: Annotated[bytes, Field(max_length=HASH_BYTES)] = b""
    program: ProgramHash = bytes(PROGRAM_BYTES)


class Hellos(Message):
    """From Charlie to one party, after a roster that has the root of a tree alone: the hellos that it is shown.

    Attributes
    ----------
    hellos : tuple of bytes
        As the parties signed them, in roster order.
    paths : tuple of bytes
        The path of each to the root. There are none for the first party: it is shown all hellos, if need be in several
        such messages, and computes the root.
    """

    hellos: Annotated[tuple[_Signed, ...], Field(max_length=MOST_AT_ONCE)]
    paths: Annotated[tuple[Annotated[bytes, Field(max_length=LONGEST_PATH)], ...], Field(max_length=NEIGHBOURS + 2)]


class Closed(Message):
    """From a party: its role has returned.

    Attributes
    ----------
    digest : bytes
        The hash of everything that Charlie broadcast to this party, in order, from the roster on.
    release : bytes
        The hash of the files in which this party publishes the result. Nobody refuses another one, for two machines
        may compute with other last digits; ``masquerade verify`` compares them.
    """

    digest: Annotated[bytes, Field(min_length=DIGEST_BYTES, max_length=DIGEST_BYTES)]
    release: Annotated[bytes, Field(min_length=DIGEST_BYTES, max_length=DIGEST_BYTES)] = bytes(DIGEST_BYTES)


class AllClosed(Message):
    """From Charlie to every party: every role has returned.

    Attributes
    ----------
    closed : tuple of bytes
        Each party's frame with its ``Closed``, as it signed it, in roster order. In a message for one party, those of
        this party and its neighbours (:func:`masquerade_core.shown.closes_with_all`).
    """

    closed: Annotated[tuple[_Signed, ...], Field(max_length=MOST_AT_ONCE)]
