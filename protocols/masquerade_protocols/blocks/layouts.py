"""The common part of all secure sums: the layout of a vector in a message, the number of a sum, and Charlie's receipt.

A vector lies in words under masks, and in plaintexts under Paillier.
"""

import hashlib
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Union

from pydantic import Field

from masquerade_core.crypto.masks import Vector, Words
from masquerade_core.errors import BadInput, LocalProtocolError, ProtocolViolation
from masquerade_core.study import Study
from masquerade_core.words import listed

if TYPE_CHECKING:
    from masquerade_core.crypto.packing import Packing

__all__ = [
    "CHECK_PRIMES",
    "WIDEST",
    "Again",
    "Layout",
    "ReceiptHash",
    "Round",
    "Vector",
    "as_words",
    "check_round",
    "check_slots",
    "has_double_masks",
    "layout_of",
    "receipt",
]

Layout = Union["Packing", Words]
"""Both have ``length``, ``bound``, ``width`` (bits of a coordinate), ``fits`` and ``count`` (its size)."""

Again = Callable[[], Awaitable[Vector]]
"""Counts what a contribution costs and returns it with noise that never served, for a sum that is made again."""

Round = Annotated[int, Field(ge=0, lt=2**32)]
"""The number of a sum within its run."""

ReceiptHash = Annotated[bytes, Field(min_length=32, max_length=32)]
"""The result of :func:`receipt`."""

CHECK_PRIMES = {(bits + 7) // 8: (1 << bits) - 1 for bits in (127, 521, 2203, 4253)}
"""The primes of check values, by the values' lengths in bytes."""

WIDEST = 500
"""Bits of a coordinate at most. With more, the squared length of a classifier would exceed every float."""


def has_double_masks(study: Study) -> bool:
    """Whether a study's sums are made under double masks."""
    return study.dropouts is not None and study.dropouts.method == "double-masks"


def layout_of(study: Study, length: int, bound: int) -> Layout:
    """Lay out a vector of ``length`` coordinates whose sum lies between -``bound`` and ``bound``."""
    if study.crypto.sum == "masks":
        return Words(length, bound)
    from masquerade_core.crypto.packing import Packing

    return Packing(length, bound, study.key_bits)


def as_words(layout: Layout) -> Words:
    """Return the layout of a masked sum; another one is a bug of the protocol."""
    if not isinstance(layout, Words):
        raise LocalProtocolError("a masked sum was to be made of plaintexts; its vectors lie in words")
    return layout


def check_slots(study: Study, slots: Layout, what: str, *remedies: str) -> Layout:
    """Return the layout of a sum, after a check that plaintexts hold its slots and floats the classifier made of it.

    Parameters
    ----------
    study : Study
    slots : Layout
    what : str
        The sum's name, as the subject of a sentence.
    remedies : str
        What the study's author can ask for instead: "fewer rounds", say. A longer key is added where it helps.

    Raises
    ------
    BadInput
        A slot is too wide for a plaintext, or a coordinate for a float.
    """
    bits = study.key_bits
    if bits and not slots.fits:
        raise BadInput(
            f"{what} needs slots of {slots.width} bits, but a key of {bits} bits has no room for such a slot",
            f"ask for {listed([*remedies, 'a longer key'], 'or')}",
        )
    if slots.width > WIDEST:
        raise BadInput(
            f"{what} needs slots of {slots.width} bits, but at most {WIDEST} are allowed: no float holds the "
            "classifier that would follow",
            f"ask for {listed(remedies, 'or')}",
        )
    return slots


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
        raise ProtocolViolation(f"{peer} {does} round {round_} of the secure sums; round {due} is due", peer=peer)
