"""Sums under double masks: Charlie's side. :mod:`~masquerade_protocols.blocks.double_masks` has the diagram."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from masquerade_core.crypto.masks import Words, tagged_hash
from masquerade_core.crypto.pair_keys import End
from masquerade_core.crypto.shamir import SHARE_BYTES, join_shares, read_share
from masquerade_core.errors import ProtocolViolation, RunFailed, SumRefused
from masquerade_core.seat import Seat
from masquerade_core.study import Study
from masquerade_core.words import counted
from masquerade_protocols.blocks.double_masks import pair_mask
from masquerade_protocols.blocks.double_messages import (
    VOUCH_BYTES,
    Asked,
    DealtKeys,
    DoublyMasked,
    HeldKeys,
    Opening,
    Revealed,
    Vouched,
    box_bytes,
    split,
)
from masquerade_protocols.blocks.double_sets import Members, Ring, pack_set, thresholds_of
from masquerade_protocols.blocks.layouts import Layout, as_words, check_round, receipt
from masquerade_protocols.blocks.masked_sum import Summed

__all__ = ["DoubleCharlieSums", "doubly_masked_digest"]

M = TypeVar("M", DoublyMasked, Vouched, Revealed)


def doubly_masked_digest(message: DoublyMasked) -> bytes:
    """Return what the receipt has of a contribution."""
    return tagged_hash("contribution", message.label, message.words, message.check)


@dataclass
class DoubleCharlieSums:
    """Charlie's side of the sums under double masks of one run; made by :meth:`set_up`.

    Parameters
    ----------
    seat, study : Seat, Study
    ring : Ring
    held_back : int
        N', the opened number of the records that are held back for an evaluation; 0 where none are.
    """

    seat: Seat
    study: Study
    ring: Ring
    _round: int = 0
    held_back: int = 0

    def __post_init__(self) -> None:
        """Begin with all parties."""
        self._members: Members = np.ones(self.study.K, dtype=np.bool_)
        self._alive = self._members.copy()
        self._near = [self.ring.neighbours(i) for i in range(self.study.K)]
        self._keys: list[bytes] = []  # everybody's one-time key of this round

    @classmethod
    async def set_up(cls, seat: Seat, study: Study) -> "DoubleCharlieSums":
        """Pass the first one-time keys on; everybody is there when a run begins."""
        sums = cls(seat, study, Ring(seat.roster_hash(), study.K, thresholds_of(study)))
        dealt = await seat.gather(DealtKeys, study.names)
        sums._keys = [dealt[name].key for name in study.names]
        pieces = [
            split(dealt[name].boxes, box_bytes(1), len(sums._near[i]), name, "boxes")
            for i, name in enumerate(study.names)
        ]
        for i, name in enumerate(study.names):
            keys = b"".join(sums._keys[j] for j in sums._near[i])
            boxes = b"".join(pieces[j][bisect_left(sums._near[j], i)] for j in sums._near[i])
            await seat.send(name, HeldKeys(keys=keys, boxes=boxes))
        return sums

    async def close(self) -> None:
        """Do nothing: every party has checked every sum."""

    async def open_sum(self, layout: Layout, *, again: bool = False) -> tuple[int, ...]:
        """Add up what comes in time, take all masks off, and tell everybody the sum; returns it.

        Parameters
        ----------
        layout : Words
        again : bool
            Whether the sum carries noise, so that it can lose parties. No sum is made again.

        Raises
        ------
        RunFailed
            Too few parties are left, or too few neighbours of one.
        ProtocolViolation
            A party is at fault for what it sent to a sum without noise; the error names it.
        SumRefused
            What is left is no sum: a party contributed, dealt or revealed something else than it should.
        """
        words = as_words(layout)
        contributions, total, check = await self._opened(words, exact=not again)
        sums = words.decode(total, len(contributions))
        names = self.study.names
        digests = {names[i]: doubly_masked_digest(message) for i, message in contributions.items()}
        told = receipt(self._round, digests)
        await self.seat.broadcast(Summed(round=self._round, words=words.write(total), check=check, receipt=told))
        self._round += 1
        return sums

    async def aggregate(self, layout: Layout) -> tuple[int, ...]:
        """Add up, take all masks off, and tell nobody; the errors are those of :meth:`open_sum`."""
        words = as_words(layout)
        contributions, total, _ = await self._opened(words, exact=True)
        self._round += 1
        return words.decode(total, len(contributions))

    async def _opened(
        self, words: Words, *, exact: bool
    ) -> tuple[Mapping[int, DoublyMasked], NDArray[np.generic], bytes]:
        before = self._members
        contributions = await self._contributions(words, exact=exact)
        vouched = await self._vouched()
        await self._pass_on(contributions, vouched, before)
        shares = await self._shares(before)
        total, check = self._unmasked(words, contributions, shares, before)
        self._keys = [contributions[i].key if i in contributions else b"" for i in range(self.study.K)]
        return contributions, total, check

    async def _answers(self, cls: type[M], asked: Members) -> dict[int, M]:
        """Wait for those asked, with patience; a party that does not answer in this round is out from now on."""
        names = self.study.names
        indices = np.flatnonzero(asked & self._alive).tolist()
        dropouts = self.study.dropouts
        patience = 0.0 if dropouts is None else dropouts.patience_seconds
        came = await self.seat.gather_within(cls, [names[i] for i in indices], patience)
        answers = {i: came[names[i]] for i in indices if names[i] in came and came[names[i]].round == self._round}
        self._alive[[i for i in indices if i not in answers]] = False
        return answers

    async def _contributions(self, words: Words, *, exact: bool) -> dict[int, DoublyMasked]:
        """Gather what comes in time: U, and everybody of it with well-made bytes and one view of the run."""
        if exact:
            sound = await self._everybodys(words)
        else:
            answers = await self._answers(DoublyMasked, self._members)
            sound = {i: m for i, m in answers.items() if self._fits(words, i, m)}
        labels = Counter(message.label for message in sound.values())
        if len(labels) > 1:
            raise SumRefused(
                "contributions were made for different views of the run: parties learned different things before",
                "start a new run; no participant can be blamed from this alone",
            )
        members = np.zeros(self.study.K, dtype=np.bool_)
        members[list(sound)] = True
        self._members, self._alive = members, members.copy()
        self._check_enough()
        return sound

    async def _everybodys(self, words: Words) -> dict[int, DoublyMasked]:
        """Gather the contributions to a sum without noise: it has those of all who take part, or there is no sum."""
        names = self.study.names
        members = np.flatnonzero(self._members).tolist()
        came = await self.seat.gather(DoublyMasked, [names[i] for i in members])
        for i in members:
            check_round(came[names[i]].round, self._round, names[i], "contributed to")
            if not self._fits(words, i, came[names[i]]):
                raise ProtocolViolation(
                    f"{names[i]} sent a contribution of another length than the round's", peer=names[i]
                )
        return {i: came[names[i]] for i in members}

    def _fits(self, words: Words, i: int, message: DoublyMasked) -> bool:
        boxes = sum(bool(self._members[j]) for j in self._near[i])
        due = (words.total_bytes, words.check_bytes, box_bytes(2) * boxes)
        return (len(message.words), len(message.check), len(message.boxes)) == due

    def _check_enough(self) -> None:
        left = int(self._members.sum())
        if left < self.study.survivors:
            raise RunFailed(
                f"only {counted(left, 'party', 'parties')} of {self.study.K} still answer; the study's min_survivors "
                f"asks for {self.study.survivors}",
                "start a new run when all parties can take part",
            )
        if int(self.ring.near(self._members)[self._members].min()) < self.ring.sizes.threshold:
            raise RunFailed(
                f"of a party's {self.ring.sizes.neighbours} neighbours, fewer than {self.ring.sizes.threshold} still "
                "answer, so that its contribution could be told from the others'",
                "start a new run; the coin will draw other neighbours",
            )

    async def _vouched(self) -> dict[int, Sequence[bytes]]:
        """Ask the committee about the set; returns a quorum of its parties with their proofs for all of the set."""
        asked = np.zeros(self.study.K, dtype=np.bool_)
        asked[list(self.ring.committee)] = True
        asked &= self._members
        question = Asked(round=self._round, members=pack_set(self._members))
        for i in np.flatnonzero(asked).tolist():
            await self.seat.send(self.study.names[i], question)
        answers = await self._answers(Vouched, asked)
        count, names = int(self._members.sum()), self.study.names
        quorum = list(answers)[: self.ring.sizes.quorum]
        if len(quorum) < self.ring.sizes.quorum:
            raise RunFailed(
                f"{len(quorum)} of the committee of {self.ring.sizes.committee} still answer; "
                f"{self.ring.sizes.quorum} are needed to open a sum",
                "start a new run; the coin will draw another committee",
            )
        return {i: split(answers[i].proofs, VOUCH_BYTES, count, names[i], "proofs") for i in quorum}

    async def _pass_on(
        self, contributions: Mapping[int, DoublyMasked], vouched: Mapping[int, Sequence[bytes]], before: Members
    ) -> None:
        """Send everybody of the set who still answers its boxes and its proofs."""
        members, width = pack_set(self._members), box_bytes(2)
        vouching = pack_set(np.isin(self.ring.committee, list(vouched)))
        place = {i: n for n, i in enumerate(np.flatnonzero(self._members).tolist())}
        present = {i: [j for j in self._near[i] if before[j]] for i in contributions}
        for i in np.flatnonzero(self._alive).tolist():
            senders = [j for j in self._near[i] if self._members[j]]
            starts = (width * bisect_left(present[j], i) for j in senders)
            boxes = (contributions[j].boxes[at : at + width] for j, at in zip(senders, starts, strict=True))
            opening = Opening(
                round=self._round,
                members=members,
                vouching=vouching,
                proofs=b"".join(proofs[place[i]] for proofs in vouched.values()),
                keys=b"".join(contributions[j].key for j in senders),
                boxes=b"".join(boxes),
            )
            await self.seat.send(self.study.names[i], opening)

    async def _shares(self, before: Members) -> list[dict[int, int]]:
        """Gather what parties reveal; returns for each party the shares of its secret that is opened, by points."""
        answers = await self._answers(Revealed, self._members)
        shares: list[dict[int, int]] = [{} for _ in self._near]
        for i, message in answers.items():
            name, shown = self.study.names[i], [j for j in self._near[i] if before[j]]
            for j, raw in zip(shown, split(message.shares, SHARE_BYTES, len(shown), name, "shares"), strict=True):
                shares[j][bisect_left(self._near[j], i) + 1] = read_share(raw, name)
        return shares

    def _unmasked(
        self,
        words: Words,
        contributions: Mapping[int, DoublyMasked],
        shares: Sequence[Mapping[int, int]],
        before: Members,
    ) -> tuple[NDArray[np.generic], bytes]:
        """Add the contributions and take off the masks of those in the set, and those shared with the silent."""
        total = words.add(words.read(message.words) for message in contributions.values())
        check = int.from_bytes(words.add_checks(message.check for message in contributions.values()), "little")
        label = next(iter(contributions.values())).label
        raw, left = words.masked(total, check, self._masks(label, contributions, shares, before))
        return words.read(raw), left

    def _masks(
        self, label: bytes, contributions: Mapping[int, object], shares: Sequence[Mapping[int, int]], before: Members
    ) -> Iterator[tuple[bool, bytes]]:
        """Yield the keys of all masks that are left in the sum, and whether to add them, to undo them, or subtract."""
        t = self.ring.sizes.threshold
        for i in contributions:
            yield False, tagged_hash("own mask", label, key=join_shares(shares[i], t))
        for i in np.flatnonzero(before & ~self._members).tolist():
            secret = join_shares(shares[i], t)
            for j in self._near[i]:
                if self._members[j]:
                    both = {k: End(self.study.names[k], self._keys[k]) for k in (i, j)}
                    ends = (both[min(i, j)], both[max(i, j)])
                    yield j > i, pair_mask(self.seat.run, label, secret, ends, both[j])
