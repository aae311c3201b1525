"""Charlie's side of the sums by Paillier: he multiplies ciphertexts, adds check values, and tells what was opened."""

from dataclasses import dataclass

from masquerade_core.crypto.paillier import FullPool, PublicKey
from masquerade_core.rng import Rng
from masquerade_core.seat import Seat
from masquerade_core.study import CHARLIE, Study
from masquerade_core.wire.ciphertexts import Ciphertexts
from masquerade_core.wire.codec import numbers
from masquerade_core.wire.messages import PARTIES
from masquerade_protocols.blocks.layouts import Layout, check_round, receipt
from masquerade_protocols.blocks.opening_proof import as_packing, check_check, check_words, unpacked
from masquerade_protocols.blocks.paillier_messages import (
    BlindedSum,
    BlindedTotal,
    Contribution,
    Opened,
    OpeningProof,
    RoundSum,
    RoundTotal,
    SumKey,
    digest_of,
)

__all__ = ["PaillierCharlieSums"]


@dataclass
class PaillierCharlieSums:
    """Charlie's side of the sums of one run; made by :meth:`set_up`.

    Its fields are those of :class:`~masquerade_protocols.blocks.paillier_sum.PaillierPartySums`.
    """

    seat: Seat
    study: Study
    key: PublicKey
    _round: int = 0
    held_back: int = 0
    _unproved: int = 0

    @classmethod
    async def set_up(cls, seat: Seat, study: Study) -> "PaillierCharlieSums":
        """Set up Charlie's sums: take the lead's key, whose form it proves, and pass it on."""
        sent = await seat.receive(SumKey, study.lead)
        key = PublicKey.proved(sent.modulus, sent.roots, study.key_bits, study.lead)
        await seat.broadcast(sent)
        return cls(seat, study, key)

    async def open_sum(self, layout: Layout, *, again: bool = False) -> tuple[int, ...]:
        """Multiply everybody's contributions, have the total opened, and tell everybody; returns the sum.

        Raises
        ------
        ProtocolViolation
            A party is at fault; the error names it.
        RunFailed
            The lead opened a number that is no sum of K contributions.
        """
        del again  # no such sum is made again
        slots, round_, lead = as_packing(layout), self._round, self.study.lead
        words, contributions = check_words(slots), await self._gather()
        for name, message in contributions.items():
            check_check(words, message.check, name)
        terms = {name: message.terms for name, message in contributions.items()}
        paid = receipt(round_, {name: digest_of(message) for name, message in contributions.items()})
        total = Ciphertexts.total(terms, self.key, slots.count, lead)
        told = total.also_for(PARTIES)
        await self.seat.send(lead, RoundTotal(round=round_, total=total, receipt=paid))
        answer = await self.seat.receive(RoundSum, lead)
        check_round(answer.round, round_, lead, "opened")
        sums = unpacked(slots, answer.sums, self.key, self.study.K, lead)
        check = words.add_checks(message.check for message in contributions.values())
        await self.seat.broadcast(Opened(round=round_, sums=answer.sums, total=told, check=check, receipt=paid))
        self._round += 1
        self._unproved += 1
        return sums

    async def close(self) -> None:
        """Pass on the lead's proof of all openings. Every party checks it; a false one ends the run."""
        if self._unproved:
            self._unproved = 0
            proof = await self.seat.receive(OpeningProof, self.study.lead)
            await self.seat.broadcast(OpeningProof(root=proof.root))

    async def aggregate(self, layout: Layout) -> tuple[int, ...]:
        """Multiply everybody's contributions, and have the product opened behind a blind; Charlie alone learns the sum.

        Raises
        ------
        ProtocolViolation
            A party is at fault; the error names it.
        RunFailed
            The lead opened a number that is no sum of K contributions. Nobody can tell who is at fault.
        """
        slots, key, round_, lead = as_packing(layout), self.key, self._round, self.study.lead

        def draw(rng: Rng) -> tuple[tuple[int, ...], tuple[int, ...]]:
            return tuple(rng.below(key.n) for _ in range(slots.count)), key.full_obfuscators(rng, slots.count)

        r, obfuscators = await self.seat.once(f"blinds of round {round_}", draw)
        terms = {name: message.terms for name, message in (await self._gather()).items()}
        total = Ciphertexts.total(terms, key, slots.count, lead).read(key, slots.count, CHARLIE)
        pool = FullPool(key, obfuscators)
        blinded = Ciphertexts.outgoing([pool.rerandomize(c + blind, lead) for c, blind in zip(total, r, strict=True)])
        await self.seat.send(lead, BlindedTotal(round=round_, total=blinded))
        answer = await self.seat.receive(BlindedSum, lead)
        check_round(answer.round, round_, lead, "opened")
        values = numbers(answer.sums, (key.bits + 7) // 8, slots.count, lead)
        opened = [(value - blind) % key.n for value, blind in zip(values, r, strict=True)]
        self._round += 1
        return slots.unpack(opened, key.n, contributors=self.study.K)

    async def _gather(self) -> dict[str, Contribution]:
        """Wait for everybody's contribution to this round."""
        contributions = await self.seat.gather(Contribution, self.study.names)
        for name, message in contributions.items():
            check_round(message.round, self._round, name, "contributed to")
        return contributions
