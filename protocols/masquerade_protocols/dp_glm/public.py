"""Public numbers of a ``dp-glm`` run, from the study and N alone: the noise, its parts, and the sums' layouts.

The six sums take fixed parts of mu^2. Every sum adds up real vectors, one for each record, that were scaled and rounded
to integers. B is the scale: a number 1 of such a vector counts B. A record in place of another moves a vector by at
most S, which ``docs/privacy/dp-glm.md`` derives, and rounding moves each number by 1 at most. So the scale is
B - sqrt(w)/S, where w counts the numbers, and products of two different coordinates twice, since their noise has half
the variance. The integers then move by S B at most.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import isqrt, sqrt

from pydantic import BaseModel, ConfigDict

from masquerade_core.coefficients import Family
from masquerade_core.errors import BadInput
from masquerade_core.privacy.noise.gaussian_rounds import charge
from masquerade_core.study import Study, check_section
from masquerade_protocols.blocks.adaptive_sums import (
    PIECE,
    SumsPlan,
    check_budget,
    noise_of,
    squared_mu,
)
from masquerade_protocols.blocks.layouts import check_slots
from masquerade_protocols.blocks.noise_shares import Price, price_of

__all__ = [
    "BREADS",
    "LEAST_STRENGTH",
    "MEAT",
    "MOST_COVARIATES",
    "RESIDUALS",
    "SCORES",
    "SHARE",
    "SQUARES",
    "SUMS",
    "Columns",
    "Noisy",
    "Parameters",
    "Plan",
    "check",
    "width_ratio",
]

SUMS = ("location", "spread", "moments", "step 1", "step 2", "step 3")
"""The noisy sums of a run, in their order."""

_PARTS = dict(zip(SUMS, (Fraction(part, 100) for part in (4, 4, 12, 10, 22, 48)), strict=True))
_SHORT = 1 - 2.0**-30  # of the scale: floats err by far less

SQUARES = Fraction(27, 10)
"""How much more a number's square counts in the first two sums than the number itself, as a ratio of squared lengths.

A number u of [-1, 1] has (u, sqrt(2.7) u^2), which moves by 2 at most, as u alone does.
"""

MEAT = 0.3
"""The squared weight of squared scores beside the scores, on which the proof of S^2 = 5 depends."""

SHARE = 0.05
"""The squared weight of a count beside the scores."""

SCORES = (0.8, 1.0, 1.25, 1.5, 1.8, 2.2, 2.7, 3.3, 4.0, 5.0)
"""The edges of a histogram: of the largest length that a record's score may have, in units of sqrt(d)."""

RESIDUALS = (2.0, 2.5, 3.0, 3.5, 4.0, 5.0, 6.0, 8.0)
"""With a linear model, the same for residuals, in units of their standard deviation as the moments tell it."""

BREADS = (1.2, 1.6, 2.2, 3.0, 4.0, 6.0, 9.0, 14.0)
"""The same for a record's part of the Hessian, in units of what it is on average."""

LEAST_STRENGTH = 250
"""s from which coefficients can be told. Below it no sum is opened, and nothing is spent."""

MOST_COVARIATES = 200
"""p at most: a step has a number for each pair of them, twice."""

_LONGEST = 1 << 34
"""B at most, so that the sum of 2^28 records fits into 63 bits. Noise is then less than a quarter of one record."""


class Parameters(BaseModel):
    """The study's ``[protocol]`` section."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", hide_input_in_errors=True)

    family: Family = "logistic"


@dataclass(frozen=True)
class Columns:
    """Which covariates are numbers, and which are levels of one column.

    Parameters
    ----------
    numbers : tuple of int
        The places of numbers among the covariates.
    groups : tuple of tuple of int
        The places of each column's levels or bins, the first of which has none.
    """

    numbers: tuple[int, ...]
    groups: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, study: Study) -> "Columns":
        """Return those of a study."""
        numbers: list[int] = []
        groups: list[tuple[int, ...]] = []
        place = 0
        for f in study.features:
            places = tuple(range(place, place + len(f.covariates)))
            if f.levels is None and f.edges is None:
                numbers += places
            else:
                groups.append(places)
            place += len(places)
        return cls(tuple(numbers), tuple(groups))

    @property
    def p(self) -> int:
        """The number of covariates."""
        return len(self.numbers) + len(self.levels)

    @property
    def levels(self) -> tuple[int, ...]:
        """The places of all levels."""
        return tuple(place for group in self.groups for place in group)

    @property
    def squared(self) -> int:
        """The squared move of (u, sqrt(2.7) u^2) of all numbers and of all levels: 4 for a number, 2 or 1 for a column.

        With two levels a column has one covariate, which moves by 1. With more, one may go and another come.
        """
        return 4 * len(self.numbers) + sum(min(len(group), 2) for group in self.groups)


@dataclass(frozen=True)
class Noisy:
    """One noisy sum.

    Parameters
    ----------
    length : int
        How many numbers it has.
    products : int
        How many of these, the first ones, are products of two different coordinates.
    squared : Fraction
        S^2: how far a record in place of another moves the real vector, squared. Products count twice.
    """

    length: int
    products: int
    squared: Fraction


class Plan(SumsPlan):
    """Numbers that everybody computes from the study and from N, before a noisy sum is opened."""

    @cached_property
    def columns(self) -> Columns:
        """The covariates' kinds."""
        return Columns.of(self.study)

    @property
    def linear(self) -> bool:
        """Whether the label is a number."""
        return bool(self.study.protocol.get("family") == "linear")

    @property
    def d(self) -> int:
        """The number of coefficients, the intercept among them."""
        return self.columns.p + 1

    @property
    def mu(self) -> float:
        """The parameter that all parties' noise together amounts to: mu sqrt(h/K)."""
        return sqrt(float(squared_mu(self.study) * self.study.honest / self.study.K))

    @property
    def strength(self) -> float:
        """The strength s = N mu sqrt(h/K)/sqrt(d): how much there is to go by, beside the noise."""
        return self.N * self.mu / sqrt(self.d)

    @property
    def tells(self) -> bool:
        """Whether anything can be told: s is 250 or more. It is compared as a whole number, alike on every machine."""
        squared = self.N**2 * squared_mu(self.study) * self.study.honest
        return squared >= LEAST_STRENGTH**2 * self.study.K * self.d

    @property
    def longest(self) -> float:
        """The longest slopes that are told, two standard errors included: the spread of the linear predictor.

        Longer ones need more records than there are, and where a label is determined there are no longest ones.
        """
        return min(5.0, 1.5 + self.strength / 300)

    @cached_property
    def sums(self) -> dict[str, Noisy]:
        """The sums by name."""
        columns, d, p, linear = self.columns, self.d, self.columns.p, self.linear
        # The label of a linear model is one number more in the first two sums.
        first, squared = (len(columns.numbers) + 2 * linear, columns.squared + 4 * linear)
        steps = d * (d - 1)
        pairs = p * (p - 1) // 2
        histograms = len(SCORES) + len(BREADS)
        return {
            "location": Noisy(p + first + (not linear), 0, (squared + (not linear)) / SQUARES),
            "spread": Noisy(p + first, 0, squared / SQUARES),
            "moments": Noisy(pairs + 2 * p + linear, pairs, Fraction(9, 2)),
            "step 1": Noisy(steps + 3 * d + histograms + linear, steps, Fraction(6)),
            "step 2": Noisy(steps + 3 * d + 1 + linear, steps, Fraction(101, 20)),
            "step 3": Noisy(steps + 3 * d + 1 + 2 * linear, steps, Fraction(101 + linear, 20)),
        }

    @property
    def dearest(self) -> Fraction:
        """The largest part of mu^2 that one sum takes: Charlie would have it made again, if the study allows it."""
        return max(_PARTS.values())

    def price_of(self, label: str) -> Price:
        """Return what one sum costs: its part of mu^2, without what is paid ahead for retries."""
        return price_of(noise_of(self.study), _PARTS[label] / charge(self.study.retries, self.dearest))

    def unit(self, label: str) -> int:
        """Return B of a sum: the largest with S^2 B^2 <= its part of how far a record may move all sums, squared."""
        budget = _PARTS[label] * self.budget / charge(self.study.retries, self.dearest)
        return min(_LONGEST, isqrt(int(budget / self.sums[label].squared)))

    def scale(self, label: str) -> float:
        """Return how often a real vector's numbers are taken before they are rounded: B, less what rounding adds."""
        noisy = self.sums[label]
        rounding = sqrt((noisy.length + noisy.products) / float(noisy.squared))
        return max(0.0, self.unit(label) - rounding) * _SHORT

    def sd(self, label: str) -> float:
        """Return the sd of the noise that is there on a number of a sum's mean vector."""
        return self.noise_sd(self.unit(label))

    @property
    def numbers_drawn(self) -> tuple[int, int]:
        """How many numbers of noise a party draws: for products of two different coordinates, and for all others.

        A message whose sum is made again needs as many as it has numbers. Messages have at most ``PIECE``.
        """
        sums, retries = self.sums.values(), self.study.retries
        others = [noisy.length - noisy.products for noisy in sums]
        products = [noisy.products for noisy in sums]
        return (
            sum(products) + retries * min(PIECE, max(products)),
            sum(others) + retries * min(PIECE, max(others)),
        )

    def plaintexts(self) -> Iterator[int]:
        """Yield, for each message with a part of a sum, how many plaintexts it takes."""
        for label, noisy in self.sums.items():
            yield from (layout.count for layout, _ in self.pieces(noisy.length, self.unit(label)))

    @property
    def lengths(self) -> set[int]:
        """How many numbers a message with a part of a sum may have."""
        return {
            min(PIECE, noisy.length - start) for noisy in self.sums.values() for start in range(0, noisy.length, PIECE)
        }


def width_ratio(study: Study, N: int, positives: float = 0.5) -> float | None:
    """Return about how many times wider intervals are than without noise; None where nothing can be told.

    Parameters
    ----------
    study : Study
    N : int
        The number of all records.
    positives : float
        The share of records with the positive label, as far as it is known; a linear model has none.

    Notes
    -----
    It is sqrt(1 + a d/(N mu^2)). In the last two steps together, noise on a score has 7 times the variance
    (C/(N mu))^2.
    With C^2 = c^2 d, a is 7 c^2/w for a logistic model, w = positives (1 - positives) for a weak signal, and 7 c^2 K^2
    for a linear one. c and K follow from the records; here 7 c^2 is 17 and 7 c^2 K^2 is 230, which meets the tables
    of ``docs/reproduction/dp-glm.md`` to a tenth where errors are normal and labels common. For rare labels, and where
    records are far from normal, the ratio is larger by up to a half.
    """
    plan = Plan(study, N)
    if not plan.tells:
        return None
    a = 230.0 if plan.linear else 17 / (positives * (1 - positives))
    return sqrt(1 + a * plan.d / (N * plan.mu**2))


def check(study: Study) -> None:
    """Refuse a study that must fail, before anybody joins.

    Raises
    ------
    BadInput
        There are too many columns, the label is none of the family's, no noise meets the privacy target, or no
        plaintext holds a sum.
    """
    check_section(Parameters, study.protocol, "protocol")
    p = len(study.covariates)
    if p > MOST_COVARIATES:
        raise BadInput(
            f"a regression on these columns has {p} coefficients beside the intercept, but {study.study.protocol} "
            f"takes at most {MOST_COVARIATES}",
            "leave columns out, or give categories fewer levels",
        )
    linear = study.protocol.get("family") == "linear"
    if not linear and study.label.positive is None:
        raise BadInput(
            f"[label] names no positive value, but {study.study.protocol} models how likely that value is",
            "set positive to the value that counts as 1",
        )
    if linear and (study.label.min is None or study.label.max is None):
        raise BadInput(
            '[protocol] family is "linear", but [label] is no number with public bounds', "set min and max in [label]"
        )
    check_budget(study)
    plan = Plan(study, study.most_records)
    if min(map(plan.scale, SUMS)) <= 0:
        raise BadInput(
            f"[privacy] epsilon is {study.privacy.epsilon:g}, but with so much noise a record would count less than "
            "one unit of the grid",
            "choose a larger epsilon or a larger delta, or fewer columns",
        )
    check_slots(study, plan.layout(1, max(map(plan.unit, SUMS))), "a sum", "a smaller epsilon", "fewer parties")
