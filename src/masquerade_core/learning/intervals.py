"""95 % intervals for what noisy counts estimate: they allow for the sample and for the noise.

A count that is opened is c + x. The true count c is random, since the records held back are a sample of all that there
could be; x is noise of a known variance tau^2. Two facts carry everything here. A sum of m counts has noise of variance
m tau^2. And of D records, those with a property of chance p vary by D p (1 - p).

Intervals solve for the chance, as Wilson's does: the chances p at which the observed count is at most z standard
deviations from what p predicts. So they keep their coverage near 0 and 1, where "estimate plus or minus z standard
errors" loses it.
"""

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

__all__ = ["COVERAGE", "UNKNOWN", "Estimate", "around", "fraction_of", "on_logit_scale", "share_of", "z_value"]

COVERAGE = 0.95

_DIGITS = 6
_AT_MOST = 2.0


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


def fraction_of(part: float, rest: float, part_noise: float, rest_noise: float, z: float) -> Estimate:
    """Estimate part/(part + rest), where both are noisy counts of disjoint sets of records.

    Parameters
    ----------
    part, rest : float
    part_noise, rest_noise : float
        The variances of their noise, which is independent.
    z : float
        From :func:`z_value`.

    Notes
    -----
    With D = part + rest the interval holds every p with (part - p D)^2 <= z^2 (D p (1 - p) + (1 - p)^2 part_noise +
    p^2 rest_noise). This is Fieller's way to treat a noisy denominator. If D itself is lost in the noise, every p
    passes.
    """
    D, z2 = part + rest, z * z
    if D <= 0:
        return UNKNOWN
    a = D * D + z2 * (D - part_noise - rest_noise)
    b = -2 * part * D - z2 * (D - 2 * part_noise)
    c = part * part - z2 * part_noise
    if z2 * (part_noise + rest_noise) >= D * D or a <= 0:
        return UNKNOWN
    root = math.sqrt(max(0.0, b * b - 4 * a * c))
    return Estimate(_inside(part / D), _inside((-b - root) / (2 * a)), _inside((-b + root) / (2 * a)))


def on_logit_scale(value: float, variance: float, z: float) -> Estimate:
    """Return value +- z standard deviations, drawn on the scale of log(x/(1 - x)), where an AUC is closer to normal.

    Very near 0 or 1 that scale exaggerates. So no end is farther from the value than twice what it would be without the
    scale.
    """
    wide = around(value, (_AT_MOST * z) ** 2 * variance, 1.0)
    if not 0 < value < 1:
        return wide
    middle, reach = math.log(value / (1 - value)), z * math.sqrt(variance) / (value * (1 - value))
    low, high = (0.5 * (1 + math.tanh((middle + sign * reach) / 2)) for sign in (-1, 1))
    return Estimate(value, max(low, wide.low), min(high, wide.high))


def around(value: float, variance: float, z: float) -> Estimate:
    """Return value +- z standard deviations, cut to [0, 1]."""
    reach = z * math.sqrt(max(0.0, variance))
    return Estimate(_inside(value), _inside(value - reach), _inside(value + reach))


def _inside(p: float) -> float:
    return min(1.0, max(0.0, p))
