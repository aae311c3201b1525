"""95 % intervals for what noisy counts estimate: they allow for the sample and for the noise.

A count that is opened is c + x. The true count c is random, since the records held back are a sample of all that there
could be; x is noise of a known variance tau^2. Two facts carry everything here. A sum of m counts has noise of variance
m tau^2. And of D records, those with a property of chance p vary by D p (1 - p).

Intervals solve for the chance, as Wilson's does: the chances p at which the observed count is at most z standard
deviations from what p predicts. So they keep their coverage near 0 and 1, where "estimate plus or minus z standard
errors" loses it.

**Where no interval is given.** A fraction of few records is lost in the noise. Whether it is must not be asked of the
counts that the fraction is made of. Only runs whose noise made the denominator large would pass, and their intervals
would hold the truth too rarely. So :func:`stands_out` asks a second count of the same records, with noise of its own:
all records held back, whose number is public, less those that do not belong to them.
"""

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, NamedTuple

__all__ = [
    "COVERAGE",
    "UNKNOWN",
    "Estimate",
    "Noisy",
    "around",
    "fraction_of",
    "share_of",
    "solved",
    "stands_out",
    "z_value",
]

COVERAGE = 0.95

_DIGITS = 6
_STANDS_OUT = 4.0  # standard deviations of noise


@dataclass(frozen=True)
class Estimate:
    """An estimated number and its interval. Without a value, the noise drowns it.

    Parameters
    ----------
    value : float or None
    low, high : float
    """

    value: float | None
    low: float
    high: float

    def to_json(self) -> dict[str, Any]:
        """Return a JSON value, rounded to six digits after the point."""
        value = None if self.value is None else round(self.value, _DIGITS)
        return {"value": value, "low": round(self.low, _DIGITS), "high": round(self.high, _DIGITS)}


UNKNOWN = Estimate(None, 0.0, 1.0)
"""A fraction of which nothing can be told."""


class Noisy(NamedTuple):
    """An opened number, and the variance of the noise on it."""

    value: float
    variance: float


def stands_out(count: Noisy) -> bool:
    """Return whether there are enough records for an interval: a count of four standard deviations of its noise."""
    return count.value >= _STANDS_OUT * math.sqrt(count.variance)


def z_value(together: int = 1) -> float:
    """Return how many standard deviations an interval reaches to each side: 1.96 for one interval.

    Parameters
    ----------
    together : int
        How many intervals shall all hold at once with 95 % (Bonferroni's bound).
    """
    return NormalDist().inv_cdf(1 - (1 - COVERAGE) / (2 * together))


def share_of(count: float, noise: float, records: int, z: float) -> Estimate:
    """Estimate a share of all records held back, whose number is known.

    Parameters
    ----------
    count : float
        The noisy number of those that belong to the share.
    noise : float
        The variance of its noise.
    records : int
        All records held back, at least 1.
    z : float
        From :func:`z_value`.
    """
    p, v, s = _inside(count / records), noise / records**2, z * z / records
    # (p - x)^2 = z^2 (x (1 - x)/records + v)
    root = math.sqrt(max(0.0, s * (4 * p * (1 - p) + s) + 4 * z * z * v * (1 + s)))
    low, high = ((2 * p + s + sign * root) / (2 * (1 + s)) for sign in (-1, 1))
    return Estimate(p, _inside(low), _inside(high))


def fraction_of(part: Noisy, rest: Noisy, all_of_them: Noisy, z: float) -> Estimate:
    """Estimate part/(part + rest), where both are noisy counts of disjoint sets of records.

    Parameters
    ----------
    part, rest : Noisy
        Their noise is independent.
    all_of_them : Noisy
        A second count of the records of both, whose noise is independent of theirs. If it does not stand out, there is
        no interval.
    z : float
        From :func:`z_value`.

    Notes
    -----
    With D = part + rest the interval holds every p with (part - p D)^2 <= z^2 (D p (1 - p) + (1 - p)^2 v + p^2 w),
    where v and w are the variances of the noise. This is Fieller's way to treat a noisy denominator.
    """
    D, v, w = part.value + rest.value, part.variance, rest.variance
    if D <= 0 or not stands_out(all_of_them):
        return UNKNOWN
    return solved(part.value, D, (v, D - 2 * v, v + w - D), z)


def solved(numerator: float, denominator: float, variance: tuple[float, float, float], z: float) -> Estimate:
    """Return the fractions x at which numerator - x denominator is at most z standard deviations from 0.

    Parameters
    ----------
    numerator, denominator : float
        Their quotient is the estimate.
    variance : tuple of float
        (v_0, v_1, v_2): at x the difference has the variance v_0 + v_1 x + v_2 x^2.
    z : float
        From :func:`z_value`.

    Notes
    -----
    Fieller 1954: a quadratic inequality. Where the denominator itself is lost in the noise, its solutions have no end,
    and there is no interval.
    """
    a = denominator**2 - z * z * variance[2]
    b = -2 * numerator * denominator - z * z * variance[1]
    c = numerator**2 - z * z * variance[0]
    inside = b * b - 4 * a * c
    if a <= 0 or inside < 0:
        return UNKNOWN
    low, high = ((-b + sign * math.sqrt(inside)) / (2 * a) for sign in (-1, 1))
    return Estimate(_inside(numerator / denominator), _inside(low), _inside(high))


def around(value: float, variance: float, z: float) -> Estimate:
    """Return value +- z standard deviations, cut to [0, 1]."""
    reach = z * math.sqrt(max(0.0, variance))
    return Estimate(_inside(value), _inside(value - reach), _inside(value + reach))


def _inside(p: float) -> float:
    return min(1.0, max(0.0, p))
