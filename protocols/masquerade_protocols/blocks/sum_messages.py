"""The messages of a secure sum, in the order in which participants send them."""

from typing import Annotated

from pydantic import Field

from masquerade_core.wire.messages import Broadcast, Ciphertexts, Message

__all__ = ["BlindedSum", "BlindedTotal", "Contribution", "Opened", "RoundSum", "RoundTotal", "SumKey"]

_Round = Annotated[int, Field(ge=0, lt=2**32)]
_Receipt = Annotated[bytes, Field(min_length=32, max_length=32)]


class SumKey(Broadcast):
    """Lead to Charlie, Charlie to all: the modulus of xi."""

    modulus: bytes


class Contribution(Message):
    """P_j to Charlie: its masked vector of this round, encrypted."""

    round: _Round
    terms: Ciphertexts


class RoundTotal(Message):
    """Charlie to the lead: the product of all contributions, and the receipt for them."""

    round: _Round
    total: Ciphertexts
    receipt: _Receipt


class RoundSum(Message):
    """Lead to Charlie: the opened sum, packed modulo N."""

    round: _Round
    sums: bytes


class Opened(Broadcast):
    """Charlie to all: the opened sum, and his receipt for this round's contributions."""

    round: _Round
    sums: bytes
    receipt: _Receipt


class BlindedTotal(Message):
    """Charlie to the lead: the product of all contributions, times encryptions of numbers that only he knows."""

    round: _Round
    total: Ciphertexts


class BlindedSum(Message):
    """Lead to Charlie: the opened numbers, which are uniform modulo N to the lead."""

    round: _Round
    sums: bytes
