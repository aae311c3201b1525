"""Input noise: every party adds noise to its records, learns from the noisy copies, and the models are averaged.

Bixler, "Privacy-Secure Stochastic Gradient Descent", equations (6) to (9), has one learner and one data set;
:mod:`masquerade_core.learning.input_noise` has those equations. Here each of K parties is such a learner. One secure
sum averages their classifiers by their numbers of records (:mod:`masquerade_protocols.blocks.secure_sum`)::

    party P_j                                    Charlie                          lead P_L (one of the parties)
      | noisy copies of its records; SGD on them: theta_j                        |
      |============ join: everybody's box key of this run, signed ===============|
      |<------- SumKey ---------------------------|<------- SumKey --------------|
      |<~~~~~~~~~~~~~~~~~~ coin toss: binds the pairwise masks ~~~~~~~~~~~~~~~~~>|
      |             one secure sum: sum_j n_j theta_j and N = sum_j n_j          |
      | theta = sum_j n_j theta_j / N, computed by every participant             |

All that leaves a party is computed from noisy copies, so privacy does not need the sum; the sum hides n_j and theta_j.
If there is only one party, it hands its classifier to Charlie. That is the paper's setting, and it runs in memory only.
"""

import numpy as np
from numpy.typing import NDArray

from masquerade_core.crypto.masks import as_array, as_integers
from masquerade_core.data.schema import Dataset
from masquerade_core.errors import ProtocolViolation
from masquerade_core.learning.input_noise import (
    FRACTION_BITS,
    epochs_of,
    fresh_accesses,
    initial_weights,
    kept_accesses,
    randomised_response,
    sgd,
)
from masquerade_core.model import Model
from masquerade_core.privacy.numbers import as_fraction
from masquerade_core.rng import Rng
from masquerade_core.seat import Seat
from masquerade_core.study import CHARLIE, Study
from masquerade_core.wire.codec import Message
from masquerade_protocols.blocks.descent import check_count
from masquerade_protocols.blocks.secure_sum import set_up, set_up_charlie
from masquerade_protocols.input_noise.public import RADIUS_BITS, alpha_of, cost, layout, parameters_of

__all__ = ["OwnClassifier", "charlie", "party", "train"]

_BOUND_TO = b"input noise"  # what the masks of the sum depend on; other protocols take N, which is not known yet here

_Array = NDArray[np.float64]


# --- Messages -----------------------------------------------------------------------


class OwnClassifier(Message):
    """The only party to Charlie: theta_1, d doubles."""

    weights: bytes


# --- Replay log -----------------------------------------------------------------------


def train(rng: Rng, study: Study, data: Dataset) -> tuple[int, ...]:
    """Return one party's theta_j in units of 2^-F, computed from noisy copies of its records.

    A theta_j with a coordinate beyond 2^32 is scaled down. One with a coordinate that is not a finite number becomes 0.
    Both depend on the noisy copies alone, so they cost no privacy.
    """
    chosen = parameters_of(study)
    alpha, y = as_fraction(alpha_of(study)), data.y
    if chosen.epsilon_y is not None:
        y = randomised_response(rng, y, as_fraction(chosen.epsilon_y))
    w = initial_weights(rng, study.d)
    met = epochs_of(rng, len(y), chosen.epochs, chosen.batch)
    accesses = kept_accesses if chosen.once else fresh_accesses
    noisy = accesses(rng, data.matrix, y, met, alpha, chosen.noise)
    with np.errstate(over="ignore", invalid="ignore"):
        w = sgd(w, noisy, chosen.learning_rate, study.model.loss, study.model.regularization)
    return _on_the_grid(w)


def _on_the_grid(w: _Array) -> tuple[int, ...]:
    if not np.isfinite(w).all():
        w = np.zeros_like(w)
    largest = 2.0**RADIUS_BITS
    w = w * min(1.0, largest / max(largest, float(np.abs(w).max())))
    return tuple(round(v * 2**FRACTION_BITS) for v in w.tolist())


def _weighted(rng: Rng, theta_j: tuple[int, ...], n_j: int) -> tuple[int, ...]:
    """Return n_j theta_j with a random number below n_j added to each coordinate.

    That moves theta_j by less than 2^-F. Without it, all coordinates of the opened sum would be multiples of the sizes'
    common divisor. If five
    parties had 40 records each, everybody could read 40 off the sum.
    """
    return tuple(n_j * v + rng.below(n_j) for v in theta_j)


def _average(sums: tuple[int, ...], study: Study) -> Model:
    """Return sum_j n_j theta_j / N."""
    *weighted, N = sums
    check_count(study, N)
    return Model(tuple(v / (N << FRACTION_BITS) for v in weighted), None)


def _own(message: OwnClassifier, d: int, peer: str) -> Model:
    if len(message.weights) != 8 * d:
        raise ProtocolViolation(f"{peer} sent a classifier of {len(message.weights)} bytes, not {8 * d}", peer=peer)
    weights = np.frombuffer(message.weights, dtype="<f8")
    if not np.isfinite(weights).all():
        raise ProtocolViolation(f"{peer} sent a classifier with a weight that is not a finite number", peer=peer)
    return Model(tuple(weights.tolist()), None)


# --- Roles ----------------------------------------------------------------------------


async def party(seat: Seat, study: Study, data: Dataset) -> Model:
    """Party P_j, the lead included.

    Raises
    ------
    ProtocolViolation
        Another participant's fault; it is named where that can be known.
    RunFailed
        The total was not the sum of one contribution of each party.
    """
    # Training comes before the join. After it, everybody could see how long it takes, and so roughly n_j.
    await seat.stage("training")
    theta_j, n_j = await seat.once("classifier", lambda rng: train(rng, study, data)), len(data.y)
    weighted = await seat.once("weighted classifier", lambda rng: _weighted(rng, theta_j, n_j))
    own = as_array((*weighted, n_j))

    await seat.join()
    await seat.stage("keys")
    sums = await set_up(seat, study) if seat.others else None
    covered = "model" if parameters_of(study).epsilon_y is not None else "model; labels are not covered"
    epsilon, delta = cost(study)
    await seat.stage("sum")
    await seat.release(covered, epsilon, delta)
    if sums is None:
        alone = tuple(v / (1 << FRACTION_BITS) for v in theta_j)
        await seat.send(CHARLIE, OwnClassifier(weights=np.array(alone, dtype="<f8").tobytes()))
        return Model(alone, None)
    slots = layout(study)
    opened = as_integers(await sums.open_sum(slots, own, _BOUND_TO))
    await sums.close()
    return _average(opened, study)


async def charlie(seat: Seat, study: Study) -> Model:
    """Charlie: he sees K ciphertexts and one sum.

    Raises
    ------
    ProtocolViolation
        A party's fault; it is named where that can be known.
    RunFailed
        The total was not the sum of one contribution of each party.
    """
    await seat.join()
    await seat.stage("keys")
    if study.K == 1:
        await seat.stage("sum")
        return _own(await seat.receive(OwnClassifier, study.names[0]), study.d, study.names[0])
    sums = await set_up_charlie(seat, study)
    await seat.stage("sum")
    opened = as_integers(await sums.open_sum(layout(study)))
    await sums.close()
    return _average(opened, study)
