"""Descent on noisy examples: every party perturbs its own records, learns from the copies, and the models are averaged.

Bixler, "Privacy-Secure Stochastic Gradient Descent", has one learner and one data set: equations (6) to (9), which are
in :mod:`masquerade_core.learning.input_noise`. Here each of K parties is such a learner, and their classifiers are
averaged by their numbers of records, in one secure sum (:mod:`masquerade_protocols.blocks.secure_sum`)::

    party P_j                                    Charlie                          lead P_L (one of the parties)
      | noisy copies of its records; SGD on them: theta_j                        |
      |============ join: everybody's box key of this run, signed ===============|
      |<------- SumKey ---------------------------|<------- SumKey --------------|
      |<~~~~~~~~~~~~~~~~~~ coin toss: binds the pairwise masks ~~~~~~~~~~~~~~~~~>|
      |             one secure sum: sum_j n_j theta_j and N = sum_j n_j          |
      | theta = sum_j n_j theta_j / N, by everybody alike                        |

Whatever leaves a party is made of noisy copies, so privacy needs no sum; the sum hides n_j and theta_j. One party
alone, which only the in-memory table allows, hands its classifier to Charlie: that is the paper's setting.
"""

from typing import Annotated, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, model_validator

from masquerade_core.crypto.packing import Packing
from masquerade_core.data.schema import Dataset
from masquerade_core.errors import BadInput, ProtocolViolation, RunFailed
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
from masquerade_core.privacy.noise.noisy_copies import access_sensitivity, copies_delta, copies_epsilon, proven_alpha
from masquerade_core.rng import Rng
from masquerade_core.seat import Seat
from masquerade_core.study import CHARLIE, Study, as_fraction
from masquerade_core.wire.messages import Message
from masquerade_protocols.blocks.secure_sum import relay_key, set_up

__all__ = ["OwnClassifier", "Parameters", "alpha_of", "charlie", "check", "cost", "layout", "party", "train"]

_RADIUS_BITS = 32
_LEAST_ALPHA = 2.0**-64
_BOUND_TO = b"input noise"

_Array = NDArray[np.float64]


class Parameters(BaseModel):
    """The study's ``[protocol]`` section.

    A record is met ``epochs`` times, neither more nor less. With ``once``, the correction, its noisy copy is kept and
    met again; without, as the paper has it, every meeting takes new noise and costs again. Labels that are randomised
    are so once, in either case. With ``calibration = "proven"`` alpha follows from the wish, and only what the wish can
    cover is allowed: one copy of a record, and randomised labels.
    """

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", hide_input_in_errors=True)

    alpha: Annotated[
        float | None,
        Field(gt=0, allow_inf_nan=False, description="how little noise: 1/alpha is its scale; no default"),
    ] = None
    noise: Literal["gaussian", "l2"] = "gaussian"
    once: bool = True
    labels: Literal["as they are", "randomised-response"] = "as they are"
    epsilon_y: Annotated[float | None, Field(gt=0, allow_inf_nan=False, description="what a label loses")] = None
    batch: Annotated[int, Field(ge=1, le=1_000_000, description="b, examples in a step")] = 1
    epochs: Annotated[int, Field(ge=1, le=10_000, description="how often a record is met")] = 1
    learning_rate: Annotated[float, Field(gt=0, allow_inf_nan=False, description="t, the same at every step")] = 0.05

    @model_validator(mode="after")
    def _labels_and_their_cost(self) -> Self:
        if self.labels == "randomised-response" and self.epsilon_y is None:
            raise ValueError(
                '[protocol] epsilon_y is missing: with labels = "randomised-response" it says what a label loses, and '
                "a label is kept with probability e^epsilon_y/(1 + e^epsilon_y)"
            )
        if self.labels == "as they are" and self.epsilon_y is not None:
            raise ValueError(
                f"[protocol] epsilon_y is {self.epsilon_y:g}, but labels are used as they are; "
                'write labels = "randomised-response", or leave epsilon_y out'
            )
        return self

    @property
    def copies(self) -> int:
        """How often a record's features are perturbed."""
        return 1 if self.once else self.epochs


def _parameters(study: Study) -> Parameters:
    return Parameters.model_validate(study.protocol)


def check(study: Study) -> None:
    """Refuse what can be known to fail before anybody trains.

    Raises
    ------
    BadInput
        Gaussian noise with a delta of 0, an alpha beyond all use or none, or one beside a proven calibration; what that
        calibration cannot cover; steps that diverge, or a key that is too short.
    """
    chosen, Lambda = _parameters(study), study.model.regularization
    if chosen.noise == "gaussian" and study.privacy.delta == 0:
        raise BadInput(
            "[privacy] delta is 0, but Gaussian noise gives no epsilon without a delta",
            'choose a delta such as 1e-6, or noise = "l2"',
        )
    if (alpha := alpha_of(study)) < _LEAST_ALPHA:
        raise BadInput(
            f"[protocol] alpha is {alpha:g}: noise of the scale 1/alpha leaves nothing to learn from",
            "choose a larger epsilon or delta" if study.proven else f"choose an alpha of {_LEAST_ALPHA:.1g} or more",
        )
    if not chosen.learning_rate * Lambda < 1:
        raise BadInput(
            f"[protocol] learning_rate is {chosen.learning_rate:g} and [model] regularization {Lambda:g}, but their "
            "product must be less than 1, else steps overshoot",
            "choose a smaller learning_rate",
        )
    if not layout(study).fits:
        raise BadInput(
            f"the sum needs slots of {layout(study).width} bits, for which a key of {study.crypto.key_bits} bits has "
            "no room",
            "choose a longer key",
        )


def alpha_of(study: Study) -> float:
    """Return alpha: the study's own, or with ``calibration = "proven"`` what its wish allows.

    Raises
    ------
    BadInput
        There is none, or one beside a proven calibration; or something that the wish cannot cover.
    """
    chosen = _parameters(study)
    if not study.proven:
        if chosen.alpha is None:
            raise BadInput("[protocol] alpha is missing", "say how little noise there is: its scale is 1/alpha")
        return chosen.alpha
    if chosen.alpha is not None:
        raise BadInput(
            f'[protocol] alpha is {chosen.alpha:g}, but with calibration = "proven" it follows from epsilon and delta',
            'leave alpha out, or set calibration = "paper"',
        )
    if not chosen.once:
        raise BadInput(
            '[protocol] once is false, but with calibration = "proven" a record is perturbed once: every further '
            "access to new noise costs again, and buys nothing that the kept copy does not have",
            "set once = true",
        )
    if chosen.epsilon_y is None:
        raise BadInput(
            '[protocol] labels is "as they are", but with calibration = "proven" labels are covered too, and as they '
            "are they have no guarantee",
            'set labels = "randomised-response", and epsilon_y to a label\'s share of epsilon, such as a third of it',
        )
    return proven_alpha(
        law=chosen.noise,
        epsilon=study.privacy.epsilon,
        epsilon_y=chosen.epsilon_y,
        delta=study.privacy.delta,
        sensitivity=access_sensitivity(study.d, FRACTION_BITS),
    )


def layout(study: Study) -> Packing:
    """Lay out sum_j n_j theta_j, in units of 2^-F, and N.

    No coordinate of theta_j exceeds 2^32: :func:`train` scales down what does, and with it what the sizes of
    parties have to do with the slots.
    """
    largest = study.max_records << (_RADIUS_BITS + FRACTION_BITS)
    return Packing(study.d + 1, study.K * largest, study.crypto.key_bits)


def cost(study: Study) -> tuple[float, float]:
    """Return epsilon and delta of a record's features, and of its label too where that is randomised."""
    chosen, delta = _parameters(study), study.privacy.delta
    if study.proven:
        wish = study.privacy.epsilon
        return wish, delta if chosen.noise == "gaussian" else copies_delta(law="l2", copies=1, epsilon=wish)
    epsilon = copies_epsilon(
        law=chosen.noise,
        alpha=alpha_of(study),
        copies=chosen.copies,
        delta=delta,
        sensitivity=access_sensitivity(study.d, FRACTION_BITS),
    )
    epsilon += chosen.epsilon_y or 0.0
    return epsilon, copies_delta(law=chosen.noise, copies=chosen.copies, epsilon=epsilon, delta=delta)


def train(rng: Rng, study: Study, data: Dataset) -> tuple[int, ...]:
    """Return one party's theta_j in units of 2^-F, made of noisy copies of its records.

    A theta_j with a coordinate beyond 2^32 is scaled down to it. That is computed from noisy copies like all else, so
    it costs no privacy; steps that leave floating point end the same way, at 0.
    """
    chosen = _parameters(study)
    alpha, y = as_fraction(alpha_of(study)), data.y
    if chosen.epsilon_y is not None:
        y = randomised_response(rng, y, as_fraction(chosen.epsilon_y))
    w = initial_weights(rng, study.d)
    met = epochs_of(rng, len(y), chosen.epochs, chosen.batch)
    accesses = kept_accesses if chosen.once else fresh_accesses
    noisy = accesses(rng, data.X, y, met, alpha, chosen.noise)
    with np.errstate(over="ignore", invalid="ignore"):
        w = sgd(w, noisy, chosen.learning_rate, study.model.loss, study.model.regularization)
    return _on_the_grid(w)


def _on_the_grid(w: _Array) -> tuple[int, ...]:
    if not np.isfinite(w).all():
        w = np.zeros_like(w)
    largest = 2.0**_RADIUS_BITS
    w = w * min(1.0, largest / max(largest, float(np.abs(w).max())))
    return tuple(round(v * 2**FRACTION_BITS) for v in w.tolist())


def _average(sums: tuple[int, ...], K: int) -> Model:
    """Return sum_j n_j theta_j / N."""
    *weighted, N = sums
    if N < K:
        raise RunFailed("the sum of sizes is smaller than the number of parties: a party contributed a false one")
    return Model(tuple(v / (N << FRACTION_BITS) for v in weighted), None)


# --- One party alone ----------------------------------------------------------------


class OwnClassifier(Message):
    """The only party to Charlie: theta_1, d doubles."""

    weights: bytes


def _own(message: OwnClassifier, d: int, peer: str) -> Model:
    if len(message.weights) != 8 * d:
        raise ProtocolViolation(f"{peer} sent a classifier of {len(message.weights)} bytes, not {8 * d}", peer=peer)
    weights = np.frombuffer(message.weights, dtype="<f8")
    if not np.isfinite(weights).all():
        raise ProtocolViolation(f"{peer} sent a classifier with a weight that is no finite number", peer=peer)
    return Model(tuple(weights.tolist()), None)


# --- The parties ------------------------------------------------------------------


async def party(seat: Seat, study: Study, data: Dataset) -> Model:
    """Party P_j, the lead included.

    Raises
    ------
    ProtocolViolation
        Another participant's fault; it is named where that can be known.
    RunFailed
        The total was not the sum of one contribution of each party.
    """
    # Before the join: afterwards, the time that this takes would tell n_j.
    await seat.stage("training")
    theta_j, n_j = await seat.once("classifier", lambda rng: train(rng, study, data)), len(data.y)
    weighted = await seat.once("weighted classifier", lambda rng: _weighted(rng, theta_j, n_j))

    await seat.join()
    await seat.stage("keys")
    sums = await set_up(seat, study) if seat.others else None
    covered = "model" if _parameters(study).epsilon_y is not None else "model; labels are not covered"
    epsilon, delta = cost(study)
    await seat.stage("sum")
    await seat.release(covered, epsilon, delta)
    if sums is None:
        alone = tuple(v / (1 << FRACTION_BITS) for v in theta_j)
        await seat.send(CHARLIE, OwnClassifier(weights=np.array(alone, dtype="<f8").tobytes()))
        return Model(alone, None)
    slots = layout(study)
    return _average(await sums.open_sum(slots, [*weighted, n_j], _BOUND_TO), study.K)


def _weighted(rng: Rng, theta_j: tuple[int, ...], n_j: int) -> tuple[int, ...]:
    """Return n_j theta_j, each coordinate with a number below n_j added, and so less than 2^-F to theta_j.

    Without it all coordinates of the opened sum are multiples of what the sizes have in common: of five parties with 40
    records each, 40 could be read off it.
    """
    return tuple(n_j * v + rng.below(n_j) for v in theta_j)


# --- Charlie ------------------------------------------------------------------------


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
        return _own(await seat.receive(OwnClassifier, study.lead), study.d, study.lead)
    sums = await relay_key(seat, study)
    await seat.stage("sum")
    return _average(await sums.open_sum(layout(study)), study.K)
