"""Numbers of many bits for samplers, with gmpy2: uniform numbers, and the bits of bounds."""

from functools import cache

import gmpy2

from masquerade_core.rng import Bits

__all__ = ["BOUND_BITS", "grid", "uniforms"]

BOUND_BITS = 256
"""Bits of the arithmetic in which a bound is computed; a bound itself has at most 200 bits."""


def uniforms(source: Bits, bits: int, count: int) -> list[gmpy2.mpfr]:
    """Return ``count`` numbers uniform on the multiples of 2^-bits in (0, 1]."""
    cell = grid(bits)
    return [(value + 1) * cell for value in source.whole(bits, count)]


@cache
def grid(bits: int) -> gmpy2.mpfr:
    """Return 2^-bits, which is exact in any precision."""
    return gmpy2.mpfr(1) / (1 << bits)
