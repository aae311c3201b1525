"""The secure sum by masks: Charlie adds words that he cannot read, and tells everybody the sum.

There is no lead, no key that opens anything, and one round trip for a sum. For K parties and d coordinates in words of
w bytes, as many as the sum's public bound needs, in round t::

    party P_j                                        Charlie
      | k_ij from both keys and names; kappa from P_1  |
      |   L = H(chain, t, U, layout, bound_to)         |
      |   m_ij = stream(BLAKE2b(k_ij, L))              |
      |------ Masked: (marks, x_j) + sum_i +-m_ij, --->|   w d bytes, and 8 to 14 for the marks
      |         check value + sum_i +-g_ij mod p       |   16 bytes
      |                                                | adds words, and check values; K marks?
      |<----- Summed: the sum, its check, a receipt ---|   as much, and 32 bytes
      | K marks? within bounds? does the check fit?    |
      |   chain = H(L, Summed)                         |

*Masks.* Each pair of neighbours masks its two contributions with a stream that cancels in the sum and nowhere else. So
Charlie learns the sum, and with K - 2 parties on his side the sum of the other two. Nobody has anything to open, so
nobody can be made to open another number.

*Names.* A pair's key depends on both names beside both box keys (:mod:`masquerade_core.crypto.pair_keys`). Otherwise a
party that announces another's box key would make masks of honest parties cancel: a participant between the two in the
roster would add and subtract one stream.

*Neighbours.* Up to 65 parties, all are neighbours. Above, each has 64, whom a public coin draws from all parties: a
party's work then does not grow with K. The coin is the hash of the roster, into which everybody's fresh key and nonce
go. The masks hide all but the sum as long as the parties that do not side with Charlie are connected by neighbours.
Fewer than 64 colluders never cut them apart. More of them do so with a chance of 2^-40 at most, up to 368 of 1,000
parties and 6,333 of 20,000, even if they try 2^40 coins. :mod:`masquerade_core.cuts` has the proof, and
:mod:`masquerade_protocols.variants` makes that chance a part of delta, or refuses the study.

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
its own: its number, its label and its noise are new.

*The receipt*, which Charlie signs, is a hash over all contributions. Once a check has failed, ``blame`` says what these
prove.

Where Charlie alone may learn the sum, he adds and tells nobody: half a round trip. Nobody else could be deceived, so
the check value is sent and not used.

*Who may be left out.* Whether a silent party is really silent, nobody but Charlie can tell. He may hold all
contributions and claim that party i is gone. Then he has a sum over U and one over U without i. Three things make the
lie worth no more than what it costs:

* *Fresh noise.* A contribution that is made again carries noise that never served. So the difference of both sums is
  that of two releases, and not one party's vector under one share of noise.
* *A price that is paid.* The noise of a run is sized for R more sums than it needs, all of the dearest kind.
* *Rules.* Every honest party keeps those of :meth:`Survivors.after`. They need nobody's agreement on who is gone.

Parties that were told different sets made different labels, so their masks do not cancel. A sum opens over one set that
all its members saw, with at least ``min_survivors`` of them.

A lost party stays out. N, the number of all records, is not counted again: two exact counts would show the size of
the party that left. So a sum over those who remain is read as if the others' records had contributed zeros.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated, Protocol

from pydantic import Field

from masquerade_core.crypto.masks import CheckKey, Words, tagged_hash
from masquerade_core.errors import ProtocolViolation, RunFailed, SumRefused
from masquerade_core.neighbours import coin_of_set, neighbours_of
from masquerade_core.seat import Seat
from masquerade_core.study import CHARLIE, Study
from masquerade_core.wire.codec import Broadcast, Message, Name, SealedMessage
from masquerade_core.words import counted, listed
from masquerade_protocols.blocks.layouts import (
    Again,
    Layout,
    ReceiptHash,
    Round,
    Vector,
    as_words,
    check_round,
    receipt,
)

__all__ = [
    "Addends",
    "GroupKey",
    "Masked",
    "MaskedCharlieSums",
    "MaskedPartySums",
    "Outcome",
    "Summed",
    "Survivors",
    "blame",
    "check_lengths",
    "fits",
    "left_out",
    "masked_digest",
    "summed",
    "unfit",
    "whose_noise",
]

_Bytes32 = Annotated[bytes, Field(min_length=32, max_length=32)]


# --- The messages -----------------------------------------------------------------


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
    receipt: ReceiptHash


class Outcome(Broadcast):
    """Charlie to all, where the study has ``[dropouts]``: a sum, or that it is made again.

    ``members`` are those who take part in what comes next. Where a sum is made again, the other fields are empty.
    """

    round: Round
    words: bytes
    check: bytes
    receipt: bytes
    members: tuple[Name, ...]

    @classmethod
    def to_make_again(cls, round_: int, left: "Survivors") -> "Outcome":
        """Return Charlie's request for new contributions from those who are left."""
        return cls(round=round_, words=b"", check=b"", receipt=b"", members=left.members)

    @property
    def again(self) -> bool:
        """Whether the sum is made again, by ``members`` alone."""
        return not self.words


# --- Contributions and their sum ----------------------------------------------------


class Addends(Protocol):
    """Words and a check value: a contribution, or a sum of some."""

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
            f"{peer} sent {counted(len(message.words), 'byte')} of words and {len(message.check)} of a check value, "
            f"but {layout.total_bytes} and {layout.check_bytes} are due",
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


def unfit(hint: str) -> SumRefused:
    """Return the error of a party for a sum that does not fit its check value; ``hint`` says who can find out why."""
    return SumRefused(
        "the sum that Charlie told does not fit its check value: he told another sum, or a party's contribution was "
        "not well made",
        f"start a new run; {hint}",
    )


# --- Who takes part -----------------------------------------------------------------


def whose_noise(study: Study) -> str:
    """Return whose noise a sum carries: what follows "the noise of"."""
    if study.dropouts is None:
        return f"all {study.K} parties"
    return f"{study.survivors} of the {study.K} parties at least"


@dataclass(frozen=True)
class Survivors:
    """Those who take part, as one participant sees it.

    Parameters
    ----------
    members : tuple of str
        U, in roster order.
    fewest : int
        s, how many there must be.
    retries : int
        How many sums may still be made again.
    """

    members: tuple[str, ...]
    fewest: int
    retries: int

    @classmethod
    def of(cls, study: Study) -> "Survivors":
        """Return how a run begins: with all parties."""
        return cls(study.names, study.survivors, study.retries)

    @cached_property
    def digest(self) -> bytes:
        """A hash of the members; it is made once for a set, since every label has it. Names hold no spaces."""
        return tagged_hash("members", " ".join(self.members).encode())

    def after(self, outcome: Outcome, me: str) -> "Survivors":
        """Return who takes part after what Charlie told, once the rules are checked.

        Parameters
        ----------
        outcome : Outcome
        me : str
            The party that checks.

        Raises
        ------
        ProtocolViolation
            Charlie's fault: he names somebody who did not take part before, or names a party twice, or names fewer than
            the study's ``min_survivors``, or asks for more retries than the study allows.
        RunFailed
            The others go on without this party.
        """
        self._check_named(outcome.members)
        self._check_enough(outcome.members)
        self._check_retries(outcome)
        self._check_own(outcome.members, me)
        return replace(self, members=outcome.members, retries=self.retries - outcome.again)

    def _check_named(self, named: tuple[str, ...]) -> None:
        there = set(named)
        if named != self.members and named != tuple(name for name in self.members if name in there):
            raise ProtocolViolation(
                "Charlie names parties for the next sum that are not some of those before, each once and in the "
                "roster's order",
                peer=CHARLIE,
            )

    def _check_enough(self, named: tuple[str, ...]) -> None:
        if len(named) < self.fewest:
            raise ProtocolViolation(
                f"Charlie asks for a sum of {counted(len(named), 'party', 'parties')}; the study's min_survivors "
                f"allows {self.fewest} or more",
                peer=CHARLIE,
            )

    def _check_retries(self, outcome: Outcome) -> None:
        if outcome.again and not self.retries:
            raise ProtocolViolation(
                "Charlie asks to make one more sum again than the study's retries allow", peer=CHARLIE
            )

    def _check_own(self, named: tuple[str, ...], me: str) -> None:
        if me not in named:
            raise left_out()

    def without(self, silent: Sequence[str]) -> "Survivors":
        """Return who is left for Charlie to ask again.

        Raises
        ------
        RunFailed
            Too few are left, or no retry is.
        """
        gone = set(silent)
        left = tuple(name for name in self.members if name not in gone)
        verb = "no longer answers" if len(silent) == 1 else "no longer answer"
        if not self.retries:
            raise RunFailed(
                f"{listed(list(silent))} {verb}, and the run has used all its retries",
                "start a new run, or allow more retries under [dropouts]",
            )
        if len(left) < self.fewest:
            raise RunFailed(
                f"{listed(list(silent))} {verb}, which leaves {counted(len(left), 'party', 'parties')}; the study's "
                f"min_survivors requires {self.fewest}",
                "start a new run when all parties can take part",
            )
        return replace(self, members=left, retries=self.retries - 1)


def left_out() -> RunFailed:
    """Return the error of a party without which the run goes on."""
    return RunFailed(
        "the run goes on without this party: Charlie had no contribution of it in time",
        "start a new run, or give the study a longer patience_seconds",
    )


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

    async def open_sum(self, layout: Layout, vector: Vector, bound_to: bytes, again: Again | None = None) -> Vector:
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
            the contributions (:func:`blame`).
        ProtocolViolation
            Charlie is at fault.
        """
        words = as_words(layout)
        label, check_key = await self._send(words, vector, bound_to)
        told = await self._told()
        while isinstance(told, Outcome) and told.again:
            if again is None:
                raise ProtocolViolation(
                    "Charlie asks to make a sum again for which there is no fresh noise", peer=CHARLIE
                )
            self._go_on(told, "again", label)
            label, check_key = await self._send(words, await again(), bound_to)
            told = await self._told()
        check_lengths(words, told, CHARLIE)
        total = words.decode(words.read(told.words), len(self._survivors.members))
        if not check_key.fits(total, told.check):
            raise unfit("the contributions that Charlie keeps show whether it was he")
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

    @classmethod
    async def set_up(cls, seat: Seat, study: Study) -> "MaskedCharlieSums":
        """Return sums that begin with all parties; nothing has to be said first."""
        return cls(seat, study)

    def __post_init__(self) -> None:
        """Begin with all parties."""
        self._survivors = Survivors.of(self.study)

    async def open_sum(self, layout: Layout, *, again: bool = False) -> Vector:
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

    async def aggregate(self, layout: Layout) -> Vector:
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
