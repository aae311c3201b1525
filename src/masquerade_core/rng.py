"""Sources of randomness: the operating system in a real run, a seed in a simulation only.

A role, which is one participant's part of a protocol, never owns a source. It receives one inside ``Seat.once`` only.
"""

import hashlib
import secrets
from abc import ABC, abstractmethod
from typing import Protocol

from masquerade_core.errors import LocalProtocolError

__all__ = ["FromBytes", "Rng", "SimulationRng", "SystemRng"]


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


class SimulationRng(FromBytes):
    """A repeatable stream, SHAKE-256 of a seed. It is **not private**, and a networked process refuses it.

    Parameters
    ----------
    seed : int or str
        Equal seeds and labels give equal streams.
    label : str
        Names the participant who draws; different labels give independent streams.
    """

    _BLOCK = 1 << 16

    def __init__(self, seed: int | str, label: str = "") -> None:
        self._prefix = f"masquerade simulation\0{seed!r}\0{label}\0".encode()
        self._counter = 0
        self._buffer = b""

    def bytes(self, n: int) -> bytes:
        """Return the next ``n`` bytes of the stream."""
        while len(self._buffer) < n:
            block = self._prefix + self._counter.to_bytes(8, "big")
            self._buffer += hashlib.shake_256(block).digest(self._BLOCK)
            self._counter += 1
        out, self._buffer = self._buffer[:n], self._buffer[n:]
        return out
