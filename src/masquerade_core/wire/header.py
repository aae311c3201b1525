"""The header of a frame, as it is signed: the body is its last field."""

from typing import Annotated, Literal

import msgpack
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from masquerade_core.errors import ProtocolViolation
from masquerade_core.wire.codec import unpack_strict
from masquerade_core.wire.messages import NAME_BYTES

__all__ = [
    "HASH_BYTES",
    "LONGEST_PATH",
    "RUN_BYTES",
    "SEQ_BYTES",
    "WIRE_VERSION",
    "Header",
    "Kind",
    "head_of",
    "read_header",
]

WIRE_VERSION = 6
RUN_BYTES = 16
SEQ_BYTES = 4
HASH_BYTES = 32
"""Bytes of a hash in a tree over hellos (:mod:`masquerade_core.wire.merkle`)."""

LONGEST_PATH = 32 * HASH_BYTES
"""Bytes of the longest path in such a tree that is read."""

_HEADER_FIELDS = ("v", "run", "src", "dst", "kind", "seq", "type", "body")

Kind = Literal["hello", "roster", "hellos", "message", "sealed", "beat", "abort", "standing", "closed"]

_PaddedName = Annotated[str, Field(min_length=NAME_BYTES, max_length=NAME_BYTES)]


class Header(BaseModel):
    """The header as it is signed. Strict: ``True`` is not a version, and 1.0 is not a number."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", hide_input_in_errors=True)

    v: Annotated[int, Field(ge=0, le=2**31)]
    run: Annotated[bytes, Field(min_length=RUN_BYTES, max_length=RUN_BYTES)]
    src: _PaddedName
    dst: _PaddedName
    kind: Kind
    seq: Annotated[bytes, Field(min_length=SEQ_BYTES, max_length=SEQ_BYTES)]
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
