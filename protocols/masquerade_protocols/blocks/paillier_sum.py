"""The secure sum by Paillier: Charlie multiplies ciphertexts that he cannot read, and the lead opens their total.

The *lead* is the party that holds the parties' Paillier key xi, whose modulus is called N here. For K parties, m
plaintexts and a key of n bits, in round t of ``open_sum``::

    party P_j                                  Charlie                           lead P_L (holds xi)
      | x_j encoded, packed, marked              |                                 |
      |   + sum_i +-mask_ij mod N                |                                 |
      |-------- Contribution: m ciphertexts, --->|<------- Contribution -----------|   m 2n/8
      |         check value under masks          |                                 |   16
      |                                          | products of all K, sum of checks|
      |                                          |-------- RoundTotal ------------>|   m 2n/8 + 32
      |                                          |   top bits zero? K marks?       |
      |                                          |<------- RoundSum ---------------|   m n/8
      |<------- Opened: the sum, the total, -----|-------- Opened ---------------->|   m 3n/8
      |         its check value, a receipt       |                                 |   16 + 32
      | K marks? does the check fit?             |                                 |
      |                    at the end of the run, once: one root proves all openings
      |<------- OpeningProof --------------------|<------- OpeningProof -----------|   n/8

Charlie learns K ciphertexts and one sum, the lead one total and one sum. Every pair of parties masks its two
plaintexts with a number that cancels in the total and nowhere else. So a single contribution is uniform even to the
holder of the key. If a contribution is missing, doubled or not this round's, the total's top bits are not zero. Then
the run ends, and nothing of that total leaves the lead. Masks are bound to the run, the round, the participants, all
that Charlie told before, and ``bound_to``, a hash of what the contributions depend on. The lead opens one total per
round, so nobody can have another ciphertext opened.

Two things together make every opened total the total:

*The check value* is a linear function of the sum under a key that all parties share and Charlie lacks, as in a masked
sum (:mod:`masquerade_core.crypto.masks`). Charlie can multiply a total by (1 + N)^Delta, and so add Delta. The sum that
is opened then fits the check value with a chance of 2^-126 at most. He passes it on after the lead has answered.

*The proof of all openings*, explained below, shows that the lead opened the totals that Charlie signed. The check value
alone would not: the lead knows its key, and can look for another sum that fits.

Charlie with the lead can make all accept another sum, for the lead tells him the key of the check values. So can he
with any other party. A party alone can too, since it chooses its own vector.

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
There is no check value and no proof. The lead can add a number of its choice to what Charlie alone learns.

A contribution is a fresh encryption of one's own data. For that, the short obfuscators of Damgard, Jurik and Nielsen
are enough.

The receipt in ``Opened`` is a hash over all contributions. Charlie signs it, and each party signs its contribution.
:mod:`~masquerade_protocols.blame` says what the contributions of a failed round prove.

**The proof of all openings.** For a key N of the right form, a ciphertext c is (1 + N)^m r^N mod N^2 for one plaintext
m and one r modulo N. So r proves that c opens to m. Only the holder of the secret key can compute r from c.

To check every c would take one long exponentiation each. Instead, everybody folds all ciphertexts of the run into one::

    C = product of c_i^(e_i) mod N^2        M = sum of e_i m_i        C = (1 + N)^M R^N mod N^2 ?

At the end the lead tells one root R, which is the product of all r_i^(e_i). The coefficients e_i have 128 bits. They
follow from a hash of all that Charlie told until then, c_i and m_i included. So the lead knows e_i only after it has
answered m_i. If an m_i is wrong, at most one e_i of 2^128 satisfies the equation.

The proof comes late, and that is enough. Until then, wrong totals may have chosen the points at which parties
contribute. Privacy holds at any points, and no result leaves a run before the proof.

*What R shows.* With short obfuscators, r_i is h^s mod N, where h is public and s is the sum of K parties' random
exponents. If two parties are honest, replace their factors h^a and h^b by uniform powers of h: that is the assumption
on which short obfuscators rest. Then the product h^(a + b) tells nothing of h^a, and a contribution is an encryption
with an obfuscator of its own. R tells nothing of N's factors either. Anybody can draw a power of h, and an N-th root
is unique, so no two roots of one number can be compared, as for square roots. The lead folds no other ciphertexts than
totals which opened as sums of all. So nobody gets the root of a number of his choice.

Below stand the messages, in the order in which participants send them, then Charlie's side, and then the side
of the parties, with the lead among them.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gmpy2 import mpz, powmod

from masquerade_core.crypto.masks import CheckKey, Words, as_integers, mask_stream, tagged_hash
from masquerade_core.crypto.packing import Packing
from masquerade_core.crypto.paillier import FullPool, PublicKey, SecretKey, ShortPool, draw_primes
from masquerade_core.crypto.powers import product_of_powers
from masquerade_core.crypto.shares import mask
from masquerade_core.errors import LocalProtocolError, ProtocolViolation, SumRefused
from masquerade_core.rng import Rng
from masquerade_core.seat import Seat
from masquerade_core.study import CHARLIE, Study
from masquerade_core.wire.ciphertexts import Ciphertexts
from masquerade_core.wire.codec import PARTIES, Broadcast, Message, numbers, pack_numbers
from masquerade_protocols.blocks.coin_toss import coin_toss
from masquerade_protocols.blocks.layouts import Again, Layout, ReceiptHash, Round, Vector, check_round, receipt

__all__ = [
    "BlindedSum",
    "BlindedTotal",
    "Contribution",
    "Opened",
    "OpeningProof",
    "Openings",
    "PaillierCharlieSums",
    "PaillierPartySums",
    "RoundSum",
    "RoundTotal",
    "SumKey",
    "as_packing",
    "check_check",
    "check_words",
    "digest_of",
    "receipt",
    "unpacked",
]


# --- Paillier messages -----------------------------------------------------------


class SumKey(Broadcast):
    """Lead to Charlie, Charlie to all: the modulus of xi, and the roots that prove its form."""

    modulus: bytes
    roots: bytes


class Contribution(Message):
    """P_j to Charlie: its masked vector of this round, encrypted, and its masked check value; empty if it is unused."""

    round: Round
    terms: Ciphertexts
    check: bytes


class RoundTotal(Message):
    """Charlie to the lead: the product of all contributions, and the receipt for them."""

    round: Round
    total: Ciphertexts
    receipt: ReceiptHash


class RoundSum(Message):
    """Lead to Charlie: the opened sum, packed modulo N."""

    round: Round
    sums: bytes


class Opened(Broadcast):
    """Charlie to all: the opened sum, the total that it opens, its check value, and his receipt for contributions."""

    round: Round
    sums: bytes
    total: Ciphertexts
    check: bytes
    receipt: ReceiptHash


class OpeningProof(Broadcast):
    """Lead to Charlie, Charlie to all: the N-th root that proves all openings of a run."""

    root: bytes


class BlindedTotal(Message):
    """Charlie to the lead: the product of all contributions, times encryptions of numbers that only he knows."""

    round: Round
    total: Ciphertexts


class BlindedSum(Message):
    """Lead to Charlie: the opened numbers, which are uniform modulo N to the lead."""

    round: Round
    sums: bytes


def digest_of(message: Contribution) -> bytes:
    """Return what the receipt has of a contribution: the hash of its ciphertexts, and its check value."""
    return message.terms.digest() + message.check


# --- Opening proof ---------------------------------------------------------------

_BYTES = 16  # of a coefficient
_PENDING = 1024  # ciphertexts that wait to be folded together: each then costs less, and half a megabyte is kept


class Openings:
    """All openings of a run, folded into one.

    Parameters
    ----------
    key : PublicKey
    modulus : int
        N^2 for the verifier of the proof; N for the lead, who needs the folded ciphertext modulo N alone.
    """

    def __init__(self, key: PublicKey, modulus: Any) -> None:
        self._key, self._modulus = key, modulus
        self._pending: list[tuple[Any, int]] = []
        self._ciphertext, self._plain = mpz(1), mpz(0)
        self.count = 0

    def add(self, seed: bytes, ciphertexts: Sequence[Any], plaintexts: Sequence[int]) -> None:
        """Add the openings of one round; ``seed`` is a hash of all that was told, up to these openings."""
        raw = mask_stream(tagged_hash("coefficients", seed), _BYTES * len(ciphertexts))
        for i, (ciphertext, plain) in enumerate(zip(ciphertexts, plaintexts, strict=True)):
            coefficient = int.from_bytes(raw[_BYTES * i : _BYTES * (i + 1)], "big")
            self._pending.append((ciphertext % self._modulus, coefficient))
            self._plain += coefficient * plain
        self.count += len(ciphertexts)
        if len(self._pending) >= _PENDING:
            self._fold()

    def _fold(self) -> None:
        if self._pending:
            bases, exponents = zip(*self._pending, strict=True)
            product = product_of_powers(bases, exponents, 8 * _BYTES, self._modulus)
            self._ciphertext = self._ciphertext * product % self._modulus
            self._pending.clear()

    def ciphertext(self) -> Any:
        """Return the folded ciphertext modulo the modulus."""
        self._fold()
        return self._ciphertext

    def proved_by(self, root: bytes) -> bool:
        """Say whether R proves all openings."""
        n, n2 = self._key.mod_n, self._key.mod_n2
        opened = (1 + n * (self._plain % n)) * powmod(mpz.from_bytes(root, "big"), n, n2) % n2
        return bool(self.ciphertext() == opened)


# --- What parties and Charlie compute alike ------------------------------------------


def unpacked(layout: Packing, sums: bytes, key: PublicKey, parties: int, peer: str) -> tuple[int, ...]:
    """Read the vector from an opened sum's bytes.

    Raises
    ------
    ProtocolViolation
        The fault of ``peer``, who sent another number of bytes.
    RunFailed
        The numbers are no sum of one contribution of each party.
    """
    values = numbers(sums, (key.bits + 7) // 8, layout.count, peer)
    return layout.unpack(values, key.n, contributors=parties)


def check_words(layout: Packing) -> Words:
    """Return the layout of the same vector in words: its check value has a prime that exceeds every coordinate."""
    return Words(layout.length, layout.bound)


def check_check(words: Words, check: bytes, peer: str) -> None:
    """Refuse a check value of another length.

    Raises
    ------
    ProtocolViolation
        The fault of ``peer``.
    """
    if len(check) != words.check_bytes:
        msg = f"{peer} sent {len(check)} bytes of a check value, but {words.check_bytes} are due"
        raise ProtocolViolation(msg, peer=peer)


def as_packing(layout: Layout) -> Packing:
    """Return the layout of a sum by Paillier; another one is a bug of the protocol."""
    if not isinstance(layout, Packing):
        raise LocalProtocolError("a sum by Paillier was to be made of words; its vectors lie in plaintexts")
    return layout


# --- Paillier charlie ------------------------------------------------------------


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


# --- Paillier sum ----------------------------------------------------------------

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
    kappa : bytes
        The parties' key for check values.
    held_back : int
        N', the opened number of the records that are held back for an evaluation; 0 where none are.
    """

    seat: Seat
    study: Study
    key: PublicKey
    secret: SecretKey | None
    pair_keys: Mapping[str, tuple[bool, bytes]] = field(repr=False)
    kappa: bytes = field(repr=False)
    _chain: bytes = b""
    _round: int = 0
    _pool: ShortPool | None = None
    held_back: int = 0

    def __post_init__(self) -> None:
        self._openings = Openings(self.key, self.key.mod_n2 if self.secret is None else self.key.mod_n)

    @classmethod
    async def set_up(cls, seat: Seat, study: Study) -> "PaillierPartySums":
        """Set up a party's sums, after the join: take the lead's key, and bind the pairwise keys by a coin toss."""
        secret = None
        if seat.me == study.lead:
            secret = SecretKey(*await seat.once("key xi", lambda rng: draw_primes(rng, study.key_bits)))
            await seat.send(CHARLIE, SumKey(modulus=secret.public.to_bytes(), roots=secret.proof_of_form()))
        told = await seat.receive(SumKey, CHARLIE)
        key = PublicKey.received(told.modulus, study.key_bits, CHARLIE)
        if secret is not None and secret.public != key:
            raise ProtocolViolation("charlie passed on a different key from the one that the lead sent", peer=CHARLIE)
        if secret is None and not key.has_form(told.roots):
            raise ProtocolViolation(
                f"the key that {study.lead} sent is not proved to give every ciphertext exactly one plaintext; the "
                "N-th roots that prove it must come with it. The lead or Charlie is at fault",
                suspects=(study.lead, CHARLIE),
            )
        seed = await coin_toss(seat)
        group = hashlib.sha256(seed + key.to_bytes() + "\0".join(study.names).encode()).digest()
        order = {name: i for i, name in enumerate(study.names)}
        pair_keys = {
            peer: (order[seat.me] < order[peer], seat.pair_key(peer, "Paillier blinds", context=group))
            for peer in seat.others
        }
        return cls(seat, study, key, secret, pair_keys, tagged_hash("kappa", key=seed), group)

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
        self, layout: Layout, vector: Vector, bound_to: bytes, again: Again | None = None
    ) -> tuple[int, ...]:
        """Contribute ``vector`` and return the sum of everybody's.

        Parameters
        ----------
        layout : Packing
            From public numbers alone; the same at every participant.
        vector : ndarray or sequence of int
            Encoded and clipped; noise included.
        bound_to : bytes
            A hash of what the contributions of this round depend on. It must be the same at every party; otherwise the
            masks do not cancel.
        again : callable, optional
            Not used: no such sum is made again.

        Raises
        ------
        SumRefused
            The total is not the sum of one contribution of each party, or Charlie told another one.
        ProtocolViolation
            Charlie or the lead is at fault.
        """
        del again
        slots = as_packing(layout)
        label = self._label(slots, bound_to)
        words = check_words(slots)
        check_key = CheckKey(words, tagged_hash("check", label, key=self.kappa))
        check = check_key.of(vector)
        if self.seat.me == self.study.names[0]:
            check += check_key.constant
        await self._send(slots, vector, bound_to, self._masked_check(words, check, label))
        own = None if self.secret is None else await self._open(self.secret, slots)
        opened = await self.seat.receive(Opened, CHARLIE)
        check_round(opened.round, self._round, CHARLIE, "opened")
        check_check(words, opened.check, CHARLIE)
        if own is not None and own != (opened.sums, opened.total.digest(), opened.receipt):
            raise ProtocolViolation(
                "charlie passed on a sum, total or receipt that the lead does not have; they must be the total and "
                "receipt that he sent to the lead, and the sum that the lead opened",
                peer=CHARLIE,
            )
        total = unpacked(slots, opened.sums, self.key, self.study.K, CHARLIE)
        if not check_key.fits(total, opened.check):
            raise SumRefused(
                "the opened sum does not fit its check value: Charlie or the lead changed it, or a party's "
                "contribution was not well made",
                "start a new run; the contributions that Charlie keeps show whether it was he",
            )
        self._chain = tagged_hash("chain", label, opened.sums, opened.total.digest(), opened.check, opened.receipt)
        residues = opened.total.residues(self.key, slots.count, CHARLIE)
        plaintexts = numbers(opened.sums, (self.key.bits + 7) // 8, slots.count, CHARLIE)
        self._openings.add(self._chain, residues, plaintexts)
        self._round += 1
        return total

    async def close(self) -> None:
        """Prove as the lead, or check as another party, that every total of this run was opened as it was.

        A role calls it after its last sum, before it returns anything.

        Raises
        ------
        SumRefused
            The proof does not fit: the lead opened another total, or Charlie changed what he passed on.
        """
        openings = self._openings
        if not openings.count:
            return
        if self.secret is not None:
            secret = self.secret
            root = await self.seat.once("proof of openings", lambda _: secret.root(openings.ciphertext()))
            await self.seat.send(CHARLIE, OpeningProof(root=root.to_bytes((self.key.bits + 7) // 8, "big")))
        proof = await self.seat.receive(OpeningProof, CHARLIE)
        if self.secret is None and not openings.proved_by(proof.root):
            raise SumRefused(
                "the lead's proof does not fit the totals and sums of this run: the lead opened another total, or "
                "Charlie changed what he passed on",
                "start a new run; nothing of this one may be used",
            )

    async def contribute(self, layout: Layout, vector: Vector, bound_to: bytes) -> None:
        """Contribute ``vector`` to a sum that Charlie alone learns (:meth:`PaillierCharlieSums.aggregate`).

        The parameters are those of :meth:`open_sum`.

        Raises
        ------
        ProtocolViolation
            Charlie is at fault; the lead sees it.
        """
        slots = as_packing(layout)
        label = self._label(slots, bound_to)
        await self._send(slots, vector, bound_to, b"")
        if self.secret is not None:
            await self._open_blinded(self.secret, slots)
        self._chain = tagged_hash("chain", label)
        self._round += 1

    def _label(self, layout: Packing, bound_to: bytes) -> bytes:
        """Return what this round's check value depends on: all that was told until now, and what is due."""
        numbers_ = (self._round, layout.length, layout.width)
        return tagged_hash("round", self._chain, *(n.to_bytes(8, "big") for n in numbers_), bound_to)

    def _masked_check(self, words: Words, check: int, label: bytes) -> bytes:
        """Hide a check value by masks that cancel in the sum of all."""
        for adds, key in self.pair_keys.values():
            raw = mask_stream(tagged_hash("mask of the check", label, key=key), 2 * words.check_bytes)
            hidden = int.from_bytes(raw, "little")
            check += hidden if adds else -hidden
        return (check % words.prime).to_bytes(words.check_bytes, "little")

    def _masks(self, bound_to: bytes, count: int) -> list[int]:
        label = self._round.to_bytes(4, "big") + self._chain + bound_to
        total = [0] * count
        for adds, key in self.pair_keys.values():
            for i, value in enumerate(mask(key, label, self.key.n, count)):
                total[i] += value if adds else -value
        return total

    async def _send(self, layout: Packing, vector: Vector, bound_to: bytes, check: bytes) -> None:
        """Send this round's vector, masked and encrypted, and its masked check value."""
        if self._pool is None or len(self._pool) < layout.count:
            await self.precompute([layout])
        pool = self._pool
        if pool is None:
            raise LocalProtocolError("a contribution was to be encrypted without obfuscators")
        masks = self._masks(bound_to, layout.count)
        integers = as_integers(vector)
        plain = [v + m + c for v, m, c in zip(layout.pack(integers), masks, layout.mark(), strict=True)]
        terms = Ciphertexts.outgoing([pool.encrypt(p, CHARLIE) for p in plain])
        await self.seat.send(CHARLIE, Contribution(round=self._round, terms=terms, check=check))

    async def _open(self, secret: SecretKey, layout: Packing) -> tuple[bytes, bytes, bytes]:
        """The lead's part: open this round's total, once, and let it leave only if it is a sum of all.

        Returns
        -------
        bytes, bytes, bytes
            The sum, the total's digest and the receipt. Charlie must tell everybody the same, the lead included. With
            another sum he could choose the point of everybody's next contribution. If he told some parties another sum,
            their masks would not cancel.
        """
        message = await self.seat.receive(RoundTotal, CHARLIE)
        sums = await self._decrypt_once(secret, message, layout)
        layout.unpack(sums, self.key.n, contributors=self.study.K)
        raw = pack_numbers(sums, (self.key.bits + 7) // 8)
        await self.seat.send(CHARLIE, RoundSum(round=self._round, sums=raw))
        return raw, message.total.digest(), message.receipt

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
