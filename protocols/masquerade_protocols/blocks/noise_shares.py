"""A party's share of Gaussian noise for all rounds of a run."""

from masquerade_core.privacy.noise.gaussian_rounds import SharedNoise
from masquerade_core.privacy.samplers.discrete_gaussian import discrete_gaussian
from masquerade_core.rng import Rng

__all__ = ["draw_noise_share"]


def draw_noise_share(rng: Rng, noise: SharedNoise, d: int) -> tuple[tuple[int, ...], ...]:
    """Draw one party's share of the noise: for each of T rounds, d integers in units of the grid."""
    drawn = discrete_gaussian(rng, noise.share, noise.rounds * d)
    return tuple(tuple(drawn[t * d : (t + 1) * d]) for t in range(noise.rounds))
