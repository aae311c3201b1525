"""The messages of a secure sum, in the order in which participants send them."""

import hashlib
from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

from masquerade_core.errors import ProtocolViolation
from masquerade_core.wire.messages import Broadcast, Ciphertexts, Message

__all__ = [
    "BlindedSum",
    "BlindedTotal",
    "Contribution",
    "Opened",
    "OpeningProof",
    "Round",
    "RoundSum",
    "RoundTotal",
    "SumKey",
    "check_round",
    "digest_of",
    "receipt",
]

Round = Annotated[int, Field(ge=0, lt=2**32)]
"""The number of a sum within its run."""

_Receipt = Annotated[bytes, Field(min_length=32, max_length=32)]


class SumKey(Broadcast):
    """Lead to Charlie, Charlie to all: the modulus of xi, and the roots that prove its form."""

    modulus: bytes
    roots: bytes


class Contribution(Message):
    """P_j to Charlie: its masked vector of this round, encrypted, and its masked check value; empty if it is unused."""

    round: Round
    terms: Ciphertexts
    check: bytes


class RoundTotal(Message):
    """Charlie to the lead: the product of all contributions, and the receipt for them."""

    round: Round
    total: Ciphertexts
    receipt: _Receipt


class RoundSum(Message):
    """Lead to Charlie: the opened sum, packed modulo N."""

    round: Round
    sums: bytes


class Opened(Broadcast):
    """Charlie to all: the opened sum, the total that it opens, its check value, and his receipt for contributions."""

    round: Round
    sums: bytes
    total: Ciphertexts
    check: bytes
    receipt: _Receipt


class OpeningProof(Broadcast):
    """Lead to Charlie, Charlie to all: the N-th root that proves all openings of a run."""

    root: bytes


class BlindedTotal(Message):
    """Charlie to the lead: the product of all contributions, times encryptions of numbers that only he knows."""

    round: Round
    total: Ciphertexts


class BlindedSum(Message):
    """Lead to Charlie: the opened numbers, which are uniform modulo N to the lead."""

    round: Round
    sums: bytes


# --- What both kinds of sum compute -------------------------------------------------


def digest_of(message: Contribution) -> bytes:
    """Return what the receipt has of a contribution: the hash of its ciphertexts, and its check value."""
    return message.terms.digest() + message.check


def receipt(round_: int, digests: Mapping[str, bytes]) -> bytes:
    """Return Charlie's receipt: a hash over everybody's contribution of this round, by name."""
    rows = b"".join(name.encode() + b"\0" + digest for name, digest in digests.items())
    return hashlib.sha256(b"masquerade receipt\0" + round_.to_bytes(4, "big") + rows).digest()


def check_round(round_: int, due: int, peer: str, does: str) -> None:
    """Refuse a message of another round than the one that is due; ``does`` is what its sender did.

    Raises
    ------
    ProtocolViolation
        The sender's fault.
    """
    if round_ != due:
        raise ProtocolViolation(f"{peer} {does} round {round_} of the secure sums; allowed is round {due}", peer=peer)
