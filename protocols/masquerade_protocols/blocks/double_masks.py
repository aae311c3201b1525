"""Masked sums that go on without parties that fall silent: double masks, with shares among neighbours.

The scheme is that of Bonawitz et al. (CCS 2017) on the graph of Bell et al. (CCS 2020), where it is called SecAgg+. A
contribution is under two masks. The *pairs' masks* cancel in the sum, as in
:mod:`~masquerade_protocols.blocks.masked_sum`. The *own mask* follows from a seed b_j that its party alone knows at
first. Neighbours hold shares of b_j, and of the one-time key sk_j from which the pairs' masks follow. Any t shares open
one. For K parties, k neighbours each, and a committee (:mod:`masquerade_core.thresholds`), in round t::

    party P_j                                             Charlie
      | once: DealtKeys: pk_j^0, and in boxes for the       |
      |       neighbours shares of sk_j^0                   |   HeldKeys to each
      | 1. y_j = x_j + G(b_j) + sum_i +-G(k_ij^t)           |
      |------ DoublyMasked: y_j, check value, pk_j^(t+1); ->|   words as there, and 82 for each neighbour
      |       in boxes: shares of b_j and sk_j^(t+1)        |   2. U = those whose contribution came
      |<----- Asked: U                     (committee only) |
      | 3. checks U                                         |
      |------ Vouched: a proof for each party of U -------->|
      |<----- Opening: U, a quorum of proofs, keys, boxes --|
      | 4. checks U and the proofs                          |
      |------ Revealed: of each neighbour i a share of ---->|   33 bytes for each neighbour
      |       b_i if i is in U, else of sk_i^t              |   5. opens these, takes all masks off
      |<----- Summed: the sum, its check value, a receipt --|
      | 6. checks the sum, as in masked_sum                 |

1. k_ij^t follows from the one-time keys of round t by X25519, so a key that is opened unmasks no other round. Masks are
   shared with neighbours in the set of the round before. A party of these that is silent now has dealt shares of sk_i^t
   one round earlier, before anybody used its key.
2. Charlie waits [dropouts] patience_seconds. Who falls silent after this step is in the sum all the same.
3. 4. :func:`~masquerade_protocols.blocks.double_masks.check_set` has the rules for U. Charlie alone says who is silent,
   so he may lie. The proofs make sure that he names one U to all. 2 t > k + c, for c corrupt neighbours, makes sure
   that he never opens both masks of anybody, even if the proofs failed. A party of the committee vouches once a round,
   and every party reveals once a round.
5. For i in U he opens b_i; for i that was silent, sk_i^t. What is left is the sum over U.
6. Everybody's check value has the same constant, so their sum has it once for each of U.

*Why one sum.* Pairs' masks between honest parties of U stay closed. Each of U has t neighbours in U, so these masks
connect all honest parties of U with each other. Charlie, with the corrupt ones, learns the sum over all honest parties
of U and nothing else. These are h = min_survivors - colluders or more, each with its share of noise.

*Nobody proves to own a one-time key.* A party that announces another's, or one that shares its secrets, spoils the sum
and learns nothing. k_ij^t depends on both names (:mod:`masquerade_core.crypto.pair_keys`), so it is a mask that nobody
else uses, and that neither the copier nor Charlie can take off.

*What it costs beside retries.* A party contributes once a round, so there is one release a round and no sum is made
again. A lost party stays out.

*Exact sums lose nobody.* N carries no noise. Charlie could open N without one party, end the attempt, and open N of all
in the next one: the difference is that party's size. So for a sum without noise, U is everybody who took part before.

*What is not promised.* A party that deals or reveals false shares spoils the sum. Its check value or its marks show
that, the run ends, and nobody can tell who it was.

*Who deals shares to whom*, who answers for a set, and which sets may be opened: all this follows from public numbers,
namely the roster, the coin and the study. Parties are counted in the order of the roster, from 0. A set of parties
travels as bits, so it holds nobody twice. The boxes for all neighbours of a party travel in one message, one behind the
other, and all are equally long.

Below stand the messages, in the order in which participants send them, then a party's side, and then Charlie's.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, TypeVar

import numpy as np
from nacl.bindings import crypto_aead_chacha20poly1305_ietf_decrypt, crypto_aead_chacha20poly1305_ietf_encrypt
from nacl.exceptions import CryptoError
from numpy.typing import NDArray
from pydantic import Field

from masquerade_core.crypto.masks import CheckKey, Words, tagged_hash
from masquerade_core.crypto.pair_keys import End, derive, public_of
from masquerade_core.crypto.shamir import SHARE_BYTES, deal, join_shares, read_share
from masquerade_core.errors import LocalProtocolError, ProtocolViolation, RunFailed, SumRefused
from masquerade_core.neighbours import circle_of
from masquerade_core.seat import Seat
from masquerade_core.study import CHARLIE, Study
from masquerade_core.thresholds import Thresholds, thresholds
from masquerade_core.wire.codec import Message
from masquerade_core.words import counted
from masquerade_protocols.blocks.layouts import Again, Layout, Round, Vector, as_words, check_round, receipt
from masquerade_protocols.blocks.masked_sum import GroupKey, Summed, left_out, unfit

__all__ = [
    "KEY_BYTES",
    "VOUCH_BYTES",
    "Asked",
    "DealtKeys",
    "DoubleCharlieSums",
    "DoublePartySums",
    "DoublyMasked",
    "HeldKeys",
    "Members",
    "Opening",
    "Revealed",
    "Ring",
    "Vouched",
    "box_bytes",
    "check_set",
    "doubly_masked_digest",
    "has_double_masks",
    "open_box",
    "pack_set",
    "pair_mask",
    "read_set",
    "seal_box",
    "split",
    "thresholds_of",
    "vouch",
]


# --- Double messages -------------------------------------------------------------

KEY_BYTES = 32
VOUCH_BYTES = 16
_TAG_BYTES = 16
_NONCE = bytes(12)  # the key of a box serves for this box alone

_Bytes32 = Annotated[bytes, Field(min_length=32, max_length=32)]


class DealtKeys(Message):
    """P_j to Charlie, once a run: its first one-time key, and for each neighbour a box with a share of its secret."""

    key: _Bytes32
    boxes: bytes


class HeldKeys(Message):
    """Charlie to P_j, once a run: its neighbours' keys, and their boxes for it."""

    keys: bytes
    boxes: bytes


class DoublyMasked(Message):
    """P_j to Charlie: words and check value under two masks, its next key, a box for each neighbour that takes part."""

    round: Round
    label: _Bytes32
    words: bytes
    check: bytes
    key: _Bytes32
    boxes: bytes


class Asked(Message):
    """Charlie to each of the committee: the set whose sum shall be opened."""

    round: Round
    members: bytes


class Vouched(Message):
    """One of the committee to Charlie: for each party of the set a proof that this one named no other set."""

    round: Round
    proofs: bytes


class Opening(Message):
    """Charlie to each of the set: the set, the proofs of a quorum of the committee, the neighbours' keys and boxes."""

    round: Round
    members: bytes
    vouching: bytes
    proofs: bytes
    keys: bytes
    boxes: bytes


class Revealed(Message):
    """P_j to Charlie: of each neighbour one share, of its own mask if it is in the set, else of its one-time key."""

    round: Round
    shares: bytes


def box_bytes(shares: int) -> int:
    """Return how long a box with so many shares is."""
    return shares * SHARE_BYTES + _TAG_BYTES


def seal_box(key: bytes, public: bytes, shares: bytes) -> bytes:
    """Seal shares for a neighbour, together with a one-time key that travels beside the box.

    Parameters
    ----------
    key : bytes
        Of this round, the two parties and this direction. It serves for this box alone.
    public : bytes
        The key, which anybody may see and nobody can change.
    shares : bytes
    """
    return bytes(crypto_aead_chacha20poly1305_ietf_encrypt(shares, public, _NONCE, key))


def open_box(key: bytes, sender: str, public: bytes, box: bytes) -> bytes:
    """Open a box that Charlie relayed as ``sender``'s of this round, with the key ``public`` beside it.

    Raises
    ------
    ProtocolViolation
        The box does not open. It bears no signature, so ``sender`` and Charlie are both suspects.
    """
    try:
        return bytes(crypto_aead_chacha20poly1305_ietf_decrypt(box, public, _NONCE, key))
    except (CryptoError, ValueError, TypeError) as error:
        raise ProtocolViolation(
            f"a box that came in the name of {sender} in this round does not open: either {sender} sealed it wrongly, "
            "or Charlie, who relayed it, changed it; nobody can tell which of the two",
            suspects=(sender, CHARLIE),
        ) from error


def vouch(key: bytes, label: bytes, members: bytes) -> bytes:
    """Return the proof, for one other party, that this set was named in the round of ``label``.

    ``key`` is of the two parties and this direction. So it is another proof than the other party's own.
    """
    return tagged_hash("double masks set", label, members, key=key, size=VOUCH_BYTES)


def split(raw: bytes, width: int, count: int, peer: str, what: str) -> Sequence[bytes]:
    """Take ``count`` pieces of ``width`` bytes apart that came from ``peer``.

    Raises
    ------
    ProtocolViolation
        The fault of ``peer``: another number of bytes.
    """
    if len(raw) != width * count:
        raise ProtocolViolation(
            f"{peer} sent {counted(len(raw), 'byte')} of {what}, but {width * count} are due, {width} for each of "
            f"{count}",
            peer=peer,
        )
    return [raw[i : i + width] for i in range(0, len(raw), width)]


# --- Double sets -----------------------------------------------------------------

Members = NDArray[np.bool_]
"""A set of parties: for each party of the roster whether it is in the set."""


def has_double_masks(study: Study) -> bool:
    """Whether a study's sums are made under double masks."""
    return study.dropouts is not None and study.dropouts.method == "double-masks"


def thresholds_of(study: Study) -> Thresholds:
    """Return how many neighbours hold shares in this study, and how many open them."""
    found = thresholds(study.K, study.privacy.colluders, study.K - study.survivors)
    if found is None:
        raise LocalProtocolError("a study has too few min_survivors for double masks; its check should have refused it")
    return found


@dataclass(frozen=True)
class Ring:
    """The parties on the coin's circle, and who stands near whom.

    Parameters
    ----------
    coin : bytes
        The run's; nobody knows it before the roster is complete.
    count : int
        K.
    sizes : Thresholds
    """

    coin: bytes
    count: int
    sizes: Thresholds

    @property
    def complete(self) -> bool:
        """Whether everybody is everybody's neighbour."""
        return self.count <= self.sizes.neighbours + 1

    @cached_property
    def order(self) -> NDArray[np.intp]:
        """Which party stands at each place of the circle."""
        return circle_of(self.coin, self.count)

    @cached_property
    def _place(self) -> NDArray[np.intp]:
        place = np.empty(self.count, dtype=np.intp)
        place[self.order] = np.arange(self.count)
        return place

    def neighbours(self, party: int) -> tuple[int, ...]:
        """Return a party's neighbours in roster order. Share x of its secrets is for the x-th, counted from 1."""
        if self.complete:
            return tuple(i for i in range(self.count) if i != party)
        here, half = int(self._place[party]), self.sizes.neighbours // 2
        steps = np.r_[here - half : here, here + 1 : here + half + 1]
        return tuple(np.sort(self.order[steps % self.count]).tolist())

    @cached_property
    def committee(self) -> tuple[int, ...]:
        """Those who answer for the set of a round, in roster order."""
        return tuple(sorted(self.order[: self.sizes.committee].tolist()))

    def near(self, members: Members) -> NDArray[np.int64]:
        """Return how many neighbours in ``members`` each party has. The time grows with K alone, not with k."""
        if self.complete:
            return np.int64(members.sum()) - members.astype(np.int64)
        half = self.sizes.neighbours // 2
        here = members[self.order].astype(np.int64)
        sums = np.r_[0, np.cumsum(np.r_[here[-half:], here, here[:half]])]
        near = np.empty(self.count, dtype=np.int64)
        near[self.order] = sums[2 * half + 1 :] - sums[: -2 * half - 1] - here
        return near


def pack_set(members: Members) -> bytes:
    """Return a set as bits, the first party's in the lowest bit of the first byte."""
    return np.packbits(members, bitorder="little").tobytes()


def read_set(raw: bytes, count: int, peer: str) -> Members:
    """Read a set of ``count`` parties that came from ``peer``.

    Raises
    ------
    ProtocolViolation
        The fault of ``peer``: another number of bytes, or a bit for a party that does not exist.
    """
    bits = np.unpackbits(np.frombuffer(raw, dtype=np.uint8), bitorder="little")
    if len(raw) != (count + 7) // 8 or bits[count:].any():
        raise ProtocolViolation(f"{peer} sent a set of parties that is not one bit for each of {count}", peer=peer)
    return bits[:count].astype(np.bool_)


def check_set(ring: Ring, fewest: int, before: Members, named: Members, me: int, *, exact: bool) -> None:
    """Check that the shares of a round may be shown for this set; every honest party does, and the committee first.

    Parameters
    ----------
    ring : Ring
    fewest : int
        s, the study's ``min_survivors``.
    before : ndarray of bool
        The set of the round before.
    named : ndarray of bool
        The set that Charlie names: those whose contributions are in the sum.
    me : int
        Who checks.
    exact : bool
        Whether the sum carries no noise. Then it loses nobody: two such sums show what is between their sets.

    Raises
    ------
    ProtocolViolation
        Charlie's fault: he names somebody who was out already, or too few parties, or a party so few of whose
        neighbours are in the set that its contribution could be told from the others'. Or he leaves somebody out of a
        sum without noise.
    RunFailed
        The run goes on without this party.
    """
    _check_known(before, named)
    if exact:
        _check_whole(before, named)
    _check_enough(fewest, named)
    _check_surrounded(ring, named)
    if not named[me]:
        raise left_out()


def _check_known(before: Members, named: Members) -> None:
    if (named & ~before).any():
        raise ProtocolViolation("Charlie names a party for a sum that is no longer in the run", peer=CHARLIE)


def _check_whole(before: Members, named: Members) -> None:
    if (lost := int((before & ~named).sum())) > 0:
        raise ProtocolViolation(
            f"Charlie leaves {counted(lost, 'party', 'parties')} out of a sum without noise, which needs every party: "
            "with a second such sum he would learn what they contributed",
            peer=CHARLIE,
        )


def _check_enough(fewest: int, named: Members) -> None:
    if (count := int(named.sum())) < fewest:
        raise ProtocolViolation(
            f"Charlie names {counted(count, 'party', 'parties')} for a sum; the study's min_survivors allows "
            f"{fewest} or more",
            peer=CHARLIE,
        )


def _check_surrounded(ring: Ring, named: Members) -> None:
    least = int(ring.near(named)[named].min())
    if least < ring.sizes.threshold:
        raise ProtocolViolation(
            f"Charlie names a set in which a party has {counted(least, 'neighbour')}; {ring.sizes.threshold} or more "
            "are needed, so that its contribution cannot be told from the others'",
            peer=CHARLIE,
        )


# --- Double masks ----------------------------------------------------------------

_SHARES = "boxes with shares"


def pair_mask(run: bytes, label: bytes, secret: bytes, ends: tuple[End, End], peer: End) -> bytes:
    """Return the key of the mask that the holders of two one-time keys share in the round of ``label``.

    Parameters
    ----------
    run, label : bytes
    secret : bytes
        One of the two one-time keys.
    ends : pair of End
        Both parties in the roster's order, each with its public one-time key.
    peer : End
        The one of them that holds the other key.

    Raises
    ------
    ProtocolViolation
        The fault of ``peer``, who dealt this public key: it is one with which no secret can be shared.
    """
    try:
        return derive(run, secret, peer.public, "one-time masks", ends, context=label)
    except (CryptoError, ValueError, TypeError) as error:
        raise ProtocolViolation(
            f"{peer.name} dealt a one-time key that is not a usable X25519 key", peer=peer.name
        ) from error


@dataclass
class _Held:
    """A party's shares of its neighbours for one round, by their numbers, and its own one-time key."""

    secret: bytes = field(repr=False)
    public: bytes = field(init=False)
    keys: dict[int, bytes] = field(default_factory=dict, repr=False)
    shares: dict[int, bytes] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        """Compute the public half of the own key."""
        self.public = public_of(self.secret)


@dataclass
class DoublePartySums:
    """A party's side of the sums under double masks of one run; made by :meth:`set_up`.

    Parameters
    ----------
    seat, study : Seat, Study
    ring : Ring
        Who stands near whom.
    kappa : bytes
        The parties' key for check values.
    held_back : int
        N', the opened number of the records that are held back for an evaluation; 0 where none are.
    """

    seat: Seat
    study: Study
    ring: Ring
    kappa: bytes = field(repr=False)
    _chain: bytes
    _held: _Held = field(repr=False)
    _round: int = 0
    held_back: int = 0

    def __post_init__(self) -> None:
        """Begin with all parties."""
        self._me = self.study.names.index(self.seat.me)
        self._near = self.ring.neighbours(self._me)
        self._members: Members = np.ones(self.study.K, dtype=np.bool_)

    @classmethod
    async def set_up(cls, seat: Seat, study: Study) -> "DoublePartySums":
        """Take kappa from the roster's first party, and exchange the keys of the first round with all neighbours."""
        roster, names = seat.roster_hash(), study.names
        if seat.me == names[0]:
            kappa = await seat.once("key of the check values", lambda rng: rng.bytes(32))
            await seat.send_sealed(GroupKey(kappa=kappa))
        else:
            kappa = (await seat.receive(GroupKey, names[0])).kappa
        ring = Ring(roster, study.K, thresholds_of(study))
        first = await seat.once("first one-time key", lambda rng: rng.bytes(64))
        sums = cls(seat, study, ring, kappa, roster, _Held(first[:32]))
        await sums._exchange_first(first[32:])
        return sums

    async def _exchange_first(self, coefficients: bytes) -> None:
        dealt = deal(self._held.secret, self.ring.sizes.threshold, len(self._near), coefficients)
        public = self._held.public
        boxes = (
            seal_box(self._key_to(i, self._chain), public, share) for i, share in zip(self._near, dealt, strict=True)
        )
        await self.seat.send(CHARLIE, DealtKeys(key=public, boxes=b"".join(boxes)))
        got = await self.seat.receive(HeldKeys, CHARLIE)
        for i, key, share in self._received(got, self._near, 1, self._chain):
            self._held.keys[i], self._held.shares[i] = key, share

    def _received(
        self, got: HeldKeys | Opening, senders: Sequence[int], shares: int, label: bytes
    ) -> Iterator[tuple[int, bytes, bytes]]:
        """Open the boxes of these neighbours; yields each one's number, its key and its shares."""
        keys = split(got.keys, KEY_BYTES, len(senders), CHARLIE, "keys")
        boxes = split(got.boxes, box_bytes(shares), len(senders), CHARLIE, "boxes")
        for i, key, box in zip(senders, keys, boxes, strict=True):
            name = self.study.names[i]
            yield i, key, open_box(self.seat.pair_key(name, _SHARES, sender=name, context=label), name, key, box)

    def _key_to(self, i: int, label: bytes) -> bytes:
        """Return the key of the box for a neighbour in the round of ``label``."""
        return self.seat.pair_key(self.study.names[i], _SHARES, sender=self.seat.me, context=label)

    async def precompute(self, layouts: Sequence[Layout]) -> None:
        """Do nothing: masks need no obfuscators."""

    async def close(self) -> None:
        """Do nothing: every sum was checked when it was told."""

    async def open_sum(self, layout: Layout, vector: Vector, bound_to: bytes, again: Again | None = None) -> Vector:
        """Contribute ``vector`` and return the sum over all that did.

        Parameters
        ----------
        layout : Words
            From public numbers alone; the same at every participant.
        vector : ndarray or sequence of int
            Encoded and clipped; noise included.
        bound_to : bytes
            A hash of what the contributions of this round depend on, the same at every party.
        again : callable, optional
            Not called: no sum is made again. None for a sum without noise, which loses nobody.

        Raises
        ------
        SumRefused
            The sum is not that of one contribution of each party in the set.
        ProtocolViolation
            Charlie or another party is at fault.
        RunFailed
            The run goes on without this party.
        """
        words = as_words(layout)
        label, check_key = await self._contribute(words, vector, bound_to)
        await self._reveal(label, exact=again is None)
        told = await self.seat.receive(Summed, CHARLIE)
        check_round(told.round, self._round, CHARLIE, "added up")
        if (len(told.words), len(told.check)) != (words.total_bytes, words.check_bytes):
            raise ProtocolViolation("Charlie told a sum that does not have the round's length", peer=CHARLIE)
        count = int(self._members.sum())
        total = words.decode(words.read(told.words), count)
        due = (check_key.of(total) + count * check_key.constant) % words.prime
        if due != int.from_bytes(told.check, "little"):
            raise unfit("the sum alone does not show who changed it")
        self._go_on(label, told.words, told.check, told.receipt)
        return total

    async def contribute(self, layout: Layout, vector: Vector, bound_to: bytes) -> None:
        """Contribute ``vector`` to a sum that Charlie alone learns; the parameters are those of :meth:`open_sum`."""
        label, _ = await self._contribute(as_words(layout), vector, bound_to)
        await self._reveal(label, exact=True)
        self._go_on(label)

    def _go_on(self, label: bytes, *told: bytes) -> None:
        """Bind all that follows to what Charlie told in this round."""
        self._chain = tagged_hash("chain", label, pack_set(self._members), *told)
        self._round += 1

    async def _contribute(self, words: Words, vector: Vector, bound_to: bytes) -> tuple[bytes, CheckKey]:
        """Send this round's vector under both masks, with shares for all neighbours; return the label and check key."""
        numbers = (n.to_bytes(8, "big") for n in (self._round, words.length, words.bits))
        label = tagged_hash("double round", self._chain, *numbers, pack_set(self._members), bound_to)
        drawn = await self.seat.once(f"masks of round {self._round}", lambda rng: rng.bytes(128))
        seed, secret, *coefficients = (drawn[i : i + 32] for i in range(0, 128, 32))
        check_key = CheckKey(words, tagged_hash("check", label, key=self.kappa))
        near = [i for i in self._near if self._members[i]]
        streams = [(True, tagged_hash("own mask", label, key=seed))]
        streams += [(self._me < i, self._pair_mask(i, label)) for i in near]
        masked, hidden = words.masked(words.encode(vector), check_key.of(vector) + check_key.constant, streams)
        self._next = _Held(secret)
        public = self._next.public
        message = DoublyMasked(
            round=self._round,
            label=label,
            words=masked,
            check=hidden,
            key=public,
            boxes=self._boxes(label, public, (secret, seed), coefficients),
        )
        await self.seat.send(CHARLIE, message)
        return label, check_key

    def _pair_mask(self, i: int, label: bytes) -> bytes:
        mine, theirs = End(self.seat.me, self._held.public), End(self.study.names[i], self._held.keys[i])
        ends = (mine, theirs) if self._me < i else (theirs, mine)
        return pair_mask(self.seat.run, label, self._held.secret, ends, theirs)

    def _boxes(self, label: bytes, public: bytes, secrets: tuple[bytes, bytes], coefficients: Sequence[bytes]) -> bytes:
        """Seal for each neighbour that takes part its shares of the next one-time key's secret, and of b_j."""
        t, count = self.ring.sizes.threshold, len(self._near)
        rows = zip(
            self._near,
            deal(secrets[0], t, count, coefficients[0]),
            deal(secrets[1], t, count, coefficients[1]),
            strict=True,
        )
        return b"".join(
            seal_box(self._key_to(i, label), public, of_key + of_seed)
            for i, of_key, of_seed in rows
            if self._members[i]
        )

    async def _reveal(self, label: bytes, *, exact: bool) -> None:
        """Check whose sum Charlie wants to open, and show him the one share of each neighbour that this takes."""
        vouched = b""
        if self._me in self.ring.committee:
            vouched = await self._vouch(label, exact=exact)
        opening = await self.seat.receive(Opening, CHARLIE)
        check_round(opening.round, self._round, CHARLIE, "opened")
        named = self._checked(opening.members, exact=exact)
        self._check_vouched(label, opening, vouched)
        of_seeds = {}
        senders = [i for i in self._near if named[i]]
        for i, key, shares in self._received(opening, senders, 2, label):
            self._next.keys[i] = key
            self._next.shares[i], of_seeds[i] = shares[:SHARE_BYTES], shares[SHARE_BYTES:]
        # One of the two, never both.
        shown = [of_seeds[i] if named[i] else self._held.shares[i] for i in self._near if self._members[i]]
        await self.seat.send(CHARLIE, Revealed(round=self._round, shares=b"".join(shown)))
        self._held, self._members = self._next, named

    def _checked(self, members: bytes, *, exact: bool) -> Members:
        named = read_set(members, self.study.K, CHARLIE)
        check_set(self.ring, self.study.survivors, self._members, named, self._me, exact=exact)
        return named

    async def _vouch(self, label: bytes, *, exact: bool) -> bytes:
        """As one of the committee, tell every party of the set which set Charlie named; returns that set."""
        asked = await self.seat.receive(Asked, CHARLIE)
        check_round(asked.round, self._round, CHARLIE, "asked about")
        named = self._checked(asked.members, exact=exact)
        proofs = b"".join(
            bytes(VOUCH_BYTES) if i == self._me else self._vouch_for(i, self.seat.me, label, asked.members)
            for i in np.flatnonzero(named).tolist()
        )
        await self.seat.send(CHARLIE, Vouched(round=self._round, proofs=proofs))
        return asked.members

    def _vouch_for(self, i: int, sender: str, label: bytes, members: bytes) -> bytes:
        """Return the proof that ``sender``, this party or party ``i``, makes for the other of the two."""
        return vouch(self.seat.pair_key(self.study.names[i], "vouches", sender=sender), label, members)

    def _check_vouched(self, label: bytes, opening: Opening, vouched: bytes) -> None:
        """Check that a quorum of the committee named this set, oneself included if one did."""
        committee = self.ring.committee
        signers = [committee[i] for i in np.flatnonzero(read_set(opening.vouching, len(committee), CHARLIE))]
        proofs = split(opening.proofs, VOUCH_BYTES, len(signers), CHARLIE, "proofs")
        if len(signers) < self.ring.sizes.quorum or (self._me in signers and vouched != opening.members):
            raise ProtocolViolation(
                "Charlie wants to open the sum of a set of parties that a quorum of the committee did not name: "
                "another party may have been told another set",
                peer=CHARLIE,
            )
        for i, proof in zip(signers, proofs, strict=True):
            name = self.study.names[i]
            if i != self._me and proof != self._vouch_for(i, name, label, opening.members):
                raise ProtocolViolation(
                    f"{name} did not name the set of parties whose sum Charlie wants to open: either {name} sent a "
                    "wrong proof, or Charlie told others another set; nobody can tell which of the two",
                    suspects=(name, CHARLIE),
                )


# --- Double charlie --------------------------------------------------------------

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

    async def open_sum(self, layout: Layout, *, again: bool = False) -> Vector:
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

    async def aggregate(self, layout: Layout) -> Vector:
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
                "contributions were made for different views of the run: parties were told different things before",
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
                    f"{names[i]} sent a contribution that does not have the round's length", peer=names[i]
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
                f"requires {self.study.survivors}",
                "start a new run when all parties can take part",
            )
        if int(self.ring.near(self._members)[self._members].min()) < self.ring.sizes.threshold:
            raise RunFailed(
                f"of a party's {self.ring.sizes.neighbours} neighbours, fewer than {self.ring.sizes.threshold} still "
                "answer, so its contribution could be told from the others'",
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
