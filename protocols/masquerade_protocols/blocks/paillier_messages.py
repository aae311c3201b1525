"""The messages of a secure sum by Paillier, in the order in which participants send them."""

from masquerade_core.wire.ciphertexts import Ciphertexts
from masquerade_core.wire.messages import Broadcast, Message
from masquerade_protocols.blocks.layouts import ReceiptHash, Round

__all__ = [
    "BlindedSum",
    "BlindedTotal",
    "Contribution",
    "Opened",
    "OpeningProof",
    "RoundSum",
    "RoundTotal",
    "SumKey",
    "digest_of",
]


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
    receipt: ReceiptHash


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
    receipt: ReceiptHash


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


def digest_of(message: Contribution) -> bytes:
    """Return what the receipt has of a contribution: the hash of its ciphertexts, and its check value."""
    return message.terms.digest() + message.check
