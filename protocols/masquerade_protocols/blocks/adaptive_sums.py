"""Adaptive noisy sums: each party draws all its noise before the join, and each sum follows from the ones before it.

A share of noise is discrete Gaussian with a constant standard deviation, so it can be drawn before N, the number of all
records, is known. What is chosen later is B, the length of one record's contribution in units of the grid: the larger a
sum's part of the privacy target, the longer the contribution beside the noise. A sum's *part* is its share of mu^2,
where mu is the parameter of Gaussian differential privacy that meets the target.

A sum is opened in pieces, and everybody goes on from the same numbers. Charlie computes them, rounds them to a grid
and sends them; each party checks. Eigenvectors come out with other last bits on other machines, and so does every
number that follows from them. A number on which the next contributions or the model depend must be the same
everywhere. So Charlie's counts, and the masks of all later sums are bound to its bytes. A party computes the same
numbers for itself, and accepts his within a tolerance. Privacy does not depend on this: whatever the numbers are, each
party cuts each of its records by itself. A wrong number could only harm the model.

``dp-whitened`` and ``dp-glm`` are made of such sums.
"""

import hashlib
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from math import isqrt, sqrt
from typing import Annotated
from typing import Protocol as Interface

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from masquerade_core.data.records import Records
from masquerade_core.errors import BadInput, ProtocolViolation
from masquerade_core.privacy.accounting import LEAST_SHARE_SIGMA
from masquerade_core.privacy.noise.gaussian_rounds import SharedNoise, check_honest, rounds_sigma
from masquerade_core.privacy.samplers.discrete_gaussian import discrete_gaussian_array, discrete_gaussian_tail_bound
from masquerade_core.rng import Rng
from masquerade_core.seat import Seat
from masquerade_core.study import CHARLIE, Study
from masquerade_core.wire.codec import Broadcast
from masquerade_protocols.blocks.descent import TAIL_BITS
from masquerade_protocols.blocks.layouts import Layout, layout_of
from masquerade_protocols.blocks.noise_shares import Price, with_cost
from masquerade_protocols.blocks.secure_sum import CharlieSums, PartySums

__all__ = [
    "OFF_DIAGONAL",
    "PIECE",
    "SIGMA",
    "TOLD_AT_ONCE",
    "TOLERANCE",
    "Agreement",
    "CharlieSide",
    "Noise",
    "PartySide",
    "PublicNumbers",
    "Side",
    "SumsPlan",
    "budget_of",
    "check_budget",
    "draw_noise",
    "drawn_ahead",
    "noise_of",
    "rounded",
    "squared_mu",
]

SIGMA = 1 << 32
"""The standard deviation of one party's share of noise on a number, in units of the grid."""

OFF_DIAGONAL = isqrt(SIGMA**2 // 2) + 1
"""The same on a product of two different coordinates: SIGMA/sqrt(2), rounded up."""

PIECE = 1 << 14
"""How many numbers of the second moments one message carries at most."""

TOLD_AT_ONCE = 1 << 18
"""How many numbers one message of Charlie's has at most."""

_BITS = 32  # of a fraction
_LARGEST = 2.0**30  # of a number, so that it fits into 63 bits
_KEPT = 1 << 20  # numbers that are drawn, or computed, and written down at once: 8 MB. A multiple of PIECE

TOLERANCE = 2.0**-20
"""How far Charlie's numbers may lie from a party's own, beside the largest of them, or beside 1 if that is larger."""

_LEAST_BUDGET = 1 << 24
"""Of the squared length of a move: each sum's part of it leaves B well above 0."""

_Floats = NDArray[np.float64]
_Integers = NDArray[np.int64]


# --- What a study says --------------------------------------------------------------


def squared_mu(study: Study) -> Fraction:
    """Return mu^2, rounded down, where mu is the largest that meets the privacy target (Balle and Wang 2018)."""
    return 1 / rounds_sigma(Fraction(1), 1, study.privacy.epsilon, study.privacy.delta) ** 2


def budget_of(study: Study) -> Fraction:
    """Return how far a replaced record may move all sums together, as a squared length in units of the grid."""
    check_honest(study.honest)
    return squared_mu(study) * (study.honest * SIGMA**2 - LEAST_SHARE_SIGMA**2)


def noise_of(study: Study) -> SharedNoise:
    """Return the noise of a whole run, as if it were one sum: its Delta is that of all sums together.

    Raises
    ------
    BadInput
        No noise meets the study's privacy target.
    """
    Delta = Fraction(isqrt(int(budget_of(study))))
    sigma = Fraction(isqrt(study.honest * SIGMA**2))
    privacy = study.privacy
    return SharedNoise(Delta, 1, sigma, Fraction(SIGMA), privacy.epsilon, privacy.delta, study.honest)


def check_budget(study: Study) -> None:
    """Refuse a study whose privacy target leaves nothing to a record.

    Raises
    ------
    BadInput
        No noise meets the target, or a record would count less than one unit of the grid.
    """
    noise_of(study)
    if budget_of(study) < _LEAST_BUDGET:
        raise BadInput(
            f"[privacy] epsilon is {study.privacy.epsilon:g} and delta is {study.privacy.delta:g}, but with the noise "
            "that they need, a record would count less than one unit of the grid",
            "choose a larger epsilon or a larger delta",
        )


@dataclass(frozen=True)
class SumsPlan(ABC):
    """The public numbers of a run, from the study and from N.

    Parameters
    ----------
    study : Study
    N : int
        The number of all records.
    """

    study: Study
    N: int

    @cached_property
    def budget(self) -> Fraction:
        """How far a replaced record may move all sums together, as a squared length in units of the grid."""
        return budget_of(self.study)

    @property
    @abstractmethod
    def numbers_drawn(self) -> tuple[int, int]:
        """How many numbers of noise a party draws: for products of two different coordinates, and for all others."""

    @abstractmethod
    def price_of(self, label: str) -> Price:
        """Return what one sum costs."""

    def noise_sd(self, unit: int) -> float:
        """Return the sd of the noise that is there, that of K shares, on a mean over N records in units of ``unit``."""
        return SIGMA * sqrt(self.study.K) / (self.N * unit)

    def pieces(self, length: int, largest: int) -> Iterator[tuple[Layout, slice]]:
        """Cut a sum of ``length`` numbers into pieces that fit into a message; yields each one's layout and place."""
        for start in range(0, length, PIECE):
            end = min(start + PIECE, length)
            yield self.layout(end - start, largest), slice(start, end)

    def layout(self, length: int, largest: int) -> Layout:
        """Lay out a sum of ``length`` numbers, of which a record contributes at most ``largest`` to each."""
        study = self.study
        drawn = study.K * sum(self.numbers_drawn)
        bound = self.N * largest + study.K * discrete_gaussian_tail_bound(Fraction(SIGMA), drawn, TAIL_BITS)
        return layout_of(study, length, bound)


# --- Numbers from which everybody goes on -------------------------------------------


class PublicNumbers(Broadcast):
    """Charlie to all: numbers in units of 2^-32, 8 bytes each, the lowest byte first; ``step`` counts such messages."""

    step: Annotated[int, Field(ge=0, lt=2**32)]
    values: bytes


def rounded(numbers: _Floats) -> bytes:
    """Return numbers as integers in units of 2^-32; those beyond +-2^30 become +-2^30."""
    return np.rint(np.clip(numbers, -_LARGEST, _LARGEST) * 2.0**_BITS).astype("<i8").tobytes()


def _read_numbers(values: bytes, length: int) -> _Floats:
    if len(values) != 8 * length:
        raise ProtocolViolation(
            f"charlie sent {len(values)} bytes of public numbers; {8 * length} are due", peer=CHARLIE
        )
    integers = np.frombuffer(values, dtype="<i8")
    limit = int(_LARGEST * 2.0**_BITS)
    if not ((integers >= -limit) & (integers <= limit)).all():
        raise ProtocolViolation("charlie sent a public number outside +-2^30", peer=CHARLIE)
    return integers.astype(np.float64) / 2.0**_BITS


class Agreement:
    """The numbers that were sent so far; :attr:`digest` binds the masks of the next sum to them.

    Parameters
    ----------
    seat : Seat
    N : int
        The number of all records.
    """

    def __init__(self, seat: Seat, N: int) -> None:
        self._seat, self._step = seat, 0
        self.digest = hashlib.sha256(b"masquerade public numbers" + N.to_bytes(16, "big")).digest()

    async def on(self, own: _Floats, *, unsure: bool = False) -> _Floats:
        """Agree on numbers; returns Charlie's.

        Parameters
        ----------
        own : ndarray
            What this participant computed.
        unsure : bool
            Whether a tiny change of what it was computed from could change it much. Then Charlie's are taken as they
            are.

        Raises
        ------
        ProtocolViolation
            Charlie's numbers are not those that follow from the opened sums.
        """
        return await self.on_many(len(own), lambda: (own, unsure))

    async def on_many(self, length: int, own: Callable[[], tuple[_Floats, bool]]) -> _Floats:
        """Agree on so many numbers that a party takes in Charlie's first, and computes its own then.

        So what he sends never waits for the party's arithmetic: a channel holds a part of it only.

        Parameters
        ----------
        length : int
        own : callable
            Returns ``own`` and ``unsure`` of :meth:`on`.

        Raises
        ------
        ProtocolViolation
            As :meth:`on`.
        """
        pieces = [slice(start, min(start + TOLD_AT_ONCE, length)) for start in range(0, length, TOLD_AT_ONCE)]
        agreed, is_party = np.empty(length), self._seat.me != CHARLIE
        if is_party:
            for piece in pieces:
                agreed[piece] = _read_numbers(await self._receive(), len(agreed[piece]))
        numbers, unsure = own()
        farthest, largest = 0.0, 1.0
        for piece in pieces:
            mine = numbers[piece]
            if not is_party:
                agreed[piece] = _read_numbers(await self._send(mine), len(mine))
            # max() of numpy keeps what is no number, and that of Python does not
            farthest = float(np.maximum(farthest, np.abs(agreed[piece] - mine).max()))
            largest = float(np.maximum(largest, np.abs(mine).max()))
        # Written so that a number that is not finite fails as well.
        if not unsure and not farthest <= TOLERANCE * largest:
            raise ProtocolViolation("charlie sent public numbers that do not follow from the opened sums", peer=CHARLIE)
        return agreed

    async def _send(self, own: _Floats) -> bytes:
        values = rounded(own)
        await self._seat.broadcast(PublicNumbers(step=self._step, values=values))
        return self._sent(values)

    async def _receive(self) -> bytes:
        message = await self._seat.receive(PublicNumbers, CHARLIE)
        if message.step != self._step:
            raise ProtocolViolation(
                f"charlie sent public numbers {message.step} where {self._step} are due", peer=CHARLIE
            )
        return self._sent(message.values)

    def _sent(self, values: bytes) -> bytes:
        self._step += 1
        self.digest = hashlib.sha256(self.digest + values).digest()
        return values


# --- What both sides do -------------------------------------------------------------


class Side(Interface):
    """The differences between a party, Charlie, and somebody who has all records."""

    async def stage(self, name: str) -> None:
        """Say which stage begins."""

    async def total(
        self, label: str, length: int, unit: int, own: Callable[[Records], _Integers], products: int = 0
    ) -> _Floats:
        """Return the noisy sum of everybody's ``own`` as a mean: in units of ``unit`` and of 1/N.

        The first ``products`` of its ``length`` numbers are products of two different coordinates.
        """

    async def agree(self, own: _Floats, *, unsure: bool = False) -> _Floats:
        """Return the numbers from which everybody goes on."""

    async def agree_on_many(self, length: int, own: Callable[[], tuple[_Floats, bool]]) -> _Floats:
        """Return so many numbers from which everybody goes on; ``own`` computes them, and says whether it is unsure."""

    async def progress(self, done: int, total: int) -> None:
        """Say how many of the last sums are over."""


class Seated:
    """A participant at its seat.

    Parameters
    ----------
    seat : Seat
    plan : SumsPlan
    """

    def __init__(self, seat: Seat, plan: SumsPlan) -> None:
        self._seat, self._plan, self._agreement = seat, plan, Agreement(seat, plan.N)
        self.stage, self.agree, self.agree_on_many = seat.stage, self._agreement.on, self._agreement.on_many

    async def progress(self, done: int, total: int) -> None:
        """Say how many of the last sums are over."""
        await self._seat.progress(done, total)


# --- A party -------------------------------------------------------------------------


def draw_noise(rng: Rng, numbers: tuple[int, int]) -> bytes:
    """Draw a party's share of all noise, 8 bytes for each number: first that of products of two coordinates.

    Parameters
    ----------
    rng : Rng
    numbers : tuple of int
        How many products of two different coordinates, and how many other numbers, the noise is for.
    """
    sizes = zip((OFF_DIAGONAL, SIGMA), numbers, strict=True)
    drawn = (discrete_gaussian_array(rng, Fraction(sigma), size) for sigma, size in sizes)
    return b"".join(numbers.astype("<i8", copy=False).tobytes() for numbers in drawn)


async def drawn_ahead(seat: Seat, numbers: tuple[int, int]) -> "Noise":
    """Draw a party's share of all noise, and write it down, in parts; ``numbers`` as :func:`draw_noise` has them."""
    products, total = numbers[0], sum(numbers)
    parts = []
    for start in range(0, total, _KEPT):
        end = min(start + _KEPT, total)
        of_products = max(0, min(end, products) - start)
        sizes = (of_products, end - start - of_products)
        parts.append((of_products, await seat.once(_part("noise", start), partial(draw_noise, numbers=sizes))))
    return Noise(parts)


def _part(label: str, start: int) -> str:
    """Name a part of many numbers by the first of them."""
    return f"{label}, from number {start}" if start else label


class Noise:
    """A party's share of all noise, of which each number serves once. What has served takes no memory any more.

    Parameters
    ----------
    parts : sequence of (int, bytes)
        How many of a part's numbers are for products of two different coordinates, and the part, these first.
    """

    def __init__(self, parts: Iterable[tuple[int, bytes]]) -> None:
        self._products: deque[_Integers] = deque()
        self._others: deque[_Integers] = deque()
        for of_products, part in parts:
            numbers = np.frombuffer(part, dtype="<i8")
            self._products.append(numbers[:of_products])
            self._others.append(numbers[of_products:])

    def take(self, products: int, others: int) -> _Integers:
        """Return noise for so many products and so many other numbers."""
        return np.concatenate([*_taken(self._products, products), *_taken(self._others, others)])


def _taken(parts: deque[_Integers], count: int) -> Iterator[_Integers]:
    while count > 0:
        part = parts.popleft()
        if len(part) > count:
            parts.appendleft(part[count:])
        yield part[:count]
        count -= len(part)


class PartySide(Seated):
    """A party: it adds its share of the noise to its own sums.

    Parameters
    ----------
    seat : Seat
    plan : SumsPlan
    sums : PartySums
    data : Records
        Its records to learn from.
    noise : Noise
        Its share of all noise.
    """

    def __init__(self, seat: Seat, plan: SumsPlan, sums: PartySums, data: Records, noise: Noise) -> None:
        super().__init__(seat, plan)
        self._sums, self._data, self._noise = sums, data, noise

    async def total(
        self, label: str, length: int, unit: int, own: Callable[[Records], _Integers], products: int = 0
    ) -> _Floats:
        """Add noise to one's own sum and have the total opened."""
        contribution = await self._contribution(label, length, own)
        opened = np.zeros(length)  # filled piece by piece: as Python's integers, a large sum would take much memory
        price = self._plan.price_of(label)
        for layout, piece in self._plan.pieces(length, unit):
            of_products = min(max(products - piece.start, 0), layout.length)
            # All pieces together are one release, which the first one counts; one that is made again counts anew.
            part, start = divmod(piece.start, _KEPT)
            numbers = np.frombuffer(contribution[part], dtype="<i8")[start : start + layout.length]
            first = partial(self._noisy, numbers, of_products)
            noisy = with_cost(self._seat, _part(label, piece.start), price, first, free_once=bool(piece.start))
            opened[piece] = await self._sums.open_sum(layout, await noisy(), self._agreement.digest, noisy)
        opened /= float(unit) * self._plan.N
        return opened

    async def _contribution(self, label: str, length: int, own: Callable[[Records], _Integers]) -> list[bytes]:
        """Return one's own sum in parts, each of which is written down by itself; it is computed once for all."""
        computed: list[_Integers] = []

        def part(start: int, _rng: Rng) -> bytes:
            if not computed:
                computed.append(own(self._data))
            return computed[0][start : start + _KEPT].tobytes()

        return [await self._seat.once(_part(label, at), partial(part, at)) for at in range(0, length, _KEPT)]

    def _noisy(self, own: _Integers, products: int) -> _Integers:
        """Return numbers under noise that never served; the first ``products`` of them are products."""
        noisy = self._noise.take(products, len(own) - products)
        noisy += own
        return noisy


# --- Charlie --------------------------------------------------------------------------


class CharlieSide(Seated):
    """Charlie, who opens the sums.

    Parameters
    ----------
    seat : Seat
    plan : SumsPlan
    sums : CharlieSums
    """

    def __init__(self, seat: Seat, plan: SumsPlan, sums: CharlieSums) -> None:
        super().__init__(seat, plan)
        self._sums = sums

    async def total(self, label: str, length: int, unit: int, own: object, products: int = 0) -> _Floats:
        """Have the total opened."""
        del label, own, products
        opened = np.zeros(length)
        for layout, piece in self._plan.pieces(length, unit):
            opened[piece] = await self._sums.open_sum(layout, again=True)
        opened /= float(unit) * self._plan.N
        return opened
