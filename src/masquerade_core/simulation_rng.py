"""Randomness that follows from a seed, for simulations and tests. No process of a run loads it."""

import hashlib

from masquerade_core.rng import FromBytes

__all__ = ["SimulationRng"]


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
    _FIRST = 1 << 10  # of the first block: most streams are short, and a longer digest begins with the shorter one

    def __init__(self, seed: int | str, label: str = "") -> None:
        self._prefix = f"masquerade simulation\0{seed!r}\0{label}\0".encode()
        self._counter = 0  # whole blocks
        self._buffer = b""
        self._at = 0

    def _digest(self, length: int) -> bytes:
        return hashlib.shake_256(self._prefix + self._counter.to_bytes(8, "big")).digest(length)

    def bytes(self, n: int) -> bytes:
        """Return the next ``n`` bytes of the stream."""
        if self._at + n > len(self._buffer):
            self._go_on(n)
        self._at += n
        return self._buffer[self._at - n : self._at]

    def _go_on(self, n: int) -> None:
        """Put the next ``n`` bytes into the buffer, and more."""
        if not self._counter:
            if self._at + n <= self._FIRST:
                self._buffer = self._digest(self._FIRST)
                return
            self._buffer = self._digest(self._BLOCK)
            self._counter = 1
        self._buffer, self._at = self._buffer[self._at :], 0
        while len(self._buffer) < n:
            self._buffer += self._digest(self._BLOCK)
            self._counter += 1
