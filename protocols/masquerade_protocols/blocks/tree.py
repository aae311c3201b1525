"""A tree of curators: sub-curators add their groups' masked words, and Charlie adds what they have added.

One Charlie reads and adds K contributions in every round. With a tree of depth two, each *sub-curator* does this for
the parties of its group, and Charlie for the sub-curators. Words and check values are linear, so sums of sums are the
same bits::

    party P_j             sub-curator G               Charlie
      |------- Masked ------->|                          |
      |                       | adds words, and checks   |
      |                       |-------- Added ---------->|    as long as one contribution
      |                       |                          | adds words, and checks; K marks?
      |<----------------------|<------- Summed ----------|    passed on as Charlie signed it

*The parties' program is the same.* A party sends what it always sends, and hears the Summed that Charlie signed.

*A sub-curator reads nothing.* Neighbours are drawn from all parties, so masks do not cancel within a group: the sum of
a group is uniform, as long as one party of the group and one outside it are honest and neighbours.

*A sub-curator changes nothing unseen.* It lacks kappa. So another sum passes the parties' check with a chance of 2^-126
at most, as when Charlie changes it (:mod:`~masquerade_protocols.blocks.masked_sum`).

*Blame.* A sub-curator signs a receipt for its group's contributions, and Charlie one for the sub-curators'.
:func:`blame_in_tree` says which of them added wrongly.

A sub-curator plays the protocol's role of Charlie, with the sums of this module. So it knows each round's layout as he
does, and its role ends when his ends.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from masquerade_core.crypto.masks import Words, tagged_hash
from masquerade_core.errors import BadInput
from masquerade_core.seat import Seat
from masquerade_core.study import CHARLIE, Study
from masquerade_core.wire.messages import Message
from masquerade_protocols.blocks.layouts import Layout, as_words
from masquerade_protocols.blocks.masked_messages import Masked, Summed, check_lengths, summed
from masquerade_protocols.blocks.masked_sum import MaskedCharlieSums
from masquerade_protocols.blocks.sum_messages import Round, check_round, receipt

__all__ = ["Added", "SubCuratorSums", "TreeCharlieSums", "blame_in_tree", "tree_sums"]


class Added(Message):
    """A sub-curator to Charlie: the sums of its group's words and check values, and its receipt for them."""

    round: Round
    words: bytes
    check: bytes
    receipt: Annotated[bytes, Field(min_length=32, max_length=32)]


def _summed(round_: int, layout: Words, groups: Mapping[str, Added]) -> Summed:
    """Add what the sub-curators have added; the receipt is for their receipts."""
    words = layout.add(layout.read(message.words) for message in groups.values())
    digests = {name: tagged_hash("group", m.words, m.check, m.receipt) for name, m in groups.items()}
    return Summed(
        round=round_,
        words=layout.write(words),
        check=layout.add_checks(message.check for message in groups.values()),
        receipt=receipt(round_, digests),
    )


@dataclass
class TreeCharlieSums(MaskedCharlieSums):
    """Charlie's side where sub-curators add before him. Its fields are those of ``MaskedCharlieSums``."""

    async def open_sum(self, layout: Layout, *, again: bool = False) -> tuple[int, ...]:  # noqa: ARG002
        """Add what the sub-curators have added, and tell everybody the sum; returns it.

        Parameters
        ----------
        layout : Words
        again : bool
            Not used: a sum is made once. The loss of a party or of a sub-curator ends the run.

        Raises
        ------
        ProtocolViolation
            A sub-curator is at fault; the error names it.
        SumRefused
            Masks did not cancel.
        """
        words, groups = as_words(layout), tuple(self.seat.groups)
        sums = await self.seat.gather(Added, groups)
        for name, message in sums.items():
            check_round(message.round, self._round, name, "added up")
            check_lengths(words, message, name)
        told = _summed(self._round, words, sums)
        total = words.decode(words.read(told.words), len(self._survivors.members))
        await self.seat.broadcast(told)
        self._round += 1
        return total

    async def aggregate(self, layout: Layout) -> tuple[int, ...]:  # noqa: ARG002
        """Refuse: in a tree every sum is told to all, since the sub-curators need it.

        Raises
        ------
        BadInput
            Always.
        """
        raise BadInput(
            "this protocol has a sum that Charlie alone may learn; sub-curators cannot add for it",
            "run the study without sub-curators",
        )


@dataclass
class SubCuratorSums(TreeCharlieSums):
    """A sub-curator's side of the masked sums; ``seat.groups`` names the parties of its group."""

    async def open_sum(self, layout: Layout, *, again: bool = False) -> tuple[int, ...]:  # noqa: ARG002
        """Add the group's contributions, tell Charlie, and return the sum of all groups that he tells.

        Raises
        ------
        ProtocolViolation
            A party of the group is at fault, or Charlie; the error names it.
        SumRefused
            Masks did not cancel.
        """
        words, due = as_words(layout), self._round
        made = await self.seat.gather(Masked, self.seat.groups[self.seat.me])
        for name, message in made.items():
            check_round(message.round, due, name, "contributed to")
            check_lengths(words, message, name)
        await self.seat.send(CHARLIE, Added(**summed(due, words, made).model_dump()))
        told = await self.seat.receive(Summed, CHARLIE)
        check_round(told.round, due, CHARLIE, "added up")
        check_lengths(words, told, CHARLIE)
        self._round += 1
        return words.decode(words.read(told.words), len(self._survivors.members))


def tree_sums(seat: Seat, study: Study) -> TreeCharlieSums:
    """Return the sums of a sub-curator, or of Charlie above the sub-curators.

    Raises
    ------
    BadInput
        The study has ``[dropouts]``: whoever is lost in a tree is lost for the run.
    """
    if study.dropouts is not None:
        raise BadInput(
            "the study has [dropouts], but a sum that sub-curators add up needs every party to the end",
            "remove [dropouts] from the study, or run it without sub-curators",
        )
    return (TreeCharlieSums if seat.me == CHARLIE else SubCuratorSums)(seat, study)


def blame_in_tree(
    layout: Layout, told: Summed, groups: Mapping[str, Added], shown: Mapping[str, Mapping[str, Masked]]
) -> str | None:
    """Say what the signed messages of a round prove, once its check has failed.

    Parameters
    ----------
    layout : Layout
        The round's.
    told : Summed
        What Charlie told, and signed.
    groups : mapping of str to Added
        What he shows of the sub-curators, each signed by its sender.
    shown : mapping of str to mapping of str to Masked
        What each sub-curator shows of its parties, each signed by its party.

    Returns
    -------
    str or None
        ``CHARLIE``, or the first sub-curator whose sum or receipt is not for what it shows. None if all are right:
        then a party's contribution was not well made.
    """
    words = as_words(layout)
    if _summed(told.round, words, groups) != told:
        return CHARLIE
    due = {name: Added(**summed(told.round, words, made).model_dump()) for name, made in shown.items()}
    return next((name for name, added in groups.items() if due[name] != added), None)
