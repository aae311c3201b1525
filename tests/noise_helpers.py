"""Helpers of the noise tests: the acceptance of a sample, and distributions to compare it with."""

from __future__ import annotations

from decimal import Decimal
from math import exp

P_ACCEPT = 1e-9
"""A correct sampler fails a test once in a thousand million runs."""

P_REJECT = 1e-20
"""A wrong scale is noticed beyond all doubt."""


def gaussian_law(sigma: float, reach: int = 40) -> dict[int, float]:
    """The discrete Gaussian law in floats, for integers up to ``reach`` sigma and a little beyond."""
    weights = {x: exp(-x * x / (2 * sigma * sigma)) for x in range(-int(reach * sigma) - 2, int(reach * sigma) + 3)}
    total = sum(weights.values())
    return {x: w / total for x, w in weights.items()}


def exact_gaussian_law(variance: Decimal, reach: int) -> list[Decimal]:
    """The discrete Gaussian law in decimals of the context's precision, for -reach, ..., reach."""
    weights = [(-Decimal(x * x) / (2 * variance)).exp() for x in range(-reach, reach + 1)]
    total = sum(weights)
    return [w / total for w in weights]
