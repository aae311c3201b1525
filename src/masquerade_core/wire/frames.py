"""Frames: one body each, with a header and the signature of the participant that sent it over this hop.

A *hop* is the connection between one party and Charlie. A frame is
``Ed25519 signature (64 bytes) | msgpack [v, run, src, dst, kind, seq, type, body]``. Each direction of a hop numbers
its frames from 0 without gaps, so a replayed, dropped or reordered frame is noticed. Hellos have no number of their
own, because a party repeats its hello until it is answered. A sealed message that Charlie relays keeps its source and
bears Charlie's signature; the sealed box in it proves who made it, if it opens.

A *broadcast* is a frame of Charlie's for all parties, with ``*`` for its recipient. He signs it once, and every party
gets the same bytes. So its number cannot be that of a hop: ``seq`` counts Charlie's broadcasts alone. The order is kept
all the same, because a hop's count includes the broadcasts that went over it. Every other frame says by its number how
many frames went before it, and broadcasts fill the places between in their own order. So the frames of a hop open in
one order only. A frame that is left out is noticed with the next frame that is not a broadcast, at the latest; beats
are such frames. Parties that are told different things hold two broadcasts of one number, both signed by Charlie.

The length of a frame follows from its kind, its type and the length of its body: names and numbers have a fixed width.
So nobody on the network tells a participant by the length of its name.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

import msgpack
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from masquerade_core.crypto.boxes import SIGNATURE_BYTES, SigningKey, verify
from masquerade_core.errors import LocalProtocolError, ProtocolViolation
from masquerade_core.study import CHARLIE
from masquerade_core.wire.codec import MAX_BODY, unpack_strict
from masquerade_core.wire.messages import NAME_BYTES, PARTIES

__all__ = ["MAX_FRAME", "RUN_BYTES", "WIRE_VERSION", "Endpoint", "Frame", "Header", "Kind", "head_of", "read_header"]

WIRE_VERSION = 3
RUN_BYTES = 16
MAX_FRAME = MAX_BODY + SIGNATURE_BYTES  # bytes
_SEQ_BYTES = 4
_HEADER_FIELDS = ("v", "run", "src", "dst", "kind", "seq", "type", "body")

Kind = Literal["hello", "roster", "message", "sealed", "beat", "abort", "closed"]
_FOR_ALL = ("roster", "closed")  # kinds that Charlie sends to all parties or to nobody
_FOR_ALL_OR_ONE = ("message",)

_PaddedName = Annotated[str, Field(min_length=NAME_BYTES, max_length=NAME_BYTES)]


class Header(BaseModel):
    """The header as it is signed. Strict: ``True`` is not a version, and 1.0 is not a number."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", hide_input_in_errors=True)

    v: Annotated[int, Field(ge=0, le=2**31)]
    run: Annotated[bytes, Field(min_length=RUN_BYTES, max_length=RUN_BYTES)]
    src: _PaddedName
    dst: _PaddedName
    kind: Kind
    seq: Annotated[bytes, Field(min_length=_SEQ_BYTES, max_length=_SEQ_BYTES)]
    type: Annotated[str, Field(max_length=64)]
    body: bytes


def head_of(run: bytes) -> bytes:
    """Return the bytes with which everything begins that is signed as a frame of a run, and nothing else does."""
    return bytes(
        msgpack.Packer().pack_array_header(len(_HEADER_FIELDS)) + msgpack.packb(WIRE_VERSION) + msgpack.packb(run)
    )


def read_header(signed: bytes, signer: str) -> Header:
    """Take apart what ``signer`` has signed: a header, with the body in it.

    Raises
    ------
    ProtocolViolation
        The fault of ``signer``: this program writes frames in another form.
    """
    fields = unpack_strict(signed, signer)
    if isinstance(fields, tuple) and len(fields) == len(_HEADER_FIELDS):
        try:
            return Header.model_validate(dict(zip(_HEADER_FIELDS, fields, strict=True)))
        except ValidationError:
            pass
    msg = f"{signer} sent a frame whose header does not have the form that this program writes"
    raise ProtocolViolation(msg, peer=signer) from None


@dataclass(frozen=True)
class Frame:
    """A frame whose signature, form and number were checked.

    Attributes
    ----------
    source : str
        The participant that speaks. In a sealed message that Charlie relayed it is his claim.
    to : str
        The recipient's name, or ``*`` for all parties, and for all other parties in a party's sealed message.
    size : int
        The frame's length on the wire, in bytes.
    number : int
        As its signer counts.
    data : bytes
        The frame as it came, with its signature.
    """

    version: int
    run: bytes
    source: str
    to: str
    kind: Kind
    type: str
    body: bytes
    size: int
    number: int = 0
    data: bytes = field(default=b"", repr=False)

    @property
    def broadcast(self) -> bool:
        """Whether Charlie sent these bytes to all parties."""
        return self.source == CHARLIE and self.to == PARTIES


def _padded(name: str) -> str:
    return name.ljust(NAME_BYTES)


class Endpoint:
    """One participant's end of its hops: it numbers and signs what leaves, and checks what arrives.

    Parameters
    ----------
    me : str
        This participant's name.
    run : bytes
        The run id, 16 bytes.
    signing_key : SigningKey
        This participant's identity.
    peers : mapping of str to bytes
        The verify key, pinned in the study, of each participant at the other end of a hop: Charlie's for a party, all
        parties' for Charlie.
    """

    def __init__(self, me: str, run: bytes, signing_key: SigningKey, peers: Mapping[str, bytes]) -> None:
        self._me = me
        self._run = run
        self._key = signing_key
        self._peers = dict(peers)
        self._next_out = dict.fromkeys(peers, 0)
        self._next_in = dict.fromkeys(peers, 0)
        self._next_broadcast = 0  # sent by Charlie, or due at a party

    @property
    def hops(self) -> int:
        """The number of this end's hops."""
        return len(self._peers)

    def restart(self, hop: str) -> None:
        """Number the frames of a hop from 0 again, in both directions."""
        self._next_out[hop] = self._next_in[hop] = 0

    def seal(
        self,
        hop: str,
        kind: Kind,
        body: bytes,
        *,
        type: str = "",  # noqa: A002 - the header's own word
        to: str | None = None,
        source: str | None = None,
    ) -> bytes:
        """Make the next frame for ``hop``; ``to`` and ``source`` differ from its ends for sealed messages only."""
        number = 0 if kind == "hello" else self._next_out[hop]
        data = self._sign(self._me if source is None else source, hop if to is None else to, kind, number, type, body)
        if kind != "hello":
            self._next_out[hop] += 1
        return data

    def broadcast(self, kind: Kind, body: bytes, *, type: str = "") -> bytes:  # noqa: A002
        """Make Charlie's next frame for all parties. He sends these bytes over every hop before anything else."""
        if self._me != CHARLIE:
            msg = f"{self._me} cannot make a frame for all parties; only {CHARLIE} can"
            raise LocalProtocolError(msg)
        data = self._sign(self._me, PARTIES, kind, self._next_broadcast, type, body)
        self._next_broadcast += 1
        for hop in self._next_out:
            self._next_out[hop] += 1
        return data

    def _sign(self, source: str, to: str, kind: Kind, number: int, type: str, body: bytes) -> bytes:  # noqa: A002
        fields = (
            WIRE_VERSION,
            self._run,
            _padded(source),
            _padded(to),
            kind,
            number.to_bytes(_SEQ_BYTES, "big"),
            type,
            body,
        )
        signed = bytes(msgpack.packb(fields))
        if len(signed) > MAX_BODY:
            msg = (
                f"a {type or kind} of {len(signed)} bytes is too long for a frame; allowed are at most {MAX_BODY} bytes"
            )
            raise LocalProtocolError(msg)
        return self._key.sign(signed) + signed

    def open(self, hop: str, data: bytes, *, any_run: bool = False, numbered: bool = True) -> Frame:
        """Check a frame from ``hop``: its length, signature, form, run, direction and number, in this order.

        Parameters
        ----------
        hop : str
            The participant at the other end, as the transport has authenticated it.
        data : bytes
            The frame as it was received.
        any_run : bool
            Accept another run id or version: the hello of a participant whose study differs, who is then told so.
        numbered : bool
            Check the number, and count the frame. Not for a frame that another participant shows: it has the number
            that it bore on its own hop.

        Raises
        ------
        ProtocolViolation
            The fault of ``hop``, who sent this over its own authenticated connection, or of whoever holds its keys.
        """
        if not SIGNATURE_BYTES < len(data) <= MAX_FRAME:
            msg = f"{hop} sent a frame of {len(data)} bytes; allowed are {SIGNATURE_BYTES + 1} to {MAX_FRAME}"
            raise ProtocolViolation(msg, peer=hop)
        signature, signed = data[:SIGNATURE_BYTES], data[SIGNATURE_BYTES:]
        if not verify(self._peers[hop], signed, signature):
            msg = f"{hop} sent a frame without a valid signature of its own"
            raise ProtocolViolation(msg, peer=hop)
        wire = read_header(signed, hop)
        if not any_run and (wire.v, wire.run) != (WIRE_VERSION, self._run):
            msg = f"{hop} sent a frame of another run or version; allowed are frames of this run and version"
            raise ProtocolViolation(msg, peer=hop)
        self._check_direction(hop, wire)
        source, to, number = wire.src.rstrip(" "), wire.dst.rstrip(" "), int.from_bytes(wire.seq, "big")
        frame = Frame(wire.v, wire.run, source, to, wire.kind, wire.type, wire.body, len(data), number, data)
        if not numbered:
            return frame
        due = self._due(hop, frame.kind, broadcast=frame.broadcast)
        if number != due:
            what = "broadcast" if frame.broadcast else "frame"
            msg = f"{hop} sent {what} {number}, but {due} is due: a frame was replayed, lost or reordered"
            raise ProtocolViolation(msg, peer=hop)
        if frame.kind != "hello":
            self._next_in[hop] += 1
        if frame.broadcast:
            self._next_broadcast += 1
        return frame

    def _due(self, hop: str, kind: Kind, *, broadcast: bool) -> int:
        if broadcast:
            return self._next_broadcast
        return 0 if kind == "hello" else self._next_in[hop]

    def frames_were_lost(self, hop: str, data: bytes) -> bool:
        """Say whether a frame that was refused after a reconnection has a number beyond the one that is due.

        Then the network lost frames, and nobody broke the protocol. The frame's own number is not verified, for the
        answer decides nothing but how the end of the run is worded.
        """
        try:
            wire = read_header(data[SIGNATURE_BYTES:], hop)
        except ProtocolViolation:
            return False
        broadcast = hop == CHARLIE and wire.dst == _padded(PARTIES)
        return int.from_bytes(wire.seq, "big") > self._due(hop, wire.kind, broadcast=broadcast)

    def _check_direction(self, hop: str, wire: Header) -> None:
        theirs, mine, all_of_them = _padded(hop), _padded(self._me), _padded(PARTIES)
        if hop != CHARLIE:
            sound = wire.src == theirs
            sound &= wire.dst not in (theirs, mine) if wire.kind == "sealed" else wire.dst == mine
        elif wire.kind == "sealed":  # he relays what another party sealed to this one
            sound = wire.src not in (theirs, mine, all_of_them) and wire.dst == mine
        else:
            for_all = wire.dst == all_of_them
            allowed = wire.kind in _FOR_ALL_OR_ONE or for_all == (wire.kind in _FOR_ALL)
            sound = wire.src == theirs and (for_all or wire.dst == mine) and allowed
        if not sound:
            msg = f"{hop} sent a frame ({wire.kind}) in another participant's name, or one that is not for {self._me}"
            raise ProtocolViolation(msg, peer=hop)
