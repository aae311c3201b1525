"""The public numbers of ``input-noise``: its parameters, and the noise, cost and slots that follow from them."""

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from masquerade_core.errors import BadInput
from masquerade_core.learning.input_noise import FRACTION_BITS
from masquerade_core.privacy.noise.gaussian_rounds import check_delta
from masquerade_core.privacy.noise.noisy_copies import access_sensitivity, copies_delta, copies_epsilon, proven_alpha
from masquerade_core.study import Study
from masquerade_protocols.blocks.layouts import Layout, check_slots, layout_of

__all__ = ["RADIUS_BITS", "Parameters", "alpha_of", "check", "cost", "layout", "parameters_of"]

RADIUS_BITS = 32
"""No coordinate of a party's classifier exceeds 2^RADIUS_BITS."""

_LEAST_ALPHA = 2.0**-64


class Parameters(BaseModel):
    """The study's ``[protocol]`` section.

    Training uses each record exactly ``epochs`` times. With ``once``, our correction, one noisy copy of a record is
    kept and used every time. Without it, as in the paper, every use takes new noise and costs again. A label is
    randomised once in either case, if at all. With ``calibration = "proven"`` alpha follows from the privacy target,
    and a study must have one copy of each record and randomised labels, since no other choice can keep the target.
    """

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", hide_input_in_errors=True)

    alpha: Annotated[
        float | None,
        Field(gt=0, allow_inf_nan=False, description="the noise has the scale 1/alpha; no default"),
    ] = None
    noise: Literal["gaussian", "l2"] = "gaussian"
    once: bool = True
    labels: Literal["as they are", "randomised-response"] = "as they are"
    epsilon_y: Annotated[
        float | None, Field(gt=0, allow_inf_nan=False, description="the cost of a label's randomised response")
    ] = None
    batch: Annotated[int, Field(ge=1, le=1_000_000, description="b, examples in a step")] = 1
    epochs: Annotated[int, Field(ge=1, le=10_000, description="how often each record is used")] = 1
    learning_rate: Annotated[float, Field(gt=0, allow_inf_nan=False, description="t, the same at every step")] = 0.05

    @model_validator(mode="after")
    def _labels_and_their_cost(self) -> Self:
        if self.labels == "randomised-response" and self.epsilon_y is None:
            raise ValueError(
                '[protocol] epsilon_y is missing, but labels = "randomised-response" keeps a label with probability '
                "e^epsilon_y/(1 + e^epsilon_y); set epsilon_y, such as 1.0"
            )
        if self.labels == "as they are" and self.epsilon_y is not None:
            raise ValueError(
                f"[protocol] epsilon_y is {self.epsilon_y:g}, but labels are used as they are; "
                'set labels = "randomised-response", or leave epsilon_y out'
            )
        return self

    @property
    def copies(self) -> int:
        """How often noise is added to a record's features."""
        return 1 if self.once else self.epochs


def parameters_of(study: Study) -> Parameters:
    """Return the study's ``[protocol]`` section."""
    return Parameters.model_validate(study.protocol)


def check(study: Study) -> None:
    """Refuse a study that is known to fail, before anybody trains.

    Raises
    ------
    BadInput
        Delta is 0 with Gaussian noise, steps diverge, a key is too short, or :func:`alpha_of` refuses the study.
    """
    chosen, Lambda = parameters_of(study), study.model.regularization
    if chosen.noise == "gaussian":
        check_delta(study.privacy.delta)
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
    check_slots(study, layout(study), "the sum of classifiers", "fewer parties")


def alpha_of(study: Study) -> float:
    """Return alpha: the study's own or, with ``calibration = "proven"``, the one that keeps the privacy target.

    Raises
    ------
    BadInput
        alpha is missing, or it stands beside a proven calibration, or no alpha keeps the target with these parameters.
    """
    chosen = parameters_of(study)
    if not study.proven:
        if chosen.alpha is None:
            raise BadInput("[protocol] alpha is missing", "set alpha: the noise on a record has the scale 1/alpha")
        return chosen.alpha
    if chosen.alpha is not None:
        raise BadInput(
            f'[protocol] alpha is {chosen.alpha:g}, but with calibration = "proven" it follows from epsilon and delta',
            'leave alpha out, or set calibration = "paper"',
        )
    if not chosen.once:
        raise BadInput(
            '[protocol] once is false, but with calibration = "proven" noise is added to each record once: new noise '
            "at every use would cost privacy again, and teach nothing that the kept copy does not",
            "set once = true",
        )
    if chosen.epsilon_y is None:
        raise BadInput(
            '[protocol] labels is "as they are", but calibration = "proven" also covers labels, and nothing can be '
            "proved of a label without noise",
            'set labels = "randomised-response", and epsilon_y to a label\'s share of epsilon, such as a third of it',
        )
    return proven_alpha(
        law=chosen.noise,
        epsilon=study.privacy.epsilon,
        epsilon_y=chosen.epsilon_y,
        delta=study.privacy.delta,
        sensitivity=access_sensitivity(study.d, FRACTION_BITS),
    )


def layout(study: Study) -> Layout:
    """Lay out sum_j n_j theta_j, in units of 2^-F, and N = sum_j n_j.

    No coordinate of theta_j exceeds 2^RADIUS_BITS, so the slots follow from public numbers alone.
    """
    largest = study.max_records << (RADIUS_BITS + FRACTION_BITS)
    return layout_of(study, study.d + 1, study.K * largest)


def cost(study: Study) -> tuple[float, float]:
    """Return the proved epsilon and delta, of a record's features and, if that is randomised, of its label."""
    chosen, delta = parameters_of(study), study.privacy.delta
    if study.proven:
        target = study.privacy.epsilon
        return target, delta if chosen.noise == "gaussian" else copies_delta(law="l2", copies=1, epsilon=target)
    epsilon = copies_epsilon(
        law=chosen.noise,
        alpha=alpha_of(study),
        copies=chosen.copies,
        delta=delta,
        sensitivity=access_sensitivity(study.d, FRACTION_BITS),
        epsilon_y=chosen.epsilon_y or 0.0,
    )
    return epsilon, copies_delta(law=chosen.noise, copies=chosen.copies, epsilon=epsilon, delta=delta)
