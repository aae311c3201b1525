"""``toy-means``: the mean of all records, each counted with the sign of its label. It is a crude classifier.

The conversation::

    party P_j                                    Charlie                          lead P_L (holds the key)
      |============ join, SumKey, coin toss: see masquerade_protocols.blocks.secure_sum ============|
      |                    1. one secure sum: N = sum of n_j                        |
      |                    2. one secure sum: sum of y x over all records, and the noise of all parties
      | w = that sum / N, by everybody alike     |                                  |
"""

from fractions import Fraction

import numpy as np
from pydantic import BaseModel, ConfigDict

from masquerade_core.crypto.masks import as_integers
from masquerade_core.data.schema import Dataset
from masquerade_core.model import Model
from masquerade_core.privacy.noise.gaussian_rounds import SharedNoise, rounds_noise
from masquerade_core.privacy.samplers.discrete_gaussian import discrete_gaussian_tail_bound
from masquerade_core.seat import Seat
from masquerade_core.study import Study
from masquerade_protocols.blocks.descent import TAIL_BITS, fingerprint, join_and_count, relay_and_count
from masquerade_protocols.blocks.layouts import Layout, check_slots, layout_of
from masquerade_protocols.blocks.noise_shares import draw_noise_share

__all__ = ["Parameters", "charlie", "check", "exact_sum", "layout", "noise_of", "party"]

FRACTION_BITS = 28  # F: sums and noise are integers in units of 2^-F


class Parameters(BaseModel):
    """An empty ``[protocol]`` section: there is nothing to choose."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", hide_input_in_errors=True)


# --- What follows from public numbers alone -------------------------------------


def noise_of(study: Study) -> SharedNoise:
    """Return the noise on the sum: a replaced record of norm 1 moves it by at most 2."""
    return rounds_noise(
        clip=Fraction(1),
        d=study.d,
        rounds=1,
        epsilon=study.privacy.epsilon,
        delta=study.privacy.delta,
        honest=study.honest,
        fraction_bits=FRACTION_BITS,
    )


def layout(study: Study, noise: SharedNoise, N: int) -> Layout:
    """Lay out the sum of N records and the noise of K parties."""
    bound = N * ((1 << FRACTION_BITS) + 1)
    bound += study.K * discrete_gaussian_tail_bound(noise.share, study.K * study.d, TAIL_BITS)
    slots = layout_of(study, study.d, bound)
    return check_slots(study, slots, "the sum of records", "a larger epsilon")


def check(study: Study) -> None:
    """Refuse what can be known to fail before anybody joins, by BadInput."""
    layout(study, noise_of(study), study.most_records)


def exact_sum(data: Dataset) -> tuple[int, ...]:
    """Return the sum of y x on the grid; each record is rounded by itself."""
    signed = np.rint(data.y[:, None] * data.X * 2**FRACTION_BITS).astype(np.int64)
    return tuple(signed.sum(axis=0).tolist())


def _model(sums: tuple[int, ...], N: int) -> Model:
    return Model(tuple(v / (N << FRACTION_BITS) for v in sums), None)


# --- The roles ------------------------------------------------------------------


async def party(seat: Seat, study: Study, data: Dataset) -> Model:
    """Party P_j, the lead included."""
    noise = noise_of(study)
    await seat.stage("noise")
    (share,) = await seat.once("noise", lambda rng: draw_noise_share(rng, noise, study.d))
    own = await seat.once("own sum", lambda _: exact_sum(data))
    sums, N = await join_and_count(seat, study, data)
    slots = layout(study, noise, N)
    await sums.precompute([slots])
    await seat.stage("sum")
    await seat.release("model", study.privacy.epsilon, study.privacy.delta)
    noisy = [v + x for v, x in zip(own, share, strict=True)]
    opened = as_integers(await sums.open_sum(slots, noisy, fingerprint(N)))
    await sums.close()
    return _model(opened, N)


async def charlie(seat: Seat, study: Study) -> Model:
    """Charlie: he sees K ciphertexts and the noisy sum."""
    sums, N = await relay_and_count(seat, study)
    await seat.stage("sum")
    opened = as_integers(await sums.open_sum(layout(study, noise_of(study), N)))
    await sums.close()
    return _model(opened, N)
