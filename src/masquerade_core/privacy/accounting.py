"""Accounting: the joint cost of several releases over the same records, and the exact privacy of Gaussian noise.

Costs are integers, so that no small one is lost. A *cost* is (epsilon, delta) of one release. If its noise is Gaussian,
it has a mu as well, and a *slack*: the delta that pays for the distance of the drawn noise from a Gaussian. Costs add
up to a :class:`Total`. Three rules say which epsilon a total keeps at a given delta. Each of them is valid, so the
smallest epsilon is:

* *basic*: epsilons and deltas add up (Dwork and others 2006).
* *Gaussian*: the mu of Gaussian releases compose exactly to a root of squares; the other releases add up.
* *advanced*: the same, with the other releases composed by Theorem 3.5 of Kairouz, Oh and Viswanath 2015.

Delta adds up in all of them. ``docs/budget.md`` says what holds if studies are chosen in the light of earlier results.

*Gaussian noise* has an exact privacy: delta as a function of epsilon, and back. Add noise of standard deviation sigma
to a vector that differs by at most Delta in L2 norm between neighbours. Telling the neighbours apart is then as hard as
telling one number drawn from N(0, 1) from one drawn from N(mu, 1), with mu = Delta/sigma. Several rounds with mu_1,
mu_2, ... compose exactly to mu = sqrt(sum_t mu_t^2), also where each round depends on those before. Anything that is
computed from the noisy vectors costs no more privacy. That covers noise that is rounded to a grid afterwards.

A sum of discrete Gaussian variables is so close to a rounded normal variable that all this holds for it, if delta is
larger by a tiny tau: :mod:`masquerade_core.privacy.closeness`.

References
----------
Balle and Wang 2018, "Improving the Gaussian mechanism for differential privacy", Theorem 8. Dong, Roth and Su 2022,
"Gaussian differential privacy", Corollaries 2.13 and 3.3.
"""

import math
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import lru_cache
from operator import add
from typing import Self

from masquerade_core.privacy.numbers import mills, phi, require

__all__ = [
    "DELTA_UNITS",
    "LEAST_SHARE_SIGMA",
    "UNITS",
    "Cost",
    "Total",
    "cost_of",
    "delta_of",
    "down",
    "epsilon_of",
    "mu_of",
    "target",
    "up",
]


LEAST_SHARE_SIGMA = 3
"""The least sigma of a summand, in grid units: from here on the steps of the grid hardly show in a sum of two or more.

What is left of them is 10 exp(-pi^2 3^2) < 10^-37.
"""

# --- Gaussian dp -----------------------------------------------------------------

_KEPT = 4096  # results of a bisection; a statement asks for the same ones again and again
_SMALL = 2.0**-16  # the difference of two values of R loses too many digits where mu is less
_STEPS = 200  # at most, of a bisection; it ends earlier, when no float lies between its two ends
_ROUGH = 1e-10  # of the first term of delta(epsilon): over a hundred times the errors of both ways to compute it
_LARGE, _RARE = 600.0, 1e-250  # an epsilon and a chance between which nothing overflows and nothing loses digits


def delta_of(mu: float, epsilon: float) -> float:
    """Return delta(epsilon) = Phi(-epsilon/mu + mu/2) - exp(epsilon) Phi(-epsilon/mu - mu/2).

    Parameters
    ----------
    mu : float
        Sensitivity over standard deviation, greater than 0.
    epsilon : float
        At least 0.

    Notes
    -----
    With a, b = epsilon/mu -+ mu/2 and R(x) = Phi(-x)/phi(x) this is phi(a) (R(a) - R(b)), as exp(epsilon) phi(b) =
    phi(a). In this form nothing overflows, and a small result is a difference of large numbers only where mu is tiny.
    There, R(a) - R(b) is mu times the slope halfway, 1 - m R(m) with m = epsilon/mu, up to a factor within 1 and 1 +
    mu^2/12.
    """
    require(mu > 0 and epsilon >= 0, "mu must be greater than 0, and epsilon at least 0")
    a, b = epsilon / mu - mu / 2, epsilon / mu + mu / 2
    density = math.exp(-a * a / 2) / math.sqrt(2 * math.pi)
    if mu < _SMALL:
        middle = epsilon / mu
        return density * mu * max(0.0, 1 - middle * mills(middle))
    if a < 0:
        return phi(-a) - density * mills(b)
    return density * (mills(a) - mills(b))


def _exceeds(mu: float, epsilon: float, delta: float) -> bool:
    """Return whether :func:`delta_of` gives more than ``delta``; floats settle it where no error of theirs matters."""
    first, second = phi(mu / 2 - epsilon / mu), phi(-mu / 2 - epsilon / mu)
    if epsilon < _LARGE and second > _RARE:
        rough = first - math.exp(epsilon) * second
        if abs(rough - delta) > _ROUGH * first:
            return rough > delta
    return delta_of(mu, epsilon) > delta


@lru_cache(maxsize=_KEPT)
def epsilon_of(mu: float, delta: float) -> float:
    """Return the smallest epsilon >= 0 with delta(epsilon) <= delta, rounded up to the float above.

    Parameters
    ----------
    mu : float
        Greater than 0.
    delta : float
        Between 0 and 1, ends excluded.

    Notes
    -----
    The result is at most mu^2/2 + mu sqrt(2 ln(1/delta)): there, delta(epsilon) < Phi(-sqrt(2 ln(1/delta))) < delta.
    """
    require(mu > 0 and 0 < delta < 1, "mu must be greater than 0, and delta between 0 and 1")
    low, high = 0.0, mu * mu / 2 + mu * math.sqrt(-2 * math.log(delta))
    if not _exceeds(mu, low, delta):
        return low
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if not low < middle < high:
            break
        low, high = (middle, high) if _exceeds(mu, middle, delta) else (low, middle)
    return high


@lru_cache(maxsize=_KEPT)
def mu_of(epsilon: float, delta: float) -> float:
    """Return the largest mu with delta(epsilon) <= delta: noise of sigma = Delta/mu meets the target (epsilon, delta).

    Parameters
    ----------
    epsilon : float
        At least 0.
    delta : float
        Between 0 and 1, ends excluded.
    """
    require(epsilon >= 0 and 0 < delta < 1, "epsilon must be at least 0, and delta between 0 and 1")
    low, high = 0.0, 1.0
    while not _exceeds(high, epsilon, delta):
        low, high = high, 2 * high
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if not low < middle < high:
            break
        low, high = (low, middle) if _exceeds(middle, epsilon, delta) else (middle, high)
    return low


# --- Composition --------------------------------------------------------------------


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
