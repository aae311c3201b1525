"""Public numbers of ``vote`` and ``soft``: parameters, noise, the layout of the messages.

Every participant works all of this out from the study before it joins, and everybody gets the same. The paper's M is
``study.K``. Its N is the number of auxiliary points, and its K, the number of classes, is C here.
"""

import math
from fractions import Fraction
from typing import Annotated, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from masquerade_core.errors import BadInput, RunFailed
from masquerade_core.learning.erm import check_regularization
from masquerade_core.learning.losses import LOGISTIC, require_convex
from masquerade_core.privacy.noise.gaussian_rounds import SharedNoise
from masquerade_core.privacy.noise.vote_counts import COUNT_BITS, count_noise, counters_at_a_point
from masquerade_core.privacy.noise.votes import output_rate
from masquerade_core.privacy.numbers import as_fraction
from masquerade_core.privacy.samplers.discrete_gaussian import discrete_gaussian_tail_bound
from masquerade_core.privacy.samplers.l2_laplace import l2_tail_bound
from masquerade_core.study import CHARLIE, AuxiliaryFile, Study
from masquerade_core.wire.codec import numbers, pack_numbers
from masquerade_protocols.blocks.layouts import WIDEST, Layout, check_slots, layout_of

__all__ = [
    "FRACTION_BITS",
    "Grid",
    "SoftParameters",
    "VoteParameters",
    "beta",
    "check",
    "classes_of",
    "counters_per_point",
    "is_soft",
    "layout",
    "noise_of",
    "parameters_of",
]

FRACTION_BITS = 40
"""F: released weights, and the noise on them, are integers in units of 2^-F."""

_TAIL_BITS = 128  # noise on the counts goes beyond its slots with a chance of 2^-_TAIL_BITS at most


class SoftParameters(BaseModel):
    """The study's ``[protocol]`` section for ``soft``."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", hide_input_in_errors=True)

    auxiliary: AuxiliaryFile
    private_auxiliary: Annotated[bool, Field(description="is each auxiliary sample to be protected as well?")] = False


class VoteParameters(SoftParameters):
    """The study's ``[protocol]`` section for ``vote``: a majority may be tied."""

    ties: Annotated[Literal["first"] | None, Field(description="which of several classes with as many votes wins")] = (
        None
    )


def is_soft(study: Study) -> bool:
    """Whether labels are fractions of votes, and not the majority's."""
    return study.study.protocol == "soft"


def parameters_of(study: Study) -> SoftParameters:
    """Return the study's ``[protocol]`` section."""
    return (SoftParameters if is_soft(study) else VoteParameters).model_validate(study.protocol)


def classes_of(study: Study) -> int:
    """Return C, the number of classes; a label that is positive or not has two."""
    return study.classes or 2


def check(study: Study) -> None:
    """Refuse a study that is known to fail before anybody joins.

    Raises
    ------
    BadInput
        The objective has no single minimiser, or softmax has another loss than its own. Nobody said how to break ties.
        No noise on the counts meets the privacy target, or no float or slot holds the noise.
    """
    require_convex(study.model)
    chosen, C = parameters_of(study), classes_of(study)
    if study.proven and chosen.private_auxiliary:
        raise BadInput(
            '[protocol] private_auxiliary is true, but with calibration = "proven" the noise is on the counts of '
            "votes, and the auxiliary samples themselves have none",
            'leave private_auxiliary out, or set calibration = "paper"',
        )
    if study.multiclass and study.model.loss != LOGISTIC.name:
        raise BadInput(
            f'[model] loss is "{study.model.loss}", but named classes are learned with the logistic loss only',
            f'set loss = "{LOGISTIC.name}"',
        )
    if isinstance(chosen, VoteParameters) and chosen.ties is None and (study.proven or _may_tie(study.K, C)):
        counts = "noisy counts" if study.proven else f"{study.K} parties that vote"
        raise BadInput(
            f"{counts} for {C} classes can be tied, and [protocol] ties does not say who wins then",
            'set ties = "first": the class that stands first in [label] classes wins, and of two values the positive '
            "one" + ("" if study.proven else "; or, for two classes, choose an odd number of parties"),
        )
    if study.proven:
        check_slots(study, layout(study), "a count of votes with its noise", "a larger epsilon", "a larger delta")
    else:
        check_slots(study, layout(study), f"a count of {study.K:,} votes", "fewer parties")
    if (bits := Grid.of(study).bound.bit_length()) > WIDEST:
        raise BadInput(
            f"a released weight has up to {bits} bits in this study, but at most {WIDEST} are possible",
            "choose a larger regularization" + ("" if study.proven else " or a larger epsilon"),
        )
    check_regularization(study.model.regularization)


def _may_tie(M: int, C: int) -> bool:
    return M % 2 == 0 or (C > 2 and M > 1)  # noqa: PLR2004  two classes and an odd number of votes


# --- With calibration = "proven": noise on the counts -------------------------------


def noise_of(study: Study) -> SharedNoise:
    """Return the noise on the counts that meets a proven study's privacy target, in units of 2^-G votes.

    Raises
    ------
    BadInput
        There is no such noise.
    """
    return count_noise(
        N=parameters_of(study).auxiliary.records,
        classes=classes_of(study),
        epsilon=study.privacy.epsilon,
        delta=study.privacy.delta,
        honest=study.honest,
    )


def counters_per_point(study: Study) -> int:
    """Return how many classes have a counter: all but one, or all where noise is added and there are more than two."""
    return counters_at_a_point(classes_of(study)) if study.proven else classes_of(study) - 1


def layout(study: Study) -> Layout:
    """Lay out the counters, point by point.

    A counter holds 0 to M votes. With noise it holds as many units of 2^-G, and the noise of M parties.

    Raises
    ------
    BadInput
        No noise meets the privacy target.
    """
    counters, largest = parameters_of(study).auxiliary.records * counters_per_point(study), study.K
    if study.proven:
        tail = discrete_gaussian_tail_bound(noise_of(study).share, study.K * counters, _TAIL_BITS)
        largest = study.K * ((1 << COUNT_BITS) + tail)
    return layout_of(study, counters, largest)


# --- With calibration = "paper": noise on the classifier ------------------------------


def beta(study: Study) -> Fraction:
    """Return the rate of the output noise eta; see :func:`~masquerade_core.privacy.noise.votes.output_rate`."""
    chosen = parameters_of(study)
    return output_rate(
        soft=is_soft(study),
        softmax=study.multiclass,
        eps=as_fraction(study.privacy.epsilon),
        Lambda=as_fraction(study.model.regularization),
        M=study.K,
        N=chosen.auxiliary.records,
        private_auxiliary=chosen.private_auxiliary,
    )


class Grid(NamedTuple):
    """How the released weights travel: ``length`` numbers of ``width`` bytes, each with ``bound`` added.

    Parameters
    ----------
    bound : int
        A weight lies between -bound and bound, in units of 2^-F.
    width : int
        Bytes of a number.
    length : int
        Weights.
    """

    bound: int
    width: int
    length: int

    @classmethod
    def of(cls, study: Study) -> "Grid":
        """Return a study's grid.

        (lambda/2) |w_s|^2 is at most the risk at 0. That is log C for softmax, and at most 1 for the other losses. A
        weight with noise exceeds the bound with a chance of at most 2^-60.
        """
        largest_risk = max(1.0, math.log(classes_of(study)))
        longest = math.ceil(math.sqrt(2 * largest_risk / study.model.regularization)) + 1
        bound, dimensions = longest << FRACTION_BITS, study.outputs * study.d
        if not study.proven:
            bound += l2_tail_bound(beta(study), dimensions, Fraction(1 << FRACTION_BITS))
        return cls(bound, -(-(2 * bound).bit_length() // 8), dimensions)

    def pack(self, weights: tuple[int, ...]) -> bytes:
        """Return weights as they are sent.

        Raises
        ------
        RunFailed
            The noise is larger than a weight's bytes can hold.
        """
        if any(abs(v) > self.bound for v in weights):
            raise RunFailed(
                "the noise on a weight is larger than the message can hold, which has a chance of 2^-60",
                "start the run again, with everybody",
            )
        return pack_numbers([v + self.bound for v in weights], self.width)

    def unpack(self, raw: bytes) -> tuple[int, ...]:
        """Return what :meth:`pack` was given; bytes of another length are Charlie's fault."""
        return tuple(v - self.bound for v in numbers(raw, self.width, self.length, CHARLIE))
