"""A party's share of Gaussian noise for all rounds of a run, and for those that are made again."""

from collections.abc import Iterator, Sequence
from operator import add

from masquerade_core.privacy.noise.gaussian_rounds import SharedNoise
from masquerade_core.privacy.samplers.discrete_gaussian import discrete_gaussian
from masquerade_core.rng import Rng

__all__ = ["draw_noise_share", "with_fresh_noise"]


def draw_noise_share(rng: Rng, noise: SharedNoise, d: int) -> tuple[tuple[int, ...], ...]:
    """Draw one party's share of the noise: for each of T + R sums, d integers in units of the grid.

    The last R are for rounds that are made again.
    """
    drawn = discrete_gaussian(rng, noise.share, noise.releases * d)
    return tuple(tuple(drawn[t * d : (t + 1) * d]) for t in range(noise.releases))


def with_fresh_noise(own: Sequence[int], unused: Iterator[int]) -> list[int]:
    """Return one's own part of a sum under the next numbers of noise, which no other sum had or will have."""
    return list(map(add, own, unused))
