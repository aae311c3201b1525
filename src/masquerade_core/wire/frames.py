"""Frames: one body each, with a header and the signature of the participant that sent it over this hop.

A *hop* is the connection between one party and Charlie. A frame is
``Ed25519 signature (64 bytes) | msgpack {v, run, src, dst, kind, seq, type, body}``. Each direction of a hop numbers
its frames from 0 without gaps, so a replayed, dropped or reordered frame is noticed at once. Hellos have no number of
their own, because a party repeats its hello until it is answered. A sealed message that Charlie relays keeps its source
and bears Charlie's signature; the sealed box in it proves who made it, if it opens.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

import msgpack
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from masquerade_core.crypto.boxes import SIGNATURE_BYTES, SigningKey, verify
from masquerade_core.errors import LocalProtocolError, ProtocolViolation
from masquerade_core.study import CHARLIE
from masquerade_core.wire.codec import MAX_BODY, unpack_strict
from masquerade_core.wire.messages import PARTIES

__all__ = ["MAX_FRAME", "RUN_BYTES", "WIRE_VERSION", "Endpoint", "Frame", "Kind"]

WIRE_VERSION = 2
RUN_BYTES = 16
MAX_FRAME = MAX_BODY + SIGNATURE_BYTES  # bytes
_HEADER_FIELDS = ("v", "run", "src", "dst", "kind", "seq", "type", "body")

Kind = Literal["hello", "roster", "message", "sealed", "beat", "abort", "closed"]


class _Wire(BaseModel):
    """The header as it is signed. Strict: ``True`` is not a version, and 1.0 is not a number."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", hide_input_in_errors=True)

    v: Annotated[int, Field(ge=0, le=2**31)]
    run: Annotated[bytes, Field(min_length=RUN_BYTES, max_length=RUN_BYTES)]
    src: Annotated[str, Field(max_length=32)]
    dst: Annotated[str, Field(max_length=32)]
    kind: Kind
    seq: Annotated[int, Field(ge=0, lt=2**53)]
    type: Annotated[str, Field(max_length=64)]
    body: bytes


@dataclass(frozen=True)
class Frame:
    """A frame whose signature, form and number were checked.

    Attributes
    ----------
    source : str
        The participant that speaks. In a sealed message that Charlie relayed it is his claim.
    to : str
        The recipient's name, or ``*`` for all other parties.
    size : int
        The frame's length on the wire, in bytes.
    """

    version: int
    run: bytes
    source: str
    to: str
    kind: Kind
    type: str
    body: bytes
    size: int


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
        fields = (
            WIRE_VERSION,
            self._run,
            self._me if source is None else source,
            hop if to is None else to,
            kind,
            number,
            type,
            body,
        )
        signed = bytes(msgpack.packb(dict(zip(_HEADER_FIELDS, fields, strict=True))))
        if len(signed) > MAX_BODY:
            msg = (
                f"a {type or kind} of {len(signed)} bytes is too long for a frame; allowed are at most {MAX_BODY} bytes"
            )
            raise LocalProtocolError(msg)
        if kind != "hello":
            self._next_out[hop] += 1
        return self._key.sign(signed) + signed

    def open(self, hop: str, data: bytes, *, any_run: bool = False) -> Frame:
        """Check a frame from ``hop``: its length, signature, form, run, direction and number, in this order.

        Parameters
        ----------
        hop : str
            The participant at the other end, as the transport has authenticated it.
        data : bytes
            The frame as it was received.
        any_run : bool
            Accept another run id or version: the hello of a participant whose study differs, who is then told so.

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
        wire = self._parse(hop, signed)
        if not any_run and (wire.v, wire.run) != (WIRE_VERSION, self._run):
            msg = f"{hop} sent a frame of another run or version; allowed are frames of this run and version"
            raise ProtocolViolation(msg, peer=hop)
        self._check_direction(hop, wire)
        due = 0 if wire.kind == "hello" else self._next_in[hop]
        if wire.seq != due:
            msg = f"{hop} sent frame {wire.seq}, but {due} is due: a frame was replayed, lost or reordered"
            raise ProtocolViolation(msg, peer=hop)
        if wire.kind != "hello":
            self._next_in[hop] += 1
        return Frame(wire.v, wire.run, wire.src, wire.dst, wire.kind, wire.type, wire.body, len(data))

    def _parse(self, hop: str, signed: bytes) -> _Wire:
        fields = unpack_strict(signed, hop)
        if isinstance(fields, dict) and tuple(fields) == _HEADER_FIELDS:
            try:
                return _Wire.model_validate(fields)
            except ValidationError:
                pass
        msg = f"{hop} sent a frame whose header does not have the form that this program writes"
        raise ProtocolViolation(msg, peer=hop) from None

    def _check_direction(self, hop: str, wire: _Wire) -> None:
        if wire.kind != "sealed":
            sound = (wire.src, wire.dst) == (hop, self._me)
        elif hop == CHARLIE:  # he relays what another party sealed to this one
            sound = wire.src not in (hop, self._me, PARTIES) and wire.dst == self._me
        else:
            sound = wire.src == hop and wire.dst not in (hop, self._me)
        if not sound:
            msg = f"{hop} sent a frame ({wire.kind}) in another participant's name, or one that is not for {self._me}"
            raise ProtocolViolation(msg, peer=hop)
