"""Where randomness comes from: the operating system in a run, a seed only in a simulation.

A role never holds a source of its own. It receives one inside ``Seat.once`` and nowhere else.
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
    """Integers from bytes, by masking and rejection; a source says only where its bytes come from."""

    @abstractmethod
    def bytes(self, n: int) -> bytes:
        """Return ``n`` uniform bytes."""

    def bits(self, k: int) -> int:
        """Return an integer uniform in [0, 2^k)."""
        return int.from_bytes(self.bytes((k + 7) // 8), "big") >> (-k % 8)

    def below(self, n: int) -> int:
        """Return an integer uniform in [0, n), n >= 1."""
        if n < 1:
            msg = "this program asked for a draw from an empty range"
            raise LocalProtocolError(msg)
        k = (n - 1).bit_length()
        while (value := self.bits(k)) >= n:
            pass
        return value


class SystemRng(FromBytes):
    """The operating system's source: what every networked process uses."""

    def bytes(self, n: int) -> bytes:
        """Return ``n`` bytes of ``secrets``."""
        return secrets.token_bytes(n)


class SimulationRng(FromBytes):
    """SHAKE-256 over a seed: repeatable, so **not private**; a networked process refuses it.

    Parameters
    ----------
    seed : int or str
        Equal seeds and labels give equal streams.
    label : str
        Who draws; different labels give independent streams.
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
