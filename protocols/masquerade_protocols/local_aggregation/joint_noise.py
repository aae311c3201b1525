"""Local aggregation with noise that nobody knows: every party adds a share of it, at the scale that is proved.

Pathak, Rane and Raj let the smallest party draw all of the noise, which it can then take off again. Here each of the K
parties draws a share, and any h = K - colluders shares are enough (:mod:`masquerade_core.privacy.local_proven_claims`).

Where the scale is public ("floor": every party is taken to have ``min_records``; "sizes": classifiers count by their
numbers of records, and none is left in the scale) nothing is to be selected, and no key is needed::

    party P_j                                  Charlie
      | train w_j, draw x_j                       |
      |=== join: everybody's box key of this run =|
      |<~~~~~~~~~~~~~~~ coin toss ~~~~~~~~~~~~~~~>|   3 boxes to each other party
      |-------- Share: W_j + x_j + z_j ---------->|   or (n_j, n_j W_j + (0, x_j)) + z_j
      |<------- Published ------------------------|

Where it is selected, stage 1 and Charlie's indicator u are the paper's, and stage 2 first takes the scale b
of the smallest party, under Charlie's key, for every party's unit noise g_j::

    party P_j                                  Charlie                  lead P_L
  2.2 |~~~~~~~ ScaleTerm: v_j b_j ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~>|   2n/8 + 40
      |<~~~~~~ Scale: b = sum_j v_j b_j ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~|   2n/8 + 40
  2.3 |~~~~~~~ NoiseTerm: b g_j + S_j ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~>|   m 2n/8 + 40
  3.1 |                                           |<------ NoiseTotal ------|   b sum_j g_j + sum_j S_j
  3.3 |-------- Share: W_j + f_j - S_j + z_j ---->|

The fine noise f_j enters in the clear, beside W_j: without it the release modulo b would be sum_j W_j modulo b.
"""

from collections.abc import Sequence
from fractions import Fraction
from math import ceil, isqrt
from typing import NamedTuple

from masquerade_core.crypto.packing import Packing
from masquerade_core.crypto.paillier import Ciphertext, FullPool
from masquerade_core.data.schema import Dataset
from masquerade_core.errors import LocalProtocolError, RefusedLocally, RunFailed
from masquerade_core.learning.erm import fit
from masquerade_core.model import Model, Shares
from masquerade_core.privacy.noise.joint_gaussian import MOST_COUNTED_RECORDS, UNIT, JointNoise
from masquerade_core.privacy.samplers.discrete_gaussian import discrete_gaussian
from masquerade_core.rng import Rng
from masquerade_core.seat import Seat
from masquerade_core.study import Study, as_fraction
from masquerade_core.wire.messages import PARTIES, Ciphertexts, SealedMessage
from masquerade_protocols.blocks.coin_toss import coin_toss
from masquerade_protocols.local_aggregation.additive_shares import give_share, publish_shares

__all__ = [
    "FRACTION_BITS",
    "Drawn",
    "Scale",
    "ScaleTerm",
    "charlie",
    "draw",
    "encode",
    "grid_norm",
    "noise_of",
    "own_scale",
    "packing",
    "party",
    "select_scale",
    "without_offsets",
]

FRACTION_BITS = 40  # F: so fine that a scale b, in units of 2^(20-F), is rounded up by little


class ScaleTerm(SealedMessage):
    """Step 2.2, P_j to the lead: zeta(v_j b_j), with an offset in the exponent."""

    term: Ciphertexts


class Scale(SealedMessage):
    """Step 2.2, the lead to all: zeta(b)."""

    scale: Ciphertexts


class Drawn(NamedTuple):
    """What a party draws before it joins: unit noise (of "selected" alone), and noise on the grid of 2^-F."""

    unit: tuple[int, ...]
    fine: tuple[int, ...]


# --- What follows from the study alone -----------------------------------------------


def noise_of(study: Study, law: str) -> JointNoise:
    """Return the noise of a study; ``law`` is "selected", "floor" or "sizes"."""
    return JointNoise(
        law=law,
        K=study.K,
        d=study.d,
        honest=study.honest,
        epsilon=study.privacy.epsilon,
        delta=study.privacy.delta,
        Lambda=study.model.regularization,
        min_records=study.study.min_records,
        fraction_bits=FRACTION_BITS,
    )


def grid_norm(Lambda: float, fraction_bits: int) -> int:
    """Bound |w_j|_2 in units of 2^-F: at most sqrt(2 ln 2 / Lambda), for w_j costs no more than w = 0."""
    # 2 ln 2 < 1.3863; in integers, so that every machine lays out the same slots.
    square = Fraction(13863, 10000) / as_fraction(Lambda) * (1 << 2 * fraction_bits)
    return isqrt(ceil(square)) + 2


def packing(study: Study, noise: JointNoise) -> Packing:
    """Lay out the sum of K vectors with their noise; for "sizes", after n. Noise that is of any use fits every key.

    Raises
    ------
    BadInput
        There is no noise for the wish, or it is beyond all use.
    """
    counts = MOST_COUNTED_RECORDS if noise.law == "sizes" else 1
    bound = study.K * counts * grid_norm(study.model.regularization, FRACTION_BITS)
    return Packing(study.d + (noise.law == "sizes"), bound + noise.largest, study.crypto.key_bits)


def draw(rng: Rng, noise: JointNoise) -> Drawn:
    """Draw a party's share: of unit and fine noise, or of noise whose scale is public. Nothing of n_j is in it."""
    if noise.law == "selected":
        return Drawn(_bounded(rng, noise, Fraction(UNIT)), _bounded(rng, noise, noise.fine))
    return Drawn((), _bounded(rng, noise, noise.share()))


def _bounded(rng: Rng, noise: JointNoise, sigma: Fraction) -> tuple[int, ...]:
    """Draw d integers within what slots hold; a draw beyond has a chance that delta pays for."""
    reach = noise.reach(sigma)
    return tuple(max(-reach, min(reach, v)) for v in discrete_gaussian(rng, sigma, noise.d))


def encode(w: Sequence[float], weight: int = 1) -> tuple[int, ...]:
    """Round weight w to the grid of 2^-F, once: an integer times an integer would stay on a lattice."""
    return tuple(round(weight * Fraction(v) * (1 << FRACTION_BITS)) for v in w)


def _modulus(study: Study) -> int:
    """M where no key gives one: public, and as long."""
    return (1 << study.crypto.key_bits) - 1


def _released(shares: Shares, law: str) -> Model:
    """Divide the opened sum by K, or by the n before it."""
    if law != "sizes":
        return Model(shares.open(), shares)
    n, *total = shares.total()
    if n < 1:
        raise RunFailed(
            "the opened number of all records is not a number of records: a party counted wrongly",
            "start a new run; no participant can be blamed from the sum alone",
        )
    return Model(tuple(float(Fraction(v, n << FRACTION_BITS)) for v in total), None)


# --- Step 2.2: the scale of the smallest party, under encryption -----------------------


def own_scale(noise: JointNoise, n_j: int) -> int:
    """Return b_j, the scale for n_j records; worked out before the join."""
    _check_size(n_j, noise)
    return noise.scale(n_j)


async def select_scale(seat: Seat, study: Study, noise: JointNoise, v_j: Ciphertext, b_j: int) -> Ciphertext:
    """Return zeta(b), b the scale for the party with the fewest records; nobody can open it without Charlie.

    Parameters
    ----------
    seat, study, noise : Seat, Study, JointNoise
    v_j : Ciphertext
        zeta(1) at the smallest party, zeta(0) elsewhere.
    b_j : int
        Of :func:`own_scale`.
    """
    zeta = v_j.key
    entries = await seat.once("obfuscator of the scale", lambda rng: zeta.full_obfuscators(rng, 1))
    pool = FullPool(zeta, entries)
    # All exponents have one length; since the v_j add up to 1, one offset is in the total.
    offset = 1 << noise.largest_scale.bit_length()
    if not 0 < b_j <= noise.largest_scale:
        raise LocalProtocolError("a party's scale is not one that there may be")
    power = await seat.once("scale", lambda _: (v_j * (b_j + offset)).to_int())
    term = Ciphertext(zeta, power)
    if seat.me != study.lead:
        fresh = Ciphertexts.outgoing([pool.rerandomize(term, study.lead)])
        await seat.send_sealed(ScaleTerm(term=fresh), study.lead)
        (scale,) = (await seat.receive(Scale, study.lead)).scale.read(zeta, 1, study.lead)
        return scale
    # All K terms, or nothing: without the smallest party's, b would be 0.
    for name, message in (await seat.gather(ScaleTerm)).items():
        (received,) = message.term.read(zeta, 1, name)
        term = term + received
    scale = term + -offset
    await seat.send_sealed(Scale(scale=Ciphertexts.outgoing([pool.rerandomize(scale, PARTIES)])))
    return scale


def without_offsets(total: Sequence[Ciphertext], scale: Ciphertext, layout: Packing, K: int) -> list[Ciphertext]:
    """Take b times everybody's exponent offset off, which nobody knows in the clear.

    The exponent is -K times the offset modulo N: public, so that its length tells nothing.
    """
    n = scale.key.n
    return [c + scale * (-K * offset % n) for c, offset in zip(total, layout.exponent_offsets(), strict=True)]


# --- The roles where the scale is public --------------------------------------------------


async def party(seat: Seat, study: Study, data: Dataset, noise: JointNoise) -> Model:
    """Party P_j, "floor" or "sizes"; the lead is a party like any other.

    Raises
    ------
    RefusedLocally
        Its records are fewer than the study's ``min_records``, or more than are counted.
    ProtocolViolation
        Another participant's fault; it is named where that can be known.
    RunFailed
        The opened sum is not the sum of everybody's shares, or its n is no number of records.
    """
    layout, n_j = packing(study, noise), len(data.y)
    _check_size(n_j, noise)

    # Before the join: afterwards, the time that training takes would tell n_j.
    await seat.stage("training")
    w_j = await seat.once("classifier", lambda _: tuple(fit(data.X, data.y, study.model.regularization).tolist()))
    _, x_j = Drawn(*await seat.once("noise", lambda rng: tuple(draw(rng, noise))))
    vector = tuple(w + x for w, x in zip(encode(w_j, n_j if noise.law == "sizes" else 1), x_j, strict=True))

    await seat.join()
    await seat.stage("keys")
    seed = await coin_toss(seat)
    counted = (n_j, *vector) if noise.law == "sizes" else vector
    nothing = (0,) * layout.count
    shares = await give_share(seat, study, layout, _modulus(study), counted, nothing, seed, FRACTION_BITS)
    return _released(shares, noise.law)


def _check_size(n: int, noise: JointNoise) -> None:
    if n < noise.min_records:
        raise RefusedLocally(
            f"there are fewer records than the study's min_records, {noise.min_records}",
            "take part with more records, or ask the coordinator for a study with a smaller min_records",
        )
    if noise.law == "sizes" and n > MOST_COUNTED_RECORDS:
        raise RefusedLocally(
            f'there are more records than the {MOST_COUNTED_RECORDS:,} that the noise of weights = "sizes" is worked out for',
            "take part with fewer records, or ask the coordinator for uniform weights",
        )


async def charlie(seat: Seat, study: Study, noise: JointNoise) -> Model:
    """Charlie, "floor" or "sizes": he relays the toss, and publishes shares.

    Raises
    ------
    ProtocolViolation
        A party's fault; it is named where that can be known.
    RunFailed
        The opened sum is not the sum of everybody's shares, or its n is no number of records.
    """
    layout = packing(study, noise)
    await seat.join()
    await seat.stage("keys")
    await seat.stage("stage 3: shares")
    nothing = (0,) * layout.count
    shares = await publish_shares(seat, study, layout, _modulus(study), nothing, FRACTION_BITS)
    return _released(shares, noise.law)
