"""How a vector lies in a message of a secure sum: in plaintexts under Paillier, in words under masks."""

from collections.abc import Awaitable, Callable

from masquerade_core.crypto.masks import Vector, Words
from masquerade_core.crypto.packing import Packing
from masquerade_core.errors import LocalProtocolError
from masquerade_core.study import Study

__all__ = ["Again", "Layout", "Vector", "as_packing", "as_words", "layout_of"]

Layout = Packing | Words
"""Both have ``length``, ``bound``, ``width`` (bits of a coordinate), ``fits`` and ``count`` (its size)."""

Again = Callable[[], Awaitable[Vector]]
"""Counts what a contribution costs and returns it with noise that never served, for a sum that is made again."""


def layout_of(study: Study, length: int, bound: int) -> Layout:
    """Lay out a vector of ``length`` coordinates whose sum lies between -``bound`` and ``bound``."""
    if study.crypto.sum == "masks":
        return Words(length, bound)
    return Packing(length, bound, study.key_bits)


def as_packing(layout: Layout) -> Packing:
    """Return the layout of a sum by Paillier; another one is a bug of the protocol."""
    if not isinstance(layout, Packing):
        raise LocalProtocolError("a sum by Paillier was to be made of words; its vectors lie in plaintexts")
    return layout


def as_words(layout: Layout) -> Words:
    """Return the layout of a masked sum; another one is a bug of the protocol."""
    if not isinstance(layout, Words):
        raise LocalProtocolError("a masked sum was to be made of plaintexts; its vectors lie in words")
    return layout
