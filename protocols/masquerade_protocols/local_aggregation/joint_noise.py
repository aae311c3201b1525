"""Calibration "proven": every party draws a share of the noise, so nobody knows the whole of it.

Pathak, Rane and Raj let the smallest party draw all of the noise. That party can then take the noise off again. Here
each of the K parties draws a share, and any h = K - colluders of the shares are enough for the privacy target
(:mod:`masquerade_core.privacy.noise.joint_gaussian`). What a party adds up in integers, and what it draws, is here. How
its scale becomes known is in :mod:`masquerade_protocols.local_aggregation.size_class` (``scale = "selected"``) and
:mod:`masquerade_protocols.local_aggregation.public_scale` (the other two rules).
"""

from collections.abc import Sequence
from fractions import Fraction

from masquerade_core.errors import RefusedLocally
from masquerade_core.privacy.noise.joint_gaussian import MOST_COUNTED_RECORDS, JointNoise
from masquerade_core.privacy.samplers.discrete_gaussian import discrete_gaussian
from masquerade_core.rng import Rng
from masquerade_protocols.local_aggregation.public import JOINT_FRACTION_BITS

__all__ = ["check_size", "draw", "encode"]


def draw(rng: Rng, noise: JointNoise) -> tuple[int, ...]:
    """Draw a party's share of the noise: d integers on the grid of 2^-F, cut off at the bound that slots hold.

    Its distribution follows from public numbers alone, and not from n_j. Delta counts the small chance of a cut.
    """
    sigma = noise.share()
    reach = noise.reach(sigma)
    return tuple(max(-reach, min(reach, v)) for v in discrete_gaussian(rng, sigma, noise.d))


def encode(w: Sequence[float], weight: int = 1) -> tuple[int, ...]:
    """Round weight times w to the grid of 2^-F, once. Weight times a rounded w would show the weight as a divisor."""
    return tuple(round(weight * Fraction(v) * (1 << JOINT_FRACTION_BITS)) for v in w)


def check_size(n: int, noise: JointNoise) -> None:
    """Refuse a number of records for which the noise is not worked out.

    Raises
    ------
    RefusedLocally
        The party has fewer records than the study's ``min_records``, or more than the proof counts.
    """
    if n < noise.min_records:
        raise RefusedLocally(
            f"this party has fewer records than the study's min_records, {noise.min_records}",
            "take part with more records, or ask the coordinator for a study with a smaller min_records",
        )
    if noise.scale_rule == "sizes" and n > MOST_COUNTED_RECORDS:
        raise RefusedLocally(
            f'this party has more than {MOST_COUNTED_RECORDS:,} records, but with weights = "sizes" that is the most '
            "for which the noise is worked out",
            'take part with fewer records, or ask the coordinator for a study with weights = "uniform"',
        )
