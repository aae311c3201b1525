"""Where an audit's noise comes from: the protocols' own samplers, or faster ones with the same distributions.

An exact sampler takes a tenth of a millisecond for a vector, and an audit of a thousand rounds needs millions of them.
So this module draws the same distributions in floating point, rounded to the same grid, from an ordinary generator.
Such noise serves audits alone: an audit depends on how much noise there is and on what, and not on its last bits. Tests
of Kolmogorov and Smirnov compare the distributions with the samplers' (``tests/unit/lab/test_audit.py``).
"""

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from masquerade_core.simulation_rng import SimulationRng

__all__ = ["Source"]

_Array = NDArray[np.float64]


class Source:
    """The randomness of one audit's runs over one data set, all drawn from a seed.

    Parameters
    ----------
    seed : int
    label : str
        Different labels give independent streams.

    Attributes
    ----------
    rng : SimulationRng
        For the protocols' own samplers.
    """

    def __init__(self, seed: int, label: str) -> None:
        self._seed, self._label = seed, label
        self.rng = SimulationRng(seed, label)
        entropy = int.from_bytes(SimulationRng(seed, f"{label}: fast").bytes(16), "big")
        self._fast = np.random.default_rng(entropy)  # noqa: TID251  it releases nothing

    def seat(self, run: int, who: str) -> SimulationRng:
        """Return the source of one participant in one run."""
        return SimulationRng(self._seed, f"{self._label} {run} {who}")

    def l2(self, beta: Fraction, shape: tuple[int, ...], bits: int) -> _Array:
        """Draw vectors distributed as :func:`~masquerade_core.privacy.samplers.l2_laplace.l2_laplace` draws them.

        Parameters
        ----------
        beta : Fraction
            The rate of the density exp(-beta |x|_2).
        shape : tuple of int
            The last entry is d.
        bits : int
            The grid is that of 2^-bits.
        """
        normal = self._fast.standard_normal(shape)
        normal /= np.linalg.norm(normal, axis=-1, keepdims=True)
        normal *= self._fast.standard_gamma(shape[-1], (*shape[:-1], 1)) / float(beta)
        return _gridded(normal, bits)

    def l2_coordinate(self, beta: Fraction, d: int, shape: tuple[int, ...], bits: int) -> _Array:
        """Draw one coordinate of each of many vectors of :meth:`l2` in R^d, which is faster; d is at least 2."""
        normal = self._fast.standard_normal(shape)
        length = np.sqrt(normal * normal + self._fast.chisquare(d - 1, shape))
        normal *= self._fast.standard_gamma(d, shape) / length
        return _gridded(normal / float(beta), bits)

    def gaussian(self, sigma: Fraction, shape: tuple[int, ...], bits: int) -> _Array:
        """Draw Gaussian noise on a grid of 2^-bits, in units of 1.

        It is distributed as :func:`~masquerade_core.privacy.samplers.rounded_gaussian.gaussian` draws it. Discrete
        Gaussian noise of thousands of grid units differs from it by far less than an audit can see.
        """
        return _gridded(float(sigma) * self._fast.standard_normal(shape), bits)


def _gridded(values: _Array, bits: int) -> _Array:
    return np.asarray(np.rint(values * 2.0**bits) / 2.0**bits, dtype=np.float64)
