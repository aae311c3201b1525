"""Public numbers of a ``dp-gd`` run, from the study and N alone: rounds, clip, noise, steps and slots.

Everybody works these numbers out for itself and must get the same. So rounds and clip, which the noise depends on,
follow from comparisons of fractions. The step is made of operations that every machine rounds alike.
"""

from fractions import Fraction
from math import ceil, fsum, sqrt
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, field_validator

from masquerade_core.data.records import fewest_to_learn_from
from masquerade_core.learning.losses import loss_of
from masquerade_core.privacy.expectation import counted_records
from masquerade_core.privacy.noise.gaussian_rounds import SharedNoise, rounds_noise, rounds_sigma
from masquerade_core.privacy.numbers import as_fraction
from masquerade_core.privacy.samplers.discrete_gaussian import discrete_gaussian_tail_bound
from masquerade_core.study import Study
from masquerade_protocols.blocks.descent import TAIL_BITS, check_steps
from masquerade_protocols.blocks.layouts import Layout, check_slots, layout_of

__all__ = [
    "FRACTION_BITS",
    "Parameters",
    "accelerates",
    "check",
    "clip_of",
    "layout",
    "momentum",
    "noise_of",
    "parameters_of",
    "rounds_of",
    "step_of",
    "weight_noise",
]

FRACTION_BITS = 28
"""F. Gradients and noise are integers in units of 2^-F. Even for the shortest clip C, 2 C is over 50,000 of these."""


_FEW, _MANY = 30, 60  # rounds; more of them pay where little noise is on each
_SHORT, _LONG = Fraction(1, 2), Fraction(3, 4)  # clips; a longer one bends gradients less, and lets in more noise
_LONG_FROM, _MANY_FROM = 100, 200  # s = N mu/sqrt(d), as masquerade_core.privacy.expectation explains it
_NOISE_IN_SCORES = 1.5  # log-odds: what the noise of all rounds may add to a record's score, one standard deviation

_AUTO = "auto"


class Parameters(BaseModel):
    """The study's ``[protocol]`` section.

    What is "auto", or None here, follows from public numbers: the columns, the privacy target, ``colluders``,
    ``expected_records`` or the minimum of records, and N. We chose the rules on public and on simulated
    records. None of them follows from anybody's private records.

    Steps with a number for ``learning_rate`` are plain ones. With "auto" they have Nesterov's momentum, since the
    direction that all records share, and with it a model's threshold, is slow to learn otherwise.
    """

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", hide_input_in_errors=True)

    rounds: Annotated[int | None, Field(ge=1, le=100_000, description="T, how many rounds")] = None
    clip: Annotated[float | None, Field(ge=1e-4, le=1, description="C, the longest gradient of a record")] = None
    learning_rate: Annotated[
        float | None, Field(gt=0, allow_inf_nan=False, description="eta, the length of a step")
    ] = None

    @field_validator("rounds", "clip", "learning_rate", mode="before")
    @classmethod
    def _number_or_auto(cls, value: Any) -> Any:
        if isinstance(value, str) and value != _AUTO:
            raise ValueError(f'is "{value}", but must be a number or "{_AUTO}"')
        return None if value == _AUTO else value


def parameters_of(study: Study) -> Parameters:
    """Return the study's choices."""
    return Parameters.model_validate(study.protocol)


def _reaches(study: Study, s: int) -> bool:
    """Return whether N mu sqrt(h/K)/sqrt(d) is at least ``s``, for the N that is counted on; decided in fractions.

    Raises
    ------
    BadInput
        No noise meets the privacy target.
    """
    N, _ = counted_records(study)
    inverse = rounds_sigma(Fraction(1), 1, study.privacy.epsilon, study.privacy.delta)  # 1/mu
    return N * N * study.honest >= s * s * study.K * study.d * inverse**2


def rounds_of(study: Study) -> int:
    """Return T: the study's own, or 30, or 60 where the records outweigh the noise by far.

    Raises
    ------
    BadInput
        No noise meets the privacy target.
    """
    chosen = parameters_of(study).rounds
    if chosen is not None:
        return chosen
    return _MANY if _reaches(study, _MANY_FROM) else _FEW


def clip_of(study: Study) -> Fraction:
    """Return C, or the loss's longest gradient L if that is shorter: records have a norm of at most 1.

    Raises
    ------
    BadInput
        No noise meets the privacy target.
    """
    chosen, L = parameters_of(study).clip, loss_of(study.model.loss).L
    if chosen is not None:
        return min(as_fraction(chosen), L)
    return min(_LONG if _reaches(study, _LONG_FROM) else _SHORT, L)


def accelerates(study: Study) -> bool:
    """Return whether steps have momentum."""
    return parameters_of(study).learning_rate is None


def momentum(steps: int) -> float:
    """Return which part of the last move the next point goes on by, after so many steps."""
    return steps / (steps + 3)


def step_of(study: Study, noise: SharedNoise, N: int) -> float:
    """Return eta: the study's own, or 1/(c + Lambda), or less where the noise would show in records' scores.

    A gradient at step t moves the last iterate by r_t steps along a direction of no curvature. With momentum r_t =
    (t+3)/2 - (t+1)(t+2)(t+3)/(2 (T+1)(T+2)), t = 0 ... T-1. So the noise of all rounds moves each weight by eta sigma
    sqrt(sum r_t^2), where sigma is that of the K shares in a mean gradient. A record's norm is at most 1, so its score
    moves by no more. Curvature makes it less.
    """
    chosen = parameters_of(study).learning_rate
    if chosen is not None:
        return chosen
    longest = 1 / (float(loss_of(study.model.loss).c) + study.model.regularization)
    return min(longest, _NOISE_IN_SCORES / (_sigma(study, noise, N) * _moved(study, noise.rounds)))


def _sigma(study: Study, noise: SharedNoise, N: int) -> float:
    """Return the standard deviation of the K shares of noise in a coordinate of the mean gradient."""
    return float(noise.share) * sqrt(study.K) / (1 << FRACTION_BITS) / N


def _moved(study: Study, T: int) -> float:
    """Return sqrt(sum r_t^2) of :func:`step_of`; without momentum each gradient counts once, so that it is sqrt(T)."""
    if not accelerates(study):
        return sqrt(T)
    reach = ((t + 3) / 2 * (1 - (t + 1) * (t + 2) / ((T + 1) * (T + 2))) for t in range(T))
    return sqrt(fsum(r * r for r in reach))


def weight_noise(study: Study, N: int | None = None) -> float:
    """Return what the noise of all rounds moves a weight by at most, one standard deviation.

    Where the loss is curved, the noise moves a weight by less.

    Parameters
    ----------
    study : Study
    N : int, optional
        The number of all records that are learned from; by default the fewest that the study allows.
    """
    noise = noise_of(study)
    records = N or fewest_to_learn_from(study) * study.survivors // study.K
    return step_of(study, noise, records) * _sigma(study, noise, records) * _moved(study, noise.rounds)


def noise_of(study: Study) -> SharedNoise:
    """Return the noise with which a run meets the study's privacy target.

    Raises
    ------
    BadInput
        No noise meets it.
    """
    return rounds_noise(
        clip=clip_of(study),
        d=study.d,
        rounds=rounds_of(study),
        epsilon=study.privacy.epsilon,
        delta=study.privacy.delta,
        honest=study.honest,
        fraction_bits=FRACTION_BITS,
        retries=study.retries,
    )


def check(study: Study) -> None:
    """Refuse a study that must fail, before anybody joins.

    The slots are checked for the largest N that there may be, the sum of ``max_records``: sums are widest there.

    Raises
    ------
    BadInput
        The steps diverge, no noise meets the privacy target, or no plaintext holds the noise.
    """
    chosen = parameters_of(study).learning_rate
    if chosen is not None:
        check_steps(study, chosen, "choose a smaller learning_rate, or a smaller regularization")
    layout(study, noise_of(study), study.most_records)


def layout(study: Study, noise: SharedNoise, N: int) -> Layout:
    """Lay out the sum of a round.

    A slot holds N gradients of length C at most, and the noise of K parties. In a whole run, noise goes beyond its slot
    with a chance of 2^-128 at most.

    Raises
    ------
    BadInput
        The slots are too wide for a plaintext, or a coordinate for a float.
    """
    drawn = study.K * noise.releases * study.d
    bound = N * (ceil(clip_of(study) * (1 << FRACTION_BITS)) + 1)
    bound += study.K * discrete_gaussian_tail_bound(noise.share, drawn, TAIL_BITS)
    slots = layout_of(study, study.d, bound)
    return check_slots(study, slots, "the sum of a round", "fewer rounds", "a larger epsilon")
