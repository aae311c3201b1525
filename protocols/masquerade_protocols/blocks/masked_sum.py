"""The secure sum by masks: Charlie adds words that he cannot read, and tells everybody the sum.

There is no lead, no key that opens anything, and one round trip for a sum. For K parties and d coordinates in words of
32 or 64 bits, in round t::

    party P_j                                        Charlie
      | k_ij from both keys and names; kappa from P_1  |
      |   L = H(chain, t, U, layout, bound_to)         |
      |   m_ij = stream(BLAKE2b(k_ij, L))              |
      |------ Masked: (marks, x_j) + sum_i +-m_ij, --->|   4 d + 8 or 8 d + 8 bytes
      |         check value + sum_i +-g_ij mod p       |   16 bytes
      |                                                | adds words, and check values; K marks?
      |<----- Summed: the sum, its check, a receipt ---|   as much, and 32 bytes
      | K marks? within bounds? does the check fit?    |
      |   chain = H(L, Summed)                         |

*Masks.* Each pair of neighbours masks its two contributions with a stream that cancels in the sum and nowhere else. So
Charlie learns the sum, and with K - 2 parties on his side the sum of the other two. Nobody has anything to open, so
nobody can be made to open another number.

*Names.* A pair's key depends on both names beside both box keys (:mod:`masquerade_core.crypto.pair_keys`). Otherwise a
party that announces another's box key would make masks of honest parties cancel: whoever stands between the two in the
roster would add and subtract one stream.

*Neighbours.* Up to 65 parties, all are neighbours. Above, each has 64, whom a public coin draws from all parties: a
party's work then does not grow with K. The coin is the hash of the roster, into which everybody's fresh key and nonce
go. The masks hide all but the sum as long as the parties that do not side with Charlie are connected by neighbours.
Fewer than 64 colluders never cut them apart. More of them do so with a chance of 2^-40 at most, up to 368 of 1,000
parties and 6,333 of 20,000, even if they try 2^40 coins. :mod:`masquerade_core.neighbours` has the proof, and
:mod:`masquerade_protocols.neighbouring` makes that chance a part of delta, or refuses the study.

Where sums are made again, Charlie names who remains. With one graph for all sets he could name those of whom an honest
party's neighbours all side with him. So every set has a graph of its own, drawn from the coin and the set.

*The check value* is a linear function of the sum under kappa, a key that all parties share and Charlie lacks
(:mod:`masquerade_core.crypto.masks`). If Charlie alone changes a sum, it passes with a chance of 2^-126 at most. A
party knows kappa; Charlie with a party can make all accept another sum. So can a party alone in every secure sum, since
it chooses its own vector. What they cannot do is tell two parties two different sums: ``chain`` is a hash of all that
was told so far, it stands in every label, and masks of different labels do not cancel. For the last sum, everybody
compares digests of all that Charlie told when the run closes (:mod:`masquerade_host`).

*Every label serves once.* Box keys are drawn anew by every process, so a restarted party has other masks. Within a run
the round only grows, and a party makes one contribution for each.

*Lost parties.* U are those who take part. Where the study has ``[dropouts]``, Charlie tells an ``Outcome`` instead of
``Summed``: the sum and the next U, or that the sum is made again by some of U. A sum that is made again is a round of
its own: its number, its label and its noise are new. :mod:`~masquerade_protocols.blocks.survivors` has the rules.

*The receipt*, which Charlie signs, is a hash over all contributions. Once a check has failed, ``blame`` says what these
prove (:mod:`~masquerade_protocols.blocks.masked_messages`).

Where Charlie alone may learn the sum, he adds and tells nobody: half a round trip. Nobody else could be deceived, so
the check value is sent and not used.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from masquerade_core.crypto.masks import CheckKey, Words, tagged_hash
from masquerade_core.errors import ProtocolViolation, SumRefused
from masquerade_core.neighbours import coin_of_set, neighbours_of
from masquerade_core.seat import Seat
from masquerade_core.study import CHARLIE, Study
from masquerade_protocols.blocks.layouts import Again, Layout, Vector, as_words
from masquerade_protocols.blocks.masked_messages import GroupKey, Masked, Summed, check_lengths, fits, summed
from masquerade_protocols.blocks.sum_messages import check_round
from masquerade_protocols.blocks.survivors import Outcome, Survivors

__all__ = ["MaskedCharlieSums", "MaskedPartySums"]

# --- The parties ------------------------------------------------------------------


@dataclass
class MaskedPartySums:
    """A party's side of the masked sums of one run; made by :meth:`set_up`.

    Parameters
    ----------
    seat, study : Seat, Study
    pair_keys : dict of str to (bool, bytes)
        For each neighbour so far: whether this party adds the mask (otherwise it subtracts it), and the common key.
    kappa : bytes
        The parties' key for check values.
    held_back : int
        N', the opened number of the records that are held back for an evaluation; 0 where none are.
    """

    seat: Seat
    study: Study
    pair_keys: dict[str, tuple[bool, bytes]] = field(repr=False)
    kappa: bytes = field(repr=False)
    _chain: bytes
    _survivors: Survivors
    _coin: bytes = b""
    _near: tuple[str, ...] = ()
    _round: int = 0
    held_back: int = 0

    @classmethod
    async def set_up(cls, seat: Seat, study: Study) -> "MaskedPartySums":
        """Derive the pairs' keys from the box keys of this run, and take kappa from the roster's first party."""
        first = study.names[0]
        if seat.me == first:
            kappa = await seat.once("key of the check values", lambda rng: rng.bytes(32))
            if study.K > 1:
                await seat.send_sealed(GroupKey(kappa=kappa))
        else:
            kappa = (await seat.receive(GroupKey, first)).kappa
        roster = seat.roster_hash()
        sums = cls(seat, study, {}, kappa, roster, Survivors.of(study), roster)
        sums._meet()
        return sums

    def _meet(self) -> None:
        """Find the neighbours among those who take part, and derive the keys that are not there yet."""
        members, me = self._survivors.members, self.seat.me
        # With one graph for all sets, Charlie could choose a set in which all of a party's neighbours side with him.
        coin = self._coin if self.study.dropouts is None else coin_of_set(self._coin, members)
        self._near = neighbours_of(coin, members, me)
        place = self.study.place_of
        for peer in self._near:
            if peer not in self.pair_keys:
                key = self.seat.pair_key(peer, "masks")  # nobody has one with a stranger
                self.pair_keys[peer] = (place[me] < place[peer], key)

    async def precompute(self, layouts: Sequence[Layout]) -> None:
        """Do nothing: masks need no obfuscators."""

    async def close(self) -> None:
        """Do nothing: every sum was checked when it was told."""

    async def open_sum(
        self, layout: Layout, vector: Vector, bound_to: bytes, again: Again | None = None
    ) -> tuple[int, ...]:
        """Contribute ``vector`` and return the sum of everybody's.

        Parameters
        ----------
        layout : Words
            From public numbers alone; the same at every participant.
        vector : ndarray or sequence of int
            Encoded and clipped; noise included.
        bound_to : bytes
            A hash of what the contributions of this round depend on. It must be the same at every party; otherwise the
            masks do not cancel.
        again : callable, optional
            Returns the vector with noise that never served, for a sum that is made again without a silent party. None
            where there is no such noise: then a sum is made once, or the run ends.

        Raises
        ------
        SumRefused
            The sum is not that of one contribution of each party. Nobody can tell who is at fault, before Charlie shows
            the contributions (:func:`~masquerade_protocols.blocks.masked_messages.blame`).
        ProtocolViolation
            Charlie is at fault.
        """
        words = as_words(layout)
        label, check_key = await self._send(words, vector, bound_to)
        told = await self._told()
        while isinstance(told, Outcome) and told.again:
            if again is None:
                raise ProtocolViolation("Charlie asks for a sum to be made again that has no fresh noise", peer=CHARLIE)
            self._go_on(told, "again", label)
            label, check_key = await self._send(words, await again(), bound_to)
            told = await self._told()
        check_lengths(words, told, CHARLIE)
        total = words.decode(words.read(told.words), len(self._survivors.members))
        if not check_key.fits(total, told.check):
            raise SumRefused(
                "the sum that Charlie told does not fit its check value: he told another sum, or a party's "
                "contribution was not well made",
                "start a new run; the contributions that Charlie keeps show whether it was he",
            )
        self._go_on(told, "chain", label)
        return total

    async def _told(self) -> Summed | Outcome:
        kind: type[Summed | Outcome] = Summed if self.study.dropouts is None else Outcome
        told = await self.seat.receive(kind, CHARLIE)
        check_round(told.round, self._round, CHARLIE, "added up")
        return told

    def _go_on(self, told: Summed | Outcome, tag: str, label: bytes) -> None:
        """Bind all that follows to what Charlie told in this round, and to those who go on."""
        if isinstance(told, Outcome):
            before, self._survivors = self._survivors, self._survivors.after(told, self.seat.me)
            if self._survivors.members != before.members:
                self._meet()
        self._chain = tagged_hash(tag, label, told.words, told.check, told.receipt, self._survivors.digest)
        self._round += 1

    async def contribute(self, layout: Layout, vector: Vector, bound_to: bytes) -> None:
        """Contribute ``vector`` to a sum that Charlie alone learns; the parameters are those of :meth:`open_sum`."""
        label, _ = await self._send(as_words(layout), vector, bound_to)
        self._chain = tagged_hash("chain", label)
        self._round += 1

    async def _send(self, words: Words, vector: Vector, bound_to: bytes) -> tuple[bytes, CheckKey]:
        """Send this round's vector under masks; return the round's label and its check key."""
        numbers = (self._round, words.length, words.bits)
        parts = (*(n.to_bytes(8, "big") for n in numbers), self._survivors.digest, bound_to)
        label = tagged_hash("round", self._chain, *parts)
        check_key = CheckKey(words, tagged_hash("check", label, key=self.kappa))
        check = check_key.of(vector)
        if self.seat.me == self._survivors.members[0]:
            check += check_key.constant
        keys = (self.pair_keys[name] for name in self._near)
        streams = [(adds, tagged_hash("mask", label, key=key)) for adds, key in keys]
        masked, hidden = words.masked(words.encode(vector), check, streams)
        await self.seat.send(CHARLIE, Masked(round=self._round, words=masked, check=hidden))
        return label, check_key


# --- Charlie ------------------------------------------------------------------------


@dataclass
class MaskedCharlieSums:
    """Charlie's side of the masked sums of one run. Its fields are those of :class:`MaskedPartySums`."""

    seat: Seat
    study: Study
    _round: int = 0
    held_back: int = 0

    def __post_init__(self) -> None:
        """Begin with all parties."""
        self._survivors = Survivors.of(self.study)

    async def open_sum(self, layout: Layout, *, again: bool = False) -> tuple[int, ...]:
        """Add everybody's contributions, and tell everybody the sum; returns it.

        Parameters
        ----------
        layout : Words
        again : bool
            Whether parties have fresh noise, so that the sum can be made again without those who fall silent.

        Raises
        ------
        ProtocolViolation
            A party is at fault; the error names it.
        SumRefused
            Masks did not cancel; or too few parties are left, or no retry.
        """
        words = as_words(layout)
        contributions = await self._contributions(words, again=again)
        told = summed(self._round, words, contributions)
        sums = words.decode(words.read(told.words), len(contributions))
        if self.study.dropouts is None:
            await self.seat.broadcast(told)
        else:
            await self.seat.broadcast(Outcome(**told.model_dump(), members=self._survivors.members))
        self._round += 1
        return sums

    async def _contributions(self, words: Words, *, again: bool) -> dict[str, Masked]:
        """Return this round's contributions of all who take part; where some are silent, ask the others again."""
        dropouts = self.study.dropouts
        if dropouts is None or not again:
            return await self._gather(words)
        while True:
            members, due = self._survivors.members, self._round
            answers = await self.seat.gather_within(Masked, members, dropouts.patience_seconds)
            made = {name: m for name, m in answers.items() if m.round == due and fits(words, m)}
            if not (silent := [name for name in members if name not in made]):
                return made
            self._survivors = self._survivors.without(silent)
            await self.seat.broadcast(Outcome.to_make_again(self._round, self._survivors))
            self._round += 1

    async def aggregate(self, layout: Layout) -> tuple[int, ...]:
        """Add everybody's contributions, and tell nobody; Charlie alone learns the sum.

        Raises
        ------
        ProtocolViolation
            A party is at fault; the error names it.
        SumRefused
            Masks did not cancel.
        """
        words = as_words(layout)
        contributions = await self._gather(words)
        self._round += 1
        return words.decode(words.add(words.read(m.words) for m in contributions.values()), len(contributions))

    async def close(self) -> None:
        """Do nothing: every party has checked every sum."""

    async def _gather(self, words: Words) -> dict[str, Masked]:
        contributions = await self.seat.gather(Masked, self._survivors.members)
        for name, message in contributions.items():
            check_round(message.round, self._round, name, "contributed to")
            check_lengths(words, message, name)
        return contributions
