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

The abort is in :mod:`masquerade_core.wire.faults`: it is evidence, too, and a judge of evidence reads it.
:mod:`masquerade_host.session.states` says which message is legal when.

*The beat* names participants, and its length says nothing of whom it names. Names are of different lengths, and so many
participants may be named at one time. So neither travels. What travels is one bit for each participant of the study, in
roster order and Charlie last.

*The roster.* Charlie shows the parties' hellos, and each party checks that he has exchanged none of their keys. In a
small study the roster has everybody's hello. In a large one it has the root of a Merkle tree over all hellos, and
further messages show each party those that it needs (:mod:`masquerade_host.session.large_rosters`).
"""

import hashlib
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from masquerade_core.crypto.boxes import SIGNATURE_BYTES, SigningKey
from masquerade_core.crypto.pair_keys import check_distinct, check_owned, image_of
from masquerade_core.errors import ProtocolViolation
from masquerade_core.neighbours import NEIGHBOURS
from masquerade_core.roster_disclosure import shows_all
from masquerade_core.study import CHARLIE, Study
from masquerade_core.wire.codec import Message, decode, encode
from masquerade_core.wire.faults import Bits, bits_of, names_in
from masquerade_core.wire.frames import HASH_BYTES, LONGEST_PATH, NONCE_BYTES, Endpoint
from masquerade_core.words import counted
from masquerade_host.process.program import PROGRAM_BYTES

__all__ = [
    "DIGEST_BYTES",
    "MOST_AT_ONCE",
    "AllClosed",
    "Beat",
    "Closed",
    "Fields",
    "Hello",
    "Hellos",
    "Keys",
    "Reader",
    "Refusal",
    "RefusalReason",
    "Roster",
    "beats_every",
    "box_keys_of",
    "check_key_of",
    "pack_beat",
    "pack_bits",
    "read_beat",
]


# --- Heartbeats -----------------------------------------------------------------------

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
        Charlie's: how often somebody's clock has started at his end (:class:`~masquerade_host.session.session.Wait`). A
        party's is 0.
    """

    waits_for: tuple[str, ...] = ()
    got: int = 0
    connection: int = 0
    moves: int = 0


def beats_every(parties: int, deadline: float) -> float:
    """Return how many seconds lie between two beats of one participant.

    Charlie checks a signature for each beat that he hears, and makes one for each that he sends. So with more than 100
    parties each beats more rarely, and he hears 50 beats a second. A beat is never older than a sixth of the deadline,
    whatever their number: a participant blamed for a silence is blamed by beats as fresh as in a small study.
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


# --- All other messages ---------------------------------------------------------------

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
    (:mod:`masquerade_host.process.program`), which nobody checks.

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
        Empty where not everybody is shown all of them (:mod:`masquerade_core.roster_disclosure`).
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
        this party and its neighbours (:func:`masquerade_core.roster_disclosure.closes_with_all`).
    """

    closed: Annotated[tuple[_Signed, ...], Field(max_length=MOST_AT_ONCE)]


# --- Roster -------------------------------------------------------------------------


Keys = tuple[tuple[str, bytes], ...]


class Reader:
    """Reads the hello of one party after another, of those that are ``due``; the rest is as for :func:`box_keys_of`."""

    def __init__(
        self,
        study: Study,
        study_id: bytes,
        signing: SigningKey,
        own_hello: tuple[str, bytes],
        due: Collection[str],
    ) -> None:
        wanted = set(due)
        signers = {party.name: party.key.sign for party in study.parties if party.name in wanted}
        self._endpoint = Endpoint(CHARLIE, study_id, signing, signers)
        self._study_id, self._signers = study_id, signers
        self._me, self._own = own_hello

    def all(self, hellos: Mapping[str, bytes], charlie: tuple[str, bytes]) -> Keys:
        """Return the public box keys in these hellos, and Charlie's."""
        keys = (*((name, self._read(name, signed)) for name, signed in hellos.items()), charlie)
        check_distinct(keys, hellos)
        return keys

    def _read(self, name: str, signed: bytes) -> bytes:
        """Return the public box key in a hello, which its party proves to own."""
        try:
            frame = self._endpoint.open(name, signed, numbered=False)
            hello = decode(Hello, frame.body, name)
        except ProtocolViolation as error:
            raise _bad_hello(name) from error
        if frame.kind != "hello" or frame.type != "" or (name == self._me and self._own and signed != self._own):
            raise _bad_hello(name)
        check_key_of(name, hello, signed, self._study_id, self._signers[name])
        return hello.box_key


def check_key_of(name: str, hello: Hello, signed: bytes, study_id: bytes, key: bytes) -> None:
    """Check that a party owns the box key in its hello; ``signed`` is the frame, and ``key`` the one that signs it.

    Raises
    ------
    ProtocolViolation
        The party's fault, with that frame.
    """
    try:
        check_owned(hello, study_id, name, key)
    except ProtocolViolation as error:
        error.frames = error.frames or (signed,)
        raise


def box_keys_of(
    roster: Roster, study: Study, study_id: bytes, signing: SigningKey, own_hello: tuple[str, bytes]
) -> Keys:
    """Return every participant's public box key of this run, ((name, key), ...), Charlie's last.

    Where the roster has the root alone, there are none yet; :class:`masquerade_host.session.large_rosters.Shown`
    collects them.

    Parameters
    ----------
    roster : Roster
        As Charlie sent it.
    study : Study
        It pins the key under which each party signs.
    study_id : bytes
        The study's id, which hellos bear.
    signing : SigningKey
        This party's identity. It signs nothing here.
    own_hello : (str, bytes)
        This party's name, and the hello that it sent; empty where it is not known, as in a check afterwards.

    Raises
    ------
    ProtocolViolation
        Charlie's fault: he signed a roster with a hello that is not its party's, or with too few or too many; or he
        does not own his key. Or the fault of a party that does not own the key that it announced. Or of one of two
        that have one key.
    """
    check_owned(roster, study_id, CHARLIE, study.curator.key.sign)
    if not shows_all(study):
        if roster.hellos or len(roster.root) != HASH_BYTES:
            raise ProtocolViolation(
                f"{CHARLIE} sent a roster of {counted(len(roster.hellos), 'party', 'parties')}; in a study with "
                f"{study.K} parties it must have the root of a tree alone",
                peer=CHARLIE,
            )
        return ()
    if len(roster.hellos) != study.K or roster.root:
        raise ProtocolViolation(
            f"{CHARLIE} sent a roster of {counted(len(roster.hellos), 'party', 'parties')}; the study has {study.K}",
            peer=CHARLIE,
        )
    read = Reader(study, study_id, signing, own_hello, study.names)
    return read.all(dict(zip(study.names, roster.hellos, strict=True)), (CHARLIE, roster.box_key))


def _bad_hello(name: str) -> ProtocolViolation:
    return ProtocolViolation(
        f"{CHARLIE} sent a roster whose hello of {name} is not one that {name} signed for this run; it must be the "
        f"hello that {name} sent",
        peer=CHARLIE,
    )
