"""The messages of a masked sum, how contributions are added up, and what they prove once a check has failed."""

from collections.abc import Mapping
from typing import Annotated, Protocol

from pydantic import Field

from masquerade_core.crypto.masks import Words, tagged_hash
from masquerade_core.errors import ProtocolViolation
from masquerade_core.study import CHARLIE
from masquerade_core.wire.messages import Broadcast, Message, SealedMessage
from masquerade_core.words import counted
from masquerade_protocols.blocks.layouts import Layout, as_words
from masquerade_protocols.blocks.sum_messages import Round, receipt
from masquerade_protocols.blocks.survivors import Outcome

__all__ = ["Addends", "GroupKey", "Masked", "Summed", "blame", "check_lengths", "fits", "masked_digest", "summed"]

_Bytes32 = Annotated[bytes, Field(min_length=32, max_length=32)]


class GroupKey(SealedMessage):
    """The roster's first party to each other one: kappa, from which every round's check key follows."""

    kappa: _Bytes32


class Masked(Message):
    """P_j to Charlie: its words of this round under masks, and its check value under masks."""

    round: Round
    words: bytes
    check: bytes


class Summed(Broadcast):
    """Charlie to all: the sum of all words, the sum of all check values, and his receipt for the contributions."""

    round: Round
    words: bytes
    check: bytes
    receipt: _Bytes32


class Addends(Protocol):
    """What has words and a check value: a contribution, or a sum of some."""

    @property
    def words(self) -> bytes:
        """The words, one after another."""

    @property
    def check(self) -> bytes:
        """The check value."""


def fits(layout: Words, message: Addends) -> bool:
    """Say whether words and a check value are as long as the round's layout says."""
    return (len(message.words), len(message.check)) == (layout.total_bytes, layout.check_bytes)


def check_lengths(layout: Words, message: Addends, peer: str) -> None:
    """Refuse words, or a check value, that are not as long as the round's layout says; it is the fault of ``peer``."""
    if not fits(layout, message):
        raise ProtocolViolation(
            f"{peer} sent {counted(len(message.words), 'byte')} of words and {len(message.check)} of a check value; "
            f"allowed are {layout.total_bytes} and {layout.check_bytes}",
            peer=peer,
        )


def masked_digest(message: Masked) -> bytes:
    """Return what the receipt has of a contribution."""
    return tagged_hash("contribution", message.words, message.check)


def summed(round_: int, layout: Words, contributions: Mapping[str, Masked]) -> Summed:
    """Add contributions; the receipt is for all of them."""
    words = layout.add(layout.read(message.words) for message in contributions.values())
    return Summed(
        round=round_,
        words=layout.write(words),
        check=layout.add_checks(message.check for message in contributions.values()),
        receipt=receipt(round_, {name: masked_digest(message) for name, message in contributions.items()}),
    )


def blame(layout: Layout, told: Summed | Outcome, contributions: Mapping[str, Masked]) -> str | None:
    """Say what the signed contributions of a round prove, once its check has failed.

    Charlie shows the contributions, each signed by its party. They are masked, and their sum was to be public anyway.

    Parameters
    ----------
    layout : Layout
        The round's.
    told : Summed or Outcome
        What Charlie told, and signed.
    contributions : mapping of str to Masked
        What he shows, by the parties' names in roster order.

    Returns
    -------
    str or None
        ``CHARLIE`` if his sum is not theirs, or his receipt is for others. None if both are right: then a party's
        contribution was not well made, and nobody can tell whose, for that would open what it hides.
    """
    due = summed(told.round, as_words(layout), contributions)
    return None if (told.words, told.check, told.receipt) == (due.words, due.check, due.receipt) else CHARLIE
