"""Masked sums that go on without flaky parties: double masks, with shares among neighbours; a party's side.

The scheme is that of Bonawitz et al. (CCS 2017) on the graph of Bell et al. (CCS 2020), where it is called SecAgg+. A
contribution is under two masks. The *pairs' masks* cancel in the sum, as in
:mod:`~masquerade_protocols.blocks.masked_sum`. The *own mask* follows from a seed b_j that its party alone knows at
first. Neighbours hold shares of b_j, and of the one-time key sk_j from which the pairs' masks follow. Any t shares open
one. For K parties, k neighbours each, and a committee (:mod:`masquerade_core.thresholds`), in round t::

    party P_j                                             Charlie
      | once: DealtKeys: pk_j^0, and in boxes for the       |
      |       neighbours shares of sk_j^0                   |   HeldKeys to each
      | 1. y_j = x_j + G(b_j) + sum_i +-G(k_ij^t)           |
      |------ DoublyMasked: y_j, check value, pk_j^(t+1); ->|   4 d + 8 bytes, and 82 for each neighbour
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
3. 4. :func:`~masquerade_protocols.blocks.double_sets.check_set` has the rules for U. Charlie alone says who is silent,
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
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from nacl.exceptions import CryptoError

from masquerade_core.crypto.masks import CheckKey, Words, tagged_hash
from masquerade_core.crypto.pair_keys import End, derive, public_of
from masquerade_core.crypto.shamir import SHARE_BYTES, deal
from masquerade_core.errors import ProtocolViolation, SumRefused
from masquerade_core.seat import Seat
from masquerade_core.study import CHARLIE, Study
from masquerade_protocols.blocks.double_messages import (
    KEY_BYTES,
    VOUCH_BYTES,
    Asked,
    DealtKeys,
    DoublyMasked,
    HeldKeys,
    Opening,
    Revealed,
    Vouched,
    box_bytes,
    open_box,
    seal_box,
    split,
    vouch,
)
from masquerade_protocols.blocks.double_sets import Members, Ring, check_set, pack_set, read_set, thresholds_of
from masquerade_protocols.blocks.layouts import Again, Layout, Vector, as_words, check_round
from masquerade_protocols.blocks.masked_sum import GroupKey, Summed

__all__ = ["DoublePartySums", "pair_mask"]

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

    async def open_sum(
        self, layout: Layout, vector: Vector, bound_to: bytes, again: Again | None = None
    ) -> tuple[int, ...]:
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
            raise ProtocolViolation("Charlie told a sum of another length than the round's", peer=CHARLIE)
        count = int(self._members.sum())
        total = words.decode(words.read(told.words), count)
        due = (check_key.of(total) + count * check_key.constant) % words.prime
        if due != int.from_bytes(told.check, "little"):
            raise SumRefused(
                "the sum that Charlie told does not fit its check value: he told another sum, or a party's "
                "contribution was not well made",
                "start a new run; the sum alone does not show who changed it",
            )
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
                    "wrong proof, or Charlie told others another set; which of the two cannot be told",
                    suspects=(name, CHARLIE),
                )
