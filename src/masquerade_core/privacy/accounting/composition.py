"""Composition: the joint cost of several releases over the same records, in integers, so that no small cost is lost.

A *cost* is (epsilon, delta) of one release. If its noise is Gaussian, it has a mu as well, and a *slack*: the delta
that pays for the distance of the drawn noise from a Gaussian. Costs add up to a :class:`Total`. Three rules say which
epsilon a total keeps at a given delta. Each of them is valid, so the smallest epsilon is:

* *basic*: epsilons and deltas add up (Dwork and others 2006).
* *Gaussian*: the mu of Gaussian releases compose exactly to a root of squares; the other releases add up.
* *advanced*: the same, with the other releases composed by Theorem 3.5 of Kairouz, Oh and Viswanath 2015.

Delta adds up in all of them. ``docs/budget.md`` says what holds if studies are chosen in the light of earlier results.
"""

import math
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import lru_cache
from operator import add
from typing import Self

from masquerade_core.privacy.accounting.gaussian_dp import epsilon_of, mu_of
from masquerade_core.privacy.numbers import require

__all__ = ["DELTA_UNITS", "UNITS", "Cost", "Total", "cost_of", "down", "target", "up"]

UNITS = 10**12
"""An epsilon and a mu are kept in units of 10^-12."""

DELTA_UNITS = 10**18
"""A delta and a slack are kept in units of 10^-18."""

_MOST = 2**63 - 1  # units
_ROUNDED_UP = 1 + 1e-12  # more than the errors of a few operations on floats


@lru_cache(maxsize=64)  # the rounds of a run cost the same
def up(value: float, units: int) -> int:
    """Return a number of at least 0 in units, rounded up: what is spent is never less than what was meant."""
    return min(math.ceil(_decimal(value) * units), _MOST)


def down(value: float, units: int) -> int:
    """Return a number of at least 0 in units, rounded down: a limit is never more than what was meant."""
    return min(math.floor(_decimal(value) * units), _MOST)


def _decimal(value: float) -> Fraction:
    """Return the decimal number that a float stands for: a person wrote 0.1, not the float just above it."""
    require(math.isfinite(value) and value >= 0, "a cost or a limit must be a finite number of at least 0")
    return Fraction(repr(float(value)))


@dataclass(frozen=True)
class Cost:
    """The cost of one release, in units.

    Attributes
    ----------
    epsilon, delta : int
        What it costs alone.
    mu, slack : int
        Of a Gaussian release; 0 for any other.
    """

    epsilon: int
    delta: int
    mu: int = 0
    slack: int = 0

    def part(self, n: int) -> "Cost":
        """Return the cost of each of n equal parts, rounded up: of the mu of equal parts, the squares add up."""
        return Cost(-(-self.epsilon // n), -(-self.delta // n), _root_up(self.mu**2, n), -(-self.slack // n))


def _root_up(square: int, n: int) -> int:
    """Return the root of square/n, rounded up."""
    root = math.isqrt(square // n)
    return root + (n * root * root < square)


def cost_of(epsilon: float, delta: float, mu: float = 0.0, slack: float = 0.0) -> Cost:
    """Return a release's cost in units, each number rounded up."""
    return Cost(up(epsilon, UNITS), up(delta, DELTA_UNITS), up(mu, UNITS), up(slack, DELTA_UNITS))


def target(epsilon: float, delta: float, *, gaussian: bool) -> Cost:
    """Return the cost of a whole run that keeps (epsilon, delta).

    Where all its releases are Gaussian, it costs no more than the largest mu that keeps them.
    """
    mu = mu_of(epsilon, delta) if gaussian and epsilon > 0 and 0 < delta < 1 else 0.0
    return cost_of(epsilon, delta, mu)


@dataclass(frozen=True)
class Total:
    """The joint cost of releases. Totals add up.

    Attributes
    ----------
    epsilon, delta : int
        Sums over all releases.
    others, others_delta : int
        The same sums over those that are not Gaussian.
    squares, drift : int
        Of those, the sums of epsilon^2 and of epsilon tanh(epsilon/2), for the advanced rule.
    mu2, slack : int
        The sums of mu^2 and of slack over those that are Gaussian.
    count : int
        How many releases.
    """

    epsilon: int = 0
    delta: int = 0
    others: int = 0
    others_delta: int = 0
    squares: int = 0
    drift: int = 0
    mu2: int = 0
    slack: int = 0
    count: int = 0

    @classmethod
    def of(cls, cost: Cost) -> Self:
        """Return the total of one release."""
        if cost.mu:
            return cls(cost.epsilon, cost.delta, mu2=cost.mu**2, slack=cost.slack, count=1)
        alone = cost.epsilon / UNITS
        drift = up(alone * math.tanh(alone / 2) * _ROUNDED_UP, UNITS)
        return cls(cost.epsilon, cost.delta, cost.epsilon, cost.delta, cost.epsilon**2, drift, count=1)

    def __add__(self, other: "Total") -> "Total":
        """Return the total of all releases of both."""
        return Total(*map(add, vars(self).values(), vars(other).values()))

    def at_most(self, whole: Cost) -> "Total":
        """Return this total, where all releases together are known to keep ``whole``: that bounds the plain sums."""
        if self.epsilon <= whole.epsilon and self.delta <= whole.delta:
            return self
        kept = {f.name: getattr(self, f.name) for f in fields(self)}
        return Total(**{**kept, "epsilon": whole.epsilon, "delta": whole.delta})

    def composed(self, delta: int, *, basic_only: bool = False) -> float:
        """Return the epsilon that all releases together keep at ``delta`` units; infinite if delta is too small."""
        basic = self.epsilon / UNITS if self.delta <= delta else math.inf
        return basic if basic_only else min(basic, *self._with_gaussian(delta - self.others_delta - self.slack))

    def spent(self, delta: float) -> tuple[float, float]:
        """Return epsilon and delta of all releases; those with Gaussian noise compose at ``delta``, their study's."""
        units = up(delta, DELTA_UNITS) if self.mu2 else self.delta
        return self.composed(units), units / DELTA_UNITS

    def _with_gaussian(self, left: int) -> tuple[float, float]:
        """Return what the Gaussian and the advanced rule give, where so much of delta is left for them."""
        if left < 0 or (left == 0 and self.mu2):
            return math.inf, math.inf
        mu, part = math.sqrt(self.mu2) / UNITS * _ROUNDED_UP, left / DELTA_UNITS
        plain = self.others / UNITS + (_epsilon(mu, part) if mu else 0.0)
        if not (self.squares and left):
            return plain, math.inf
        half = part / 2 if mu else part
        spread = math.sqrt(2 * math.log(1 / min(half, 1.0)) * self.squares) / UNITS
        return plain, self.drift / UNITS + spread * _ROUNDED_UP + (_epsilon(mu, half) if mu else 0.0)

    def fits(self, epsilon: int, delta: int, *, basic_only: bool = False) -> bool:
        """Say whether all releases together keep (epsilon, delta), both in units."""
        if self.epsilon <= epsilon and self.delta <= delta:
            return True
        return self.composed(delta, basic_only=basic_only) <= epsilon / UNITS


def _epsilon(mu: float, delta: float) -> float:
    """Return the epsilon of mu at delta; 0 where delta is 1 or more, as any two data sets keep that."""
    return epsilon_of(mu, delta) if delta < 1 else 0.0
