"""The secure sum: everybody contributes a vector, and nothing shows but the sum of all.

A protocol sets it up once per run and asks for one sum per round. The study chooses how sums are made::

    [crypto] sum      who adds                         where it is
    "masks"           Charlie, words under masks       masked_sum.py
                      (see below)                      double_masks.py
    "paillier"        Charlie, encrypted numbers       paillier_sum.py

Both have the same methods. There are two kinds of sum, each with a method on either side::

    party            Charlie          what it gives
    open_sum         open_sum         the sum, to everybody
    contribute       aggregate        the sum, to Charlie alone

    close            close            what is left to check, after the last sum and before any result

A process loads the sums that its study names, and no others. Parties and Charlie count the rounds for themselves. With
``[dropouts] method = "double-masks"``, words are under two masks, and parties hold shares of each other's.
"""

from collections.abc import Sequence
from typing import Any, Protocol

from masquerade_core.seat import Seat
from masquerade_core.study import Study
from masquerade_protocols.blocks.layouts import Again, Layout, Vector, has_double_masks

__all__ = ["CharlieSums", "PartySums", "charlie_sums", "party_sums", "set_up", "set_up_charlie"]


class PartySums(Protocol):
    """A party's side of the sums of one run; made by :func:`set_up`.

    Attributes
    ----------
    held_back : int
        N', the opened number of the records that are held back for an evaluation; 0 where none are.
    """

    seat: Seat
    study: Study
    held_back: int

    async def precompute(self, layouts: Sequence[Layout]) -> None:
        """Draw what the next sums, one for each layout, need, before they are due."""

    async def open_sum(self, layout: Layout, vector: Vector, bound_to: bytes, again: Again | None = None) -> Vector:
        """Contribute ``vector`` and return the sum of everybody's; ``bound_to`` is what contributions depend on.

        ``again`` returns the vector with noise that never served, for a sum that is made again without a silent party,
        and counts what this costs.
        """

    async def contribute(self, layout: Layout, vector: Vector, bound_to: bytes) -> None:
        """Contribute ``vector`` to a sum that Charlie alone learns."""

    async def close(self) -> None:
        """Check what is left to check of all opened sums: after the last one, before the role returns anything."""


class CharlieSums(Protocol):
    """Charlie's side of the sums of one run; made by :func:`set_up_charlie`."""

    seat: Seat
    study: Study
    held_back: int

    async def open_sum(self, layout: Layout, *, again: bool = False) -> Vector:
        """Add everybody's contributions and tell everybody the sum; returns it.

        ``again``: whether parties have fresh noise, so that the sum can be made again without those who fall silent.
        """

    async def aggregate(self, layout: Layout) -> Vector:
        """Add everybody's contributions; Charlie alone learns the sum."""

    async def close(self) -> None:
        """Pass on what parties need for their own :meth:`PartySums.close`."""


def party_sums(study: Study) -> Any:
    """Return the class of a party's side of a study's sums, which is loaded now."""
    if has_double_masks(study):
        from masquerade_protocols.blocks.double_masks import DoublePartySums

        return DoublePartySums
    if study.crypto.sum == "masks":
        from masquerade_protocols.blocks.masked_sum import MaskedPartySums

        return MaskedPartySums
    from masquerade_protocols.blocks.paillier_sum import PaillierPartySums

    return PaillierPartySums


def charlie_sums(study: Study) -> Any:
    """Return the class of Charlie's side of a study's sums, which is loaded now."""
    if has_double_masks(study):
        from masquerade_protocols.blocks.double_masks import DoubleCharlieSums

        return DoubleCharlieSums
    if study.crypto.sum == "masks":
        from masquerade_protocols.blocks.masked_sum import MaskedCharlieSums

        return MaskedCharlieSums
    from masquerade_protocols.blocks.paillier_sum import PaillierCharlieSums

    return PaillierCharlieSums


async def set_up(seat: Seat, study: Study) -> PartySums:
    """Set up a party's sums, after the join."""
    sums: PartySums = await party_sums(study).set_up(seat, study)
    return sums


async def set_up_charlie(seat: Seat, study: Study) -> CharlieSums:
    """Set up Charlie's sums, after the join."""
    sums: CharlieSums = await charlie_sums(study).set_up(seat, study)
    return sums
