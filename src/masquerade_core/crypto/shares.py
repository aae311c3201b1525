"""Additive shares, permutations from a common seed, and masks from a common key.

All arithmetic is modulo a public integer. So a share hides its value perfectly: it is uniform, whatever the value is.
"""

import hashlib
from collections.abc import Sequence

from masquerade_core.rng import FromBytes, Rng

__all__ = ["invert", "mask", "permutation", "random_permutation", "share"]


def share(rng: Rng, value: int, modulus: int) -> tuple[int, int]:
    """Split ``value`` into (a, b) with a + b = value mod ``modulus``, a uniform."""
    a = rng.below(modulus)
    return a, (value - a) % modulus


def random_permutation(rng: Rng, size: int) -> tuple[int, ...]:
    """Draw a uniform permutation of 0 .. size-1 (Fisher-Yates)."""
    order = list(range(size))
    for i in reversed(range(1, size)):
        j = rng.below(i + 1)
        order[i], order[j] = order[j], order[i]
    return tuple(order)


class _Stream(FromBytes):
    """SHAKE-256 as a source of draws that are the same for all who hold the seed."""

    def __init__(self, seed: bytes, label: str) -> None:
        self._seed = seed + b"\0" + label.encode() + b"\0"
        self._at = 0

    def bytes(self, n: int) -> bytes:
        """Return the next ``n`` bytes."""
        self._at += 1
        return hashlib.shake_256(self._seed + self._at.to_bytes(8, "big")).digest(n)


def permutation(seed: bytes, label: str, size: int) -> tuple[int, ...]:
    """Derive the permutation that everybody who holds ``seed`` derives under this label."""
    return random_permutation(_Stream(seed, label), size)


def invert(order: Sequence[int]) -> tuple[int, ...]:
    """Return the inverse permutation: invert(p)[p[i]] = i."""
    inverse = [0] * len(order)
    for i, p in enumerate(order):
        inverse[p] = i
    return tuple(inverse)


def mask(key: bytes, label: bytes, modulus: int, count: int) -> tuple[int, ...]:
    """Expand a pairwise key into ``count`` values modulo ``modulus``, within 2^-128 of uniform."""
    width = (modulus.bit_length() + 128 + 7) // 8
    stream = hashlib.shake_256(key + label).digest(width * count)
    return tuple(int.from_bytes(stream[i * width : (i + 1) * width], "big") % modulus for i in range(count))
