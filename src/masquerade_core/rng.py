"""Sources of randomness: the operating system in a real run, :mod:`masquerade_core.simulation_rng` in a simulation.

A role, which is one participant's part of a protocol, never owns a source. It receives one inside ``Seat.once`` only.

Samplers take their bits from a buffered source, which also has an exact coin of chance exp(-x).
"""

import secrets
from abc import ABC, abstractmethod
from fractions import Fraction
from typing import Protocol

from masquerade_core.errors import LocalProtocolError
from masquerade_core.privacy.numbers import require

__all__ = [
    "TAIL_BITS",
    "Bits",
    "FromBytes",
    "Rng",
    "SystemRng",
    "check_positive",
]


class Rng(Protocol):
    """A source of uniform bits."""

    def bytes(self, n: int) -> bytes:
        """Return ``n`` uniform bytes."""
        ...

    def bits(self, k: int) -> int:
        """Return an integer uniform in [0, 2^k)."""
        ...

    def below(self, n: int) -> int:
        """Return an integer uniform in [0, n), n >= 1."""
        ...


class FromBytes(ABC):
    """Uniform integers from uniform bytes; a subclass says where the bytes come from."""

    @abstractmethod
    def bytes(self, n: int) -> bytes:
        """Return ``n`` uniform bytes."""

    def bits(self, k: int) -> int:
        """Return an integer uniform in [0, 2^k)."""
        return int.from_bytes(self.bytes((k + 7) // 8), "big") >> (-k % 8)

    def below(self, n: int) -> int:
        """Return an integer uniform in [0, n), n >= 1."""
        if n < 1:
            msg = f"a number from 0 to {n - 1} was to be drawn, which is an empty range; the bound must be at least 1"
            raise LocalProtocolError(msg)
        k = (n - 1).bit_length()
        while (value := self.bits(k)) >= n:
            pass
        return value


class SystemRng(FromBytes):
    """The operating system's source of randomness, which every networked process uses."""

    def bytes(self, n: int) -> bytes:
        """Return ``n`` uniform bytes from the module ``secrets``."""
        return secrets.token_bytes(n)


# --- Bits for samplers --------------------------------------------------------------


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


def check_positive(*scales: Fraction) -> None:
    """Stop unless all scales of noise are greater than 0.

    Raises
    ------
    LocalProtocolError
        One is not.
    """
    require(min(scales) > 0, "a scale of noise must be greater than 0")
