"""The secure sum by Paillier: Charlie multiplies ciphertexts that he cannot read, and the lead opens their total.

The *lead* is the party that holds the parties' Paillier key xi, whose modulus is called N here. For K parties, m
plaintexts and a key of n bits, in round t of ``open_sum``::

    party P_j                                  Charlie                           lead P_L (holds xi)
      | x_j encoded, packed, marked              |                                 |
      |   + sum_i +-mask_ij mod N                |                                 |
      |-------- Contribution: m ciphertexts ---->|<------- Contribution -----------|   m 2n/8
      |                                          | product of all K                |
      |                                          |-------- RoundTotal ------------>|   m 2n/8 + 32
      |                                          |   top bits zero? K marks?       |
      |                                          |<------- RoundSum ---------------|   m n/8
      |<------- Opened: the sum, a receipt ------|-------- Opened ---------------->|   m n/8 + 32

Charlie learns K ciphertexts and one sum, the lead one total and one sum. Every pair of parties masks its two
plaintexts with a number that cancels in the total and nowhere else. So a single contribution is uniform even to the
holder of the key. If a contribution is missing, doubled or not this round's, the total's top bits are not zero. Then
the run ends, and nothing of that total leaves the lead. Masks are bound to the run, the round, the participants and
``bound_to``, a hash of what the contributions depend on. The lead opens one total per round, so nobody can have another
ciphertext opened.

In ``contribute`` and ``aggregate`` Charlie blinds the total before he has it opened::

      |-------- Contribution: m ciphertexts ---->|<------- Contribution -----------|   m 2n/8
      |                                          | product of all K, times E(r)    |
      |                                          |-------- BlindedTotal ---------->|   m 2n/8
      |                                          |<------- BlindedSum -------------|   m n/8
      |                                          | r off; top bits zero? K marks?  |

The lead reads sum + r with r uniform in Z_N: a uniform number, whatever the sum is. It can check nothing, and need not.
Because of the masks, Charlie reads a uniform number too, unless he had the product of all K opened. E(r) carries a full
obfuscator, like every ciphertext that goes to a key holder and is derived from others' ciphertexts. So the lead
receives a uniform element of Z*_{N^2}. It can compute its randomness, which tells nothing of the factors' obfuscators.

A contribution is a fresh encryption of one's own data. For that, the short obfuscators of Damgard, Jurik and Nielsen
are enough.

The receipt in ``Opened`` is a hash over all contributions. Charlie signs it, and each party signs its contribution.
Nobody keeps the contributions yet, so the receipt proves nothing after a run.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from masquerade_core.crypto.packing import Packing
from masquerade_core.crypto.paillier import FullPool, PublicKey, SecretKey, ShortPool, draw_primes
from masquerade_core.crypto.shares import mask
from masquerade_core.errors import LocalProtocolError, ProtocolViolation
from masquerade_core.rng import Rng
from masquerade_core.seat import Seat
from masquerade_core.study import CHARLIE, Study
from masquerade_core.wire.codec import numbers, pack_numbers
from masquerade_core.wire.messages import Ciphertexts
from masquerade_protocols.blocks.coin_toss import coin_toss
from masquerade_protocols.blocks.layouts import Layout, as_packing
from masquerade_protocols.blocks.sum_messages import (
    BlindedSum,
    BlindedTotal,
    Contribution,
    Opened,
    RoundSum,
    RoundTotal,
    SumKey,
    check_round,
    receipt,
)

__all__ = [
    "BlindedSum",
    "BlindedTotal",
    "Contribution",
    "Opened",
    "PaillierCharlieSums",
    "PaillierPartySums",
    "RoundSum",
    "RoundTotal",
    "SumKey",
    "receipt",
]


# --- What both sides compute ----------------------------------------------------


def _unpacked(layout: Packing, sums: bytes, key: PublicKey, parties: int, peer: str) -> tuple[int, ...]:
    values = numbers(sums, (key.bits + 7) // 8, layout.count, peer)
    return layout.unpack(values, key.n, contributors=parties)


# --- The parties ------------------------------------------------------------------


@dataclass
class PaillierPartySums:
    """A party's side of the sums of one run; made by :meth:`set_up`.

    Parameters
    ----------
    seat, study : Seat, Study
    key : PublicKey
        The public half of xi.
    secret : SecretKey or None
        The secret half of xi at the lead, None at every other party.
    pair_keys : mapping of str to (bool, bytes)
        For each other party: whether this party adds the mask (otherwise it subtracts it), and the common key.
    held_back : int
        N', the opened number of the records that are held back for an evaluation; 0 where none are.
    """

    seat: Seat
    study: Study
    key: PublicKey
    secret: SecretKey | None
    pair_keys: Mapping[str, tuple[bool, bytes]]
    _round: int = 0
    _pool: ShortPool | None = None
    held_back: int = 0

    @classmethod
    async def set_up(cls, seat: Seat, study: Study) -> "PaillierPartySums":
        """Set up a party's sums, after the join: take the lead's key, and bind the pairwise keys by a coin toss."""
        secret = None
        if seat.me == study.lead:
            secret = SecretKey(*await seat.once("key xi", lambda rng: draw_primes(rng, study.key_bits)))
            await seat.send(CHARLIE, SumKey(modulus=secret.public.to_bytes()))
        raw = (await seat.receive(SumKey, CHARLIE)).modulus
        key = PublicKey.received(raw, study.key_bits, CHARLIE)
        if secret is not None and secret.public != key:
            raise ProtocolViolation(
                "charlie passed on another key; allowed is the one that the lead sent", peer=CHARLIE
            )
        seed = await coin_toss(seat)
        group = hashlib.sha256(seed + key.to_bytes() + "\0".join(study.names).encode()).digest()
        order = {name: i for i, name in enumerate(study.names)}
        pair_keys = {
            peer: (order[seat.me] < order[peer], seat.shared_key(peer, b"sum" + group)) for peer in seat.others
        }
        return cls(seat, study, key, secret, pair_keys)

    async def precompute(self, layouts: Sequence[Layout]) -> None:
        """Draw the obfuscators of the next sums' plaintexts before they are needed.

        Raises
        ------
        LocalProtocolError
            Some are left from before and would be lost: a bug of the protocol.
        """
        count = sum(layout.count for layout in layouts)
        entries = await self.seat.once(
            f"obfuscators from round {self._round}",
            lambda rng: (self.secret or self.key).short_obfuscators(rng, count),
        )
        if self._pool is not None and len(self._pool):
            raise LocalProtocolError("new obfuscators were to be drawn while others were left, which would be lost")
        self._pool = ShortPool(self.key, entries)

    async def open_sum(
        self, layout: Layout, vector: Sequence[int], bound_to: bytes, again: Callable[[], Sequence[int]] | None = None
    ) -> tuple[int, ...]:
        """Contribute ``vector`` and return the sum of everybody's.

        Parameters
        ----------
        layout : Packing
            From public numbers alone; the same at every participant.
        vector : sequence of int
            Encoded and clipped; noise included.
        bound_to : bytes
            A hash of what the contributions of this round depend on. It must be the same at every party; otherwise the
            masks do not cancel.
        again : callable, optional
            Not used: no such sum is made again.

        Raises
        ------
        RunFailed
            The total is not the sum of one contribution of each party.
        ProtocolViolation
            Charlie or the lead is at fault.
        """
        del again
        slots = as_packing(layout)
        await self._send(slots, vector, bound_to)
        own = None if self.secret is None else await self._open(self.secret, slots)
        opened = await self.seat.receive(Opened, CHARLIE)
        check_round(opened.round, self._round, CHARLIE, "opened")
        if own is not None and own != opened:
            raise ProtocolViolation(
                "charlie passed on another sum or receipt than the lead has; allowed are the sum that the lead opened "
                "and the receipt that came with its total",
                peer=CHARLIE,
            )
        self._round += 1
        return _unpacked(slots, opened.sums, self.key, self.study.K, CHARLIE)

    async def contribute(self, layout: Layout, vector: Sequence[int], bound_to: bytes) -> None:
        """Contribute ``vector`` to a sum that Charlie alone learns (:meth:`PaillierCharlieSums.aggregate`).

        The parameters are those of :meth:`open_sum`.

        Raises
        ------
        ProtocolViolation
            Charlie is at fault; the lead sees it.
        """
        slots = as_packing(layout)
        await self._send(slots, vector, bound_to)
        if self.secret is not None:
            await self._open_blinded(self.secret, slots)
        self._round += 1

    def _masks(self, bound_to: bytes, count: int) -> list[int]:
        label = self._round.to_bytes(4, "big") + bound_to
        total = [0] * count
        for adds, key in self.pair_keys.values():
            for i, value in enumerate(mask(key, label, self.key.n, count)):
                total[i] += value if adds else -value
        return total

    async def _send(self, layout: Packing, vector: Sequence[int], bound_to: bytes) -> None:
        """Send this round's vector, masked and encrypted."""
        if self._pool is None or len(self._pool) < layout.count:
            await self.precompute([layout])
        pool = self._pool
        if pool is None:
            raise LocalProtocolError("a contribution was to be encrypted without obfuscators")
        masks = self._masks(bound_to, layout.count)
        plain = [v + m + c for v, m, c in zip(layout.pack(vector), masks, layout.mark(), strict=True)]
        terms = Ciphertexts.outgoing([pool.encrypt(p, CHARLIE) for p in plain])
        await self.seat.send(CHARLIE, Contribution(round=self._round, terms=terms))

    async def _open(self, secret: SecretKey, layout: Packing) -> Opened:
        """The lead's part: open this round's total, once, and let it leave only if it is a sum of all.

        Returns
        -------
        Opened
            The message that Charlie must send to everybody, the lead included. With another sum he could choose the
            point of everybody's next contribution. If he told some parties another sum, their masks would not cancel.
        """
        message = await self.seat.receive(RoundTotal, CHARLIE)
        sums = await self._decrypt_once(secret, message, layout)
        layout.unpack(sums, self.key.n, contributors=self.study.K)
        raw = pack_numbers(sums, (self.key.bits + 7) // 8)
        await self.seat.send(CHARLIE, RoundSum(round=self._round, sums=raw))
        return Opened(round=self._round, sums=raw, receipt=message.receipt)

    async def _open_blinded(self, secret: SecretKey, layout: Packing) -> None:
        """The lead's part: open this round's total, once, for Charlie; it reads uniform numbers."""
        message = await self.seat.receive(BlindedTotal, CHARLIE)
        blinded = await self._decrypt_once(secret, message, layout)
        raw = pack_numbers(blinded, (self.key.bits + 7) // 8)
        await self.seat.send(CHARLIE, BlindedSum(round=self._round, sums=raw))

    async def _decrypt_once(
        self, secret: SecretKey, message: "RoundTotal | BlindedTotal", layout: Packing
    ) -> tuple[int, ...]:
        check_round(message.round, self._round, CHARLIE, "asked for")
        total = message.total.read(self.key, layout.count, CHARLIE)
        return await self.seat.once(f"sum {self._round}", lambda _: secret.decrypt_all(total))


# --- Charlie ------------------------------------------------------------------------


@dataclass
class PaillierCharlieSums:
    """Charlie's side of the sums of one run; made by :meth:`set_up`.

    Its fields are those of :class:`PaillierPartySums`.
    """

    seat: Seat
    study: Study
    key: PublicKey
    _round: int = 0
    held_back: int = 0

    @classmethod
    async def set_up(cls, seat: Seat, study: Study) -> "PaillierCharlieSums":
        """Set up Charlie's sums: take the lead's key and pass it on."""
        modulus = (await seat.receive(SumKey, study.lead)).modulus
        key = PublicKey.received(modulus, study.key_bits, study.lead)
        await seat.broadcast(SumKey(modulus=modulus))
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
        terms = await self._gather_terms()
        paid = receipt(round_, {name: vector.digest() for name, vector in terms.items()})
        total = Ciphertexts.total(terms, self.key, slots.count, lead)
        await self.seat.send(lead, RoundTotal(round=round_, total=total, receipt=paid))
        answer = await self.seat.receive(RoundSum, lead)
        check_round(answer.round, round_, lead, "opened")
        sums = _unpacked(slots, answer.sums, self.key, self.study.K, lead)
        await self.seat.broadcast(Opened(round=round_, sums=answer.sums, receipt=paid))
        self._round += 1
        return sums

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
        terms = await self._gather_terms()
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

    async def _gather_terms(self) -> dict[str, Ciphertexts]:
        """Wait for everybody's contribution to this round."""
        contributions = await self.seat.gather(Contribution, self.study.names)
        for name, message in contributions.items():
            check_round(message.round, self._round, name, "contributed to")
        return {name: message.terms for name, message in contributions.items()}
