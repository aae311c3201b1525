"""Random bits for samplers: a buffered source, an exact coin of chance exp(-x), and uniform numbers."""

from fractions import Fraction
from functools import cache

import gmpy2

from masquerade_core.privacy.numbers import require
from masquerade_core.rng import FromBytes, Rng

__all__ = ["TAIL_BITS", "Bits", "check_positive", "grid", "uniforms"]

TAIL_BITS = 60
"""Unless told otherwise, bounds on noise are exceeded with a chance of at most 2^-TAIL_BITS."""

_CHUNK = 512


class Bits(FromBytes):
    """A source of random bits that fetches bytes in chunks.

    Samplers mostly need a few bits at a time, and each call of the underlying source costs more than the bits.

    Parameters
    ----------
    rng : Rng
        Where the bytes come from. Surplus bytes of the last chunk are thrown away.
    """

    def __init__(self, rng: Rng) -> None:
        self._rng = rng
        self._buffer = b""
        self._at = 0

    def bytes(self, n: int) -> bytes:
        """Return ``n`` uniform bytes."""
        if self._at + n > len(self._buffer):
            self._buffer, self._at = self._rng.bytes(max(n, _CHUNK)), 0
        self._at += n
        return self._buffer[self._at - n : self._at]

    def whole(self, k: int, count: int) -> list[int]:
        """Return the same integers as ``count`` calls of ``bits(k)``, faster."""
        n, surplus = (k + 7) // 8, -k % 8
        values: list[int] = []
        while len(values) < count:
            if self._at + n > len(self._buffer):
                self._buffer, self._at = self._rng.bytes(max(n, _CHUNK)), 0
            fit = min(count - len(values), (len(self._buffer) - self._at) // n)
            end = self._at + fit * n
            values += [int.from_bytes(self._buffer[i : i + n], "big") >> surplus for i in range(self._at, end, n)]
            self._at = end
        return values

    def exp_minus(self, numerator: int, denominator: int) -> bool:
        """Return True with probability exp(-numerator/denominator) exactly, for a ratio in [0, 1].

        References
        ----------
        Canonne, Kamath, Steinke, "The Discrete Gaussian for Differential Privacy", arXiv 2004.00010, Algorithm 1.
        """
        k = 1
        while self.below(denominator * k) < numerator:
            k += 1
        return k % 2 == 1


def uniforms(source: Bits, bits: int, count: int) -> list[gmpy2.mpfr]:
    """Return ``count`` numbers uniform on the multiples of 2^-bits in (0, 1]."""
    cell = grid(bits)
    return [(value + 1) * cell for value in source.whole(bits, count)]


@cache
def grid(bits: int) -> gmpy2.mpfr:
    """Return 2^-bits, which is exact in any precision."""
    return gmpy2.mpfr(1) / (1 << bits)


def check_positive(*scales: Fraction) -> None:
    """Stop unless all scales of noise are greater than 0.

    Raises
    ------
    LocalProtocolError
        One is not.
    """
    require(min(scales) > 0, "a scale of noise must be greater than 0")
