"""Local aggregation where the scale of the noise is public: no key, no comparison, and the lead is an ordinary party.

The scale is public in two cases, both of calibration "proven". With ``scale = "floor"`` the noise is sized as if every
party had ``min_records`` records. With ``weights = "sizes"`` a classifier counts n_j times, and then no size is left in
the scale. Nothing has to be selected, so stages 1 and 2 fall away::

    party P_j                                  Charlie
      | train w_j, draw x_j                       |
      |=== join: everybody's box key of this run =|
      |<~~~~~~~~~~~~~~~ coin toss ~~~~~~~~~~~~~~~>|   3 boxes to each other party
      |-------- Share: W_j + x_j + z_j ---------->|   with "sizes": (n_j, n_j W_j + x_j) + z_j
      |<------- Published ------------------------|

x_j is a party's share of the noise, and z_j its share of zero
(:mod:`masquerade_protocols.local_aggregation.zero_sharing`).
"""

from collections.abc import Sequence
from fractions import Fraction

from masquerade_core.data.records import Records
from masquerade_core.model import Model
from masquerade_core.saved_model import Shares
from masquerade_core.seat import Seat
from masquerade_core.study import Study
from masquerade_protocols.blocks.coin_toss import coin_toss
from masquerade_protocols.blocks.descent import check_count
from masquerade_protocols.local_aggregation import joint_noise
from masquerade_protocols.local_aggregation.additive_shares import give_share, publish_shares
from masquerade_protocols.local_aggregation.before_join import train
from masquerade_protocols.local_aggregation.joint_noise import check_size, encode
from masquerade_protocols.local_aggregation.public import JOINT_FRACTION_BITS, joint_noise_of, packing

__all__ = ["charlie", "open_shares", "party", "share_noisy"]


async def party(seat: Seat, study: Study, data: Records) -> Model:
    """Party P_j, with the scale rule "floor" or "sizes".

    Raises
    ------
    RefusedLocally
        It has fewer records than the study's ``min_records``, or more than the proof counts.
    ProtocolViolation
        Another participant's fault. It is named where that can be known.
    RunFailed
        The opened sum is not the sum of everybody's shares, or the opened n is not a number of records.
    """
    noise, n_j = joint_noise_of(study), data.n
    by_size = noise.scale_rule == "sizes"
    check_size(n_j, noise)
    w_j = await train(seat, study, data)
    x_j = await seat.once("noise", lambda rng: joint_noise.draw(rng, noise))
    vector = tuple(w + x for w, x in zip(encode(w_j, n_j if by_size else 1), x_j, strict=True))

    await seat.join()
    await seat.stage("keys")
    seed = await coin_toss(seat)
    return await share_noisy(seat, study, (n_j, *vector) if by_size else vector, seed)


async def share_noisy(seat: Seat, study: Study, vector: Sequence[int], bound_to: bytes) -> Model:
    """Carry out a party's part of stage 3: send the noisy vector under masks, and open the published sum.

    Parameters
    ----------
    seat, study : Seat, Study
    vector : sequence of int
        W_j + x_j on the grid; with "sizes", n_j stands before it.
    bound_to : bytes
        What all parties must agree on for the masks to cancel.
    """
    layout = packing(study)
    nothing = (0,) * layout.count
    return _released(study, await give_share(seat, study, layout, _modulus(study), vector, nothing, bound_to))


async def charlie(seat: Seat, study: Study) -> Model:
    """Charlie, with the scale rule "floor" or "sizes": he relays the coin toss, and publishes the shares.

    Raises
    ------
    ProtocolViolation
        A party's fault. It is named where that can be known.
    RunFailed
        The opened sum is not the sum of everybody's shares, or the opened n is not a number of records.
    """
    await seat.join()
    await seat.stage("keys")
    return await open_shares(seat, study)


async def open_shares(seat: Seat, study: Study) -> Model:
    """Carry out Charlie's part of stage 3: publish everybody's shares, once they add up."""
    await seat.stage("stage 3: shares")
    layout = packing(study)
    return _released(study, await publish_shares(seat, study, layout, _modulus(study), (0,) * layout.count))


def _modulus(study: Study) -> int:
    """Return M, the modulus of the shares. No key hides them, so M is a public number as long as a key's modulus."""
    return (1 << study.key_bits) - 1


def _released(study: Study, shares: Shares) -> Model:
    """Divide the opened sum: by K, or by the n that stands before it."""
    if joint_noise_of(study).scale_rule != "sizes":
        return Model(shares.open(), shares)
    n, *total = shares.total()
    check_count(study, n)
    return Model(tuple(float(Fraction(v, n << JOINT_FRACTION_BITS)) for v in total), None)
