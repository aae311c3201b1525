"""Square roots of fractions, rounded up in integer arithmetic, so that every machine gets the same number."""

import math
from fractions import Fraction

__all__ = ["root_up"]


def root_up(square: Fraction, bits: int) -> Fraction:
    """Return the least multiple of 2^-bits whose square is at least ``square``, for a ``square`` greater than 0."""
    return Fraction(math.isqrt(math.ceil(square * (1 << 2 * bits)) - 1) + 1, 1 << bits)
