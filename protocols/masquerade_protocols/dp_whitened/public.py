"""Public numbers of a ``dp-whitened`` run, from the study and N alone: the noise, its parts, and the sums' layouts.

Every party draws its share of the noise before anybody knows N, so its standard deviation is a constant. What is chosen
later is B, the length of one record's contribution in units of the grid: the larger a sum's part of the privacy target,
the longer the contribution beside the noise. All this is integer arithmetic, alike on every machine.
"""

from collections.abc import Iterator
from fractions import Fraction
from functools import cached_property
from math import isqrt

from pydantic import BaseModel, ConfigDict

from masquerade_core.errors import BadInput
from masquerade_core.privacy.noise.gaussian_rounds import charge
from masquerade_core.study import Study
from masquerade_protocols.blocks.adaptive_sums import (
    OFF_DIAGONAL,
    PIECE,
    SIGMA,
    TOLD_AT_ONCE,
    SumsPlan,
    check_budget,
    noise_of,
    squared_mu,
)
from masquerade_protocols.blocks.layouts import Layout, as_words, check_slots
from masquerade_protocols.blocks.noise_shares import Price, price_of

__all__ = [
    "MOST_COORDINATES",
    "MOST_ROUNDS",
    "MOST_TOLD",
    "NODES",
    "OFF_DIAGONAL",
    "PIECE",
    "SIGMA",
    "Parameters",
    "Plan",
    "check",
    "noise_of",
]

MOST_ROUNDS = 8
"""T at most."""

MOST_COORDINATES = 4000
"""d at most: there are d(d+1)/2 second moments, and Charlie sends as many numbers after them."""

MOST_TOLD = 8_250_000
"""Numbers that follow from the second moments at most: 66 MB. Charlie keeps 67 MB of what a party has not confirmed."""

_LONGEST = 1 << 34
"""B at most, so that the sum of 2^28 records fits into 63 bits. Noise is then less than a quarter of one record."""

_LONGEST_FACTOR = 1 << 18
"""B at most for second moments, whose products are as long as B^2."""

_STRENGTH_BITS = 10  # fraction bits of s

NODES = 9
"""How many places a score is counted at, by the last sum."""

_FRAME, _RECEIPT = 200, 43  # bytes around a message, and of Charlie's receipt in it
_ALWAYS = 64_000_000  # bytes: messages, the journal, and a library that decomposes large matrices

_COUNTED = Fraction(1, 50)  # of mu^2, for the last sum
_MANY = 200  # N mu sqrt(h/K) from which the last sum is worth its part


class Parameters(BaseModel):
    """The study's ``[protocol]`` section: there is nothing to choose."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", hide_input_in_errors=True)


class Plan(SumsPlan):
    """Numbers that everybody computes from the study and from N, before a noisy sum is opened."""

    @cached_property
    def strength(self) -> Fraction:
        """The strength s = N mu sqrt(h/K)/sqrt(d): how much there is to go by, beside the noise.

        It is rounded down to a multiple of 2^-10, and is at least one such multiple.
        """
        study = self.study
        squared = self.N**2 * squared_mu(study) * Fraction(study.honest, study.K * study.d)
        return Fraction(max(1, isqrt(int(squared * (1 << 2 * _STRENGTH_BITS)))), 1 << _STRENGTH_BITS)

    @cached_property
    def told(self) -> Fraction:
        """N mu sqrt(h/K): how much there is to go by in one number. Rounded as the strength is."""
        squared = self.N**2 * squared_mu(self.study) * Fraction(self.study.honest, self.study.K)
        return Fraction(isqrt(int(squared * (1 << 2 * _STRENGTH_BITS))), 1 << _STRENGTH_BITS)

    @property
    def recalibrates(self) -> bool:
        """Whether a last sum counts scores: where the noise leaves enough of two numbers, slope and offset."""
        return self.told >= _MANY

    @property
    def rounds(self) -> int:
        """T, the number of noisy gradients."""
        return MOST_ROUNDS if self.plenty else 4

    @property
    def plenty(self) -> bool:
        """Whether the noise hardly matters: s is 200 or more."""
        return self.strength >= 200  # noqa: PLR2004

    @property
    def weighs(self) -> bool:
        """Whether gradients are weighted: with two classes, and where there is plenty to go by."""
        return self.plenty and self.study.outputs == 1

    @property
    def tells_noise(self) -> bool:
        """Whether the run tells how much of each weight is noise: with two classes, a centre, and a last sum.

        Without a last sum, nothing tells how much noise there is in the classifier's length.
        """
        return self.looks_for_centre and self.recalibrates and self.study.outputs == 1

    @cached_property
    def parts(self) -> tuple[Fraction, Fraction, Fraction, Fraction, Fraction]:
        """The parts of mu^2: of the first mean, the sum after it, the second moments, all gradients, and the counts.

        They grow with s from where such sums begin to pay; the first two shrink again where they need little.
        """
        s, counts = self.strength, _COUNTED * self.recalibrates
        means = Fraction(0)
        if s > 10:  # noqa: PLR2004
            means = min(Fraction(1, 5), (s - 10) / 20, max(Fraction(1, 50), 500 / s**2))
        gradients = Fraction(55, 100) * s / (s + 5)
        others = (means / 3, 2 * means / 3, 1 - means - gradients, gradients)
        first, second, moments, all_gradients = (part * (1 - counts) for part in others)
        return first, second, moments, all_gradients, counts

    def price_of(self, label: str) -> Price:
        """Return what one sum costs: its part of mu^2, without what is paid ahead for retries."""
        first, second, moments, gradients, counts = self.parts
        named = {"first mean": first, "second mean": second, "labels": second, "second moments": moments}
        part = (named | {"score counts": counts}).get(label, gradients / self.rounds)
        return price_of(noise_of(self.study), part / charge(self.study.retries, self.dearest))

    @cached_property
    def dearest(self) -> Fraction:
        """The largest part of mu^2 that one sum takes: Charlie would have it made again, if the study allows it."""
        first, second, moments, gradients, counts = self.parts
        return max(first, second, moments, gradients / self.rounds, counts)

    def _squared(self, part: Fraction) -> Fraction:
        """Return how far a sum with this part of mu^2 may move, squared. Retries of the dearest sum are paid for."""
        return part * self.budget / charge(self.study.retries, self.dearest)

    def _longest(self, part: Fraction, squared: Fraction) -> int:
        """Return the largest B with ``squared`` B^2 <= ``part`` of the budget."""
        return min(_LONGEST, isqrt(int(self._squared(part) / squared)))

    @property
    def first_mean(self) -> int:
        """B of the first mean: one record in place of another moves the sum by at most sqrt(5) B."""
        return self._longest(self.parts[0], Fraction(5))

    @property
    def second_mean(self) -> int:
        """B of the sum after it: the second mean, with a distance where there is plenty to go by; or labels."""
        return self._longest(self.parts[1], Fraction(4 + self.plenty))

    @property
    def gradient(self) -> int:
        """B of a gradient."""
        return self._longest(self.parts[3] / self.rounds, Fraction(4))

    @property
    def counts(self) -> int:
        """B of the counts of scores: one record in place of another moves them by at most sqrt(2) B."""
        return self._longest(self.parts[4], Fraction(2))

    def moments(self, *, centred: bool) -> int:
        """Return B of the second moments, whose contributions are products: a replaced record moves them by 5 B^4."""
        squared = Fraction(5) if centred else Fraction(9, 2)
        return min(_LONGEST_FACTOR, isqrt(isqrt(int(self._squared(self.parts[2]) / squared))))

    @property
    def looks_for_centre(self) -> bool:
        """Whether there is a first mean, and a sum after it."""
        return self.parts[0] > 0

    def centres(self, R: float) -> bool:
        """Return whether data are centred from the first mean on: where its R shows that it helps, or s allows it."""
        return self.strength > 80 or R < 0.85  # noqa: PLR2004

    @property
    def numbers_drawn(self) -> tuple[int, int]:
        """How many numbers of noise a party draws, as :func:`numbers_drawn` says it."""
        return numbers_drawn(self.study.d, self.study.outputs, self.study.retries)

    def plaintexts(self) -> Iterator[int]:
        """Yield, for each message with a part of a sum, how many plaintexts it takes.

        Where the first sums decide whether data are centred, it is taken that they are.
        """
        yield from (layout.count for layout in self._layouts())

    def _layouts(self) -> Iterator[Layout]:
        """Yield the layout of each message with a part of a sum; :meth:`plaintexts` says what is taken for granted."""
        d, m, centred = self.study.d, self.study.outputs, self.looks_for_centre
        sums = [(d + m, self.first_mean), (d + self.plenty, self.second_mean)] if centred else []
        sums.append((moments_length(d, m, centred=centred), self.moments(centred=centred) ** 2))
        sums += [(gradient_length(d, m, centred=centred), self.gradient)] * self.rounds
        sums += [(counts_length(m), self.counts)] if self.recalibrates else []
        yield from (layout for sum_ in sums for layout, _ in self.pieces(*sum_))

    @property
    def bytes(self) -> tuple[int, int]:
        """How many bytes a party sends and receives in the sums by masks after N, and in what Charlie tells, about.

        What is taken for granted is that of :meth:`plaintexts`. The sums' messages have these lengths; of the frames
        around them it is known about how long they are.
        """
        d, m = self.study.d, self.study.outputs
        words = [layout.total_bytes + layout.check_bytes for layout in map(as_words, self._layouts())]
        told = [d + 1 + m] * 2 * self.looks_for_centre
        told += [point_length(d, m), *[m * (d + 1)] * self.rounds, m * (d + 3)]
        told += [m * (d + 1)] * self.recalibrates + [d] * self.tells_noise
        frames = len(words) + sum(-(-length // TOLD_AT_ONCE) for length in told)
        sent = sum(words) + _FRAME * len(words)
        return sent, sum(words) + _RECEIPT * len(words) + 8 * sum(told) + _FRAME * frames

    @property
    def memory(self) -> int:
        """How many bytes a participant takes at most: four matrices of products of coordinates, and what all runs take.

        Measured (``docs/scale.md``): no test of real processes holds it.
        """
        return _ALWAYS + 4 * 8 * self.study.d**2


def moments_length(d: int, m: int, *, centred: bool) -> int:
    """Return the length of the sum of second moments: products, squares, d numbers for each output, and labels."""
    return d * (d + 1) // 2 + d * m + m * centred


def point_length(d: int, m: int) -> int:
    """Return how many numbers follow from the second moments: half of A, L and K, and the classifier."""
    return d * (d + 1) // 2 + 2 + m * (d + 1)


def gradient_length(d: int, m: int, *, centred: bool) -> int:
    """Return the length of a sum of gradients: for each of m outputs d numbers, its length, and its offset."""
    return d * m + m + m * centred


def counts_length(m: int) -> int:
    """Return the length of the sum of counts: for each output, those of each label at each node."""
    return 2 * NODES * m


def most_numbers(d: int, m: int) -> int:
    """Return how many numbers all sums of a run have together, at most: so much noise is drawn."""
    moments, gradient = moments_length(d, m, centred=True), gradient_length(d, m, centred=True)
    return (d + m) + max(d + 1, d * m) + moments + MOST_ROUNDS * gradient + counts_length(m)


def lengths(study: Study) -> set[int]:
    """Return how many numbers a message of a run may have: of means, labels, second moments or gradients, cut up."""
    d, m = study.d, study.outputs
    whole = [d, d + 1, m, d + m, d * m, counts_length(m)]
    whole += [
        length(d, m, centred=centred) for length in (moments_length, gradient_length) for centred in (True, False)
    ]
    return {min(PIECE, length - start) for length in whole for start in range(0, length, PIECE)}


def numbers_drawn(d: int, m: int, retries: int = 0) -> tuple[int, int]:
    """Return how many numbers of noise a party draws: for products of two different coordinates, and for all others.

    A message whose sum is made again needs as many as it has numbers. Messages have at most ``PIECE``.
    """
    pairs = d * (d - 1) // 2
    others = most_numbers(d, m) - pairs
    longest = max(
        d + m,
        d + 1,
        d * m,
        counts_length(m),
        moments_length(d, m, centred=True) - pairs,
        gradient_length(d, m, centred=True),
    )
    return pairs + retries * min(pairs, PIECE), others + retries * min(longest, PIECE)


def check(study: Study) -> None:
    """Refuse a study that must fail, before anybody joins.

    Raises
    ------
    BadInput
        There are too many coordinates or classes, no noise meets the privacy target, or no plaintext holds a sum.
    """
    if study.d > MOST_COORDINATES:
        raise BadInput(
            f"a record has {study.d} coordinates, but {study.study.protocol} takes at most {MOST_COORDINATES}: it "
            "sends a number for each pair of them",
            "choose dp-gd, or fewer features",
        )
    if (told := point_length(study.d, study.outputs)) > MOST_TOLD:
        raise BadInput(
            f"with {study.d} coordinates and {study.outputs} classes, Charlie would send {told:,} numbers at once; "
            f"{MOST_TOLD:,} are allowed",
            "choose dp-gd, or fewer features or classes",
        )
    check_budget(study)
    plan = Plan(study, study.most_records)
    largest = max(plan.first_mean, plan.second_mean, plan.counts, plan.moments(centred=False) ** 2)
    check_slots(study, plan.layout(1, largest), "a sum", "a smaller epsilon", "fewer parties")
