"""Calibration "proven": every party draws a share of the noise, so nobody knows the whole of it.

Pathak, Rane and Raj let the smallest party draw all of the noise. That party can then take the noise off again. Here
each of the K parties draws a share, and any h = K - colluders of the shares are enough for the privacy target
(:mod:`masquerade_core.privacy.noise.joint_gaussian`).

With ``scale = "selected"`` the noise has the scale b of the smallest party. Stage 1 and Charlie's indicator u are the
paper's. Stage 2 first takes b, under Charlie's key zeta; then every party multiplies its own unit noise g_j by b::

    party P_j                                  Charlie                  lead P_L
  2.2 |~~~~~~~ ScaleTerm: v_j b_j ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~>|   2n/8 + 40
      |<~~~~~~ Scale: b = sum_j v_j b_j ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~|   2n/8 + 40
  2.3 |~~~~~~~ NoiseTerm: b g_j + S_j ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~>|   m 2n/8 + 40
  3.1 |                                           |<------ NoiseTotal ------|   b sum_j g_j + sum_j S_j
  3.3 |-------- Share: W_j + f_j - S_j + z_j ---->|

Each party adds its fine noise f_j to W_j without any multiplication. Without f_j the release modulo b would be sum_j
W_j modulo b, with no noise at all.

With the other two scale rules the scale of the noise is public: see
:mod:`masquerade_protocols.local_aggregation.public_scale`.
"""

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

from masquerade_core.crypto.packing import Packing
from masquerade_core.crypto.paillier import Ciphertext, FullPool
from masquerade_core.errors import LocalProtocolError, RefusedLocally
from masquerade_core.privacy.noise.joint_gaussian import MOST_COUNTED_RECORDS, UNIT, JointNoise
from masquerade_core.privacy.samplers.discrete_gaussian import discrete_gaussian
from masquerade_core.rng import Rng
from masquerade_core.seat import Seat
from masquerade_core.study import Study
from masquerade_core.wire.messages import PARTIES, Ciphertexts, SealedMessage
from masquerade_protocols.local_aggregation.public import JOINT_FRACTION_BITS

__all__ = [
    "Drawn",
    "Scale",
    "ScaleTerm",
    "check_size",
    "draw",
    "encode",
    "own_scale",
    "select_scale",
    "without_offsets",
]


class ScaleTerm(SealedMessage):
    """Step 2.2, P_j to the lead: zeta(v_j b_j), with an offset in the exponent."""

    term: Ciphertexts


class Scale(SealedMessage):
    """Step 2.2, the lead to all: zeta(b)."""

    scale: Ciphertexts


# --- Before the join ----------------------------------------------------------------


class Drawn(NamedTuple):
    """A party's share of the noise: unit noise (with "selected" alone), and noise on the grid of 2^-F."""

    unit: tuple[int, ...]
    fine: tuple[int, ...]


def draw(rng: Rng, noise: JointNoise) -> Drawn:
    """Draw a party's share. Its distribution follows from public numbers alone, and not from n_j."""
    if noise.scale_rule == "selected":
        return Drawn(_bounded(rng, noise, Fraction(UNIT)), _bounded(rng, noise, noise.fine))
    return Drawn((), _bounded(rng, noise, noise.share()))


def _bounded(rng: Rng, noise: JointNoise, sigma: Fraction) -> tuple[int, ...]:
    """Draw d integers, and cut them off at the bound that slots hold. Delta counts the small chance of a cut."""
    reach = noise.reach(sigma)
    return tuple(max(-reach, min(reach, v)) for v in discrete_gaussian(rng, sigma, noise.d))


def encode(w: Sequence[float], weight: int = 1) -> tuple[int, ...]:
    """Round weight times w to the grid of 2^-F, once. Weight times a rounded w would show the weight as a divisor."""
    return tuple(round(weight * Fraction(v) * (1 << JOINT_FRACTION_BITS)) for v in w)


def own_scale(noise: JointNoise, n_j: int) -> int:
    """Return b_j, the scale for n_j records, after :func:`check_size`."""
    check_size(n_j, noise)
    b_j = noise.scale(n_j)
    if not 0 < b_j <= noise.largest_scale:
        raise LocalProtocolError(f"a party's scale lies outside 1 .. {noise.largest_scale}, the range that slots allow")
    return b_j


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


# --- Step 2.2: the scale of the smallest party, under encryption -----------------------


async def select_scale(seat: Seat, study: Study, noise: JointNoise, v_j: Ciphertext, b_j: int) -> Ciphertext:
    """Return zeta(b), where b is the scale for the smallest party's records. Nobody can open it without Charlie.

    Parameters
    ----------
    seat, study, noise : Seat, Study, JointNoise
    v_j : Ciphertext
        zeta(1) at the smallest party, zeta(0) elsewhere.
    b_j : int
        From :func:`own_scale`.
    """
    zeta = v_j.key
    entries = await seat.once("obfuscator of the scale", lambda rng: zeta.full_obfuscators(rng, 1))
    pool = FullPool(zeta, entries)
    # The offset makes all exponents equally long. Since the v_j add up to 1, the total has exactly one offset in it.
    offset = 1 << noise.largest_scale.bit_length()
    power = await seat.once("scale", lambda _: (v_j * (b_j + offset)).to_int())
    term = Ciphertext(zeta, power)
    if seat.me != study.lead:
        fresh = Ciphertexts.outgoing([pool.rerandomize(term, study.lead)])
        await seat.send_sealed(ScaleTerm(term=fresh), study.lead)
        (scale,) = (await seat.receive(Scale, study.lead)).scale.read(zeta, 1, study.lead)
        return scale
    # All K terms, or nothing: without the smallest party's term, b would be 0.
    for name, message in (await seat.gather(ScaleTerm)).items():
        (received,) = message.term.read(zeta, 1, name)
        term = term + received
    scale = term + -offset
    await seat.send_sealed(Scale(scale=Ciphertexts.outgoing([pool.rerandomize(scale, PARTIES)])))
    return scale


def without_offsets(total: Sequence[Ciphertext], scale: Ciphertext, layout: Packing, K: int) -> list[Ciphertext]:
    """Subtract b times every party's exponent offset. Nobody knows b, so this happens under encryption.

    The exponent is -K times the offset, modulo the key's N. It is public, so its length tells nothing.
    """
    n = scale.key.n
    return [c + scale * (-K * offset % n) for c, offset in zip(total, layout.exponent_offsets(), strict=True)]
