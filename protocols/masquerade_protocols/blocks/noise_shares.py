"""A party's share of Gaussian noise for all rounds of a run, and for those that are made again.

Vectors and noise are arrays of 64-bit integers, so that adding them takes the same steps whatever they hold. Where a
study's noise is so large that sums need more than 64 bits, they are Python's integers.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from masquerade_core.crypto.masks import as_array
from masquerade_core.errors import LocalProtocolError
from masquerade_core.privacy.noise.gaussian_rounds import SharedNoise
from masquerade_core.privacy.samplers.discrete_gaussian import discrete_gaussian
from masquerade_core.rng import Rng
from masquerade_protocols.blocks.layouts import Layout

__all__ = ["FreshNoise", "draw_noise_share", "kept", "to_keep"]


def draw_noise_share(rng: Rng, noise: SharedNoise, d: int) -> tuple[tuple[int, ...], ...]:
    """Draw one party's share of the noise: for each of T + R sums, d integers in units of the grid.

    The last R are for rounds that are made again.
    """
    drawn = discrete_gaussian(rng, noise.share, noise.releases * d)
    return tuple(tuple(drawn[t * d : (t + 1) * d]) for t in range(noise.releases))


class FreshNoise:
    """Noise that never served. A role makes it of what it drew, before any sum is opened.

    Parameters
    ----------
    drawn : iterable of int
    """

    def __init__(self, drawn: Iterable[int]) -> None:
        self._left = as_array(list(drawn))

    def on(self, own: NDArray[Any], layout: Layout) -> NDArray[Any]:
        """Return one's own part of a sum under the next numbers of noise, which no other sum had or will have.

        Raises
        ------
        LocalProtocolError
            Less noise is left than the sum has numbers, which follows from public numbers: a bug of the protocol.
        """
        taken, self._left = np.split(self._left, [len(own)])
        if len(taken) != len(own):
            raise LocalProtocolError(f"{len(own)} numbers need noise, and {len(taken)} of it are left")
        noisy: NDArray[Any] = (own if layout.machine else own.astype(object)) + taken
        return noisy


def to_keep(vector: NDArray[Any]) -> bytes | tuple[int, ...]:
    """Return a vector as plain data, for a result of ``once``: 8 bytes for each number of an array of int64."""
    return vector.astype("<i8").tobytes() if vector.dtype == np.int64 else tuple(vector.tolist())


def kept(plain: bytes | tuple[int, ...]) -> NDArray[Any]:
    """Return the vector of which :func:`to_keep` made plain data."""
    return np.frombuffer(plain, dtype="<i8") if isinstance(plain, bytes) else np.array(plain, dtype=object)
