"""What follows from the study of a ``dp-gd`` run and from N alone: the noise, and the slots of a round's sum."""

from fractions import Fraction
from math import ceil
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from masquerade_core.crypto.packing import Packing
from masquerade_core.learning.losses import loss_of
from masquerade_core.privacy.noise.gaussian_rounds import SharedNoise, rounds_noise
from masquerade_core.privacy.samplers.discrete_gaussian import discrete_gaussian_tail_bound
from masquerade_core.study import Study, as_fraction
from masquerade_protocols.blocks.descent import TAIL_BITS, check_steps
from masquerade_protocols.blocks.slots import check_slots

__all__ = ["FRACTION_BITS", "Parameters", "check", "clip_of", "layout", "noise_of", "parameters_of"]

FRACTION_BITS = 28
"""F. Gradients and noise are integers in units of 2^-F. Even for the shortest clip C, 2 C is over 50,000 of these."""


class Parameters(BaseModel):
    """The study's ``[protocol]`` section.

    Before we chose the defaults, we tried them on simulated records, in the middle of their bounds and in a corner, and
    on public records. None of them follows from anybody's private records.
    """

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", hide_input_in_errors=True)

    rounds: Annotated[int, Field(ge=1, le=100_000, description="T, how many rounds")] = 20
    clip: Annotated[float, Field(ge=1e-4, le=1, description="C, the longest gradient of a record")] = 0.5
    learning_rate: Annotated[float, Field(gt=0, allow_inf_nan=False, description="eta, the length of a step")] = 4.0


def parameters_of(study: Study) -> Parameters:
    """Return the study's choices."""
    return Parameters.model_validate(study.protocol)


def clip_of(study: Study) -> Fraction:
    """Return C, or the loss's longest gradient L if that is shorter: records have a norm of at most 1."""
    return min(as_fraction(parameters_of(study).clip), loss_of(study.model.loss).L)


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
        rounds=parameters_of(study).rounds,
        epsilon=study.privacy.epsilon,
        delta=study.privacy.delta,
        honest=study.honest,
        fraction_bits=FRACTION_BITS,
    )


def check(study: Study) -> None:
    """Refuse a study that must fail, before anybody joins.

    The slots are checked for the largest N that there may be, K ``max_records``: sums are widest there.

    Raises
    ------
    BadInput
        The steps diverge, no noise meets the privacy target, or no plaintext holds the noise.
    """
    check_steps(
        study, parameters_of(study).learning_rate, "choose a smaller learning_rate, or a smaller regularization"
    )
    layout(study, noise_of(study), study.K * study.max_records)


def layout(study: Study, noise: SharedNoise, N: int) -> Packing:
    """Lay out the sum of a round.

    A slot holds N gradients of length C at most, and the noise of K parties. In a whole run, noise goes beyond its slot
    with a chance of 2^-128 at most.

    Raises
    ------
    BadInput
        The slots are too wide for a plaintext, or a coordinate for a float.
    """
    drawn = study.K * noise.rounds * study.d
    bound = N * (ceil(clip_of(study) * (1 << FRACTION_BITS)) + 1)
    bound += study.K * discrete_gaussian_tail_bound(noise.share, drawn, TAIL_BITS)
    slots = Packing(study.d, bound, study.crypto.key_bits)
    return check_slots(study, slots, "the sum of a round", "fewer rounds", "a larger epsilon")
