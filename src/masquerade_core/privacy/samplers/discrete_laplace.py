"""The discrete Laplace law on the integers: an exact sampler, and a bound on its tail."""

import math
from decimal import Decimal
from fractions import Fraction

from masquerade_core.privacy.numbers import decimal_of, digits
from masquerade_core.privacy.samplers.discrete_gaussian import discrete_laplace_draw
from masquerade_core.rng import TAIL_BITS, Bits, Rng, check_positive

__all__ = ["discrete_laplace", "tail_bound"]

_DIGITS = 140  # in which a bound is computed


def discrete_laplace(rng: Rng, scale: Fraction, size: int) -> list[int]:
    """Draw independent integers with P(x) proportional to exp(-|x|/scale), exactly.

    Parameters
    ----------
    rng : Rng
        The only source of randomness.
    scale : Fraction
        Greater than 0; an integer counts as one grid unit.
    size : int
        How many integers.

    References
    ----------
    Canonne, Kamath, Steinke, arXiv 2004.00010, Algorithm 2, with t/s = scale.
    """
    check_positive(scale)
    source, t, s = Bits(rng), scale.numerator, scale.denominator
    return [discrete_laplace_draw(source, t, s) for _ in range(size)]


def tail_bound(scale: Fraction, bits: int = TAIL_BITS, count: int = 1) -> int:
    """Return the smallest B with ``count`` P(|x| > B) <= 2^-bits for a discrete Laplace x of this scale.

    So any of ``count`` draws exceeds B with a chance of at most 2^-bits.

    Notes
    -----
    P(|x| > B) = 2 q^(B+1) / (1+q) with q = exp(-1/scale).
    """
    check_positive(scale)
    with digits(_DIGITS):
        inverse = decimal_of(1 / scale)
        logarithm = bits * Decimal(2).ln() + (2 * count / (1 + (-inverse).exp())).ln()
        return max(0, math.ceil(logarithm / inverse) - 1)
