"""The secure sum: Charlie multiplies what he cannot read, the lead opens the total of what it never sees singly.

A building block: a protocol sets it up once per run and asks for one sum per round. For K parties, m plaintexts, a
Paillier key xi of n bits at the lead, in round t::

    party P_j                                  Charlie                           lead P_L (holds xi)
      | x_j encoded, packed, marked              |                                 |
      |   + sum_i +-mask_ij mod N                |                                 |
      |-------- Contribution: m ciphertexts ---->|<------- Contribution -----------|   m 2n/8
      |                                          | product of all K                |
      |                                          |-------- RoundTotal ------------>|   m 2n/8 + 32
      |                                          |   top bits zero? K marks?       |
      |                                          |<------- RoundSum ---------------|   m n/8
      |<------- Opened: the sum, a receipt ------|-------- Opened ---------------->|   m n/8 + 32

What each learns: Charlie K ciphertexts and one sum; the lead one total and one sum. Every pair of parties masks its two
plaintexts with a number that cancels in the total and nowhere else, so a single contribution is uniform even to the
holder of the key, and a total with one missing, doubled or foreign contribution has no zero bits on top: it aborts,
and nothing of it leaves the lead. Masks are bound to run, round, participants and ``bound_to`` (what the
contributions depend on), and the lead opens one total per round, so no opening oracle exists.

Where Charlie alone may learn the sum, he blinds the total before he has it opened (:meth:`Adder.give`,
:func:`add_up_alone`)::

      |-------- Contribution: m ciphertexts ---->|<------- Contribution -----------|   m 2n/8
      |                                          | product of all K, times E(r)    |
      |                                          |-------- BlindedTotal ---------->|   m 2n/8
      |                                          |<------- BlindedSum -------------|   m n/8
      |                                          | r off; top bits zero? K marks?  |

The lead reads sum + r with r uniform in Z_n: a uniform number, whatever the sum. So it can check nothing, and need not:
by the masks, what Charlie reads is uniform as well unless he had the product of all K opened. E(r) bears a full
obfuscator, as does all that is bound for a key holder and derived from others' ciphertexts: what the lead receives is
uniform in Z*_{n^2}, and its randomness, which the lead can compute, tells nothing of the obfuscators of its factors.

A contribution is a fresh encryption of one's own data, so the short obfuscators of Damgard, Jurik and Nielsen serve.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from masquerade_core.crypto.packing import Packing
from masquerade_core.crypto.paillier import FullPool, PublicKey, SecretKey, ShortPool, draw_primes
from masquerade_core.crypto.shares import mask
from masquerade_core.errors import LocalProtocolError, ProtocolViolation
from masquerade_core.rng import Rng
from masquerade_core.seat import Seat
from masquerade_core.study import CHARLIE, Study
from masquerade_core.wire.codec import numbers, pack_numbers
from masquerade_core.wire.messages import Ciphertexts, Message
from masquerade_protocols.joint import toss

__all__ = [
    "Adder",
    "BlindedSum",
    "BlindedTotal",
    "Contribution",
    "Opened",
    "RoundSum",
    "RoundTotal",
    "SumKey",
    "add_up",
    "add_up_alone",
    "blame",
    "learn_key",
    "receipt",
    "set_up",
]

_Round = Annotated[int, Field(ge=0, lt=2**32)]
_Receipt = Annotated[bytes, Field(min_length=32, max_length=32)]


# --- Messages -----------------------------------------------------------------


class SumKey(Message):
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


class Opened(Message):
    """Charlie to all: the opened sum, and his receipt for this round's contributions."""

    round: _Round
    sums: bytes
    receipt: _Receipt


class BlindedTotal(Message):
    """Charlie to the lead: the product of all contributions, and of encryptions of numbers that only he knows."""

    round: _Round
    total: Ciphertexts


class BlindedSum(Message):
    """Lead to Charlie: what it read, which is uniform modulo N to the lead."""

    round: _Round
    sums: bytes


# --- What both sides compute ----------------------------------------------------


def receipt(round_: int, digests: Mapping[str, bytes]) -> bytes:
    """Charlie's receipt: a hash over everybody's contribution of this round, by name.

    His signature stands under it, and each party's stands under its contribution; so whoever holds both can show, to
    anybody but the lead, whether the total is the product of exactly these contributions.
    """
    rows = b"".join(name.encode() + b"\0" + digest for name, digest in digests.items())
    return hashlib.sha256(b"masquerade receipt\0" + round_.to_bytes(4, "big") + rows).digest()


def blame(
    study: Study, key: PublicKey, layout: Packing, paid: RoundTotal, contributions: Mapping[str, Ciphertexts]
) -> str | None:
    """Say whether Charlie is to blame for a total that did not open; for anybody but the lead, once it aborted.

    Parameters
    ----------
    study : Study
    key : PublicKey
        xi.
    layout : Packing
        The round's.
    paid : RoundTotal
        What Charlie sent to the lead, under his signature.
    contributions : mapping of str to Ciphertexts
        What each party sent to Charlie in this round, under its signature.

    Returns
    -------
    str or None
        ``CHARLIE``, if his receipt is for other contributions than these, or his total is not their product: one is
        dropped, doubled or foreign. None, if he did his part: then a party's contribution is not what it should be.

    Raises
    ------
    ProtocolViolation
        A contribution is no vector of ciphertexts; its party is named.
    """
    terms = {name: contributions[name] for name in study.names}
    if receipt(paid.round, {name: vector.digest() for name, vector in terms.items()}) != paid.receipt:
        return CHARLIE
    total = Ciphertexts.total(terms, key, layout.count, study.lead)
    return None if total.digest() == paid.total.digest() else CHARLIE


def _unpacked(layout: Packing, sums: bytes, key: PublicKey, parties: int, peer: str) -> tuple[int, ...]:
    values = numbers(sums, (key.bits + 7) // 8, layout.count, peer)
    return layout.unpack(values, key.n, contributors=parties)


# --- The parties ------------------------------------------------------------------


@dataclass
class Adder:
    """A party's side of the sums of one run; made by :func:`set_up`.

    Parameters
    ----------
    seat, study : Seat, Study
    key : PublicKey
        xi.
    secret : SecretKey or None
        At the lead.
    pair_keys : mapping of str to (bool, bytes)
        For each other party: whether this one adds the mask (else subtracts), and their common key.
    """

    seat: Seat
    study: Study
    key: PublicKey
    secret: SecretKey | None
    pair_keys: Mapping[str, tuple[bool, bytes]]
    _round: int = 0
    _pool: ShortPool | None = None

    async def fill(self, count: int) -> None:
        """Draw ``count`` more obfuscators, ahead of need."""
        entries = await self.seat.once(
            f"obfuscators from round {self._round}",
            lambda rng: (self.secret or self.key).short_obfuscators(rng, count),
        )
        if self._pool is not None and len(self._pool):
            raise LocalProtocolError("a pool that is not empty was to be replaced")
        self._pool = ShortPool(self.key, entries)

    def _masks(self, bound_to: bytes, count: int) -> list[int]:
        label = self._round.to_bytes(4, "big") + bound_to
        total = [0] * count
        for adds, key in self.pair_keys.values():
            for i, value in enumerate(mask(key, label, self.key.n, count)):
                total[i] += value if adds else -value
        return total

    async def open_sum(self, layout: Packing, vector: Sequence[int], bound_to: bytes) -> tuple[int, ...]:
        """Contribute ``vector`` and return the sum of everybody's.

        Parameters
        ----------
        layout : Packing
            From public numbers alone; the same at every participant.
        vector : sequence of int
            Encoded and clipped; noise included.
        bound_to : bytes
            A hash of what the contributions of this round depend on, the same at every party: else the masks do not
            cancel.

        Raises
        ------
        RunFailed
            The total is not the sum of one contribution of each party.
        ProtocolViolation
            Charlie's or the lead's fault.
        """
        round_ = self._round
        await self._contribute(layout, vector, bound_to)
        own = None if self.secret is None else await self._open(self.secret, layout)
        opened = await self.seat.receive(Opened, CHARLIE)
        if opened.round != round_:
            raise ProtocolViolation(f"charlie opened round {opened.round} where {round_} is due", peer=CHARLIE)
        if own is not None and own != opened:
            raise ProtocolViolation("charlie passed on another sum or receipt than he had opened", peer=CHARLIE)
        self._round += 1
        return _unpacked(layout, opened.sums, self.key, self.study.K, CHARLIE)

    async def give(self, layout: Packing, vector: Sequence[int], bound_to: bytes) -> None:
        """Contribute ``vector`` to a sum that Charlie alone learns (:func:`add_up_alone`).

        The parameters are those of :meth:`open_sum`.

        Raises
        ------
        ProtocolViolation
            Charlie's fault, seen by the lead.
        """
        await self._contribute(layout, vector, bound_to)
        if self.secret is not None:
            await self._open_blinded(self.secret, layout)
        self._round += 1

    async def _contribute(self, layout: Packing, vector: Sequence[int], bound_to: bytes) -> None:
        """Send this round's vector, masked and encrypted."""
        if self._pool is None or len(self._pool) < layout.count:
            await self.fill(layout.count)
        pool = self._pool
        if pool is None:
            raise LocalProtocolError("a contribution without obfuscators")
        masks = self._masks(bound_to, layout.count)
        plain = [v + m + c for v, m, c in zip(layout.pack(vector), masks, layout.mark(), strict=True)]
        terms = Ciphertexts.outgoing([pool.encrypt(p, CHARLIE) for p in plain])
        await self.seat.send(CHARLIE, Contribution(round=self._round, terms=terms))

    async def _open_blinded(self, secret: SecretKey, layout: Packing) -> None:
        """The lead's part: open this round's total, once, for Charlie; it reads uniform numbers."""
        message = await self.seat.receive(BlindedTotal, CHARLIE)
        if message.round != self._round:
            raise ProtocolViolation(f"charlie asked for round {message.round} where {self._round} is due", peer=CHARLIE)
        total = message.total.read(self.key, layout.count, CHARLIE)
        blinded = await self.seat.once(f"sum {self._round}", lambda _: secret.decrypt_all(total))
        raw = pack_numbers(blinded, (self.key.bits + 7) // 8)
        await self.seat.send(CHARLIE, BlindedSum(round=self._round, sums=raw))

    async def _open(self, secret: SecretKey, layout: Packing) -> Opened:
        """The lead's part: open this round's total, once, and let it leave only if it is a sum of all.

        Returns
        -------
        Opened
            What Charlie has to tell everybody, the lead included. With another sum he could choose the point at which
            all compute their next contribution; told to some, it leaves them with masks that do not cancel.
        """
        message = await self.seat.receive(RoundTotal, CHARLIE)
        if message.round != self._round:
            raise ProtocolViolation(f"charlie asked for round {message.round} where {self._round} is due", peer=CHARLIE)
        total = message.total.read(self.key, layout.count, CHARLIE)
        sums = await self.seat.once(f"sum {self._round}", lambda _: secret.decrypt_all(total))
        layout.unpack(sums, self.key.n, contributors=self.study.K)
        raw = pack_numbers(sums, (self.key.bits + 7) // 8)
        await self.seat.send(CHARLIE, RoundSum(round=self._round, sums=raw))
        return Opened(round=self._round, sums=raw, receipt=message.receipt)


async def set_up(seat: Seat, study: Study) -> Adder:
    """A party's set-up, after the join: the lead's key goes round, and a toss binds the pairwise keys."""
    secret = None
    if seat.me == study.lead:
        secret = SecretKey(*await seat.once("key xi", lambda rng: draw_primes(rng, study.crypto.key_bits)))
        await seat.send(CHARLIE, SumKey(modulus=secret.public.to_bytes()))
    raw = (await seat.receive(SumKey, CHARLIE)).modulus
    key = PublicKey.received(raw, study.crypto.key_bits, CHARLIE)
    if secret is not None and secret.public != key:
        raise ProtocolViolation("charlie passed on another key than the lead's", peer=CHARLIE)
    seed = await toss(seat)
    group = hashlib.sha256(seed + key.to_bytes() + "\0".join(study.names).encode()).digest()
    order = {name: i for i, name in enumerate(study.names)}
    pair_keys = {peer: (order[seat.me] < order[peer], seat.shared_key(peer, b"sum" + group)) for peer in seat.others}
    return Adder(seat, study, key, secret, pair_keys)


# --- Charlie ------------------------------------------------------------------------


async def learn_key(seat: Seat, study: Study) -> PublicKey:
    """Charlie's set-up: take the lead's key and pass it on."""
    modulus = (await seat.receive(SumKey, study.lead)).modulus
    key = PublicKey.received(modulus, study.crypto.key_bits, study.lead)
    await seat.broadcast(SumKey(modulus=modulus))
    return key


async def add_up(seat: Seat, study: Study, key: PublicKey, layout: Packing, round_: int) -> tuple[int, ...]:
    """Charlie's part of one round: multiply, have it opened, tell everybody; returns the sum.

    Raises
    ------
    ProtocolViolation
        A party's fault; it is named.
    RunFailed
        What the lead opened is not a sum of K contributions.
    """
    terms = await _gather_terms(seat, study, round_)
    paid = receipt(round_, {name: vector.digest() for name, vector in terms.items()})
    total = Ciphertexts.total(terms, key, layout.count, study.lead)
    await seat.send(study.lead, RoundTotal(round=round_, total=total, receipt=paid))
    answer = await seat.receive(RoundSum, study.lead)
    if answer.round != round_:
        raise ProtocolViolation(f"{study.lead} opened round {answer.round} where {round_} is due", peer=study.lead)
    sums = _unpacked(layout, answer.sums, key, study.K, study.lead)
    await seat.broadcast(Opened(round=round_, sums=answer.sums, receipt=paid))
    return sums


async def add_up_alone(seat: Seat, study: Study, key: PublicKey, layout: Packing, round_: int) -> tuple[int, ...]:
    """Charlie's part of a round whose sum he alone learns: multiply, blind, have it opened, take the blind off.

    Raises
    ------
    ProtocolViolation
        A party's fault; it is named.
    RunFailed
        What the lead opened is not a sum of K contributions; nobody can be named, for the lead cannot tell.
    """

    def draw(rng: Rng) -> tuple[tuple[int, ...], tuple[int, ...]]:
        return tuple(rng.below(key.n) for _ in range(layout.count)), key.full_obfuscators(rng, layout.count)

    r, obfuscators = await seat.once(f"blinds of round {round_}", draw)
    terms = await _gather_terms(seat, study, round_)
    total = Ciphertexts.total(terms, key, layout.count, study.lead).read(key, layout.count, CHARLIE)
    pool = FullPool(key, obfuscators)
    blinded = Ciphertexts.outgoing([pool.freshen(c + blind, study.lead) for c, blind in zip(total, r, strict=True)])
    await seat.send(study.lead, BlindedTotal(round=round_, total=blinded))
    answer = await seat.receive(BlindedSum, study.lead)
    if answer.round != round_:
        raise ProtocolViolation(f"{study.lead} opened round {answer.round} where {round_} is due", peer=study.lead)
    values = numbers(answer.sums, (key.bits + 7) // 8, layout.count, study.lead)
    opened = [(value - blind) % key.n for value, blind in zip(values, r, strict=True)]
    return layout.unpack(opened, key.n, contributors=study.K)


async def _gather_terms(seat: Seat, study: Study, round_: int) -> dict[str, Ciphertexts]:
    """Wait for everybody's contribution to this round."""
    contributions = await seat.gather(Contribution, study.names)
    for name, message in contributions.items():
        if message.round != round_:
            raise ProtocolViolation(f"{name} contributed to round {message.round} where {round_} is due", peer=name)
    return {name: message.terms for name, message in contributions.items()}
