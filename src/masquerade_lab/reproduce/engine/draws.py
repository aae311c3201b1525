"""Random numbers of simulations, from a seed's bits, in floating point: nothing that is made of them is private."""

import numpy as np
from numpy.typing import NDArray

from masquerade_core.rng import Rng

__all__ = ["normals"]


def normals(rng: Rng, count: int) -> NDArray[np.float64]:
    """Return independent standard normals; of uniforms in (0, 1] on a grid of 2^-53."""
    pairs = (count + 1) // 2
    bits = np.frombuffer(rng.bytes(16 * pairs), dtype="<u8").reshape(2, pairs)
    u, v = ((bits >> np.uint64(11)) + np.uint64(1)) * 2.0**-53
    radius, turn = np.sqrt(-2 * np.log(u)), 2 * np.pi * v
    return np.concatenate([radius * np.cos(turn), radius * np.sin(turn)])[:count]
